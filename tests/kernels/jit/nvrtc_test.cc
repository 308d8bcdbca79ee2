#include "kernels/jit/nvrtc.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/source_text.h"
#include "kernels/jit/cubin_info.h"
#include "kernels/space/space.h"
#include "tests/kernels/jit/test_sources.h"

namespace hone {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::MatchesRegex;
using testing::Not;

CompileRequest Request(std::string source, std::string arch = "sm_90a") {
  return {.source = std::move(source), .arch = std::move(arch)};
}

TEST(NvrtcTest, KnowsItsVersionAndArchitectures) {
  EXPECT_THAT(TestNvrtc().version(), MatchesRegex("1[2-9]\\.[0-9]+"));
  EXPECT_THAT(TestNvrtc().path(), HasSubstr("nvrtc"));
  EXPECT_THAT(TestNvrtc().supported_archs(),
              IsSupersetOf({75, 80, 86, 89, 90, 100, 120}));
}

TEST(NvrtcTest, MissingNvrtcIsUnavailable) {
  // The dynamic loader may still find one; then there is nothing to test.
  const auto nvrtc = Nvrtc::Create(LibrarySearch{});
  if (nvrtc.ok()) return;
  EXPECT_EQ(nvrtc.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(nvrtc.status().message()),
              HasSubstr("lookups, tables, export"));
}

class NvrtcArchTest : public testing::TestWithParam<const char*> {};

TEST_P(NvrtcArchTest, OneCallGivesCubinAndItsPtx) {
  const auto result = TestNvrtc().Compile(Request(StoreSource(77), GetParam()));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->ok()) << result->log;
  EXPECT_EQ(result->cubin.substr(1, 3), "ELF");
  EXPECT_THAT(result->ptx, HasSubstr(std::string(".target ") + GetParam()));
  EXPECT_THAT(result->ptx, HasSubstr(".entry store("));
  EXPECT_THAT(result->ptx, HasSubstr("77"));
  EXPECT_THAT(result->ptx, Not(HasSubstr(std::string(1, '\0'))));
  EXPECT_GT(result->resources.registers, 0);
  EXPECT_THAT(result->warnings, IsEmpty());
  EXPECT_EQ(result->nvrtc_version, TestNvrtc().version());
}

INSTANTIATE_TEST_SUITE_P(Archs, NvrtcArchTest,
                         testing::Values("sm_75", "sm_80", "sm_86", "sm_89",
                                         "sm_90a", "sm_100a", "sm_120a"));

