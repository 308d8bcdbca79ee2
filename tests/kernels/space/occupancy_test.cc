#include "kernels/space/occupancy.h"

#include "gtest/gtest.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

DeviceSpec Device(const std::string& name) { return *ModelledDevice(name); }

// 128 threads, along K.
TuningConfig FourWarps() {
  TuningConfig config;
  config.block_m = config.warp_m = 8;
  config.block_n = config.warp_n = 64;
  config.block_k = 256;
  config.warp_k = 64;
  return config;
}

// Three warpgroups, whose CTAs take several tiles.
TuningConfig Streaming() {
  TuningConfig config;
  config.mma = MmaInstruction::kWgmma;
  config.producer_a = config.producer_b = config.producer_scale =
      Producer::kTma;
  config.warp_specialized = true;
  config.block_m = config.warp_m = 128;
  config.block_n = 256;
  config.warp_n = 32;
  config.block_k = config.warp_k = 128;
  return config;
}

TEST(OccupancyTest, EachResourceLimits) {
  const TuningConfig config = FourWarps();
  const DeviceSpec h200 = Device("h200");
  ASSERT_EQ(config.threads(), 128);
  // 2048 threads over 128.
  Occupancy o = OccupancyOf(h200, config, {32, 1024, 0});
  EXPECT_EQ(o.ctas, 16);
  EXPECT_EQ(o.limit, SmLimit::kThreads);
  EXPECT_EQ(o.by_registers, 16);  // 65536 / (32 * 128)
  EXPECT_EQ(o.by_smem, 114);      // 233472 / 2048
  EXPECT_EQ(o.by_slots, 32);
  EXPECT_EQ(o.by_launch, 0);
  // 121 registers are 128 by grain.
  o = OccupancyOf(h200, config, {121, 1024, 0});
  EXPECT_EQ(o.ctas, 4);
  EXPECT_EQ(o.limit, SmLimit::kRegisters);
  // 233472 / (75000 + 1024) = 3.07
  o = OccupancyOf(h200, config, {32, 75000, 0});
  EXPECT_EQ(o.ctas, 3);
  EXPECT_EQ(o.limit, SmLimit::kSharedMemory);
  EXPECT_EQ(OccupancyOf(h200, config, {32, 300000, 0}).ctas, 0);
}

TEST(OccupancyTest, SlotsAndSystemMemoryDependOnTheArchitecture) {
  TuningConfig one_warp = FourWarps();
  one_warp.block_k = 64;
  ASSERT_EQ(one_warp.threads(), 32);
  const Occupancy ada = OccupancyOf(Device("rtx4090"), one_warp, {32, 1024, 0});
  EXPECT_EQ(ada.ctas, 24);
  EXPECT_EQ(ada.limit, SmLimit::kCtaSlots);
  // SM75 keeps nothing of a CTA's shared memory: 65536 / 32768.
  EXPECT_EQ(OccupancyOf(Device("t4"), one_warp, {32, 32768, 0}).ctas, 2);
  // 167936 / (83968 - 1024 + 1024) = 2 on SM80.
  EXPECT_EQ(OccupancyOf(Device("a100"), one_warp, {32, 82944, 0}).ctas, 2);
  EXPECT_EQ(OccupancyOf(Device("a100"), one_warp, {32, 82945, 0}).ctas, 1);
}

TEST(OccupancyTest, CtasOfSeveralTilesAreLaunchedForCtasPerSm) {
  TuningConfig config = Streaming();
  ASSERT_TRUE(StreamsTiles(config));
  // Two would fit: 384 threads of 72 registers, 100 KB.
  const KernelFootprint footprint = {72, 100 << 10, 0};
  Occupancy o = OccupancyOf(Device("h200"), config, footprint);
  EXPECT_EQ(o.by_registers, 2);
  EXPECT_EQ(o.by_smem, 2);
  EXPECT_EQ(o.ctas, 1);
  EXPECT_EQ(o.limit, SmLimit::kLaunch);
  config.ctas_per_sm = 2;
  o = OccupancyOf(Device("h200"), config, footprint);
  EXPECT_EQ(o.ctas, 2);
  EXPECT_EQ(o.limit, SmLimit::kRegisters);
}

TEST(OccupancyTest, EstimateIsWhatTheLaunchAllocates) {
  Problem problem;
  problem.layer.n = problem.layer.k = 8192;
  const TuningConfig config = Streaming();
  // 512 registers of each lane position over three warpgroups, in eights.
  EXPECT_GT(EstimateRegisters(problem, config), 168);
  const KernelFootprint footprint = EstimateFootprint(problem, config);
  EXPECT_EQ(footprint.registers, 168);
  EXPECT_EQ(footprint.smem_bytes, SmemBytes(problem, config));
  EXPECT_EQ(OccupancyOf(Device("h200"), config, footprint).by_registers, 1);
}

TEST(WavesTest, LastWave) {
  Waves waves = WavesOf(331, 132);
  EXPECT_EQ(waves.full, 2);
  EXPECT_EQ(waves.rest, 67);
  EXPECT_DOUBLE_EQ(waves.count, 331.0 / 132);
  EXPECT_DOUBLE_EQ(waves.last_fill, 67.0 / 132);
  waves = WavesOf(264, 132);
  EXPECT_EQ(waves.full, 2);
  EXPECT_EQ(waves.rest, 0);
  EXPECT_DOUBLE_EQ(waves.last_fill, 1);
  waves = WavesOf(1, 132);
  EXPECT_EQ(waves.full, 0);
  EXPECT_DOUBLE_EQ(waves.last_fill, 1.0 / 132);
}

}  // namespace
}  // namespace hone
