// A pool of child processes that compile. A compile past its deadline is
// killed with its process, and so is one that takes NVRTC down: neither reaches
// the process that asked.
#ifndef HONE_KERNELS_JIT_COMPILE_POOL_H_
#define HONE_KERNELS_JIT_COMPILE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/jit/compile_result.h"
#include "kernels/jit/shared_library.h"

namespace hone {

struct CompilePoolOptions {
  // The hone-compiler executable; empty: beside this process's executable.
  std::string executable;
  // Where the children look for NVRTC.
  LibrarySearch search;
  // Most child processes; 0: one per core that this process may run on.
  int processes = 0;
  // Most compiles waiting for a process.
  size_t max_queued = 4096;
  // Added to the children's nice level (0 to 19).
  int nice = 0;
  // Most address space of a child, bytes; 0: no limit.
  uint64_t address_space_bytes = 0;
};

// Thread-safe. Processes are started as the queue asks for them, stay for
// later compiles and are replaced when they die.
class CompilePool {
 public:
  using Ticket = uint64_t;
  using Callback = std::function<void(absl::StatusOr<CompileResult>)>;

  // Starts the first process. Unavailable when the executable or NVRTC is
  // missing.
  static absl::StatusOr<std::unique_ptr<CompilePool>> Create(
      CompilePoolOptions options);

  // Kills and reaps all children. Waiting and running compiles end as
  // Cancelled.
  ~CompilePool();
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;

  // Of the children's NVRTC: "13.0".
  const std::string& nvrtc_version() const { return nvrtc_version_; }
  // Most compiles that run at once.
  int processes() const { return processes_; }

  // Queues a compile. `deadline` counts from when it leaves the queue.
  // `done` is called once, on a thread of the pool, and must not block for
  // long, destroy the pool or wait for another compile. It gets:
  //   a CompileResult    all that NVRTC decided, kTimeout, kCrashed and kKilled
  //   InvalidArgument    NVRTC does not know the architecture or an option
  //   Cancelled          by Cancel() or by the pool's destruction
  //   Unavailable        no process can be started, or NVRTC is not usable
  //   Internal           the executable is of another version
  // Returns ResourceExhausted when the queue is full; `done` is not called.
  absl::StatusOr<Ticket> Submit(CompileRequest request, absl::Duration deadline,
                                Callback done);

  // Ends the compile as Cancelled unless it has ended; a running one's
  // process is killed.
  void Cancel(Ticket ticket);

  // Submit and wait.
  absl::StatusOr<CompileResult> Compile(CompileRequest request,
                                        absl::Duration deadline);

 private:
  struct Job {
    Ticket ticket = 0;
    CompileRequest request;
    absl::Duration deadline;
    Callback done;
  };
  struct Worker;
  using StartCallback = std::function<void(absl::StatusOr<std::string>)>;

  CompilePool(CompilePoolOptions options, int processes);

  // Starts a thread, which starts its child at once and tells `started` (may
  // be empty) the version of the child's NVRTC.
  void AddWorker(StartCallback started) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Kills the worker's child, or the one that it is about to start.
  void Interrupt(Worker* worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  }
  // These run on the worker's thread.
  absl::StatusOr<std::string> StartProcess(Worker* worker);
  std::string EndProcess(Worker* worker, bool* killed = nullptr);
  void Serve(Worker* worker);
  absl::StatusOr<CompileResult> RunJob(Worker* worker, const Job& job);
  absl::StatusOr<CompileResult> TryJob(Worker* worker, const Job& job);
  bool Cancelled(Worker* worker);

  const CompilePoolOptions options_;
  const int processes_;
  // Written once, before Create returns.
  std::string nvrtc_version_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Ticket next_ticket_ ABSL_GUARDED_BY(mutex_) = 1;
  // Workers that run a job. One more job than there are others starts another.
  size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Job> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Worker>> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone

#endif  // HONE_KERNELS_JIT_COMPILE_POOL_H_
