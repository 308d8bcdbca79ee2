#include "tuner/search.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "tuner/analytic_model.h"
#include "tuner/choose.h"

namespace hone {
namespace {

// One slot of the first pool in this many goes to a random draw.
constexpr int kRandomShare = 16;
constexpr double kRandomWithin = 2.0;

using Shape =
    std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
Shape ShapeOf(const TuningConfig& c) {
  return {c.block_m, c.block_n, c.block_k, c.warp_m,
          c.warp_n,  c.warp_k,  c.split_k};
}

bool Has(const CandidatePool& pool, const TuningConfig& config) {
  return std::find(pool.configs.begin(), pool.configs.end(), config) !=
         pool.configs.end();
}

// Whether two configs are the same but for wgmma's launch order, which decides
// little: one of them is enough.
bool AreTwins(const TuningConfig& a, const TuningConfig& b) {
  TuningConfig turned = a;
  if (UsesWgmma(a)) turned.raster = b.raster;
  return turned == b;
}

// The least time at each point.
std::vector<double> Best(size_t points,
                         absl::Span<const std::vector<double>> times) {
  std::vector<double> best(points, std::numeric_limits<double>::infinity());
  for (const std::vector<double>& t : times) {
    for (size_t p = 0; p < points; ++p) best[p] = std::min(best[p], t[p]);
  }
  return best;
}

}  // namespace

CandidateSearch::CandidateSearch(const Problem& problem,
                                 const DeviceSpec& device,
                                 std::vector<int64_t> ladder,
                                 const Subspace& within)
    : problem_(problem),
      device_(device),
      ladder_(std::move(ladder)),
      space_(Enumerate(problem, device, ladder_.back())) {
  std::erase_if(space_, [&](const TuningConfig& config) {
    return !within.Contains(config);
  });
  times_.reserve(space_.size());
  for (const TuningConfig& config : space_) times_.push_back(Predict(config));
}

absl::StatusOr<CandidateSearch> CandidateSearch::Create(
    const Problem& problem, const DeviceSpec& device,
    std::vector<int64_t> ladder, const Subspace& within) {
  HONE_RETURN_IF_ERROR(CheckProblem(problem, device));
  return CandidateSearch(problem, device, std::move(ladder), within);
}

CandidateSearch::Times CandidateSearch::Predict(
    const TuningConfig& config) const {
  const KernelFootprint footprint = EstimateFootprint(problem_, config);
  Times times;
  times.reserve(ladder_.size());
  for (const int64_t m : ladder_) {
    times.push_back(
        hone::Predict(problem_, device_, config, m, footprint).total_ns);
  }
  return times;
}

void CandidateSearch::Choose(const std::vector<Times>& times,
                             std::vector<double> served,
                             const ChoiceSpread& spread, size_t limit,
                             CandidatePool& pool) const {
  if (pool.configs.size() >= limit) return;
  std::map<Shape, int> numbers;
  Choice choice;
  choice.times = times;
  for (const TuningConfig& config : space_) {
    choice.shapes.push_back(
        numbers.try_emplace(ShapeOf(config), numbers.size()).first->second);
  }
  choice.best = Best(ladder_.size(), times);
  const Times pool_best = Best(ladder_.size(), pool.predicted_ns);
  for (size_t p = 0; p < ladder_.size(); ++p) {
    choice.best[p] = std::min(choice.best[p], pool_best[p]);
  }
  choice.served = std::move(served);
  choice.used.assign(space_.size(), false);
  const auto use = [&](const TuningConfig& config) {
    for (size_t i = 0; i < space_.size(); ++i) {
      if (AreTwins(space_[i], config)) choice.used[i] = true;
    }
  };
  for (const TuningConfig& config : pool.configs) {
    use(config);
    const auto shape = numbers.find(ShapeOf(config));
    if (shape != numbers.end()) ++choice.of_shape[shape->second];
  }
  choice.use = [&](size_t chosen) { use(space_[chosen]); };
  for (const size_t i :
       ChooseServing(choice, spread, limit - pool.configs.size(), limit)) {
    pool.configs.push_back(space_[i]);
    pool.predicted_ns.push_back(times[i]);
  }
}

CandidatePool CandidateSearch::First(absl::Span<const TuningConfig> extra,
                                     int max_kernels, uint64_t seed) const {
  CandidatePool pool;
  const auto add = [&](const TuningConfig& config) {
    const auto it = std::find(pool.configs.begin(), pool.configs.end(), config);
    if (it != pool.configs.end()) {
      return static_cast<int>(it - pool.configs.begin());
    }
    pool.configs.push_back(config);
    pool.predicted_ns.push_back(Predict(config));
    return static_cast<int>(pool.configs.size()) - 1;
  };
  for (const int64_t m : ladder_) {
    pool.defaults.push_back(add(HeuristicDefault(problem_, device_, m)));
  }
  for (const TuningConfig& config : extra) {
    if (!CheckConfig(problem_, device_, config)) add(config);
  }

  const Times best = Best(ladder_.size(), times_);
  std::vector<double> served(ladder_.size(), 0);
  for (const Times& t : pool.predicted_ns) {
    for (size_t p = 0; p < ladder_.size(); ++p) {
      served[p] += ServingQuality(t[p], best[p]);
    }
  }
  const auto limit = static_cast<size_t>(std::max(1, max_kernels));
  const ChoiceSpread spread = {.per_shape = 2, .served_by = 3};
  Choose(times_, std::move(served), spread, limit - limit / kRandomShare, pool);

  std::vector<size_t> others;
  for (size_t i = 0; i < space_.size(); ++i) {
    bool near = false;
    for (size_t p = 0; p < ladder_.size(); ++p) {
      near = near || times_[i][p] < kRandomWithin * best[p];
    }
    if (near && !Has(pool, space_[i])) others.push_back(i);
  }
  std::mt19937_64 random(seed);
  std::shuffle(others.begin(), others.end(), random);
  for (const size_t i : others) {
    if (pool.configs.size() >= limit) break;
    add(space_[i]);
  }
  return pool;
}

void CandidateSearch::Refine(const Surrogate& surrogate, int count,
                             CandidatePool& pool) const {
  for (size_t i = 0; i < pool.configs.size(); ++i) {
    pool.predicted_ns[i] = surrogate.Correct(PositionOf(pool.configs[i]),
                                             std::move(pool.predicted_ns[i]));
  }
  std::vector<Times> times;
  times.reserve(space_.size());
  for (size_t i = 0; i < space_.size(); ++i) {
    times.push_back(surrogate.Correct(PositionOf(space_[i]), times_[i]));
  }
  // Few are chosen: one for each part of the ladder comes first, and what
  // differs from a good one in stages or CTAs is worth a look.
  const ChoiceSpread spread = {.per_shape = 4, .served_by = 1};
  Choose(times, std::vector<double>(ladder_.size(), 0), spread,
         pool.configs.size() + static_cast<size_t>(std::max(0, count)), pool);
}

}  // namespace hone
