// Every kind of fault, planted in a kernel, is caught on its source line.
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const Module& Faults() {
  static const Module* module =
      new Module(MustParse(ReadTestdata("faults.ptx")));
  return *module;
}

struct FaultCase {
  std::string kernel;
  std::vector<std::string> words;    // all in the message
  std::vector<std::string> markers;  // one of these is where it happens
  std::string conflict;              // marker of the other access, or empty
  uint32_t threads = 64;
  uint32_t smem = 256;
};

// Data of 64 threads: zeros and ones in no pattern that a warp shares.
std::vector<int32_t> Input() {
  std::vector<int32_t> a(64);
  for (int i = 0; i < 64; ++i) a[i] = i % 3 == 0 ? 0 : 1;
  return a;
}

absl::Status FaultOf(const FaultCase& test, const Options& options) {
  std::vector<int32_t> a = Input();
  std::vector<int32_t> c(64, -1);
  return RunPlan(
             Faults(),
             PlanFor(test.kernel, {1, 1, 1}, {test.threads, 1, 1}, test.smem),
             a, c, options)
      .status();
}

class FaultTest : public testing::TestWithParam<FaultCase> {};

TEST_P(FaultTest, IsCaughtOnItsLineUnderEverySchedule) {
  const FaultCase& test = GetParam();
  for (const CopyLanding landing :
       {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      Options options;
      options.seed = seed;
      options.landing = landing;
      options.max_instructions = 100000;
      const absl::Status status = FaultOf(test, options);
      SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << status);
      EXPECT_EQ(status.code(), test.kernel == "endless"
                                   ? absl::StatusCode::kResourceExhausted
                                   : absl::StatusCode::kAborted);
      const std::string message(status.message());
      EXPECT_THAT(message, HasSubstr("kernel " + test.kernel +
                                     ", CTA (0,0,0), "
                                     "warp "));
      EXPECT_THAT(message, HasSubstr("[PTX line "));
      for (const std::string& word : test.words) {
        EXPECT_THAT(message, HasSubstr(word));
      }
      bool at_line = false;
      for (const std::string& marker : test.markers) {
        const size_t at = message.find(LineOf("faults.cu", marker));
        at_line |= at != std::string::npos;
      }
      EXPECT_TRUE(at_line);
      if (!test.conflict.empty()) {
        EXPECT_THAT(message, HasSubstr(LineOf("faults.cu", test.conflict)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    testing::Values(
        FaultCase{"read_past_end",
                  {"out of bounds", "read of 4 bytes at byte 256 of buffer A",
                   "has 256 bytes", "warp 1, lane 31"},
                  {"read_past_end"}},
        FaultCase{"write_past_end",
                  {"out of bounds", "write of 4 bytes at byte 256 of buffer C"},
                  {"write_past_end"}},
        FaultCase{"write_before_start",
                  {"out of bounds", "at byte -4 of buffer C", "lane 0"},
                  {"write_before_start"}},
        FaultCase{
            "write_read_only", {"buffer A", "read-only"}, {"write_read_only"}},
        FaultCase{"read_uninitialized_buffer",
                  {"uninitialized", "byte 28 of buffer C", "lane 7"},
                  {"read_uninitialized_buffer"}},
        FaultCase{"misaligned", {"misaligned"}, {"misaligned"}},
        FaultCase{"misaligned_vector",
                  {"misaligned", "16 bytes"},
                  {"misaligned_vector"}},
        FaultCase{"shared_past_end",
                  {"out of bounds", "shared write", "byte 256 of dynamic"},
                  {"shared_past_end"}},
        FaultCase{"uninitialized_shared",
                  {"uninitialized", "byte 36 of dynamic", "lane 9"},
                  {"uninitialized_shared"}},
        FaultCase{"missing_barrier",
                  {"race"},
                  {"missing_barrier_load", "missing_barrier_store"}},
        FaultCase{"write_after_read",
                  {"race", "is not synchronized with the earlier"},
                  {"write_after_read_store", "write_after_read_load"}},
        FaultCase{
            "conflicting_store", {"conflicting stores"}, {"conflicting_store"}},
        FaultCase{"missing_wait",
                  {"copy not waited for", "asynchronous copy by lane"},
                  {"missing_wait"}},
        FaultCase{
            "lax_wait", {"copy not waited for"}, {"lax_wait"}, "", 64, 512},
        FaultCase{
            "wait_without_barrier", {}, {"wait_without_barrier"}, "", 64, 1024},
        FaultCase{"wait_without_syncwarp",
                  {"copy not synchronized"},
                  {"wait_without_syncwarp"},
                  "",
                  32,
                  512},
        FaultCase{"overwrite_copy",
                  {"copy not waited for", "shared write"},
                  {"overwrite_copy"},
                  "",
                  64,
                  1024},
        FaultCase{"divergent_barrier",
                  {"divergence", "barrier", "0x"},
                  {"divergent_barrier"}},
        FaultCase{"deadlock",
                  {"deadlock", "warp 0 waits at barrier 0 (32 of 64 threads)",
                   "warp 1 has exited"},
                  {"deadlock"}},
        FaultCase{"wrong_count", {}, {"wrong_count_a", "wrong_count_b"}},
        FaultCase{"divergent_shuffle",
                  {"inactive lanes", "shfl.sync"},
                  {"divergent_shuffle"}},
        FaultCase{"divergent_ldmatrix",
                  {"divergence", "ldmatrix"},
                  {"divergent_ldmatrix"},
                  "",
                  32},
        FaultCase{"divergent_mma", {"divergence", "mma"}, {"divergent_mma"}},
        FaultCase{"endless", {"max_instructions"}, {"endless"}},
        FaultCase{"traps", {": trap"}, {"traps"}}),
    [](const auto& info) { return info.param.kernel; });

// Replaces the n-th occurrence of `from` (0: all).
std::string Mutate(std::string text, const std::string& from,
                   const std::string& to, int nth) {
  int seen = 0;
  size_t at = 0;
  while ((at = text.find(from, at)) != std::string::npos) {
    if (++seen == nth || nth == 0) {
      text.replace(at, from.size(), to);
      at += to.size();
      if (nth != 0) return text;
    } else {
      at += from.size();
    }
  }
  EXPECT_GT(seen, 0) << from;
  return text;
}

absl::Status RunGemm(const std::string& ptx, uint64_t seed) {
  const Module module = MustParse(ptx);
  std::vector<uint16_t> a(16 * 256, 0x3c00), b(64 * 256, 0x3c00);
  std::vector<float> c(16 * 64);
  LaunchPlan plan;
  plan.kernel_name = "gemm";
  plan.block = {128, 1, 1};
  plan.smem_bytes = 3 * (16 + 64) * 40 * 2;
  plan.args = {Buffer(BufferRole::kA), Buffer(BufferRole::kB),
               Buffer(BufferRole::kC), Int(256)};
  Bindings bindings;
  bindings[BufferRole::kA] = BufferOf(a, false);
  bindings[BufferRole::kB] = BufferOf(b, false);
  bindings[BufferRole::kC] = BufferOf(c, true, false);
  Options options;
  options.seed = seed;
  return Execute(module, plan, bindings, options).status();
}

// The planted errors of a pipelined GEMM: each is caught whatever the seed.
TEST(GemmMutationTest, EachIsCaught) {
  const std::string ptx = ReadTestdata("gemm.ptx");
  struct Mutation {
    const char* what;
    std::string from, to, words;
  };
  const Mutation mutations[] = {
      {"wait one group too lax", "cp.async.wait_group 1;",
       "cp.async.wait_group 2;", "copy"},
      {"no wait at all", "cp.async.wait_group 1;", "", "copy"},
      {"no barrier", "bar.sync \t0;", "", ""},
      {"no commit", "cp.async.commit_group;", "", "copy"},
  };
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(RunGemm(ptx, seed), absl::OkStatus());
    for (const Mutation& m : mutations) {
      const absl::Status status = RunGemm(Mutate(ptx, m.from, m.to, 0), seed);
      EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << m.what;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("gemm.cu:"), HasSubstr(m.words)))
          << m.what;
    }
  }
}

TEST(BindingTest, RefusesWhatDoesNotFitTheKernel) {
  std::vector<int32_t> a(64), c(64);
  const auto code = [&](const LaunchPlan& plan) {
    return RunPlan(Faults(), plan, a, c).status().code();
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(PlanFor("no_such_kernel", {1, 1, 1}, {64, 1, 1})), invalid);
  EXPECT_EQ(code(PlanFor("deadlock", {1, 1, 1}, {64, 1, 1}, 0, {1})), invalid);
  EXPECT_EQ(code(PlanFor("deadlock", {1, 1, 1}, {2048, 1, 1})), invalid);
  EXPECT_EQ(code(PlanFor("deadlock", {0, 1, 1}, {64, 1, 1})), invalid);
  LaunchPlan wrong_type = PlanFor("deadlock", {1, 1, 1}, {64, 1, 1});
  wrong_type.args[0] = Int(1);
  EXPECT_EQ(code(wrong_type), invalid);
  LaunchPlan unbound = PlanFor("deadlock", {1, 1, 1}, {64, 1, 1});
  unbound.args[0] = Buffer(BufferRole::kB);
  EXPECT_EQ(code(unbound), invalid);
}

}  // namespace
}  // namespace hone::emulator
