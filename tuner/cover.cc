#include "tuner/cover.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "tuner/statistics.h"

namespace hone {
namespace {

// Two-sided level of the interval printed as evidence.
constexpr double kEvidenceAlpha = 0.05;

constexpr size_t kMaxPoints = 256;
using Points = std::bitset<kMaxPoints>;

double MedianNs(const Trial& trial) { return Median(Durations(trial.samples)); }

double UpperRatio(const Trial& a, const Trial& b, double alpha) {
  if (&a == &b) return 0;
  return CompareSamples(a.samples, b.samples, a.session_id == b.session_id,
                        alpha)
      .high;
}

// Branch and bound over sets of kernels.
class CoverSearch {
 public:
  CoverSearch(absl::Span<const CoverPoint> points,
              absl::Span<const CoverKernel> kernels, int64_t node_limit)
      : points_(points),
        kernels_(kernels),
        serves_(kernels.size()),
        nodes_left_(node_limit) {
    for (size_t p = 0; p < points.size(); ++p) {
      for (const int kernel : points[p].kernels) {
        serves_[static_cast<size_t>(kernel)].set(p);
      }
      if (!points[p].kernels.empty()) all_.set(p);
    }
  }

  Cover Run() {
    Cover cover;
    cover.lower_bound = LowerBound(all_);
    best_ = Greedy();
    best_cost_ = CostOf(best_);
    std::vector<int> chosen;
    Branch(all_, chosen);
    cover.kernels = best_;
    const auto size = static_cast<int64_t>(best_.size());
    cover.proven = nodes_left_ > 0 || cover.lower_bound == size;
    if (cover.proven) cover.lower_bound = size;
    return cover;
  }

 private:
  using Cost = std::tuple<size_t, int64_t, double, uint64_t, std::vector<int>>;

  Cost CostOf(std::vector<int> set) const {
    std::sort(set.begin(), set.end());
    int64_t newcomers = 0;
    uint64_t workspace = 0;
    for (const int kernel : set) {
      newcomers += kernels_[static_cast<size_t>(kernel)].newcomer;
      workspace += kernels_[static_cast<size_t>(kernel)].workspace_bytes;
    }
    double regret = 0;
    for (const CoverPoint& point : points_) {
      double least = std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < point.kernels.size(); ++i) {
        if (std::binary_search(set.begin(), set.end(), point.kernels[i])) {
          least = std::min(least, point.regrets[i]);
        }
      }
      if (!point.kernels.empty()) regret += least;
    }
    const size_t size = set.size();
    return {size, newcomers, regret, workspace, std::move(set)};
  }

  // The larger of two bounds: no kernel serves more points than the best one,
  // and points that share no kernel each need their own.
  int64_t LowerBound(const Points& open) const {
    if (open.none()) return 0;
    size_t widest = 1;
    for (const Points& serves : serves_) {
      widest = std::max(widest, (serves & open).count());
    }
    const auto by_width =
        static_cast<int64_t>((open.count() + widest - 1) / widest);
    Points rest = open;
    int64_t independent = 0;
    while (rest.any()) {
      const size_t point = Scarcest(rest);
      ++independent;
      for (const int kernel : points_[point].kernels) {
        rest &= ~serves_[static_cast<size_t>(kernel)];
      }
    }
    return std::max(by_width, independent);
  }

  size_t Scarcest(const Points& open) const {
    size_t best = kMaxPoints;
    for (size_t p = 0; p < points_.size(); ++p) {
      if (open[p] && (best == kMaxPoints || points_[p].kernels.size() <
                                                points_[best].kernels.size())) {
        best = p;
      }
    }
    return best;
  }

  std::vector<int> Greedy() const {
    std::vector<int> set;
    Points open = all_;
    while (open.any()) {
      size_t best = 0;
      for (size_t k = 1; k < serves_.size(); ++k) {
        if ((serves_[k] & open).count() > (serves_[best] & open).count()) {
          best = k;
        }
      }
      set.push_back(static_cast<int>(best));
      open &= ~serves_[best];
    }
    std::sort(set.begin(), set.end());
    return set;
  }

