#include "kernels/jit/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/config/sha256.h"
#include "kernels/config/source_text.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/cubin_info.h"

namespace hone {

#define HONE_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)               \
  X(nvrtcGetNumSupportedArchs)  \
  X(nvrtcGetSupportedArchs)     \
  X(nvrtcGetErrorString)        \
  X(nvrtcCreateProgram)         \
  X(nvrtcDestroyProgram)        \
  X(nvrtcCompileProgram)        \
  X(nvrtcGetPTXSize)            \
  X(nvrtcGetPTX)                \
  X(nvrtcGetCUBINSize)          \
  X(nvrtcGetCUBIN)              \
  X(nvrtcGetProgramLogSize)     \
  X(nvrtcGetProgramLog)

struct Nvrtc::Api {
#define HONE_NVRTC_MEMBER(name) decltype(&::name) name = nullptr;
  HONE_NVRTC_FUNCTIONS(HONE_NVRTC_MEMBER)
#undef HONE_NVRTC_MEMBER

  absl::Status Check(nvrtcResult result, absl::string_view call) const {
    if (result == NVRTC_SUCCESS) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(call, ": ", nvrtcGetErrorString(result)));
  }
};

namespace {

// Destroys a program at the end of its scope.
class Program {
 public:
  Program(nvrtcProgram program, decltype(&nvrtcDestroyProgram) destroy)
      : program_(program), destroy_(destroy) {}
  ~Program() { destroy_(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  nvrtcProgram get() const { return program_; }

 private:
  nvrtcProgram program_;
  decltype(&nvrtcDestroyProgram) destroy_;
};

// One of NVRTC's pairs "size of X" and "X"; of text, what is before its
// closing zeros.
absl::StatusOr<std::string> Fetch(nvrtcResult (*get_size)(nvrtcProgram,
                                                          size_t*),
                                  nvrtcResult (*get)(nvrtcProgram, char*),
                                  nvrtcProgram program, bool text) {
  size_t size = 0;
  std::string bytes;
  if (get_size(program, &size) != NVRTC_SUCCESS) {
    return absl::InternalError("NVRTC cannot tell the size of an output");
  }
  bytes.resize(size);
  if (size > 0 && get(program, bytes.data()) != NVRTC_SUCCESS) {
    return absl::InternalError("NVRTC cannot return an output");
  }
  if (text) bytes.resize(std::min(bytes.size(), bytes.find('\0')));
  return bytes;
}

// Adds what the cubin and the log say about the kernels.
absl::Status ReadResources(CompileResult* result) {
  HONE_ASSIGN_OR_RETURN(const std::vector<CubinKernel> kernels,
                        ReadCubin(result->cubin));
  KernelResources& all = result->resources;
  for (const CubinKernel& kernel : kernels) {
    const KernelResources& r = kernel.resources;
    all.registers = std::max(all.registers, r.registers);
    all.static_smem_bytes =
        std::max(all.static_smem_bytes, r.static_smem_bytes);
    all.stack_bytes = std::max(all.stack_bytes, r.stack_bytes);
  }
  for (const PtxasReport& report : ReadPtxasLog(result->log)) {
    const KernelResources& r = report.resources;
    all.spill_store_bytes =
        std::max(all.spill_store_bytes, r.spill_store_bytes);
    all.spill_load_bytes = std::max(all.spill_load_bytes, r.spill_load_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

// What was measured (NVRTC 13.0, sm_90a, one core, CPU time, best of 9, for a
// W4A16 kernel of 1430 lines with the tiles of M = 1 and of M = 4096): 135 and
// 282 ms with the architecture and C++17 alone. Of these only one option shows:
//   --minimal                      131 and 273 ms
//   --std=c++20                    137 and 283
//   -lineinfo                      141 and 294
//   --split-compile=0              136 and 283
//   --no-cache                     135 and 289
//   --builtin-initializer-list=false, --builtin-move-forward=false: no gain
//   without --ptxas-options=-v     133 and 277
// The first compile of a process takes 60 to 80 ms more, which is what
// children that stay save. Line information is left out because it puts the
// source's line numbers into the cubin, whose hash is the kernel's identity,
// and makes it four times as large; ask for it in request.options.
std::vector<std::string> CompileOptions(const CompileRequest& request) {
  std::vector<std::string> options = {
      absl::StrCat("--gpu-architecture=", request.arch),
      "--std=c++17",
      "--minimal",
      "--no-source-include",
      "--device-as-default-execution-space",
      "--ptxas-options=-v",
  };
  options.insert(options.end(), request.options.begin(), request.options.end());
  return options;
}

std::string SourceKey(const CompileRequest& request,
                      absl::string_view nvrtc_version) {
  std::string text = "hone source key 2";
  const auto add = [&text](absl::string_view field) {
    absl::StrAppend(&text, ";", field.size(), ":", field);
  };
  // What is asked for beyond the standard may put line numbers into the cubin.
  add(request.options.empty() ? CanonicalSource(request.source)
                              : request.source);
  add(nvrtc_version);
  add(request.arch);
  for (const std::string& option : CompileOptions(request)) add(option);
  return Sha256Hex(text);
}

Nvrtc::Nvrtc() : api_(std::make_unique<Api>()) {}
Nvrtc::~Nvrtc() = default;

absl::StatusOr<std::shared_ptr<const Nvrtc>> Nvrtc::Create(
    const LibrarySearch& search) {
  HONE_ASSIGN_OR_RETURN(
      const SharedLibrary library,
      SharedLibrary::Open(
          {.title = "NVRTC",
           .names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
           .without = "kernels cannot be compiled or tuned",
           .still = "lookups, tables, export, import and kernels that are in "
                    "the cache still work"},
          search));
  std::shared_ptr<Nvrtc> nvrtc(new Nvrtc);
  Api& api = *nvrtc->api_;
#define HONE_NVRTC_LOAD(name) \
  HONE_RETURN_IF_ERROR(library.Bind(#name, &api.name));
  HONE_NVRTC_FUNCTIONS(HONE_NVRTC_LOAD)
#undef HONE_NVRTC_LOAD

  int major = 0;
  int minor = 0;
  HONE_RETURN_IF_ERROR(
      api.Check(api.nvrtcVersion(&major, &minor), "nvrtcVersion"));
  nvrtc->version_ = absl::StrCat(major, ".", minor);
  nvrtc->path_ = library.path();
  if (std::pair(major, minor) < std::pair(12, 8)) {
    return absl::UnavailableError(
        absl::StrCat("NVRTC ", nvrtc->version_, " (", nvrtc->path_,
                     ") is too old: Hone needs 12.8 or later"));
  }
  int count = 0;
  HONE_RETURN_IF_ERROR(api.Check(api.nvrtcGetNumSupportedArchs(&count),
                                 "nvrtcGetNumSupportedArchs"));
  nvrtc->archs_.resize(count);
  HONE_RETURN_IF_ERROR(
      api.Check(api.nvrtcGetSupportedArchs(nvrtc->archs_.data()),
                "nvrtcGetSupportedArchs"));
  std::sort(nvrtc->archs_.begin(), nvrtc->archs_.end());
  return nvrtc;
}

absl::StatusOr<CompileResult> Nvrtc::Compile(
    const CompileRequest& request) const {
  const Api& api = *api_;
  nvrtcProgram raw = nullptr;
  HONE_RETURN_IF_ERROR(api.Check(
      api.nvrtcCreateProgram(&raw, request.source.c_str(), request.name.c_str(),
                             0, nullptr, nullptr),
      "nvrtcCreateProgram"));
  const Program program(raw, api.nvrtcDestroyProgram);

  const std::vector<std::string> options = CompileOptions(request);
  std::vector<const char*> c_options;
  for (const std::string& option : options) {
    c_options.push_back(option.c_str());
  }
  const auto start = std::chrono::steady_clock::now();
  const nvrtcResult rc = api.nvrtcCompileProgram(
      program.get(), static_cast<int>(c_options.size()), c_options.data());

  CompileResult result;
  result.nvrtc_version = version_;
  result.compile_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          std::chrono::steady_clock::now() - start)
                          .count();
  HONE_ASSIGN_OR_RETURN(
      result.log, Fetch(api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog,
                        program.get(), true));
  result.warnings = WarningsIn(result.log);
  if (rc == NVRTC_ERROR_COMPILATION) {
    result.outcome = CompileOutcome::kRejected;
    return result;
  }
  if (rc == NVRTC_ERROR_INVALID_OPTION) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NVRTC ", version_, " refuses an option or the architecture ",
        request.arch, " of: ", request.name, ": ", result.log));
  }
  if (rc == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) {
    return absl::UnavailableError(absl::StrCat(
        "NVRTC (", path_, ") does not find libnvrtc-builtins of its version"));
  }
  if (rc == NVRTC_ERROR_INTERNAL_ERROR || rc == NVRTC_ERROR_OUT_OF_MEMORY) {
    result.outcome = CompileOutcome::kCrashed;
    absl::StrAppend(&result.log, api.nvrtcGetErrorString(rc));
    return result;
  }
  HONE_RETURN_IF_ERROR(api.Check(rc, "nvrtcCompileProgram"));
  result.outcome = CompileOutcome::kCompiled;
  HONE_ASSIGN_OR_RETURN(result.ptx, Fetch(api.nvrtcGetPTXSize, api.nvrtcGetPTX,
                                          program.get(), true));
  HONE_ASSIGN_OR_RETURN(
      result.cubin,
      Fetch(api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN, program.get(), false));
  if (result.cubin.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("architecture ", request.arch,
                     " gives no cubin: name a real one, like sm_90a"));
  }
  HONE_RETURN_IF_ERROR(ReadResources(&result));
  return result;
}

}  // namespace hone
