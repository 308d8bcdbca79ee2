// Audit: how good the tuner's answers are, measured on one problem.
//
//   independent tunes with other seeds → many kernels, gated and screened at
//   every M → the table's, the tunes' and the screen's best in fresh rounds
//
// It answers three questions. How far is the table from the best of a declared
// set of kernels (regret)? Do independent tunes agree (flips)? Do the table's
// kernels, compiled anew, take the times that were stored (replay)? Tunes are
// TuningSessions; the rest is timed by RunRace(), at rising M, with nothing
// dropped. What is found is stored nowhere.
#ifndef HONE_TUNER_AUDIT_H_
#define HONE_TUNER_AUDIT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/config/problem.h"
#include "kernels/space/subspace.h"
#include "tuner/audit_report.h"
#include "tuner/candidate_compiler.h"
#include "tuner/executor.h"
#include "tuner/race.h"
#include "tuner/session.h"
#include "tuner/trial.h"

namespace hone {

struct AuditOptions {
  // As SessionOptions have it.
  std::vector<int64_t> ladder = DefaultLadder();
  // At least 2.
  int tunes = 2;
  // Of each tune.
  int tune_kernels = 32;
  // The set that the table is held against. It always has the kernels of the
  // table and of the tunes, and the heuristic defaults. Of what is left, half
  // are those that the analytic model expects most of, and half are drawn at
  // random from all legal configs, which owes nothing to the model. With a
  // subspace that has no more configs the comparison is exhaustive.
  int kernels = 200;
  // Where both halves are taken from.
  Subspace within;
  // For all of it. The tunes share half.
  absl::Duration budget = absl::Seconds(300);
  // Of the audit; tune i takes seed + 1 + i.
  uint64_t seed = 1;
  double confidence = 0.95;
  // Fastest of the screen that enter the fresh rounds, beside the table's, the
  // tunes' and the default.
  int finalists = 4;
  // Fresh rounds that choose the best, and those that state the ratios.
  int choice_rounds = 12;
  int ratio_rounds = 25;
  RaceOptions race;
  // The table in force and its revision. Without one the first tune's table
  // is audited.
  std::optional<DispatchTable> published;
  int64_t revision = 0;
};

struct AuditHooks {
  // Those of a tune as they are; then SessionPhase::kAudit, counted anew.
  std::function<void(const SessionProgress&)> progress;
  std::function<bool()> is_cancelled;
  // Told of each trial of the tunes.
  std::function<void(const Trial&)> trial = [](const Trial&) {};
  std::function<absl::Time()> now = absl::Now;
};

// `compiler` may answer from a cache; `uncached` must compile, and does so for
// the table's kernels. Errors are those of TuningSession::Run().
// DeadlineExceeded: the budget ended before any M was measured.
// InvalidArgument: no legal config lies within the subspace.
absl::StatusOr<AuditReport> RunAudit(Executor& executor,
                                     CandidateCompiler& compiler,
                                     CandidateCompiler& uncached,
                                     const AuditOptions& options,
                                     const AuditHooks& hooks,
                                     const Problem& problem);

}  // namespace hone

#endif  // HONE_TUNER_AUDIT_H_
