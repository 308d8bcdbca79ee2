#include "kernels/pack/pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/device/memory/packed_layout.cuh"

namespace hone {
namespace {

// Integer codes are stored unsigned.
int Offset(const LayerConfig& layer) { return 1 << (layer.b.bits() - 1); }

absl::Status CheckLayer(const LayerConfig& layer) {
  HONE_RETURN_IF_ERROR(layer.Validate());
  if (layer.b != kInt4 && layer.b != kInt8) {
    return absl::UnimplementedError(
        absl::StrCat("no packing for layer.b = ", layer.b.ToString(),
                     "; there is one for int4, int8"));
  }
  if (layer.b_scale != ScaleGranularity::kChannel &&
      layer.b_scale != ScaleGranularity::kGroup) {
    return absl::UnimplementedError(
        absl::StrCat("no packing for layer.b_scale = ", ToString(layer.b_scale),
                     "; there is one for channel, group"));
  }
  if (layer.b_scale_type.bits() != 16) {
    return absl::UnimplementedError(absl::StrCat(
        "no packing for layer.b_scale_type = ", layer.b_scale_type.ToString(),
        "; there is one for float16, bfloat16"));
  }
  return absl::OkStatus();
}

int64_t GroupColumns(const LayerConfig& layer) {
  return layer.b_group == 0 ? layer.k : layer.b_group;
}

absl::Status CheckSize(absl::string_view what, size_t got, int64_t want,
                       absl::string_view shape) {
  if (got == static_cast<size_t>(want)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " has ", got, " elements; it must have ", want, ", ", shape));
}

uint32_t GetCode(const std::byte* bytes, int64_t bit, int bits) {
  const auto byte = static_cast<uint32_t>(bytes[bit / 8]);
  return (byte >> (bit % 8)) & ((1u << bits) - 1);
}

void SetCode(std::byte* bytes, int64_t bit, int bits, uint32_t code) {
  const uint32_t mask = ((1u << bits) - 1) << (bit % 8);
  const auto old = static_cast<uint32_t>(bytes[bit / 8]);
  bytes[bit / 8] = static_cast<std::byte>((old & ~mask) | (code << (bit % 8)));
}

}  // namespace

int64_t ScaleGroups(const LayerConfig& layer) {
  return layout::ScaleGroups(layer.k, layer.b_group);
}

int64_t PackedWeightBytes(const LayerConfig& layer) {
  return layout::PackedBytes(layer.n, layer.k, layer.b.bits());
}

int64_t PackedScaleBytes(const LayerConfig& layer) {
  return layout::ScaleElements(layer.n, ScaleGroups(layer)) *
         layer.b_scale_type.bits() / 8;
}

absl::StatusOr<QuantizedWeights> Quantize(const LayerConfig& layer,
                                          absl::Span<const float> weights) {
  HONE_RETURN_IF_ERROR(CheckLayer(layer));
  HONE_RETURN_IF_ERROR(
      CheckSize("weights", weights.size(), layer.n * layer.k, "N x K"));
  const int64_t groups = ScaleGroups(layer);
  const int64_t columns = GroupColumns(layer);
  const double largest_code = layer.b.MaxFinite();
  QuantizedWeights out;
  out.values.resize(weights.size());
  out.scales.resize(layer.n * groups,
                    static_cast<uint16_t>(layer.b_scale_type.Encode(1)));
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t g = 0; g * columns < layer.k; ++g) {
      const int64_t begin = n * layer.k + g * columns;
      const int64_t end = n * layer.k + std::min((g + 1) * columns, layer.k);
      double largest = 0;
      for (int64_t i = begin; i < end; ++i) {
        if (!std::isfinite(weights[i])) {
          return absl::InvalidArgumentError(
              absl::StrCat("weights[", n, "][", i - n * layer.k,
                           "] is not finite; quantization needs finite "
                           "weights"));
        }
        largest = std::max(largest, std::fabs(double{weights[i]}));
      }
      if (largest == 0) continue;
      const uint32_t code = layer.b_scale_type.Encode(largest / largest_code);
      const double scale = layer.b_scale_type.Decode(code);
      // Too small for the scale's type: the group is zero to this precision.
      if (scale == 0) continue;
      out.scales[n * groups + g] = static_cast<uint16_t>(code);
      for (int64_t i = begin; i < end; ++i) {
        // The full negative code stays unused, so that -w has the code of w
        // negated.
        out.values[i] = static_cast<int16_t>(
            std::clamp(std::nearbyint(double{weights[i]} / scale),
                       -largest_code, largest_code));
      }
    }
  }
  return out;
}

