#include "tuner/search.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "tuner/analytic_model.h"

namespace hone {
namespace {

// Predicted this far behind the best of a point, a config does not serve it.
constexpr double kNear = 0.15;
// Configs that serve a point before it stops counting; raised by as much when
// every point is served.
constexpr double kServedBy = 3;
constexpr int kPerShape = 2;
// One slot in this many goes to a random draw.
constexpr int kRandomShare = 16;
constexpr double kRandomWithin = 2.0;

using Shape =
    std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
Shape ShapeOf(const TuningConfig& c) {
  return {c.block_m, c.block_n, c.block_k, c.warp_m,
          c.warp_n,  c.warp_k,  c.split_k};
}

std::vector<double> PredictLadder(const Problem& problem,
                                  const DeviceSpec& device,
                                  const TuningConfig& config,
                                  absl::Span<const int64_t> ladder) {
  const KernelFootprint footprint = EstimateFootprint(problem, config);
  std::vector<double> times;
  times.reserve(ladder.size());
  for (const int64_t m : ladder) {
    times.push_back(Predict(problem, device, config, m, footprint).total_ns);
  }
  return times;
}

}  // namespace

absl::StatusOr<CandidatePool> SelectCandidates(
    const Problem& problem, const DeviceSpec& device,
    absl::Span<const int64_t> ladder, absl::Span<const TuningConfig> extra,
    int max_kernels, uint64_t seed) {
  HONE_RETURN_IF_ERROR(CheckProblem(problem, device));
  CandidatePool pool;
  const auto add = [&](const TuningConfig& config) {
    const auto it = std::find(pool.configs.begin(), pool.configs.end(), config);
    if (it != pool.configs.end()) {
      return static_cast<int>(it - pool.configs.begin());
    }
    pool.configs.push_back(config);
    pool.predicted_ns.push_back(PredictLadder(problem, device, config, ladder));
    return static_cast<int>(pool.configs.size()) - 1;
  };
  for (const int64_t m : ladder) {
    pool.defaults.push_back(add(HeuristicDefault(problem, device, m)));
  }
  for (const TuningConfig& config : extra) {
    if (!CheckConfig(problem, device, config)) add(config);
  }

  const std::vector<TuningConfig> space =
      Enumerate(problem, device, ladder.back());
  std::vector<std::vector<double>> times;
  std::vector<double> best(ladder.size(),
                           std::numeric_limits<double>::infinity());
  times.reserve(space.size());
  for (const TuningConfig& config : space) {
    times.push_back(PredictLadder(problem, device, config, ladder));
    for (size_t p = 0; p < ladder.size(); ++p) {
      best[p] = std::min(best[p], times.back()[p]);
    }
  }

  // How well a config serves a point: 1 at the best, 0 at kNear behind.
  const auto quality = [&](const std::vector<double>& t, size_t p) {
    return std::max(0.0, 1 - (t[p] / best[p] - 1) / kNear);
  };
  std::vector<double> served(ladder.size(), 0);
  std::map<Shape, int> shapes;
  const auto take = [&](const std::vector<double>& t,
                        const TuningConfig& config) {
    for (size_t p = 0; p < ladder.size(); ++p) served[p] += quality(t, p);
    ++shapes[ShapeOf(config)];
  };
  for (size_t i = 0; i < pool.configs.size(); ++i) {
    take(pool.predicted_ns[i], pool.configs[i]);
  }

  std::vector<bool> used(space.size(), false);
  for (size_t i = 0; i < space.size(); ++i) {
    used[i] = std::find(pool.configs.begin(), pool.configs.end(), space[i]) !=
              pool.configs.end();
  }
  const auto limit = static_cast<size_t>(std::max(1, max_kernels));
  const size_t chosen_limit = limit - std::min(limit, limit / kRandomShare);
  double enough = kServedBy;
  while (pool.configs.size() < chosen_limit) {
    size_t choice = space.size();
    double most = 0;
    for (size_t i = 0; i < space.size(); ++i) {
      if (used[i]) continue;
      const auto shape = shapes.find(ShapeOf(space[i]));
      if (shape != shapes.end() && shape->second >= kPerShape) continue;
      double gain = 0;
      for (size_t p = 0; p < ladder.size(); ++p) {
        gain +=
            std::min(quality(times[i], p), std::max(0.0, enough - served[p]));
      }
      if (gain > most) {
        most = gain;
        choice = i;
      }
    }
    if (choice == space.size()) {
      // Every point is served, or no config is left that serves one.
      if (enough > static_cast<double>(limit)) break;
      enough += kServedBy;
      continue;
    }
    used[choice] = true;
    add(space[choice]);
    take(times[choice], space[choice]);
  }

  std::vector<size_t> others;
  for (size_t i = 0; i < space.size(); ++i) {
    bool near = false;
    for (size_t p = 0; p < ladder.size(); ++p) {
      near = near || times[i][p] < kRandomWithin * best[p];
    }
    if (near && !used[i]) others.push_back(i);
  }
  std::mt19937_64 random(seed);
  std::shuffle(others.begin(), others.end(), random);
  for (const size_t i : others) {
    if (pool.configs.size() >= limit) break;
    add(space[i]);
  }
  return pool;
}

}  // namespace hone
