// Runs one tune: what is known from the store, a session on the device, and
// the table published.
#ifndef HONE_SERVICE_SERVER_TUNE_RUNNER_H_
#define HONE_SERVICE_SERVER_TUNE_RUNNER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "service/metrics/event_metrics.h"
#include "service/server/log.h"
#include "service/server/table_cache.h"
#include "service/server/tune_jobs.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"

namespace hone {

// An Unavailable that says which of the reasons it is that the device cannot be
// measured; other statuses as they are.
absl::Status WithDeviceReason(const absl::Status& status,
                              const Executor& executor);

// Not thread-safe: TuneJobs runs one job at a time. Everything must outlive
// it.
class TuneRunner {
 public:
  TuneRunner(Store* store, TableCache* tables, Executor* executor,
             CandidateCompiler* compiler, Logger* log, EventMetrics* metrics,
             std::function<absl::Time()> now = absl::Now);

  // The errors of TuningSession::Run() and of the store.
  absl::StatusOr<TuneOutcome> Run(
      const TuneRequest& request,
      const std::function<void(const SessionProgress&)>& progress,
      const std::function<bool()>& is_cancelled);

 private:
  // Whether `stored` answers the request without measuring.
  bool IsFresh(const StoredTable& stored, const TuneRequest& request) const;
  absl::StatusOr<TuneOutcome> AnswerFromStore(const TuneRequest& request) const;

  Store* const store_;
  TableCache* const tables_;
  Executor* const executor_;
  CandidateCompiler* const compiler_;
  Logger* const log_;
  EventMetrics* const metrics_;
  const std::function<absl::Time()> now_;
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_TUNE_RUNNER_H_
