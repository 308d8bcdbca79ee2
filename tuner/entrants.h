// Which kernels race at which M, and in which order the ladder is raced. Pure
// functions.
#ifndef HONE_TUNER_ENTRANTS_H_
#define HONE_TUNER_ENTRANTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "tuner/table_builder.h"
#include "tuner/trial.h"

namespace hone {

// Indexes 0 .. count - 1: both ends first, then ever finer, so that whatever
// the budget, what was raced spans the ladder.
std::vector<size_t> CoarseToFine(size_t count);

// How far behind the best a prediction may be for its kernel to be measured:
// by the analytic model alone, and once scouting has corrected it. On an H200
// the former is within a tenth for most kernels near the best and far off for
// some shapes.
inline constexpr double kScoutRatio = 2.5;
inline constexpr double kRaceRatio = 1.4;
// So many race whatever is predicted of them, and no more than so many.
inline constexpr size_t kMinEntrants = 8;
inline constexpr size_t kMaxEntrants = 24;

// Kernels that may win at one ladder point, best predicted first: those
// predicted within `entry_ratio` times the best, always a few, and only so
// many; besides, whatever
// they are predicted, the default (`standard`), the kernel of the table in
// force there (`incumbent`, may be null) and those that were near the best at
// the nearest M raced on either side, since the model may be wrong about them.
// `best_ns` is the best median of every M raced so far.
std::vector<size_t> SelectEntrants(absl::Span<const PoolKernel> kernels,
                                   absl::Span<const int64_t> ladder,
                                   size_t point, int standard,
                                   double entry_ratio,
                                   const TuningConfig* incumbent,
                                   const std::map<int64_t, int64_t>& best_ns);

// Where a kernel that is used from M = low to high is gated: both ends, and
// past one whole tile of tokens, not at a multiple of anything.
std::vector<int64_t> GateLadder(const TuningConfig& config, int64_t low,
                                int64_t high);

}  // namespace hone

#endif  // HONE_TUNER_ENTRANTS_H_
