// Quantize and pack the weights of a layer, on the CPU. The packed layout is
// that of kernels/device/memory/packed_layout.cuh.
#ifndef HONE_KERNELS_PACK_PACK_H_
#define HONE_KERNELS_PACK_PACK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/config/problem.h"

namespace hone {

// Weights as integer codes with their scales, unpacked.
struct QuantizedWeights {
  // [N, K], row-major; the signed value of each code.
  std::vector<int16_t> values;
  // [N, G], row-major, as codes of LayerConfig::b_scale_type.
  std::vector<uint16_t> scales;
};

struct PackedWeights {
  std::vector<std::byte> b;
  std::vector<std::byte> scales;
};

// Scale groups along K: 1 for channel scales. Counted over the padded K.
int64_t ScaleGroups(const LayerConfig& layer);

// Sizes of the packed tensors, bytes.
int64_t PackedWeightBytes(const LayerConfig& layer);
int64_t PackedScaleBytes(const LayerConfig& layer);

// Symmetric round-to-nearest quantization of `weights` [N, K] (row-major).
// Each scale is the largest magnitude of its group over the largest code,
// rounded to the scale's type; an all-zero group, or one whose scale would
// round to zero, has scale 1 and values 0. InvalidArgument when the size is not
// N·K or a weight is not finite.
absl::StatusOr<QuantizedWeights> Quantize(const LayerConfig& layer,
                                          absl::Span<const float> weights);

// Packs codes and scales; padding rows and columns hold the value 0, padding
// scales 1. InvalidArgument names a code outside the type's range.
absl::StatusOr<PackedWeights> Pack(const LayerConfig& layer,
                                   const QuantizedWeights& weights);

// The inverse of Pack().
absl::StatusOr<QuantizedWeights> Unpack(const LayerConfig& layer,
                                        const PackedWeights& packed);

}  // namespace hone

#endif  // HONE_KERNELS_PACK_PACK_H_
