// TradeOff: what fewer kernels cost. A client compiles each kernel of a table
// at warm-up; with fewer kernels some M are served by a kernel that is not the
// fastest there. Pure functions.
#ifndef HONE_TUNER_TRADE_OFF_H_
#define HONE_TUNER_TRADE_OFF_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace hone {

// The times measured at one M.
struct TimesAtM {
  int64_t m = 0;
  // By kernel, median nanoseconds; 0 where a kernel has none, which then cannot
  // serve this M.
  std::vector<double> ns;
};

// The best set of so many kernels.
struct TradeOffStep {
  // Rising indexes.
  std::vector<int> kernels;
  // Time over the fastest kernel's, minus 1, of the M where it is largest and
  // in the geometric mean over all M. Differences within a tie count as none.
  double worst_regret = 0;
  double mean_regret = 0;
  // Compile times of the set together: a client's warm-up on one core.
  int64_t compile_ms = 0;
  // Whether no other set of as many kernels has a smaller mean. False when the
  // search was cut off: then the best that greedy choices and exchanges of one
  // kernel find.
  bool proven = true;
};

struct TradeOffOptions {
  // Times within max(tie · fastest, tie_floor_ns) of the fastest are as good.
  double tie = 0.01;
  double tie_floor_ns = 64;
  int max_kernels = 16;
  int64_t node_limit = 200000;
};

// The steps 1, 2, ... kernels, up to the first whose regret is 0 or
// max_kernels. A number of kernels that cannot serve every M has no step. M at
// which no kernel has a time are left out. Among sets of the same mean the one
// with the smaller worst regret, then the shorter compile time. Every ns has as
// many entries as compile_ms, at most 4096.
std::vector<TradeOffStep> TradeOff(absl::Span<const TimesAtM> points,
                                   absl::Span<const int64_t> compile_ms,
                                   const TradeOffOptions& options);

}  // namespace hone

#endif  // HONE_TUNER_TRADE_OFF_H_
