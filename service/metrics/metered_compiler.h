// A CandidateCompiler that counts what another one does.
#ifndef HONE_SERVICE_METRICS_METERED_COMPILER_H_
#define HONE_SERVICE_METRICS_METERED_COMPILER_H_

#include <string>

#include "service/metrics/event_metrics.h"
#include "tuner/candidate_compiler.h"

namespace hone {

class MeteredCompiler : public CandidateCompiler {
 public:
  // Both must outlive it. `cached`: whether the compiler has a cubin cache.
  MeteredCompiler(CandidateCompiler* compiler, bool cached,
                  EventMetrics* metrics)
      : compiler_(compiler), cached_(cached), metrics_(metrics) {}

  int parallelism() const override { return compiler_->parallelism(); }
  absl::StatusOr<std::string> SourceKey(const Problem& problem,
                                        const DeviceSpec& device,
                                        const TuningConfig& config) override {
    return compiler_->SourceKey(problem, device, config);
  }
  absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) override;

 private:
  CandidateCompiler* const compiler_;
  const bool cached_;
  EventMetrics* const metrics_;
};

}  // namespace hone

#endif  // HONE_SERVICE_METRICS_METERED_COMPILER_H_
