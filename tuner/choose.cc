#include "tuner/choose.h"

#include <algorithm>

namespace hone {
namespace {

// Predicted this far behind the best of a point, a candidate does not serve it.
constexpr double kNear = 0.15;

}  // namespace

double ServingQuality(double time, double best) {
  return std::clamp(1 - (time / best - 1) / kNear, 0.0, 1.0);
}

std::vector<size_t> ChooseServing(Choice& choice, const ChoiceSpread& spread,
                                  size_t count, size_t limit) {
  std::vector<size_t> chosen;
  const size_t candidates = choice.times.size();
  double enough = spread.served_by;
  while (chosen.size() < count) {
    size_t next = candidates;
    double most = 0;
    for (size_t i = 0; i < candidates; ++i) {
      if (choice.used[i]) continue;
      const auto shape = choice.of_shape.find(choice.shapes[i]);
      if (shape != choice.of_shape.end() && shape->second >= spread.per_shape) {
        continue;
      }
      double gain = 0;
      for (size_t p = 0; p < choice.best.size(); ++p) {
        gain += std::min(ServingQuality(choice.times[i][p], choice.best[p]),
                         std::max(0.0, enough - choice.served[p]));
      }
      if (gain > most) {
        most = gain;
        next = i;
      }
    }
    if (next == candidates) {
      // Every point is served, or no candidate is left that serves one.
      if (enough > static_cast<double>(limit)) break;
      enough += spread.served_by;
      continue;
    }
    choice.use(next);
    chosen.push_back(next);
    ++choice.of_shape[choice.shapes[next]];
    for (size_t p = 0; p < choice.best.size(); ++p) {
      choice.served[p] += ServingQuality(choice.times[next][p], choice.best[p]);
    }
  }
  return chosen;
}

}  // namespace hone