TEST(NvrtcTest, RefusedSourceIsAResultWithItsLog) {
  const auto result = TestNvrtc().Compile(Request("__global__ void k( {"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, CompileOutcome::kRejected);
  EXPECT_THAT(result->log, HasSubstr("hone.cu(1): error"));
  EXPECT_EQ(result->cubin, "");
  EXPECT_EQ(result->ptx, "");
}

TEST(NvrtcTest, PtxasRefusalIsAResultToo) {
  const auto result = TestNvrtc().Compile(
      Request("extern \"C\" __global__ void k() { asm(\"no.such;\"); }"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, CompileOutcome::kRejected);
  EXPECT_THAT(result->log, HasSubstr("no"));
}

TEST(NvrtcTest, TooMuchStaticSharedMemoryIsAResult) {
  const auto result = TestNvrtc().Compile(Request(
      "extern \"C\" __global__ void k(int* p, int i) {"
      "  __shared__ int s[100000]; s[i] = i; __syncthreads(); *p = s[i+1]; }"));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, CompileOutcome::kRejected);
}

TEST(NvrtcTest, UnknownArchitecturesAndOptionsAreInvalid) {
  EXPECT_EQ(
      TestNvrtc().Compile(Request(StoreSource(1), "sm_1")).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TestNvrtc()
                .Compile(Request(StoreSource(1), "compute_90"))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  CompileRequest request = Request(StoreSource(1));
  request.options = {"--no-such-option"};
  EXPECT_EQ(TestNvrtc().Compile(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(NvrtcTest, SpillsAreCountedAndWarnedAbout) {
  const auto result = TestNvrtc().Compile(Request(SpillSource()));
  ASSERT_TRUE(result.ok() && result->ok());
  EXPECT_EQ(result->resources.registers, 32);
  EXPECT_GT(result->resources.spill_store_bytes, 0);
  EXPECT_GT(result->resources.spill_load_bytes, 0);
  EXPECT_GE(result->resources.stack_bytes, 4);
  EXPECT_THAT(result->warnings, Contains(HasSubstr("bytes spill stores")));
}

TEST(NvrtcTest, ResourcesOfAUnitAreTheLargest) {
  const auto result =
      TestNvrtc().Compile(Request(SharedSource() + StackSource()));
  ASSERT_TRUE(result.ok() && result->ok());
  EXPECT_EQ(result->resources.static_smem_bytes, 512);
  EXPECT_EQ(result->resources.stack_bytes, 256);
}

TEST(NvrtcTest, CompilingIsDeterministicAndIgnoresCommentsAndNames) {
  const auto a = TestNvrtc().Compile(Request(SharedSource()));
  CompileRequest renamed = Request("// a comment\n\n" + SharedSource());
  renamed.name = "other.cu";
  const auto b = TestNvrtc().Compile(renamed);
  ASSERT_TRUE(a.ok() && b.ok());
  // The identity of a kernel is the hash of its cubin: an edit of the sources
  // that changes no instruction keeps it.
  EXPECT_EQ(a->cubin, b->cubin);
  EXPECT_EQ(a->ptx, b->ptx);
}

TEST(NvrtcTest, LineInformationIsAnOption) {
  CompileRequest request = Request(SharedSource());
  request.options = {"-lineinfo"};
  const auto result = TestNvrtc().Compile(request);
  ASSERT_TRUE(result.ok() && result->ok());
  EXPECT_THAT(result->ptx, HasSubstr(".loc"));
  EXPECT_GT(result->resources.registers, 0);
}

TEST(NvrtcTest, RenderedKernelsCompileWithoutIncludes) {
  Problem problem;
  problem.layer.n = 8192;
  problem.layer.k = 8192;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  const DeviceSpec device = *ModelledDevice("h200");
  const auto kernel =
      RenderKernel(problem, HeuristicDefault(problem, device, 16), device);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  // Nothing that makes NVRTC open a file.
  EXPECT_THAT(kernel->source, Not(HasSubstr("#include")));
  const auto result =
      TestNvrtc().Compile(Request(kernel->source, kernel->arch));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->ok()) << result->log;
  const auto kernels = ReadCubin(result->cubin);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  ASSERT_EQ(kernels->size(), 1u);
  EXPECT_EQ((*kernels)[0].name, kernel->kernel_name);
}

TEST(SourceKeyTest, CommentsAndFormattingDoNotCount) {
  CompileRequest request = Request(StoreSource(7));
  CompileRequest commented = Request("// Stores.\n" + request.source);
  EXPECT_EQ(SourceKey(commented, "13.0"), SourceKey(request, "13.0"));
  // Line numbers would be those of another text.
  request.options = commented.options = {"-lineinfo"};
  EXPECT_NE(SourceKey(commented, "13.0"), SourceKey(request, "13.0"));
}

// Nor do they count for the compiler, in any of the device sources.
TEST(SourceKeyTest, CanonicalTextIsTheSameKernel) {
  for (const auto& [name, m] : {std::pair("h200", 4096), {"a100", 64}}) {
    Problem problem;
    problem.layer.n = problem.layer.k = 4096;
    const DeviceSpec device = *ModelledDevice(name);
    const auto kernel =
        RenderKernel(problem, HeuristicDefault(problem, device, m), device);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const auto own = TestNvrtc().Compile(Request(kernel->source, kernel->arch));
    const auto canonical = TestNvrtc().Compile(
        Request(CanonicalSource(kernel->source), kernel->arch));
    ASSERT_TRUE(own.ok() && own->ok()) << own->log;
    ASSERT_TRUE(canonical.ok() && canonical->ok()) << canonical->log;
    EXPECT_EQ(own->cubin, canonical->cubin);
  }
}

TEST(SourceKeyTest, EveryFieldCounts) {
  const CompileRequest base{.source = "s", .arch = "sm_80"};
  CompileRequest source = base;
  source.source = "t";
  CompileRequest arch = base;
  arch.arch = "sm_86";
  CompileRequest option = base;
  option.options = {"-lineinfo"};
  CompileRequest split = base;
  split.options = {"-line", "info"};
  const std::vector<std::string> keys = {
      SourceKey(base, "13.0"),  SourceKey(source, "13.0"),
      SourceKey(arch, "13.0"),  SourceKey(option, "13.0"),
      SourceKey(split, "13.0"), SourceKey(base, "13.1"),
  };
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_THAT(keys[i], MatchesRegex("[0-9a-f]{64}"));
    for (size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]);
  }
  CompileRequest renamed = base;
  renamed.name = "other";
  EXPECT_EQ(SourceKey(renamed, "13.0"), keys[0]);
}

TEST(SourceKeyTest, FieldsCannotRunIntoEachOther) {
  // Without lengths these two would hash the same text.
  EXPECT_NE(
      SourceKey({.source = "a;4:13.0", .arch = "x", .options = {"-y"}}, "1"),
      SourceKey({.source = "a", .arch = "x", .options = {"-y"}}, "13.0;1:1"));
}

}  // namespace
}  // namespace hone
