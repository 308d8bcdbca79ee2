#include "tuner/recheck.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "tuner/analytic_model.h"
#include "tuner/compile_queue.h"
#include "tuner/known_trials.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

struct Kernel {
  TuningConfig config;
  Candidate candidate;
  int executor_index = -1;
  // Why it cannot be timed; empty when it can.
  std::string failure;
  // The failure is due to what happened around it.
  bool by_circumstance = false;
  GateKind gate = GateKind::kNone;
  ErrorMetrics error;
};

class RecheckRun {
 public:
  RecheckRun(Executor& executor, CandidateCompiler& compiler,
             const DispatchTable& table, const RecheckOptions& options,
             const RecheckHooks& hooks)
      : executor_(executor),
        compiler_(compiler),
        table_(table),
        options_(options),
        hooks_(hooks),
        device_(executor.device()),
        random_(options.seed) {}

  absl::StatusOr<std::vector<RecheckPoint>> Go(absl::Span<const int64_t> ms,
                                               absl::Span<const Trial> known);

 private:
  // The configs to time at one M: the served one, the default, then others.
  std::vector<TuningConfig> Entrants(int64_t m) const;
  absl::Status Compile();
  // Takes in what has compiled.
  absl::Status Take(Kernel& kernel, CompiledCandidate compiled);
  Kernel& KernelOf(const TuningConfig& config) {
    return kernels_.at(kernel_of_.at(config.ToString()));
  }
  absl::StatusOr<bool> Gate(Kernel& kernel, int64_t m);
  absl::Status Fail(Kernel& kernel, int64_t m, Outcome outcome,
                    const std::string& detail);
  // What ended workers while the kernel was run, though not because of it.
  absl::Status NoteInterruption(const Kernel& kernel, int64_t m,
                                const std::string& how);
  Trial NewTrial(const Kernel& kernel, int64_t m) const;
  absl::Status Record(Trial trial);
  // False when the deadline came.
  absl::StatusOr<bool> TimeAll(int64_t m, const std::vector<Kernel*>& entrants,
                               std::vector<std::vector<Sample>>& samples);
  // None when the deadline came, or something else kept the served kernel from
  // being timed.
  absl::StatusOr<std::optional<RecheckPoint>> CheckAt(int64_t m);
  double ExpectedNs(const Kernel& kernel, int64_t m) const {
    return Predict(table_.problem, device_, kernel.config, m,
                   FootprintOf(kernel.candidate.compile))
        .total_ns;
  }
  absl::Status Cancelled() const {
    return hooks_.is_cancelled() ? absl::CancelledError("recheck was cancelled")
                                 : absl::OkStatus();
  }
  bool late() const { return hooks_.now() >= options_.deadline; }

  Executor& executor_;
  CandidateCompiler& compiler_;
  const DispatchTable& table_;
  const RecheckOptions& options_;
  const RecheckHooks& hooks_;
  const DeviceSpec device_;
  std::mt19937_64 random_;
  KnownTrials known_;
  // Measured configs at each M, fastest first.
  std::map<int64_t, std::vector<TuningConfig>> fastest_;
  std::vector<TuningConfig> configs_;
  // By the config's text: its kernel, where configs that compile to the same
  // one meet.
  std::map<std::string, size_t> kernel_of_;
  std::vector<Kernel> kernels_;
};

absl::StatusOr<std::vector<RecheckPoint>> RecheckRun::Go(
    absl::Span<const int64_t> ms, absl::Span<const Trial> known) {
  std::map<std::pair<int64_t, std::string>, int64_t> times;
  for (const Trial& trial : known) {
    known_.Add(trial);
    if (trial.outcome != Outcome::kMeasured || trial.median_ns <= 0) continue;
    const auto [it, added] =
        times.try_emplace({trial.m, trial.config.ToString()}, trial.median_ns);
    it->second = std::min(it->second, trial.median_ns);
  }
  std::map<int64_t, std::vector<std::pair<int64_t, std::string>>> by_m;
  for (const auto& [key, ns] : times) {
    by_m[key.first].push_back({ns, key.second});
  }
  for (const int64_t m : ms) {
    std::vector<std::pair<int64_t, std::string>>& at = by_m[m];
    std::sort(at.begin(), at.end());
    for (const auto& [ns, text] : at) {
      fastest_[m].push_back(*TuningConfig::Parse(text));
    }
  }
  std::set<std::string> listed;
  for (const int64_t m : ms) {
    for (const TuningConfig& config : Entrants(m)) {
      if (listed.insert(config.ToString()).second) configs_.push_back(config);
    }
  }
  std::vector<RecheckPoint> points;
  if (ms.empty() || late()) return points;
  HONE_RETURN_IF_ERROR(Cancelled());
  HONE_RETURN_IF_ERROR(
      executor_.Begin(table_.problem, ms.back(), options_.seed));
  HONE_RETURN_IF_ERROR(Compile());
  // Rising: products of large M heat the device.
  for (const int64_t m : ms) {
    if (late()) break;
    HONE_ASSIGN_OR_RETURN(std::optional<RecheckPoint> point, CheckAt(m));
    if (!point) continue;
    points.push_back(*std::move(point));
    hooks_.point(points.back());
  }
  return points;
}

