// ProcessExecutor: the Executor of a real GPU, through a worker child process.
//
// A candidate that hangs, faults or crashes costs one worker: it is killed and
// reaped, another is started, the device is checked with a sentinel kernel, the
// problem is set up again, and the other candidates are handed over again when
// they are next used. The culprit's outcome is remembered and it is never sent
// again.
//
// A worker that ends by what is not the candidate's doing (somebody's SIGKILL,
// an ECC error, inputs that an earlier candidate overwrote, a death between two
// calls) is replaced too, but the call is made again; the result says what
// happened. A candidate that this befalls three times in a row is
// kInterrupted.
//
// When three workers in a row do not start or pass the sentinel, or when one
// cannot be reaped, the device is quarantined: every call returns Unavailable
// from then on.
#ifndef HONE_TUNER_WORKER_PROCESS_EXECUTOR_H_
#define HONE_TUNER_WORKER_PROCESS_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tuner/executor.h"
#include "tuner/worker/worker_process.h"

namespace hone {

class ProcessExecutor : public Executor {
 public:
  struct Options {
    // Path of hone-worker and its arguments.
    std::vector<std::string> command;
    Protocol protocol;
    // For starting a worker, which includes compiling its own kernels once.
    absl::Duration start_deadline = absl::Seconds(60);
    // For operands, references and the hand-over of a candidate.
    absl::Duration setup_deadline = absl::Seconds(120);
    absl::Duration sentinel_deadline = absl::Seconds(60);
    // Until a killed worker must have ended.
    absl::Duration reap_deadline = absl::Seconds(10);
  };

  ~ProcessExecutor() override;

  // Starts a worker and asks it for its device. The worker makes no CUDA
  // context before the first Begin(). Unavailable without a usable GPU.
  static absl::StatusOr<std::unique_ptr<ProcessExecutor>> Create(
      Options options);

  const DeviceSpec& device() const override { return device_; }
  Protocol protocol() const override { return options_.protocol; }
  // Process ids of others that computed on the GPU when the worker started.
  const std::vector<int64_t>& foreign_processes() const {
    return foreign_processes_;
  }
  // The present worker; 0 when there is none.
  pid_t worker_pid() const { return worker_ == nullptr ? 0 : worker_->pid(); }
  absl::Status Usable() const override;
  ExecutorHealth health() const override;

  absl::Status Begin(const Problem& problem, int64_t max_m,
                     uint64_t seed) override;
  absl::StatusOr<int> Add(const Candidate& candidate) override;
  absl::StatusOr<GateResult> Gate(int candidate, int64_t m,
                                  absl::Duration deadline) override;
  // A round in which a worker was lost is run again candidate by candidate to
  // find the culprit; its samples are then unpaired.
  absl::StatusOr<RoundResult> Round(const RoundRequest& request,
                                    absl::Duration deadline) override;

 private:
  struct Setup {
    Problem problem;
    int64_t max_m = 0;
    uint64_t seed = 0;
  };
  struct Known {
    Candidate candidate;
    // In the present worker; -1 when it does not have the candidate yet.
    int remote = -1;
    // Why it is never sent again.
    std::optional<GateResult> bad;
  };
  // What a call that may cost the worker gave: a response, or how the candidate
  // failed, or what else ended the worker. After either of the latter the
  // worker has been replaced.
  struct Exchange {
    std::optional<GateResult> failure;
    std::optional<std::string> interruption;
    v1::WorkerResponse response;
  };

  explicit ProcessExecutor(Options options) : options_(std::move(options)) {}

  absl::Status StartWorker();
  // Kills the worker, if any; the quarantine when it cannot be reaped.
  absl::Status Discard();
  void Quarantine(const std::string& why);
  // Kills the worker, if any, and starts another one that passes the sentinel.
  absl::Status Replace();
  // A request that involves no candidate's kernel: its failure is Hone's. When
  // it costs the worker, that is discarded.
  absl::StatusOr<v1::WorkerResponse> Ask(const v1::WorkerRequest& request,
                                         absl::Duration deadline);
  absl::StatusOr<Exchange> Risk(const v1::WorkerRequest& request,
                                absl::Duration deadline);
  // Makes sure that there is a worker that knows the problem and the
  // candidates, and has the reference at M = prepare_m unless that is 0.
  absl::Status Ready(absl::Span<const int> candidates, int64_t prepare_m);
  // Asks the present worker for what it lacks of that.
  absl::Status Supply(absl::Span<const int> candidates, int64_t prepare_m);
  absl::Status CheckIndex(int candidate) const;
  std::vector<std::string> TakeInterruptions() {
    return std::exchange(interruptions_, {});
  }
  // One round of candidates that are not bad: the result, or how it failed.
  absl::StatusOr<Exchange> TryRound(const RoundRequest& request,
                                    absl::Duration deadline,
                                    RoundResult& result);

  const Options options_;
  DeviceSpec device_;
  std::vector<int64_t> foreign_processes_;
  std::unique_ptr<WorkerProcess> worker_;
  // Of health().
  std::atomic<int64_t> workers_started_ = 0;
  std::atomic<int64_t> workers_lost_ = 0;
  std::atomic<int64_t> sentinel_failures_ = 0;
  mutable absl::Mutex mutex_;
  // Why the device is in quarantine; OK while it is not.
  absl::Status quarantine_ ABSL_GUARDED_BY(mutex_);
  std::optional<Setup> setup_;
  // Whether the present worker knows the problem.
  bool begun_ = false;
  std::vector<Known> candidates_;
  // The M whose reference the present worker has.
  std::set<int64_t> prepared_;
  // Not yet reported.
  std::vector<std::string> interruptions_;
};

}  // namespace hone

#endif  // HONE_TUNER_WORKER_PROCESS_EXECUTOR_H_
