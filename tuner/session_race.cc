// Compiling, gating, scouting and racing: from candidates to evidence.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "tuner/analytic_model.h"
#include "tuner/entrants.h"
#include "tuner/session_run.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

// Ladder points that are scouted.
constexpr size_t kScoutPoints = 9;

}  // namespace

absl::Status SessionRun::AwaitKernels(const std::vector<size_t>& wanted) {
  const auto waiting = [&] {
    return std::any_of(wanted.begin(), wanted.end(), [&](size_t i) {
      return kernels_[i].state == PoolKernel::State::kWaiting;
    });
  };
  while (waiting() && hooks_.now() < RaceDeadline()) {
    HONE_RETURN_IF_ERROR(Cancelled());
    std::optional<CompileQueue::Result> result =
        queue_->Next(absl::Milliseconds(50));
    if (!result) continue;
    HONE_RETURN_IF_ERROR(result->compiled.status());
    HONE_RETURN_IF_ERROR(
        TakeCompiled(result->index, *std::move(result->compiled)));
    ++done_;
    Report(0);
  }
  return absl::OkStatus();
}

absl::Status SessionRun::TakeCompiled(size_t index,
                                      CompiledCandidate compiled) {
  PoolKernel& kernel = kernels_[index];
  kernel.candidate = std::move(compiled.candidate);
  if (compiled.outcome != Outcome::kMeasured) {
    return Fail(kernel, options_.ladder.front(), compiled.outcome,
                compiled.detail);
  }
  ++compiled_;
  const CompileInfo& info = kernel.candidate.compile;
  // Two configs that compile to the same kernel are one.
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (i == index || kernels_[i].executor_index < 0 ||
        kernels_[i].candidate.compile.kernel_id != info.kernel_id) {
      continue;
    }
    kernel.state = PoolKernel::State::kOut;
    std::replace(defaults_.begin(), defaults_.end(), static_cast<int>(index),
                 static_cast<int>(i));
    return absl::OkStatus();
  }
  // Of failed kernels too: what scouting found of them steers the search.
  reused_ += known_.Restore(kernel);
  if (const Trial* failed = known_.FailedKernel(info.kernel_id)) {
    Discard(kernel, *failed);
    return absl::OkStatus();
  }
  kernel.predicted_ns = PredictLadder(kernel);
  HONE_ASSIGN_OR_RETURN(kernel.executor_index, executor_.Add(kernel.candidate));
  kernel.state = PoolKernel::State::kReady;
  for (const int64_t m : GatePoints(index)) {
    HONE_ASSIGN_OR_RETURN(const bool passed, Gate(kernel, m));
    if (!passed) break;
  }
  return absl::OkStatus();
}

std::vector<double> SessionRun::PredictLadder(const PoolKernel& kernel) const {
  const KernelFootprint footprint = FootprintOf(kernel.candidate.compile);
  std::vector<double> times;
  for (const int64_t m : options_.ladder) {
    times.push_back(
        Predict(problem_, device_, kernel.config, m, footprint).total_ns);
  }
  return surrogate_
             ? surrogate_->Correct(PositionOf(kernel.config), std::move(times))
             : times;
}

std::vector<int64_t> SessionRun::GatePoints(size_t index) const {
  std::set<int64_t> points;
  for (size_t p = 0; p < options_.ladder.size(); ++p) {
    const std::vector<size_t> entrants = Entrants(p);
    if (std::count(entrants.begin(), entrants.end(), index) > 0) {
      points.insert(options_.ladder[p]);
    }
  }
  if (points.empty()) points.insert(options_.ladder.front());
  return GateLadder(kernels_[index].config, *points.begin(), *points.rbegin());
}

absl::StatusOr<bool> SessionRun::Gate(PoolKernel& kernel, int64_t m) {
  HONE_RETURN_IF_ERROR(Cancelled());
  HONE_ASSIGN_OR_RETURN(
      const GateResult result,
      executor_.Gate(kernel.executor_index, m,
                     GateDeadline(device_, ExpectedNs(kernel, m))));
  for (const std::string& how : result.interruptions) {
    HONE_RETURN_IF_ERROR(NoteInterruption(kernel, m, how));
  }
  kernel.gate = result.gate;
  kernel.error.relative_norm =
      std::max(kernel.error.relative_norm, result.error.relative_norm);
  kernel.error.worst_ratio =
      std::max(kernel.error.worst_ratio, result.error.worst_ratio);
  if (result.outcome == Outcome::kMeasured) return true;
  HONE_RETURN_IF_ERROR(Fail(kernel, m, result.outcome, result.detail));
  return false;
}

