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
  kA,          // activations [M, K], row-major, dense; two 4-bit codes a byte,
               // the even column in the low half
  kB,          // packed weights (kernels/pack)
  kBScale,     // packed weight scales (kernels/pack)
  kBias,       // [N]
  kC,          // output [M, N], row-major, dense
  kWorkspace,  // zeroed once by its owner; kernels leave its counters zero
  kWeights,    // weights to pack [N, K], row-major, dense (kernels/pack)
  kInput,      // activations to quantize [M, K], row-major, dense (kernels/pack)
  kAScale,     // float32 scales of kA: [M], per K-group [M, G] or [G, M], or one
};

// What the tensor copy engine knows about a tensor: the arguments of the CUDA
// driver's cuTensorMapEncodeTiled with interleave "none". Dimensions go from
// the innermost, whose elements are adjacent, to the outermost; up to five.
// kernels/codegen/tensor_map.h has the rules.
struct TensorMap {
  enum class Element : uint8_t {
    kU8,
    kU16,
    kU32,
    kS32,
    kU64,
    kS64,
    kF16,
    kBF16,
    kF32,
    kF64,
  };
  // Which bits of an address in shared memory are exchanged; see
  // SwizzleAddress().
  enum class Swizzle : uint8_t { kNone, k32B, k64B, k128B };
  // What loads find outside the tensor.
  enum class Fill : uint8_t { kZeros, kNan };
  enum class L2Promotion : uint8_t { kNone, k64B, k128B, k256B };

  BufferRole buffer = BufferRole::kA;
  uint64_t offset = 0;  // of the first element in the buffer, bytes
  Element element = Element::kF16;
  std::vector<uint64_t> dims;     // elements
  std::vector<uint64_t> strides;  // bytes, of all dimensions but the first
  std::vector<uint32_t> box;      // elements that one copy traverses
  // Of every so many traversed elements one is copied; the first is ignored.
  std::vector<uint32_t> element_strides;
  Swizzle swizzle = Swizzle::kNone;
  Fill fill = Fill::kZeros;
  L2Promotion l2_promotion = L2Promotion::kNone;
  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

// One kernel parameter, in order: a device pointer, a 32-bit integer, or a
// tensor map by value (128 bytes, __grid_constant__).
struct LaunchArg {
  enum class Kind : uint8_t { kBuffer, kInt32, kTensorMap };
  Kind kind = Kind::kBuffer;
  BufferRole role = BufferRole::kA;
  int32_t value = 0;  // kTensorMap: index in LaunchPlan::tensor_maps
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
  std::vector<TensorMap> tensor_maps;
  // Bytes the kernel uses of kWorkspace; 0 when it takes none. Its first
  // workspace_zeroed_bytes must be zero before the first launch, and are zero
  // again after each.
  uint64_t workspace_bytes = 0;
  uint64_t workspace_zeroed_bytes = 0;
  // Whether CTAs wait for others with lower indexes. Devices start a grid's
  // CTAs by rising index, so that such a wait ends.
  bool waits_for_lower_ctas = false;

  friend bool operator==(const LaunchPlan&, const LaunchPlan&) = default;
};

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_LAUNCH_PLAN_H_
