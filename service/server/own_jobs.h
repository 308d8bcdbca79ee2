// Jobs that honed asks for by itself after a recheck or for one.
#ifndef HONE_SERVICE_SERVER_OWN_JOBS_H_
#define HONE_SERVICE_SERVER_OWN_JOBS_H_

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/server/log.h"
#include "service/server/tune_jobs.h"

namespace hone {

// A thread of its own, which sees each job to its end. One that ends because
// the device cannot be measured is run again, under another id, after a time
// that doubles while that goes on; so is one that made way, once the device is
// idle again. Any other failure is logged and ends it. What is left when honed
// stops is lost: its next start finds out again. Thread-safe.
class OwnJobs {
 public:
  struct Options {
    // How long the device must have been idle for RunIdle().
    absl::Duration after = absl::Seconds(60);
    // Doubled each time, up to an hour.
    absl::Duration first_pause = absl::Minutes(2);
    std::function<absl::Time()> now = absl::Now;
  };

  // What is pointed to must outlive it.
  OwnJobs(TuneJobs* jobs, Logger* log, Options options);
  // Stops.
  ~OwnJobs();
  OwnJobs(const OwnJobs&) = delete;
  OwnJobs& operator=(const OwnJobs&) = delete;

  // Queues a job among those of others. The errors of TuneJobs::Submit(), after
  // which it is tried again all the same.
  absl::Status Run(const TuneRequest& request);
  // Keeps a job until nobody needs the device; they run one by one in the order
  // given and make way for any other (TuneJobs::SubmitIdle()). Replaces one of
  // the same problem that waits.
  void RunIdle(const TuneRequest& request);
  // Jobs of RunIdle() that are not done.
  size_t idle_left() const;

  // Leaves all jobs, which ends those of RunIdle(), and runs no more.
  void Stop();

 private:
  struct Item {
    TuneRequest request;
    bool idle = false;
    // Null while it does not run.
    std::unique_ptr<TuneJobs::Caller> job;
  };

  void Work();
  absl::Status Start(Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a job that ended: whether it is done with. Else it is to run again.
  bool IsDone(Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  TuneJobs* const jobs_;
  Logger* const log_;
  const Options options_;

  // Taken before the queue's own.
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Item> items_ ABSL_GUARDED_BY(mutex_);
  // Nothing starts before, and the last pause; zero after a job that ended
  // well.
  absl::Time not_before_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_OWN_JOBS_H_
