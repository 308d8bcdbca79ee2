// Executor: runs candidates on one device, real or modelled.
//
// The session speaks only to this interface. ProcessExecutor drives the GPU's
// worker child process; ModelExecutor computes times from the analytic model
// and proves kernels with the emulator.
#ifndef HONE_TUNER_EXECUTOR_H_
#define HONE_TUNER_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/codegen/launch_plan.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/trial.h"

namespace hone {

// A compiled candidate, ready to run at any M of the ladder.
struct Candidate {
  TuningConfig config;
  CompileInfo compile;
  std::string cubin;
  // For the emulator; empty when only the cubin was cached.
  std::string ptx;
};

// What the gate said of one candidate at one M.
struct GateResult {
  // kMeasured when the candidate passed.
  Outcome outcome = Outcome::kMeasured;
  std::string detail;
  GateKind gate = GateKind::kNone;
  ErrorMetrics error;
  // What else ended workers since the last result, one line each. They were
  // replaced and the call was made again: the candidate is not to blame.
  std::vector<std::string> interruptions;
};

// One round of a race: every entry of `order` is timed once, in that order,
// each after its own flush.
struct RoundRequest {
  int64_t m = 0;
  std::vector<int> order;  // indexes into the candidates given to Prepare()
  int32_t round = 0;
};

struct RoundResult {
  struct Entry {
    Outcome outcome = Outcome::kMeasured;
    std::string detail;
    Sample sample;
  };
  std::vector<Entry> entries;  // parallel to RoundRequest::order
  // With any of these no sample of the round may be used.
  // A thermal or hardware slowdown was seen. A software power cap does not
  // count.
  bool slowed_down = false;
  // Others that computed on the device.
  std::vector<int64_t> foreign_processes;
  // A worker was lost on the way, so that the samples are not of one round.
  bool unpaired = false;
  // As in GateResult.
  std::vector<std::string> interruptions;
};

// How a device has fared since its executor was made.
struct ExecutorHealth {
  // Workers started, the first included, and those of them that ended before
  // the executor did, for whatever reason.
  int64_t workers_started = 0;
  int64_t workers_lost = 0;
  // Fresh workers that did not pass the sentinel kernel.
  int64_t sentinel_failures = 0;
  // Why the device is in quarantine; empty while it is not.
  std::string quarantine;
};

// Not thread-safe: one session uses an executor at a time.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual const DeviceSpec& device() const = 0;
  virtual Protocol protocol() const = 0;
  // Unavailable when the device is in quarantine: nothing can be run on it.
  // Thread-safe.
  virtual absl::Status Usable() const { return absl::OkStatus(); }
  // Thread-safe.
  virtual ExecutorHealth health() const { return {}; }

  // Makes operands and references for a problem, at the largest M of the
  // session. Must precede Gate() and Round(). Drops earlier candidates.
  virtual absl::Status Begin(const Problem& problem, int64_t max_m,
                             uint64_t seed) = 0;

  // Hands over a candidate and returns its index. A candidate that does not
  // load is reported by Gate().
  virtual absl::StatusOr<int> Add(const Candidate& candidate) = 0;

  // Checks one candidate at one M. A candidate that hangs or faults is an
  // outcome, not a Status: the executor has already replaced its worker and
  // reloaded the other candidates. kInterrupted: it was interrupted several
  // times in a row. Unavailable: the device itself is gone.
  virtual absl::StatusOr<GateResult> Gate(int candidate, int64_t m,
                                          absl::Duration deadline) = 0;

  virtual absl::StatusOr<RoundResult> Round(const RoundRequest& request,
                                            absl::Duration deadline) = 0;
};

}  // namespace hone

#endif  // HONE_TUNER_EXECUTOR_H_
