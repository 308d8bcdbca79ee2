// The queue of tunes, audits and rechecks in front of one device.
//
// One job runs at a time. A request equal to a queued or running one joins it.
// A job goes on while a caller is attached or one of its requests was detached;
// when the last caller leaves it is cancelled. While nobody needs the device,
// honed may run a job of its own, which makes way for any other at once.
#ifndef HONE_SERVICE_SERVER_TUNE_JOBS_H_
#define HONE_SERVICE_SERVER_TUNE_JOBS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/config/problem.h"
#include "kernels/space/subspace.h"
#include "service/convert/answer.h"
#include "service/convert/job_kind.h"
#include "tuner/audit_report.h"
#include "tuner/recheck_report.h"
#include "tuner/session.h"

namespace hone {

// What makes a job an audit (tuner/audit.h).
struct AuditRequest {
  int tunes = 2;
  int kernels = 200;
  Subspace within;
  uint64_t seed = 1;
};

// What makes a job a recheck (tuner/recheck.h).
struct RecheckRequest {
  // Of all tables, not of the request's problem.
  bool all = true;
  // Only tables that were measured on the device in another state and not
  // kept since, and imported ones that are not verified.
  bool changed_only = false;
  // Of tables that do not wait to be verified, at most.
  int64_t keys = 60;
  uint64_t seed = 1;
  // Keeps, verifies and retunes nothing.
  bool report_only = false;
};
inline constexpr absl::Duration kRecheckBudget = absl::Seconds(300);

struct TuneRequest {
  // A UUID in lower case.
  std::string request_id;
  Problem problem;
  // Rising.
  std::vector<int64_t> ladder;
  int max_kernels = 32;
  int max_table_kernels = 0;  // 0: as many as it takes
  absl::Duration budget = absl::Seconds(120);
  bool retune = false;
  bool detached = false;
  // Honed's own, see TuneJobs::SubmitIdle().
  bool idle = false;
  // Set: an audit of the problem instead of a tune.
  std::optional<AuditRequest> audit;
  // Set: a recheck instead.
  std::optional<RecheckRequest> recheck;
  // Trials of the device in another state (driver, VBIOS, power limit, ...) are
  // not reused.
  bool this_state_only = false;

  JobKind kind() const;
  // All that decides the result; requests with the same are joined.
  std::string Fingerprint() const;
};

struct TuneOutcome {
  TableAnswer answer;
  bool already_fresh = false;
  bool complete = true;
  int64_t trials_recorded = 0;
  int64_t trials_reused = 0;
  int64_t distinct_kernels = 0;
  absl::Duration elapsed;
  // Of an audit, which has nothing else.
  std::optional<AuditReport> audit;
  // Of a recheck, likewise.
  std::optional<RecheckReport> recheck;
};

enum class TuneState : uint8_t {
  kQueued,
  kRunning,
  kSucceeded,
  kFailed,
  kCancelled,
};

// One job as it is now.
struct TuneSnapshot {
  std::string tune_id;
  // None for a recheck of many.
  std::optional<Problem> problem;
  TuneState state = TuneState::kQueued;
  SessionProgress progress;
  int callers = 0;
  bool detached = false;
  // Honed's own, and nobody else waits for it.
  bool idle = false;
  // Why it failed or was cancelled.
  absl::Status error;
  absl::Time submitted;
  // InfinitePast until it started, and until it ended. A job cancelled while it
  // waited never starts.
  absl::Time started = absl::InfinitePast();
  absl::Time ended = absl::InfinitePast();
  // Jobs ahead while queued.
  int position = 0;
  JobKind kind = JobKind::kTune;
  // Whether a table that was there answered it.
  bool already_fresh = false;
};

// The queue as it is now.
struct TuneQueueState {
  size_t queued = 0;
  size_t max_queued = 0;
  std::optional<TuneSnapshot> running;
};

// Thread-safe.
class TuneJobs {
 public:
  // Runs one job; called from the queue's own thread.
  using Runner = std::function<absl::StatusOr<TuneOutcome>(
      const TuneRequest&, const std::function<void(const SessionProgress&)>&,
      const std::function<bool()>& is_cancelled)>;

