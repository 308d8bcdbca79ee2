// Every weight format that tests run over: types of B with granularities and
// types of scales, zero points and the presets.
#ifndef HONE_TESTS_KERNELS_FORMAT_LIST_H_
#define HONE_TESTS_KERNELS_FORMAT_LIST_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/config/problem.h"
#include "kernels/config/weight_layout.h"
#include "kernels/pack/pack.h"

namespace hone {

// Every type of at most 8 bits that B may have.
inline std::vector<DataType> NarrowTypes() {
  std::vector<DataType> types;
  for (int bits = 1; bits <= 8; ++bits) {
    types.push_back(DataType::Uint(bits));
    types.push_back(DataType::Int(bits));
  }
  for (int e = 0; e <= 7; ++e) {
    for (int m = e == 0 ? 1 : 0; 1 + e + m <= 8; ++m) {
      types.push_back(DataType::Float(e, m));
    }
  }
  return types;
}

// The activation types, widest first.
inline std::vector<DataType> ActivationTypes() {
  return {kFloat16, kBfloat16, kFloat8e4m3, kFloat8e5m2,
          kInt8,    kInt4,     kFloat4e2m1};
}

// How a layer's weights are scaled.
struct Scaling {
  ScaleGranularity granularity;
  DataType type;
  int64_t group = 0;
  int64_t group_n = 0;
};

inline std::vector<Scaling> Scalings() {
  using enum ScaleGranularity;
  std::vector<Scaling> all = {{kNone, kFloat16}, {kTensor, kFloat32}};
  for (const DataType type :
       {kFloat16, kBfloat16, kFloat8e4m3, kFloat8e5m2, kFloat8e8m0, kFloat32}) {
    all.push_back({kChannel, type});
  }
  for (const DataType type :
       {kFloat16, kBfloat16, kFloat8e4m3, kFloat8e5m2, kFloat8e8m0}) {
    for (const int64_t group : {16, 32, 64, 128, 256}) {
      all.push_back({kGroup, type, group});
    }
    all.push_back({kGroupTensor, type, 16});
    all.push_back({kGroupTensor, type, 64});
  }
  for (const int64_t group : {32, 128}) {
    all.push_back({kBlock, kFloat32, group, 64});
    all.push_back({kBlock, kFloat32, group, 128});
  }
  return all;
}

inline LayerConfig MakeLayer(int64_t n, int64_t k, DataType a, DataType b,
                             const Scaling& scaling,
                             ZeroPoint zero = ZeroPoint::kNone) {
  LayerConfig layer;
  layer.n = n;
  layer.k = k;
  layer.a = a;
  layer.c = a.bits() == 16 ? a : kFloat16;
  layer.b = b;
  layer.b_scale = scaling.granularity;
  layer.b_scale_type = scaling.type;
  layer.b_group = scaling.group;
  layer.b_group_n = scaling.group_n;
  layer.zero_point = zero;
  return layer;
}

// Types of B that go with activations of type `a`: what
// CheckWeightFormat() lets pass, whose own test has the list.
inline std::vector<DataType> WeightTypes(DataType a) {
  std::vector<DataType> types;
  for (const DataType b : NarrowTypes()) {
    if (CheckWeightFormat(
            MakeLayer(64, 64, a, b, {ScaleGranularity::kNone, kFloat16}))
            .ok()) {
      types.push_back(b);
    }
  }
  return types;
}

// How A is scaled beside B's scaling: each kind in turn.
inline void ScaleInput(LayerConfig& layer, size_t turn) {
  if (layer.a.bits() == 16) return;
  constexpr InputScale kKinds[] = {InputScale::kToken, InputScale::kGroup,
                                   InputScale::kTensor, InputScale::kNone};
  layer.a_scale = kKinds[turn % 4];
  if (layer.a_scale == InputScale::kGroup) {
    layer.a_group = int64_t{32} << turn / 4 % 4;
  }
}

// Formats of a type of 8 or 4 bits: each type of B with channel and group
// scales, and zero points where they have a sign to spare; each scaling with
// weights of the same type and with narrow ones; the presets.
inline std::vector<LayerConfig> NarrowFormats(int64_t n, int64_t k,
                                              DataType a) {
  using enum ScaleGranularity;
  std::vector<LayerConfig> all;
  const auto add = [&](LayerConfig layer) {
    if (!CheckWeightFormat(layer).ok()) return;
    ScaleInput(layer, all.size());
    if (layer.b_scale_window && layer.a_scale == InputScale::kGroup) {
      layer.a_scale = InputScale::kToken;
      layer.a_group = 0;
    }
    // Outputs are of either type.
    layer.c = all.size() % 2 == 0 ? kFloat16 : kBfloat16;
    all.push_back(layer);
  };
  for (const DataType b : WeightTypes(a)) {
    add(MakeLayer(n, k, a, b, {kChannel, kFloat32}));
    add(MakeLayer(n, k, a, b, {kGroup, kFloat16, 64}));
    if (b.kind() != DataType::Kind::kUint) continue;
    add(MakeLayer(n, k, a, b, {kChannel, kFloat16}, ZeroPoint::kInteger));
    add(MakeLayer(n, k, a, b, {kGroup, kFloat16, 128}, ZeroPoint::kInteger));
  }
  for (const Scaling& scaling : Scalings()) {
    add(MakeLayer(n, k, a, a, scaling));
    add(MakeLayer(n, k, a, a.bits() == 8 ? kInt4 : DataType::Int(3), scaling));
  }
  for (const char* preset : {"mxfp4", "mxfp8", "nvfp4"}) {
    LayerConfig layer = MakeLayer(n, k, a, kInt4, {kChannel, kFloat16});
    if (!ApplyPreset(preset, layer).ok()) std::abort();
    add(layer);
    if (layer.b_scale_type != kFloat8e8m0) continue;
    // With scales of A that leave room for it.
    layer.b_scale_window = true;
    add(layer);
    add(layer);
  }
  return all;
}

// Formats of a 16-bit type: each type of B with channel and group scales and
// zero points, each scaling with a narrow integer, a float and where legal a
// zero point, and the presets.
inline std::vector<LayerConfig> WideFormats(int64_t n, int64_t k, DataType a) {
  using enum ScaleGranularity;
  std::vector<LayerConfig> all;
  for (const DataType b : WeightTypes(a)) {
    all.push_back(MakeLayer(n, k, a, b, {kChannel, a}));
    all.push_back(MakeLayer(n, k, a, b, {kGroup, a, 64}));
    if (b.kind() != DataType::Kind::kUint) continue;
    for (const ZeroPoint zero : {ZeroPoint::kInteger, ZeroPoint::kFloat}) {
      all.push_back(MakeLayer(n, k, a, b, {kChannel, a}, zero));
      all.push_back(MakeLayer(n, k, a, b, {kGroup, a, 32}, zero));
    }
  }
  for (const Scaling& scaling : Scalings()) {
    all.push_back(MakeLayer(n, k, a, kInt4, scaling));
    all.push_back(MakeLayer(n, k, a, kFloat8e4m3, scaling));
    if (scaling.granularity == kBlock) continue;
    for (const ZeroPoint zero : {ZeroPoint::kInteger, ZeroPoint::kFloat}) {
      all.push_back(MakeLayer(n, k, a, DataType::Uint(4), scaling, zero));
    }
  }
  for (const char* preset : {"mxfp4", "mxfp8", "nvfp4"}) {
    LayerConfig layer = MakeLayer(n, k, a, kInt4, {kChannel, a});
    if (!ApplyPreset(preset, layer).ok()) std::abort();
    all.push_back(layer);
  }
  return all;
}

// The formats of an activation type, a few hundred for one of 16 bits; n and k
// as given.
inline std::vector<LayerConfig> FormatsOf(DataType a, int64_t n, int64_t k) {
  return a.bits() == 16 ? WideFormats(n, k, a) : NarrowFormats(n, k, a);
}

inline std::vector<LayerConfig> AllFormats(int64_t n, int64_t k) {
  std::vector<LayerConfig> all;
  for (const DataType a : ActivationTypes()) {
    const std::vector<LayerConfig> some = FormatsOf(a, n, k);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Random legal codes, scales and zero points; outputs of a few units on
// standard normal activations.
inline QuantizedWeights RandomWeights(const LayerConfig& layer, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const WeightLayout w = WeightLayoutOf(layer);
  QuantizedWeights weights;
  std::vector<uint8_t> legal;
  double square = 0;
  const std::vector<double> values = layer.b.CodeTable();
  for (size_t code = 0; code < values.size(); ++code) {
    // Wide floats would let single weights drown the others.
    if (!(std::fabs(values[code]) <= 512)) continue;
    if (!IsFiniteWeight(layer, values[code])) continue;
    legal.push_back(static_cast<uint8_t>(code));
    square += values[code] * values[code];
  }
  const double deviation =
      std::sqrt(square / static_cast<double>(legal.size()));
  weights.codes.resize(layer.n * layer.k);
  for (auto& code : weights.codes) code = legal[random() % legal.size()];
  const bool tensor = w.tensor_scale;
  double base = 1 / (deviation * std::sqrt(static_cast<double>(layer.k)));
  if (tensor) {
    const double factor = w.has_scales() ? 4 : 1;
    weights.tensor_scale = static_cast<float>(base / factor);
    base = factor;
  }
  if (w.has_scales()) {
    weights.scales.resize(ScaleRows(layer) * w.groups);
    for (auto& scale : weights.scales) {
      // float8e4m3 ends at 2^-9; stay where it has digits.
      const double value =
          std::max(base * std::exp(0.5 * normal(random)),
                   layer.b_scale_type == kFloat8e4m3 ? 1.0 / 32 : 0.0);
      scale = layer.b_scale_type.Encode(value);
    }
  }
  if (w.zero_bits != 0) {
    weights.zeros.resize(layer.n * w.groups);
    std::uniform_real_distribution<double> zero(0, layer.b.MaxFinite());
    for (auto& z : weights.zeros) {
      const double value = zero(random);
      z = static_cast<uint16_t>(layer.zero_point == ZeroPoint::kInteger
                                    ? std::lround(value)
                                    : layer.a.Encode(value));
    }
  }
  return weights;
}

}  // namespace hone

#endif  // HONE_TESTS_KERNELS_FORMAT_LIST_H_
