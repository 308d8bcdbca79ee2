#include "tests/bench/kernel_compiler.h"

#include <dlfcn.h>

#include <chrono>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {
struct Api {
  int (*create)(void**, const char*, const char*, int, const char* const*,
                const char* const*);
  int (*destroy)(void**);
  int (*compile)(void*, int, const char* const*);
  int (*log_size)(void*, size_t*);
  int (*log)(void*, char*);
  int (*cubin_size)(void*, size_t*);
  int (*cubin)(void*, char*);
};
const Api* Load() {
  static const Api* api = []() -> const Api* {
    void* h = dlopen("libnvrtc.so.13", RTLD_NOW);
    if (h == nullptr)
      h = dlopen("/usr/local/cuda/lib64/libnvrtc.so.13", RTLD_NOW);
    if (h == nullptr) return nullptr;
    auto* a = new Api;
    a->create =
        reinterpret_cast<decltype(a->create)>(dlsym(h, "nvrtcCreateProgram"));
    a->destroy =
        reinterpret_cast<decltype(a->destroy)>(dlsym(h, "nvrtcDestroyProgram"));
    a->compile =
        reinterpret_cast<decltype(a->compile)>(dlsym(h, "nvrtcCompileProgram"));
    a->log_size = reinterpret_cast<decltype(a->log_size)>(
        dlsym(h, "nvrtcGetProgramLogSize"));
    a->log = reinterpret_cast<decltype(a->log)>(dlsym(h, "nvrtcGetProgramLog"));
    a->cubin_size = reinterpret_cast<decltype(a->cubin_size)>(
        dlsym(h, "nvrtcGetCUBINSize"));
    a->cubin = reinterpret_cast<decltype(a->cubin)>(dlsym(h, "nvrtcGetCUBIN"));
    return a;
  }();
  return api;
}
struct Out {
  std::string cubin, log;
};
absl::StatusOr<Out> Compile(const std::string& source,
                            const std::string& arch) {
  const Api* api = Load();
  if (api == nullptr)
    return absl::UnavailableError("libnvrtc.so.13 is missing");
  void* program = nullptr;
  if (int rc =
          api->create(&program, source.c_str(), "hone.cu", 0, nullptr, nullptr);
      rc != 0)
    return absl::InternalError(absl::StrCat("nvrtcCreateProgram: ", rc));
  const std::string a = "--gpu-architecture=" + arch;
  const char* options[] = {a.c_str(), "--std=c++20", "--ptxas-options=-v"};
  const int rc = api->compile(program, 3, options);
  Out out;
  size_t size = 0;
  api->log_size(program, &size);
  out.log.resize(size);
  api->log(program, out.log.data());
  if (rc != 0) {
    api->destroy(&program);
    return absl::InvalidArgumentError(
        absl::StrCat("nvrtc ", rc, ": ", out.log));
  }
  api->cubin_size(program, &size);
  out.cubin.resize(size);
  api->cubin(program, out.cubin.data());
  api->destroy(&program);
  return out;
}
int64_t NumberBefore(absl::string_view log, absl::string_view what) {
  const size_t at = log.find(what);
  if (at == absl::string_view::npos) return 0;
  absl::string_view head = log.substr(0, at);
  const size_t space = head.rfind(' ');
  int64_t v = 0;
  return absl::SimpleAtoi(head.substr(space + 1), &v) ? v : 0;
}
}  // namespace

std::string BenchKernel::Describe() const {
  if (!status.ok()) return std::string(status.message());
  return absl::StrCat(registers, " registers, ", spills, " bytes spilled, ",
                      cubin.size(), " bytes of cubin, compiled in ", compile_ms,
                      " ms");
}

BenchKernel CompileBenchKernel(const Problem& problem,
                               const TuningConfig& config,
                               const DeviceSpec& device) {
  BenchKernel kernel;
  const auto start = std::chrono::steady_clock::now();
  const auto rendered = RenderKernel(problem, config, device);
  if (!rendered.ok()) {
    kernel.status = rendered.status();
    return kernel;
  }
  auto out = Compile(rendered->source, rendered->arch);
  kernel.compile_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::steady_clock::now() - start)
                          .count();
  if (!out.ok()) {
    kernel.status = out.status();
    return kernel;
  }
  kernel.cubin = std::move(out->cubin);
  kernel.registers = NumberBefore(out->log, " registers");
  kernel.spills = NumberBefore(out->log, " bytes spill stores");
  return kernel;
}

absl::StatusOr<std::string> CompileToCubin(const std::string& source,
                                           const std::string& arch) {
  HONE_ASSIGN_OR_RETURN(Out out, Compile(source, arch));
  return out.cubin;
}
}  // namespace hone
