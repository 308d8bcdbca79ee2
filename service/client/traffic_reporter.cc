#include "service/client/traffic_reporter.h"

#include <algorithm>
#include <optional>

#include "service/convert/uuid.h"

namespace hone {
namespace {

// What one report may hold; the counts keep it well below the size of a
// request.
constexpr size_t kMaxProblems = 256;
constexpr size_t kMaxCounts = 20'000;

// Whether sending the same again may help.
bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return false;
    default:
      return true;
  }
}

}  // namespace

TrafficReporter::TrafficReporter(TrafficCounter* counter, Send send,
                                 Options options)
    : counter_(counter),
      send_(std::move(send)),
      options_(std::move(options)),
      thread_([this] { Work(); }) {}

TrafficReporter::~TrafficReporter() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

void TrafficReporter::Work() {
  absl::MutexLock lock(&mu_);
  while (!stopping_) {
    const auto asked = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return stopping_ || wanted_ > flushed_;
    };
    mu_.AwaitWithTimeout(absl::Condition(&asked), options_.interval);
    if (stopping_) return;
    const int64_t wanted = wanted_;
    // Oldest first: while those are in doubt, new calls wait in the counter.
    SendAll();
    if (pending_.empty()) {
      TakeLocked();
      SendAll();
    }
    flushed_ = wanted;
  }
}

void TrafficReporter::TakeLocked() {
  Pending pending;
  size_t counts = 0;
  const auto put = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (pending.report.problems.empty()) return;
    pending.report.id = NewUuid();
    stats_.pending += pending.calls;
    pending_.push_back(std::move(pending));
    pending = Pending();
    counts = 0;
  };
  for (auto& [problem, calls] : counter_->Take()) {
    if (counts + calls.size() > kMaxCounts) put();
    counts += calls.size();
    for (const CallCounter::Calls& at : calls) pending.calls += at.calls;
    pending.report.problems.emplace_back(problem, std::move(calls));
    if (pending.report.problems.size() == kMaxProblems) put();
  }
  put();
}

void TrafficReporter::SendAll() {
  while (!pending_.empty() && !stopping_) {
    Pending& first = pending_.front();
    first.first_sent = std::min(first.first_sent, options_.now());
    const absl::Status status = SendOne(first.report);
    stats_.error = status;
    if (status.ok()) {
      stats_.reported += first.calls;
    } else if (!IsTransient(status) ||
               options_.now() - first.first_sent >= options_.give_up) {
      stats_.dropped += first.calls;
    } else {
      return;
    }
    stats_.pending -= first.calls;
    pending_.pop_front();
  }
}

absl::Status TrafficReporter::SendOne(const TrafficReport& report) {
  // Outlives the reporter where it has to.
  struct Answer {
    absl::Mutex mu;
    std::optional<absl::Status> status ABSL_GUARDED_BY(mu);
  };
  const auto answer = std::make_shared<Answer>();
  // Only this thread changes what is pending, so the report stays.
  mu_.Unlock();
  send_(report, [answer](absl::Status status) {
    absl::MutexLock lock(&answer->mu);
    answer->status = std::move(status);
  });
  std::optional<absl::Status> status;
  bool stopping = false;
  while (!status.has_value() && !stopping) {
    {
      absl::MutexLock lock(&answer->mu);
      const auto answered = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(answer->mu) {
        return answer->status.has_value();
      };
      answer->mu.AwaitWithTimeout(absl::Condition(&answered),
                                  absl::Milliseconds(20));
      status = answer->status;
    }
    absl::MutexLock lock(&mu_);
    stopping = stopping_;
  }
  mu_.Lock();
  return status.value_or(absl::CancelledError("the client ends"));
}

absl::Status TrafficReporter::Flush(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  const int64_t mine = ++wanted_;
  const auto flushed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return flushed_ >= mine;
  };
  if (!mu_.AwaitWithTimeout(absl::Condition(&flushed), timeout)) {
    return absl::DeadlineExceededError(
        "honed has not confirmed all calls in time; they stay to be reported");
  }
  return stats_.error;
}

TrafficStats TrafficReporter::stats() const {
  absl::MutexLock lock(&mu_);
  return stats_;
}

}  // namespace hone
