// The CPU oracle: GEMM in double over packed operands, error metrics and the
// tolerance of each type.
#ifndef HONE_KERNELS_REFERENCE_REFERENCE_H_
#define HONE_KERNELS_REFERENCE_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/config/problem.h"
#include "kernels/pack/pack.h"

namespace hone {

// The weights [N, K] in double: (code − zero) · scale · tensor scale.
std::vector<double> DecodeWeights(const LayerConfig& layer,
                                  const QuantizedWeights& weights);

// C [M, N] in double: sum over k of A[m][k] · weight[n][k], plus bias[n]. `a`
// holds codes of layer.a, [M, K]; `a_scales` what multiplies them: nothing, one
// value, [M], or one per group in the order of compute.a_scale_layout; `bias`
// codes of layer.c, [N] or empty. Also returns, per element, the sum of the
// magnitudes of the products (and of the bias), which the tolerance is derived
// from; a weight counts there with at least MagnitudeFloor(layer), below which
// its rounding no longer shrinks.
struct OracleResult {
  std::vector<double> c;
  std::vector<double> magnitude;
};
OracleResult Oracle(const Problem& problem, int64_t m,
                    absl::Span<const uint16_t> a,
                    absl::Span<const float> a_scales,
                    const QuantizedWeights& weights,
                    absl::Span<const uint16_t> bias);

// How many scales A has at `m` tokens, and which of them column k of row i has.
int64_t InputScaleCount(const Problem& problem, int64_t m);
int64_t InputScaleIndex(const Problem& problem, int64_t m, int64_t i,
                        int64_t k);

// The smallest normal number of A's type where weights may be rounded to it,
// else 0.
double MagnitudeFloor(const LayerConfig& layer);

// The bound on |out − ref| of one element is
//   output_relative · |ref| + product_relative · magnitude
// with both factors derived from the number formats (see reference.cc):
// rounding of the output, rounding of dequantized weights, and accumulation
// over K in float32 or float16.
//
// A kernel may multiply weights by their group scales before the MMA, in type
// A. Then a weight that is not finite in A is infinite: the values of a layer
// must be finite in A.
//
// That is the worst case, which random errors stay far below: at K = 8192 it
// would let a kernel drop one product in a thousand. So the whole output must
// also satisfy ‖out − ref‖ ≤ relative_norm · ‖ref‖ when it has at least
// kNormElements elements: twice the root mean square that the same roundings
// give on random operands of zero mean.
struct Tolerance {
  double output_relative = 0;
  double product_relative = 0;
  double relative_norm = 0;
};
inline constexpr int64_t kNormElements = 256;
// `mma` is the instruction that summed the products: wgmma adds those of 8-bit
// floats with fewer bits.
Tolerance DeriveTolerance(const Problem& problem, MmaInstruction mma);

struct Comparison {
  bool passed = false;
  // ‖out − ref‖ / ‖ref‖.
  double relative_norm = 0;
  // Largest |out − ref| / bound, and where.
  double worst_ratio = 0;
  int64_t worst_m = 0;
  int64_t worst_n = 0;
};
// `out` holds codes of layer.c, [M, N], as `mma` made it. A NaN in `out` where
// the reference is finite never passes.
Comparison Compare(const Problem& problem, int64_t m,
                   absl::Span<const uint16_t> out, const OracleResult& oracle,
                   MmaInstruction mma);

}  // namespace hone

#endif  // HONE_KERNELS_REFERENCE_REFERENCE_H_
