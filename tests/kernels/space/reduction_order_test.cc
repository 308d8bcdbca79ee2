#include "kernels/space/reduction_order.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

using testing::HasSubstr;

Problem Invariant(int64_t n, int64_t k) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  problem.compute.batch_invariant = true;
  return problem;
}

DeviceSpec Device(const std::string& name) { return *ModelledDevice(name); }

// Legal at every M, and in the problem's order.
void ExpectDefaults(const Problem& problem, const DeviceSpec& device,
                    const std::vector<int64_t>& ms) {
  const ReductionOrder order = InvariantOrder(problem, device);
  for (const int64_t m : ms) {
    const TuningConfig config = HeuristicDefault(problem, device, m);
    const auto refusal = CheckConfig(problem, device, config);
    ASSERT_FALSE(refusal.has_value())
        << device.name << " M = " << m << " " << problem.ToString() << ": "
        << refusal->reason;
    ASSERT_EQ(ReductionOrderOf(config), order) << problem.ToString();
  }
}

std::vector<int64_t> ManyMs() {
  std::vector<int64_t> ms;
  for (int64_t m = 1; m <= 520; ++m) ms.push_back(m);
  for (int64_t m = 521; m <= 40000; m = m * 5 / 4) ms.push_back(m);
  return ms;
}

TEST(ReductionOrderTest, DefaultsAreLegalAndOfOneOrderAtEveryM) {
  for (const std::string& name : ModelledDeviceNames()) {
    for (const auto& [n, k] :
         std::vector<std::pair<int64_t, int64_t>>{{8192, 8192},
                                                  {1, 1},
                                                  {1280, 8192},
                                                  {57344, 8192},
                                                  {70, 33},
                                                  {8192, 28672},
                                                  {64, 1 << 20}}) {
      ExpectDefaults(Invariant(n, k), Device(name), ManyMs());
    }
  }
}

// Every format, both accumulators.
TEST(ReductionOrderTest, EveryFormatHasDefaults) {
  const std::vector<int64_t> ms = {1, 16, 17, 64, 65, 300, 5000};
  for (const std::string& name : ModelledDeviceNames()) {
    const DeviceSpec device = Device(name);
    for (const LayerConfig& layer : AllFormats(1280, 4096)) {
      Problem problem;
      problem.layer = layer;
      problem.compute.batch_invariant = true;
      if (!HasActivation(layer.a, device)) continue;
      ASSERT_TRUE(CheckProblem(problem, device).ok()) << problem.ToString();
      ExpectDefaults(problem, device, ms);
      if (layer.a != kFloat16) continue;
      problem.compute.accumulator = kFloat16;
      ExpectDefaults(problem, device, ms);
    }
  }
}

// What is tuned: nothing else is legal, and group scales have one place.
TEST(ReductionOrderTest, EveryEnumeratedConfigHasTheOrder) {
  for (const char* name : {"h200", "a100", "rtx4090", "t4"}) {
    const DeviceSpec device = Device(name);
    for (const Problem& problem :
         {Invariant(8192, 8192), Invariant(1280, 8192), Invariant(8192, 712)}) {
      const ReductionOrder order = InvariantOrder(problem, device);
      const std::vector<TuningConfig> configs =
          Enumerate(problem, device, 8192);
      EXPECT_GT(configs.size(), 50) << name;
      bool few = false;
      bool many = false;
      for (const TuningConfig& config : configs) {
        ASSERT_EQ(ReductionOrderOf(config), order) << config.ToString();
        ASSERT_FALSE(ScalesAfterMma(problem, config)) << config.ToString();
        few = few || config.block_m == 8;
        many = many || config.block_m * config.block_n >= 64 * 64;
      }
      EXPECT_TRUE(few && many) << name;
    }
  }
}

// Cards of one architecture agree, whatever their size.
TEST(ReductionOrderTest, DependsOnTheArchitectureAlone) {
  DeviceSpec small = Device("h200");
  small.sm_count = 78;
  small.l2_bytes /= 2;
  small.memory_gbps /= 2;
  for (const int64_t n : {64, 1280, 8192, 57344}) {
    EXPECT_EQ(InvariantOrder(Invariant(n, 8192), small),
              InvariantOrder(Invariant(n, 8192), Device("h200")));
  }
}

