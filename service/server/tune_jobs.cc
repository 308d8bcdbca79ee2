#include "service/server/tune_jobs.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

absl::Status Yielded() {
  return WithReason(absl::CancelledError("honed's own tune made way for a "
                                         "request; what it measured is kept"),
                    "TUNE_YIELDED");
}

}  // namespace

JobKind TuneRequest::kind() const {
  if (audit) return JobKind::kAudit;
  return recheck ? JobKind::kRecheck : JobKind::kTune;
}

std::string TuneRequest::Fingerprint() const {
  return absl::StrCat(
      problem.ToString(), "|", absl::StrJoin(ladder, ","), "|", max_kernels,
      "|", max_table_kernels, "|", absl::ToInt64Milliseconds(budget), "|",
      retune,
      audit ? absl::StrCat("|audit|", audit->tunes, "|", audit->kernels, "|",
                           audit->seed, "|", audit->within.ToString())
            : "",
      recheck ? absl::StrCat("|recheck|", recheck->all, "|",
                             recheck->changed_only, "|", recheck->keys, "|",
                             recheck->seed, "|", recheck->report_only)
              : "",
      this_state_only ? "|this state" : "");
}

struct TuneJobs::Job {
  TuneRequest request;
  std::string fingerprint;
  std::vector<std::string> request_ids;
  TuneState state = TuneState::kQueued;
  SessionProgress progress;
  int callers = 0;
  bool detached = false;
  // Why it is to be cancelled; OK while it is not.
  absl::Status cancel_reason;
  // The same, to be asked without the lock.
  std::atomic<bool> cancelled{false};
  absl::StatusOr<TuneOutcome> outcome = absl::UnknownError("not ended");
  absl::Time submitted;
  absl::Time started_at = absl::InfinitePast();
  absl::Time ended_at = absl::InfinitePast();
  // Rises with every change that callers see.
  int64_t version = 1;

  bool ended() const {
    return state != TuneState::kQueued && state != TuneState::kRunning;
  }
};

TuneJobs::TuneJobs(Runner runner, Options options)
    : runner_(std::move(runner)),
      options_(std::move(options)),
      busy_(options_.now()) {
  thread_ = std::thread([this] { Work(); });
}

TuneJobs::~TuneJobs() {
  Drain();
  thread_.join();
}

bool TuneJobs::Yields(const Job& job) {
  // Its only caller is honed itself.
  return job.request.idle && job.callers <= 1 && !job.detached;
}

absl::StatusOr<std::unique_ptr<TuneJobs::Caller>> TuneJobs::SubmitIdle(
    const TuneRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (draining_ || running_ || !queue_.empty()) {
    return absl::FailedPreconditionError("the device is not idle");
  }
  auto job = std::make_shared<Job>();
  job->request = request;
  job->request.idle = true;
  job->fingerprint = request.Fingerprint();
  job->submitted = options_.now();
  job->callers = 1;
  job->request_ids.push_back(request.request_id);
  queue_.push_back(job);
  seen_[request.request_id] = {job, job->fingerprint};
  return absl::WrapUnique(new Caller(this, job, false));
}

void TuneJobs::MakeWayLocked() {
  while (!queue_.empty() && Yields(*queue_.front()))
    CancelLocked(*queue_.front(), Yielded());
  if (running_ && Yields(*running_)) CancelLocked(*running_, Yielded());
}

void TuneJobs::MakeWay() {
  absl::MutexLock lock(&mutex_);
  MakeWayLocked();
  busy_ = options_.now();
}

absl::Duration TuneJobs::IdleTime() const {
  absl::MutexLock lock(&mutex_);
  const auto busy = [](const std::shared_ptr<Job>& job) {
    return job && !Yields(*job);
  };
  if (busy(running_) || std::any_of(queue_.begin(), queue_.end(), busy))
    return absl::ZeroDuration();
  return std::max(absl::ZeroDuration(), options_.now() - busy_);
}