std::vector<TuningConfig> RecheckRun::Entrants(int64_t m) const {
  std::vector<TuningConfig> entrants;
  const auto enter = [&](const TuningConfig& config) {
    if (std::count(entrants.begin(), entrants.end(), config) > 0 ||
        CheckConfig(table_.problem, device_, config)) {
      return false;
    }
    entrants.push_back(config);
    return true;
  };
  enter(table_.Find(m)->config);
  enter(HeuristicDefault(table_.problem, device_, m));
  int others = 0;
  const auto fastest = fastest_.find(m);
  if (fastest == fastest_.end()) return entrants;
  for (const TuningConfig& config : fastest->second) {
    if (others == options_.runners_up) break;
    if (enter(config)) ++others;
  }
  return entrants;
}

absl::Status RecheckRun::Compile() {
  std::vector<size_t> order;
  for (size_t i = 0; i < configs_.size(); ++i) order.push_back(i);
  size_t waiting = order.size();
  CompileQueue queue(&compiler_, table_.problem, device_, configs_, order);
  kernels_.reserve(configs_.size());
  while (waiting > 0 && !late()) {
    HONE_RETURN_IF_ERROR(Cancelled());
    std::optional<CompileQueue::Result> result =
        queue.Next(absl::Milliseconds(50));
    if (!result) continue;
    HONE_RETURN_IF_ERROR(result->compiled.status());
    --waiting;
    Kernel kernel;
    kernel.config = configs_[result->index];
    HONE_RETURN_IF_ERROR(Take(kernel, *std::move(result->compiled)));
    size_t place = 0;
    while (place < kernels_.size() &&
           (!kernel.failure.empty() ||
            kernels_[place].candidate.compile.kernel_id !=
                kernel.candidate.compile.kernel_id)) {
      ++place;
    }
    kernel_of_[kernel.config.ToString()] = place;
    if (place < kernels_.size()) continue;
    if (kernel.failure.empty()) {
      HONE_ASSIGN_OR_RETURN(kernel.executor_index,
                            executor_.Add(kernel.candidate));
    }
    kernels_.push_back(std::move(kernel));
  }
  return absl::OkStatus();
}

