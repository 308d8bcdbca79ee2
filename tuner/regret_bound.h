// RegretBound: how much slower than the fastest an answer may be that was not
// measured at its own M, problem or device. Pure functions.
//
// Between measured points of one table (BucketBounds). Let c serve M, let
// a <= M <= b be the nearest M at which c was measured, and l <= M the nearest
// ladder point. Then
//
//   time(c, M) <= max(time(c, a), time(c, b))             (no hump)
//   best(M)    >= min over measured M' >= l of best(M')   (padding)
//
// and the regret is at most the quotient minus 1, with the upper ends of c's
// 95 % intervals and the lower ends of the others', as far as the table has
// evidence. Trials are stored without an interval: what they add are medians,
// the largest of c and the least of the others. Both are assumptions about
// kernels, not theorems. The second says that whoever computes M can pad to any
// larger M', and that fewer rows are no more work. The first is weaker than
// "padding only adds work", time(c, M) <= time(c, b), which kernels on an H200
// do not keep: ragged tiles take longer than whole ones. Of the evidence in
// db/tables/h200.jsonl, that breaks at 38 of 263 neighbours (beyond both
// intervals), by up to 27 %; the first assumption at 2 of 184 points, by up to
// 1.7 %, and the second, with a point's own time left out, at 2 of 418, by up
// to 0.7 %. In the tables before, of another card, it was 4 of 166 by up to 8
// %, and 5 of 380 by up to 19 % (128 rows took less than 96).
// tests/db/shipped_tables_test.cc counts them again. Where c was not measured
// on both sides there is no bound, and none beyond the last measured point.
//
// Across problems and devices (TransferBound). Nothing bounds what another
// problem's kernels take, so the bound is empirical: each tuned problem is left
// out in turn, and answered by the tables of the nearest others. It is stated
// from what was measured there, which are kernels that the search for this very
// problem found worth measuring: it leans to the small side, and says how many
// keys it could not see. The times it compares are least medians, not ends of
// intervals.
#ifndef HONE_TUNER_REGRET_BOUND_H_
#define HONE_TUNER_REGRET_BOUND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tuner/trial.h"

namespace hone {

// What the trials of one problem on one device in one state say, over all
// sessions, as far as bounds need it. Kernels of older sources are among them:
// trials name configs, and do not tell sources apart.
struct TrialTimes {
  // One config at one M: its least and its largest median.
  struct At {
    int64_t m = 0;
    int64_t least_ns = 0;
    int64_t largest_ns = 0;
    friend bool operator==(const At&, const At&) = default;
  };
  struct OfConfig {
    std::string config;  // canonical text
    std::vector<At> at;  // by rising M
    friend bool operator==(const OfConfig&, const OfConfig&) = default;
  };
  // Configs that some table serves.
  std::vector<OfConfig> configs;
  // The least median at each M, of whichever config; by rising M.
  struct Best {
    int64_t m = 0;
    int64_t ns = 0;
    friend bool operator==(const Best&, const Best&) = default;
  };
  std::vector<Best> best;
  friend bool operator==(const TrialTimes&, const TrialTimes&) = default;
};

// For every M from m_lo to m_hi.
struct BucketBound {
  int64_t m_lo = 0;
  int64_t m_hi = 0;
  // Time over the fastest's, minus 1, is at most this; at least 0.
  double regret = 0;
  // The nearest measured M of the kernel that serves.
  int64_t below = 0;
  int64_t above = 0;
  friend bool operator==(const BucketBound&, const BucketBound&) = default;
};

// By rising M, without overlap; M in none of them have no known bound. Ladder
// points are in none either: their answers are measured. `trials` add to the
// table's own evidence where a kernel was measured at an M that another serves.
std::vector<BucketBound> BucketBounds(const DispatchTable& table,
                                      const TrialTimes& trials);
// The one that holds M; null when none does.
const BucketBound* FindBound(absl::Span<const BucketBound> bounds, int64_t m);

// What one table's kernels would have cost another problem or device, at the
// ladder points of the latter.
struct Transfer {
  // Of the kernels that were measured there.
  std::vector<double> regrets;
  int64_t unmeasured = 0;
};
// One for each of `others`, which would answer for what `own` answers, at the
// ladder of `own`; `trials` are those of the problem and device of `own`.
std::vector<Transfer> TransfersOf(
    const DispatchTable& own, const TrialTimes& trials,
    absl::Span<const DispatchTable* const> others);

// Fewer pairs give no bound.
inline constexpr int64_t kMinTransferPairs = 5;
inline constexpr double kTransferQuantile = 0.95;

struct TransferBound {
  // The regret that kTransferQuantile of the keys seen do not exceed.
  double regret = 0;
  // Pairs of tables with at least one key seen; the keys (M) seen; and those
  // whose kernel was never measured there.
  int64_t pairs = 0;
  int64_t keys = 0;
  int64_t unmeasured = 0;
};
std::optional<TransferBound> BoundOf(absl::Span<const Transfer> transfers);

}  // namespace hone

#endif  // HONE_TUNER_REGRET_BOUND_H_
