#include "tuner/session.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "tuner/analytic_model.h"
#include "tuner/compile_queue.h"
#include "tuner/cover.h"
#include "tuner/entrants.h"
#include "tuner/known_trials.h"
#include "tuner/search.h"
#include "tuner/statistics.h"
#include "tuner/surrogate.h"
#include "tuner/table_builder.h"

namespace hone {
namespace {

constexpr size_t kMaxLadder = 256;
// Share of the budget after which no race starts, so that what was found can
// still be confirmed.
constexpr double kRaceShare = 0.7;
// And after which no probe starts: ladder points come first.
constexpr double kProbeShare = 0.85;
// Ladder points that are scouted, and the share of the kernels that are chosen
// after it, by what it found: one in so many.
constexpr size_t kScoutPoints = 9;
constexpr int kRefinedShare = 3;

// Everything one Run() holds.
class SessionRun {
 public:
  SessionRun(Executor* executor, CandidateCompiler* compiler,
             const SessionOptions& options, const SessionHooks& hooks,
             const Problem& problem)
      : executor_(*executor),
        compiler_(*compiler),
        options_(options),
        hooks_(hooks),
        problem_(problem),
        device_(executor->device()),
        random_(options.seed),
        start_(hooks.now()),
        deadline_(start_ + options.budget) {}

