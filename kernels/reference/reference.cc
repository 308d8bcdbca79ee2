#include "kernels/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hone {
namespace {

std::vector<double> Decode(DataType type, absl::Span<const uint16_t> codes) {
  std::vector<double> values(codes.size());
  for (size_t i = 0; i < codes.size(); ++i) values[i] = type.Decode(codes[i]);
  return values;
}

double HalfUlp(DataType type) {
  return std::ldexp(1.0, -type.mantissa_bits() - 1);
}

// The longest chain of m16n8k16 steps that is summed in float16 where that is
// asked for: one packed unit of 64 columns (kernels/device/mma/warp_tile.cuh).
constexpr int kFloat16Steps = 4;

// Bound of the rounding of a dequantized weight to A's type, relative to the
// weight. Codes, integer zero points and the differences of both are exact in
// A. A difference with a float zero point is rounded to A. So is its product
// with a group scale before the MMA, unless the scale is a power of two; scales
// in float32 only are applied to accumulators. (So are all where sums are in
// float16; the bound is not tightened for that.)
double WeightRounding(const LayerConfig& layer) {
  double rounding = 0;
  if (layer.zero_point == ZeroPoint::kFloat) rounding += HalfUlp(layer.a);
  if (WeightLayoutOf(layer).group != 0 && !ScalesNeedFloat32(layer) &&
      layer.b_scale_type.mantissa_bits() > 0) {
    rounding += HalfUlp(layer.a);
  }
  return rounding;
}

// Columns whose products are summed by MMAs alone: those of a scale group,
// which float32 sums follow, or all.
int64_t PartialColumns(const LayerConfig& layer) {
  int64_t columns = layer.k;
  const int64_t group = WeightLayoutOf(layer).group;
  // Scales that go into weights leave sums alone.
  if (group != 0 && ScalesNeedFloat32(layer)) columns = group;
  return layer.a_group == 0 ? columns : std::min(columns, layer.a_group);
}

}  // namespace

std::vector<double> DecodeWeights(const LayerConfig& layer,
                                  const QuantizedWeights& weights) {
  const WeightLayout w = WeightLayoutOf(layer);
  const std::vector<double> values = layer.b.CodeTable();
  std::vector<double> out(layer.n * layer.k);
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t k = 0; k < layer.k; ++k) {
      const int64_t group = w.group == 0 ? 0 : k / w.group;
      double value = values[weights.codes[n * layer.k + k]];
      if (layer.zero_point != ZeroPoint::kNone) {
        const uint16_t zero = weights.zeros[n * w.groups + group];
        value -= layer.zero_point == ZeroPoint::kInteger
                     ? static_cast<double>(zero)
                     : layer.a.Decode(zero);
      }
      if (w.has_scales()) {
        value *= layer.b_scale_type.Decode(
            weights.scales[n / w.group_n * w.groups + group]);
      }
      out[n * layer.k + k] = value * static_cast<double>(weights.tensor_scale);
    }
  }
  return out;
}

OracleResult Oracle(const Problem& problem, int64_t m,
                    absl::Span<const uint16_t> a,
                    absl::Span<const float> a_scales,
                    const QuantizedWeights& weights,
                    absl::Span<const uint16_t> bias) {
  const LayerConfig& layer = problem.layer;
  std::vector<double> x = Decode(layer.a, a);
  if (layer.a_scale != InputScale::kNone) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t k = 0; k < layer.k; ++k) {
        x[i * layer.k + k] *= a_scales[InputScaleIndex(problem, m, i, k)];
      }
    }
  }
  const std::vector<double> w = DecodeWeights(layer, weights);
  const std::vector<double> offsets = Decode(layer.c, bias);
  const double floor = MagnitudeFloor(layer);
  OracleResult result;
  result.c.resize(m * layer.n);
  result.magnitude.resize(m * layer.n);
  for (int64_t n = 0; n < layer.n; ++n) {
    const double* row = w.data() + n * layer.k;
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t k = 0; k < layer.k; ++k) {
        const double value = x[i * layer.k + k];
        sum += value * row[k];
        magnitude += std::fabs(value) * std::max(std::fabs(row[k]), floor);
      }
      if (layer.bias) {
        sum += offsets[n];
        magnitude += std::fabs(offsets[n]);
      }
      result.c[i * layer.n + n] = sum;
      result.magnitude[i * layer.n + n] = magnitude;
    }
  }
  return result;
}

int64_t InputScaleCount(const Problem& problem, int64_t m) {
  switch (problem.layer.a_scale) {
    case InputScale::kNone:
      return 0;
    case InputScale::kTensor:
      return 1;
    case InputScale::kToken:
      return m;
    case InputScale::kGroup:
      break;
  }
  const int64_t group = problem.layer.a_group;
  return m * ((problem.layer.k + group - 1) / group);
}

int64_t InputScaleIndex(const Problem& problem, int64_t m, int64_t i,
                        int64_t k) {
  switch (problem.layer.a_scale) {
    case InputScale::kNone:
    case InputScale::kTensor:
      return 0;
    case InputScale::kToken:
      return i;
    case InputScale::kGroup:
      break;
  }
  const int64_t group = k / problem.layer.a_group;
  return problem.compute.a_scale_layout == InputScaleLayout::kColumnMajor
             ? group * m + i
             : i * (InputScaleCount(problem, m) / m) + group;
}

