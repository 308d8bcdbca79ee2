// One run of a TuningSession: everything it holds, and its steps. Private to
// the session: session.cc prepares and ends, session_race.cc compiles, gates,
// scouts and races, session_confirm.cc chooses and confirms.
#ifndef HONE_TUNER_SESSION_RUN_H_
#define HONE_TUNER_SESSION_RUN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tuner/compile_queue.h"
#include "tuner/cover.h"
#include "tuner/known_trials.h"
#include "tuner/search.h"
#include "tuner/session.h"
#include "tuner/surrogate.h"
#include "tuner/table_builder.h"
#include "tuner/trade_off.h"

namespace hone {

class SessionRun {
 public:
  SessionRun(Executor* executor, CandidateCompiler* compiler,
             const SessionOptions& options, const SessionHooks& hooks,
             const Problem& problem)
      : executor_(*executor),
        compiler_(*compiler),
        options_(options),
        hooks_(hooks),
        problem_(problem),
        device_(executor->device()),
        random_(options.seed),
        start_(hooks.now()),
        deadline_(start_ + options.budget) {}

  absl::StatusOr<SessionResult> Go();

 private:
  // ---- preparing ----
  absl::Status Prepare();
  // Kernels of the pool that are chosen by what scouting found.
  int RefinedKernels() const;
  // What the pool has and the session does not yet.
  void AddKernels(const CandidatePool& pool);
  absl::Status CheckOptions() const;
  // Of the kernels from `first` on: defaults first, then in the order in which
  // the races will ask.
  absl::Status StartCompiling(size_t first);

  // ---- compiling and gating ----
  // Takes finished compiles until every one of `wanted` is decided or the
  // races' time is over.
  absl::Status AwaitKernels(const std::vector<size_t>& wanted);
  absl::Status TakeCompiled(size_t index, CompiledCandidate compiled);
  // By what ptxas made of it, and by what was learned of others.
  std::vector<double> PredictLadder(const PoolKernel& kernel) const;
  // The smallest and the largest M at which a kernel may be used, and a ragged
  // one.
  std::vector<int64_t> GatePoints(size_t index) const;
  // False when the kernel failed; then it is out everywhere.
  absl::StatusOr<bool> Gate(PoolKernel& kernel, int64_t m);
  void Discard(PoolKernel& kernel, const Trial& trial);
  absl::Status Fail(PoolKernel& kernel, int64_t m, Outcome outcome,
                    const std::string& detail);
  // What ended workers while the kernel was run, though not because of it.
  absl::Status NoteInterruption(const PoolKernel& kernel, int64_t m,
                                const std::string& how);
  double ExpectedNs(const PoolKernel& kernel, int64_t m) const;
  Trial NewTrial(const PoolKernel& kernel, int64_t m) const;
  absl::Status Record(Trial& trial);

  // ---- racing ----
  std::vector<size_t> Entrants(size_t point) const;
  // Ladder points to scout, spread over the ladder.
  std::vector<size_t> ScoutPoints() const;
  // Times the first pool in a few rounds at a few points, corrects the model by
  // what it finds, and adds the kernels that the corrected model expects most
  // of. Does nothing when the pool is too small for any to be added.
  absl::Status Scout();
  absl::Status RaceLadder();
  // Races those that have no evidence at this M yet. False when time ran out.
  absl::StatusOr<bool> RaceAt(int64_t m, const std::vector<size_t>& entrants,
                              int standard, Evidences evidences,
                              const RaceOptions& race, absl::Time deadline);

  // ---- choosing and confirming ----
  // Picks the kernels of the table from the first races.
  absl::Status Choose();
  // What up to max_kernels of the pool give, by what was measured; with
  // `predict`, where nothing was, by the prediction.
  std::vector<TradeOffStep> Trade(int max_kernels, bool predict) const;
  // Whether the table may have no kernel but those of the cover: not the
  // default either, where none of them is shown to be good enough.
  bool limited() const { return options_.max_table_kernels > 0; }
  // As PointAt(), of the table's kernels alone.
  CoverPoint PointOfTable(int64_t m, Evidences evidences) const;
  // Races the chosen kernels and the default once more at every ladder point,
  // then the chosen ones at tile cliffs; assigns each point its kernel.
  absl::Status Confirm();
  absl::Status ConfirmAt(int64_t m, int standard, bool probe);
  // Ladder points without evidence take the default where it works, else what
  // serves the next point that has some.
  absl::Status FillUnmeasured();
  // The gate again, after timing, at every M that a kernel won. False when a
  // kernel failed and the table must be chosen anew.
  absl::StatusOr<bool> GateAgain();

  // ---- the result ----
  SessionResult Finish() const;

  // ---- shared ----
  absl::Time RaceDeadline() const;
  absl::Status Cancelled() const;
  void Report(int64_t m, Evidences evidences = &PoolKernel::raced) const;

  Executor& executor_;
  CandidateCompiler& compiler_;
  const SessionOptions& options_;
  const SessionHooks& hooks_;
  const Problem problem_;
  const DeviceSpec device_;
  std::mt19937_64 random_;
  const absl::Time start_;
  const absl::Time deadline_;

  SessionPhase phase_ = SessionPhase::kPrepare;
  std::vector<PoolKernel> kernels_;
  std::vector<int> defaults_;  // by ladder point
  std::optional<CandidateSearch> search_;
  std::optional<Surrogate> surrogate_;  // once scouting is over
  KnownTrials known_;
  std::map<int64_t, int64_t> best_ns_;  // by M raced
  std::vector<CoverKernel> traits_;
  Cover cover_;
  std::vector<ChosenPoint> points_;
  bool complete_ = true;
  std::vector<std::string> failures_;
  int64_t done_ = 0;
  int64_t total_ = 0;
  int64_t compiled_ = 0;
  int64_t failed_ = 0;
  int64_t recorded_ = 0;
  int64_t reused_ = 0;
  // Last, so that its threads end before what they use.
  std::optional<CompileQueue> queue_;
};

}  // namespace hone

#endif  // HONE_TUNER_SESSION_RUN_H_