TEST(ReductionOrderTest, FollowsFromTheProblem) {
  const DeviceSpec h200 = Device("h200");
  EXPECT_EQ(InvariantOrder(Invariant(8192, 8192), h200),
            (ReductionOrder{MmaInstruction::kWgmma, 256, 128, 1}));
  // Few channels: K is split, as far as its parts stay long.
  EXPECT_EQ(InvariantOrder(Invariant(4096, 8192), h200).split_k, 2);
  EXPECT_EQ(InvariantOrder(Invariant(1280, 8192), h200).split_k, 4);
  EXPECT_EQ(InvariantOrder(Invariant(1280, 4096), h200).split_k, 2);
  EXPECT_EQ(InvariantOrder(Invariant(1280, 4095), h200).split_k, 1);
  // What wgmma has no kernel for.
  EXPECT_EQ(InvariantOrder(Invariant(8192, 8190), h200),
            (ReductionOrder{MmaInstruction::kMmaSync, 128, 64, 1}));
  EXPECT_EQ(InvariantOrder(Invariant(8192, 8192), Device("a100")),
            (ReductionOrder{MmaInstruction::kMmaSync, 128, 64, 1}));
  // Four-bit activations come in segments of 256 columns.
  Problem int4 = Invariant(8192, 8192);
  int4.layer.a = kInt4;
  int4.layer.a_scale = InputScale::kToken;
  EXPECT_EQ(InvariantOrder(int4, h200),
            (ReductionOrder{MmaInstruction::kMmaSync, 256, 128, 1}));
}

TEST(ReductionOrderTest, RefusalsNameTheFieldAndTheLegalValue) {
  const DeviceSpec h200 = Device("h200");
  const Problem problem = Invariant(8192, 8192);
  const TuningConfig good = HeuristicDefault(problem, h200, 64);
  const auto reason = [&](const TuningConfig& config) {
    const auto refusal = CheckConfig(problem, h200, config);
    EXPECT_TRUE(refusal.has_value()) << config.ToString();
    if (!refusal) return std::string();
    EXPECT_EQ(refusal->rule, "reduction_order");
    return refusal->reason;
  };
  TuningConfig c = good;
  c.block_k = 512;
  EXPECT_EQ(reason(c),
            "tuning.block_k is 512; it must be 256 for this problem with "
            "compute.batch_invariant");
  c = good;
  c.warp_k = 256;
  EXPECT_THAT(reason(c), HasSubstr("tuning.warp_k is 256; it must be 128"));
  c = good;
  c.split = Split::kSplitK;
  c.split_k = 2;
  EXPECT_THAT(reason(c), HasSubstr("tuning.split_k is 2; it must be 1"));
  c = good;
  c.block_n = 192;
  EXPECT_THAT(reason(c),
              HasSubstr("tuning.block_n is 192; it must be 64, 128"));
  c.block_n = 256;
  c.warp_n = 32;
  c.cluster_n = 2;
  EXPECT_THAT(reason(c), HasSubstr("tuning.cluster_n is 2; it must be such"));
  // Tokens as rows of MMAs, which rows of weights may have.
  Problem rows = problem;
  rows.layer.a = rows.layer.b = kFloat8e4m3;
  rows.layer.a_scale = InputScale::kToken;
  rows.layer.b_scale = ScaleGranularity::kChannel;
  rows.layer.b_group = 0;
  c = HeuristicDefault(rows, h200, 64);
  c.block_m = 64;
  c.warp_m = 16;
  c.warp_n = c.block_n;
  const auto refusal = CheckConfig(rows, h200, c);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->rule, "reduction_order");
  EXPECT_THAT(refusal->reason, HasSubstr("it must be 16 or 32"));
  rows.compute.batch_invariant = false;
  EXPECT_FALSE(CheckConfig(rows, h200, c));
  Problem free = problem;
  free.compute.batch_invariant = false;
  c = HeuristicDefault(free, h200, 1);
  EXPECT_THAT(reason(c), HasSubstr("tuning.mma is mma_sync; it must be wgmma"));
  // The same configs are legal where nobody asks for invariance.
  EXPECT_FALSE(CheckConfig(free, h200, c));
  EXPECT_FALSE(CheckConfig(free, h200, good));
}

}  // namespace
}  // namespace hone
