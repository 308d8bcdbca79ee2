// JitCompiler: the CandidateCompiler of real sessions. Renders with
// kernels/codegen and compiles with kernels/jit.
#ifndef HONE_TUNER_JIT_COMPILER_H_
#define HONE_TUNER_JIT_COMPILER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/codegen/codegen.h"
#include "kernels/jit/compiler.h"
#include "tuner/candidate_compiler.h"

namespace hone {

class JitCompiler : public CandidateCompiler {
 public:
  // honed gives a Compiler over its compile pool, so that a candidate can
  // neither hang nor kill the process that tunes.
  // Tests of faults render other sources.
  using Renderer = std::function<absl::StatusOr<RenderedKernel>(
      const Problem&, const TuningConfig&, const DeviceSpec&)>;
  explicit JitCompiler(std::shared_ptr<Compiler> compiler,
                       Renderer render = RenderKernel);

  int parallelism() const override { return compiler_->parallelism(); }
  // Both also return the errors of the renderer.
  absl::StatusOr<std::string> SourceKey(const Problem& problem,
                                        const DeviceSpec& device,
                                        const TuningConfig& config) override;
  absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) override;

 private:
  const std::shared_ptr<Compiler> compiler_;
  const Renderer render_;
};

}  // namespace hone

#endif  // HONE_TUNER_JIT_COMPILER_H_