double MagnitudeFloor(const LayerConfig& layer) {
  return WeightRounding(layer) == 0
             ? 0
             : std::ldexp(1.0, 2 - (1 << (layer.a.exponent_bits() - 1)));
}

Tolerance DeriveTolerance(const Problem& problem, MmaInstruction mma) {
  const LayerConfig& layer = problem.layer;
  Tolerance tolerance;
  // The output is rounded once, by at most half a unit in the last place.
  tolerance.output_relative = HalfUlp(layer.c);
  const double weight = WeightRounding(layer);
  // float32 accumulation. The tensor core adds the products of a step with the
  // accumulator aligned to the largest of them and may truncate below float32's
  // last bit: at most one unit (2^-23) of the running magnitude a step of 16
  // products. Steps follow one another along K, so the errors add up to at most
  // (K / 16) · 2^-23 of the magnitude; splits and warps only shorten the chain.
  // Epilogue operations (sums over warps and splits, scale, bias) add a few.
  // Products of 8- and 4-bit floats are exact, and mma.sync sums them as well:
  // on an H200, which converts them to float16, to 2^-23
  // (vectors/sm_90a.jsonl); other devices' mma.sync must show it at their gate.
  // Integers are summed without error, and rounded once where a sum becomes
  // float32.
  const double steps = static_cast<double>(layer.k) / 16 + 96;
  const double accumulation = steps * std::ldexp(1.0, -23);
  tolerance.product_relative = weight + accumulation;
  // A rounding spread evenly over half a unit has that over √3 as its root
  // mean square; independent roundings add in squares. Truncation in the
  // accumulator has a sign, so it adds linearly.
  double square =
      tolerance.output_relative * tolerance.output_relative + weight * weight;
  if (problem.compute.accumulator == kFloat16) {
    // Chains of at most kFloat16Steps steps are summed in float16, then in
    // float32. Each step rounds the chain so far by at most one unit, 2^-10.
    // On random operands the chain's square grows by one step's products a
    // step, so relative to all products the rounding's square is that of one
    // unit times the mean of 1 .. kFloat16Steps, over 3.
    const double unit = 2 * HalfUlp(kFloat16);
    tolerance.product_relative += kFloat16Steps * unit;
    square += unit * unit * (kFloat16Steps + 1) / 2;
  }
  tolerance.relative_norm = 2 * (std::sqrt(square / 3) + accumulation);
  if (mma == MmaInstruction::kWgmma && layer.a.is_float() &&
      layer.a.bits() == 8) {
    // wgmma adds 32 products of 8-bit floats and the sum so far aligned to the
    // largest of them, with 13 fractional bits (measured on an H200:
    // vectors/async/sm_90a.jsonl; DeepSeek-V3, section 3.3.2, finds 14 bits in
    // all). Each step may be off by a unit, 2^-13, of the sum so far. On random
    // operands the errors of the steps are independent, and that sum grows with
    // the root of the steps: so does their error, which an H200 shows to be a
    // unit times that root (0.20 % at K = 8192, 0.14 % in halves).
    const double unit = std::ldexp(1.0, -13);
    const double chain =
        std::ceil(static_cast<double>(PartialColumns(layer)) / 32);
    tolerance.product_relative += chain * unit;
    tolerance.relative_norm += 2 * std::sqrt(chain) * unit;
  }
  return tolerance;
}

Comparison Compare(const Problem& problem, int64_t m,
                   absl::Span<const uint16_t> out, const OracleResult& oracle,
                   MmaInstruction mma) {
  const DataType type = problem.layer.c;
  const Tolerance tolerance = DeriveTolerance(problem, mma);
  // Below the smallest normal number the last place no longer shrinks.
  const double smallest_step = type.Decode(1) / 2;
  Comparison result;
  result.passed = out.size() == oracle.c.size() &&
                  out.size() == static_cast<size_t>(m * problem.layer.n);
  if (!result.passed) return result;
  double difference_norm = 0;
  double norm = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double got = type.Decode(out[i]);
    const double want = oracle.c[i];
    double ratio = 0;
    if (!std::isfinite(want) || std::fabs(want) > type.MaxFinite()) {
      // Infinities and NaNs must arrive as such; past the largest finite value
      // the output is infinite or that value.
      const bool same = std::isnan(want)
                            ? std::isnan(got)
                            : !std::isnan(got) &&
                                  std::signbit(got) == std::signbit(want) &&
                                  std::fabs(got) >= type.MaxFinite();
      ratio = same ? 0 : std::numeric_limits<double>::infinity();
    } else {
      const double bound = tolerance.output_relative * std::fabs(want) +
                           tolerance.product_relative * oracle.magnitude[i] +
                           smallest_step;
      const double difference = std::fabs(got - want);
      difference_norm += difference * difference;
      norm += want * want;
      ratio = std::isfinite(got) ? difference / bound
                                 : std::numeric_limits<double>::infinity();
    }
    if (ratio > result.worst_ratio) {
      result.worst_ratio = ratio;
      result.worst_m = static_cast<int64_t>(i) / problem.layer.n;
      result.worst_n = static_cast<int64_t>(i) % problem.layer.n;
    }
  }
  result.relative_norm = norm == 0 ? std::sqrt(difference_norm)
                                   : std::sqrt(difference_norm / norm);
  result.passed = result.worst_ratio <= 1 &&
                  (static_cast<int64_t>(out.size()) < kNormElements ||
                   result.relative_norm <= tolerance.relative_norm);
  return result;
}

}  // namespace hone
