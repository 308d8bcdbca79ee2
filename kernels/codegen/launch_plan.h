// LaunchPlan: one kernel launch as a plain value.
//
// codegen produces it beside the source; kernels/launch executes it through
// the CUDA driver and kernels/emulator on the CPU, so both run the same thing.
#ifndef HONE_KERNELS_CODEGEN_LAUNCH_PLAN_H_
#define HONE_KERNELS_CODEGEN_LAUNCH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hone {

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  uint64_t Count() const { return uint64_t{x} * y * z; }
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

// The buffers a kernel may take. Pointers are at least 16-byte aligned,
// kWorkspace 256-byte.
enum class BufferRole : uint8_t {
  kA,          // activations [M, K], row-major, dense
  kB,          // packed weights (kernels/pack)
  kBScale,     // packed weight scales (kernels/pack)
  kBias,       // [N]
  kC,          // output [M, N], row-major, dense
  kWorkspace,  // zeroed once by its owner; kernels leave its counters zero
};

// One kernel parameter, in order: a device pointer or a 32-bit integer.
struct LaunchArg {
  enum class Kind : uint8_t { kBuffer, kInt32 };
  Kind kind = Kind::kBuffer;
  BufferRole role = BufferRole::kA;
  int32_t value = 0;
  friend bool operator==(const LaunchArg&, const LaunchArg&) = default;
};

struct LaunchPlan {
  std::string kernel_name;
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;
  // Dynamic shared memory of one CTA, bytes.
  uint32_t smem_bytes = 0;
  std::vector<LaunchArg> args;
  // Bytes the kernel uses of kWorkspace; 0 when it takes none. Its first
  // workspace_zeroed_bytes must be zero before the first launch, and are zero
  // again after each.
  uint64_t workspace_bytes = 0;
  uint64_t workspace_zeroed_bytes = 0;

  friend bool operator==(const LaunchPlan&, const LaunchPlan&) = default;
};

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_LAUNCH_PLAN_H_
