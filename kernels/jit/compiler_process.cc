#include "kernels/jit/compiler_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/codec.h"

namespace hone {
namespace {

// posix_spawn's parameter objects.
struct SpawnSetup {
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::vector<std::string> CompilerArguments(
    const CompilerProcessOptions& options) {
  std::vector<std::string> arguments = {
      absl::StrCat("--parent=", options.parent),
      absl::StrCat("--nice=", options.nice),
      absl::StrCat("--address-space=", options.address_space_bytes)};
  for (const std::string& folder : options.search.first) {
    arguments.push_back(absl::StrCat("--first=", folder));
  }
  for (const std::string& folder : options.search.then) {
    arguments.push_back(absl::StrCat("--then=", folder));
  }
  return arguments;
}

absl::StatusOr<CompilerProcessOptions> ParseCompilerArguments(
    const std::vector<std::string>& arguments) {
  CompilerProcessOptions options;
  for (absl::string_view argument : arguments) {
    bool ok = true;
    if (absl::ConsumePrefix(&argument, "--parent=")) {
      ok = absl::SimpleAtoi(argument, &options.parent);
    } else if (absl::ConsumePrefix(&argument, "--nice=")) {
      ok = absl::SimpleAtoi(argument, &options.nice);
    } else if (absl::ConsumePrefix(&argument, "--address-space=")) {
      ok = absl::SimpleAtoi(argument, &options.address_space_bytes);
    } else if (absl::ConsumePrefix(&argument, "--first=")) {
      options.search.first.emplace_back(argument);
    } else if (absl::ConsumePrefix(&argument, "--then=")) {
      options.search.then.emplace_back(argument);
    } else {
      ok = false;
    }
    if (!ok) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown argument: ", argument));
    }
  }
  return options;
}

absl::StatusOr<std::unique_ptr<CompilerProcess>> CompilerProcess::Start(
    const std::string& executable, CompilerProcessOptions options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(
        absl::ErrnoToStatus(errno, "cannot make a socket pair").message());
  }
  options.parent = getpid();
  std::vector<std::string> arguments = CompilerArguments(options);
  arguments.insert(arguments.begin(), executable);
  // Nothing of this process's environment but the loader's path: the child
  // compiles the same wherever the daemon was started.
  std::vector<std::string> environment;
  if (!options.search.loader_path.empty()) {
    environment.push_back(
        absl::StrCat("LD_LIBRARY_PATH=", options.search.loader_path));
  }

  SpawnSetup setup;
  posix_spawn_file_actions_addopen(&setup.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&setup.actions, 1, "/dev/null", O_WRONLY, 0);
  // dup2 onto itself would only clear the flag, which is as good.
  posix_spawn_file_actions_adddup2(&setup.actions, ends[1], kCompilerSocket);
  posix_spawn_file_actions_addclosefrom_np(&setup.actions, kCompilerSocket + 1);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  posix_spawnattr_setpgroup(&setup.attributes, 0);
  posix_spawnattr_setflags(&setup.attributes, POSIX_SPAWN_SETPGROUP |
                                                  POSIX_SPAWN_SETSIGMASK |
                                                  POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, executable.c_str(), &setup.actions, &setup.attributes,
                  Pointers(arguments).data(), Pointers(environment).data());
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return absl::UnavailableError(
        absl::ErrnoToStatus(error, absl::StrCat("cannot start ", executable))
            .message());
  }
  return std::unique_ptr<CompilerProcess>(new CompilerProcess(pid, ends[0]));
}

CompilerProcess::~CompilerProcess() {
  End();
  close(fd_);
}

absl::StatusOr<std::string> CompilerProcess::AwaitGreeting(
    absl::Time deadline) {
  absl::StatusOr<std::string> frame = ReceiveFrame(fd_, deadline);
  if (!frame.ok()) {
    return absl::UnavailableError(
        absl::StrCat("hone-compiler does not start: ", frame.status().message(),
                     ", ", End()));
  }
  HONE_ASSIGN_OR_RETURN(const CompileResult greeting,
                        DecodeStatusOrResult(*frame));
  return greeting.nvrtc_version;
}

absl::StatusOr<std::string> CompilerProcess::Call(absl::string_view request,
                                                  absl::Time deadline) {
  HONE_RETURN_IF_ERROR(SendFrame(fd_, request, deadline));
  return ReceiveFrame(fd_, deadline);
}

bool CompilerProcess::Alive() const {
  // Between calls the child has nothing to say: a readable socket is a closed
  // one.
  pollfd item = {.fd = fd_, .events = POLLIN};
  return pid_ > 0 && poll(&item, 1, 0) == 0;
}

std::string CompilerProcess::End(bool* killed) {
  if (pid_ <= 0) return "ended before";
  // A child that has closed its socket gets a moment to end by itself, so that
  // its end is not that of the signal below.
  siginfo_t info{};
  for (int i = 0; i < 50 && killed != nullptr && !Alive(); ++i) {
    if (waitid(P_PID, static_cast<id_t>(pid_), &info,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == pid_) {
      break;
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
  if (killed != nullptr) {
    *killed = info.si_pid == pid_ && info.si_code == CLD_KILLED &&
              info.si_status == SIGKILL;
  }
  // The group too, should NVRTC ever start something. A child that has ended
  // but is not reaped still holds its id, so this kills no stranger.
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  pid_ = -1;
  if (reaped < 0) return "ended unseen";
  if (WIFSIGNALED(status)) {
    const char* text = sigdescr_np(WTERMSIG(status));
    return absl::StrCat("signal ", WTERMSIG(status), " (",
                        text == nullptr ? "unknown" : text, ")");
  }
  return absl::StrCat("exit status ", WEXITSTATUS(status));
}

}  // namespace hone
