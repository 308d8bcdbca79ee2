// One compile child: starting it, speaking to it, ending it. Private to
// kernels/jit.
//
// Both ends speak frames (8 bytes of little-endian length, then the body) over
// a socket pair. The child first sends a greeting, then answers one request at
// a time.
#ifndef HONE_KERNELS_JIT_COMPILER_PROCESS_H_
#define HONE_KERNELS_JIT_COMPILER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/jit/frame.h"
#include "kernels/jit/shared_library.h"

namespace hone {

// Where the child finds its end of the socket pair.
inline constexpr int kCompilerSocket = 3;

// What a child is told at its start.
struct CompilerProcessOptions {
  LibrarySearch search;
  int nice = 0;
  uint64_t address_space_bytes = 0;  // 0: no limit
  pid_t parent = 0;                  // the child ends with it
};

// As the child's command line, and back. InvalidArgument for what
// CompilerArguments does not make.
std::vector<std::string> CompilerArguments(
    const CompilerProcessOptions& options);
absl::StatusOr<CompilerProcessOptions> ParseCompilerArguments(
    const std::vector<std::string>& arguments);

// Not thread-safe. Must be started by a thread that outlives it: the kernel
// kills the child when that thread ends.
class CompilerProcess {
 public:
  // Spawns the child. Unavailable when there is no such executable.
  static absl::StatusOr<std::unique_ptr<CompilerProcess>> Start(
      const std::string& executable, CompilerProcessOptions options);
  // Kills and reaps the child.
  ~CompilerProcess();
  CompilerProcess(const CompilerProcess&) = delete;
  CompilerProcess& operator=(const CompilerProcess&) = delete;

  // The child is the leader of its own process group.
  pid_t pid() const { return pid_; }

  // The version of the child's NVRTC, from its greeting; or why it has none.
  absl::StatusOr<std::string> AwaitGreeting(absl::Time deadline);

  // Sends a request and waits for the answer. Errors are those of SendFrame
  // and ReceiveFrame; after one the child is of no more use.
  absl::StatusOr<std::string> Call(absl::string_view request,
                                   absl::Time deadline);

  // Whether the child still waits for requests.
  bool Alive() const;

  // Kills and reaps the child and says how it ended: "signal 11
  // (Segmentation fault)", "exit status 1". `killed` is set when SIGKILL had
  // ended it before this call did.
  std::string End(bool* killed = nullptr);

 private:
  CompilerProcess(pid_t pid, int fd) : pid_(pid), fd_(fd) {}

  pid_t pid_;
  int fd_;
};

}  // namespace hone

#endif  // HONE_KERNELS_JIT_COMPILER_PROCESS_H_
