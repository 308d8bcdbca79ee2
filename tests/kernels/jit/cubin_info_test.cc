#include "kernels/jit/cubin_info.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/jit/test_sources.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CompileResult MustCompile(const std::string& source, const std::string& arch) {
  const auto result =
      TestNvrtc().Compile(CompileRequest{.source = source, .arch = arch});
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->ok()) << result->log;
  return *result;
}

// ptxas's log and the cubin are two witnesses of the same figures.
class CubinInfoTest : public testing::TestWithParam<const char*> {};

TEST_P(CubinInfoTest, CubinAgreesWithPtxasLog) {
  const CompileResult result = MustCompile(
      SpillSource() + SharedSource() + StackSource() + StoreSource(3),
      GetParam());
  const auto kernels = ReadCubin(result.cubin);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  const std::vector<PtxasReport> reports = ReadPtxasLog(result.log);
  ASSERT_EQ(kernels->size(), 4u);
  ASSERT_EQ(reports.size(), 4u) << result.log;
  for (const CubinKernel& kernel : *kernels) {
    bool found = false;
    for (PtxasReport report : reports) {
      if (report.name != kernel.name) continue;
      found = true;
      report.resources.spill_store_bytes = 0;
      report.resources.spill_load_bytes = 0;
      EXPECT_EQ(report.resources, kernel.resources)
          << kernel.name << ": " << kernel.resources.registers << " "
          << kernel.resources.static_smem_bytes << " "
          << kernel.resources.stack_bytes << "\n"
          << result.log;
    }
    EXPECT_TRUE(found) << kernel.name;
    if (kernel.name == "shared") {
      EXPECT_EQ(kernel.resources.static_smem_bytes, 512);
    }
    if (kernel.name == "store") {
      EXPECT_EQ(kernel.resources.static_smem_bytes, 0);
      EXPECT_EQ(kernel.resources.stack_bytes, 0);
    }
    if (kernel.name == "stack") {
      EXPECT_EQ(kernel.resources.stack_bytes, 256);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Archs, CubinInfoTest,
                         testing::Values("sm_75", "sm_80", "sm_89", "sm_90a",
                                         "sm_100a", "sm_120a"));

TEST(CubinInfoTest, DamagedCubinsAreErrorsNotCrashes) {
  const std::string good = MustCompile(SharedSource(), "sm_90a").cubin;
  for (size_t size = 0; size < good.size(); size += 7) {
    const auto kernels = ReadCubin(absl::string_view(good).substr(0, size));
    EXPECT_FALSE(kernels.ok()) << size;
  }
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (int flips = 0; flips < 3; ++flips) {
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
    }
    (void)ReadCubin(bad);  // any answer; the sanitizers watch
  }
  EXPECT_EQ(ReadCubin("").status().code(), absl::StatusCode::kDataLoss);
}

TEST(CubinInfoTest, WarningsAreTheLinesThatMatter) {
  EXPECT_THAT(
      WarningsIn("ptxas info    : 0 bytes gmem\n"
                 "ptxas info    : (C7508) Potential Performance Loss: "
                 "'setmaxnreg' ignored to maintain minimum register "
                 "requirements.\n"
                 "ptxas         .     48 bytes stack frame, 52 bytes spill "
                 "stores, 0 bytes spill loads\n"
                 "ptxas         .     0 bytes stack frame, 0 bytes spill "
                 "stores, 0 bytes spill loads\n"
                 "hone.cu(3): warning #177-D: variable \"x\" was declared but "
                 "never referenced\n"
                 "ptxas info    : Used 32 registers\n"),
      ElementsAre(HasSubstr("C7508"), HasSubstr("52 bytes spill"),
                  HasSubstr("#177-D")));
}

TEST(CubinInfoTest, SpillsOfCalledFunctionsCount) {
  const auto reports = ReadPtxasLog(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes "
      "spill loads\n"
      "ptxas info    : Used 30 registers, used 1 barriers, 24 bytes cumulative "
      "stack size, 512 bytes smem\n"
      "ptxas info    : Function properties for f\n"
      "ptxas         .     16 bytes stack frame, 12 bytes spill stores, 20 "
      "bytes spill loads\n");
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].resources, (KernelResources{.registers = 30,
                                                   .static_smem_bytes = 512,
                                                   .stack_bytes = 24,
                                                   .spill_store_bytes = 16,
                                                   .spill_load_bytes = 24}));
}

}  // namespace
}  // namespace hone
