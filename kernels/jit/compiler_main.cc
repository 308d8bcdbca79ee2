// hone-compiler: the process in which honed's kernels are compiled.
//
// It reads sources from the socket that it was started with and answers with
// what NVRTC made of them. It may crash, hang or be killed at any time. It
// writes no file: its limit on file sizes is zero.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

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

absl::StatusOr<CompileResult> Answer(const Nvrtc& nvrtc,
                                     const std::string& frame) {
  absl::StatusOr<CompileRequest> request = DecodeRequest(frame);
  if (!request.ok()) return request.status();
  return nvrtc.Compile(*request);
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
  while (true) {
    const auto frame = ReceiveFrame(kCompilerSocket, never);
    if (!frame.ok()) return 0;
    const std::string answer = EncodeStatusOrResult(Answer(**nvrtc, *frame));
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
