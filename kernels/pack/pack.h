// Quantize and pack the weights of a layer, on the CPU: the reference of the
// device kernels (kernels/device/pack). The packed layout is that of
// kernels/device/memory/packed_layout.cuh.
//
// A weight is (code − zero) · scale · tensor scale, with whatever the layer
// has of these. Every function is pure and thread-safe.
#ifndef HONE_KERNELS_PACK_PACK_H_
#define HONE_KERNELS_PACK_PACK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/config/problem.h"
#include "kernels/config/weight_layout.h"

namespace hone {

// Weights as codes with their scales, unpacked. With G = ScaleGroups(layer):
struct QuantizedWeights {
  // [N, K], row-major: codes of layer.b.
  std::vector<uint8_t> codes;
  // [N, G], or [⌈N / b_group_n⌉, G] for block scales, row-major: codes of
  // layer.b_scale_type. Empty when b_scale is none or tensor.
  std::vector<uint32_t> scales;
  // [N, G], row-major: integers, or codes of layer.a where zero points are
  // floats. Empty without zero points.
  std::vector<uint16_t> zeros;
  // Of the whole tensor; 1 unless b_scale is tensor or group_tensor.
  float tensor_scale = 1;
};

struct PackedWeights {
  std::vector<std::byte> b;
  // Scales, zero points and the tensor scale; one byte when there are none, so
  // that the tensor always has an address.
  std::vector<std::byte> scales;
};

// Scale groups along K: 1 for channel scales. Counted over the padded K.
int64_t ScaleGroups(const LayerConfig& layer);
// Rows of the scale tensor: N, or the row blocks of block scales.
int64_t ScaleRows(const LayerConfig& layer);

// Sizes of the packed tensors, bytes.
int64_t PackedWeightBytes(const LayerConfig& layer);
int64_t PackedScaleBytes(const LayerConfig& layer);

// Round-to-nearest quantization of `weights` [N, K], row-major, in float32
// arithmetic, one IEEE operation after the other, so that devices give the same
// codes.
//
// Without zero points a scale is the largest magnitude of its weights over the
// largest value of B, with them it is their range (which includes 0) over the
// largest code, and the zero point is what the least weight needs. The scale is
// rounded to its type: to the nearest, or for float8e8m0 to the next power of
// two above, so that nothing saturates. Integers use ± the largest code: the
// lowest one stays unused, save in int1. Where the scale would be zero it is 1.
//
// InvalidArgument when the size is not N·K or a weight is not finite; the
// errors of CheckWeightFormat().
absl::StatusOr<QuantizedWeights> Quantize(const LayerConfig& layer,
                                          absl::Span<const float> weights);

// What scales of this type are at most, relative to a tensor scale: the largest
// of the type, but no more than float16's, so that with types of a wide range
// the tensor scale stays a normal float32.
double LargestRelativeScale(DataType scale_type);

// The largest magnitude of the values that Quantize() uses: what it divides by.
double QuantizationDivisor(const LayerConfig& layer);

// What stored codes are xor-ed with: beside 16-bit activations symmetric
// integers are offset by half their range, all others stored as they are.
uint32_t StoredXor(const LayerConfig& layer);

// Activations as a kernel takes them: rows of codes of layer.a, two 4-bit ones
// a byte, the even column in the low half. `codes` are [M, K], row-major; K
// must be even where they have 4 bits.
std::vector<std::byte> PackActivations(const LayerConfig& layer,
                                       absl::Span<const uint16_t> codes);

// Packs codes and scales; padding rows and columns hold the value 0, padding
// scales 1. InvalidArgument names a code that B does not have, or whose value,
// like a scale's, is not finite (in type A).
absl::StatusOr<PackedWeights> Pack(const LayerConfig& layer,
                                   const QuantizedWeights& weights);

// The inverse of Pack().
absl::StatusOr<QuantizedWeights> Unpack(const LayerConfig& layer,
                                        const PackedWeights& packed);

// Whether sign and magnitude (floats without exponent) dequantize faster than
// the layer's symmetric integers. They do where A is float16, or a narrower
// float, and scales apply to accumulators: the codes then are subnormals as
// they stand, two instructions or fewer a register instead of two or more, and
// the epilogue's scale takes the power of two. Before the MMA that power (2^24)
// has no place, and bfloat16 has no room for the codes.
bool SignMagnitudeIsFaster(const LayerConfig& layer);

// Turns symmetric integers into sign and magnitude, in place, where that is
// faster and the codes allow it (sign and magnitude have no lowest integer).
// Returns whether it did. What loads weights calls it before Pack().
absl::StatusOr<bool> UseSignMagnitude(LayerConfig& layer,
                                      QuantizedWeights& weights);

}  // namespace hone

#endif  // HONE_KERNELS_PACK_PACK_H_
