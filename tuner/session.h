// TuningSession: tunes one problem on one device, the whole ladder together.
//
//   candidates → compile (in parallel with measuring) → gate → scout a few M
//   → correct the model, more candidates → race at each M → smallest cover
//   → probe tile cliffs → race the cover again → gate again → table
//
// Every trial is handed to the hooks as it ends, failed ones included, and
// trials that the hooks already know are reused: a session that was killed
// continues where it stopped. The heuristic default is in every race, and a
// kernel enters the table only where it is shown to be no slower.
#ifndef HONE_TUNER_SESSION_H_
#define HONE_TUNER_SESSION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/config/problem.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"
#include "tuner/race.h"
#include "tuner/trial.h"

namespace hone {

struct SessionOptions {
  // Copied into every trial; also what makes the search repeatable.
  std::string session_id;
  uint64_t seed = 1;
  // Rising, at most 256 points, all ≥ 1; DefaultLadder() unless given.
  std::vector<int64_t> ladder = DefaultLadder();
  // Distinct kernels compiled and raced, the heuristic defaults included.
  int max_kernels = 32;
  // Distinct kernels of the table, at most; 0 means as many as the slack and
  // the defaults ask for. Where that is more, the table is the best set of so
  // many: an M may be served by a kernel past the slack, and slower than the
  // default.
  int max_table_kernels = 0;
  // From the call of Run(). When it ends, the best so far is the answer.
  absl::Duration budget = absl::Seconds(120);
  // Extra M between ladder points, at tile cliffs, where the table's kernels
  // are compared once more.
  int max_probes = 16;
  RaceOptions race;
  // The table in force, if any: its kernels win ties.
  std::optional<DispatchTable> incumbent;
};

enum class SessionPhase : uint8_t {
  kPrepare,  // operands, known trials, candidates
  kRace,     // compiling, gating, scouting and racing the ladder
  kConfirm,  // the chosen kernels, at the ladder and at tile cliffs
  kDone,
  kAudit,    // an audit (tuner/audit.h), once its tunes are over
  kRecheck,  // a recheck (tuner/recheck.h)
};
absl::string_view ToString(SessionPhase phase);

// A snapshot, sent whenever something ended.
struct SessionProgress {
  SessionPhase phase = SessionPhase::kPrepare;
  // Steps of the whole session: compiles, races, confirmations. The total is
  // an estimate until the cover is known and never falls below done.
  int64_t done = 0;
  int64_t total = 0;
  absl::Duration elapsed;
  // At the pace so far, and never past the budget.
  absl::Duration eta;
  int64_t compiled = 0;  // candidates that compiled
  int64_t failed = 0;    // candidates that failed anywhere
  int64_t trials = 0;    // recorded by this run
  int64_t reused = 0;    // known before this run
  // The race that just ended, 0 when it was something else: its M, the best
  // so far there, and the heuristic default.
  int64_t m = 0;
  std::string best_config;
  int64_t best_ns = 0;
  int64_t default_ns = 0;
};

// What the session needs from its owner. Called from the thread of Run().
struct SessionHooks {
  // Trials stored for this problem, device class and protocol, by any earlier
  // session. Called once.
  std::function<absl::StatusOr<std::vector<Trial>>()> known_trials;
  // Stores one trial before the session goes on; an error ends the session.
  std::function<absl::Status(const Trial&)> record_trial;
  std::function<void(const SessionProgress&)> progress;
  // Asked between rounds, gates and compiles.
  std::function<bool()> is_cancelled;
  // For budgets and trial times.
  std::function<absl::Time()> now = absl::Now;
};

struct SessionResult {
  DispatchTable table;
  // False when the budget ended first: some M have less evidence, or none and
  // then the heuristic default.
  bool complete = true;
  int64_t distinct_kernels = 0;
  // The fewest that could have covered the ladder, and whether that is proven.
  int64_t fewest_kernels = 0;
  bool fewest_proven = true;
  int64_t trials_recorded = 0;
  int64_t trials_reused = 0;
  absl::Duration elapsed;
};

// One Run() at a time; not thread-safe. The executor and the compiler must
// outlive the session.
class TuningSession {
 public:
  TuningSession(Executor* executor, CandidateCompiler* compiler,
                SessionOptions options, SessionHooks hooks);

  // InvalidArgument: an option or the problem is not valid. Unimplemented: no
  // kernel for the problem. Cancelled: is_cancelled() said so; trials recorded
  // so far stay useful. FailedPrecondition: no candidate at all was correct,
  // with the first reasons. DeadlineExceeded: the budget ended before any
  // candidate was measured. Unavailable: the device is in quarantine, throttled
  // or shared; there is no result then. Other errors are those of the executor,
  // compiler or hooks.
  absl::StatusOr<SessionResult> Run(const Problem& problem);

 private:
  Executor* executor_;
  CandidateCompiler* compiler_;
  SessionOptions options_;
  SessionHooks hooks_;
};

}  // namespace hone

#endif  // HONE_TUNER_SESSION_H_
