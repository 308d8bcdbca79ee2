// What goes into a compile and what comes out: plain values.
#ifndef HONE_KERNELS_JIT_COMPILE_RESULT_H_
#define HONE_KERNELS_JIT_COMPILE_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

// One translation unit. Its text comes from kernels/codegen (or is one of
// Hone's own helper kernels), never from a client: NVRTC opens any file that an
// #include names.
struct CompileRequest {
  // Names the unit in messages. Not part of the result's identity.
  std::string name = "hone.cu";
  std::string source;
  // A real architecture, as NVRTC spells it: "sm_90a".
  std::string arch;
  // Beyond the standard ones; see CompileOptions().
  std::vector<std::string> options;
};

// What a kernel takes of an SM. Of a unit with several kernels, the largest of
// each.
struct KernelResources {
  int32_t registers = 0;          // per thread
  int32_t static_smem_bytes = 0;  // per CTA, without dynamic shared memory
  int32_t stack_bytes = 0;        // per thread, of local memory
  int32_t spill_store_bytes = 0;  // per thread
  int32_t spill_load_bytes = 0;   // per thread

  friend bool operator==(const KernelResources&,
                         const KernelResources&) = default;
};

enum class CompileOutcome : uint8_t {
  kCompiled,
  kRejected,  // NVRTC or ptxas refused the source: see log
  kTimeout,   // killed past its deadline (compile pool only)
  kCrashed,   // the compiler died or failed inside
  kKilled,    // somebody else killed the compiler, twice (compile pool only)
};
// "compiled", "rejected", "timeout", "crashed", "killed".
absl::string_view CompileOutcomeName(CompileOutcome outcome);

struct CompileResult {
  CompileOutcome outcome = CompileOutcome::kRejected;
  // NVRTC's and ptxas's messages; for the outcomes below kRejected, one line
  // that says what happened.
  std::string log;
  // From one NVRTC call: the cubin was assembled from this very PTX. Empty
  // unless compiled.
  std::string cubin;
  std::string ptx;
  KernelResources resources;
  // The lines of the log that cost performance or hint at a bug: warnings,
  // advisories (C7508: setmaxnreg ignored), spills.
  std::vector<std::string> warnings;
  // Wall time of the compile, also of one that the cache remembers.
  int64_t compile_ms = 0;
  // The NVRTC that ran: "13.0". Empty below kRejected.
  std::string nvrtc_version;

  bool ok() const { return outcome == CompileOutcome::kCompiled; }

  friend bool operator==(const CompileResult&, const CompileResult&) = default;
};

}  // namespace hone

#endif  // HONE_KERNELS_JIT_COMPILE_RESULT_H_
