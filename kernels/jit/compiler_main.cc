// hone-compiler: the process in which honed's kernels are compiled.
//
// It reads sources from the socket that it was started with and answers with
// what NVRTC made of them. It may crash, hang or be killed at any time. It
// writes no file: its limit on file sizes is zero.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/jit/codec.h"
#include "kernels/jit/compiler_process.h"
#include "kernels/jit/nvrtc.h"

namespace hone {
namespace {

bool Limit(int resource, uint64_t value) {
  const rlimit limit = {.rlim_cur = value, .rlim_max = value};
  return setrlimit(resource, &limit) == 0;
}

// False when this process should not run: its parent has gone already.
bool Confine(const CompilerProcessOptions& options) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  if (getppid() != options.parent) return false;
  // A file beyond the limit fails with EFBIG instead of this signal.
  if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR) return false;
  if (!Limit(RLIMIT_CORE, 0) || !Limit(RLIMIT_FSIZE, 0)) return false;
  if (options.address_space_bytes > 0 &&
      !Limit(RLIMIT_AS, options.address_space_bytes)) {
    return false;
  }
  // Being nice is a courtesy: not worth failing for.
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + options.nice);
  return true;
}

// What is printed on standard error. ptxas says only there that it ran out of
// memory; its log is then that of a source that it refuses.
class ErrorOutput {
 public:
  bool Capture() {
    int ends[2];
    // Beyond what the pipe holds, output is lost rather than waited for.
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    read_end_ = ends[0];
    const bool captured = dup2(ends[1], STDERR_FILENO) == STDERR_FILENO;
    close(ends[1]);
    return captured;
  }
  // What came since the last call.
  std::string Take() const {
    std::string text;
    std::array<char, 4096> piece;
    ssize_t size = 0;
    while ((size = read(read_end_, piece.data(), piece.size())) > 0) {
      text.append(piece.data(), static_cast<size_t>(size));
    }
    return text;
  }

 private:
  int read_end_ = -1;
};

absl::StatusOr<CompileResult> Answer(const Nvrtc& nvrtc,
                                     const ErrorOutput& errors,
                                     const std::string& frame) {
  absl::StatusOr<CompileRequest> request = DecodeRequest(frame);
  if (!request.ok()) return request.status();
  absl::StatusOr<CompileResult> result = nvrtc.Compile(*request);
  const std::string printed = errors.Take();
  if (result.ok() && result->outcome == CompileOutcome::kRejected) {
    result->log = absl::StrCat(printed, result->log);
    if (absl::StrContains(printed, "Memory allocation failure")) {
      result->outcome = CompileOutcome::kCrashed;
    }
  }
  return result;
}

int Run(const CompilerProcessOptions& options) {
  const absl::Time never = absl::InfiniteFuture();
  const auto nvrtc = Nvrtc::Create(options.search);
  absl::StatusOr<CompileResult> greeting = CompileResult();
  if (nvrtc.ok()) {
    greeting->nvrtc_version = (*nvrtc)->version();
  } else {
    greeting = nvrtc.status();
  }
  if (!SendFrame(kCompilerSocket, EncodeStatusOrResult(greeting), never).ok() ||
      !nvrtc.ok()) {
    return 1;
  }
  ErrorOutput errors;
  if (!errors.Capture()) return 1;
  while (true) {
    const auto frame = ReceiveFrame(kCompilerSocket, never);
    if (!frame.ok()) return 0;
    const std::string answer =
        EncodeStatusOrResult(Answer(**nvrtc, errors, *frame));
    if (!SendFrame(kCompilerSocket, answer, never).ok()) return 0;
  }
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  const auto options = hone::ParseCompilerArguments(
      std::vector<std::string>(argv + 1, argv + argc));
  if (!options.ok() || options->parent == 0) {
    std::fputs("hone-compiler is started by honed, not by hand\n", stderr);
    return 2;
  }
  if (!hone::Confine(*options)) return 1;
  return hone::Run(*options);
}
