// Choose: which candidates of a space to try next, by their predicted times.
// Pure functions, shared by the search of Hone's own space (tuner/search.h) and
// that of declared ones (tuner/study.h).
#ifndef HONE_TUNER_CHOOSE_H_
#define HONE_TUNER_CHOOSE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "absl/types/span.h"

namespace hone {

// How well a candidate serves a point: 1 at the best, 0 from 15 % behind it.
double ServingQuality(double time, double best);

// How many candidates of a shape are chosen, and how many that serve a point
// before it stops counting; the latter rises by as much when every point is
// served.
struct ChoiceSpread {
  int per_shape = 1;
  double served_by = 1;
};

// What is chosen from. Every vector has an element per candidate, but `best`
// and `served`, which have one per point.
struct Choice {
  // times[candidate][point], positive.
  absl::Span<const std::vector<double>> times;
  // Candidates with one number are of one shape.
  std::vector<int> shapes;
  // Chosen before, by shape.
  std::map<int, int> of_shape;
  // Candidates that are not to be chosen.
  std::vector<bool> used;
  // The least time at each point, and how well each is served already.
  std::vector<double> best;
  std::vector<double> served;
  // Called with each candidate chosen; sets `used` of it and of those that are
  // not worth trying besides it.
  std::function<void(size_t chosen)> use;
};

// At most `count` candidates, one at a time the one that serves most points
// which are not served enough; fewer when none serves any. A point served by
// more than `limit` counts no longer.
std::vector<size_t> ChooseServing(Choice& choice, const ChoiceSpread& spread,
                                  size_t count, size_t limit);

}  // namespace hone

#endif  // HONE_TUNER_CHOOSE_H_
