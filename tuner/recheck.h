// Recheck: whether a table still serves the fastest kernels on a device whose
// driver, VBIOS or power limit has changed since, or that it was imported to.
//
// At each M asked for, the served kernel, the heuristic default and the fastest
// others that stored trials know there are compiled, gated, timed together in a
// fixed number of shuffled rounds, and gated again. Some rounds choose the
// fastest and the others state the ratios, as in an audit. Trials are handed to
// the hooks; sessions do not reuse them (tuner/known_trials.h).
#ifndef HONE_TUNER_RECHECK_H_
#define HONE_TUNER_RECHECK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"
#include "tuner/race.h"
#include "tuner/recheck_report.h"
#include "tuner/trial.h"

namespace hone {

struct RecheckOptions {
  // Copied into every trial.
  std::string session_id;
  // Others than the served kernel and the default, at most, at each M.
  int runners_up = 3;
  // Rounds that choose the fastest, and those that state the ratios.
  int choice_rounds = 12;
  int ratio_rounds = 25;
  double confidence = 0.95;
  uint64_t seed = 1;
  // No M is begun later, and none of those under way goes on.
  absl::Time deadline = absl::InfiniteFuture();
  RaceOptions race;
};

struct RecheckHooks {
  // Stores one trial; an error ends the recheck.
  std::function<absl::Status(const Trial&)> record_trial;
  // After each M.
  std::function<void(const RecheckPoint&)> point;
  std::function<bool()> is_cancelled;
  std::function<absl::Time()> now = absl::Now;
};

// The table at each of `ms`, which rise, on the executor's device. `known` are
// the stored trials of the problem, device class and protocol. Fewer points
// than `ms` when the deadline came first. A served kernel that fails is a
// finding. Errors are those of TuningSession::Run().
absl::StatusOr<std::vector<RecheckPoint>> RecheckTable(
    Executor& executor, CandidateCompiler& compiler, const DispatchTable& table,
    absl::Span<const int64_t> ms, absl::Span<const Trial> known,
    const RecheckOptions& options, const RecheckHooks& hooks);

}  // namespace hone

#endif  // HONE_TUNER_RECHECK_H_
