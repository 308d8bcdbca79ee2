// The values that tuning produces: trials, protocols and dispatch tables.
//
// A trial is the evidence of one candidate on one problem at one M. Trials are
// never changed once made; tables are derived from them.
#ifndef HONE_TUNER_TRIAL_H_
#define HONE_TUNER_TRIAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

// What became of a candidate. Only kMeasured has samples. Everything else is
// evidence too: it is stored and, circumstances excepted, not tried again for
// the same kernel on the same device.
enum class Outcome : uint8_t {
  kMeasured,
  // NVRTC refused the source, or ptxas refused its resources.
  kCompileError,
  // The compile passed its deadline and its process was killed.
  kCompileTimeout,
  // The driver refused to load or launch the cubin.
  kLaunchError,
  // The output missed the reference by more than the tolerance.
  kWrongResult,
  // A guard zone around an output or the workspace was overwritten.
  kGuardOverwritten,
  // Two runs on the same inputs differed.
  kNotRepeatable,
  // The kernel faulted (illegal address, illegal instruction, ...).
  kFault,
  // The candidate passed its deadline; the worker was killed.
  kTimeout,
  // The candidate was correct but not measured to the end: the screen showed
  // it far behind. Has the few samples that showed it.
  kScreenedOut,
  // The compiler died of the source, or failed inside.
  kCompilerCrash,
  // Device memory did not suffice to load or run it, beside whatever else was
  // there.
  kOutOfMemory,
  // Something else ended what compiled or ran it: its process was killed by an
  // operator or for want of memory, or the device failed (ECC).
  kInterrupted,
};
absl::string_view ToString(Outcome outcome);
absl::StatusOr<Outcome> ParseOutcome(absl::string_view text);
// Whether the outcome is due to what happened around the candidate: it is
// stored, but says nothing of the candidate, and a later session tries again.
bool IsCircumstance(Outcome outcome);

// How a candidate's correctness was established.
enum class GateKind : uint8_t {
  kNone,      // not reached (did not compile, launch, ...)
  kDevice,    // on the device against the high-precision device reference
  kEmulated,  // by the PTX emulator against the CPU oracle
};
absl::string_view ToString(GateKind gate);
absl::StatusOr<GateKind> ParseGateKind(absl::string_view text);

// The measuring method as a value; results of different protocols are never
// compared. ToString() is its canonical text (sorted key=value), Hash() its
// SHA-256 in hex.
struct Protocol {
  // "cupti" (kernel activity records), or "model" (the analytic model).
  std::string timer = "cupti";
  // What precedes each timed call: a read of this many times the L2.
  int64_t flush_l2_multiple = 4;
  // "cold": operands come from device memory.
  std::string activations = "cold";
  int64_t version = 1;

  std::string ToString() const;
  std::string Hash() const;
  static absl::StatusOr<Protocol> Parse(absl::string_view text);
  friend bool operator==(const Protocol&, const Protocol&) = default;
};

// One timed call.
struct Sample {
  // Kernel time, first start to last end.
  int64_t duration_ns = 0;
  // The SM clock read on the device in the flush kernel before the call; 0
  // when it was not read (modelled).
  int64_t sm_clock_khz = 0;
  // The race round the sample belongs to; samples of one round are paired.
  int32_t round = 0;
  friend bool operator==(const Sample&, const Sample&) = default;
};

struct CompileInfo {
  // SHA-256 of the cubin, in hex; empty when it did not compile.
  std::string cubin_hash;
  // SHA-256 of cubin and launch value: the identity of the kernel. Empty when
  // it did not compile.
  std::string kernel_id;
  // SHA-256 of (rendered source, NVRTC version, options, architecture): the
  // alias under which the cubin is found without compiling.
  std::string source_key;
  std::string nvrtc_version;
  int64_t registers = 0;
  int64_t spill_bytes = 0;
  int64_t stack_bytes = 0;
  int64_t smem_bytes = 0;
  // Wall time of the compile; 0 when the cubin came from the cache.
  int64_t compile_ms = 0;
  friend bool operator==(const CompileInfo&, const CompileInfo&) = default;
};

