#include "kernels/reference/reference.h"

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

}  // namespace

OracleResult Oracle(const Problem& problem, int64_t m,
                    absl::Span<const uint16_t> a,
                    const QuantizedWeights& weights,
                    absl::Span<const uint16_t> bias) {
  const LayerConfig& layer = problem.layer;
  const int64_t groups = ScaleGroups(layer);
  const std::vector<double> x = Decode(layer.a, a);
  const std::vector<double> offsets = Decode(layer.c, bias);
  std::vector<double> row(layer.k);
  OracleResult result;
  result.c.resize(m * layer.n);
  result.magnitude.resize(m * layer.n);
  for (int64_t n = 0; n < layer.n; ++n) {
    for (int64_t k = 0; k < layer.k; ++k) {
      const int64_t group = layer.b_group == 0 ? 0 : k / layer.b_group;
      row[k] = weights.values[n * layer.k + k] *
               layer.b_scale_type.Decode(weights.scales[n * groups + group]);
    }
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t k = 0; k < layer.k; ++k) {
        const double product = x[i * layer.k + k] * row[k];
        sum += product;
        magnitude += std::fabs(product);
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

Tolerance DeriveTolerance(const Problem& problem) {
  const LayerConfig& layer = problem.layer;
  Tolerance tolerance;
  // The output is rounded once, by at most half a unit in the last place.
  tolerance.output_relative = HalfUlp(layer.c);
  // A dequantized weight times its group scale is rounded to A's type before
  // the MMA: half a unit each, relative to that weight, so to its product.
  // Channel scales are applied in float32 instead.
  const double weight =
      layer.b_scale == ScaleGranularity::kGroup ? HalfUlp(layer.a) : 0.0;
  // float32 accumulation. The tensor core adds the products of a step with the
  // accumulator aligned to the largest of them and may truncate below float32's
  // last bit: at most one unit (2^-23) of the running magnitude a step of 16
  // products. Steps follow one another along K, so the errors add up to at most
  // (K / 16) · 2^-23 of the magnitude; splits and warps only shorten the chain.
  // Epilogue operations (sums over warps and splits, scale, bias) add a few.
  const double steps = static_cast<double>(layer.k) / 16 + 96;
  const double accumulation = steps * std::ldexp(1.0, -23);
  tolerance.product_relative = weight + accumulation;
  // A rounding spread evenly over half a unit has that over √3 as its root
  // mean square; independent roundings add in squares. Truncation in the
  // accumulator has a sign, so it adds linearly.
  tolerance.relative_norm =
      2 * (std::hypot(tolerance.output_relative, weight) / std::sqrt(3.0) +
           accumulation);
  return tolerance;
}

Comparison Compare(const Problem& problem, int64_t m,
                   absl::Span<const uint16_t> out, const OracleResult& oracle) {
  const DataType type = problem.layer.c;
  const Tolerance tolerance = DeriveTolerance(problem);
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
