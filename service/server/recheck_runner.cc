#include "service/server/recheck_runner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"
#include "service/convert/errors.h"
#include "service/server/tune_runner.h"
#include "tuner/recheck.h"

namespace hone {
namespace {

// Of each imported table: one in each third of its ladder.
constexpr int64_t kImportedKeys = 3;

// Once verified, an imported table is as good as a local one.
bool AwaitsVerification(const StoredTable& stored) {
  return stored.origin == Origin::kImported && !stored.verified;
}

// How the device differs from the one that the table was measured on, unless a
// recheck has kept it in this state.
std::vector<std::string> UncheckedDifferences(const StoredTable& stored,
                                              const DeviceSpec& device) {
  const bool kept = std::count(stored.kept_in.begin(), stored.kept_in.end(),
                               device.SoftText()) > 0;
  return kept ? std::vector<std::string>()
              : SoftDifferences(device, stored.table.device);
}

}  // namespace

std::vector<std::string> UncheckedDifferences(const LookupIndex& index,
                                              const DeviceSpec& device) {
  std::vector<std::string> differences;
  for (const StoredTable& stored : index.tables()) {
    if (AwaitsVerification(stored) ||
        stored.table.device.ClassText() != device.ClassText()) {
      continue;
    }
    for (std::string& difference : UncheckedDifferences(stored, device)) {
      if (std::count(differences.begin(), differences.end(), difference) == 0)
        differences.push_back(std::move(difference));
    }
  }
  return differences;
}

std::string UuidOf(absl::string_view text) {
  const std::string hex = Sha256Hex(text);
  // Version 8, made by the application's own rule; variant 1.
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-8",
                      hex.substr(12, 3), "-8", hex.substr(15, 3), "-",
                      hex.substr(18, 12));
}

RecheckRunner::RecheckRunner(
    Store* store, TableCache* tables, Executor* executor,
    CandidateCompiler* compiler, Logger* log,
    std::function<absl::Status(const TuneRequest&)> retune,
    std::function<absl::Time()> now)
    : store_(store),
      tables_(tables),
      executor_(executor),
      compiler_(compiler),
      log_(log),
      retune_(std::move(retune)),
      now_(std::move(now)) {}

absl::StatusOr<std::vector<StoredTable>> RecheckRunner::TablesFor(
    const TuneRequest& request) const {
  const RecheckRequest& recheck = *request.recheck;
  TableFilter filter;
  filter.device_class = executor_->device().ClassHash();
  if (!recheck.all) filter.problem = request.problem;
  HONE_ASSIGN_OR_RETURN(std::vector<StoredTable> all, store_->Tables(filter));
  std::vector<StoredTable> tables;
  for (StoredTable& stored : all) {
    const bool wanted =
        !recheck.changed_only || AwaitsVerification(stored) ||
        !UncheckedDifferences(stored, executor_->device()).empty();
    if (wanted && stored.table.protocol == executor_->protocol())
      tables.push_back(std::move(stored));
  }
  if (tables.empty()) {
    return WithReason(
        absl::FailedPreconditionError(
            recheck.all ? "there is no table of this device to recheck; tune "
                          "or import some"
                        : "there is no table of this problem and device to "
                          "recheck; tune it"),
        "TABLE_NOT_FOUND");
  }
  return tables;
}

absl::Status RecheckRunner::Measure(
    const TuneRequest& request, const std::vector<StoredTable>& tables,
    const std::function<void(const SessionProgress&)>& progress,
    const std::function<bool()>& is_cancelled, RecheckReport& report) {
  const DeviceSpec& device = executor_->device();
  const Protocol protocol = executor_->protocol();
  const absl::Time start = now_();
  std::vector<const DispatchTable*> local;
  std::vector<std::vector<int64_t>> keys(tables.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    if (!AwaitsVerification(tables[i])) {
      local.push_back(&tables[i].table);
    } else {
      keys[i] = SampleKeys({&tables[i].table}, kImportedKeys,
                           request.recheck->seed + i)[0];
    }
  }
  const std::vector<std::vector<int64_t>> sample =
      SampleKeys(local, request.recheck->keys, request.recheck->seed);
  size_t next = 0;
  std::set<std::string> timed;  // kernels
  SessionProgress now;
  now.phase = SessionPhase::kRecheck;
  for (size_t i = 0; i < tables.size(); ++i) {
    if (!AwaitsVerification(tables[i])) keys[i] = sample[next++];
    now.total += std::ssize(keys[i]);
  }
  const auto tell = [&] {
    now.elapsed = now_() - start;
    now.eta = now.done == 0
                  ? request.budget - now.elapsed
                  : std::min(request.budget - now.elapsed,
                             now.elapsed * (static_cast<double>(now.total) /
                                                static_cast<double>(now.done) -
                                            1));
    now.eta = std::max(now.eta, absl::ZeroDuration());
    progress(now);
  };
  RecheckOptions options;
  options.session_id = request.request_id;
  options.deadline = start + request.budget;
  report.confidence = options.confidence;
  for (size_t i = 0; i < tables.size(); ++i) {
    const StoredTable& stored = tables[i];
    RecheckedTable table;
    table.problem = stored.table.problem;
    table.revision = stored.revision;
    table.imported = AwaitsVerification(stored);
    table.soft_differences = SoftDifferences(device, stored.table.device);
    table.planned = std::ssize(keys[i]);
    tell();
    if (!keys[i].empty()) {
      options.seed = request.recheck->seed + i;
      RecheckHooks hooks;
      hooks.record_trial = [&](const Trial& trial) {
        ++now.trials;
        if (trial.outcome != Outcome::kMeasured) {
          ++now.failed;
        } else if (timed.insert(trial.compile.kernel_id).second) {
          ++now.compiled;
        }
        return store_->RecordTrial(device, protocol, trial).status();
      };
      hooks.point = [&](const RecheckPoint& point) {
        ++now.done;
        now.m = point.m;
        now.best_config = point.best_config;
        now.best_ns = point.best_ns;
        now.default_ns = point.default_ns;
        tell();
        now.m = 0;
      };
      hooks.is_cancelled = is_cancelled;
      hooks.now = now_;
      HONE_ASSIGN_OR_RETURN(
          const std::vector<Trial> known,
          store_->KnownTrials(table.problem, device, protocol));
      HONE_ASSIGN_OR_RETURN(table.points,
                            RecheckTable(*executor_, *compiler_, stored.table,
                                         keys[i], known, options, hooks));
    }
    report.complete =
        report.complete && std::ssize(table.points) == table.planned;
    report.tables.push_back(std::move(table));
  }
  report.elapsed = now_() - start;
  return absl::OkStatus();
}

