#include "kernels/jit/compile_pool.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/codec.h"
#include "kernels/jit/compiler_process.h"

namespace hone {
namespace {

// Loading NVRTC takes some 50 ms; a busy node or a cold disk far longer.
constexpr absl::Duration kStartTimeout = absl::Seconds(60);

int Cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  }
  return std::max(1, CPU_COUNT(&set));
}

absl::StatusOr<std::string> ExecutableBesideThis() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) {
    return absl::UnavailableError(
        "cannot find hone-compiler: /proc/self/exe is not readable");
  }
  path.resize(static_cast<size_t>(size));
  return absl::StrCat(path.substr(0, path.rfind('/')), "/hone-compiler");
}

absl::Status CancelledCompile() {
  return absl::CancelledError("the compile was cancelled");
}

}  // namespace

// A thread and the child that it looks after.
struct CompilePool::Worker {
  std::thread thread;
  // Touched by the worker's thread only.
  std::unique_ptr<CompilerProcess> process;
  // The rest is guarded by the pool's mutex_. While pid > 0 the child is not
  // reaped, so whoever holds the mutex may kill it.
  pid_t pid = -1;
  Ticket running = 0;
  bool cancelled = false;
};

CompilePool::CompilePool(CompilePoolOptions options, int processes)
    : options_(std::move(options)), processes_(processes) {}

absl::StatusOr<std::unique_ptr<CompilePool>> CompilePool::Create(
    CompilePoolOptions options) {
  if (options.executable.empty()) {
    HONE_ASSIGN_OR_RETURN(options.executable, ExecutableBesideThis());
  }
  const int processes = options.processes > 0 ? options.processes : Cores();
  std::unique_ptr<CompilePool> pool(
      new CompilePool(std::move(options), processes));
  absl::Notification started;
  absl::Status status;
  {
    absl::MutexLock lock(&pool->mutex_);
    pool->AddWorker([&](absl::StatusOr<std::string> version) {
      status = version.status();
      if (version.ok()) pool->nvrtc_version_ = *std::move(version);
      started.Notify();
    });
  }
  started.WaitForNotification();
  if (!status.ok()) return status;
  return pool;
}

CompilePool::~CompilePool() {
  std::list<Job> waiting;
  std::vector<std::unique_ptr<Worker>> workers;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    waiting.swap(queue_);
    for (const auto& worker : workers_) Interrupt(worker.get());
    workers.swap(workers_);
  }
  for (Job& job : waiting) job.done(CancelledCompile());
  for (const auto& worker : workers) worker->thread.join();
}

void CompilePool::AddWorker(StartCallback started) {
  Worker* worker = workers_.emplace_back(std::make_unique<Worker>()).get();
  worker->thread = std::thread([this, worker, started = std::move(started)] {
    const absl::StatusOr<std::string> version = StartProcess(worker);
    if (started) started(version);
    Serve(worker);
  });
}

void CompilePool::Interrupt(Worker* worker) {
  worker->cancelled = true;
  if (worker->pid > 0) kill(worker->pid, SIGKILL);
}

absl::StatusOr<std::string> CompilePool::StartProcess(Worker* worker) {
  HONE_ASSIGN_OR_RETURN(
      worker->process,
      CompilerProcess::Start(
          options_.executable,
          {.search = options_.search,
           .nice = options_.nice,
           .address_space_bytes = options_.address_space_bytes}));
  {
    absl::MutexLock lock(&mutex_);
    worker->pid = worker->process->pid();
    // Interrupted before there was a child to kill.
    if (worker->cancelled || stopping_) kill(worker->pid, SIGKILL);
  }
  absl::StatusOr<std::string> version =
      worker->process->AwaitGreeting(absl::Now() + kStartTimeout);
  if (!version.ok()) EndProcess(worker);
  return version;
}

std::string CompilePool::EndProcess(Worker* worker, bool* killed) {
  {
    absl::MutexLock lock(&mutex_);
    worker->pid = -1;
  }
  const std::string how = worker->process->End(killed);
  worker->process.reset();
  return how;
}

void CompilePool::Serve(Worker* worker) {
  while (true) {
    Job job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CompilePool::HasWork));
      if (stopping_) break;
      job = std::move(queue_.front());
      queue_.pop_front();
      ++busy_;
      worker->running = job.ticket;
      worker->cancelled = false;
    }
    absl::StatusOr<CompileResult> result = RunJob(worker, job);
    bool cancelled;
    {
      absl::MutexLock lock(&mutex_);
      --busy_;
      worker->running = 0;
      cancelled = worker->cancelled;
    }
    if (cancelled) {
      result = CancelledCompile();
      // It has been killed, but may not be dead yet: the next compile must not
      // take it for alive.
      if (worker->process != nullptr) EndProcess(worker);
    }
    job.done(std::move(result));
  }
  if (worker->process != nullptr) EndProcess(worker);
}

