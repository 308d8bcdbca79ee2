// A compile child without NVRTC: what CompilePool starts in fault runs. It
// makes a "cubin" of the fault that a source names (tests/support/faults.h), at
// once; of a faulty compile it dies or never answers.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/config/sha256.h"
#include "kernels/jit/codec.h"
#include "kernels/jit/compiler_process.h"
#include "tests/support/faults.h"

namespace hone {
namespace {

CompileResult Compile(const CompileRequest& request) {
  const absl::string_view fault = FaultNamedIn(request.source);
  const std::string hash = Sha256Hex(request.source);
  if (fault == "compiler_crash") {
    if (hash[0] % 2 == 0) abort();
    raise(SIGSEGV);
  }
  if (fault == "endless_compile") {
    // Busy, as a compiler would be.
    for (volatile bool endless = true; endless;) {
    }
  }
  CompileResult result;
  result.outcome = CompileOutcome::kCompiled;
  result.cubin =
      fault.empty()
          ? absl::StrCat("good ", hash)
          : absl::StrCat(request.source.substr(0, request.source.find('\n')),
                         "\n", hash);
  result.resources.registers = 96;
  result.compile_ms = 1;
  result.nvrtc_version = "13.0";
  return result;
}

int Run(const CompilerProcessOptions& options) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != options.parent) {
    return 1;
  }
  const absl::Time never = absl::InfiniteFuture();
  CompileResult greeting;
  greeting.nvrtc_version = "13.0";
  absl::Status sent =
      SendFrame(kCompilerSocket, EncodeStatusOrResult(greeting), never);
  while (sent.ok()) {
    const auto frame = ReceiveFrame(kCompilerSocket, never);
    if (!frame.ok()) return 0;
    const auto request = DecodeRequest(*frame);
    if (!request.ok()) return 1;
    sent = SendFrame(kCompilerSocket, EncodeStatusOrResult(Compile(*request)),
                     never);
  }
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  const auto options = hone::ParseCompilerArguments(
      std::vector<std::string>(argv + 1, argv + argc));
  return options.ok() ? hone::Run(*options) : 2;
}
