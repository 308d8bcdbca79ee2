// Quantize activations: 16-bit floats to the codes and float32 scales that a
// GEMM with 8- or 4-bit activations reads. On the CPU, and as the device kernel
// of kernels/device/pack/quantize_input.cuh, which gives the same bytes.
//
// Input X [M, K] is float16 or bfloat16, row-major and dense. Codes [M, K] of
// layer.a, row-major and dense too; two 4-bit codes a byte, the even column in
// the low half. A value is code · scale. With layer.a_scale
//   token   a scale per row                            scales [M]
//   group   a scale per row and a_group columns        scales [M, G], or [G, M]
//           where compute.a_scale_layout is column_major; G = ⌈K / a_group⌉
//   tensor  one scale, which the caller gives
//
// Arithmetic, in float32, one IEEE operation after the other:
//   most   the largest |x| that share the scale, an infinity counting as the
//          largest finite value of X's type
//   scale  most / the largest value of layer.a (integers: 2^(bits − 1) − 1, so
//          that the least code stays unused), at least 2^-126; 1 if most is 0
//   q      x · (1 / scale): two roundings, so q is within 1.5 units in the last
//          place of x / scale
//   code   the one nearest to q, ties to even, saturating
// Infinities give the largest value of their sign. A NaN makes its token's (or
// group's) results NaN, as it would unquantized: the scale there is NaN, and
// all codes are NaN (0x7f) or, in types without one, 0. With a given scale only
// its own code is NaN or 0.
//
// Every function is pure and thread-safe.
#ifndef HONE_KERNELS_PACK_QUANTIZE_INPUT_H_
#define HONE_KERNELS_PACK_QUANTIZE_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/codegen/launch_plan.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

struct QuantizedInput {
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

// Whether activations of this problem are made here: layer.a is float8e4m3,
// float8e5m2, int8, int4 or float4e2m1, layer.a_scale is not none, and layer.k
// is even where codes have 4 bits. InvalidArgument names the field and the
// legal values.
absl::Status CheckInputFormat(const Problem& problem);

// Sizes for M rows: bytes of the codes, and the number of scales.
int64_t InputCodeBytes(const LayerConfig& layer, int64_t m);
int64_t InputScales(const LayerConfig& layer, int64_t m);

// `x` holds codes of `input`, float16 or bfloat16; its size must be a multiple
// of K. `given_scale` is used where layer.a_scale is tensor, must be finite and
// at least 2^-126 there, and is returned as the one scale. InvalidArgument
// names what is wrong; the errors of CheckInputFormat().
absl::StatusOr<QuantizedInput> QuantizeInput(const Problem& problem,
                                             DataType input,
                                             absl::Span<const uint16_t> x,
                                             float given_scale = 1);

// A translation unit for the device; it serves every M.
struct DeviceQuantizeInput {
  std::string source;
  // NVRTC's --gpu-architecture.
  std::string arch;
};

// InvalidArgument unless `input` is float16 or bfloat16; the errors of
// CheckInputFormat().
absl::StatusOr<DeviceQuantizeInput> RenderQuantizeInput(
    const Problem& problem, DataType input, const DeviceSpec& device);

// Its launch for M rows, at least 1 and at most 2^31 / G: reads kInput and
// writes kA and kAScale, or reads kAScale where layer.a_scale is tensor.
LaunchPlan PlanQuantizeInput(const Problem& problem, int64_t m);

}  // namespace hone

#endif  // HONE_KERNELS_PACK_QUANTIZE_INPUT_H_
