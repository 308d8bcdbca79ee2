#include "tuner/race.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

// Between rounds that were disturbed, doubled each time: with the default
// options a race waits some three seconds in all before it gives up.
constexpr absl::Duration kFirstWait = absl::Milliseconds(20);
constexpr absl::Duration kLongestWait = absl::Milliseconds(500);

bool Live(const EntrantState& entrant) {
  return entrant.status == EntrantState::Status::kLive;
}

double MedianNs(const EntrantState& entrant) {
  return Median(Durations(entrant.samples));
}

// Why no sample of the round may be used; empty when they may.
std::string Disturbance(const RoundResult& result) {
  if (result.slowed_down) return "a thermal or hardware slowdown";
  if (!result.foreign_processes.empty()) {
    return absl::StrCat("another process (", result.foreign_processes.front(),
                        ") that computes on it");
  }
  return result.unpaired ? "the loss of a worker" : "";
}

}  // namespace

Race::Race(int entrants, int protected_entrant, const RaceOptions& options,
           int32_t first_round)
    : options_(options),
      protected_entrant_(protected_entrant),
      entrants_(static_cast<size_t>(entrants)),
      round_(first_round),
      contenders_(entrants),
      over_(entrants == 0) {}

std::vector<int> Race::NextOrder(std::mt19937_64& random) {
  std::vector<int> order;
  if (over_) return order;
  for (size_t i = 0; i < entrants_.size(); ++i) {
    if (Live(entrants_[i])) order.push_back(static_cast<int>(i));
  }
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

absl::StatusOr<std::vector<int>> Race::Report(const std::vector<int>& order,
                                              const RoundResult& result) {
  if (result.entries.size() != order.size()) {
    return absl::InternalError(absl::StrCat("a round of ", order.size(),
                                            " calls returned ",
                                            result.entries.size()));
  }
  std::vector<int> left;
  for (size_t i = 0; i < order.size(); ++i) {
    if (result.entries[i].outcome == Outcome::kMeasured) continue;
    Fail(order[i], result.entries[i].outcome, result.entries[i].detail);
    left.push_back(order[i]);
  }
  ++round_;
  // The failure cut the round short; the others are timed again.
  if (!left.empty()) return left;
  if (const std::string why = Disturbance(result); !why.empty()) {
    if (++disturbed_ <= options_.max_disturbed) return left;
    return absl::UnavailableError(
        absl::StrCat("the device cannot be measured now: ", disturbed_,
                     " rounds were disturbed, the last one by ", why));
  }
  if (ClockIsOff(result) && repeats_ < options_.max_repeats) {
    ++repeats_;
    return left;
  }
  std::vector<double> clocks;
  for (size_t i = 0; i < order.size(); ++i) {
    Sample sample = result.entries[i].sample;
    if (sample.duration_ns <= 0) {
      return absl::InternalError(
          absl::StrCat("a timed call lasted ", sample.duration_ns, " ns"));
    }
    sample.round = round_ - 1;
    entrants_[static_cast<size_t>(order[i])].samples.push_back(sample);
    if (sample.sm_clock_khz > 0) {
      clocks.push_back(static_cast<double>(sample.sm_clock_khz));
    }
  }
  ++admitted_;
  if (!clocks.empty()) round_clocks_.push_back(Median(clocks));
  if (admitted_ == options_.screen_rounds) left = Screen();
  if (admitted_ > options_.screen_rounds) left = DropSlow();
  over_ = leader() < 0 || admitted_ >= options_.max_rounds || Settled();
  return left;
}

void Race::Fail(int entrant, Outcome failure, const std::string& detail) {
  EntrantState& state = entrants_[static_cast<size_t>(entrant)];
  if (!Live(state)) return;
  state.status = EntrantState::Status::kFailed;
  state.failure = failure;
  state.detail = detail;
  over_ = over_ || leader() < 0;
}

bool Race::ClockIsOff(const RoundResult& result) const {
  // Three rounds make a median worth comparing with.
  if (round_clocks_.size() < 3) return false;
  std::vector<double> clocks;
  for (const RoundResult::Entry& entry : result.entries) {
    if (entry.sample.sm_clock_khz > 0) {
      clocks.push_back(static_cast<double>(entry.sample.sm_clock_khz));
    }
  }
  if (clocks.empty()) return false;
  return std::abs(Median(clocks) / Median(round_clocks_) - 1) >
         options_.clock_tolerance;
}

int Race::leader() const {
  int best = -1;
  double best_ns = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < entrants_.size(); ++i) {
    if (!Live(entrants_[i])) continue;
    // Before the first admitted round all are equal.
    const double ns = entrants_[i].samples.empty()
                          ? std::numeric_limits<double>::max()
                          : MedianNs(entrants_[i]);
    if (ns < best_ns) {
      best_ns = ns;
      best = static_cast<int>(i);
    }
  }
  return best;
}

std::vector<int> Race::Screen() {
  std::vector<int> left;
  const int first = leader();
  if (first < 0) return left;
  const double limit =
      options_.screen_ratio * MedianNs(entrants_[static_cast<size_t>(first)]);
  for (size_t i = 0; i < entrants_.size(); ++i) {
    if (!Live(entrants_[i]) || static_cast<int>(i) == protected_entrant_) {
      continue;
    }
    // Disturbances only ever slow a call down, so the best of the few samples
    // is what can be held against a candidate.
    const std::vector<double> times = Durations(entrants_[i].samples);
    if (!times.empty() &&
        *std::min_element(times.begin(), times.end()) > limit) {
      entrants_[i].status = EntrantState::Status::kScreenedOut;
      left.push_back(static_cast<int>(i));
      --contenders_;
    }
  }
  return left;
}

