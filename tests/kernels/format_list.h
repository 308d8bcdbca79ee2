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

// Types of B that go with 16-bit activations of type `a`.
inline std::vector<DataType> WeightTypes(DataType a) {
  std::vector<DataType> types;
  for (int bits = 1; bits <= 8; ++bits) {
    types.push_back(DataType::Uint(bits));
    types.push_back(DataType::Int(bits));
  }
  for (int e = 0; e <= a.exponent_bits(); ++e) {
    for (int m = e == 0 ? 1 : 0; 1 + e + m <= 8; ++m) {
      if (DataType::Float(e, m).is_e8m0()) continue;
      types.push_back(DataType::Float(e, m));
    }
  }
  return types;
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
  layer.a = layer.c = a;
  layer.b = b;
  layer.b_scale = scaling.granularity;
  layer.b_scale_type = scaling.type;
  layer.b_group = scaling.group;
  layer.b_group_n = scaling.group_n;
  layer.zero_point = zero;
  return layer;
}

// Each type of B with channel and group scales, each scaling with a narrow
// integer, a float and where legal a zero point, and the presets; n and k as
// given. A few hundred.
inline std::vector<LayerConfig> AllFormats(int64_t n, int64_t k) {
  using enum ScaleGranularity;
  std::vector<LayerConfig> all;
  for (const DataType a : {kFloat16, kBfloat16}) {
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
  // Wide floats would let single weights drown the others.
  const double limit = std::min(layer.a.MaxFinite(), 512.0);
  for (size_t code = 0; code < values.size(); ++code) {
    if (!(std::fabs(values[code]) <= limit)) continue;
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
