// WeightLayout: what the packed tensors of a layer look like, as plain numbers.
// The layout itself is kernels/device/memory/packed_layout.cuh.
#ifndef HONE_KERNELS_CONFIG_WEIGHT_LAYOUT_H_
#define HONE_KERNELS_CONFIG_WEIGHT_LAYOUT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/config/problem.h"
#include "kernels/device/memory/packed_layout.cuh"

namespace hone {

struct WeightLayout {
  // ---- weights ----
  int bits = 0;
  // Bits of an element of the MMA operands: those of A.
  int width = 16;
  layout::CodeLayout code_layout = layout::CodeLayout::kPlain;
  int64_t weight_bytes = 0;

  // ---- the scale tensor: [N/64][groups] entries, then the tensor scale ----
  // Columns that share an entry; 0 when one entry spans all of K.
  int64_t group = 0;
  int64_t groups = 1;
  // Rows that share a scale: 1, or the layer's b_group_n.
  int64_t group_n = 1;
  // Bits of each row's scale in an entry; 0 without such scales.
  int scale_bits = 0;
  // One float32 per entry instead.
  bool block = false;
  // Bits of each row's zero point; 0 without.
  int zero_bits = 0;
  int64_t scale_bytes_per_entry = 0;
  int64_t entry_bytes = 0;
  bool tensor_scale = false;
  // Byte offset of the tensor scale.
  int64_t tensor_offset = 0;
  // Whether the channels' least scale codes follow the entries, and where.
  bool window = false;
  int64_t window_offset = 0;
  // Bytes of the whole scale tensor, a multiple of 16.
  int64_t scale_bytes = 0;

  // Whether entries hold scales at all.
  bool has_scales() const { return scale_bits != 0 || block; }
  // Whether codes go into the MMA as they are stored.
  bool direct() const { return code_layout == layout::CodeLayout::kRows; }
};

// The layer must be valid.
WeightLayout WeightLayoutOf(const LayerConfig& layer);

// Whether weights are unsigned operands where integers are multiplied; with
// zero points they have a sign.
bool HasUnsignedOperand(const LayerConfig& layer);

// Whether there is a packing and a dequantization for the layer's weights:
// types of A, B, scales and zero points, and their granularity. Unimplemented
// names the field and what there is; the errors of LayerConfig::Validate().
//
// Every value of B must be exact in A's type, up to a power of two common to
// all: codes become operands by moving bits.
absl::Status CheckWeightFormat(const LayerConfig& layer);

// Whether scales can only be applied in float32, to accumulators: type A may
// have no room for scaled weights (8 and 4 bits), block scales are float32, and
// other types may hold values that type A cannot (float8e8m0 reaches 2^±127,
// float16 only 2^15). Otherwise a scale is exact in type A, and may multiply
// weights before the MMA.
bool ScalesNeedFloat32(const LayerConfig& layer);

// Octaves that the scales of a channel may span with b_scale_window: from B's
// least magnitude at the least scale as A's least normal number to B's largest
// at the largest. 11 in float8e4m3, 26 in float8e5m2.
int WindowOctaves(DataType a);

// Whether a value of B is finite as an operand of A's type. Floats with as many
// exponent bits as A but no infinities have values beyond, which are not.
bool IsFiniteWeight(const LayerConfig& layer, double value);

// The largest magnitude among B's values that are.
double LargestWeightValue(const LayerConfig& layer);

}  // namespace hone

#endif  // HONE_KERNELS_CONFIG_WEIGHT_LAYOUT_H_