double Race::Bound(double share, double reference_ns) const {
  return std::log1p(std::max(
      share, static_cast<double>(options_.tie_floor_ns) / reference_ns));
}

// The truly fastest candidate is dropped only if its interval against some
// leader misses. Each of those contenders - 1 intervals holds at all rounds at
// once with a chance of 1 - alpha / (contenders - 1), so whichever of them lead
// in turn, the chance that any misses is at most alpha.
double Race::PairAlpha() const {
  return options_.alpha / std::max(1, contenders_ - 1);
}

std::vector<int> Race::DropSlow() {
  std::vector<int> left;
  const int first = leader();
  if (first < 0) return left;
  const EntrantState& best = entrants_[static_cast<size_t>(first)];
  const double slack = Bound(options_.slack, MedianNs(best));
  for (size_t i = 0; i < entrants_.size(); ++i) {
    if (!Live(entrants_[i]) || static_cast<int>(i) == first ||
        static_cast<int>(i) == protected_entrant_) {
      continue;
    }
    const MedianInterval ratio = MedianSequence(
        PairedLogRatios(entrants_[i].samples, best.samples), PairAlpha());
    if (ratio.low > slack) {
      entrants_[i].status = EntrantState::Status::kDropped;
      left.push_back(static_cast<int>(i));
    }
  }
  return left;
}

bool Race::Settled() const {
  const int first = leader();
  if (admitted_ < options_.min_rounds || first < 0) return false;
  // Whether every live entrant is known to be within `share` of `reference`,
  // or more rounds would hardly tell. One that is known not to be is decided
  // too, unless it is about to be dropped for it.
  const auto decided = [&](int reference, double share, bool drops) {
    const EntrantState& base = entrants_[static_cast<size_t>(reference)];
    const double bound = Bound(share, MedianNs(base));
    for (size_t i = 0; i < entrants_.size(); ++i) {
      if (!Live(entrants_[i]) || static_cast<int>(i) == reference) continue;
      const MedianInterval ratio =
          MedianSequence(PairedLogRatios(entrants_[i].samples, base.samples),
                         options_.admission_alpha);
      const bool stays = !drops || static_cast<int>(i) == protected_entrant_;
      if (ratio.high > bound && !(stays && ratio.low > bound) &&
          ratio.high - ratio.low > 2 * options_.narrow) {
        return false;
      }
    }
    return true;
  };
  return decided(first, options_.slack, /*drops=*/true) &&
         (protected_entrant_ < 0 ||
          !Live(entrants_[static_cast<size_t>(protected_entrant_)]) ||
          decided(protected_entrant_, options_.tie, /*drops=*/false));
}

absl::Duration RoundDeadline(size_t candidates, double expected_ns) {
  // GpuMeasurer may wait two seconds for the clock to settle.
  return absl::Seconds(5) + absl::Milliseconds(20) * candidates +
         20 * absl::Nanoseconds(expected_ns);
}

absl::Duration GateDeadline(const DeviceSpec& device, double expected_ns) {
  if (device.modelled()) return absl::Seconds(20);
  return absl::Seconds(5) + 40 * absl::Nanoseconds(expected_ns);
}

absl::StatusOr<bool> RunRace(Executor& executor, const RaceRun& run,
                             const RaceOptions& options,
                             std::mt19937_64& random) {
  Race race(static_cast<int>(run.candidates.size()), run.protected_entrant,
            options, run.first_round);
  while (!race.over()) {
    if (run.stop()) return false;
    const std::vector<int> order = race.NextOrder(random);
    RoundRequest request;
    request.m = run.m;
    request.round = race.round();
    for (const int entrant : order) {
      request.order.push_back(run.candidates[static_cast<size_t>(entrant)]);
    }
    HONE_ASSIGN_OR_RETURN(const RoundResult result,
                          executor.Round(request, run.round_deadline));
    for (const std::string& how : result.interruptions) {
      if (!run.interrupted) break;
      HONE_RETURN_IF_ERROR(run.interrupted(order.front(), how));
    }
    const int32_t disturbed = race.disturbed();
    HONE_ASSIGN_OR_RETURN(const std::vector<int> left,
                          race.Report(order, result));
    if (race.disturbed() > disturbed) {
      run.wait(std::min(kLongestWait, kFirstWait * (1 << disturbed)));
    }
    for (const int entrant : left) {
      HONE_RETURN_IF_ERROR(
          run.left(entrant, race.entrants()[static_cast<size_t>(entrant)]));
    }
  }
  const int count = static_cast<int>(race.entrants().size());
  const auto finish = [&](int entrant) -> absl::Status {
    const EntrantState& state = race.entrants()[static_cast<size_t>(entrant)];
    return Live(state) ? run.left(entrant, state) : absl::OkStatus();
  };
  for (int entrant = 0; entrant < count; ++entrant) {
    if (entrant == run.protected_entrant) continue;
    HONE_RETURN_IF_ERROR(finish(entrant));
  }
  if (run.protected_entrant >= 0) {
    HONE_RETURN_IF_ERROR(finish(run.protected_entrant));
  }
  return true;
}

}  // namespace hone
