// What an audit finds, and the arithmetic from samples to findings. Pure
// functions.
//
// Every ratio is the median, over rounds in which both kernels were timed, of
// one time over the other, with the distribution-free interval of the sign test
// (FixedMedianInterval); the number of rounds is fixed beforehand. Rounds that
// choose a kernel ("the fastest of these") are never the rounds that a ratio to
// it is stated from, so that the luck which made it the fastest is not in the
// ratio.
#ifndef HONE_TUNER_AUDIT_REPORT_H_
#define HONE_TUNER_AUDIT_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/race.h"
#include "tuner/trial.h"

namespace hone {

// One time over another; rounds is 0 when there is none.
struct AuditRatio {
  double ratio = 0;
  double low = 0;
  double high = 0;
  int64_t rounds = 0;
};

// Of ratios over M; all 0 when there are none. The percentile is the nearest
// rank.
struct AuditSpread {
  int64_t points = 0;
  double median = 0;
  double percentile_95 = 0;
  double largest = 0;
};

// One independent tune.
struct AuditTune {
  uint64_t seed = 0;
  bool complete = true;
  int64_t distinct_kernels = 0;
  int64_t trials = 0;
  absl::Duration elapsed;
  AuditSpread regret;
};

// One M. proto/hone/v1/audit.proto says what each field means.
struct AuditPoint {
  int64_t m = 0;
  int64_t screened = 0;
  int64_t finalists = 0;
  std::string table_config;
  std::string best_config;
  int64_t table_ns = 0;
  int64_t best_ns = 0;
  int64_t default_ns = 0;
  AuditRatio regret;
  double regret_bound = 0;
  AuditRatio over_default;
  std::vector<std::string> tune_configs;
  std::vector<AuditRatio> tune_regrets;
  int64_t flips = 0;
  AuditRatio tune_spread;
  bool flip_matters = false;
  int64_t stored_ns = 0;
  AuditRatio replay;
  bool same_kernel = false;
  int64_t sm_clock_khz = 0;
};

struct AuditReport {
  Problem problem;
  DeviceSpec device;
  Protocol protocol;
  std::string source_closure;
  std::string table_source_closure;
  // Of the published table that was audited; 0: the first tune's stands in.
  int64_t revision = 0;
  uint64_t seed = 0;
  double confidence = 0;
  int64_t space = 0;
  std::string within;
  int64_t within_configs = 0;
  bool exhaustive = true;
  int64_t kernels = 0;
  int64_t failed = 0;
  int64_t screen_rounds = 0;
  int64_t choice_rounds = 0;
  int64_t ratio_rounds = 0;
  std::vector<AuditTune> tunes;
  std::vector<AuditPoint> points;
  bool complete = true;
  AuditSpread regret;
  int64_t flips = 0;
  int64_t flip_pairs = 0;
  int64_t flips_that_matter = 0;
  AuditSpread tune_spread;
  AuditSpread replay;
  int64_t replayed_kernels = 0;
  int64_t same_kernels = 0;
  int64_t failed_kernels = 0;
  absl::Duration elapsed;
};

// a / b over the rounds that both have, with an interval that errs with a
// chance of at most alpha. 0 < alpha < 1. The bounds are 0 and infinity when
// the rounds are too few for it.
AuditRatio RatioOf(absl::Span<const Sample> a, absl::Span<const Sample> b,
                   double alpha);

// What the kernels timed together at one M are; indexes into them, -1 for one
// that failed.
struct FinalistRoles {
  int table = -1;
  int standard = -1;       // the heuristic default
  std::vector<int> tunes;  // what each tune serves
};

// The times, regrets, flips and clock of one M. `samples[i]` are those of
// finalist i, by rising round and of the same rounds for all; one without
// samples failed and counts for nothing. The first `choice_rounds` of them
// choose, the rest state. Fills neither configs, screen nor replay.
AuditPoint JudgeFinalists(absl::Span<const std::vector<Sample>> samples,
                          const FinalistRoles& roles, int choice_rounds,
                          double alpha, const RaceOptions& race);
// The fastest of the finalists by the choosing rounds; -1 when all failed.
int FastestFinalist(absl::Span<const std::vector<Sample>> samples,
                    int choice_rounds);

// Fresh samples over a stored median with its own interval. The result's
// interval misses with a chance of at most the sum of the two.
AuditRatio ReplayOf(absl::Span<const Sample> fresh, const Evidence& stored,
                    double alpha);

AuditSpread SpreadOf(std::vector<double> ratios);

// Fills in what sums up the points: the spreads, flips and replay.
void Summarize(AuditReport& report);

}  // namespace hone

#endif  // HONE_TUNER_AUDIT_REPORT_H_
