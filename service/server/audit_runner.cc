#include "service/server/audit_runner.h"

#include <utility>

#include "tuner/audit.h"

namespace hone {

AuditRunner::AuditRunner(Store* store, Executor* executor,
                         CandidateCompiler* compiler,
                         CandidateCompiler* uncached, Logger* log,
                         EventMetrics* metrics)
    : store_(store),
      executor_(executor),
      compiler_(compiler),
      uncached_(uncached),
      log_(log),
      metrics_(metrics) {}

absl::StatusOr<TuneOutcome> AuditRunner::Run(
    const TuneRequest& request,
    const std::function<void(const SessionProgress&)>& progress,
    const std::function<bool()>& is_cancelled) {
  absl::StatusOr<StoredTable> stored =
      store_->GetTable(request.problem, executor_->device());
  if (!stored.ok() && !absl::IsNotFound(stored.status()))
    return stored.status();
  AuditOptions options;
  options.ladder = request.ladder;
  options.tunes = request.audit->tunes;
  options.tune_kernels = request.max_kernels;
  options.kernels = request.audit->kernels;
  options.within = request.audit->within;
  options.budget = request.budget;
  options.seed = request.audit->seed;
  if (stored.ok() && stored->table.protocol == executor_->protocol()) {
    options.revision = stored->revision;
    options.published = std::move(stored->table);
  }
  log_->Info("audit_started",
             {{"tune_id", LogText(request.request_id)},
              {"problem", LogText(request.problem.ToString())}});
  AuditHooks hooks;
  hooks.progress = progress;
  hooks.is_cancelled = is_cancelled;
  hooks.trial = [this](const Trial& trial) {
    metrics_->OnTrial(trial.outcome);
  };
  absl::StatusOr<AuditReport> report = RunAudit(
      *executor_, *compiler_, *uncached_, options, hooks, request.problem);
  log_->Info(
      "audit_ended",
      {{"tune_id", LogText(request.request_id)},
       {"status", LogText(absl::StatusCodeToString(report.status().code()))},
       {"detail", LogText(report.status().message())}});
  if (!report.ok()) return report.status();
  TuneOutcome outcome;
  outcome.complete = report->complete;
  outcome.elapsed = report->elapsed;
  outcome.audit = *std::move(report);
  return outcome;
}

}  // namespace hone