absl::StatusOr<std::unique_ptr<TuneJobs::Caller>> TuneJobs::Submit(
    const TuneRequest& request) {
  const std::string fingerprint = request.Fingerprint();
  absl::MutexLock lock(&mutex_);
  if (const auto seen = seen_.find(request.request_id); seen != seen_.end()) {
    if (seen->second.fingerprint != fingerprint) {
      FieldErrors errors;
      errors.Add("request_id",
                 "was used for another request; it must be a fresh UUID");
      return WithReason(errors.ToStatus(), "REQUEST_ID_REUSED");
    }
    const std::shared_ptr<Job>& job = seen->second.job;
    if (!job->ended()) {
      ++job->callers;
      job->detached |= request.detached;
      ++job->version;
    }
    return absl::WrapUnique(new Caller(this, job, true));
  }
  if (draining_) {
    return WithReason(absl::UnavailableError("honed is shutting down"),
                      "SHUTTING_DOWN");
  }
  std::shared_ptr<Job> job;
  const auto joins = [&](const std::shared_ptr<Job>& other) {
    return other && !other->cancelled && other->fingerprint == fingerprint;
  };
  if (joins(running_)) job = running_;
  if (!job) {
    const auto queued = std::find_if(queue_.begin(), queue_.end(), joins);
    if (queued != queue_.end()) job = *queued;
  }
  const bool joined = job != nullptr;
  if (!joined) {
    if (queue_.size() >= options_.max_queued) {
      return WithReason(WithRetry(absl::ResourceExhaustedError(absl::StrCat(
                                      "the tuning queue is full (",
                                      queue_.size(), " jobs wait)")),
                                  absl::Seconds(30)),
                        "QUEUE_FULL");
    }
    job = std::make_shared<Job>();
    job->request = request;
    job->fingerprint = fingerprint;
    job->submitted = options_.now();
    MakeWayLocked();
    queue_.push_back(job);
  }
  ++job->callers;
  job->detached |= request.detached;
  job->request_ids.push_back(request.request_id);
  ++job->version;
  seen_[request.request_id] = {job, fingerprint};
  return absl::WrapUnique(new Caller(this, job, joined));
}

void TuneJobs::Work() {
  while (true) {
    std::shared_ptr<Job> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](TuneJobs* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
            return self->draining_ || !self->queue_.empty();
          },
          this));
      if (queue_.empty()) return;
      job = queue_.front();
      queue_.pop_front();
      running_ = job;
      job->state = TuneState::kRunning;
      job->started_at = options_.now();
      ++job->version;
    }
    absl::StatusOr<TuneOutcome> outcome = runner_(
        job->request,
        [&](const SessionProgress& progress) {
          absl::MutexLock lock(&mutex_);
          job->progress = progress;
          ++job->version;
        },
        [&] { return job->cancelled.load(); });
    absl::MutexLock lock(&mutex_);
    running_ = nullptr;
    job->outcome = std::move(outcome);
    if (job->outcome.ok()) {
      job->state = TuneState::kSucceeded;
    } else if (job->cancelled && absl::IsCancelled(job->outcome.status())) {
      job->state = TuneState::kCancelled;
      job->outcome = job->cancel_reason;
    } else {
      job->state = TuneState::kFailed;
    }
    EndLocked(job);
  }
}

void TuneJobs::EndLocked(const std::shared_ptr<Job>& job) {
  ++job->version;
  if (!Yields(*job)) busy_ = options_.now();
  job->ended_at = options_.now();
  if (options_.on_end) options_.on_end(SnapshotLocked(*job));
  ended_.push_front(job);
  while (ended_.size() > options_.max_ended) {
    for (const std::string& id : ended_.back()->request_ids) seen_.erase(id);
    ended_.pop_back();
  }
}

void TuneJobs::CancelLocked(Job& job, absl::Status why) {
  if (job.ended() || job.cancelled) return;
  job.cancel_reason = std::move(why);
  job.cancelled = true;
  ++job.version;
  const auto queued =
      std::find_if(queue_.begin(), queue_.end(),
                   [&](const auto& other) { return other.get() == &job; });
  if (queued == queue_.end()) return;  // the running one ends by itself
  const std::shared_ptr<Job> kept = *queued;
  queue_.erase(queued);
  kept->state = TuneState::kCancelled;
  kept->outcome = kept->cancel_reason;
  EndLocked(kept);
}

