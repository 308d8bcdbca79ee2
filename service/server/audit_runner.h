// Runs one audit: the published table from the store, and the audit of it on
// the device. Writes nothing.
#ifndef HONE_SERVICE_SERVER_AUDIT_RUNNER_H_
#define HONE_SERVICE_SERVER_AUDIT_RUNNER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "db/store.h"
#include "service/metrics/event_metrics.h"
#include "service/server/log.h"
#include "service/server/tune_jobs.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"

namespace hone {

// Not thread-safe: TuneJobs runs one job at a time. Everything must outlive
// it. `uncached` compiles without the cache.
class AuditRunner {
 public:
  AuditRunner(Store* store, Executor* executor, CandidateCompiler* compiler,
              CandidateCompiler* uncached, Logger* log, EventMetrics* metrics);

  // `request.audit` is set, and so is the outcome's. A stored table of another
  // protocol is not audited, as its times cannot be compared. The errors of
  // RunAudit() and of the store.
  absl::StatusOr<TuneOutcome> Run(
      const TuneRequest& request,
      const std::function<void(const SessionProgress&)>& progress,
      const std::function<bool()>& is_cancelled);

 private:
  Store* const store_;
  Executor* const executor_;
  CandidateCompiler* const compiler_;
  CandidateCompiler* const uncached_;
  Logger* const log_;
  EventMetrics* const metrics_;
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_AUDIT_RUNNER_H_