absl::StatusOr<CompileResult> CompilePool::RunJob(Worker* worker,
                                                  const Job& job) {
  absl::StatusOr<CompileResult> result = TryJob(worker, job);
  // Whoever killed the child (the kernel, when memory is short) may not have
  // meant this compile.
  if (result.ok() && result->outcome == CompileOutcome::kKilled &&
      !Cancelled(worker)) {
    result = TryJob(worker, job);
  }
  return result;
}

bool CompilePool::Cancelled(Worker* worker) {
  absl::MutexLock lock(&mutex_);
  return worker->cancelled || stopping_;
}

absl::StatusOr<CompileResult> CompilePool::TryJob(Worker* worker,
                                                  const Job& job) {
  // A child that died while it had nothing to do (killed for memory, say) is
  // no crash of this source.
  if (worker->process != nullptr && !worker->process->Alive()) {
    EndProcess(worker);
  }
  if (worker->process == nullptr) {
    HONE_ASSIGN_OR_RETURN(const std::string version, StartProcess(worker));
    if (version != nvrtc_version_) {
      EndProcess(worker);
      // Cache keys carry the version that was there at the start.
      return absl::UnavailableError(
          absl::StrCat("NVRTC changed from ", nvrtc_version_, " to ", version,
                       " while running: restart to use it"));
    }
  }
  const absl::Time start = absl::Now();
  const absl::StatusOr<std::string> answer =
      worker->process->Call(EncodeRequest(job.request), start + job.deadline);
  if (answer.ok()) {
    absl::StatusOr<CompileResult> result = DecodeStatusOrResult(*answer);
    if (result.status().code() != absl::StatusCode::kDataLoss) return result;
  }
  bool killed = false;
  const std::string how = EndProcess(worker, &killed);
  CompileResult result;
  result.compile_ms = absl::ToInt64Milliseconds(absl::Now() - start);
  switch (answer.status().code()) {
    case absl::StatusCode::kDeadlineExceeded:
      result.outcome = CompileOutcome::kTimeout;
      result.log =
          absl::StrCat("killed after ", absl::FormatDuration(job.deadline));
      return result;
    case absl::StatusCode::kUnavailable:
      result.outcome =
          killed ? CompileOutcome::kKilled : CompileOutcome::kCrashed;
      result.log = absl::StrCat("the compiler died: ", how);
      return result;
    default:
      return absl::InternalError(
          "hone-compiler sent what is no answer: it is of another version");
  }
}

absl::StatusOr<CompilePool::Ticket> CompilePool::Submit(CompileRequest request,
                                                        absl::Duration deadline,
                                                        Callback done) {
  absl::MutexLock lock(&mutex_);
  if (queue_.size() >= options_.max_queued) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the compile queue is full: ", options_.max_queued, " wait"));
  }
  const Ticket ticket = next_ticket_++;
  queue_.push_back({ticket, std::move(request), deadline, std::move(done)});
  if (queue_.size() + busy_ > workers_.size() &&
      workers_.size() < static_cast<size_t>(processes_)) {
    AddWorker(nullptr);
  }
  return ticket;
}

void CompilePool::Cancel(Ticket ticket) {
  Callback done;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& worker : workers_) {
      if (worker->running == ticket) {
        Interrupt(worker.get());
        return;
      }
    }
    const auto job =
        std::find_if(queue_.begin(), queue_.end(),
                     [&](const Job& job) { return job.ticket == ticket; });
    if (job == queue_.end()) return;
    done = std::move(job->done);
    queue_.erase(job);
  }
  done(CancelledCompile());
}

absl::StatusOr<CompileResult> CompilePool::Compile(CompileRequest request,
                                                   absl::Duration deadline) {
  absl::StatusOr<CompileResult> result;
  absl::Notification ended;
  HONE_RETURN_IF_ERROR(Submit(std::move(request), deadline,
                              [&](absl::StatusOr<CompileResult> answer) {
                                result = std::move(answer);
                                ended.Notify();
                              })
                           .status());
  ended.WaitForNotification();
  return result;
}

}  // namespace hone
