// From a launch value's tensor map to the 128 bytes that a kernel takes.
#ifndef HONE_KERNELS_LAUNCH_TENSOR_MAP_ENCODE_H_
#define HONE_KERNELS_LAUNCH_TENSOR_MAP_ENCODE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/codegen/tensor_map.h"

namespace hone {

// As a kernel parameter by value.
struct alignas(64) EncodedTensorMap {
  std::byte bytes[kTensorMapBytes];
};

// Encodes a map of a tensor in the buffer at device address `buffer`.
// InvalidArgument, naming field and legal values, for a map that breaks the
// rules or a buffer that is not 16-byte aligned, also without a driver;
// Unavailable without one; what the driver says if it refuses.
absl::Status EncodeTensorMap(const TensorMap& map, uint64_t buffer,
                             EncodedTensorMap* out);

}  // namespace hone

#endif  // HONE_KERNELS_LAUNCH_TENSOR_MAP_ENCODE_H_
