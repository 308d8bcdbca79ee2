// CompileQueue: compiles a list of configs on as many threads as the compiler
// is worth, in order, while the caller measures what has arrived.
#ifndef HONE_TUNER_COMPILE_QUEUE_H_
#define HONE_TUNER_COMPILE_QUEUE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tuner/candidate_compiler.h"

namespace hone {

class CompileQueue {
 public:
  // What became of config `index`.
  struct Result {
    size_t index = 0;
    absl::StatusOr<CompiledCandidate> compiled;
  };

  // Starts at once, in the order of `order` (indexes into `configs`).
  CompileQueue(CandidateCompiler* compiler, const Problem& problem,
               const DeviceSpec& device, std::vector<TuningConfig> configs,
               std::vector<size_t> order);
  // Starts no more compiles and waits for those that run.
  ~CompileQueue();
  CompileQueue(const CompileQueue&) = delete;
  CompileQueue& operator=(const CompileQueue&) = delete;

  // The next finished compile; nullopt when none finishes within `wait`.
  std::optional<Result> Next(absl::Duration wait);

 private:
  void Work();
  bool HasResult() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !results_.empty();
  }

  CandidateCompiler* const compiler_;
  const Problem problem_;
  const DeviceSpec device_;
  const std::vector<TuningConfig> configs_;
  absl::Mutex mutex_;
  std::deque<size_t> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<Result> results_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace hone

#endif  // HONE_TUNER_COMPILE_QUEUE_H_