  void Branch(const Points& open, std::vector<int>& chosen) {
    if (nodes_left_ <= 0) return;
    --nodes_left_;
    if (open.none()) {
      Cost cost = CostOf(chosen);
      if (cost < best_cost_) {
        best_ = std::get<std::vector<int>>(cost);
        best_cost_ = std::move(cost);
      }
      return;
    }
    // Sets as large as the best are still looked at: they may cost less.
    if (chosen.size() + static_cast<size_t>(LowerBound(open)) > best_.size()) {
      return;
    }
    std::vector<int> branches = points_[Scarcest(open)].kernels;
    std::stable_sort(branches.begin(), branches.end(), [&](int a, int b) {
      return (serves_[static_cast<size_t>(a)] & open).count() >
             (serves_[static_cast<size_t>(b)] & open).count();
    });
    for (const int kernel : branches) {
      chosen.push_back(kernel);
      Branch(open & ~serves_[static_cast<size_t>(kernel)], chosen);
      chosen.pop_back();
    }
  }

  absl::Span<const CoverPoint> points_;
  absl::Span<const CoverKernel> kernels_;
  std::vector<Points> serves_;
  Points all_;
  int64_t nodes_left_;
  std::vector<int> best_;
  Cost best_cost_;
};

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<Standing> JudgePoint(absl::Span<const Measured> measured,
                                 int default_kernel,
                                 const RaceOptions& options) {
  std::vector<Standing> standings;
  if (measured.empty()) return standings;
  const Trial* best = nullptr;
  const Trial* standard = nullptr;
  double best_ns = std::numeric_limits<double>::infinity();
  for (const Measured& m : measured) {
    if (MedianNs(*m.trial) < best_ns) {
      best_ns = MedianNs(*m.trial);
      best = m.trial;
    }
    if (m.kernel == default_kernel) standard = m.trial;
  }
  const auto tick = static_cast<double>(options.tie_floor_ns);
  const double tie = std::max(options.tie, tick / best_ns);
  const double slack = std::log1p(std::max(options.slack, tick / best_ns));
  for (const Measured& m : measured) {
    Standing standing;
    standing.kernel = m.kernel;
    const double behind = MedianNs(*m.trial) / best_ns - 1;
    standing.tie = behind < tie || m.trial == best;
    standing.regret = standing.tie ? 0 : behind;
    standing.admissible =
        UpperRatio(*m.trial, *best, options.admission_alpha) <= slack &&
        (standard == nullptr ||
         UpperRatio(*m.trial, *standard, options.admission_alpha) <=
             std::log1p(std::max(options.tie, tick / MedianNs(*standard))));
    standings.push_back(standing);
  }
  return standings;
}

Evidence EvidenceOf(const Trial& trial, const Trial* standard) {
  Evidence evidence;
  evidence.samples = std::ssize(trial.samples);
  evidence.median_ns = trial.median_ns;
  const std::vector<double> durations = Durations(trial.samples);
  const auto [least, most] =
      std::minmax_element(durations.begin(), durations.end());
  const MedianInterval interval =
      FixedMedianInterval(durations, kEvidenceAlpha);
  // Too few samples for the level: all of them.
  evidence.low_ns = std::llround(std::max(interval.low, *least));
  evidence.high_ns = std::llround(std::min(interval.high, *most));
  if (standard != nullptr) {
    evidence.default_median_ns = standard->median_ns;
    evidence.margin = std::expm1(
        CompareSamples(standard->samples, trial.samples,
                       standard->session_id == trial.session_id, kEvidenceAlpha)
            .median);
  }
  return evidence;
}

CoverPoint PointOf(absl::Span<const Standing> standings, int default_kernel) {
  CoverPoint point;
  const Standing* last = nullptr;
  for (const Standing& standing : standings) {
    if (standing.admissible) {
      point.kernels.push_back(standing.kernel);
      point.regrets.push_back(standing.regret);
    }
    const bool is_default = standing.kernel == default_kernel;
    if (last == nullptr || is_default ||
        (last->kernel != default_kernel && standing.regret < last->regret)) {
      last = &standing;
    }
  }
  if (point.kernels.empty() && last != nullptr) {
    point = {{last->kernel}, {last->regret}};
  }
  return point;
}

Cover SmallestCover(absl::Span<const CoverPoint> points,
                    absl::Span<const CoverKernel> kernels, int64_t node_limit) {
  return CoverSearch(points, kernels, node_limit).Run();
}

std::vector<int> AssignPoints(absl::Span<const CoverPoint> points,
                              absl::Span<const CoverKernel> kernels,
                              absl::Span<const int> cover, double tie) {
  std::vector<int> assigned;
  int previous = -1;
  for (const CoverPoint& point : points) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < point.kernels.size(); ++i) {
      if (std::count(cover.begin(), cover.end(), point.kernels[i]) > 0) {
        least = std::min(least, point.regrets[i]);
      }
    }
    int best = -1;
    std::tuple<bool, int64_t, uint64_t, int> best_cost;
    for (size_t i = 0; i < point.kernels.size(); ++i) {
      const int kernel = point.kernels[i];
      if (std::count(cover.begin(), cover.end(), kernel) == 0 ||
          point.regrets[i] > least + tie) {
        continue;
      }
      const CoverKernel& traits = kernels[static_cast<size_t>(kernel)];
      const std::tuple<bool, int64_t, uint64_t, int> cost = {
          kernel != previous, traits.newcomer, traits.workspace_bytes, kernel};
      if (best < 0 || cost < best_cost) {
        best = kernel;
        best_cost = cost;
      }
    }
    assigned.push_back(best);
    if (best >= 0) previous = best;
  }
  return assigned;
}

