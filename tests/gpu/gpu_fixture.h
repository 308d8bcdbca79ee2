// What the GPU tests share: a device, a context, the helper kernels. Without a
// device every test fails; none is skipped.
#ifndef HONE_TESTS_GPU_GPU_FIXTURE_H_
#define HONE_TESTS_GPU_GPU_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/status_macros.h"
#include "kernels/launch/device_query.h"
#include "kernels/launch/module.h"
#include "tests/bench/kernel_compiler.h"
#include "tuner/measure/helper_kernels.h"

namespace hone {

class GpuTest : public testing::Test {
 protected:
  // Failures are kept for SetUp(): GoogleTest would show the tests as skipped.
  static void SetUpTestSuite() { setup_ = Prepare(); }

  void SetUp() override {
    ASSERT_TRUE(setup_.ok()) << setup_;
    auto context = Context::Retain(0);
    ASSERT_TRUE(context.ok()) << context.status();
    context_.emplace(*std::move(context));
    auto stream = Stream::Create();
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
    auto helpers = HelperKernels::Load(helper_cubin_);
    ASSERT_TRUE(helpers.ok()) << helpers.status();
    helpers_ = *std::move(helpers);
  }

  void TearDown() override {
    helpers_ = HelperKernels();
    stream_ = Stream();
    context_.reset();
  }

  // A module of CUDA C++ that may use the helpers' functions.
  Module Compile(const std::string& source) {
    auto cubin =
        compiler_->CompileSource(HelperSource() + source, device_.NvrtcArch());
    EXPECT_TRUE(cubin.ok()) << cubin.status();
    auto module = Module::Load(*cubin);
    EXPECT_TRUE(module.ok()) << module.status();
    return *std::move(module);
  }

  // On all cores; in the order of `configs`.
  std::vector<BenchKernel> CompileAll(
      const Problem& problem, const std::vector<TuningConfig>& configs) {
    std::vector<BenchKernel> kernels(configs.size());
    std::vector<std::thread> threads;
    const size_t count = std::max(1u, std::thread::hardware_concurrency());
    for (size_t t = 0; t < count; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < configs.size(); i += count) {
          kernels[i] = compiler_->Compile(problem, configs[i], device_);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return kernels;
  }

  template <typename T>
  std::vector<T> Download(DevicePtr from, size_t count) {
    std::vector<T> values(count);
    const absl::Status status =
        CopyToHost(values.data(), from, count * sizeof(T), stream_.handle());
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }

  static absl::Status Prepare() {
    HONE_ASSIGN_OR_RETURN(KernelCompiler compiler, KernelCompiler::Create());
    compiler_.emplace(std::move(compiler));
    HONE_ASSIGN_OR_RETURN(device_, QueryDevice(0));
    HONE_ASSIGN_OR_RETURN(
        helper_cubin_,
        compiler_->CompileSource(HelperSource(), device_.NvrtcArch()));
    return absl::OkStatus();
  }

  static inline absl::Status setup_;
  static inline std::optional<KernelCompiler> compiler_;
  static inline DeviceSpec device_;
  static inline std::string helper_cubin_;

  std::optional<Context> context_;
  Stream stream_;
  HelperKernels helpers_;
};

}  // namespace hone

#endif  // HONE_TESTS_GPU_GPU_FIXTURE_H_
