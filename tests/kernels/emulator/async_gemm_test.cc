// A Hopper GEMM, tensor copies into wgmma, computes the right thing under
// every schedule; each of its mutants is caught, with the right message.
#include <algorithm>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/async_test_support.h"

namespace hone::emulator {
namespace {

using ::testing::HasSubstr;

constexpr int kM = 256, kN = 128, kK = 512;

struct Problem {
  std::vector<uint16_t> a, b, c;
  Problem() : a(kM * kK), b(kN * kK), c(kM * kN, 0xdead) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> value(-8, 8);
    for (uint16_t& x : a) x = Encode16<Half>(value(random) * 0.25);
    for (uint16_t& x : b) x = Encode16<Half>(value(random) * 0.5);
  }
};

LaunchPlan Plan(bool cluster) {
  LaunchPlan plan;
  plan.kernel_name = "async_gemm";
  plan.grid = {kM / 128, kN / 64, 1};
  plan.block = {384, 1, 1};
  if (cluster) plan.cluster = {2, 1, 1};
  plan.smem_bytes = 3 * (16384 + 8192) + 16384 + 48;
  using E = TensorMap::Element;
  plan.tensor_maps = {
      MatrixMap(BufferRole::kA, E::kF16, kK, kM, 64, 128,
                TensorMap::Swizzle::k128B),
      MatrixMap(BufferRole::kB, E::kF16, kK, kN, 64, cluster ? 32 : 64,
                TensorMap::Swizzle::k128B),
      MatrixMap(BufferRole::kC, E::kF16, kN, kM, 64, 128),
  };
  plan.args = {Map(0), Map(1), Map(2), Int(kK)};
  return plan;
}

absl::StatusOr<Stats> RunGemm(const Module& module, Problem& problem,
                              CopyLanding landing, uint64_t seed,
                              bool cluster = false) {
  Bindings bindings;
  bindings[BufferRole::kA] = BufferOf(problem.a, false);
  bindings[BufferRole::kB] = BufferOf(problem.b, false);
  bindings[BufferRole::kC] = BufferOf(problem.c, true, false);
  Options options;
  options.seed = seed;
  options.landing = landing;
  options.max_instructions = 10'000'000;
  return Execute(module, Plan(cluster), bindings, options);
}

void ExpectRight(const Module& module, bool cluster) {
  for (const CopyLanding landing :
       {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      Problem problem;
      const auto stats = RunGemm(module, problem, landing, seed, cluster);
      ASSERT_TRUE(stats.ok()) << stats.status();
      EXPECT_EQ(stats->wgmma, kM / 64 * kN / 64 * kK / 16);
      for (int m = 0; m < kM; ++m) {
        for (int n = 0; n < kN; ++n) {
          double sum = 0;
          for (int k = 0; k < kK; ++k) {
            sum += double{Decode16<Half>(problem.a[m * kK + k])} *
                   Decode16<Half>(problem.b[n * kK + k]);
          }
          // Every partial sum is a multiple of 1/8 that float32 holds.
          ASSERT_EQ(problem.c[m * kN + n], Encode16<Half>(sum))
              << "at " << m << ", " << n;
        }
      }
    }
  }
}

TEST(AsyncGemmTest, ComputesUnderEverySchedule) {
  ExpectRight(CompileTestdata("async_gemm.cu"), /*cluster=*/false);
}

TEST(AsyncGemmTest, ComputesInClustersWithMulticast) {
  ExpectRight(CompileTestdata("async_gemm.cu", {"CLUSTER"}), /*cluster=*/true);
}

struct Mutant {
  std::string macro;
  std::vector<std::string> words;  // all in the message
  std::string line;                // marker of a line that it names, or empty
  std::string conflict;            // of the other access
  // Which of several faults comes first may depend on the schedule: then one
  // of these is in the message.
  std::vector<std::string> one_of = {""};
  bool cluster = false;
};

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.macro; }

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsCaughtUnderEverySchedule) {
  const Mutant& mutant = GetParam();
  const Module module = CompileTestdata(
      "async_gemm.cu", mutant.cluster
                           ? std::vector<std::string>{mutant.macro, "CLUSTER"}
                           : std::vector<std::string>{mutant.macro});
  for (const CopyLanding landing :
       {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      Problem problem;
      const absl::Status status =
          RunGemm(module, problem, landing, seed, mutant.cluster).status();
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", landing "
                                      << static_cast<int>(landing));
      ASSERT_EQ(status.code(), absl::StatusCode::kAborted) << status;
      const std::string message(status.message());
      EXPECT_THAT(message, HasSubstr("kernel async_gemm, CTA ("));
      for (const std::string& word : mutant.words) {
        EXPECT_THAT(message, HasSubstr(word));
      }
      for (const std::string& marker : {mutant.line, mutant.conflict}) {
        if (marker.empty()) continue;
        EXPECT_THAT(message, HasSubstr(LineOf("async_gemm.cu", marker)));
      }
      EXPECT_TRUE(std::any_of(mutant.one_of.begin(), mutant.one_of.end(),
                              [&](const std::string& word) {
                                return absl::StrContains(message, word);
                              }))
          << message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, MutantTest,
    testing::Values(
        Mutant{"MISSING_WAIT", {"copy not waited for", "wgmma read of"}, "MMA"},
        // A consumer that waits for the wrong parity does not wait at all, or,
        // if it comes late, for a phase too many.
        Mutant{"WRONG_PHASE_CONSUMER",
               {},
               "",
               "",
               {"copy not waited for: shared wgmma read of",
                ", for phase 1 (parity 1)"}},
        Mutant{"WRONG_PHASE_PRODUCER",
               {"deadlock", ", for phase 0 (parity 0) of the mbarrier",
                "0 of 2 arrivals", "0 of 0 bytes"},
               "WRONG_PHASE_PRODUCER",
               "WAIT_FULL"},
        Mutant{"NO_RELEASE",
               {"deadlock", "of the mbarrier at byte 90136 of dynamic",
                "0 of 2 arrivals"},
               "WAIT_FULL"},
        Mutant{"TOO_MANY_BYTES",
               {"wrong byte count",
                "expects 24592 bytes, of which 24576 have arrived"},
               "WAIT_FULL"},
        // The phase completes when the first load lands, or never.
        Mutant{"TOO_FEW_BYTES",
               {},
               "",
               "",
               {"copy not waited for: shared wgmma read of",
                "wrong byte count: phase 0 of the mbarrier at byte 90112 of "
                "dynamic shared memory expects 16384 bytes, of which 24576"}},
        Mutant{"SHARED_STAGE",
               {"copy not waited for", "shared bulk write"},
               "SHARED_STAGE",
               "LOAD_A"},
        Mutant{"MISSING_INIT_FENCE",
               {"missing proxy fence", "init of the mbarrier"},
               "LOAD_A",
               "INIT"},
        Mutant{"MISSING_INIT_SYNC",
               {},
               "",
               "",
               {"no mbarrier", "is not synchronized with its init by warp 0"}},
        Mutant{"MISSING_PROXY_FENCE",
               {"missing proxy fence", "shared bulk read"},
               "STORE_TILE",
               "STORE_C"},
        Mutant{"GENERIC_WRITE",
               {"missing proxy fence", "wgmma read of A"},
               "MMA",
               "GENERIC_WRITE"},
        Mutant{"PLANTED_RACE",
               {},
               "STORE_TILE",
               "",
               {"race: shared bulk read", "uninitialized: shared bulk read",
                "overwritten source: shared write"}},
        Mutant{"OVERWRITTEN_SOURCE",
               {"overwritten source", "shared write"},
               "OVERWRITTEN_SOURCE",
               "STORE_TILE"},
        Mutant{"STORE_NOT_WAITED",
               {"copy not waited for: the CTA exits"},
               "STORE_TILE"},
        Mutant{"EARLY_RELEASE",
               {"overwritten operand", "shared bulk write",
                "the wgmma of warpgroup"},
               "MMA"},
        Mutant{"MISSING_WGMMA_FENCE",
               {"missing wgmma.fence: none precedes"},
               "MMA"},
        Mutant{"TOUCHED_AFTER_FENCE",
               {"missing wgmma.fence", "was touched after the last one"},
               "MMA",
               "TOUCHED_AFTER_FENCE"},
        Mutant{"READ_IN_FLIGHT",
               {"register in flight", "touches an accumulator"},
               "READ_IN_FLIGHT",
               "MMA"},
        Mutant{"MISSING_COMMIT",
               {},
               "MMA",
               "",
               {"register in flight", "overwritten operand"}},
        Mutant{"DIVERGED", {"divergence", "has another A descriptor"}, "MMA"},
        // One CTA's half of B does not reach the other.
        Mutant{"MISSING_PEER",
               {"wrong byte count", "expects 24576 bytes, of which 20480"},
               "WAIT_FULL",
               "",
               {""},
               true},
        Mutant{"MISSING_CLUSTER_SYNC",
               {},
               "",
               "",
               {"nothing orders this after the start of that CTA",
                "is not synchronized with its init"},
               true},
        // A CTA reloads a stage that its peer still multiplies.
        Mutant{"RELEASE_OWN_ONLY",
               {},
               "LOAD_HALF",
               "",
               {"overwritten operand: shared bulk write",
                "copy not waited for: shared bulk write"},
               true},
        Mutant{"MISSING_EXIT_SYNC",
               {},
               "",
               "",
               {"that CTA has exited", "shared memory may still be in use",
                "the CTA exits while this bulk copy to its shared memory"},
               true}),
    [](const auto& info) { return info.param.macro; });

}  // namespace
}  // namespace hone::emulator
