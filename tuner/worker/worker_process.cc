#include "tuner/worker/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tuner/worker/wire.h"

extern char** environ;

namespace hone {
namespace {

std::string DescribeEnd(int status) {
  if (WIFEXITED(status)) {
    return absl::StrCat("exited with status ", WEXITSTATUS(status));
  }
  if (WIFSIGNALED(status)) {
    return absl::StrCat("was killed by signal ", WTERMSIG(status), " (",
                        strsignal(WTERMSIG(status)), ")");
  }
  return "ended";
}

// Signals that a process gets from others, not for what it does.
bool SaysNothing(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT ||
         signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Spawn(
    const std::vector<std::string>& command) {
  if (command.empty()) {
    return absl::InvalidArgumentError("the worker's command is empty");
  }
  int sockets[2];
  // Close-on-exec: no other child of this process may hold the worker's end,
  // or the worker would not see this process die.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::InternalError(absl::StrCat("socketpair: ", strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], STDOUT_FILENO);
  // A worker that cannot be killed must not hold a lock or a port of ours.
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                            POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t set;
  sigemptyset(&set);
  posix_spawnattr_setsigmask(&attributes, &set);
  sigfillset(&set);
  posix_spawnattr_setsigdefault(&attributes, &set);
  std::vector<char*> argv;
  for (const std::string& part : command) {
    argv.push_back(const_cast<char*>(part.c_str()));
  }
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, command[0].c_str(), &actions, &attributes,
                                argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  if (error != 0) {
    close(sockets[0]);
    return absl::InternalError(absl::StrCat("cannot start the worker ",
                                            command[0], ": ", strerror(error)));
  }
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(pid, sockets[0]));
}

WorkerProcess::~WorkerProcess() {
  if (!Reap() && (killed_ || !Kill())) {
    std::thread([pid = pid_] {
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
    }).detach();
  }
  close(fd_);
}

bool WorkerProcess::Reap() {
  if (reaped_) return true;
  // Its id stays taken until it is reaped, so that no stranger's group is
  // killed.
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info,
             WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_) {
    return false;
  }
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  end_ = DescribeEnd(status);
  interrupted_ =
      !killed_ && WIFSIGNALED(status) && SaysNothing(WTERMSIG(status));
  return true;
}

bool WorkerProcess::AwaitEnd(absl::Duration patience) {
  const absl::Time deadline = absl::Now() + patience;
  absl::Duration pause = absl::Microseconds(100);
  while (!Reap()) {
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(pause);
    pause = std::min(pause * 2, absl::Milliseconds(10));
  }
  return true;
}

bool WorkerProcess::Kill(absl::Duration patience) {
  if (Reap()) return true;
  killed_ = true;
  // The group holds whatever it may have started.
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  return AwaitEnd(patience);
}

absl::Status WorkerProcess::Explain() {
  // It gets a moment to end by itself, so that the status is its own and not
  // that of our SIGKILL.
  if (!AwaitEnd(absl::Milliseconds(500)) && !Kill()) {
    return absl::UnavailableError("the worker closed its socket");
  }
  const std::string message = absl::StrCat("the worker ", end_);
  return interrupted_ ? absl::CancelledError(message)
                      : absl::UnavailableError(message);
}

absl::StatusOr<v1::WorkerResponse> WorkerProcess::Call(
    v1::WorkerRequest request, absl::Time deadline) {
  if (Reap()) return Explain();
  request.set_id(next_id_++);
  if (absl::Status sent = SendFrame(fd_, request.SerializeAsString(), deadline);
      !sent.ok()) {
    return absl::IsUnavailable(sent) ? Explain() : sent;
  }
  const absl::StatusOr<std::string> frame = ReceiveFrame(fd_, deadline);
  if (!frame.ok()) {
    return absl::IsUnavailable(frame.status()) ? Explain() : frame.status();
  }
  v1::WorkerResponse response;
  if (!response.ParseFromString(*frame) || response.id() != request.id()) {
    return absl::DataLossError("the worker's answer makes no sense");
  }
  return response;
}

}  // namespace hone
