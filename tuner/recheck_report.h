// What a recheck finds of tables on a device as it is now, which keys it takes,
// and what becomes of each table. Pure functions; tuner/recheck.h measures.
#ifndef HONE_TUNER_RECHECK_REPORT_H_
#define HONE_TUNER_RECHECK_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/audit_report.h"
#include "tuner/trial.h"

namespace hone {

// What becomes of a table.
enum class RecheckVerdict : uint8_t {
  kKept,        // local: answers on this device as it is now
  kVerified,    // imported: beats or ties the default here, at every key
  kUnverified,  // imported: does not
  kRetune,      // local: to be tuned again
  kUnknown,     // too little was measured
};
absl::string_view ToString(RecheckVerdict verdict);

// One key: one M of one table.
struct RecheckPoint {
  int64_t m = 0;
  std::string served_config;
  std::string best_config;
  // By the rounds that state ratios; 0 for a kernel that failed.
  int64_t served_ns = 0;
  int64_t best_ns = 0;
  int64_t default_ns = 0;
  // The served kernel over the fastest of those timed, and over the default.
  AuditRatio regret;
  AuditRatio over_default;
  // Kernels timed.
  int64_t kernels = 0;
  // Not slower than the default by more than a tie; the default failing counts.
  bool no_slower_than_default = false;
  // Why the served kernel has no time; empty when it has one.
  std::string failure;
};

struct RecheckedTable {
  Problem problem;
  int64_t revision = 0;
  // Imported, and not verified so far; once it is, a table counts as local.
  bool imported = false;
  // "driver 590.1 here, 580.65 measured".
  std::vector<std::string> soft_differences;
  // Keys that were to be measured, and those that were.
  int64_t planned = 0;
  std::vector<RecheckPoint> points;
  // Filled by Judge(). Without a finite median there is none.
  std::optional<double> median_regret;
  RecheckVerdict verdict = RecheckVerdict::kUnknown;
  // Of the tune that was asked for; empty when none was.
  std::string retune_id;
};

struct RecheckReport {
  DeviceSpec device;
  Protocol protocol;
  std::string source_closure;
  uint64_t seed = 0;
  double confidence = 0;
  // Tables are kept while the median regret of the local ones' keys is at most
  // this.
  double regret_limit = 0.01;
  std::vector<RecheckedTable> tables;
  // False when the budget ended before every planned key was measured.
  bool complete = true;
  absl::Duration elapsed;
  // Filled by Judge(). Of the keys of local tables; a kernel that failed counts
  // as slower than any, so that the median may be none.
  int64_t keys = 0;
  int64_t failed = 0;
  std::optional<double> median_regret;
  double largest_regret = 0;
  bool passed = false;
};

// The M to measure of each table: all that the tables have evidence at, when
// they are at most `keys`; else `keys` of them, drawn by seed. Tables take
// turns, in random order, and each takes turns between its small, middle and
// large M, so that no table has two keys more than another that has more to
// give. Rising.
std::vector<std::vector<int64_t>> SampleKeys(
    absl::Span<const DispatchTable* const> tables, int64_t keys, uint64_t seed);

// Fills in medians and verdicts.
//
// A local table with a kernel that failed is to be tuned again whatever the
// rest shows. When the median passes, all other local tables are kept, those
// without a key too: they stand for all. When it does not, those whose own
// median passes are kept, and the rest is tuned again. An imported table is
// verified when all its planned keys were measured and at none of them it is
// slower than the default. A local table whose keys the budget left out is
// unknown.
void Judge(RecheckReport& report);

}  // namespace hone

#endif  // HONE_TUNER_RECHECK_REPORT_H_
