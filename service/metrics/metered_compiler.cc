#include "service/metrics/metered_compiler.h"

#include "absl/time/clock.h"

namespace hone {

absl::StatusOr<CompiledCandidate> MeteredCompiler::Compile(
    const Problem& problem, const DeviceSpec& device,
    const TuningConfig& config) {
  const absl::Time start = absl::Now();
  absl::StatusOr<CompiledCandidate> compiled =
      compiler_->Compile(problem, device, config);
  if (!compiled.ok()) {
    metrics_->OnCompilerBroken();
    return compiled;
  }
  // Only what compiled is cached, and only a cached kernel took no time.
  const bool hit = cached_ && compiled->outcome == Outcome::kMeasured &&
                   compiled->candidate.compile.compile_ms == 0;
  const CacheUse use = !cached_ ? CacheUse::kBypassed
                       : hit    ? CacheUse::kHit
                                : CacheUse::kMiss;
  metrics_->OnCompile(compiled->outcome, use, absl::Now() - start);
  return compiled;
}

}  // namespace hone
