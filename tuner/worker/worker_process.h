// WorkerProcess: one worker child, its socket and its death.
#ifndef HONE_TUNER_WORKER_WORKER_PROCESS_H_
#define HONE_TUNER_WORKER_WORKER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/hone/v1/worker.pb.h"

namespace hone {

// Not thread-safe.
class WorkerProcess {
 public:
  // Starts command[0] (a path) with the rest as its arguments, in a process
  // group of its own, with one socket as standard input and output. Internal
  // when it cannot be started.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Spawn(
      const std::vector<std::string>& command);

  // Kills and reaps.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Sends a request (its id is filled in) and waits for the response. After
  // any error the child is of no further use:
  //   DeadlineExceeded  it did not answer in time
  //   Unavailable       it died; the message says how
  //   Cancelled         somebody else killed it
  //   DataLoss          it answered nonsense
  absl::StatusOr<v1::WorkerResponse> Call(v1::WorkerRequest request,
                                          absl::Time deadline);

  // SIGKILL to the process group, then waits until the child is reaped. False
  // when it is not within `patience`, as when the driver holds it; then it is
  // reaped in the background whenever it ends.
  bool Kill(absl::Duration patience = absl::Seconds(10));

  // How it ended ("exited with status 1", "was killed by signal 11 (...)");
  // empty until it is reaped.
  const std::string& end() const { return end_; }
  pid_t pid() const { return pid_; }

 private:
  WorkerProcess(pid_t pid, int fd) : pid_(pid), fd_(fd) {}

  // Reaps the child if it has ended, and kills what it has started. True once
  // it is reaped.
  bool Reap();
  // The same, waiting for its end.
  bool AwaitEnd(absl::Duration patience);
  // What to say of a child that has closed its socket.
  absl::Status Explain();

  const pid_t pid_;
  int fd_;
  // Whether this process sent it a signal.
  bool killed_ = false;
  bool reaped_ = false;
  // Ended by a signal that says nothing of what it did.
  bool interrupted_ = false;
  std::string end_;
  uint64_t next_id_ = 1;
};

}  // namespace hone

#endif  // HONE_TUNER_WORKER_WORKER_PROCESS_H_
