// What repeated measurements say: how much the same kernel's time varies, and
// what became slower or faster when a GPU's state, a compiler or a source
// changed. Pure
// functions over StoreSnapshot::Repeats().
#ifndef HONE_SERVICE_WEB_HISTORY_H_
#define HONE_SERVICE_WEB_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "db/browse.h"

namespace hone {

// The same cubin at the same M, twice on one GPU in one state: what differs is
// noise (clocks, temperature, other rounds).
struct NoisePair {
  const RepeatedTrial* first = nullptr;
  const RepeatedTrial* second = nullptr;
  // log(second / first).
  double log_ratio = 0;
};
struct Noise {
  // Newest first.
  std::vector<NoisePair> pairs;
  // Of |log_ratio|; NaN without pairs. The percentile is the nearest rank.
  double median = 0;
  double percentile_95 = 0;
};
// Neighbours in time of each group; `repeats` in the order of Repeats(), and
// must outlive the result.
Noise NoiseOf(absl::Span<const RepeatedTrial> repeats);

// What a kernel's binary and its clocks depend on besides its source.
struct ToolVersion {
  std::string driver;
  std::string nvrtc;
  std::string vbios;
  int64_t power_limit_mw = 0;
  bool ecc = false;
  int64_t from_us = 0;  // of its first trial here
};
// The newest measurement of a config at one M on one GPU, and the newest one
// before it by another version or kernel.
struct Regression {
  const RepeatedTrial* before = nullptr;
  const RepeatedTrial* after = nullptr;
  // Indexes into Regressions::versions.
  int64_t version_before = 0;
  int64_t version_after = 0;
  // after / before; below 1 is faster.
  double ratio = 0;
  // Whether they differ by more than a race calls a tie: 1 % and 64 ns.
  bool beyond_tie = false;
};
struct Regressions {
  // By their first trial.
  std::vector<ToolVersion> versions;
  // The largest change first.
  std::vector<Regression> rows;
};
Regressions RegressionsOf(absl::Span<const RepeatedTrial> repeats);

}  // namespace hone

#endif  // HONE_SERVICE_WEB_HISTORY_H_
