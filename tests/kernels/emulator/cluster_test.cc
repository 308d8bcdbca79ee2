// Clusters, named barriers, register pools and dependent launches: right
// kernels compute what they should under every schedule, and each planted
// error is caught.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {
namespace {

using ::testing::HasSubstr;

const Module& Kernels() {
  static const Module* module =
      new Module(MustParse(ReadTestdata("cluster.ptx")));
  return *module;
}

LaunchPlan ClusterPlan(const std::string& kernel, uint32_t ctas,
                       uint32_t cluster, uint32_t threads) {
  LaunchPlan plan = PlanFor(kernel, {ctas, 1, 1}, {threads, 1, 1});
  plan.cluster = {cluster, 1, 1};
  return plan;
}

absl::StatusOr<std::vector<int>> LaunchIt(const LaunchPlan& plan, uint64_t seed,
                                          bool in_flight = false) {
  const uint64_t threads = plan.grid.Count() * plan.block.Count();
  std::vector<int> a(threads), c(threads, -1);
  std::iota(a.begin(), a.end(), 1);
  Bindings bindings;
  bindings[BufferRole::kA] = BufferOf(a, /*writable=*/false);
  bindings[BufferRole::kA].in_flight = in_flight;
  bindings[BufferRole::kC] =
      BufferOf(c, /*writable=*/true, /*initialized=*/false);
  Options options;
  options.seed = seed;
  options.max_instructions = 1000000;
  const auto stats = Execute(Kernels(), plan, bindings, options);
  if (!stats.ok()) return stats.status();
  return c;
}

TEST(ClusterTest, CtasExchangeThroughEachOthersSharedMemory) {
  for (const uint32_t cluster : {1, 2, 4, 8}) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const auto c = LaunchIt(ClusterPlan("exchange", 8, cluster, 64), seed);
      ASSERT_TRUE(c.ok()) << c.status();
      for (uint32_t cta = 0; cta < 8; ++cta) {
        const uint32_t first = cta / cluster * cluster;
        const uint32_t next = first + (cta - first + 1) % cluster;
        for (uint32_t t = 0; t < 64; ++t) {
          // The next CTA's tile, backwards. The sum is made by the CTA before,
          // of the tile of its next one: this.
          const int x = static_cast<int>(next * 64 + 63 - t + 1);
          const int own_sum = static_cast<int>(64 * (cta * 64) + 64 * 65 / 2);
          ASSERT_EQ((*c)[cta * 64 + t],
                    x * 1000 + own_sum + static_cast<int>(next - first))
              << "cluster of " << cluster << ", CTA " << cta << ", seed "
              << seed;
        }
      }
    }
  }
}

TEST(ClusterTest, SpecialRegistersTellThePlace) {
  LaunchPlan plan = PlanFor("indices", {4, 4, 1}, {32, 1, 1});
  plan.cluster = {2, 4, 1};
  const auto c = LaunchIt(plan, 1);
  ASSERT_TRUE(c.ok()) << c.status();
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) {
      EXPECT_EQ((*c)[y * 4 + x], x % 2 + 2 * y + 10 * (x % 2) + 100 * y + 2000 +
                                     40000 + 100000 * (x / 2) + 1000000 +
                                     10000000 + 1);
    }
  }
}

TEST(ClusterTest, RefusesGridsThatDoNotFit) {
  const auto code = [](const LaunchPlan& plan) {
    return LaunchIt(plan, 1).status().code();
  };
  EXPECT_EQ(code(ClusterPlan("exchange", 3, 2, 64)),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(ClusterPlan("exchange", 32, 32, 64)),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(ClusterPlan("exchange", 2, 0, 64)),
            absl::StatusCode::kInvalidArgument);
}

TEST(RegisterPoolTest, AnIncreaseWaitsForTheDecrease) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto c = LaunchIt(ClusterPlan("registers_fit", 1, 1, 384), seed);
    EXPECT_TRUE(c.ok()) << c.status();
  }
}

TEST(NamedBarrierTest, ProducersAndConsumersAlternate) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto c = LaunchIt(ClusterPlan("hand_over", 1, 1, 96), seed);
    ASSERT_TRUE(c.ok()) << c.status();
    for (int t = 0; t < 32; ++t) EXPECT_EQ((*c)[t], 2 * t + 2 + 32 + 4);
  }
}

