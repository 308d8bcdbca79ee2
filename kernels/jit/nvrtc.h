// NVRTC in this process, loaded with dlopen.
#ifndef HONE_KERNELS_JIT_NVRTC_H_
#define HONE_KERNELS_JIT_NVRTC_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/jit/compile_result.h"
#include "kernels/jit/shared_library.h"

namespace hone {

// All options of a compile, in order: the standard ones, then request.options.
std::vector<std::string> CompileOptions(const CompileRequest& request);

// The content address of a compile, 64 hex digits: SHA-256 over the source,
// the NVRTC version, the architecture and all options, each prefixed with its
// length. Comments and formatting of the source do not count, unless there are
// options beyond the standard ones.
std::string SourceKey(const CompileRequest& request,
                      absl::string_view nvrtc_version);

// Thread-safe; compiles of several threads run in parallel.
class Nvrtc {
 public:
  // Unavailable when there is no usable NVRTC.
  static absl::StatusOr<std::shared_ptr<const Nvrtc>> Create(
      const LibrarySearch& search);

  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  // "13.0".
  const std::string& version() const { return version_; }
  // The file that was loaded.
  const std::string& path() const { return path_; }
  // Compute capabilities that it compiles for, ascending: 75, 80, … 120.
  const std::vector<int>& supported_archs() const { return archs_; }

  // NVRTC is not a function of its input: with 13.0 a source that indexes an
  // array in local memory by run-time values compiles to different code from
  // call to call. Kernels that keep everything in registers compile the same.
  //
  // Blocks; cannot be interrupted (use the compile pool for a deadline). A
  // source that NVRTC refuses is a result (kRejected). InvalidArgument for an
  // architecture or option that this NVRTC does not know; Internal when NVRTC
  // itself fails.
  absl::StatusOr<CompileResult> Compile(const CompileRequest& request) const;

 private:
  struct Api;
  Nvrtc();

  std::unique_ptr<Api> api_;
  std::string version_;
  std::string path_;
  std::vector<int> archs_;
};

}  // namespace hone

#endif  // HONE_KERNELS_JIT_NVRTC_H_
