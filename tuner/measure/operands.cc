#include "tuner/measure/operands.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/config/weight_layout.h"
#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/pack/device_pack.h"
#include "kernels/reference/reference.h"
#include "tuner/measure/device/generator.cuh"

namespace hone {
namespace {

int64_t PaddedK(const LayerConfig& layer) {
  return layout::RoundUp(layer.k, layout::kUnitColumns);
}
int64_t PaddedN(const LayerConfig& layer) {
  return layout::RoundUp(layer.n, layout::kUnitRows);
}

// Scales of one row of A.
int64_t InputGroups(const LayerConfig& layer) {
  return layer.a_group == 0 ? 1 : (layer.k + layer.a_group - 1) / layer.a_group;
}

}  // namespace

absl::Status CheckOperands(const Problem& problem) {
  const LayerConfig& layer = problem.layer;
  HONE_RETURN_IF_ERROR(CheckWeightFormat(layer));
  if (problem.compute.gemm != GemmType::kDense) {
    return absl::UnimplementedError(
        absl::StrCat("operands: gemm ", ToString(problem.compute.gemm),
                     " has no generator; it must be dense"));
  }
  return absl::OkStatus();
}

int GeneratorType(DataType type) { return CodeFormat(type); }

generator::WeightFormat GeneratorFormat(const LayerConfig& layer) {
  const WeightLayout w = WeightLayoutOf(layer);
  generator::WeightFormat format = {};
  format.bits = w.bits;
  format.width = w.width;
  format.code_layout = static_cast<int>(w.code_layout);
  format.stored_xor = static_cast<int>(StoredXor(layer));
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
  // No scale is below a quarter of the base, or above four times it.
  format.window_code = w.window
                           ? static_cast<int>(layer.b_scale_type.Encode(
                                 0.25 * static_cast<double>(ScaleBase(layer))))
                           : 0;
  format.window_offset = w.window_offset;
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
  o.helpers_ = &helpers;
  o.problem_ = problem;
  o.seed_ = seed;
  HONE_ASSIGN_OR_RETURN(o.a_,
                        DeviceBuffer::Allocate(a_count * layer.a.bits() / 8));
  HONE_ASSIGN_OR_RETURN(o.b_, DeviceBuffer::Allocate(PackedWeightBytes(layer)));
  HONE_ASSIGN_OR_RETURN(o.scales_,
                        DeviceBuffer::Allocate(PackedScaleBytes(layer)));
  HONE_RETURN_IF_ERROR(LaunchHelper(
      helpers.fill_activations, StridingGrid(a_count), 256, stream, o.a(),
      a_count, seed, GeneratorType(layer.a), int32_t{layer.a.bits()}));
  if (layer.a_scale != InputScale::kNone) {
    HONE_ASSIGN_OR_RETURN(
        o.a_scales_, o.MakeInputScales(max_m, /*column_major=*/false, stream));
  }
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

absl::StatusOr<DeviceBuffer> Operands::MakeInputScales(
    int64_t m, bool column_major, StreamHandle stream) const {
  const LayerConfig& layer = problem_.layer;
  const auto rows =
      static_cast<uint64_t>(layer.a_scale == InputScale::kTensor ? 1 : m);
  const auto groups = static_cast<uint64_t>(InputGroups(layer));
  HONE_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                        DeviceBuffer::Allocate(rows * groups * sizeof(float)));
  HONE_RETURN_IF_ERROR(
      LaunchHelper(helpers_->fill_input_scales, StridingGrid(rows * groups),
                   256, stream, buffer.ptr(), rows, groups, seed_,
                   GeneratorType(layer.a), int32_t{column_major}));
  return buffer;
}

absl::StatusOr<DevicePtr> Operands::AScales(int64_t m, StreamHandle stream) {
  if (problem_.compute.a_scale_layout == InputScaleLayout::kRowMajor ||
      problem_.layer.a_scale != InputScale::kGroup) {
    return a_scales_.ptr();
  }
  auto found = by_m_.find(m);
  if (found == by_m_.end()) {
    HONE_ASSIGN_OR_RETURN(DeviceBuffer scales,
                          MakeInputScales(m, /*column_major=*/true, stream));
    found = by_m_.emplace(m, std::move(scales)).first;
  }
  return found->second.ptr();
}

std::vector<const DeviceBuffer*> Operands::Buffers() const {
  std::vector<const DeviceBuffer*> buffers = {&a_, &a_scales_, &b_, &scales_,
                                              &bias_};
  for (const auto& [m, scales] : by_m_) buffers.push_back(&scales);
  return buffers;
}

generator::InputScales Operands::RowScales() const {
  const LayerConfig& layer = problem_.layer;
  generator::InputScales scales = {};
  if (layer.a_scale == InputScale::kNone) return scales;
  // A pointer in the device's memory, which only the device follows.
  scales.values = reinterpret_cast<const float*>(a_scales_.ptr());
  scales.row_stride = layer.a_scale == InputScale::kTensor
                          ? 0
                          : static_cast<int>(InputGroups(layer));
  scales.group = static_cast<int>(layer.a_group);
  return scales;
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
  o.a_scales.resize(static_cast<size_t>(InputScaleCount(problem, m)));
  const int64_t a_groups = InputGroups(layer);
  for (int64_t row = 0; row < m && !o.a_scales.empty(); ++row) {
    for (int64_t group = 0; group < a_groups; ++group) {
      const int64_t column = group * std::max<int64_t>(layer.a_group, 1);
      o.a_scales[static_cast<size_t>(
          InputScaleIndex(problem, m, row, column))] =
          generator::InputScaleValue(
              seed,
              layer.a_scale == InputScale::kTensor
                  ? 0
                  : static_cast<uint64_t>(row * a_groups + group),
              GeneratorType(layer.a));
    }
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
