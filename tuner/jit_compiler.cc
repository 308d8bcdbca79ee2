#include "tuner/jit_compiler.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/compile_result.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

// The first error of a log; ptxas and NVRTC mark them ("error", "fatal"), a
// dead compiler says one line.
std::string FirstError(absl::string_view log) {
  absl::string_view first;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    if (first.empty()) first = line;
    if (absl::StrContains(line, "error") || absl::StrContains(line, "fatal")) {
      first = line;
      break;
    }
  }
  constexpr size_t kLongest = 300;
  return std::string(absl::StripAsciiWhitespace(first.substr(0, kLongest)));
}

}  // namespace

JitCompiler::JitCompiler(std::shared_ptr<Compiler> compiler, Renderer render)
    : compiler_(std::move(compiler)), render_(std::move(render)) {}

absl::StatusOr<std::string> JitCompiler::SourceKey(const Problem& problem,
                                                   const DeviceSpec& device,
                                                   const TuningConfig& config) {
  HONE_ASSIGN_OR_RETURN(const RenderedKernel kernel,
                        render_(problem, config, device));
  return compiler_->KeyOf(kernel.source, kernel.arch);
}

absl::StatusOr<CompiledCandidate> JitCompiler::Compile(
    const Problem& problem, const DeviceSpec& device,
    const TuningConfig& config) {
  HONE_ASSIGN_OR_RETURN(const RenderedKernel kernel,
                        render_(problem, config, device));
  HONE_ASSIGN_OR_RETURN(Compiler::Compiled compiled,
                        compiler_->Compile(kernel.source, kernel.arch));
  CompileResult& result = compiled.result;
  CompiledCandidate candidate;
  candidate.candidate.config = config;
  CompileInfo& info = candidate.candidate.compile;
  info.source_key = compiled.source_key;
  info.nvrtc_version = compiler_->nvrtc_version();
  info.compile_ms = compiled.from_cache ? 0 : result.compile_ms;
  switch (result.outcome) {
    case CompileOutcome::kRejected:
      candidate.outcome = Outcome::kCompileError;
      break;
    case CompileOutcome::kTimeout:
      candidate.outcome = Outcome::kCompileTimeout;
      break;
    case CompileOutcome::kCrashed:
      candidate.outcome = Outcome::kCompilerCrash;
      break;
    case CompileOutcome::kKilled:
      candidate.outcome = Outcome::kInterrupted;
      break;
    case CompileOutcome::kCompiled:
      break;
  }
  if (!result.ok()) {
    candidate.detail = FirstError(result.log);
    return candidate;
  }
  info.cubin_hash = Sha256Hex(result.cubin);
  info.kernel_id = KernelIdentity(info.cubin_hash, problem, config);
  info.registers = result.resources.registers;
  info.spill_bytes = int64_t{result.resources.spill_store_bytes} +
                     result.resources.spill_load_bytes;
  info.stack_bytes = result.resources.stack_bytes;
  info.smem_bytes =
      result.resources.static_smem_bytes + SmemBytes(problem, config);
  candidate.candidate.cubin = std::move(result.cubin);
  candidate.candidate.ptx = std::move(result.ptx);
  return candidate;
}

}  // namespace hone
