// CandidateCompiler: turns configs into compiled candidates.
//
// The session compiles through this interface. JitCompiler
// (tuner/jit_compiler.h) renders with kernels/codegen and compiles with
// kernels/jit; tests use a fake.
#ifndef HONE_TUNER_CANDIDATE_COMPILER_H_
#define HONE_TUNER_CANDIDATE_COMPILER_H_

#include <string>

#include "absl/status/statusor.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/executor.h"
#include "tuner/trial.h"

namespace hone {

// What became of one compile.
struct CompiledCandidate {
  // kMeasured when it compiled; else kCompileError, kCompileTimeout,
  // kCompilerCrash or kInterrupted.
  Outcome outcome = Outcome::kMeasured;
  std::string detail;
  // config and compile.source_key are always set.
  Candidate candidate;
};

// Thread-safe.
class CandidateCompiler {
 public:
  virtual ~CandidateCompiler() = default;

  // How many Compile() calls are worth running at once; at least 1.
  virtual int parallelism() const = 0;

  // The alias key of a kernel (CompileInfo::source_key), without compiling.
  virtual absl::StatusOr<std::string> SourceKey(const Problem& problem,
                                                const DeviceSpec& device,
                                                const TuningConfig& config) = 0;

  // Compiles, or takes from the cache. Blocks. A candidate that does not
  // compile is an outcome; a Status means that the compiler itself is broken
  // (NVRTC missing, pool shut down).
  virtual absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) = 0;
};

}  // namespace hone

#endif  // HONE_TUNER_CANDIDATE_COMPILER_H_
