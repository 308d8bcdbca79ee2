// What a cubin says about its kernels: an ELF reader that trusts nothing.
#ifndef HONE_KERNELS_JIT_CUBIN_INFO_H_
#define HONE_KERNELS_JIT_CUBIN_INFO_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/jit/compile_result.h"

namespace hone {

struct CubinKernel {
  std::string name;
  // Without spills, which only ptxas's log tells.
  KernelResources resources;
};

// The kernels (not the device functions) in a cubin, in the file's order.
// DataLoss when it is no valid 64-bit cubin.
absl::StatusOr<std::vector<CubinKernel>> ReadCubin(absl::string_view cubin);

// One function in the log of ptxas -v.
struct PtxasReport {
  std::string name;
  KernelResources resources;
};

// The kernels that ptxas reports on, in the log's order.
std::vector<PtxasReport> ReadPtxasLog(absl::string_view log);

// The lines that matter; see CompileResult::warnings.
std::vector<std::string> WarningsIn(absl::string_view log);

}  // namespace hone

#endif  // HONE_KERNELS_JIT_CUBIN_INFO_H_