absl::Status RecheckRunner::Conclude(const TuneRequest& request,
                                     const std::vector<StoredTable>& tables,
                                     RecheckReport& report) {
  if (request.recheck->report_only) return absl::OkStatus();
  RecheckRecord record;
  record.session_id = request.request_id;
  record.device = executor_->device();
  record.unix_us = absl::ToUnixMicros(now_());
  record.keys = report.keys;
  record.median_regret = report.median_regret;
  record.regret_limit = report.regret_limit;
  for (size_t i = 0; i < tables.size(); ++i) {
    const RecheckedTable& table = report.tables[i];
    record.tables.push_back({.table_id = tables[i].id,
                             .keys = std::ssize(table.points),
                             .median_regret = table.median_regret,
                             .verdict = table.verdict});
  }
  HONE_RETURN_IF_ERROR(store_->RecordRecheck(record));
  HONE_RETURN_IF_ERROR(tables_->Refresh());
  for (size_t i = 0; i < tables.size(); ++i) {
    RecheckedTable& table = report.tables[i];
    if (table.verdict != RecheckVerdict::kRetune) continue;
    TuneRequest tune;
    tune.request_id =
        UuidOf(absl::StrCat(request.request_id, " ", table.problem.ToString()));
    tune.problem = table.problem;
    tune.ladder = tables[i].table.ladder;
    tune.retune = true;
    tune.detached = true;
    tune.this_state_only = true;
    const absl::Status queued = retune_(tune);
    if (queued.ok()) table.retune_id = tune.request_id;
    log_->Info("recheck_retune",
               {{"recheck_id", LogText(request.request_id)},
                {"tune_id", LogText(tune.request_id)},
                {"problem", LogText(table.problem.ToString())},
                {"status", LogText(absl::StatusCodeToString(queued.code()))},
                {"detail", LogText(queued.message())}});
  }
  return absl::OkStatus();
}

absl::StatusOr<TuneOutcome> RecheckRunner::Run(
    const TuneRequest& request,
    const std::function<void(const SessionProgress&)>& progress,
    const std::function<bool()>& is_cancelled) {
  HONE_ASSIGN_OR_RETURN(const std::vector<StoredTable> tables,
                        TablesFor(request));
  log_->Info("recheck_started", {{"tune_id", LogText(request.request_id)},
                                 {"tables", Json{std::ssize(tables)}}});
  RecheckReport report;
  report.device = executor_->device();
  report.protocol = executor_->protocol();
  report.source_closure = SourceClosureHash();
  report.seed = request.recheck->seed;
  absl::Status status =
      Measure(request, tables, progress, is_cancelled, report);
  Judge(report);
  if (status.ok()) status = Conclude(request, tables, report);
  log_->Info(
      "recheck_ended",
      {{"tune_id", LogText(request.request_id)},
       {"status", LogText(absl::StatusCodeToString(status.code()))},
       {"detail", LogText(status.message())},
       {"keys", Json{report.keys}},
       {"median_regret",
        LogText(report.median_regret ? absl::StrCat(*report.median_regret)
                                     : "none")},
       {"passed", Json{report.passed}}});
  if (!status.ok()) return WithDeviceReason(status, *executor_);
  TuneOutcome outcome;
  outcome.complete = report.complete;
  outcome.elapsed = report.elapsed;
  outcome.recheck = std::move(report);
  return outcome;
}

}  // namespace hone
