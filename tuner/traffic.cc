#include "tuner/traffic.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "tuner/trial.h"

namespace hone {
namespace {

// Always on a ladder: M between two of them are never far from what was
// measured.
constexpr int64_t kSpread[] = {1, 16, 64, 256, 1024, 4096};
// Beyond this M, time is in proportion to M whatever the kernel, and operands
// would fill the device.
constexpr int64_t kLargestM = 32768;
// An M that takes this share of the time is worth a point of its own.
constexpr double kHeavyShare = 0.02;
// A stretch of the ladder that takes less is served well enough by the others.
constexpr double kLightShare = 0.001;

double Halvings(int64_t us) {
  return static_cast<double>(us) /
         static_cast<double>(absl::ToInt64Microseconds(kTrafficHalfLife));
}

// The default ladder, continued until it reaches `m`.
std::vector<int64_t> LadderUpTo(int64_t m) {
  std::vector<int64_t> ladder = DefaultLadder();
  while (ladder.back() < std::min(m, kLargestM)) {
    ladder.push_back(2 * ladder[ladder.size() - 2]);
  }
  return ladder;
}

// Shares `options.budget` among tunes whose savings are known.
void ShareBudget(const PlanOptions& options, std::vector<PlannedTune>& tunes) {
  const auto fit =
      static_cast<size_t>(std::max<int64_t>(1, options.budget / options.least));
  if (tunes.size() > fit) tunes.resize(fit);
  absl::Duration left = options.budget;
  std::vector<size_t> open(tunes.size());
  std::iota(open.begin(), open.end(), size_t{0});
  // Those whose part is too small take the least, and the others share the
  // rest; that may make more parts too small.
  while (!open.empty()) {
    double sum = 0;
    for (const size_t i : open) sum += tunes[i].saving_share;
    std::vector<size_t> above;
    for (const size_t i : open) {
      const double part = sum > 0 ? tunes[i].saving_share / sum
                                  : 1.0 / static_cast<double>(open.size());
      tunes[i].budget = left * part;
      if (tunes[i].budget >= options.least) above.push_back(i);
    }
    if (above.size() == open.size() || tunes.size() == 1) break;
    for (const size_t i : open) {
      if (tunes[i].budget >= options.least) continue;
      tunes[i].budget = options.least;
      left -= options.least;
    }
    open = std::move(above);
  }
  for (PlannedTune& tune : tunes) {
    tune.budget = std::min(tune.budget, options.most);
  }
}

}  // namespace

double DecayedCount::At(int64_t now_us) const {
  if (now_us <= unix_us) return weight;
  return weight * std::exp2(-Halvings(now_us - unix_us));
}

void DecayedCount::Add(double count, int64_t when_us) {
  if (when_us >= unix_us) {
    weight = At(when_us) + count;
    unix_us = when_us;
  } else {
    weight += count * std::exp2(-Halvings(unix_us - when_us));
  }
}

std::vector<MWeight> MergeRare(const std::vector<MWeight>& histogram,
                               size_t keep) {
  std::vector<MWeight> merged = histogram;
  while (merged.size() > keep && merged.size() > 1) {
    // Above some M time is linear in it, and below hardly depends on it.
    size_t least = 0;
    double least_moved = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i + 1 < merged.size(); ++i) {
      const double moved =
          merged[i].weight * static_cast<double>(merged[i + 1].m - merged[i].m);
      if (moved < least_moved) {
        least_moved = moved;
        least = i;
      }
    }
    merged[least + 1].weight += merged[least].weight;
    merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(least));
  }
  return merged;
}

double TimeCurve::At(int64_t m) const {
  if (points_.empty()) return 0;
  const auto above =
      std::lower_bound(points_.begin(), points_.end(), m,
                       [](const Point& p, int64_t at) { return p.m < at; });
  if (above == points_.begin()) return above->ns;
  if (above == points_.end()) {
    return points_.back().ns * static_cast<double>(m) /
           static_cast<double>(points_.back().m);
  }
  const Point& low = *std::prev(above);
  const double part =
      static_cast<double>(m - low.m) / static_cast<double>(above->m - low.m);
  return low.ns + part * (above->ns - low.ns);
}