void SessionRun::Discard(PoolKernel& kernel, const Trial& trial) {
  kernel.state = PoolKernel::State::kOut;
  ++failed_;
  failures_.push_back(absl::StrCat(ToString(trial.outcome), ": ", trial.detail,
                                   " (", kernel.config.ToString(), ")"));
}

absl::Status SessionRun::Fail(PoolKernel& kernel, int64_t m, Outcome outcome,
                              const std::string& detail) {
  Trial trial = NewTrial(kernel, m);
  trial.outcome = outcome;
  trial.detail = detail;
  Discard(kernel, trial);
  return Record(trial);
}

absl::Status SessionRun::NoteInterruption(const PoolKernel& kernel, int64_t m,
                                          const std::string& how) {
  Trial trial = NewTrial(kernel, m);
  trial.outcome = Outcome::kInterrupted;
  trial.detail = how;
  return Record(trial);
}

double SessionRun::ExpectedNs(const PoolKernel& kernel, int64_t m) const {
  return Predict(problem_, device_, kernel.config, m,
                 FootprintOf(kernel.candidate.compile))
      .total_ns;
}

Trial SessionRun::NewTrial(const PoolKernel& kernel, int64_t m) const {
  Trial trial;
  trial.problem = problem_;
  trial.m = m;
  trial.config = kernel.config;
  trial.gate = kernel.gate;
  trial.error = kernel.error;
  trial.compile = kernel.candidate.compile;
  trial.session_id = options_.session_id;
  return trial;
}

absl::Status SessionRun::Record(Trial& trial) {
  trial.unix_us = absl::ToUnixMicros(hooks_.now());
  HONE_RETURN_IF_ERROR(hooks_.record_trial(trial));
  ++recorded_;
  return absl::OkStatus();
}

std::vector<size_t> SessionRun::Entrants(size_t point) const {
  const TableEntry* incumbent =
      options_.incumbent ? options_.incumbent->Find(options_.ladder[point])
                         : nullptr;
  return SelectEntrants(kernels_, options_.ladder, point, defaults_[point],
                        surrogate_ ? kRaceRatio : kScoutRatio,
                        incumbent == nullptr ? nullptr : &incumbent->config,
                        best_ns_);
}

std::vector<size_t> SessionRun::ScoutPoints() const {
  std::vector<size_t> points = CoarseToFine(options_.ladder.size());
  points.resize(std::min(points.size(), kScoutPoints));
  return points;
}

