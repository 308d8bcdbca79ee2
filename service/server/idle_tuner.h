// Tunes what pays most while nobody needs the device.
#ifndef HONE_SERVICE_SERVER_IDLE_TUNER_H_
#define HONE_SERVICE_SERVER_IDLE_TUNER_H_

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "kernels/config/device_spec.h"
#include "service/server/log.h"
#include "service/server/traffic_keeper.h"
#include "service/server/tune_jobs.h"

namespace hone {

// A thread of its own. Once the device was idle for a while it runs the first
// tune that PlanTunes() gives for the traffic and misses of this device class,
// as a job that makes way for any other (TuneJobs::SubmitIdle()), then the
// next. What was interrupted goes on later with what it measured. A problem
// whose tune fails, or that somebody cancels, is left alone for a time that
// doubles, and so is a device that others use or that is throttled: a session
// of honed's own ends at the first round that shows it.
class IdleTuner {
 public:
  struct Options {
    // How long the device must have been idle.
    absl::Duration after = absl::Seconds(60);
    // Of one tune. Its time is nobody's, so it does not depend on the traffic.
    absl::Duration budget = absl::Seconds(120);
    // After a failure; doubled each time, up to a day.
    absl::Duration first_pause = absl::Minutes(2);
    std::function<absl::Time()> now = absl::Now;
  };

  // What is pointed to must outlive it. `can_tune` says whether the device can
  // be measured now.
  IdleTuner(TuneJobs* jobs, TrafficKeeper* traffic, DeviceSpec device,
            std::function<absl::Status()> can_tune, Logger* log,
            Options options);
  // Cancels its job.
  ~IdleTuner();
  IdleTuner(const IdleTuner&) = delete;
  IdleTuner& operator=(const IdleTuner&) = delete;

 private:
  // A problem that is not to be tried before a moment.
  struct Pause {
    absl::Time until;
    absl::Duration length;
  };

  void Work();
  // The request to run now; nullopt when nothing is worth a tune.
  absl::StatusOr<std::optional<TuneRequest>> Choose();
  void Run(const TuneRequest& request);
  bool Paused(const std::string& key) const;
  void PauseFor(const std::string& key);

  TuneJobs* const jobs_;
  TrafficKeeper* const traffic_;
  const DeviceSpec device_;
  const std::function<absl::Status()> can_tune_;
  Logger* const log_;
  const Options options_;
  // By problem, and of the device as a whole; of the thread only.
  absl::flat_hash_map<std::string, Pause> pauses_;
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_IDLE_TUNER_H_