std::vector<TableRange> BuildRanges(absl::Span<const TablePoint> points) {
  std::vector<TableRange> ranges;
  const auto extend = [&](int64_t m_hi, int kernel) {
    if (!ranges.empty() && ranges.back().kernel == kernel) {
      ranges.back().m_hi = m_hi;
    } else {
      const int64_t m_lo = ranges.empty() ? 1 : ranges.back().m_hi + 1;
      ranges.push_back({m_lo, m_hi, kernel});
    }
  };
  for (size_t i = 0; i < points.size(); ++i) {
    const TablePoint& a = points[i];
    if (i + 1 == points.size()) {
      extend(0, a.kernel);
      break;
    }
    const TablePoint& b = points[i + 1];
    int64_t end = a.m;
    const int64_t cliff =
        std::min(CeilDiv(a.m, a.block_m) * a.block_m, b.m - 1);
    const bool same_tiles =
        CeilDiv(a.m + 1, b.block_m) == CeilDiv(b.m, b.block_m);
    if (a.median_ns > 0 && b.median_ns > a.median_ns && same_tiles) {
      end = cliff;
    }
    extend(end, a.kernel);
  }
  return ranges;
}

std::vector<int64_t> CliffProbes(absl::Span<const int64_t> ladder,
                                 absl::Span<const int64_t> block_ms,
                                 int limit) {
  std::vector<size_t> gaps(ladder.empty() ? 0 : ladder.size() - 1);
  std::iota(gaps.begin(), gaps.end(), 0);
  std::stable_sort(gaps.begin(), gaps.end(), [&](size_t a, size_t b) {
    return static_cast<double>(ladder[a + 1]) / static_cast<double>(ladder[a]) >
           static_cast<double>(ladder[b + 1]) / static_cast<double>(ladder[b]);
  });
  std::set<int64_t> probes;
  for (const size_t gap : gaps) {
    const int64_t low = ladder[gap];
    const int64_t high = ladder[gap + 1];
    for (const int64_t block : block_ms) {
      const int64_t cliff = (high - 1) / block * block;
      for (const int64_t m : {cliff, cliff + 1}) {
        if (m > low && m < high &&
            static_cast<int64_t>(probes.size()) < limit) {
          probes.insert(m);
        }
      }
    }
  }
  return {probes.begin(), probes.end()};
}

}  // namespace hone