absl::Status RecheckRun::Take(Kernel& kernel, CompiledCandidate compiled) {
  kernel.candidate = std::move(compiled.candidate);
  if (compiled.outcome != Outcome::kMeasured) {
    return Fail(kernel, 1, compiled.outcome, compiled.detail);
  }
  // Failures of another driver are not among the known ones.
  const Trial* failed = known_.FailedKernel(kernel.candidate.compile.kernel_id);
  if (failed != nullptr) {
    kernel.failure =
        absl::StrCat(ToString(failed->outcome), ": ", failed->detail);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RecheckRun::Gate(Kernel& kernel, int64_t m) {
  HONE_RETURN_IF_ERROR(Cancelled());
  HONE_ASSIGN_OR_RETURN(
      const GateResult result,
      executor_.Gate(kernel.executor_index, m,
                     GateDeadline(device_, ExpectedNs(kernel, m))));
  for (const std::string& how : result.interruptions) {
    HONE_RETURN_IF_ERROR(NoteInterruption(kernel, m, how));
  }
  kernel.gate = result.gate;
  kernel.error = result.error;
  if (result.outcome == Outcome::kMeasured) return true;
  HONE_RETURN_IF_ERROR(Fail(kernel, m, result.outcome, result.detail));
  return false;
}

absl::Status RecheckRun::Fail(Kernel& kernel, int64_t m, Outcome outcome,
                              const std::string& detail) {
  Trial trial = NewTrial(kernel, m);
  trial.outcome = outcome;
  trial.detail = detail;
  kernel.failure = absl::StrCat(ToString(outcome), ": ", detail);
  kernel.by_circumstance = IsCircumstance(outcome);
  return Record(std::move(trial));
}

absl::Status RecheckRun::NoteInterruption(const Kernel& kernel, int64_t m,
                                          const std::string& how) {
  Trial trial = NewTrial(kernel, m);
  trial.outcome = Outcome::kInterrupted;
  trial.detail = how;
  return Record(std::move(trial));
}

Trial RecheckRun::NewTrial(const Kernel& kernel, int64_t m) const {
  Trial trial;
  trial.problem = table_.problem;
  trial.m = m;
  trial.config = kernel.config;
  trial.gate = kernel.gate;
  trial.error = kernel.error;
  trial.compile = kernel.candidate.compile;
  trial.session_id = options_.session_id;
  return trial;
}

absl::Status RecheckRun::Record(Trial trial) {
  trial.unix_us = absl::ToUnixMicros(hooks_.now());
  return hooks_.record_trial(trial);
}

absl::StatusOr<bool> RecheckRun::TimeAll(
    int64_t m, const std::vector<Kernel*>& entrants,
    std::vector<std::vector<Sample>>& samples) {
  samples.assign(entrants.size(), {});
  RaceRun run;
  run.m = m;
  double expected_ns = 0;
  for (const Kernel* kernel : entrants) {
    run.candidates.push_back(kernel->executor_index);
    expected_ns += ExpectedNs(*kernel, m);
  }
  run.round_deadline = RoundDeadline(entrants.size(), expected_ns);
  run.stop = [&] { return hooks_.is_cancelled() || late(); };
  run.interrupted = [&](int entrant, const std::string& how) {
    return NoteInterruption(*entrants[static_cast<size_t>(entrant)], m, how);
  };
  run.left = [&](int entrant, const EntrantState& state) -> absl::Status {
    const auto i = static_cast<size_t>(entrant);
    if (state.status == EntrantState::Status::kFailed) {
      return Fail(*entrants[i], m, state.failure, state.detail);
    }
    samples[i] = state.samples;
    Trial trial = NewTrial(*entrants[i], m);
    trial.samples = state.samples;
    trial.median_ns = std::llround(Median(Durations(state.samples)));
    known_.NoteRounds(trial);
    return Record(std::move(trial));
  };
  run.first_round = known_.NextRecheckRound(m);
  // A fixed number of rounds, whatever they show: the intervals rest on it.
  RaceOptions race = options_.race;
  race.min_rounds = race.max_rounds =
      options_.choice_rounds + options_.ratio_rounds;
  race.slack = race.screen_ratio = std::numeric_limits<double>::max();
  HONE_ASSIGN_OR_RETURN(const bool finished,
                        RunRace(executor_, run, race, random_));
  HONE_RETURN_IF_ERROR(Cancelled());
  return finished;
}

absl::StatusOr<std::optional<RecheckPoint>> RecheckRun::CheckAt(int64_t m) {
  const TuningConfig& served_config = table_.Find(m)->config;
  const TuningConfig standard_config =
      HeuristicDefault(table_.problem, device_, m);
  RecheckPoint point;
  point.m = m;
  point.served_config = served_config.ToString();
  if (const auto refusal =
          CheckConfig(table_.problem, device_, served_config)) {
    point.failure = absl::StrCat("no longer legal: ", refusal->reason);
    return point;
  }
  FinalistRoles roles;
  std::vector<Kernel*> entrants;
  for (const TuningConfig& config : Entrants(m)) {
    if (!kernel_of_.contains(config.ToString())) return std::nullopt;  // late
    Kernel& kernel = KernelOf(config);
    if (kernel.failure.empty()) {
      HONE_ASSIGN_OR_RETURN(const bool passed, Gate(kernel, m));
      if (passed &&
          std::count(entrants.begin(), entrants.end(), &kernel) == 0) {
        entrants.push_back(&kernel);
      }
    }
    const auto place = std::find(entrants.begin(), entrants.end(), &kernel);
    const int index = place == entrants.end()
                          ? -1
                          : static_cast<int>(place - entrants.begin());
    if (config == served_config) roles.table = index;
    if (config == standard_config) roles.standard = index;
  }
  const Kernel& served = KernelOf(served_config);
  std::vector<std::vector<Sample>> samples;
  if (!entrants.empty()) {
    HONE_ASSIGN_OR_RETURN(const bool finished, TimeAll(m, entrants, samples));
    if (!finished) return std::nullopt;
    // The gate after timing: what is wrong is not the best of anything.
    for (size_t i = 0; i < entrants.size(); ++i) {
      if (samples[i].empty()) continue;
      HONE_ASSIGN_OR_RETURN(const bool passed, Gate(*entrants[i], m));
      if (!passed) samples[i].clear();
    }
  }
  const AuditPoint judged =
      JudgeFinalists(samples, roles, options_.choice_rounds,
                     1 - options_.confidence, options_.race);
  if (served.by_circumstance) return std::nullopt;
  point.failure = served.failure;
  point.served_ns = judged.table_ns;
  point.best_ns = judged.best_ns;
  point.default_ns = judged.default_ns;
  point.regret = judged.regret;
  point.over_default = judged.over_default;
  point.kernels = judged.finalists;
  if (const int best = FastestFinalist(samples, options_.choice_rounds);
      best >= 0) {
    point.best_config = entrants[static_cast<size_t>(best)]->config.ToString();
  }
  if (point.failure.empty() && point.default_ns > 0) {
    const double tie = std::max(
        options_.race.tie, static_cast<double>(options_.race.tie_floor_ns) /
                               static_cast<double>(point.default_ns));
    point.no_slower_than_default = point.over_default.ratio <= 1 + tie;
  } else {
    point.no_slower_than_default = point.failure.empty();
  }
  return point;
}

}  // namespace

absl::StatusOr<std::vector<RecheckPoint>> RecheckTable(
    Executor& executor, CandidateCompiler& compiler, const DispatchTable& table,
    absl::Span<const int64_t> ms, absl::Span<const Trial> known,
    const RecheckOptions& options, const RecheckHooks& hooks) {
  return RecheckRun(executor, compiler, table, options, hooks).Go(ms, known);
}

}  // namespace hone
