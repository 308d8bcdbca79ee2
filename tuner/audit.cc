#include "tuner/audit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "tuner/analytic_model.h"
#include "tuner/compile_queue.h"
#include "tuner/entrants.h"
#include "tuner/search.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

constexpr double kTuneShare = 0.5;
// Share of the budget after which no more kernels are taken in, so that there
// is time to measure those that came.
constexpr double kCompileShare = 0.75;

// A kernel of the set that the table is held against.
struct AuditKernel {
  TuningConfig config;
  Candidate candidate;
  int executor_index = -1;
  bool failed = false;
};

class AuditRun {
 public:
  AuditRun(Executor& executor, CandidateCompiler& compiler,
           CandidateCompiler& uncached, const AuditOptions& options,
           const AuditHooks& hooks, const Problem& problem)
      : executor_(executor),
        compiler_(compiler),
        uncached_(uncached),
        options_(options),
        hooks_(hooks),
        problem_(problem),
        device_(executor.device()),
        random_(options.seed),
        start_(hooks.now()),
        deadline_(start_ + options.budget) {}

  absl::StatusOr<AuditReport> Go();

 private:
  absl::Status CheckOptions() const;
  absl::Status Tune();
  // The configs of the set, the table's first; how many those are.
  absl::StatusOr<size_t> ListKernels();
  // Compiles, takes in and gates configs_[first, last).
  absl::Status TakeIn(CandidateCompiler& compiler, size_t first, size_t last);
  absl::StatusOr<bool> Gate(AuditKernel& kernel, int64_t m);
  // What became of the table's kernels, configs_[0, own).
  void CountReplayed(size_t own);
  // Index into kernels_; -1 for a config that is not there or failed.
  int KernelOf(const TuningConfig& config) const;
  // Times kernels together for so many rounds and drops none; samples parallel
  // to `entrants`, empty for one that failed. False when time ran out.
  absl::StatusOr<bool> TimeAll(int64_t m, const std::vector<int>& entrants,
                               int rounds,
                               std::vector<std::vector<Sample>>& samples);
  // False when time ran out.
  absl::StatusOr<bool> AuditAt(int64_t m);
  void AddReplay(int64_t m, absl::Span<const Sample> samples,
                 AuditPoint& point) const;
  absl::Status Cancelled() const;
  void Report(int64_t done, int64_t total, const AuditPoint* point = nullptr);

  Executor& executor_;
  CandidateCompiler& compiler_;
  CandidateCompiler& uncached_;
  const AuditOptions& options_;
  const AuditHooks& hooks_;
  const Problem problem_;
  const DeviceSpec device_;
  std::mt19937_64 random_;
  const absl::Time start_;
  const absl::Time deadline_;

  int32_t next_round_ = 0;
  AuditReport report_;
  DispatchTable table_;
  std::vector<DispatchTable> tunes_;
  std::vector<TuningConfig> configs_;
  // Parallel to configs_: the index into kernels_, where configs that compile
  // to the same kernel meet; -1 while unknown.
  std::vector<int> kernel_of_;
  std::vector<AuditKernel> kernels_;
};