// Distance of an output from its reference.
struct ErrorMetrics {
  // ‖out − ref‖ / ‖ref‖ and the largest |out − ref| / tolerance of an element.
  double relative_norm = 0;
  double worst_ratio = 0;
  friend bool operator==(const ErrorMetrics&, const ErrorMetrics&) = default;
};

struct Trial {
  Problem problem;
  int64_t m = 0;
  TuningConfig config;
  Outcome outcome = Outcome::kMeasured;
  // One line for people: why it failed. Empty for kMeasured.
  std::string detail;
  GateKind gate = GateKind::kNone;
  ErrorMetrics error;
  CompileInfo compile;
  std::vector<Sample> samples;
  // Median of the samples; 0 without samples.
  int64_t median_ns = 0;
  // Groups the trials that were raced together.
  std::string session_id;
  // When the trial ended, microseconds since 1970.
  int64_t unix_us = 0;

  friend bool operator==(const Trial&, const Trial&) = default;
};

// Why this config stands in a table: the numbers behind one entry at one
// ladder point.
struct Evidence {
  int64_t m = 0;
  int64_t samples = 0;
  int64_t median_ns = 0;
  // Distribution-free 95 % interval of the median.
  int64_t low_ns = 0;
  int64_t high_ns = 0;
  // The heuristic default in the same race, and the winner's gain over it:
  // median of paired ratios default / winner, minus 1.
  int64_t default_median_ns = 0;
  double margin = 0;
  // Fastest possible by bytes and by MMA rate.
  int64_t floor_ns = 0;
  // Configs within the tie bound of the winner, canonical text.
  std::vector<std::string> ties;
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

struct TableEntry {
  // Inclusive; m_hi = 0 means without end.
  int64_t m_lo = 1;
  int64_t m_hi = 0;
  TuningConfig config;
  CompileInfo compile;
  // One per ladder point inside [m_lo, m_hi], by rising M.
  std::vector<Evidence> evidence;
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

// What the best table of so many kernels costs, by what a tune measured at its
// ladder.
struct TradeOffPoint {
  int64_t kernels = 0;
  // Time over the fastest kernel's, minus 1, of the M where it is largest and
  // in the geometric mean over the ladder. Differences within a tie count as
  // none.
  double worst_regret = 0;
  double mean_regret = 0;
  // Compile times of the set together: a client's warm-up on one core.
  int64_t compile_ms = 0;
  // Whether no other set of as many kernels has a smaller mean.
  bool proven = true;
  friend bool operator==(const TradeOffPoint&, const TradeOffPoint&) = default;
};

// For one problem on one device: which config answers which M. Entries cover
// 1..∞ without holes, in rising order.
struct DispatchTable {
  Problem problem;
  DeviceSpec device;
  Protocol protocol;
  GateKind gate = GateKind::kDevice;
  // SHA-256 of every device source the kernels are made of.
  std::string source_closure;
  std::vector<int64_t> ladder;
  std::vector<TableEntry> entries;
  // What fewer kernels would cost, by rising number of them; empty when it was
  // not computed. This table need not be one of them: it has as many kernels
  // as its tune's limits asked for.
  std::vector<TradeOffPoint> trade_off;
  std::string session_id;
  int64_t unix_us = 0;

  // The entry for M ≥ 1; null only when the table is empty.
  const TableEntry* Find(int64_t m) const;
  // FailedPrecondition names the first hole or overlap.
  absl::Status Validate() const;
  friend bool operator==(const DispatchTable&, const DispatchTable&) = default;
};

// The M values tuned unless given.
std::vector<int64_t> DefaultLadder();

}  // namespace hone

#endif  // HONE_TUNER_TRIAL_H_