absl::string_view ToString(TableState state) {
  static constexpr absl::string_view kNames[] = {"missing", "stale",
                                                 "unverified", "fresh"};
  return kNames[static_cast<size_t>(state)];
}

double TimeOf(const ProblemTraffic& traffic) {
  double time = 0;
  for (const MWeight& at : traffic.calls) {
    time += at.weight * traffic.times.At(at.m);
  }
  return time;
}

double ExpectedGain(TableState state) {
  switch (state) {
    case TableState::kMissing:
      return 0.05;
    case TableState::kStale:
    case TableState::kUnverified:
      return 0.02;
    case TableState::kFresh:
      return 0;
  }
  return 0;
}

std::vector<PlannedTune> PlanTunes(absl::Span<const ProblemTraffic> traffic,
                                   const PlanOptions& options) {
  std::vector<double> times;
  double all = 0;
  for (const ProblemTraffic& problem : traffic) {
    times.push_back(TimeOf(problem));
    all += times.back();
  }
  std::vector<PlannedTune> tunes;
  for (size_t i = 0; i < traffic.size(); ++i) {
    const double gain = ExpectedGain(traffic[i].state);
    if (gain <= 0 || (times[i] <= 0 && traffic[i].misses <= 0)) continue;
    PlannedTune& tune = tunes.emplace_back();
    tune.problem = i;
    tune.time_share = all > 0 ? times[i] / all : 0;
    tune.saving_share = tune.time_share * gain;
    tune.ladder =
        TrafficLadder(traffic[i].calls, traffic[i].times, options.max_points);
  }
  std::stable_sort(tunes.begin(), tunes.end(),
                   [&](const PlannedTune& a, const PlannedTune& b) {
                     if (a.saving_share != b.saving_share)
                       return a.saving_share > b.saving_share;
                     return traffic[a.problem].misses >
                            traffic[b.problem].misses;
                   });
  ShareBudget(options, tunes);
  return tunes;
}

std::vector<int64_t> TrafficLadder(absl::Span<const MWeight> calls,
                                   const TimeCurve& times, size_t max_points) {
  std::map<int64_t, double> spent;
  double all = 0;
  for (const MWeight& at : calls) {
    const double time = at.weight * times.At(at.m);
    spent[at.m] += time;
    all += time;
  }
  if (!(all > 0)) return DefaultLadder();
  const std::vector<int64_t> base = LadderUpTo(spent.rbegin()->first);

  // By M that may become a point: the time that it would serve.
  std::map<int64_t, double> worth;
  // An M of its own has no more to gain from the points around it.
  std::vector<std::pair<double, int64_t>> heavy;
  std::map<int64_t, double> light;
  for (const auto& [m, time] : spent) {
    if (time >= kHeavyShare * all && m <= base.back()) {
      heavy.emplace_back(time, m);
    } else {
      light[m] = time;
    }
  }
  std::sort(heavy.rbegin(), heavy.rend());
  // The rest is many M beside each other, for which the base is right.
  for (size_t i = 0; i < heavy.size(); ++i) {
    const auto [time, m] = heavy[i];
    (i < max_points / 2 ? worth : light)[m] = time;
  }
  for (const auto& [m, time] : light) {
    const auto above = std::lower_bound(base.begin(), base.end(), m);
    if (above == base.end()) {
      worth[base.back()] += time;
      continue;
    }
    // The point above serves it; the one below tells where the change is.
    worth[*above] += time;
    if (above != base.begin() && *above != m) {
      worth[*std::prev(above)] += time / 2;
    }
  }
  std::vector<std::pair<double, int64_t>> order;
  for (const auto& [m, time] : worth) {
    if (time >= kLightShare * all) order.emplace_back(time, m);
  }
  std::sort(order.rbegin(), order.rend());
  std::set<int64_t> ladder(std::begin(kSpread), std::end(kSpread));
  for (const auto& [time, m] : order) {
    if (ladder.size() >= max_points) break;
    ladder.insert(m);
  }
  return {ladder.begin(), ladder.end()};
}

}  // namespace hone
