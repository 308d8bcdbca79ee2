#include "service/server/own_jobs.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "service/convert/errors.h"
#include "service/convert/uuid.h"

namespace hone {
namespace {

constexpr absl::Duration kLongestPause = absl::Hours(1);

}  // namespace

OwnJobs::OwnJobs(TuneJobs* jobs, Logger* log, Options options)
    : jobs_(jobs),
      log_(log),
      options_(std::move(options)),
      thread_([this] { Work(); }) {}

OwnJobs::~OwnJobs() { Stop(); }

void OwnJobs::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  absl::MutexLock lock(&mutex_);
  items_.clear();
}

absl::Status OwnJobs::Run(const TuneRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return absl::UnavailableError("honed is shutting down");
  Item item{.request = request};
  // Whoever waits for it, it goes on.
  item.request.detached = true;
  const absl::Status status = Start(item);
  if (!status.ok()) Pause();
  items_.push_back(std::move(item));
  return status;
}

void OwnJobs::RunIdle(const TuneRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  items_.remove_if([&](const Item& item) {
    return item.idle && item.job == nullptr &&
           item.request.problem == request.problem;
  });
  items_.push_back({.request = request, .idle = true});
}

size_t OwnJobs::idle_left() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<size_t>(
      std::count_if(items_.begin(), items_.end(),
                    [](const Item& item) { return item.idle; }));
}

void OwnJobs::Work() {
  const absl::Duration look =
      std::clamp(options_.after / 10, absl::Milliseconds(10), absl::Seconds(1));
  absl::MutexLock lock(&mutex_);
  while (!stopping_) {
    const auto wanted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || !items_.empty();
    };
    mutex_.Await(absl::Condition(&wanted));
    // The first one, which keeps the order.
    bool idle_seen = false;
    for (auto item = items_.begin(); item != items_.end() && !stopping_;) {
      if (item->job != nullptr && item->job->ended() && IsDone(*item)) {
        item = items_.erase(item);
        continue;
      }
      const bool turn = !item->idle || !idle_seen;
      idle_seen |= item->idle;
      if (turn && item->job == nullptr && options_.now() >= not_before_) {
        const absl::Status status = Start(*item);
        // That the device is not idle is no failure.
        if (!status.ok() && !item->idle) Pause();
      }
      ++item;
    }
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), look);
  }
}

absl::Status OwnJobs::Start(Item& item) {
  absl::StatusOr<std::unique_ptr<TuneJobs::Caller>> job =
      item.idle ? jobs_->SubmitIdle(item.request, options_.after)
                : jobs_->Submit(item.request);
  if (job.ok()) item.job = *std::move(job);
  return job.status();
}

bool OwnJobs::IsDone(Item& item) {
  const absl::Status status = item.job->Outcome().status();
  item.job = nullptr;
  if (status.ok()) {
    pause_ = absl::ZeroDuration();
    return true;
  }
  const std::string reason = ReasonOf(status);
  const bool yielded = reason == "TUNE_YIELDED";
  const bool again =
      yielded || (absl::IsUnavailable(status) && reason != "SHUTTING_DOWN");
  if (!yielded) {
    log_->Warn("own_job_failed", {{"tune_id", LogText(item.request.request_id)},
                                  {"detail", LogText(status.message())},
                                  {"again", Json{again}}});
  }
  if (again && !yielded) Pause();
  item.request.request_id = NewUuid();
  return !again;
}

void OwnJobs::Pause() {
  pause_ = pause_ == absl::ZeroDuration() ? options_.first_pause
                                          : std::min(2 * pause_, kLongestPause);
  not_before_ = options_.now() + pause_;
}

}  // namespace hone
