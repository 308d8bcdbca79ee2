// ProcessExecutor: the Executor of a real GPU, through a worker child process.
//
// A candidate that hangs, faults or crashes costs one worker: it is killed and
// reaped, another is started, the device is checked with a sentinel kernel, the
// problem is set up again, and the other candidates are handed over again when
// they are next used. The culprit's outcome is remembered and it is never sent
// again. When three workers in a row do not start or pass the sentinel, the
// device is quarantined: every call returns Unavailable from then on.
#ifndef HONE_TUNER_WORKER_PROCESS_EXECUTOR_H_
#define HONE_TUNER_WORKER_PROCESS_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
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
  };

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
  // Workers started so far.
  int64_t workers_started() const { return workers_started_; }

  absl::Status Begin(const Problem& problem, int64_t max_m,
                     uint64_t seed) override;
  absl::StatusOr<int> Add(const Candidate& candidate) override;
  absl::StatusOr<GateResult> Gate(int candidate, int64_t m,
                                  absl::Duration deadline) override;
  // A round in which a worker was lost is run again candidate by candidate to
  // find the culprit; its samples are then not paired, so slowed_down is set.
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
  // What a call that may cost the worker gave: a response, or how it failed.
  // After a failure the worker has been replaced.
  struct Exchange {
    std::optional<GateResult> failure;
    v1::WorkerResponse response;
  };

  explicit ProcessExecutor(Options options) : options_(std::move(options)) {}

  absl::Status StartWorker();
  // Kills the worker, if any, and makes another one ready.
  absl::Status Replace();
  absl::Status SendBegin();
  // A request that involves no candidate's kernel: its failure is Hone's.
  absl::StatusOr<v1::WorkerResponse> Ask(const v1::WorkerRequest& request,
                                         absl::Duration deadline);
  absl::StatusOr<Exchange> Risk(const v1::WorkerRequest& request,
                                absl::Duration deadline);
  // Makes sure that there is a worker and that it has the candidate.
  absl::Status Ready(int candidate);
  absl::Status CheckIndex(int candidate) const;
  absl::StatusOr<Exchange> TryRound(const RoundRequest& request,
                                    absl::Duration deadline,
                                    RoundResult& result);

  const Options options_;
  DeviceSpec device_;
  std::vector<int64_t> foreign_processes_;
  std::unique_ptr<WorkerProcess> worker_;
  int64_t workers_started_ = 0;
  // Why the device is in quarantine; OK while it is not.
  absl::Status quarantine_;
  std::optional<Setup> setup_;
  std::vector<Known> candidates_;
  // The M whose reference the present worker has.
  std::set<int64_t> prepared_;
};

}  // namespace hone

#endif  // HONE_TUNER_WORKER_PROCESS_EXECUTOR_H_
