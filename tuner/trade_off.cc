#include "tuner/trade_off.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace hone {
namespace {

// Stands for "has no time here"; larger than any sum of real logarithms, and
// still finite, so that sums compare.
constexpr double kCannot = 1e6;

// Sets of a given size, by branch and bound over kernels in a fixed order.
class SetSearch {
 public:
  SetSearch(absl::Span<const TimesAtM> points,
            absl::Span<const int64_t> compile_ms,
            const TradeOffOptions& options)
      : compile_ms_(compile_ms), node_limit_(options.node_limit) {
    const size_t kernels = compile_ms.size();
    regrets_.resize(kernels);
    for (const TimesAtM& point : points) {
      double best = std::numeric_limits<double>::infinity();
      for (const double ns : point.ns) {
        if (ns > 0) best = std::min(best, ns);
      }
      if (!std::isfinite(best)) continue;
      ++points_;
      const double tie = std::max(options.tie * best, options.tie_floor_ns);
      for (size_t k = 0; k < kernels; ++k) {
        const double ns = point.ns[k];
        regrets_[k].push_back(ns <= 0            ? kCannot
                              : ns - best <= tie ? 0
                                                 : std::log(ns / best));
      }
    }
    LeaveOutDominated();
    // The least that kernels from the i-th on can still bring each point to.
    suffix_.assign(order_.size() + 1, std::vector<double>(points_, kCannot));
    for (size_t i = order_.size(); i-- > 0;) {
      for (size_t p = 0; p < points_; ++p) {
        suffix_[i][p] = std::min(suffix_[i + 1][p], Regrets(i)[p]);
      }
    }
  }

  size_t points() const { return points_; }
  // Kernels that some set may want.
  size_t useful() const { return order_.size(); }

  // `start` is the best smaller set, which greedy choice goes on from.
  TradeOffStep Best(size_t size, const std::vector<size_t>& start,
                    std::vector<size_t>* chosen) {
    best_ = Exchange(Greedy(size, start));
    best_cost_ = CostOf(best_);
    nodes_left_ = node_limit_;
    std::vector<size_t> set;
    Branch(0, size, set, std::vector<double>(points_, kCannot));
    *chosen = best_;
    TradeOffStep step;
    double sum = 0;
    for (const double regret : Served(best_)) {
      sum += regret;
      step.worst_regret = std::max(step.worst_regret, std::expm1(regret));
    }
    step.mean_regret = std::expm1(sum / static_cast<double>(points_));
    for (const size_t i : best_) {
      step.kernels.push_back(static_cast<int>(order_[i]));
      step.compile_ms += compile_ms_[order_[i]];
    }
    std::sort(step.kernels.begin(), step.kernels.end());
    step.proven = nodes_left_ > 0;
    return step;
  }

 private:
  using Cost = std::tuple<double, double, int64_t>;

  const std::vector<double>& Regrets(size_t i) const {
    return regrets_[order_[i]];
  }

  // A kernel that another one equals or beats everywhere, at no longer compile
  // time, is in no set that is better for it.
  void LeaveOutDominated() {
    for (size_t k = 0; k < regrets_.size(); ++k) {
      bool dominated = false;
      for (size_t o = 0; o < regrets_.size() && !dominated; ++o) {
        if (o == k || compile_ms_[o] > compile_ms_[k]) continue;
        bool everywhere = true;
        bool somewhere = compile_ms_[o] < compile_ms_[k] || o < k;
        for (size_t p = 0; p < points_ && everywhere; ++p) {
          everywhere = regrets_[o][p] <= regrets_[k][p];
          somewhere = somewhere || regrets_[o][p] < regrets_[k][p];
        }
        dominated = everywhere && somewhere;
      }
      if (!dominated) order_.push_back(k);
    }
    const auto sum = [&](size_t k) {
      return std::accumulate(regrets_[k].begin(), regrets_[k].end(), 0.0);
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return sum(a) < sum(b); });
  }

