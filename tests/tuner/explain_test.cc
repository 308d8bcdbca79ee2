#include "tuner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hone {
namespace {

Problem W4A16(int64_t n, int64_t k) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

DeviceSpec H200() { return *ModelledDevice("h200"); }

// Eight warps along K, each with a ring of its own.
TuningConfig Decode() {
  TuningConfig config;
  config.block_m = config.warp_m = 8;
  config.block_n = config.warp_n = 64;
  config.block_k = 512;
  config.warp_k = 64;
  config.stages = 4;
  return config;
}

// Two math warpgroups and a producer, in pairs that share activations.
TuningConfig Prefill() {
  TuningConfig config;
  config.mma = MmaInstruction::kWgmma;
  config.producer_a = config.producer_b = config.producer_scale =
      Producer::kTma;
  config.warp_specialized = true;
  config.block_m = config.warp_m = 128;
  config.block_n = 256;
  config.warp_n = 32;
  config.block_k = config.warp_k = 128;
  config.cluster_n = 2;
  return config;
}

Explanation ExplainLegal(const Problem& problem, const TuningConfig& config,
                         int64_t m, const KernelFootprint& footprint) {
  for (const Refusal& refusal : AllRefusals(problem, H200(), config))
    ADD_FAILURE() << refusal.rule << ": " << refusal.reason;
  return Explain(problem, H200(), config, m, footprint);
}

TEST(ExplainTest, DecodingByHand) {
  const Problem problem = W4A16(8192, 8192);
  const Explanation e =
      ExplainLegal(problem, Decode(), 1, {96, 4 * 25600 + 16, 0});

  // Weights, scales of 64 groups, a row of activations, a row of output.
  const double bytes =
      8192.0 * 8192 / 2 + 8192.0 * 64 * 2 + 8192 * 2 + 8192 * 2;
  EXPECT_DOUBLE_EQ(e.floors.bytes, bytes);
  EXPECT_DOUBLE_EQ(e.floors.bytes_ns(), bytes / 4300);
  EXPECT_DOUBLE_EQ(e.floors.operations, 2.0 * 8192 * 8192);
  EXPECT_DOUBLE_EQ(e.floors.mma_ns(), 2.0 * 8192 * 8192 / 883e3);
  EXPECT_TRUE(e.floors.memory_binds());
  EXPECT_DOUBLE_EQ(e.floors.ns(), FloorNs(problem, H200(), 1));

  EXPECT_EQ(e.mma_shape, "m16n8k16");
  EXPECT_EQ(e.m.tiles, 1);
  EXPECT_EQ(e.m.covered, 8);
  EXPECT_EQ(e.n.tiles, 128);
  EXPECT_EQ(e.n.covered, 8192);
  EXPECT_EQ(e.k.tiles, 16);
  EXPECT_DOUBLE_EQ(e.padding, 7.0 / 8);
  EXPECT_EQ(e.pieces, 128);
  EXPECT_EQ(e.ctas, 128);
  EXPECT_EQ(e.workspace_bytes, 0u);

  // 65536 / (96 * 256) = 2.7, 233472 / (102416 + 1024) = 2.3
  EXPECT_EQ(e.occupancy.ctas, 2);
  EXPECT_EQ(e.occupancy.limit, SmLimit::kRegisters);
  EXPECT_EQ(e.slots, 264);
  EXPECT_EQ(e.waves.full, 0);
  EXPECT_DOUBLE_EQ(e.waves.last_fill, 128.0 / 264);
  // There are fewer CTAs than SMs.
  EXPECT_EQ(e.running, 1);
  EXPECT_EQ(e.running_warps, 8);
  EXPECT_EQ(e.max_warps, 64);

  // Of a ring: 8 x 64 activations, 64 x 64 weights, 64 scales.
  EXPECT_EQ(e.stage_bytes, 8 * (8 * 64 * 2 + 64 * 64 / 2 + 64 * 2));
  // Three stages of one row of activations, weights and scales; a scale spans
  // two warps' columns.
  EXPECT_DOUBLE_EQ(e.in_flight,
                   3 * (512 * 2 + 64 * 512 / 2 + 64.0 * 2 * 512 / 128));
  EXPECT_DOUBLE_EQ(e.in_flight_least, 4300.0 * 1000 / 132);
  EXPECT_DOUBLE_EQ(e.in_flight_wanted, 1.5 * 4300.0 * 1000 / 132);
}

TEST(ExplainTest, PrefillByHand) {
  const Problem problem = W4A16(8192, 8192);
  const Explanation e =
      ExplainLegal(problem, Prefill(), 4000, {168, 220000, 0});
  EXPECT_FALSE(e.floors.memory_binds());
  EXPECT_DOUBLE_EQ(e.floors.ns(), 2.0 * 4000 * 8192 * 8192 / 883e3);
  EXPECT_EQ(e.mma_shape, "m64n128k16");
  EXPECT_EQ(e.m.tiles, 32);
  EXPECT_EQ(e.m.covered, 4096);
  EXPECT_EQ(e.n.tiles, 32);
  EXPECT_DOUBLE_EQ(e.padding, 96.0 / 4096);
  EXPECT_EQ(e.pieces, 1024);
  EXPECT_EQ(e.cluster, 2);
  // One CTA an SM takes seven or eight tiles.
  EXPECT_EQ(e.ctas, 132);
  EXPECT_EQ(e.slots, 132);
  EXPECT_EQ(e.waves.full, 7);
  EXPECT_EQ(e.waves.rest, 100);
  EXPECT_EQ(e.cta_warps, 12);
  EXPECT_EQ(e.running_warps, 12);
  EXPECT_EQ(e.warpgroups.launch, 168);
  EXPECT_EQ(e.warpgroups.producer, 24);
  EXPECT_EQ(e.warpgroups.math, 240);
}

TEST(ExplainTest, ClustersRoundTilesAndSlots) {
  const Problem problem = W4A16(8192 - 256, 8192);
  DeviceSpec device = H200();
  device.sm_count = 131;
  const Explanation e =
      Explain(problem, device, Prefill(), 128, {168, 220000, 0});
  // 31 tiles of channels, and one that fills the last pair up.
  EXPECT_EQ(e.n.tiles, 32);
  EXPECT_DOUBLE_EQ(e.padding, 1.0 / 32);
  EXPECT_EQ(e.slots, 130);
}

TEST(ExplainTest, SplitKNeedsAWorkspace) {
  TuningConfig config = Decode();
  config.split = Split::kSplitK;
  config.split_k = 4;
  const Explanation e =
      ExplainLegal(W4A16(1280, 8192), config, 8, {96, 102416, 0});
  EXPECT_EQ(e.pieces, 20 * 4);
  EXPECT_EQ(e.ctas, 80);
  EXPECT_DOUBLE_EQ(e.padding, 0);
  // Counters of 20 tiles, then float32 tiles of every split.
  EXPECT_EQ(e.workspace_bytes, 256u + 20 * 4 * 8 * 64 * 4);
}

TEST(ExplainTest, LegalConfigsFitAsOftenAsTheyPromise) {
  int64_t explained = 0;
  for (const std::string& name : ModelledDeviceNames()) {
    const DeviceSpec device = *ModelledDevice(name);
    for (const Problem& problem : {W4A16(8192, 8192), W4A16(1280, 8256)}) {
      const std::vector<TuningConfig> all = Enumerate(problem, device, 8192);
      for (size_t i = 0; i < all.size(); i += 1 + all.size() / 500) {
        const TuningConfig& config = all[i];
        for (const int64_t m : {1, 65, 5000}) {
          const Explanation e = Explain(problem, device, config, m,
                                        EstimateFootprint(problem, config));
          SCOPED_TRACE(name + " " + config.ToString());
          EXPECT_GE(e.occupancy.ctas, config.ctas_per_sm);
          EXPECT_LE(e.running, e.occupancy.ctas);
          // Workers of stream-K share tiles.
          EXPECT_TRUE(e.ctas <= e.pieces || config.workers() > 0);
          EXPECT_GE(e.padding, 0);
          EXPECT_LT(e.padding, 1);
          EXPECT_EQ(e.waves.full * e.slots + e.waves.rest, e.pieces);
          EXPECT_LE(e.in_flight,
                    static_cast<double>(e.footprint.smem_bytes * e.running));
          EXPECT_GT(e.model.total_ns, e.floors.ns());
          ++explained;
        }
      }
    }
  }
  EXPECT_GT(explained, 1000);
}

TEST(ExplainTest, ShapesFollowTypeAndArchitecture) {
  Problem problem = W4A16(8192, 8192);
  const auto shape = [&](const std::string& name) {
    const DeviceSpec device = *ModelledDevice(name);
    const TuningConfig config = HeuristicDefault(problem, device, 1);
    return Explain(problem, device, config, 1,
                   EstimateFootprint(problem, config))
        .mma_shape;
  };
  EXPECT_EQ(shape("a100"), "m16n8k16");
  EXPECT_EQ(shape("t4"), "m16n8k8");
  problem.layer.a = kInt8;
  EXPECT_EQ(shape("a100"), "m16n8k32");
  EXPECT_EQ(shape("t4"), "m8n8k16");
}

TEST(ExplainTest, Achieved) {
  const Floors floors = FloorsOf(W4A16(8192, 8192), H200(), 4096);
  const Achieved achieved = AchievedIn(floors, 700'000);
  EXPECT_DOUBLE_EQ(achieved.tflops, 2.0 * 4096 * 8192 * 8192 / 700e-6 * 1e-12);
  EXPECT_DOUBLE_EQ(achieved.tb_per_s, floors.bytes / 700e-6 * 1e-12);
  EXPECT_DOUBLE_EQ(achieved.fraction, achieved.tflops / 883);
}

}  // namespace
}  // namespace hone
