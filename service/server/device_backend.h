// The device that honed answers for and tunes on.
#ifndef HONE_SERVICE_SERVER_DEVICE_BACKEND_H_
#define HONE_SERVICE_SERVER_DEVICE_BACKEND_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/config/device_spec.h"
#include "kernels/jit/shared_library.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"

namespace hone {

struct DeviceOptions {
  // "auto" (the first GPU, or none), "gpu:N" or "model:<name>".
  std::string device = "auto";
  // Of the cubin cache.
  std::string cache_folder;
  // Executables; empty: beside honed's own.
  std::string worker;
  std::string compiler;
  // Compiles at once; 0: one per core.
  int compile_jobs = 0;
};

// What was opened. Without a GPU or NVRTC it is incomplete, and says so.
struct DeviceBackend {
  // Unset when there is no device at all.
  std::optional<DeviceSpec> device;
  // OK when tuning works. Else FailedPrecondition says what is missing and
  // what still works.
  absl::Status can_tune;
  // All set when can_tune is OK. The executor may use the compiler.
  std::unique_ptr<CandidateCompiler> compiler;
  std::unique_ptr<Executor> executor;
  // Like `compiler`, but never answers from the cache, for audits.
  std::unique_ptr<CandidateCompiler> uncached;
};

// InvalidArgument: `device` is none of the legal forms. A missing GPU, driver
// or NVRTC is no error, only a backend that cannot tune.
absl::StatusOr<DeviceBackend> OpenDevice(const DeviceOptions& options,
                                         EnvLookup env);

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_DEVICE_BACKEND_H_
