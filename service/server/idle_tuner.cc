#include "service/server/idle_tuner.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "service/convert/errors.h"
#include "service/convert/uuid.h"
#include "tuner/traffic.h"

namespace hone {
namespace {

constexpr absl::Duration kLongestPause = absl::Hours(24);

// In place of a problem: what keeps the device from being measured at all.
constexpr char kDevice[] = "";

}  // namespace

IdleTuner::IdleTuner(TuneJobs* jobs, TrafficKeeper* traffic, DeviceSpec device,
                     std::function<absl::Status()> can_tune, Logger* log,
                     Options options)
    : jobs_(jobs),
      traffic_(traffic),
      device_(std::move(device)),
      can_tune_(std::move(can_tune)),
      log_(log),
      options_(std::move(options)),
      thread_([this] { Work(); }) {}

IdleTuner::~IdleTuner() {
  stop_.Notify();
  thread_.join();
}

void IdleTuner::Work() {
  // Often enough to start in time, and seldom enough to cost nothing.
  const absl::Duration look =
      std::clamp(options_.after / 10, absl::Milliseconds(10), absl::Seconds(1));
  absl::Duration wait = look;
  while (!stop_.WaitForNotificationWithTimeout(wait)) {
    wait = look;
    if (jobs_->IdleTime() < options_.after || Paused(kDevice) ||
        !can_tune_().ok()) {
      continue;
    }
    const absl::StatusOr<std::optional<TuneRequest>> request = Choose();
    if (!request.ok()) {
      log_->Warn("idle_tune_failed",
                 {{"detail", LogText(request.status().message())}});
    }
    if (request.ok() && request->has_value()) {
      Run(**request);
    } else {
      // Nothing to do, which takes reading all of the traffic to know.
      wait = std::max(look, options_.after);
    }
  }
}

absl::StatusOr<std::optional<TuneRequest>> IdleTuner::Choose() {
  HONE_ASSIGN_OR_RETURN(const std::vector<TrafficView> views, traffic_->View());
  std::vector<const TrafficView*> ours;
  std::vector<ProblemTraffic> traffic;
  for (const TrafficView& view : views) {
    if (DeviceSpec::MismatchedField(device_, view.stored.device)) continue;
    ours.push_back(&view);
    traffic.push_back(view.traffic);
  }
  // A budget that leaves none out.
  PlanOptions plan;
  plan.budget = plan.least * static_cast<double>(ours.size() + 1);
  for (const PlannedTune& tune : PlanTunes(traffic, plan)) {
    const Problem& problem = ours[tune.problem]->stored.problem;
    if (Paused(problem.ToString()) || !CheckProblem(problem, device_).ok())
      continue;
    TuneRequest request;
    request.request_id = NewUuid();
    request.problem = problem;
    request.ladder = tune.ladder;
    request.budget = options_.budget;
    return request;
  }
  return std::nullopt;
}

void IdleTuner::Run(const TuneRequest& request) {
  const auto submitted = jobs_->SubmitIdle(request);
  if (!submitted.ok()) return;  // somebody was faster
  TuneJobs::Caller& job = **submitted;
  while (!job.ended() && !stop_.HasBeenNotified())
    job.WaitForChange(absl::Milliseconds(100));
  if (!job.ended()) return;
  const absl::StatusOr<TuneOutcome> outcome = job.Outcome();
  const std::string problem = request.problem.ToString();
  if (outcome.ok() && !outcome->already_fresh) {
    pauses_.erase(problem);
    pauses_.erase(kDevice);
  } else if (absl::IsUnavailable(outcome.status())) {
    PauseFor(kDevice);
  } else if (ReasonOf(outcome.status()) != "TUNE_YIELDED") {
    PauseFor(problem);
  }
}

bool IdleTuner::Paused(const std::string& key) const {
  const auto pause = pauses_.find(key);
  return pause != pauses_.end() && options_.now() < pause->second.until;
}

void IdleTuner::PauseFor(const std::string& key) {
  Pause& pause = pauses_[key];
  pause.length = pause.length == absl::ZeroDuration()
                     ? options_.first_pause
                     : std::min(2 * pause.length, kLongestPause);
  pause.until = options_.now() + pause.length;
}

}  // namespace hone