  struct Options {
    // Jobs that may wait; more are ResourceExhausted.
    size_t max_queued = 64;
    // Ended jobs that are remembered for their request ids.
    size_t max_ended = 1000;
    std::function<absl::Time()> now = absl::Now;
    // Told of each job that ended. Called with the queue's lock held: it must
    // return at once and not call back.
    std::function<void(const TuneSnapshot&)> on_end;
  };

  TuneJobs(Runner runner, Options options);
  // Cancels everything and waits for the running job.
  ~TuneJobs();
  TuneJobs(const TuneJobs&) = delete;
  TuneJobs& operator=(const TuneJobs&) = delete;

  class Caller;
  // Queues the request or joins its equal. A request id seen before attaches
  // to its job, ended or not; with another content it is InvalidArgument.
  // ResourceExhausted, with a retry delay, when the queue is full; Unavailable
  // once Drain() was called.
  absl::StatusOr<std::unique_ptr<Caller>> Submit(const TuneRequest& request);

  // Starts a job of honed's own. It ends as Cancelled (TUNE_YIELDED) as soon as
  // another request is queued; one that equals it joins it, and then it is that
  // request's. FailedPrecondition when the device is not idle.
  absl::StatusOr<std::unique_ptr<Caller>> SubmitIdle(
      const TuneRequest& request);
  // Somebody uses the device without a job: ends honed's own.
  void MakeWay();
  // How long nobody needed the device: since the last job that was not honed's
  // own, or MakeWay(). Zero while one is queued or running.
  absl::Duration IdleTime() const;

  // False when it had ended. NotFound: no such tune.
  absl::StatusOr<bool> Cancel(absl::string_view tune_id);

  // Queued, running and ended jobs, newest first.
  std::vector<TuneSnapshot> List() const;
  TuneQueueState State() const;

  // Refuses new jobs, cancels those that run or wait, and returns when none
  // is left. What they recorded is kept.
  void Drain();

 private:
  struct Job;
  void Work();
  // Whether a job makes way for others.
  static bool Yields(const Job& job);
  void MakeWayLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelLocked(Job& job, absl::Status why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(const std::shared_ptr<Job>& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TuneSnapshot SnapshotLocked(const Job& job) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Leave(const std::shared_ptr<Job>& job);

  const Runner runner_;
  const Options options_;
  mutable absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // When somebody last needed the device.
  absl::Time busy_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Job>> queue_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Job> running_ ABSL_GUARDED_BY(mutex_);
  // Newest first.
  std::deque<std::shared_ptr<Job>> ended_ ABSL_GUARDED_BY(mutex_);
  // Which job each request id went to, and the request's fingerprint.
  struct Seen {
    std::shared_ptr<Job> job;
    std::string fingerprint;
  };
  absl::flat_hash_map<std::string, Seen> seen_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

// A caller attached to a job. Destroying it leaves the job.
class TuneJobs::Caller {
 public:
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // Whether the request met a job that was already there.
  bool joined() const { return joined_; }
  TuneSnapshot Snapshot() const;

  // Waits until the job has changed since the last call, or `timeout`. True
  // when it has changed.
  bool WaitForChange(absl::Duration timeout);
  bool ended() const;
  // Once ended: the outcome, or why there is none (Cancelled included).
  absl::StatusOr<TuneOutcome> Outcome() const;

 private:
  friend class TuneJobs;
  Caller(TuneJobs* jobs, std::shared_ptr<Job> job, bool joined)
      : jobs_(jobs), job_(std::move(job)), joined_(joined) {}

  TuneJobs* const jobs_;
  const std::shared_ptr<Job> job_;
  const bool joined_;
  int64_t seen_version_ = 0;
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_TUNE_JOBS_H_
