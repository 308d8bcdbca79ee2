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

// Types of B whose values are exact in A up to a power of two.
absl::Status CheckWeightType(const LayerConfig& layer) {
  const DataType a = layer.a;
  const DataType b = layer.b;
  const std::string with = absl::StrCat(" with layer.a ", a.ToString());
  if (a.is_integer()) {
    if (b.is_float()) {
      if (a == kInt8 && b == kFloat4e2m1) return absl::OkStatus();
      return NoFormat(
          "layer.b", b.ToString(),
          absl::StrCat(a == kInt8 ? "integers and float4e2m1" : "integers",
                       with));
    }
    // The difference of code and zero point has a sign.
    const bool zero = layer.zero_point != ZeroPoint::kNone;
    if (zero && b.bits() >= a.bits()) {
      return NoFormat("layer.b", b.ToString(),
                      absl::StrCat("zero points with at most ", a.bits() - 1,
                                   " bits", with));
    }
    return absl::OkStatus();
  }
  // Integers m up to this are m · 2^e in subnormal and the least normal codes.
  if (b.is_integer() && a.bits() < 16) {
    const int most =
        a.mantissa_bits() + (b.kind() == DataType::Kind::kInt ? 2 : 1);
    if (b.bits() <= most) return absl::OkStatus();
    return NoFormat(
        "layer.b", b.ToString(),
        absl::StrCat("int1 to int", a.mantissa_bits() + 2, " and uint1 to uint",
                     a.mantissa_bits() + 1, with));
  }
  if (b.is_float()) {
    const int mantissa = a.mantissa_bits() + (b.exponent_bits() == 0 ? 1 : 0);
    if (b.exponent_bits() > a.exponent_bits() || b.mantissa_bits() > mantissa) {
      return NoFormat("layer.b", b.ToString(),
                      absl::StrCat("floats of at most ", a.exponent_bits(),
                                   " exponent and ", a.mantissa_bits(),
                                   " mantissa bits", with));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool HasUnsignedOperand(const LayerConfig& layer) {
  return layer.b.kind() == DataType::Kind::kUint &&
         layer.zero_point == ZeroPoint::kNone;
}

absl::Status CheckWeightFormat(const LayerConfig& layer) {
  HONE_RETURN_IF_ERROR(layer.Validate());
  HONE_RETURN_IF_ERROR(CheckWeightType(layer));
  if (layer.zero_point == ZeroPoint::kFloat && layer.a.bits() < 16) {
    return NoFormat(
        "layer.zero_point", "float",
        absl::StrCat("none and integer with layer.a ", layer.a.ToString()));
  }
  // Half an MMA step.
  const int64_t least = layout::StepColumns(layer.a.bits()) / 2;
  if (layer.b_group != 0 && layer.b_group < least) {
    return NoFormat("layer.b_group", absl::StrCat(layer.b_group),
                    absl::StrCat("groups of at least ", least,
                                 " columns with layer.a ", layer.a.ToString()));
  }
  if (layer.b_scale_window) {
    if (layer.a != kFloat8e4m3 && layer.a != kFloat8e5m2) {
      return NoFormat("layer.b_scale_window", "1",
                      absl::StrCat("0 with layer.a ", layer.a.ToString()));
    }
    if (layer.b_group < layout::StepColumns(8)) {
      return NoFormat("layer.b_group", absl::StrCat(layer.b_group),
                      "groups of at least 32 columns with "
                      "layer.b_scale_window");
    }
    if (layer.a_scale == InputScale::kGroup) {
      return NoFormat("layer.a_scale", "group",
                      "none, tensor and token with layer.b_scale_window");
    }
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
  if (layer.b_scale_window) return false;
  if (!HasScaleType(layer) || layer.a.bits() < 16) return true;
  const DataType type = layer.b_scale_type;
  return type.exponent_bits() > layer.a.exponent_bits() ||
         type.mantissa_bits() > layer.a.mantissa_bits();
}

int WindowOctaves(DataType a) {
  // Exponents of the least normal number, of the largest one, and of B's 0.5
  // and 6 (whose mantissa both types have).
  const int least = 2 - (1 << (a.exponent_bits() - 1));
  const int most = static_cast<int>(std::floor(std::log2(a.MaxFinite())));
  return most - 2 - (least + 1);
}

bool IsFiniteWeight(const LayerConfig& layer, double value) {
  return layer.b.is_integer() || std::fabs(value) <= layer.a.MaxFinite();
}

double LargestWeightValue(const LayerConfig& layer) {
  double largest = 0;
  for (const double value : layer.b.CodeTable()) {
    if (IsFiniteWeight(layer, value)) {
      largest = std::max(largest, std::fabs(value));
    }
  }
  return largest;
}

WeightLayout WeightLayoutOf(const LayerConfig& layer) {
  WeightLayout w;
  w.bits = layer.b.bits();
  w.width = layer.a.bits();
  if (w.bits == w.width) {
    w.code_layout = layout::CodeLayout::kRows;
  } else if (layer.b.is_float()) {
    w.code_layout = layout::FloatLayout(w.width, layer.b.exponent_bits());
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
  // One group is a channel scale, which needs no window.
  w.window = layer.b_scale_window && w.group != 0;
  if (w.window) w.code_layout = layout::CodeLayout::kTable;
  w.window_offset = w.tensor_offset + (w.tensor_scale ? 16 : 0);
  w.scale_bytes = w.window_offset +
                  (w.window ? layout::RoundUp(layer.n, layout::kUnitRows) : 0);
  return w;
}

}  // namespace hone