absl::Status SessionRun::Scout() {
  phase_ = SessionPhase::kRace;
  if (RefinedKernels() == 0) return absl::OkStatus();
  RaceOptions few = options_.race;
  few.min_rounds = few.max_rounds = few.screen_rounds;
  for (const size_t point : ScoutPoints()) {
    const std::vector<size_t> entrants = Entrants(point);
    HONE_RETURN_IF_ERROR(AwaitKernels(entrants));
    if (hooks_.now() >= RaceDeadline()) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(
        const bool finished,
        RaceAt(options_.ladder[point], entrants, defaults_[point],
               &PoolKernel::scouted, few, RaceDeadline()));
    if (!finished) return absl::OkStatus();
    ++done_;
    Report(0);
  }
  // Kernels that only the other points will ask for are compiled by now, or
  // nearly.
  std::vector<size_t> all(kernels_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  HONE_RETURN_IF_ERROR(AwaitKernels(all));
  Surrogate surrogate(options_.ladder);
  CandidatePool pool;
  for (const PoolKernel& kernel : kernels_) {
    pool.configs.push_back(kernel.config);
    pool.predicted_ns.push_back(kernel.predicted_ns);
    std::vector<double> measured;
    for (const int64_t m : options_.ladder) {
      const auto it = kernel.scouted.find(m);
      measured.push_back(it == kernel.scouted.end()
                             ? 0
                             : static_cast<double>(it->second.median_ns));
    }
    surrogate.Add(PositionOf(kernel.config), kernel.predicted_ns, measured);
  }
  search_->Refine(surrogate, RefinedKernels(), pool);
  for (size_t i = 0; i < kernels_.size(); ++i) {
    kernels_[i].predicted_ns = pool.predicted_ns[i];
  }
  surrogate_ = std::move(surrogate);
  const size_t first = kernels_.size();
  AddKernels(pool);
  total_ += static_cast<int64_t>(kernels_.size() - first);
  return StartCompiling(first);
}

absl::Status SessionRun::RaceLadder() {
  for (const size_t point : CoarseToFine(options_.ladder.size())) {
    const std::vector<size_t> entrants = Entrants(point);
    HONE_RETURN_IF_ERROR(AwaitKernels(entrants));
    // Compiling may have taken all the time for races; then the confirmation
    // gives some of its own, so that there is an answer at all.
    const bool late = hooks_.now() >= RaceDeadline();
    if (late && !best_ns_.empty()) break;
    const int64_t m = options_.ladder[point];
    HONE_ASSIGN_OR_RETURN(
        const bool finished,
        RaceAt(m, entrants, defaults_[point], &PoolKernel::raced, options_.race,
               late ? deadline_ : RaceDeadline()));
    if (!finished) break;
    for (const Measured& measured :
         MeasuredAt(kernels_, m, &PoolKernel::raced)) {
      const auto [it, added] =
          best_ns_.try_emplace(m, measured.trial->median_ns);
      it->second = std::min(it->second, measured.trial->median_ns);
    }
    ++done_;
    Report(m);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SessionRun::RaceAt(int64_t m,
                                        const std::vector<size_t>& entrants,
                                        int standard, Evidences evidences,
                                        const RaceOptions& race,
                                        absl::Time deadline) {
  RaceRun run;
  run.m = m;
  run.first_round = known_.NextRound(m, evidences);
  std::vector<size_t> racing;
  double expected_ns = 0;
  for (const size_t i : entrants) {
    const PoolKernel& kernel = kernels_[i];
    if (kernel.state != PoolKernel::State::kReady ||
        (kernel.*evidences).contains(m)) {
      continue;
    }
    if (static_cast<int>(i) == standard) {
      run.protected_entrant = static_cast<int>(racing.size());
    }
    racing.push_back(i);
    run.candidates.push_back(kernel.executor_index);
    expected_ns += ExpectedNs(kernel, m);
  }
  run.round_deadline = RoundDeadline(racing.size(), expected_ns);
  run.stop = [&] { return hooks_.is_cancelled() || hooks_.now() >= deadline; };
  run.interrupted = [&](int entrant, const std::string& how) {
    return NoteInterruption(kernels_[racing[static_cast<size_t>(entrant)]], m,
                            how);
  };
  run.left = [&](int entrant, const EntrantState& state) -> absl::Status {
    PoolKernel& kernel = kernels_[racing[static_cast<size_t>(entrant)]];
    Trial trial = NewTrial(kernel, m);
    trial.samples = state.samples;
    trial.median_ns = std::llround(Median(Durations(state.samples)));
    switch (state.status) {
      case EntrantState::Status::kFailed:
        trial.outcome = state.failure;
        trial.detail = state.detail;
        Discard(kernel, trial);
        break;
      case EntrantState::Status::kScreenedOut:
        trial.outcome = Outcome::kScreenedOut;
        trial.detail = "far behind the best in the first rounds";
        break;
      case EntrantState::Status::kDropped:
      case EntrantState::Status::kLive:
        break;
    }
    HONE_RETURN_IF_ERROR(Record(trial));
    known_.NoteRounds(trial);
    (kernel.*evidences)[m] = std::move(trial);
    return absl::OkStatus();
  };
  HONE_ASSIGN_OR_RETURN(const bool finished,
                        RunRace(executor_, run, race, random_));
  HONE_RETURN_IF_ERROR(Cancelled());
  return finished;
}

}  // namespace hone
