#include "service/server/tune_runner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "kernels/config/status_macros.h"
#include "service/convert/errors.h"
#include "tuner/session.h"

namespace hone {
namespace {

SessionStatus StatusOf(const absl::Status& status) {
  if (status.ok()) return SessionStatus::kFinished;
  return absl::IsCancelled(status) ? SessionStatus::kCancelled
                                   : SessionStatus::kFailed;
}

bool HasEvidence(const DispatchTable& table, int64_t m) {
  const TableEntry* entry = table.Find(m);
  return entry != nullptr &&
         std::any_of(entry->evidence.begin(), entry->evidence.end(),
                     [&](const Evidence& evidence) {
                       return evidence.m == m && evidence.samples > 0;
                     });
}

int64_t DistinctKernels(const DispatchTable& table) {
  std::set<std::string> kernels;
  for (const TableEntry& entry : table.entries)
    kernels.insert(entry.config.ToString());
  return std::ssize(kernels);
}

}  // namespace

absl::Status WithDeviceReason(const absl::Status& status,
                              const Executor& executor) {
  if (!absl::IsUnavailable(status)) return status;
  if (!executor.Usable().ok()) return WithReason(status, "DEVICE_QUARANTINED");
  return WithRetry(WithReason(status, "DEVICE_DISTURBED"), absl::Minutes(1));
}

TuneRunner::TuneRunner(Store* store, TableCache* tables, Executor* executor,
                       CandidateCompiler* compiler, Logger* log,
                       EventMetrics* metrics, std::function<absl::Time()> now)
    : store_(store),
      tables_(tables),
      executor_(executor),
      compiler_(compiler),
      log_(log),
      metrics_(metrics),
      now_(std::move(now)) {}

bool TuneRunner::IsFresh(const StoredTable& stored,
                         const TuneRequest& request) const {
  // A table whose budget ended early lacks evidence at some M, or one of more
  // kernels: it is not what was asked for.
  return (request.max_table_kernels == 0 ||
          DistinctKernels(stored.table) <= request.max_table_kernels) &&
         stored.verified && !tables_->Newest()->IsStale(stored) &&
         stored.table.protocol == executor_->protocol() &&
         std::all_of(request.ladder.begin(), request.ladder.end(),
                     [&](int64_t m) { return HasEvidence(stored.table, m); });
}

absl::StatusOr<TuneOutcome> TuneRunner::AnswerFromStore(
    const TuneRequest& request) const {
  TuneOutcome outcome;
  HONE_ASSIGN_OR_RETURN(
      outcome.answer,
      tables_->Newest()->GetTable(request.problem, executor_->device()));
  outcome.distinct_kernels = DistinctKernels(outcome.answer.table);
  return outcome;
}

absl::StatusOr<TuneOutcome> TuneRunner::Run(
    const TuneRequest& request,
    const std::function<void(const SessionProgress&)>& progress,
    const std::function<bool()>& is_cancelled) {
  const DeviceSpec& device = executor_->device();
  const Protocol protocol = executor_->protocol();
  const auto unix_us = [this] { return absl::ToUnixMicros(now_()); };

  const absl::StatusOr<StoredTable> stored =
      store_->GetTable(request.problem, device);
  if (!stored.ok() && !absl::IsNotFound(stored.status()))
    return stored.status();
  const bool fresh = stored.ok() && IsFresh(*stored, request);
  absl::Status begun = absl::OkStatus();
  if (!fresh || request.retune) {
    begun = store_->BeginSession({.id = request.request_id,
                                  .problem = request.problem,
                                  .device = device,
                                  .protocol = protocol,
                                  .started_us = unix_us()});
    if (!begun.ok() && !absl::IsAlreadyExists(begun)) return begun;
  }
  // A session of this id that finished, in an earlier life of honed, was this
  // very request.
  if ((fresh && !request.retune) || absl::IsAlreadyExists(begun)) {
    HONE_ASSIGN_OR_RETURN(TuneOutcome outcome, AnswerFromStore(request));
    outcome.already_fresh = true;
    return outcome;
  }

  SessionOptions options;
  options.session_id = request.request_id;
  options.ladder = request.ladder;
  options.max_kernels = request.max_kernels;
  options.max_table_kernels = request.max_table_kernels;
  options.budget = request.budget;
  if (stored.ok()) options.incumbent = stored->table;
  // Another process on the device is to be left alone, not waited for.
  if (request.idle) options.race.max_disturbed = 0;

  std::set<std::string> aliased;
  SessionHooks hooks;
  hooks.known_trials = [&] {
    return store_->KnownTrials(request.problem, device, protocol,
                               request.this_state_only);
  };
  hooks.record_trial = [&](const Trial& trial) -> absl::Status {
    const CompileInfo& compile = trial.compile;
    if (!compile.source_key.empty() && !compile.cubin_hash.empty() &&
        aliased.insert(compile.source_key).second) {
      HONE_RETURN_IF_ERROR(store_->PutAlias(compile));
    }
    HONE_RETURN_IF_ERROR(store_->RecordTrial(device, protocol, trial).status());
    metrics_->OnTrial(trial.outcome);
    return absl::OkStatus();
  };
  hooks.progress = progress;
  hooks.is_cancelled = is_cancelled;
  hooks.now = now_;

  log_->Info("tune_started",
             {{"tune_id", LogText(request.request_id)},
              {"problem", LogText(request.problem.ToString())}});
  absl::StatusOr<SessionResult> result =
      TuningSession(executor_, compiler_, std::move(options), std::move(hooks))
          .Run(request.problem);
  absl::Status status = WithDeviceReason(result.status(), *executor_);
  if (status.ok()) status = store_->PublishTable(result->table).status();
  const absl::Status finished = store_->FinishSession(
      request.request_id, StatusOf(status), status.message(), unix_us());
  if (status.ok()) status = finished;
  if (status.ok()) status = tables_->Refresh();
  log_->Info("tune_ended",
             {{"tune_id", LogText(request.request_id)},
              {"status", LogText(absl::StatusCodeToString(status.code()))},
              {"detail", LogText(status.message())}});
  if (!status.ok()) return status;

  HONE_ASSIGN_OR_RETURN(TuneOutcome outcome, AnswerFromStore(request));
  outcome.complete = result->complete;
  outcome.trials_recorded = result->trials_recorded;
  outcome.trials_reused = result->trials_reused;
  outcome.distinct_kernels = result->distinct_kernels;
  outcome.elapsed = result->elapsed;
  return outcome;
}

}  // namespace hone
