#include "kernels/config/weight_layout.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

int ZeroBits(const LayerConfig& layer) {
  switch (layer.zero_point) {
    case ZeroPoint::kNone:
      return 0;
    case ZeroPoint::kInteger:
      return layer.b.bits() <= 4 ? 4 : 8;
    case ZeroPoint::kFloat:
      break;
  }
  return layer.a.bits();
}

absl::Status NoFormat(absl::string_view field, absl::string_view value,
                      absl::string_view has) {
  return absl::UnimplementedError(absl::StrCat(
      "no kernel for ", field, " = ", value, "; there are kernels for ", has));
}

// Rows and columns of scales.
bool HasScaleType(const LayerConfig& layer) {
  return layer.b_scale != ScaleGranularity::kNone &&
         layer.b_scale != ScaleGranularity::kTensor;
}

}  // namespace

absl::Status CheckWeightFormat(const LayerConfig& layer) {
  HONE_RETURN_IF_ERROR(layer.Validate());
  if (layer.a != kFloat16 && layer.a != kBfloat16) {
    return NoFormat("layer.a", layer.a.ToString(), "float16, bfloat16");
  }
  if (layer.b.is_float() &&
      (layer.b.exponent_bits() > layer.a.exponent_bits() ||
       layer.b.mantissa_bits() > layer.a.mantissa_bits())) {
    return NoFormat(
        "layer.b", layer.b.ToString(),
        absl::StrCat("floats of at most ", layer.a.exponent_bits(),
                     " exponent and ", layer.a.mantissa_bits(),
                     " mantissa bits with layer.a ", layer.a.ToString()));
  }
  const ScaleGranularity scale = layer.b_scale;
  if (scale == ScaleGranularity::kBlock) {
    if (layer.b_scale_type != kFloat32) {
      return NoFormat("layer.b_scale_type", layer.b_scale_type.ToString(),
                      "float32 with block scales");
    }
    if (layer.b_group_n % 64 != 0) {
      return NoFormat("layer.b_group_n", absl::StrCat(layer.b_group_n),
                      "multiples of 64");
    }
  }
  if ((scale == ScaleGranularity::kGroup ||
       scale == ScaleGranularity::kGroupTensor) &&
      layer.b_scale_type == kFloat32) {
    return NoFormat("layer.b_scale_type", "float32",
                    "types of at most 16 bits with group scales");
  }
  return absl::OkStatus();
}

bool ScalesNeedFloat32(const LayerConfig& layer) {
  if (!HasScaleType(layer)) return true;
  const DataType type = layer.b_scale_type;
  return type.exponent_bits() > layer.a.exponent_bits() ||
         type.mantissa_bits() > layer.a.mantissa_bits();
}

double LargestWeightValue(const LayerConfig& layer) {
  double largest = 0;
  for (const double value : layer.b.CodeTable()) {
    if (std::fabs(value) <= layer.a.MaxFinite()) {
      largest = std::max(largest, std::fabs(value));
    }
  }
  return largest;
}

WeightLayout WeightLayoutOf(const LayerConfig& layer) {
  WeightLayout w;
  w.bits = layer.b.bits();
  if (layer.b.is_float()) {
    w.code_layout = layout::FloatLayout(layer.b.exponent_bits());
  }
  w.weight_bytes = layout::PackedBytes(layer.n, layer.k, w.bits);
  const ScaleGranularity scale = layer.b_scale;
  w.block = scale == ScaleGranularity::kBlock;
  if (w.block) w.group_n = layer.b_group_n;
  w.groups = layout::ScaleGroups(layer.k, layer.b_group);
  w.group = w.groups == 1 ? 0 : layer.b_group;
  if (scale == ScaleGranularity::kChannel ||
      scale == ScaleGranularity::kGroup ||
      scale == ScaleGranularity::kGroupTensor) {
    w.scale_bits = layer.b_scale_type.bits();
  }
  w.tensor_scale = scale == ScaleGranularity::kTensor ||
                   scale == ScaleGranularity::kGroupTensor;
  w.zero_bits = ZeroBits(layer);
  w.scale_bytes_per_entry = layout::EntryScaleBytes(w.scale_bits, w.block);
  w.entry_bytes = layout::EntryBytes(w.scale_bits, w.block, w.zero_bits);
  w.tensor_offset = layout::RoundUp(layer.n, layout::kUnitRows) /
                    layout::kUnitRows * w.groups * w.entry_bytes;
  w.scale_bytes = w.tensor_offset + (w.tensor_scale ? 16 : 0);
  return w;
}

}  // namespace hone
