// Compiles kernels in this process, for the developer tools and GPU tests: no
// cache, no child processes.
#ifndef HONE_TESTS_BENCH_KERNEL_COMPILER_H_
#define HONE_TESTS_BENCH_KERNEL_COMPILER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/jit/nvrtc.h"

namespace hone {

// What is taken out of a kernel, to see what it costs (kernels/device/mma/
// strip.cuh). Outputs of stripped kernels are wrong.
enum class Strip { kNothing, kArithmetic, kDequantization, kMmas };
absl::string_view ToString(Strip strip);
// InvalidArgument names the legal words.
absl::StatusOr<Strip> ParseStrip(absl::string_view text);

struct BenchKernel {
  // Not OK when it did not compile; then only compile_ms is set.
  absl::Status status;
  std::string cubin;
  KernelResources resources;
  // What NVRTC and ptxas warn of, such as serialized wgmmas.
  std::vector<std::string> warnings;
  int64_t compile_ms = 0;

  // One line for people.
  std::string Describe() const;
};

// Thread-safe.
class KernelCompiler {
 public:
  // Unavailable without NVRTC.
  static absl::StatusOr<KernelCompiler> Create();

  BenchKernel Compile(const Problem& problem, const TuningConfig& config,
                      const DeviceSpec& device,
                      Strip strip = Strip::kNothing) const;

  // The shape of GpuMeasurer's CompileFunction.
  absl::StatusOr<std::string> CompileSource(const std::string& source,
                                            const std::string& arch) const;

 private:
  explicit KernelCompiler(std::shared_ptr<const Nvrtc> nvrtc)
      : nvrtc_(std::move(nvrtc)) {}

  std::shared_ptr<const Nvrtc> nvrtc_;
};

}  // namespace hone

#endif  // HONE_TESTS_BENCH_KERNEL_COMPILER_H_
