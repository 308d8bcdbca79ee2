// JitCompiler: the CandidateCompiler of real sessions. Renders with
// kernels/codegen and compiles with kernels/jit.
#ifndef HONE_TUNER_JIT_COMPILER_H_
#define HONE_TUNER_JIT_COMPILER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/jit/compiler.h"
#include "tuner/candidate_compiler.h"

namespace hone {

class JitCompiler : public CandidateCompiler {
 public:
  // honed gives a Compiler over its compile pool, so that a candidate can
  // neither hang nor kill the process that tunes.
  explicit JitCompiler(std::shared_ptr<Compiler> compiler);

  int parallelism() const override { return compiler_->parallelism(); }
  // Both also return the errors of RenderKernel().
  absl::StatusOr<std::string> SourceKey(const Problem& problem,
                                        const DeviceSpec& device,
                                        const TuningConfig& config) override;
  absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) override;

 private:
  const std::shared_ptr<Compiler> compiler_;
};

}  // namespace hone

#endif  // HONE_TUNER_JIT_COMPILER_H_
