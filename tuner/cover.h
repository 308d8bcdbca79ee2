// Cover: few kernels that serve the whole ladder, and the ranges they serve.
//
// Each distinct kernel costs a client a compile at warm-up, so a table is the
// smallest set of kernels such that at every ladder point one of them is
// admissible: shown to be within the slack of the best and within one tie of
// the heuristic default. Pure functions.
#ifndef HONE_TUNER_COVER_H_
#define HONE_TUNER_COVER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tuner/race.h"
#include "tuner/trial.h"

namespace hone {

// A kernel's evidence at one M. `kernel` is the caller's index; the trial is
// kMeasured and must outlive the call.
struct Measured {
  int kernel = -1;
  const Trial* trial = nullptr;
};

// How one kernel stands at one M.
struct Standing {
  int kernel = -1;
  // Median over the best median, minus 1; 0 when it ties with the best.
  double regret = 0;
  bool tie = false;  // with the best
  bool admissible = false;
};

// Judges every kernel measured at one M, in the order given. A kernel is
// admissible when the upper bound of its ratio to the best is within the slack
// and that to the default (-1 when the default has no evidence) within a tie.
// Each bound errs with a chance of at most admission_alpha; the table is raced
// and judged once more before it is published, so an error must happen twice.
std::vector<Standing> JudgePoint(absl::Span<const Measured> measured,
                                 int default_kernel,
                                 const RaceOptions& options);

// The numbers of one trial with samples, beside those of the default when it
// has some (else null). M, floor and ties are the caller's.
Evidence EvidenceOf(const Trial& trial, const Trial* standard);

// What ties between kernels are decided by.
struct CoverKernel {
  // 0 for a kernel of the table in force.
  int64_t newcomer = 1;
  uint64_t workspace_bytes = 0;
};

// One M to be covered: the admissible kernels with their regrets.
struct CoverPoint {
  std::vector<int> kernels;
  std::vector<double> regrets;
};

// The kernels that may serve one M. Where none is shown to be good enough, the
// default if it works, else the best. Empty without standings.
CoverPoint PointOf(absl::Span<const Standing> standings, int default_kernel);

struct Cover {
  // Rising.
  std::vector<int> kernels;
  // No cover is smaller than this; equal to the size when proven.
  int64_t lower_bound = 0;
  bool proven = true;
};

// The smallest set with a kernel of every point; among the smallest, the one
// with fewest newcomers, then least summed regret, then least workspace, then
// lowest indexes. Exact by branch and bound; past `node_limit` nodes the best
// found so far, which is never larger than the greedy one. Points without
// kernels are ignored. At most 256 points.
Cover SmallestCover(absl::Span<const CoverPoint> points,
                    absl::Span<const CoverKernel> kernels,
                    int64_t node_limit = 500000);

// The kernel of `cover` for each point: among those that are admissible there
// and tie with the best of them, the one of the previous point, else a kernel
// of the table in force, else less workspace. -1 where none is admissible.
std::vector<int> AssignPoints(absl::Span<const CoverPoint> points,
                              absl::Span<const CoverKernel> kernels,
                              absl::Span<const int> cover, double tie);

// A point of the finished table.
struct TablePoint {
  int64_t m = 0;
  int kernel = -1;
  int64_t block_m = 1;
  // Median there; 0 when not measured.
  int64_t median_ns = 0;
};
struct TableRange {
  int64_t m_lo = 1;
  int64_t m_hi = 0;  // 0: without end
  int kernel = -1;
  friend bool operator==(const TableRange&, const TableRange&) = default;
};

// Ranges over 1..∞ without holes, from points by rising m; neighbouring ranges
// of one kernel are joined. Between points a < b the kernel of b serves: an M
// there costs at most what b costs. A tile cliff argues otherwise: up to the
// next multiple of a's block_m, a's kernel runs as many tiles as at a, so it
// takes as long as at a. Where b's kernel runs as many tiles there as at b,
// and takes longer at b than a's at a, a's kernel serves up to that multiple.
std::vector<TableRange> BuildRanges(absl::Span<const TablePoint> points);

// Extra M to measure between ladder points: for each gap, each kernel's last
// multiple of block_m inside, and one more. Widest gaps first, at most
// `limit`; rising.
std::vector<int64_t> CliffProbes(absl::Span<const int64_t> ladder,
                                 absl::Span<const int64_t> block_ms, int limit);

}  // namespace hone

#endif  // HONE_TUNER_COVER_H_
