#include "service/server/device_backend.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/compile_pool.h"
#include "kernels/jit/compiler.h"
#include "kernels/jit/cubin_cache.h"
#include "service/convert/errors.h"
#include "service/paths/paths.h"
#include "tuner/jit_compiler.h"
#include "tuner/model_executor.h"
#include "tuner/worker/process_executor.h"

namespace hone {
namespace {

constexpr absl::Duration kCompileDeadline = absl::Seconds(60);
// Lookups come before compiles on a busy host.
constexpr int kCompileNice = 10;
// A kernel takes some 300 MB; a compile that runs away must not take the node's
// memory. Sanitizers need terabytes of address space.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kCompileAddressSpace = 0;
#else
constexpr uint64_t kCompileAddressSpace = uint64_t{8} << 30;
#endif

absl::Status OpenCompilers(const DeviceOptions& options, EnvLookup env,
                           DeviceBackend& backend) {
  CompilePoolOptions pool_options;
  pool_options.executable = options.compiler;
  pool_options.search = LibrarySearchFromEnvironment(env);
  pool_options.processes = options.compile_jobs;
  pool_options.nice = kCompileNice;
  pool_options.address_space_bytes = kCompileAddressSpace;
  HONE_ASSIGN_OR_RETURN(std::shared_ptr<CompilePool> pool,
                        CompilePool::Create(std::move(pool_options)));
  HONE_ASSIGN_OR_RETURN(std::shared_ptr<CubinCache> cache,
                        CubinCache::Open({.folder = options.cache_folder}));
  backend.uncached = std::make_unique<JitCompiler>(
      std::make_shared<Compiler>(pool, kCompileDeadline, nullptr));
  backend.compiler = std::make_unique<JitCompiler>(std::make_shared<Compiler>(
      std::move(pool), kCompileDeadline, std::move(cache)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ProcessExecutor>> OpenGpu(
    const DeviceOptions& options, int ordinal) {
  std::string worker = options.worker;
  if (worker.empty()) {
    HONE_ASSIGN_OR_RETURN(worker, SiblingExecutable("hone-worker"));
  }
  ProcessExecutor::Options executor;
  executor.command = {worker, absl::StrCat("--device=", ordinal),
                      absl::StrCat("--cache=", options.cache_folder)};
  return ProcessExecutor::Create(std::move(executor));
}

absl::Status CannotTune(const absl::Status& why) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        why.message(),
                        "; lookups, tables, export and import still work, and "
                        "--device=model:h200 tunes on a modelled device")),
                    "NO_DEVICE");
}

}  // namespace

absl::StatusOr<DeviceBackend> OpenDevice(const DeviceOptions& options,
                                         EnvLookup env) {
  DeviceBackend backend;
  absl::string_view name = options.device;
  absl::StatusOr<std::unique_ptr<ProcessExecutor>> gpu =
      absl::UnavailableError("not opened");
  if (absl::ConsumePrefix(&name, "model:")) {
    const absl::StatusOr<DeviceSpec> model = ModelledDevice(name);
    if (!model.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--device: ", model.status().message()));
    }
    backend.device = *model;
  } else {
    int ordinal = 0;
    const bool automatic = name == "auto";
    if (!automatic && (!absl::ConsumePrefix(&name, "gpu:") ||
                       !absl::SimpleAtoi(name, &ordinal) || ordinal < 0 ||
                       absl::StrCat(ordinal) != name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--device is \"", options.device,
          "\"; it must be auto, gpu:N with N from 0, or model: with one of ",
          absl::StrJoin(ModelledDeviceNames(), ", ")));
    }
    gpu = OpenGpu(options, ordinal);
    if (!gpu.ok()) {
      backend.can_tune = CannotTune(gpu.status());
      return backend;
    }
    backend.device = (*gpu)->device();
  }
  if (const absl::Status opened = OpenCompilers(options, env, backend);
      !opened.ok()) {
    backend.can_tune = CannotTune(opened);
    return backend;
  }
  if (backend.device->modelled()) {
    backend.executor = std::make_unique<ModelExecutor>(*backend.device,
                                                       backend.compiler.get());
  } else {
    backend.executor = *std::move(gpu);
  }
  return backend;
}

}  // namespace hone