  std::vector<double> Served(const std::vector<size_t>& set) const {
    std::vector<double> served(points_, kCannot);
    for (const size_t i : set) {
      for (size_t p = 0; p < points_; ++p) {
        served[p] = std::min(served[p], Regrets(i)[p]);
      }
    }
    return served;
  }

  Cost CostOf(const std::vector<size_t>& set) const {
    const std::vector<double> served = Served(set);
    int64_t compile = 0;
    for (const size_t i : set) compile += compile_ms_[order_[i]];
    return {std::accumulate(served.begin(), served.end(), 0.0),
            *std::max_element(served.begin(), served.end()), compile};
  }

  std::vector<size_t> Greedy(size_t size, std::vector<size_t> set) const {
    while (set.size() < size) {
      size_t best = order_.size();
      Cost best_cost;
      for (size_t i = 0; i < order_.size(); ++i) {
        if (std::count(set.begin(), set.end(), i) > 0) continue;
        set.push_back(i);
        const Cost cost = CostOf(set);
        if (best == order_.size() || cost < best_cost) {
          best = i;
          best_cost = cost;
        }
        set.pop_back();
      }
      set.push_back(best);
    }
    return set;
  }

  std::vector<size_t> Exchange(std::vector<size_t> set) const {
    Cost cost = CostOf(set);
    bool better = true;
    while (better) {
      better = false;
      for (size_t at = 0; at < set.size(); ++at) {
        for (size_t i = 0; i < order_.size(); ++i) {
          if (std::count(set.begin(), set.end(), i) > 0) continue;
          const size_t old = std::exchange(set[at], i);
          const Cost other = CostOf(set);
          if (other < cost) {
            cost = other;
            better = true;
          } else {
            set[at] = old;
          }
        }
      }
    }
    return set;
  }

  void Branch(size_t from, size_t size, std::vector<size_t>& set,
              const std::vector<double>& served) {
    if (nodes_left_ <= 0) return;
    --nodes_left_;
    if (set.size() == size) {
      const Cost cost = CostOf(set);
      if (cost < best_cost_) {
        best_ = set;
        best_cost_ = cost;
      }
      return;
    }
    for (size_t i = from; i + (size - set.size()) <= order_.size(); ++i) {
      double bound = 0;
      for (size_t p = 0; p < points_; ++p) {
        bound += std::min(served[p], suffix_[i][p]);
      }
      // Sets of the same mean are still looked at: they may be better in what
      // counts after it.
      if (bound > std::get<0>(best_cost_)) return;
      std::vector<double> with = served;
      for (size_t p = 0; p < points_; ++p) {
        with[p] = std::min(with[p], Regrets(i)[p]);
      }
      set.push_back(i);
      Branch(i + 1, size, set, with);
      set.pop_back();
    }
  }

  absl::Span<const int64_t> compile_ms_;
  const int64_t node_limit_;
  size_t points_ = 0;
  // Logarithms of time over the fastest's: by kernel, by point.
  std::vector<std::vector<double>> regrets_;
  // Kernels by rising sum of regrets.
  std::vector<size_t> order_;
  std::vector<std::vector<double>> suffix_;
  int64_t nodes_left_ = 0;
  std::vector<size_t> best_;
  Cost best_cost_;
};

}  // namespace

std::vector<TradeOffStep> TradeOff(absl::Span<const TimesAtM> points,
                                   absl::Span<const int64_t> compile_ms,
                                   const TradeOffOptions& options) {
  std::vector<TradeOffStep> steps;
  SetSearch search(points, compile_ms, options);
  if (search.points() == 0) return steps;
  const size_t most =
      std::min(search.useful(), static_cast<size_t>(options.max_kernels));
  std::vector<size_t> chosen;
  for (size_t size = 1; size <= most; ++size) {
    TradeOffStep step = search.Best(size, chosen, &chosen);
    // An M that none of them has a time at.
    if (!std::isfinite(step.worst_regret)) continue;
    const bool done = step.worst_regret == 0;
    steps.push_back(std::move(step));
    if (done) break;
  }
  return steps;
}

}  // namespace hone
