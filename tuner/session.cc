#include "tuner/session.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "tuner/entrants.h"
#include "tuner/session_run.h"

namespace hone {
namespace {

constexpr size_t kMaxLadder = 256;
// Share of the budget after which no race starts, so that what was found can
// still be confirmed.
constexpr double kRaceShare = 0.7;
// The share of the kernels that are chosen by what scouting found: one in so
// many.
constexpr int kRefinedShare = 3;

}  // namespace

absl::StatusOr<SessionResult> SessionRun::Go() {
  HONE_RETURN_IF_ERROR(Prepare());
  HONE_RETURN_IF_ERROR(Scout());
  HONE_RETURN_IF_ERROR(RaceLadder());
  phase_ = SessionPhase::kConfirm;
  // A kernel that fails the last gate leaves, and the rest is covered anew.
  while (true) {
    HONE_RETURN_IF_ERROR(Choose());
    HONE_RETURN_IF_ERROR(Confirm());
    HONE_ASSIGN_OR_RETURN(const bool sound, GateAgain());
    if (sound) break;
  }
  phase_ = SessionPhase::kDone;
  done_ = total_;
  Report(0);
  return Finish();
}

absl::Status SessionRun::Prepare() {
  HONE_RETURN_IF_ERROR(CheckOptions());
  std::vector<TuningConfig> extra;
  if (options_.incumbent) {
    for (const TableEntry& entry : options_.incumbent->entries) {
      extra.push_back(entry.config);
    }
  }
  HONE_ASSIGN_OR_RETURN(
      search_, CandidateSearch::Create(problem_, device_, options_.ladder));
  const CandidatePool pool = search_->First(
      extra, options_.max_kernels - RefinedKernels(), options_.seed);
  defaults_ = pool.defaults;
  AddKernels(pool);
  HONE_ASSIGN_OR_RETURN(std::vector<Trial> known, hooks_.known_trials());
  for (Trial& trial : known) known_.Add(std::move(trial));
  total_ =
      static_cast<int64_t>(kernels_.size() + 2 * options_.ladder.size() +
                           (RefinedKernels() == 0 ? 0 : ScoutPoints().size()));
  HONE_RETURN_IF_ERROR(Cancelled());
  HONE_RETURN_IF_ERROR(
      executor_.Begin(problem_, options_.ladder.back(), options_.seed));
  Report(0);
  return StartCompiling(0);
}

int SessionRun::RefinedKernels() const {
  return options_.max_kernels / kRefinedShare;
}

void SessionRun::AddKernels(const CandidatePool& pool) {
  for (size_t i = kernels_.size(); i < pool.configs.size(); ++i) {
    PoolKernel kernel;
    kernel.config = pool.configs[i];
    kernel.predicted_ns = pool.predicted_ns[i];
    kernels_.push_back(std::move(kernel));
  }
}

absl::Status SessionRun::CheckOptions() const {
  const std::vector<int64_t>& ladder = options_.ladder;
  const bool rising =
      std::is_sorted(ladder.begin(), ladder.end()) &&
      std::adjacent_find(ladder.begin(), ladder.end()) == ladder.end();
  if (ladder.empty() || ladder.size() > kMaxLadder || ladder.front() < 1 ||
      !rising) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ladder must be 1 to ", kMaxLadder, " rising M, each at least 1; is ",
        absl::StrJoin(ladder, ",")));
  }
  if (options_.max_kernels < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_kernels must be at least 1; is ", options_.max_kernels));
  }
  if (options_.max_table_kernels < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_table_kernels must be 0 or more; is ",
                     options_.max_table_kernels));
  }
  if (options_.budget <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("budget must be positive");
  }
  return absl::OkStatus();
}

absl::Status SessionRun::StartCompiling(size_t first) {
  std::vector<size_t> order;
  std::vector<bool> listed(kernels_.size(), false);
  const auto list = [&](size_t i) {
    if (i >= first && !listed[i]) order.push_back(i);
    listed[i] = true;
  };
  for (const int i : defaults_) list(static_cast<size_t>(i));
  for (const size_t point : CoarseToFine(options_.ladder.size())) {
    for (const size_t i : Entrants(point)) list(i);
  }
  std::vector<size_t> unknown;
  std::vector<TuningConfig> configs;
  for (const PoolKernel& kernel : kernels_) configs.push_back(kernel.config);
  for (const size_t i : order) {
    HONE_ASSIGN_OR_RETURN(
        const std::string key,
        compiler_.SourceKey(problem_, device_, kernels_[i].config));
    const Trial* failed = known_.FailedSource(key);
    if (failed == nullptr) {
      unknown.push_back(i);
    } else {
      ++reused_;
      ++done_;
      Discard(kernels_[i], *failed);
    }
  }
  // The rest of the pool is raced nowhere.
  for (size_t i = first; i < kernels_.size(); ++i) {
    if (!listed[i]) kernels_[i].state = PoolKernel::State::kOut;
  }
  total_ -= static_cast<int64_t>(kernels_.size() - first - order.size());
  queue_.emplace(&compiler_, problem_, device_, std::move(configs),
                 std::move(unknown));
  return absl::OkStatus();
}

