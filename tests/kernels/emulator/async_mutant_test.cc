// Mutants of a pipelined Hopper GEMM, each with one fault planted, are caught
// with the right message under every schedule.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/emulator/async_test_support.h"

namespace hone::emulator {
namespace {

using ::testing::HasSubstr;

absl::Status RunGemm(const Module& module, CopyLanding landing, uint64_t seed,
                     bool cluster) {
  // Halves of 1: what they sum up to does not matter here.
  std::vector<uint16_t> a(kAsyncGemmM * kAsyncGemmK, 0x3800);
  std::vector<uint16_t> b(kAsyncGemmN * kAsyncGemmK, 0x3800);
  std::vector<uint16_t> c(kAsyncGemmM * kAsyncGemmN);
  Bindings bindings;
  bindings[BufferRole::kA] = BufferOf(a, false);
  bindings[BufferRole::kB] = BufferOf(b, false);
  bindings[BufferRole::kC] = BufferOf(c, true, false);
  Options options;
  options.seed = seed;
  options.landing = landing;
  options.max_instructions = 10'000'000;
  return Execute(module, AsyncGemmPlan(cluster), bindings, options).status();
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
      const absl::Status status =
          RunGemm(module, landing, seed, mutant.cluster);
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
        Mutant{"MISSING_WAIT",
               {},
               "MMA",
               "",
               {"copy not waited for: shared wgmma read of",
                "uninitialized: shared wgmma read of"}},
        // A consumer that waits for the wrong parity does not wait at all, or,
        // if it comes late, for a phase too many.
        Mutant{"WRONG_PHASE_CONSUMER",
               {},
               "",
               "",
               {"copy not waited for: shared wgmma read of",
                "uninitialized: shared wgmma read of",
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
        Mutant{"MISSING_INIT_FENCE",
               {"is not synchronized with its init"},
               "INIT",
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
    [](const auto& info) {
      return info.param.macro + (info.param.cluster ? "_CLUSTER" : "");
    });

}  // namespace
}  // namespace hone::emulator
