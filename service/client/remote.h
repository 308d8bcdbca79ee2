// honed as the client sees it: questions and reports, sent without waiting.
#ifndef HONE_SERVICE_CLIENT_REMOTE_H_
#define HONE_SERVICE_CLIENT_REMOTE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "service/client/traffic_reporter.h"
#include "service/convert/answer.h"

namespace hone {

// Thread-safe.
class Remote {
 public:
  // Runs once, on a thread of gRPC's or on the caller's.
  using Done = std::function<void(absl::StatusOr<TableAnswer>)>;

  // A Unix socket's absolute path ("unix:" may lead it) or host:port. Connects
  // at the first question, and again at most every second.
  explicit Remote(const std::string& address);
  // Cancels what is in flight and returns once every Done has run.
  ~Remote();

  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  // Asks for a table and returns at once. `revision` 0 asks for the newest.
  // Done gets Unavailable when nobody listens, DeadlineExceeded after
  // `timeout`, and InvalidArgument for an answer that makes no sense.
  void GetTable(const Problem& problem, const DeviceSpec& device,
                int64_t revision, absl::Duration timeout, Done done);

  // Reports calls on the device and returns at once. OK says that honed has
  // them.
  void ReportTraffic(const TrafficReport& report, const DeviceSpec& device,
                     absl::Duration timeout,
                     std::function<void(absl::Status)> done);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace hone

#endif  // HONE_SERVICE_CLIENT_REMOTE_H_