SessionResult SessionRun::Finish() const {
  SessionResult result;
  result.table =
      BuildTable(problem_, device_, options_.race, kernels_, points_);
  result.table.protocol = executor_.protocol();
  result.table.source_closure = SourceClosureHash();
  result.table.ladder = options_.ladder;
  result.table.session_id = options_.session_id;
  result.table.unix_us = absl::ToUnixMicros(hooks_.now());
  std::set<int> distinct;
  for (const ChosenPoint& point : points_) distinct.insert(point.kernel);
  result.complete = complete_;
  result.distinct_kernels = static_cast<int64_t>(distinct.size());
  result.fewest_kernels = cover_.lower_bound;
  result.fewest_proven = cover_.proven;
  for (const TradeOffStep& step :
       Trade(TradeOffOptions().max_kernels, /*predict=*/false)) {
    result.table.trade_off.push_back({std::ssize(step.kernels),
                                      step.worst_regret, step.mean_regret,
                                      step.compile_ms, step.proven});
  }
  result.trials_recorded = recorded_;
  result.trials_reused = reused_;
  result.elapsed = hooks_.now() - start_;
  return result;
}

absl::Time SessionRun::RaceDeadline() const {
  return start_ + options_.budget * kRaceShare;
}

absl::Status SessionRun::Cancelled() const {
  return hooks_.is_cancelled() ? absl::CancelledError("tuning was cancelled")
                               : absl::OkStatus();
}

void SessionRun::Report(int64_t m, Evidences evidences) const {
  SessionProgress progress;
  progress.phase = phase_;
  progress.done = done_;
  progress.total = std::max(total_, done_);
  progress.elapsed = hooks_.now() - start_;
  if (done_ > 0) {
    const double left = static_cast<double>(progress.total - done_);
    progress.eta = std::max(
        absl::ZeroDuration(),
        std::min(progress.elapsed * (left / static_cast<double>(done_)),
                 options_.budget - progress.elapsed));
  } else {
    progress.eta = options_.budget - progress.elapsed;
  }
  progress.compiled = compiled_;
  progress.failed = failed_;
  progress.trials = recorded_;
  progress.reused = reused_;
  progress.m = m;
  if (m > 0) {
    const auto point =
        std::find(options_.ladder.begin(), options_.ladder.end(), m);
    for (const Measured& measured : MeasuredAt(kernels_, m, evidences)) {
      const Trial& trial = *measured.trial;
      if (progress.best_ns == 0 || trial.median_ns < progress.best_ns) {
        progress.best_ns = trial.median_ns;
        progress.best_config = trial.config.ToString();
      }
      if (point != options_.ladder.end() &&
          measured.kernel ==
              defaults_[static_cast<size_t>(point - options_.ladder.begin())])
        progress.default_ns = trial.median_ns;
    }
  }
  hooks_.progress(progress);
}

absl::string_view ToString(SessionPhase phase) {
  switch (phase) {
    case SessionPhase::kPrepare:
      return "prepare";
    case SessionPhase::kRace:
      return "race";
    case SessionPhase::kConfirm:
      return "confirm";
    case SessionPhase::kDone:
      return "done";
    case SessionPhase::kAudit:
      return "audit";
    case SessionPhase::kRecheck:
      return "recheck";
  }
  return "";
}

TuningSession::TuningSession(Executor* executor, CandidateCompiler* compiler,
                             SessionOptions options, SessionHooks hooks)
    : executor_(executor),
      compiler_(compiler),
      options_(std::move(options)),
      hooks_(std::move(hooks)) {}

absl::StatusOr<SessionResult> TuningSession::Run(const Problem& problem) {
  return SessionRun(executor_, compiler_, options_, hooks_, problem).Go();
}

}  // namespace hone
