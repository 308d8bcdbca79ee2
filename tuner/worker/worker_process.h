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
  //   DataLoss          it answered nonsense
  absl::StatusOr<v1::WorkerResponse> Call(v1::WorkerRequest request,
                                          absl::Time deadline);

  // SIGKILL to the process group, then waits until the child is reaped. Returns
  // how it ended ("exited with status 1", "was killed by signal 11 (...)").
  std::string Kill();

  pid_t pid() const { return pid_; }

 private:
  WorkerProcess(pid_t pid, int fd) : pid_(pid), fd_(fd) {}

  absl::Status Explain(const absl::Status& status);

  pid_t pid_;
  int fd_;
  bool reaped_ = false;
  std::string end_;
  uint64_t next_id_ = 1;
};

}  // namespace hone

#endif  // HONE_TUNER_WORKER_WORKER_PROCESS_H_
