#include "tuner/measure/operands.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/config/weight_layout.h"
#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/pack/device_pack.h"
#include "tuner/measure/device/generator.cuh"

namespace hone {
namespace {

absl::Status Unsupported(absl::string_view field, absl::string_view value,
                         absl::string_view legal) {
  return absl::UnimplementedError(absl::StrCat("operands: ", field, " ", value,
                                               " has no generator; it must be ",
                                               legal));
}

bool IsFloat16Bits(DataType type) {
  return type == kFloat16 || type == kBfloat16;
}

int64_t PaddedK(const LayerConfig& layer) {
  return layout::RoundUp(layer.k, layout::kUnitColumns);
}
int64_t PaddedN(const LayerConfig& layer) {
  return layout::RoundUp(layer.n, layout::kUnitRows);
}

}  // namespace

absl::Status CheckOperands(const Problem& problem) {
  const LayerConfig& layer = problem.layer;
  HONE_RETURN_IF_ERROR(CheckWeightFormat(layer));
  for (const auto& [field, type] :
       {std::pair<absl::string_view, DataType>{"a", layer.a}, {"c", layer.c}}) {
    if (!IsFloat16Bits(type)) {
      return Unsupported(field, type.ToString(), "float16 or bfloat16");
    }
  }
  if (layer.a_scale != InputScale::kNone) {
    return Unsupported("a_scale", ToString(layer.a_scale), "none");
  }
  if (problem.compute.gemm != GemmType::kDense) {
    return Unsupported("gemm", ToString(problem.compute.gemm), "dense");
  }
  return absl::OkStatus();
}

int GeneratorType(DataType type) { return CodeFormat(type); }

generator::WeightFormat GeneratorFormat(const LayerConfig& layer) {
  const WeightLayout w = WeightLayoutOf(layer);
  generator::WeightFormat format = {};
  format.bits = w.bits;
  format.code_layout = static_cast<int>(w.code_layout);
  format.stored_xor = static_cast<int>(StoredXor(layer.b));
  format.format = GeneratorType(layer.b);
  format.scale_format = GeneratorType(layer.b_scale_type);
  format.zero_format = layer.zero_point == ZeroPoint::kFloat
                           ? GeneratorType(layer.a)
                           : GeneratorType(layer.b);
  format.scale_bits = w.scale_bits;
  format.zero_bits = w.zero_bits;
  format.block = w.block ? 1 : 0;
  format.group = static_cast<int>(w.group);
  format.group_n = static_cast<int>(w.group_n);
  format.groups = static_cast<int>(w.groups);
  format.entry_bytes = static_cast<int>(w.entry_bytes);
  format.entry_scale_bytes = static_cast<int>(w.scale_bytes_per_entry);
  format.tensor_scale = w.tensor_scale ? 1 : 0;
  format.tensor_offset = w.tensor_offset;
  return format;
}

namespace {

// What all scales together must come to for outputs of a few units.
double IdealScale(const LayerConfig& layer) {
  const int bits = layer.b.bits();
  double square = 0;
  for (uint32_t code = 0; code < 1u << bits; ++code) {
    const double value = layer.b.Decode(
        generator::LegalWeightCode(code, GeneratorType(layer.b), bits));
    square += value * value;
  }
  const double deviation = std::sqrt(std::ldexp(square, -bits));
  return 8.0 / (deviation * std::sqrt(static_cast<double>(layer.k)));
}

}  // namespace

float ScaleBase(const LayerConfig& layer) {
  if (layer.b_scale == ScaleGranularity::kGroupTensor) return 1;
  // A scale stays normal down to a quarter of this.
  const DataType type = layer.b_scale_type;
  const double smallest =
      type.is_e8m0() ? 0.0
                     : std::ldexp(1.0, 2 - (1 << (type.exponent_bits() - 1)));
  return static_cast<float>(std::max(IdealScale(layer), 4 * smallest));
}

float TensorScale(const LayerConfig& layer) {
  return WeightLayoutOf(layer).tensor_scale
             ? static_cast<float>(IdealScale(layer))
             : 1.0f;
}

absl::StatusOr<Operands> Operands::Create(const HelperKernels& helpers,
                                          const Problem& problem, int64_t max_m,
                                          uint64_t seed, StreamHandle stream) {
  HONE_RETURN_IF_ERROR(CheckOperands(problem));
  const LayerConfig& layer = problem.layer;
  const generator::WeightFormat format = GeneratorFormat(layer);
  const uint64_t a_count = static_cast<uint64_t>(max_m) * layer.k;
  const auto n_padded = static_cast<uint64_t>(PaddedN(layer));
  const auto k_padded = static_cast<uint64_t>(PaddedK(layer));
  Operands o;
  HONE_ASSIGN_OR_RETURN(o.a_, DeviceBuffer::Allocate(a_count * 2));
  HONE_ASSIGN_OR_RETURN(o.b_, DeviceBuffer::Allocate(PackedWeightBytes(layer)));
  HONE_ASSIGN_OR_RETURN(o.scales_,
                        DeviceBuffer::Allocate(PackedScaleBytes(layer)));
  HONE_RETURN_IF_ERROR(LaunchHelper(helpers.fill_activations,
                                    StridingGrid(a_count), 256, stream, o.a(),
                                    a_count, seed, GeneratorType(layer.a)));
  HONE_RETURN_IF_ERROR(LaunchHelper(
      helpers.fill_weights, StridingGrid(n_padded * k_padded / 32), 256, stream,
      o.b(), n_padded, k_padded, static_cast<uint64_t>(layer.k), seed, format));
  // The tail of the tensor scale's 16 bytes.
  HONE_RETURN_IF_ERROR(Fill(o.scales(), 0, o.scales_.bytes(), stream));
  HONE_RETURN_IF_ERROR(LaunchHelper(
      helpers.fill_scales,
      StridingGrid(n_padded / 2 * static_cast<uint64_t>(format.groups)), 256,
      stream, o.scales(), n_padded, seed, ScaleBase(layer), TensorScale(layer),
      format));
  if (layer.bias) {
    const auto n = static_cast<uint64_t>(layer.n);
    HONE_ASSIGN_OR_RETURN(o.bias_, DeviceBuffer::Allocate(n * 2));
    HONE_RETURN_IF_ERROR(LaunchHelper(helpers.fill_bias, StridingGrid(n), 256,
                                      stream, o.bias(), n, seed,
                                      GeneratorType(layer.c)));
  }
  return o;
}

absl::StatusOr<HostOperands> MakeHostOperands(const Problem& problem, int64_t m,
                                              uint64_t seed) {
  HONE_RETURN_IF_ERROR(CheckOperands(problem));
  const LayerConfig& layer = problem.layer;
  const generator::WeightFormat format = GeneratorFormat(layer);
  const int64_t k_padded = PaddedK(layer);
  const int64_t groups = format.groups;
  const float base = ScaleBase(layer);
  HostOperands o;
  o.a.resize(static_cast<size_t>(m * layer.k));
  for (size_t i = 0; i < o.a.size(); ++i) {
    o.a[i] = static_cast<uint16_t>(
        generator::ActivationCode(seed, i, GeneratorType(layer.a)));
  }
  o.weights.codes.reserve(static_cast<size_t>(layer.n * layer.k));
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t k = 0; k < layer.k; ++k) {
      o.weights.codes.push_back(static_cast<uint8_t>(generator::WeightCode(
          seed, n * k_padded + k, format.format, format.bits)));
    }
  }
  if (format.block != 0 || format.scale_bits != 0) {
    for (int64_t i = 0; i < ScaleRows(layer) * groups; ++i) {
      o.weights.scales.push_back(
          generator::ScaleCode(seed, i, base, format.scale_format));
    }
  }
  if (format.zero_bits != 0) {
    for (int64_t i = 0; i < layer.n * groups; ++i) {
      o.weights.zeros.push_back(static_cast<uint16_t>(
          generator::ZeroCode(seed, i, format.zero_format, format.bits)));
    }
  }
  o.weights.tensor_scale = TensorScale(layer);
  if (layer.bias) {
    for (int64_t n = 0; n < layer.n; ++n) {
      o.bias.push_back(static_cast<uint16_t>(
          generator::BiasCode(seed, n, GeneratorType(layer.c))));
    }
  }
  return o;
}

}  // namespace hone
