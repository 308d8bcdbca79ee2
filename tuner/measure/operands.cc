#include "tuner/measure/operands.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/device/memory/packed_layout.cuh"
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
  for (const auto& [field, type] :
       {std::pair<absl::string_view, DataType>{"a", layer.a},
        {"c", layer.c},
        {"b_scale_type", layer.b_scale_type}}) {
    if (!IsFloat16Bits(type)) {
      return Unsupported(field, type.ToString(), "float16 or bfloat16");
    }
  }
  if (layer.b != kInt4 && layer.b != kInt8) {
    return Unsupported("b", layer.b.ToString(), "int4 or int8");
  }
  if (layer.b_scale != ScaleGranularity::kChannel &&
      layer.b_scale != ScaleGranularity::kGroup) {
    return Unsupported("b_scale", ToString(layer.b_scale), "channel or group");
  }
  if (layer.zero_point != ZeroPoint::kNone) {
    return Unsupported("zero_point", ToString(layer.zero_point), "none");
  }
  if (layer.a_scale != InputScale::kNone) {
    return Unsupported("a_scale", ToString(layer.a_scale), "none");
  }
  if (problem.compute.gemm != GemmType::kDense) {
    return Unsupported("gemm", ToString(problem.compute.gemm), "dense");
  }
  return absl::OkStatus();
}

int GeneratorType(DataType type) {
  return type == kBfloat16 ? generator::kBrain : generator::kHalf;
}

float ScaleBase(const LayerConfig& layer) {
  // Uniform codes have a deviation of 2^bits / sqrt(12).
  const double deviation = std::ldexp(1.0, layer.b.bits()) / std::sqrt(12.0);
  const double base =
      8.0 / (deviation * std::sqrt(static_cast<double>(layer.k)));
  // A float16 scale stays normal down to a quarter of this.
  return static_cast<float>(std::max(base, std::ldexp(1.0, -10)));
}

absl::StatusOr<Operands> Operands::Create(const HelperKernels& helpers,
                                          const Problem& problem, int64_t max_m,
                                          uint64_t seed, StreamHandle stream) {
  HONE_RETURN_IF_ERROR(CheckOperands(problem));
  const LayerConfig& layer = problem.layer;
  const int bits = layer.b.bits();
  const uint64_t a_count = static_cast<uint64_t>(max_m) * layer.k;
  const auto n_padded = static_cast<uint64_t>(PaddedN(layer));
  const auto k_padded = static_cast<uint64_t>(PaddedK(layer));
  const auto groups =
      static_cast<uint64_t>(layout::ScaleGroups(layer.k, layer.b_group));
  Operands o;
  HONE_ASSIGN_OR_RETURN(o.a_, DeviceBuffer::Allocate(a_count * 2));
  HONE_ASSIGN_OR_RETURN(o.b_, DeviceBuffer::Allocate(
                                  layout::PackedBytes(layer.n, layer.k, bits)));
  HONE_ASSIGN_OR_RETURN(o.scales_,
                        DeviceBuffer::Allocate(n_padded * groups * 2));
  HONE_RETURN_IF_ERROR(LaunchHelper(helpers.fill_activations,
                                    StridingGrid(a_count), 256, stream, o.a(),
                                    a_count, seed, GeneratorType(layer.a)));
  HONE_RETURN_IF_ERROR(Fill(o.b(), 0, o.b_.bytes(), stream));
  HONE_RETURN_IF_ERROR(LaunchHelper(
      helpers.fill_weights, StridingGrid(n_padded * k_padded), 256, stream,
      o.b(), n_padded, k_padded, static_cast<uint64_t>(layer.k), seed, bits));
  HONE_RETURN_IF_ERROR(
      LaunchHelper(helpers.fill_scales, StridingGrid(n_padded * groups), 256,
                   stream, o.scales(), n_padded, groups, seed, ScaleBase(layer),
                   GeneratorType(layer.b_scale_type)));
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
  const int bits = layer.b.bits();
  const int64_t k_padded = PaddedK(layer);
  const int64_t groups = layout::ScaleGroups(layer.k, layer.b_group);
  const float base = ScaleBase(layer);
  HostOperands o;
  o.a.resize(static_cast<size_t>(m * layer.k));
  for (size_t i = 0; i < o.a.size(); ++i) {
    o.a[i] = static_cast<uint16_t>(
        generator::ActivationCode(seed, i, GeneratorType(layer.a)));
  }
  o.weights.values.reserve(static_cast<size_t>(layer.n * layer.k));
  o.weights.scales.reserve(static_cast<size_t>(layer.n * groups));
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t k = 0; k < layer.k; ++k) {
      const auto code =
          static_cast<int>(generator::WeightCode(seed, n * k_padded + k, bits));
      o.weights.values.push_back(
          static_cast<int16_t>(code - (1 << (bits - 1))));
    }
    for (int64_t g = 0; g < groups; ++g) {
      o.weights.scales.push_back(static_cast<uint16_t>(generator::ScaleCode(
          seed, n * groups + g, base, GeneratorType(layer.b_scale_type))));
    }
  }
  if (layer.bias) {
    for (int64_t n = 0; n < layer.n; ++n) {
      o.bias.push_back(static_cast<uint16_t>(
          generator::BiasCode(seed, n, GeneratorType(layer.c))));
    }
  }
  return o;
}

}  // namespace hone
