// wgmma used wrongly is stopped on its line.
#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/async_test_support.h"

namespace hone::emulator {
namespace {

constexpr char kFaults[] = "wgmma_faults.cu";

const Module& Faults() {
  static const Module* module = new Module(CompileTestdata(kFaults));
  return *module;
}

// A and B of m64n8k16, small numbers; without a swizzle rows are in order.
std::vector<uint32_t> FaultInput() {
  std::vector<uint32_t> in(576);
  for (size_t i = 0; i < in.size(); ++i) {
    const uint32_t low = Encode16<Half>(static_cast<int>(i % 5) - 2);
    const uint32_t high = Encode16<Half>(static_cast<int>(i % 3) - 1);
    in[i] = high << 16 | low;
  }
  return in;
}

absl::Status RunFault(const std::string& kernel, uint32_t threads,
                      CopyLanding landing, uint64_t seed,
                      std::vector<float>* out) {
  std::vector<uint32_t> in = FaultInput();
  out->assign(512, -1);
  Options options;
  options.landing = landing;
  options.seed = seed;
  options.max_instructions = 1'000'000;
  return RunPlan(Faults(), PlanFor(kernel, {1, 1, 1}, {threads, 1, 1}, 576 * 4),
                 in, *out, options)
      .status();
}

TEST(WgmmaTest, MovesRenameAccumulators) {
  std::vector<float> right, renamed;
  ASSERT_TRUE(RunFault("right", 128, CopyLanding::kLatest, 1, &right).ok());
  for (const CopyLanding landing :
       {CopyLanding::kEarliest, CopyLanding::kLatest}) {
    const absl::Status status = RunFault("renamed", 128, landing, 1, &renamed);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(renamed, right);
  }
}

struct FaultCase {
  std::string kernel;
  std::vector<std::string> one_of;  // one of these is in the message
  std::string line;
  std::string conflict;
  uint32_t threads = 128;
};
void PrintTo(const FaultCase& test, std::ostream* out) { *out << test.kernel; }

class WgmmaFaultTest : public testing::TestWithParam<FaultCase> {};

TEST_P(WgmmaFaultTest, IsCaughtUnderEverySchedule) {
  const FaultCase& test = GetParam();
  for (const CopyLanding landing :
       {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      std::vector<float> out;
      const absl::Status status =
          RunFault(test.kernel, test.threads, landing, seed, &out);
      ASSERT_EQ(status.code(), absl::StatusCode::kAborted) << status;
      const std::string message(status.message());
      EXPECT_TRUE(std::any_of(
          test.one_of.begin(), test.one_of.end(),
          [&](const auto& word) { return absl::StrContains(message, word); }))
          << message;
      for (const std::string& marker : {test.line, test.conflict}) {
        if (marker.empty()) continue;
        EXPECT_TRUE(absl::StrContains(message, LineOf(kFaults, marker)))
            << marker << ": " << message;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WgmmaFaultTest,
    testing::Values(
        FaultCase{"overwritten_accumulator",
                  {"register in flight: the instruction touches an accumulator",
                   "register in flight: the instruction overwrites an "
                   "accumulator"},
                  "overwritten_accumulator",
                  "overwritten_mma"},
        FaultCase{"touched_operand",
                  {"register in flight: the instruction touches an A operand"},
                  "touched_operand",
                  "touched_mma"},
        FaultCase{"operand_after_fence",
                  {"missing wgmma.fence: an A operand was touched after"},
                  "operand_after_fence"},
        FaultCase{"other_shape",
                  {"missing wgmma.fence: an accumulator was last used by a "
                   "wgmma of another shape"},
                  "other_shape"},
        FaultCase{"stored_operand",
                  {"overwritten operand: shared write of 4 bytes at byte 2048"},
                  "stored_operand",
                  "stored_operand_mma"},
        // Whoever comes first, the other's access is not ordered after it.
        FaultCase{"stored_by_another",
                  {"overwritten operand: shared write", "race: shared wgmma"},
                  "stored_by_another",
                  "stored_by_another_mma",
                  160},
        FaultCase{"not_waited", {"wgmma not waited for"}},
        FaultCase{"out_of_bounds",
                  {"out of bounds: shared wgmma read of B of 16 bytes"},
                  "out_of_bounds"},
        FaultCase{"one_warp_missing",
                  {"waits for the other warps of warpgroup 0 (warps 0x7"},
                  "one_warp_missing"},
        FaultCase{
            "other_instruction",
            {"divergence: warp", "waits for the other warps of warpgroup"}},
        FaultCase{"right",
                  {"wgmma needs a warpgroup of four warps; the CTA has only 3"},
                  "",
                  "",
                  96}),
    [](const auto& info) { return info.param.kernel; });

}  // namespace
}  // namespace hone::emulator
