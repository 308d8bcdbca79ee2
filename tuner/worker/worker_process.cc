#include "tuner/worker/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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

WorkerProcess::~WorkerProcess() { Kill(); }

std::string WorkerProcess::Kill() {
  if (reaped_) return end_;
  // The child closed or died; or it is killed here. The group holds whatever
  // it may have started.
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  end_ = DescribeEnd(status);
  close(fd_);
  return end_;
}

absl::Status WorkerProcess::Explain(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return status;
  // It closed its socket: give it a moment to end by itself, so that the
  // status is its own and not that of our SIGKILL.
  for (int i = 0; i < 50 && !reaped_; ++i) {
    int end = 0;
    if (waitpid(pid_, &end, WNOHANG) == pid_) {
      // Others of its group, if any.
      kill(-pid_, SIGKILL);
      reaped_ = true;
      end_ = DescribeEnd(end);
      close(fd_);
      break;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  return absl::UnavailableError(absl::StrCat("the worker ", Kill()));
}

absl::StatusOr<v1::WorkerResponse> WorkerProcess::Call(
    v1::WorkerRequest request, absl::Time deadline) {
  if (reaped_) {
    return absl::UnavailableError(absl::StrCat("the worker ", end_));
  }
  request.set_id(next_id_++);
  if (absl::Status sent = SendFrame(fd_, request.SerializeAsString(), deadline);
      !sent.ok()) {
    return Explain(sent);
  }
  const absl::StatusOr<std::string> frame = ReceiveFrame(fd_, deadline);
  if (!frame.ok()) return Explain(frame.status());
  v1::WorkerResponse response;
  if (!response.ParseFromString(*frame) || response.id() != request.id()) {
    return absl::DataLossError("the worker's answer makes no sense");
  }
  return response;
}

}  // namespace hone
