#include "tests/bench/kernel_compiler.h"

#include <cstdlib>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"

namespace hone {

namespace {

// In the order of the enum.
constexpr absl::string_view kStripNames[] = {"nothing", "arithmetic",
                                             "dequantization", "mmas"};

}  // namespace

absl::string_view ToString(Strip strip) {
  return kStripNames[static_cast<size_t>(strip)];
}

absl::StatusOr<Strip> ParseStrip(absl::string_view text) {
  for (size_t i = 0; i < std::size(kStripNames); ++i) {
    if (text == kStripNames[i]) return static_cast<Strip>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("strip: \"", text, "\" must be one of ",
                   absl::StrJoin(kStripNames, ", ")));
}

std::string BenchKernel::Describe() const {
  if (!status.ok()) return std::string(status.message());
  return absl::StrCat(resources.registers, " registers, ",
                      resources.spill_store_bytes, " bytes spilled, ",
                      cubin.size(), " bytes of cubin, compiled in ", compile_ms,
                      " ms", warnings.empty() ? "" : "\n         ",
                      absl::StrJoin(warnings, "\n         "));
}

absl::StatusOr<KernelCompiler> KernelCompiler::Create() {
  HONE_ASSIGN_OR_RETURN(
      std::shared_ptr<const Nvrtc> nvrtc,
      Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv)));
  return KernelCompiler(std::move(nvrtc));
}

BenchKernel KernelCompiler::Compile(const Problem& problem,
                                    const TuningConfig& config,
                                    const DeviceSpec& device,
                                    Strip strip) const {
  BenchKernel kernel;
  const absl::StatusOr<RenderedKernel> rendered =
      RenderKernel(problem, config, device);
  if (!rendered.ok()) {
    kernel.status = rendered.status();
    return kernel;
  }
  CompileRequest request;
  request.source =
      strip == Strip::kNothing
          ? rendered->source
          : absl::StrCat("#define HONE_STRIP ", static_cast<int>(strip), "\n",
                         rendered->source);
  request.arch = rendered->arch;
  absl::StatusOr<CompileResult> result = nvrtc_->Compile(request);
  if (!result.ok()) {
    kernel.status = result.status();
    return kernel;
  }
  kernel.compile_ms = result->compile_ms;
  if (!result->ok()) {
    kernel.status = absl::InvalidArgumentError(result->log);
    return kernel;
  }
  kernel.cubin = std::move(result->cubin);
  kernel.resources = result->resources;
  kernel.warnings = std::move(result->warnings);
  return kernel;
}

absl::StatusOr<std::string> KernelCompiler::CompileSource(
    const std::string& source, const std::string& arch) const {
  CompileRequest request;
  request.source = source;
  request.arch = arch;
  HONE_ASSIGN_OR_RETURN(CompileResult result, nvrtc_->Compile(request));
  if (!result.ok()) return absl::InvalidArgumentError(result.log);
  return std::move(result.cubin);
}

}  // namespace hone