absl::StatusOr<bool> TuneJobs::Cancel(absl::string_view tune_id) {
  absl::MutexLock lock(&mutex_);
  const auto seen = seen_.find(tune_id);
  if (seen == seen_.end()) {
    return WithReason(
        absl::NotFoundError(absl::StrCat("there is no tune ", tune_id)),
        "TUNE_NOT_FOUND");
  }
  Job& job = *seen->second.job;
  if (job.ended()) return false;
  CancelLocked(job, WithReason(absl::CancelledError(
                                   "the tune was cancelled by request; what it "
                                   "measured is kept"),
                               "TUNE_CANCELLED"));
  return true;
}

void TuneJobs::Drain() {
  const absl::Status why =
      WithReason(absl::UnavailableError(
                     "honed is shutting down; what the tune measured is kept"),
                 "SHUTTING_DOWN");
  absl::MutexLock lock(&mutex_);
  draining_ = true;
  while (!queue_.empty()) CancelLocked(*queue_.back(), why);
  if (running_) CancelLocked(*running_, why);
  mutex_.Await(absl::Condition(
      +[](TuneJobs* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
        return self->running_ == nullptr;
      },
      this));
}

TuneSnapshot TuneJobs::SnapshotLocked(const Job& job) const {
  TuneSnapshot out;
  out.tune_id = job.request.request_id;
  if (!job.request.recheck || !job.request.recheck->all)
    out.problem = job.request.problem;
  out.state = job.state;
  out.progress = job.progress;
  out.callers = std::max(0, job.callers - (job.request.idle ? 1 : 0));
  out.detached = job.detached;
  out.idle = Yields(job);
  if (job.ended()) out.error = job.outcome.status();
  out.submitted = job.submitted;
  out.started = job.started_at;
  out.ended = job.ended_at;
  out.kind = job.request.kind();
  out.already_fresh = job.outcome.ok() && job.outcome->already_fresh;
  if (job.state == TuneState::kQueued) {
    out.position = running_ && !Yields(*running_) ? 1 : 0;
    for (const auto& other : queue_) {
      if (other.get() == &job) break;
      ++out.position;
    }
  }
  return out;
}

std::vector<TuneSnapshot> TuneJobs::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<TuneSnapshot> jobs;
  for (auto it = queue_.rbegin(); it != queue_.rend(); ++it)
    jobs.push_back(SnapshotLocked(**it));
  if (running_) jobs.push_back(SnapshotLocked(*running_));
  for (const auto& job : ended_) jobs.push_back(SnapshotLocked(*job));
  return jobs;
}

TuneQueueState TuneJobs::State() const {
  absl::MutexLock lock(&mutex_);
  TuneQueueState state;
  state.queued = queue_.size();
  state.max_queued = options_.max_queued;
  if (running_) state.running = SnapshotLocked(*running_);
  return state;
}

void TuneJobs::Leave(const std::shared_ptr<Job>& job) {
  absl::MutexLock lock(&mutex_);
  if (job->ended()) return;
  --job->callers;
  ++job->version;
  if (job->callers == 0 && !job->detached) {
    CancelLocked(*job, WithReason(absl::CancelledError(
                                      "the last caller left; what the tune "
                                      "measured is kept"),
                                  "TUNE_CANCELLED"));
  } else if (job == running_ && Yields(*job) && !queue_.empty()) {
    // It was somebody's for a while, and others came to wait.
    CancelLocked(*job, Yielded());
  }
}

TuneJobs::Caller::~Caller() { jobs_->Leave(job_); }

TuneSnapshot TuneJobs::Caller::Snapshot() const {
  absl::MutexLock lock(&jobs_->mutex_);
  return jobs_->SnapshotLocked(*job_);
}

bool TuneJobs::Caller::WaitForChange(absl::Duration timeout) {
  absl::MutexLock lock(&jobs_->mutex_);
  const auto changed = [this] { return job_->version != seen_version_; };
  if (!jobs_->mutex_.AwaitWithTimeout(absl::Condition(&changed), timeout))
    return false;
  seen_version_ = job_->version;
  return true;
}

bool TuneJobs::Caller::ended() const {
  absl::MutexLock lock(&jobs_->mutex_);
  return job_->ended();
}

absl::StatusOr<TuneOutcome> TuneJobs::Caller::Outcome() const {
  absl::MutexLock lock(&jobs_->mutex_);
  return job_->outcome;
}

}  // namespace hone