absl::StatusOr<AuditReport> AuditRun::Go() {
  HONE_RETURN_IF_ERROR(CheckOptions());
  HONE_RETURN_IF_ERROR(Tune());
  table_ = options_.published ? *options_.published : tunes_[0];
  HONE_ASSIGN_OR_RETURN(const size_t own, ListKernels());
  HONE_RETURN_IF_ERROR(
      executor_.Begin(problem_, options_.ladder.back(), options_.seed));
  HONE_RETURN_IF_ERROR(TakeIn(uncached_, 0, own));
  CountReplayed(own);
  HONE_RETURN_IF_ERROR(TakeIn(compiler_, own, configs_.size()));
  for (const int64_t m : options_.ladder) {
    HONE_ASSIGN_OR_RETURN(const bool measured, AuditAt(m));
    if (!measured) {
      report_.complete = false;
      break;
    }
  }
  if (report_.points.empty()) {
    return absl::DeadlineExceededError(
        "the budget ended before the audit had measured any M");
  }
  report_.problem = problem_;
  report_.device = device_;
  report_.protocol = executor_.protocol();
  report_.source_closure = SourceClosureHash();
  report_.table_source_closure = table_.source_closure;
  report_.revision = options_.published ? options_.revision : 0;
  report_.seed = options_.seed;
  report_.confidence = options_.confidence;
  report_.kernels = static_cast<int64_t>(kernels_.size());
  report_.failed = std::count_if(kernels_.begin(), kernels_.end(),
                                 [](const AuditKernel& k) { return k.failed; });
  report_.screen_rounds = options_.race.screen_rounds;
  report_.choice_rounds = options_.choice_rounds;
  report_.ratio_rounds = options_.ratio_rounds;
  Summarize(report_);
  report_.elapsed = hooks_.now() - start_;
  return std::move(report_);
}

void AuditRun::CountReplayed(size_t own) {
  for (size_t i = 0; i < own; ++i) {
    if (kernel_of_[i] < 0) continue;  // the budget ended
    ++report_.replayed_kernels;
    const AuditKernel& kernel = kernels_[static_cast<size_t>(kernel_of_[i])];
    if (kernel.failed) {
      ++report_.failed_kernels;
      continue;
    }
    const auto stored = std::find_if(
        table_.entries.begin(), table_.entries.end(),
        [&](const TableEntry& entry) { return entry.config == configs_[i]; });
    if (stored->compile.kernel_id == kernel.candidate.compile.kernel_id) {
      ++report_.same_kernels;
    }
  }
}

absl::Status AuditRun::CheckOptions() const {
  if (options_.tunes < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("tunes must be at least 2; is ", options_.tunes));
  }
  if (options_.kernels < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernels must be at least 2; is ", options_.kernels));
  }
  return absl::OkStatus();
}