TEST(NamedBarrierTest, Reduces) {
  const auto c = LaunchIt(ClusterPlan("barrier_reductions", 1, 1, 64), 3);
  ASSERT_TRUE(c.ok()) << c.status();
  for (const int x : *c) EXPECT_EQ(x, 32 + 0 + 1000);
}

TEST(DependentLaunchTest, AWaitCountsForWhoeverSynchronizedWithIt) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto c =
        LaunchIt(ClusterPlan("dependent", 1, 1, 64), seed, /*in_flight=*/true);
    ASSERT_TRUE(c.ok()) << c.status();
    EXPECT_EQ((*c)[40], 42);
    const absl::Status missing =
        LaunchIt(ClusterPlan("missing_dependency_wait", 1, 1, 64), seed,
                 /*in_flight=*/true)
            .status();
    EXPECT_EQ(missing.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(std::string(missing.message()),
                HasSubstr(LineOf("cluster.cu", "missing_dependency_wait")));
    EXPECT_TRUE(
        LaunchIt(ClusterPlan("missing_dependency_wait", 1, 1, 64), seed).ok());
  }
}

struct ClusterFault {
  std::string kernel;
  std::vector<std::string> words;    // all in the message
  std::vector<std::string> markers;  // one of these is where it happens
  uint32_t cluster = 2;
  uint32_t threads = 64;
};

class ClusterFaultTest : public testing::TestWithParam<ClusterFault> {};

TEST_P(ClusterFaultTest, IsCaughtUnderEverySchedule) {
  const ClusterFault& test = GetParam();
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    const absl::Status status =
        LaunchIt(
            ClusterPlan(test.kernel, test.cluster, test.cluster, test.threads),
            seed)
            .status();
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << status);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("kernel " + test.kernel + ", CTA ("));
    EXPECT_THAT(message, HasSubstr("cluster.cu:"));
    for (const std::string& word : test.words) {
      EXPECT_THAT(message, HasSubstr(word));
    }
    EXPECT_TRUE(test.markers.empty() ||
                std::any_of(test.markers.begin(), test.markers.end(),
                            [&](const std::string& marker) {
                              return message.find(
                                         LineOf("cluster.cu", marker)) !=
                                     std::string::npos;
                            }));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ClusterFaultTest,
    testing::Values(
        ClusterFault{"race", {"race: "}, {"race_store", "race_load"}},
        ClusterFault{"missing_cluster_wait",
                     {"of the CTA with rank"},
                     {"missing_cluster_wait"}},
        ClusterFault{"relaxed_arrival",
                     {"race: ", "of the CTA with rank"},
                     {"relaxed_arrival"}},
        ClusterFault{"unstarted_peer",
                     {"race: ", "start of that CTA"},
                     {"unstarted_peer"}},
        ClusterFault{"early_exit", {"race: "}, {"early_exit"}},
        ClusterFault{"past_peer",
                     {"out of bounds", "4 bytes at byte 256 of 256"},
                     {"past_peer"}},
        ClusterFault{"no_such_rank", {"rank 2 of 2 CTAs"}, {}},
        ClusterFault{"wrong_window",
                     {"out of bounds: shared::cta read"},
                     {"wrong_window"}},
        ClusterFault{"arrive_twice", {"barrier.cluster", "again"}, {}},
        ClusterFault{"wait_first", {"without having arrived"}, {}},
        ClusterFault{"cluster_deadlock",
                     {"deadlock", "rank 0: warp 0 waits at barrier.cluster",
                      "rank 1: warp 1 waits at barrier 1 (32 of 64 threads)"},
                     {}},
        ClusterFault{"registers_short",
                     {"deadlock", "waits for 224 registers"},
                     {},
                     1,
                     384},
        ClusterFault{"registers_uncapped", {"ptxas ignores it"}, {}, 1, 128},
        ClusterFault{"registers_wrong_way",
                     {".inc to 40 registers, but the warp has 256"},
                     {},
                     1,
                     128},
        ClusterFault{"registers_split", {"and this one for"}, {}, 1, 128},
        ClusterFault{"registers_one_warp", {"executed it"}, {}, 1, 128},
        ClusterFault{"wrong_arrival_count", {}, {}, 1, 96},
        ClusterFault{"mixed_barrier",
                     {"inconsistent barrier 1"},
                     {"mixed_barrier_sync", "mixed_barrier_red"},
                     1}),
    [](const auto& info) { return info.param.kernel; });

}  // namespace
}  // namespace hone::emulator
