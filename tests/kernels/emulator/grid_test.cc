// CTAs that meet in global memory, and what is missing where they race.
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

constexpr uint32_t kCtas = 6;

absl::StatusOr<std::vector<int>> LaunchIt(const std::string& kernel,
                                          uint32_t ctas, uint64_t seed,
                                          int threads = 1) {
  static const Module* module = new Module(MustParse(ReadTestdata("grid.ptx")));
  std::vector<int> a(ctas * 64), c(1 + (ctas + 1) * 64, -1);
  std::iota(a.begin(), a.end(), 1);
  Options options;
  options.seed = seed;
  options.threads = threads;
  const auto stats = RunPlan(*module, PlanFor(kernel, {ctas, 1, 1}, {64, 1, 1}),
                             a, c, options);
  if (!stats.ok()) return stats.status();
  return c;
}

TEST(GridTest, TheLastCtaSumsWhatAllHaveWritten) {
  constexpr int kSum = kCtas * 64 * (kCtas * 64 + 1) / 2;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const std::string kernel : {"sum_ctas", "release_acquire"}) {
      const auto c = LaunchIt(kernel, kCtas, seed);
      ASSERT_TRUE(c.ok()) << c.status();
      EXPECT_EQ((*c)[0], kSum) << kernel;
    }
  }
  const auto c = LaunchIt("sum_ctas", kCtas, 1, /*threads=*/2);
  EXPECT_TRUE(c.ok()) << c.status();
}

struct GridFault {
  std::string kernel;
  std::vector<std::string> words;
  std::vector<std::string> markers;  // all in the message
  uint32_t ctas = kCtas;
};

class GridFaultTest : public testing::TestWithParam<GridFault> {};

TEST_P(GridFaultTest, IsCaughtUnderEverySchedule) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const absl::Status status =
        LaunchIt(GetParam().kernel, GetParam().ctas, seed).status();
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << status);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    const std::string message(status.message());
    for (const std::string& word : GetParam().words) {
      EXPECT_THAT(message, HasSubstr(word));
    }
    for (const std::string& marker : GetParam().markers) {
      EXPECT_THAT(message, HasSubstr(LineOf("grid.cu", marker)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GridFaultTest,
    testing::Values(
        GridFault{"no_release",
                  {"race: global read of 4 bytes", "of buffer C",
                   "earlier write by warp", "of CTA number"},
                  {"sum", "partial"}},
        GridFault{"no_acquire", {"race: global read"}, {"sum", "partial"}},
        GridFault{"no_barrier", {"race: global read"}, {"sum", "partial"}},
        GridFault{"same_element", {"race: global write"}, {"same_element"}},
        GridFault{"warps_race", {}, {}, 1},
        GridFault{"members_differ",
                  {"inconsistent members: shfl.sync"},
                  {"members_differ"},
                  1}),
    [](const auto& info) { return info.param.kernel; });

}  // namespace
}  // namespace hone::emulator
