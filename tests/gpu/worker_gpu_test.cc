// The real worker under faults: what a candidate does to it is an outcome, and
// the others go on.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/codegen/codegen.h"
#include "kernels/space/space.h"
#include "tests/bench/kernel_compiler.h"
#include "tuner/worker/process_executor.h"

namespace hone {
namespace {

// The worker beside this test, where a carried build has it, else the one of
// the build tree.
std::string WorkerPath() {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / "hone-worker";
  return std::filesystem::exists(beside, error) ? beside.string() : HONE_WORKER;
}

TEST(WorkerGpuTest, FaultsAndHangsCostOneWorkerEach) {
  ProcessExecutor::Options options;
  options.command = {
      WorkerPath(), "--device=0",
      absl::StrCat("--cache=", testing::TempDir(), "/hone_worker_gpu_test")};
  const auto executor = ProcessExecutor::Create(options);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const DeviceSpec& device = (*executor)->device();
  EXPECT_GT(device.sm_count, 0);
  const auto compiler = KernelCompiler::Create();
  ASSERT_TRUE(compiler.ok()) << compiler.status();

  Problem problem;
  problem.layer.n = 512;
  problem.layer.k = 1024;
  const TuningConfig config = HeuristicDefault(problem, device, 16);
  const BenchKernel kernel = compiler->Compile(problem, config, device);
  ASSERT_TRUE(kernel.status.ok()) << kernel.status;
  const absl::Status begun = (*executor)->Begin(problem, 64, 3);
  ASSERT_TRUE(begun.ok()) << begun;
  const auto add = [&](const std::string& cubin) {
    Candidate candidate;
    candidate.config = config;
    candidate.cubin = cubin;
    return *(*executor)->Add(candidate);
  };
  const LaunchPlan plan = PlanLaunch(problem, config, 16);
  // The same parameters as the real kernel, and `body`.
  const auto plant = [&](const std::string& body) {
    const auto cubin = compiler->CompileSource(
        absl::StrCat("extern \"C\" __global__ void ", plan.kernel_name,
                     "(const char* a, const char* b, const char* s, const "
                     "char* bias, char* c, char* w, int m) {",
                     body, "}"),
        device.NvrtcArch());
    EXPECT_TRUE(cubin.ok()) << cubin.status();
    return add(cubin.ok() ? *cubin : "");
  };
  const int good = add(kernel.cubin);
  const struct {
    const char* body;
    Outcome outcome;
  } cases[] = {
      {"volatile int* p = (volatile int*)w; while (p == 0 || *p != 123456789) "
       "__nanosleep(100);",
       Outcome::kTimeout},
      {"*(volatile int*)8 = 1;", Outcome::kFault},
      {"*(volatile int*)(c + 1) = 1;", Outcome::kFault},
      {"__trap();", Outcome::kFault},
      {"for (int i = 0; i < 1; ++i) c[i] = 0;", Outcome::kWrongResult}};
  for (const auto& c : cases) {
    const absl::Time start = absl::Now();
    const auto result = (*executor)->Gate(plant(c.body), 16, absl::Seconds(3));
    ASSERT_TRUE(result.ok()) << c.body << result.status();
    EXPECT_EQ(ToString(result->outcome), ToString(c.outcome))
        << c.body << ": " << result->detail;
    printf("%s: %s, %.1f s: %s\n", c.body,
           std::string(ToString(result->outcome)).c_str(),
           absl::ToDoubleSeconds(absl::Now() - start), result->detail.c_str());
    const auto after = (*executor)->Gate(good, 16, absl::Seconds(10));
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_EQ(ToString(after->outcome), "measured") << after->detail;
  }
  EXPECT_EQ((*executor)->health().workers_started, 5);
  RoundRequest request;
  request.m = 16;
  request.order = {good, good};
  const auto round = (*executor)->Round(request, absl::Seconds(10));
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_GT(round->entries[0].sample.duration_ns, 500);
}

}  // namespace
}  // namespace hone