absl::Status AuditRun::Tune() {
  for (int i = 0; i < options_.tunes; ++i) {
    SessionOptions session;
    session.session_id = absl::StrCat("audit-", i + 1);
    session.seed = options_.seed + 1 + static_cast<uint64_t>(i);
    session.ladder = options_.ladder;
    session.max_kernels = options_.tune_kernels;
    session.budget = options_.budget * kTuneShare / options_.tunes;
    session.race = options_.race;
    SessionHooks hooks;
    // Nothing is known and nothing kept: each tune stands on its own.
    hooks.known_trials = [] { return std::vector<Trial>(); };
    hooks.record_trial = [](const Trial&) { return absl::OkStatus(); };
    hooks.progress = hooks_.progress;
    hooks.is_cancelled = hooks_.is_cancelled;
    hooks.now = hooks_.now;
    AuditTune tune;
    tune.seed = session.seed;
    absl::StatusOr<SessionResult> result =
        TuningSession(&executor_, &compiler_, std::move(session),
                      std::move(hooks))
            .Run(problem_);
    if (!result.ok()) {
      return absl::Status(result.status().code(),
                          absl::StrCat("tune ", i + 1, " of the audit: ",
                                       result.status().message()));
    }
    tune.complete = result->complete;
    tune.distinct_kernels = result->distinct_kernels;
    tune.trials = result->trials_recorded;
    tune.elapsed = result->elapsed;
    report_.tunes.push_back(tune);
    tunes_.push_back(std::move(result->table));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> AuditRun::ListKernels() {
  std::set<std::string> listed;
  const auto list = [&](const TuningConfig& config) {
    if (listed.insert(config.ToString()).second) configs_.push_back(config);
  };
  for (const TableEntry& entry : table_.entries) {
    if (!CheckConfig(problem_, device_, entry.config)) {
      list(entry.config);
    } else if (listed.insert(entry.config.ToString()).second) {
      // It was legal when it was tuned; there is no such kernel now.
      ++report_.replayed_kernels;
      ++report_.failed_kernels;
    }
  }
  const size_t own = configs_.size();
  for (const DispatchTable& tune : tunes_) {
    for (const TableEntry& entry : tune.entries) list(entry.config);
  }
  for (const int64_t m : options_.ladder) {
    list(HeuristicDefault(problem_, device_, m));
  }
  const size_t base = configs_.size();
  const size_t count = std::max(base, static_cast<size_t>(options_.kernels));
  HONE_ASSIGN_OR_RETURN(
      const CandidateSearch search,
      CandidateSearch::Create(problem_, device_, options_.ladder,
                              options_.within));
  const CandidatePool pool = search.First(
      configs_, static_cast<int>(base + (count - base) / 2), options_.seed);
  for (const TuningConfig& config : pool.configs) list(config);
  std::vector<TuningConfig> space =
      Enumerate(problem_, device_, options_.ladder.back());
  report_.space = static_cast<int64_t>(space.size());
  std::erase_if(space, [&](const TuningConfig& config) {
    return !options_.within.Contains(config);
  });
  report_.within = options_.within.ToString();
  report_.within_configs = static_cast<int64_t>(space.size());
  if (space.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("none of the ", report_.space,
                     " legal configs lies within \"", report_.within, "\""));
  }
  std::shuffle(space.begin(), space.end(), random_);
  for (const TuningConfig& config : space) {
    if (configs_.size() >= count && !listed.contains(config.ToString())) {
      report_.exhaustive = false;
      break;
    }
    list(config);
  }
  kernel_of_.assign(configs_.size(), -1);
  return own;
}

absl::Status AuditRun::TakeIn(CandidateCompiler& compiler, size_t first,
                              size_t last) {
  std::vector<size_t> order;
  for (size_t i = first; i < last; ++i) order.push_back(i);
  size_t waiting = order.size();
  CompileQueue queue(&compiler, problem_, device_, configs_, order);
  while (waiting > 0) {
    HONE_RETURN_IF_ERROR(Cancelled());
    if (hooks_.now() >= start_ + options_.budget * kCompileShare) {
      report_.complete = report_.exhaustive = false;
      break;
    }
    std::optional<CompileQueue::Result> result =
        queue.Next(absl::Milliseconds(50));
    if (!result) continue;
    HONE_RETURN_IF_ERROR(result->compiled.status());
    --waiting;
    AuditKernel kernel;
    kernel.config = configs_[result->index];
    kernel.candidate = std::move(result->compiled->candidate);
    kernel.failed = result->compiled->outcome != Outcome::kMeasured;
    const auto same = std::find_if(
        kernels_.begin(), kernels_.end(), [&](const AuditKernel& other) {
          return !kernel.failed && other.executor_index >= 0 &&
                 other.candidate.compile.kernel_id ==
                     kernel.candidate.compile.kernel_id;
        });
    kernel_of_[result->index] = static_cast<int>(same - kernels_.begin());
    if (same != kernels_.end()) continue;
    if (!kernel.failed) {
      HONE_ASSIGN_OR_RETURN(kernel.executor_index,
                            executor_.Add(kernel.candidate));
      for (const int64_t m : GateLadder(kernel.config, options_.ladder.front(),
                                        options_.ladder.back())) {
        HONE_ASSIGN_OR_RETURN(const bool passed, Gate(kernel, m));
        if (!passed) break;
      }
    }
    kernels_.push_back(std::move(kernel));
    Report(static_cast<int64_t>(last - waiting),
           static_cast<int64_t>(configs_.size() + options_.ladder.size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> AuditRun::Gate(AuditKernel& kernel, int64_t m) {
  HONE_RETURN_IF_ERROR(Cancelled());
  const double expected_ns = Predict(problem_, device_, kernel.config, m,
                                     FootprintOf(kernel.candidate.compile))
                                 .total_ns;
  HONE_ASSIGN_OR_RETURN(const GateResult result,
                        executor_.Gate(kernel.executor_index, m,
                                       GateDeadline(device_, expected_ns)));
  kernel.failed = kernel.failed || result.outcome != Outcome::kMeasured;
  return !kernel.failed;
}

int AuditRun::KernelOf(const TuningConfig& config) const {
  const auto it = std::find(configs_.begin(), configs_.end(), config);
  if (it == configs_.end()) return -1;
  const int kernel = kernel_of_[static_cast<size_t>(it - configs_.begin())];
  return kernel < 0 || kernels_[static_cast<size_t>(kernel)].failed ? -1
                                                                    : kernel;
}

absl::StatusOr<bool> AuditRun::TimeAll(
    int64_t m, const std::vector<int>& entrants, int rounds,
    std::vector<std::vector<Sample>>& samples) {
  samples.assign(entrants.size(), {});
  RaceRun run;
  run.m = m;
  double expected_ns = 0;
  for (const int i : entrants) {
    const AuditKernel& kernel = kernels_[static_cast<size_t>(i)];
    run.candidates.push_back(kernel.executor_index);
    expected_ns += Predict(problem_, device_, kernel.config, m,
                           FootprintOf(kernel.candidate.compile))
                       .total_ns;
  }
  run.round_deadline = RoundDeadline(entrants.size(), expected_ns);
  run.stop = [&] { return hooks_.is_cancelled() || hooks_.now() >= deadline_; };
  run.left = [&](int entrant, const EntrantState& state) {
    const auto i = static_cast<size_t>(entrant);
    if (state.status == EntrantState::Status::kFailed) {
      kernels_[static_cast<size_t>(entrants[i])].failed = true;
    } else {
      samples[i] = state.samples;
    }
    return absl::OkStatus();
  };
  // No two rounds of an audit have the same number.
  run.first_round = next_round_;
  next_round_ += rounds + options_.race.max_repeats +
                 options_.race.max_disturbed +
                 static_cast<int32_t>(entrants.size());
  // A fixed number of rounds, whatever they show: the intervals rest on it.
  RaceOptions race = options_.race;
  race.min_rounds = race.max_rounds = rounds;
  race.slack = race.screen_ratio = std::numeric_limits<double>::max();
  HONE_ASSIGN_OR_RETURN(const bool finished,
                        RunRace(executor_, run, race, random_));
  HONE_RETURN_IF_ERROR(Cancelled());
  return finished;
}

absl::StatusOr<bool> AuditRun::AuditAt(int64_t m) {
  if (hooks_.now() >= deadline_) return false;
  std::vector<int> all;
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (!kernels_[i].failed) all.push_back(static_cast<int>(i));
  }
  std::vector<std::vector<Sample>> screen;
  HONE_ASSIGN_OR_RETURN(bool finished,
                        TimeAll(m, all, options_.race.screen_rounds, screen));
  if (!finished) return false;
  std::vector<std::pair<double, int>> fastest;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!screen[i].empty()) {
      fastest.push_back({Median(Durations(screen[i])), all[i]});
    }
  }
  std::sort(fastest.begin(), fastest.end());

  std::vector<int> finalists;
  const auto enter = [&](int kernel) {
    if (kernel < 0 || kernels_[static_cast<size_t>(kernel)].failed) return -1;
    const auto it = std::find(finalists.begin(), finalists.end(), kernel);
    if (it == finalists.end()) finalists.push_back(kernel);
    return static_cast<int>(
        std::find(finalists.begin(), finalists.end(), kernel) -
        finalists.begin());
  };
  FinalistRoles roles;
  const TableEntry* served = table_.Find(m);
  roles.table = enter(KernelOf(served->config));
  roles.standard = enter(KernelOf(HeuristicDefault(problem_, device_, m)));
  for (const DispatchTable& tune : tunes_) {
    roles.tunes.push_back(enter(KernelOf(tune.Find(m)->config)));
  }
  for (size_t i = 0;
       i < std::min(fastest.size(), static_cast<size_t>(options_.finalists));
       ++i) {
    enter(fastest[i].second);
  }
  std::vector<std::vector<Sample>> samples;
  HONE_ASSIGN_OR_RETURN(
      finished,
      TimeAll(m, finalists, options_.choice_rounds + options_.ratio_rounds,
              samples));
  if (!finished) return false;
  // The gate after timing: what is wrong is not the best of anything.
  for (size_t i = 0; i < finalists.size(); ++i) {
    AuditKernel& kernel = kernels_[static_cast<size_t>(finalists[i])];
    if (samples[i].empty()) continue;
    HONE_ASSIGN_OR_RETURN(const bool passed, Gate(kernel, m));
    if (!passed) samples[i].clear();
  }
  AuditPoint point = JudgeFinalists(samples, roles, options_.choice_rounds,
                                    1 - options_.confidence, options_.race);
  point.m = m;
  point.screened = static_cast<int64_t>(fastest.size());
  point.table_config = served->config.ToString();
  if (const int best = FastestFinalist(samples, options_.choice_rounds);
      best >= 0) {
    const int kernel = finalists[static_cast<size_t>(best)];
    point.best_config = kernels_[static_cast<size_t>(kernel)].config.ToString();
  }
  for (const DispatchTable& tune : tunes_) {
    point.tune_configs.push_back(tune.Find(m)->config.ToString());
  }
  if (roles.table >= 0) {
    AddReplay(m, samples[static_cast<size_t>(roles.table)], point);
  }
  report_.points.push_back(point);
  Report(static_cast<int64_t>(configs_.size() + report_.points.size()),
         static_cast<int64_t>(configs_.size() + options_.ladder.size()),
         &point);
  return true;
}

void AuditRun::AddReplay(int64_t m, absl::Span<const Sample> samples,
                         AuditPoint& point) const {
  const TableEntry* entry = table_.Find(m);
  const int kernel = KernelOf(entry->config);
  point.same_kernel =
      kernel >= 0 &&
      kernels_[static_cast<size_t>(kernel)].candidate.compile.kernel_id ==
          entry->compile.kernel_id;
  for (const Evidence& evidence : entry->evidence) {
    if (evidence.m != m) continue;
    point.stored_ns = evidence.median_ns;
    point.replay = ReplayOf(samples, evidence, 1 - options_.confidence);
  }
}

absl::Status AuditRun::Cancelled() const {
  return hooks_.is_cancelled() ? absl::CancelledError("the audit was cancelled")
                               : absl::OkStatus();
}

void AuditRun::Report(int64_t done, int64_t total, const AuditPoint* point) {
  SessionProgress progress;
  progress.phase = SessionPhase::kAudit;
  progress.done = done;
  progress.total = total;
  progress.elapsed = hooks_.now() - start_;
  progress.eta =
      std::max(absl::ZeroDuration(), options_.budget - progress.elapsed);
  for (const AuditKernel& kernel : kernels_) {
    ++(kernel.failed ? progress.failed : progress.compiled);
  }
  if (point != nullptr) {
    progress.m = point->m;
    progress.best_config = point->best_config;
    progress.best_ns = point->best_ns;
    progress.default_ns = point->default_ns;
  }
  hooks_.progress(progress);
}

}  // namespace

absl::StatusOr<AuditReport> RunAudit(Executor& executor,
                                     CandidateCompiler& compiler,
                                     CandidateCompiler& uncached,
                                     const AuditOptions& options,
                                     const AuditHooks& hooks,
                                     const Problem& problem) {
  return AuditRun(executor, compiler, uncached, options, hooks, problem).Go();
}

}  // namespace hone