absl::StatusOr<PackedWeights> Pack(const LayerConfig& layer,
                                   const QuantizedWeights& weights) {
  HONE_RETURN_IF_ERROR(CheckLayer(layer));
  const int64_t groups = ScaleGroups(layer);
  HONE_RETURN_IF_ERROR(
      CheckSize("values", weights.values.size(), layer.n * layer.k, "N x K"));
  HONE_RETURN_IF_ERROR(CheckSize("scales", weights.scales.size(),
                                 layer.n * groups, "N x groups"));
  const int bits = layer.b.bits();
  const int offset = Offset(layer);
  PackedWeights packed;
  // Every code of the padding is that of the value 0.
  packed.b.assign(PackedWeightBytes(layer),
                  static_cast<std::byte>(bits == 4 ? 0x88 : 0x80));
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t k = 0; k < layer.k; ++k) {
      const int value = weights.values[n * layer.k + k];
      if (value < -offset || value >= offset) {
        return absl::InvalidArgumentError(absl::StrCat(
            "values[", n, "][", k, "] is ", value, "; ", layer.b.ToString(),
            " holds ", -offset, " to ", offset - 1));
      }
      SetCode(packed.b.data(), layout::CodeBitOffset(n, k, layer.k, bits), bits,
              static_cast<uint32_t>(value + offset));
    }
  }
  const auto one = static_cast<uint16_t>(layer.b_scale_type.Encode(1));
  std::vector<uint16_t> scales(layout::ScaleElements(layer.n, groups), one);
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t g = 0; g < groups; ++g) {
      scales[layout::ScaleIndex(n, g, groups)] = weights.scales[n * groups + g];
    }
  }
  packed.scales.resize(scales.size() * sizeof(uint16_t));
  std::memcpy(packed.scales.data(), scales.data(), packed.scales.size());
  return packed;
}

absl::StatusOr<QuantizedWeights> Unpack(const LayerConfig& layer,
                                        const PackedWeights& packed) {
  HONE_RETURN_IF_ERROR(CheckLayer(layer));
  HONE_RETURN_IF_ERROR(CheckSize("packed b", packed.b.size(),
                                 PackedWeightBytes(layer), "bytes"));
  HONE_RETURN_IF_ERROR(CheckSize("packed scales", packed.scales.size(),
                                 PackedScaleBytes(layer), "bytes"));
  const int bits = layer.b.bits();
  const int64_t groups = ScaleGroups(layer);
  QuantizedWeights out;
  out.values.resize(layer.n * layer.k);
  out.scales.resize(layer.n * groups);
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t k = 0; k < layer.k; ++k) {
      const uint32_t code = GetCode(
          packed.b.data(), layout::CodeBitOffset(n, k, layer.k, bits), bits);
      out.values[n * layer.k + k] =
          static_cast<int16_t>(static_cast<int>(code) - Offset(layer));
    }
    for (int64_t g = 0; g < groups; ++g) {
      std::memcpy(&out.scales[n * groups + g],
                  packed.scales.data() +
                      layout::ScaleIndex(n, g, groups) * sizeof(uint16_t),
                  sizeof(uint16_t));
    }
  }
  return out;
}

}  // namespace hone
