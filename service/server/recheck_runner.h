// Runs one recheck: a sample of the published tables on the device as it is
// now, what it found stored, and the tunes that follow from it asked for.
#ifndef HONE_SERVICE_SERVER_RECHECK_RUNNER_H_
#define HONE_SERVICE_SERVER_RECHECK_RUNNER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "service/server/log.h"
#include "service/server/table_cache.h"
#include "service/server/tune_jobs.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"

namespace hone {

// "driver 590.1 here, 580.65 measured" for each way in which the device differs
// from those that the tables of its class were measured on, as far as no
// recheck has kept them; every difference once. Imported tables that are not
// verified do not count.
std::vector<std::string> UncheckedDifferences(const LookupIndex& index,
                                              const DeviceSpec& device);

// A UUID that only depends on the text.
std::string UuidOf(absl::string_view text);

// Not thread-safe: TuneJobs runs one job at a time. Everything must outlive
// it. `retune` queues a tune.
class RecheckRunner {
 public:
  RecheckRunner(Store* store, TableCache* tables, Executor* executor,
                CandidateCompiler* compiler, Logger* log,
                std::function<absl::Status(const TuneRequest&)> retune,
                std::function<absl::Time()> now = absl::Now);

  // `request.recheck` is set, and so is the outcome's. FailedPrecondition: no
  // table is there to check. A tune that cannot be queued is logged. Other
  // errors are those of RecheckTable() and of the store.
  absl::StatusOr<TuneOutcome> Run(
      const TuneRequest& request,
      const std::function<void(const SessionProgress&)>& progress,
      const std::function<bool()>& is_cancelled);

 private:
  absl::StatusOr<std::vector<StoredTable>> TablesFor(
      const TuneRequest& request) const;
  absl::Status Measure(
      const TuneRequest& request, const std::vector<StoredTable>& tables,
      const std::function<void(const SessionProgress&)>& progress,
      const std::function<bool()>& is_cancelled, RecheckReport& report);
  absl::Status Conclude(const TuneRequest& request,
                        const std::vector<StoredTable>& tables,
                        RecheckReport& report);

  Store* const store_;
  TableCache* const tables_;
  Executor* const executor_;
  CandidateCompiler* const compiler_;
  Logger* const log_;
  const std::function<absl::Status(const TuneRequest&)> retune_;
  const std::function<absl::Time()> now_;
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_RECHECK_RUNNER_H_
