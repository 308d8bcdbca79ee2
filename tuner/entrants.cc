#include "tuner/entrants.h"

#include <algorithm>
#include <set>

namespace hone {
namespace {

// Within this of the best at a neighbouring M, a kernel is raced here too.
constexpr double kNeighbourRatio = 1.10;

bool NearlyWonAt(const PoolKernel& kernel, int64_t m, int64_t best_ns) {
  const auto own = kernel.raced.find(m);
  return own != kernel.raced.end() &&
         own->second.outcome == Outcome::kMeasured &&
         static_cast<double>(own->second.median_ns) <=
             kNeighbourRatio * static_cast<double>(best_ns);
}

bool NearlyWonBeside(const PoolKernel& kernel, int64_t m,
                     const std::map<int64_t, int64_t>& best_ns) {
  const auto above = best_ns.upper_bound(m);
  if (above != best_ns.end() &&
      NearlyWonAt(kernel, above->first, above->second)) {
    return true;
  }
  const auto at = best_ns.lower_bound(m);
  if (at == best_ns.begin()) return false;
  const auto below = std::prev(at);
  return NearlyWonAt(kernel, below->first, below->second);
}

}  // namespace

std::vector<size_t> CoarseToFine(size_t count) {
  std::vector<size_t> order;
  std::vector<bool> taken(count, false);
  const auto take = [&](size_t i) {
    if (!taken[i]) order.push_back(i);
    taken[i] = true;
  };
  if (count == 0) return order;
  take(0);
  take(count - 1);
  for (size_t step = count; step > 0; step /= 2) {
    for (size_t i = step / 2; i < count; i += step) take(i);
  }
  return order;
}

std::vector<size_t> SelectEntrants(absl::Span<const PoolKernel> kernels,
                                   absl::Span<const int64_t> ladder,
                                   size_t point, int standard,
                                   double entry_ratio,
                                   const TuningConfig* incumbent,
                                   const std::map<int64_t, int64_t>& best_ns) {
  std::vector<size_t> order;
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].state != PoolKernel::State::kOut) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return kernels[a].predicted_ns[point] < kernels[b].predicted_ns[point];
  });
  std::vector<size_t> entrants;
  for (const size_t i : order) {
    const double behind = kernels[i].predicted_ns[point] /
                          kernels[order.front()].predicted_ns[point];
    const bool likely =
        (behind <= entry_ratio || entrants.size() < kMinEntrants) &&
        entrants.size() < kMaxEntrants;
    if (likely || static_cast<int>(i) == standard ||
        (incumbent != nullptr && *incumbent == kernels[i].config) ||
        NearlyWonBeside(kernels[i], ladder[point], best_ns)) {
      entrants.push_back(i);
    }
  }
  return entrants;
}

std::vector<int64_t> GateLadder(const TuningConfig& config, int64_t low,
                                int64_t high) {
  const int64_t past_tile = config.block_m + 3;
  const int64_t ragged =
      std::clamp(past_tile <= high ? past_tile : high - 1, low, high);
  const std::set<int64_t> points = {low, ragged, high};
  return {points.begin(), points.end()};
}

}  // namespace hone
