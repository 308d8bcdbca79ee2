// Compiles kernels in this process, for the developer tools: no cache, no
// child processes.
#ifndef HONE_TESTS_BENCH_KERNEL_COMPILER_H_
#define HONE_TESTS_BENCH_KERNEL_COMPILER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

struct BenchKernel {
  // Not OK when it did not compile; then only compile_ms is set.
  absl::Status status;
  std::string cubin;
  int64_t registers = 0;
  int64_t spills = 0;  // bytes
  int64_t compile_ms = 0;

  // One line for people.
  std::string Describe() const;
};

// Thread-safe.
BenchKernel CompileBenchKernel(const Problem& problem,
                               const TuningConfig& config,
                               const DeviceSpec& device);

// A CompileFunction for GpuMeasurer.
absl::StatusOr<std::string> CompileToCubin(const std::string& source,
                                           const std::string& arch);

}  // namespace hone

#endif  // HONE_TESTS_BENCH_KERNEL_COMPILER_H_
