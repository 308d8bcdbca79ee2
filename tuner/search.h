// Search: which configs of the space are worth compiling, for a whole ladder.
#ifndef HONE_TUNER_SEARCH_H_
#define HONE_TUNER_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

struct CandidatePool {
  std::vector<TuningConfig> configs;
  // For each ladder point, the index of its heuristic default.
  std::vector<int> defaults;
  // predicted_ns[config][ladder point].
  std::vector<std::vector<double>> predicted_ns;
};

// A pool of at most max_kernels configs (more only when the defaults and
// `extra` alone are more). It holds, in this order:
//   the heuristic default of every ladder point,
//   the legal ones of `extra` (a table in force, neighbours' winners),
//   configs chosen one at a time for how many ladder points they are predicted
//     to be near the best at, where a point already served by several counts
//     no longer, with at most two configs of a tile shape,
//   a few drawn at random from those predicted within twice the best, as a
//     check on the model.
// The same arguments give the same pool. Errors are those of CheckProblem().
absl::StatusOr<CandidatePool> SelectCandidates(
    const Problem& problem, const DeviceSpec& device,
    absl::Span<const int64_t> ladder, absl::Span<const TuningConfig> extra,
    int max_kernels, uint64_t seed);

}  // namespace hone

#endif  // HONE_TUNER_SEARCH_H_
