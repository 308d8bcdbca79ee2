// The rules of tensor maps, from the documentation of cuTensorMapEncodeTiled
// (CUDA driver API 13.0) and the PTX ISA's chapter on tensors.
#ifndef HONE_KERNELS_CODEGEN_TENSOR_MAP_H_
#define HONE_KERNELS_CODEGEN_TENSOR_MAP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/codegen/launch_plan.h"

namespace hone {

inline constexpr uint32_t kTensorMapBytes = 128;
// Copies to and from shared memory start at a multiple of this.
inline constexpr uint32_t kTensorCopyAlignment = 128;

uint32_t BytesOf(TensorMap::Element element);
bool IsFloat(TensorMap::Element element);

// InvalidArgument, naming the field and its legal values. Stricter than the
// driver in one point: the inner side of a swizzled box fills the swizzle's
// span, since how shared memory is laid out otherwise is not documented.
absl::Status ValidateTensorMap(const TensorMap& map);

// The bytes of a row of 16-byte chunks within which a swizzle exchanges them;
// 16 for none.
uint32_t SwizzleSpan(TensorMap::Swizzle swizzle);

// Where the byte at `address` of the unswizzled box lies in shared memory: the
// chunk's number within its span (bits 4 up) is exclusive-ored with the number
// of the 128-byte line (bits 7 up).
inline uint32_t SwizzleAddress(TensorMap::Swizzle swizzle, uint32_t address) {
  const uint32_t mask = SwizzleSpan(swizzle) - 16;
  return address ^ (address >> 3 & mask);
}

// Elements that one copy moves along a dimension, and the bytes of all.
uint32_t CopiedElements(const TensorMap& map, uint32_t dimension);
uint64_t CopiedBytes(const TensorMap& map);

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_TENSOR_MAP_H_
