// Sends what a TrafficCounter counted to honed, in the background.
#ifndef HONE_SERVICE_CLIENT_TRAFFIC_REPORTER_H_
#define HONE_SERVICE_CLIENT_TRAFFIC_REPORTER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/config/problem.h"
#include "service/client/traffic_counter.h"

namespace hone {

// One report, as it is sent and sent again.
struct TrafficReport {
  // A UUID.
  std::string id;
  std::vector<std::pair<Problem, std::vector<CallCounter::Calls>>> problems;
};

// What became of the calls that were counted.
struct TrafficStats {
  // Honed has them.
  int64_t reported = 0;
  // Taken from the counter, and not confirmed yet.
  int64_t pending = 0;
  // Given up: honed refused them, or confirmed nothing for too long.
  int64_t dropped = 0;
  // Why the last report failed; OK after one that did not.
  absl::Status error;
};

// Thread-safe. A report that fails is sent again at the next interval under its
// id, so that it is not counted twice; meanwhile calls stay in the counter. One
// that honed neither takes nor refuses for `give_up` is dropped, since it may
// have been counted after all and honed does not know its id for ever.
class TrafficReporter {
 public:
  using Done = std::function<void(absl::Status)>;
  // Sends a report without waiting, and runs Done once, on any thread.
  using Send = std::function<void(const TrafficReport&, Done)>;

  struct Options {
    absl::Duration interval = absl::Minutes(1);
    // Less than honed knows a report's id for, which is an hour.
    absl::Duration give_up = absl::Minutes(10);
    std::function<absl::Time()> now = absl::Now;
  };

  // `counter` must outlive the reporter. Done may come after its end.
  TrafficReporter(TrafficCounter* counter, Send send, Options options);
  // Does not wait for honed: what was not reported by then is lost with the
  // process, unless Flush() was called.
  ~TrafficReporter();
  TrafficReporter(const TrafficReporter&) = delete;
  TrafficReporter& operator=(const TrafficReporter&) = delete;

  // Reports all that was counted by now. DeadlineExceeded after `timeout`; else
  // why honed did not take it.
  absl::Status Flush(absl::Duration timeout);

  TrafficStats stats() const;

 private:
  struct Pending {
    TrafficReport report;
    int64_t calls = 0;
    absl::Time first_sent = absl::InfiniteFuture();
  };

  void Work();
  void TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends what is pending, the oldest first, until one fails.
  void SendAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The report's result; Cancelled when the reporter ends first.
  absl::Status SendOne(const TrafficReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  TrafficCounter* const counter_;
  const Send send_;
  const Options options_;

  mutable absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  // Flushes asked for and done.
  int64_t wanted_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t flushed_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mu_);
  TrafficStats stats_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace hone

#endif  // HONE_SERVICE_CLIENT_TRAFFIC_REPORTER_H_