  absl::StatusOr<SessionResult> Go() {
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

 private:
  // ---- preparing ----

  absl::Status Prepare() {
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
    total_ = static_cast<int64_t>(kernels_.size() + 2 * options_.ladder.size() +
                                  ScoutPoints().size());
    HONE_RETURN_IF_ERROR(Cancelled());
    HONE_RETURN_IF_ERROR(
        executor_.Begin(problem_, options_.ladder.back(), options_.seed));
    Report(0);
    return StartCompiling(0);
  }

  int RefinedKernels() const { return options_.max_kernels / kRefinedShare; }

  // What the pool has and the session does not yet.
  void AddKernels(const CandidatePool& pool) {
    for (size_t i = kernels_.size(); i < pool.configs.size(); ++i) {
      PoolKernel kernel;
      kernel.config = pool.configs[i];
      kernel.predicted_ns = pool.predicted_ns[i];
      kernels_.push_back(std::move(kernel));
    }
  }

  absl::Status CheckOptions() const {
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
    if (options_.budget <= absl::ZeroDuration()) {
      return absl::InvalidArgumentError("budget must be positive");
    }
    return absl::OkStatus();
  }

  // Of the kernels from `first` on: defaults first, then in the order in which
  // the races will ask.
  absl::Status StartCompiling(size_t first) {
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

  // ---- compiling and gating ----

  // Takes finished compiles until every one of `wanted` is decided or the
  // races' time is over.
  absl::Status AwaitKernels(const std::vector<size_t>& wanted) {
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

  absl::Status TakeCompiled(size_t index, CompiledCandidate compiled) {
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
    HONE_ASSIGN_OR_RETURN(kernel.executor_index,
                          executor_.Add(kernel.candidate));
    kernel.state = PoolKernel::State::kReady;
    for (const int64_t m : GatePoints(index)) {
      HONE_ASSIGN_OR_RETURN(const bool passed, Gate(kernel, m));
      if (!passed) break;
    }
    return absl::OkStatus();
  }

  // By what ptxas made of it, and by what was learned of others.
  std::vector<double> PredictLadder(const PoolKernel& kernel) const {
    const KernelFootprint footprint = FootprintOf(kernel.candidate.compile);
    std::vector<double> times;
    for (const int64_t m : options_.ladder) {
      times.push_back(
          Predict(problem_, device_, kernel.config, m, footprint).total_ns);
    }
    return surrogate_ ? surrogate_->Correct(kernel.config, std::move(times))
                      : times;
  }

  // The smallest and the largest M at which a kernel may be used, and a ragged
  // one.
  std::vector<int64_t> GatePoints(size_t index) const {
    std::set<int64_t> points;
    for (size_t p = 0; p < options_.ladder.size(); ++p) {
      const std::vector<size_t> entrants = Entrants(p);
      if (std::count(entrants.begin(), entrants.end(), index) > 0) {
        points.insert(options_.ladder[p]);
      }
    }
    if (points.empty()) points.insert(options_.ladder.front());
    const int64_t low = *points.begin();
    const int64_t high = *points.rbegin();
    // Past one whole tile of tokens and not at a multiple of anything.
    const int64_t past_tile = kernels_[index].config.block_m + 3;
    const int64_t ragged =
        std::clamp(past_tile <= high ? past_tile : high - 1, low, high);
    points = {low, ragged, high};
    return {points.begin(), points.end()};
  }

  // False when the kernel failed; then it is out everywhere.
  absl::StatusOr<bool> Gate(PoolKernel& kernel, int64_t m) {
    HONE_RETURN_IF_ERROR(Cancelled());
    HONE_ASSIGN_OR_RETURN(
        const GateResult result,
        executor_.Gate(kernel.executor_index, m, options_.gate_deadline));
    kernel.gate = result.gate;
    kernel.error.relative_norm =
        std::max(kernel.error.relative_norm, result.error.relative_norm);
    kernel.error.worst_ratio =
        std::max(kernel.error.worst_ratio, result.error.worst_ratio);
    if (result.outcome == Outcome::kMeasured) return true;
    HONE_RETURN_IF_ERROR(Fail(kernel, m, result.outcome, result.detail));
    return false;
  }

  void Discard(PoolKernel& kernel, const Trial& trial) {
    kernel.state = PoolKernel::State::kOut;
    ++failed_;
    failures_.push_back(absl::StrCat(ToString(trial.outcome), ": ",
                                     trial.detail, " (",
                                     kernel.config.ToString(), ")"));
  }

  absl::Status Fail(PoolKernel& kernel, int64_t m, Outcome outcome,
                    const std::string& detail) {
    Trial trial = NewTrial(kernel, m);
    trial.outcome = outcome;
    trial.detail = detail;
    Discard(kernel, trial);
    return Record(trial);
  }

  Trial NewTrial(const PoolKernel& kernel, int64_t m) const {
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

  absl::Status Record(Trial& trial) {
    trial.unix_us = absl::ToUnixMicros(hooks_.now());
    HONE_RETURN_IF_ERROR(hooks_.record_trial(trial));
    ++recorded_;
    return absl::OkStatus();
  }

  // ---- racing ----

  std::vector<size_t> Entrants(size_t point) const {
    const TableEntry* incumbent =
        options_.incumbent ? options_.incumbent->Find(options_.ladder[point])
                           : nullptr;
    return SelectEntrants(kernels_, options_.ladder, point, defaults_[point],
                          surrogate_ ? kRaceRatio : kScoutRatio,
                          incumbent == nullptr ? nullptr : &incumbent->config,
                          best_ns_);
  }

  // Ladder points to scout: spread over the ladder, none when no kernels are
  // to be chosen by what was found.
  std::vector<size_t> ScoutPoints() const {
    std::vector<size_t> points = CoarseToFine(options_.ladder.size());
    if (RefinedKernels() == 0) points.clear();
    points.resize(std::min(points.size(), kScoutPoints));
    return points;
  }

  // Times the first pool in a few rounds at a few points, corrects the model by
  // what it finds, and adds the kernels that the corrected model expects most
  // of.
  absl::Status Scout() {
    phase_ = SessionPhase::kRace;
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
      surrogate.Add(kernel.config, kernel.predicted_ns, measured);
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

  absl::Status RaceLadder() {
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
          RaceAt(m, entrants, defaults_[point], &PoolKernel::raced,
                 options_.race, late ? deadline_ : RaceDeadline()));
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

  // Races those that have no evidence at this M yet. False when time ran out.
  absl::StatusOr<bool> RaceAt(int64_t m, const std::vector<size_t>& entrants,
                              int standard, Evidences evidences,
                              const RaceOptions& race, absl::Time deadline) {
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
      expected_ns += Predict(problem_, device_, kernel.config, m,
                             FootprintOf(kernel.candidate.compile))
                         .total_ns;
    }
    // Far above any correct round, flushes included; a hang costs this long.
    run.round_deadline = absl::Seconds(2) +
                         absl::Milliseconds(20) * racing.size() +
                         20 * absl::Nanoseconds(expected_ns);
    run.stop = [&] {
      return hooks_.is_cancelled() || hooks_.now() >= deadline;
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

  // ---- choosing and confirming ----

  // Picks the kernels of the table from the first races.
  absl::Status Choose() {
    traits_.clear();
    for (const PoolKernel& kernel : kernels_) {
      bool incumbent = false;
      if (options_.incumbent) {
        for (const TableEntry& entry : options_.incumbent->entries) {
          incumbent = incumbent || entry.config == kernel.config;
        }
      }
      traits_.push_back(
          {incumbent ? 0 : 1,
           MaxWorkspaceBytes(problem_, kernel.config, options_.ladder.back())});
    }
    std::vector<CoverPoint> points;
    for (size_t p = 0; p < options_.ladder.size(); ++p) {
      points.push_back(PointAt(kernels_, options_.ladder[p], defaults_[p],
                               &PoolKernel::raced, options_.race));
    }
    cover_ = SmallestCover(points, traits_);
    if (!cover_.kernels.empty()) return absl::OkStatus();
    const bool any_ready =
        std::any_of(kernels_.begin(), kernels_.end(), [](const PoolKernel& k) {
          return k.state == PoolKernel::State::kReady;
        });
    if (hooks_.now() >= RaceDeadline() && (any_ready || failed_ == 0)) {
      return absl::DeadlineExceededError(
          "the budget ended before any candidate was measured");
    }
    std::vector<std::string> reasons(
        failures_.begin(),
        failures_.begin() + std::min<ptrdiff_t>(3, std::ssize(failures_)));
    return absl::FailedPreconditionError(absl::StrCat(
        "none of ", kernels_.size(),
        " candidates was correct: ", absl::StrJoin(reasons, "; ")));
  }

  // Races the chosen kernels and the default once more at every ladder point,
  // then the chosen ones at tile cliffs; assigns each point its kernel.
  absl::Status Confirm() {
    std::vector<int64_t> block_ms;
    for (const int i : cover_.kernels) {
      block_ms.push_back(kernels_[static_cast<size_t>(i)].config.block_m);
    }
    std::sort(block_ms.begin(), block_ms.end());
    block_ms.erase(std::unique(block_ms.begin(), block_ms.end()),
                   block_ms.end());
    const std::vector<int64_t> probes =
        CliffProbes(options_.ladder, block_ms, options_.max_probes);
    total_ =
        done_ + static_cast<int64_t>(options_.ladder.size() + probes.size());
    points_.clear();
    // Rising, probes included: products of large M heat the device, and what
    // follows them is timed at lower clocks (a probe at M = 9 after M = 8192:
    // 15.3 us at 1.53 GHz instead of 12.5 at 1.87).
    size_t p = 0;
    size_t probe = 0;
    while (p < options_.ladder.size() || probe < probes.size()) {
      if (probe == probes.size() ||
          (p < options_.ladder.size() && options_.ladder[p] < probes[probe])) {
        HONE_RETURN_IF_ERROR(
            ConfirmAt(options_.ladder[p], defaults_[p], /*probe=*/false));
        ++p;
      } else {
        HONE_RETURN_IF_ERROR(ConfirmAt(probes[probe], -1, /*probe=*/true));
        ++probe;
      }
    }
    std::vector<CoverPoint> choices;
    for (const ChosenPoint& point : points_) choices.push_back(point.choice);
    std::vector<int> all(kernels_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    const std::vector<int> assigned =
        AssignPoints(choices, traits_, all, options_.race.tie);
    for (size_t i = 0; i < points_.size(); ++i) {
      points_[i].kernel = assigned[i];
    }
    return FillUnmeasured();
  }

  absl::Status ConfirmAt(int64_t m, int standard, bool probe) {
    std::vector<size_t> entrants(cover_.kernels.begin(), cover_.kernels.end());
    if (standard >= 0 && std::count(entrants.begin(), entrants.end(),
                                    static_cast<size_t>(standard)) == 0) {
      entrants.push_back(static_cast<size_t>(standard));
    }
    bool confirmed = false;
    if (hooks_.now() <
        (probe ? start_ + options_.budget * kProbeShare : deadline_)) {
      HONE_ASSIGN_OR_RETURN(
          confirmed, RaceAt(m, entrants, standard, &PoolKernel::confirmed,
                            options_.race, deadline_));
      ++done_;
      Report(m, &PoolKernel::confirmed);
    }
    complete_ = complete_ && (confirmed || probe);
    if (probe && !confirmed) return absl::OkStatus();
    ChosenPoint point;
    point.m = m;
    point.standard = standard;
    point.evidences = confirmed ? &PoolKernel::confirmed : &PoolKernel::raced;
    point.choice =
        PointAt(kernels_, m, standard, point.evidences, options_.race);
    if (!confirmed) {
      // Only the chosen kernels and the default may be served.
      CoverPoint kept;
      for (size_t i = 0; i < point.choice.kernels.size(); ++i) {
        const auto kernel = static_cast<size_t>(point.choice.kernels[i]);
        if (std::count(entrants.begin(), entrants.end(), kernel) == 0) continue;
        kept.kernels.push_back(point.choice.kernels[i]);
        kept.regrets.push_back(point.choice.regrets[i]);
      }
      point.choice = kept;
    }
    points_.push_back(std::move(point));
    return absl::OkStatus();
  }

  // Ladder points without evidence take the default where it works, else what
  // serves the next point that has some.
  absl::Status FillUnmeasured() {
    for (ChosenPoint& point : points_) {
      if (point.kernel >= 0 || point.standard < 0) continue;
      complete_ = false;
      if (kernels_[static_cast<size_t>(point.standard)].state ==
          PoolKernel::State::kReady) {
        point.kernel = point.standard;
      }
    }
    const auto fill = [](auto begin, auto end) {
      int last = -1;
      for (auto it = begin; it != end; ++it) {
        if (it->kernel < 0) it->kernel = last;
        last = it->kernel;
      }
    };
    fill(points_.rbegin(), points_.rend());
    fill(points_.begin(), points_.end());
    if (points_.front().kernel >= 0) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "the last kernels failed while they were confirmed");
  }

  // The gate again, after timing, at every M that a kernel won. False when a
  // kernel failed and the table must be chosen anew.
  absl::StatusOr<bool> GateAgain() {
    for (const ChosenPoint& point : points_) {
      PoolKernel& kernel = kernels_[static_cast<size_t>(point.kernel)];
      // It may have failed at a later point of the confirmation.
      if (kernel.state == PoolKernel::State::kOut) return false;
      HONE_ASSIGN_OR_RETURN(const bool passed, Gate(kernel, point.m));
      if (!passed) return false;
    }
    return true;
  }

  // ---- the result ----

  SessionResult Finish() const {
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
    result.trials_recorded = recorded_;
    result.trials_reused = reused_;
    result.elapsed = hooks_.now() - start_;
    return result;
  }

  // ---- shared ----

  absl::Time RaceDeadline() const {
    return start_ + options_.budget * kRaceShare;
  }

  absl::Status Cancelled() const {
    return hooks_.is_cancelled() ? absl::CancelledError("tuning was cancelled")
                                 : absl::OkStatus();
  }

  void Report(int64_t m, Evidences evidences = &PoolKernel::raced) const {
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

  Executor& executor_;
  CandidateCompiler& compiler_;
  const SessionOptions& options_;
  const SessionHooks& hooks_;
  const Problem problem_;
  const DeviceSpec device_;
  std::mt19937_64 random_;
  const absl::Time start_;
  const absl::Time deadline_;

  SessionPhase phase_ = SessionPhase::kPrepare;
  std::vector<PoolKernel> kernels_;
  std::vector<int> defaults_;  // by ladder point
  std::optional<CandidateSearch> search_;
  std::optional<Surrogate> surrogate_;  // once scouting is over
  KnownTrials known_;
  std::map<int64_t, int64_t> best_ns_;  // by M raced
  std::vector<CoverKernel> traits_;
  Cover cover_;
  std::vector<ChosenPoint> points_;
  bool complete_ = true;
  std::vector<std::string> failures_;
  int64_t done_ = 0;
  int64_t total_ = 0;
  int64_t compiled_ = 0;
  int64_t failed_ = 0;
  int64_t recorded_ = 0;
  int64_t reused_ = 0;
  // Last, so that its threads end before what they use.
  std::optional<CompileQueue> queue_;
};

}  // namespace

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
