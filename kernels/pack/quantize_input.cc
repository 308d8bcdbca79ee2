#include "kernels/pack/quantize_input.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/codegen/embedded.h"
#include "kernels/config/status_macros.h"
#include "kernels/device/numeric/codes.cuh"
#include "kernels/device/numeric/input_code.cuh"
#include "kernels/pack/device_pack.h"

namespace hone {
namespace {

constexpr absl::string_view kKernelName = "hone_quantize_input";

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

absl::Status CheckInputType(DataType input) {
  if (input == kFloat16 || input == kBfloat16) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input is ", input.ToString(),
                   "; activations to quantize must be float16 or bfloat16"));
}

// Columns that share a scale, and how many such regions a row has.
int64_t RegionColumns(const LayerConfig& layer) {
  return layer.a_scale == InputScale::kGroup ? layer.a_group : layer.k;
}
int64_t RegionsOfRow(const LayerConfig& layer) {
  return CeilDiv(layer.k, RegionColumns(layer));
}

// How the device kernel divides the work; see its source.
struct Geometry {
  int64_t threads;
  int64_t lanes;
  int64_t vectors;
  int64_t regions;
  int64_t run;
  bool held;
};

Geometry GeometryOf(const LayerConfig& layer) {
  // Four 16-byte loads a thread: three quarters of an H200's SM's threads then
  // have 98 KB in flight, more than memory needs.
  constexpr int64_t kInFlight = 4;
  Geometry g;
  const int64_t vectors = CeilDiv(RegionColumns(layer), 8);
  if (vectors <= 32 * kInFlight) {
    // Four lanes read 64 bytes side by side, two whole sectors.
    g.lanes = 1;
    while (g.lanes < vectors &&
           (g.lanes < 4 || g.lanes * kInFlight < vectors)) {
      g.lanes *= 2;
    }
    g.threads = 256;
  } else {
    g.lanes =
        std::min<int64_t>(1024, CeilDiv(CeilDiv(vectors, kInFlight), 32) * 32);
    g.threads = g.lanes;
  }
  g.vectors = CeilDiv(vectors, g.lanes);
  g.regions = g.lanes <= 32 ? std::max<int64_t>(1, kInFlight / g.vectors) : 1;
  g.run = 1;
  g.held = g.vectors <= 8;
  return g;
}

float ToFloat(DataType input, uint32_t code) {
  return input == kFloat16 ? codes::Decode(code, codes::kHalf)
                           : codes::BitsToFloat(code << 16);
}

}  // namespace

absl::Status CheckInputFormat(const Problem& problem) {
  HONE_RETURN_IF_ERROR(problem.Validate());
  const LayerConfig& layer = problem.layer;
  const DataType a = layer.a;
  if (a == kFloat16 || a == kBfloat16) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layer.a is ", a.ToString(),
        "; activations are quantized to float8e4m3, float8e5m2, int8, int4 or "
        "float4e2m1"));
  }
  if (layer.a_scale == InputScale::kNone) {
    return absl::InvalidArgumentError(
        "layer.a_scale is none; activations are quantized with tensor, token "
        "or group");
  }
  if (a.bits() == 4 && layer.k % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layer.k is ", layer.k, "; it must be even where layer.a has 4 bits"));
  }
  return absl::OkStatus();
}

int64_t InputCodeBytes(const LayerConfig& layer, int64_t m) {
  return m * layer.k * layer.a.bits() / 8;
}

int64_t InputScales(const LayerConfig& layer, int64_t m) {
  return layer.a_scale == InputScale::kTensor ? 1 : m * RegionsOfRow(layer);
}

absl::StatusOr<QuantizedInput> QuantizeInput(const Problem& problem,
                                             DataType input,
                                             absl::Span<const uint16_t> x,
                                             float given_scale) {
  HONE_RETURN_IF_ERROR(CheckInputFormat(problem));
  HONE_RETURN_IF_ERROR(CheckInputType(input));
  const LayerConfig& layer = problem.layer;
  const auto size = static_cast<int64_t>(x.size());
  if (size % layer.k != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", size,
        " activations; there must be a multiple of layer.k, ", layer.k));
  }
  const bool given = layer.a_scale == InputScale::kTensor;
  if (given &&
      !(given_scale >= codes::kLeastInputScale && std::isfinite(given_scale))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the given scale is ", given_scale,
        "; it must be finite and at least 2^-126 where layer.a_scale is "
        "tensor"));
  }
  const int64_t m = size / layer.k;
  const int64_t columns = RegionColumns(layer);
  const int64_t groups = RegionsOfRow(layer);
  const int format = CodeFormat(layer.a);
  const auto largest_input = static_cast<float>(input.MaxFinite());
  const int64_t per_byte = 8 / layer.a.bits();
  QuantizedInput out;
  out.codes.resize(static_cast<size_t>(InputCodeBytes(layer, m)));
  out.scales.resize(static_cast<size_t>(InputScales(layer, m)), given_scale);
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t begin = group * columns;
      const int64_t end = std::min(begin + columns, layer.k);
      const auto at = [&](int64_t column) {
        return ToFloat(input, x[static_cast<size_t>(row * layer.k + column)]);
      };
      float scale = given_scale;
      if (!given) {
        float most = 0;
        for (int64_t column = begin; column < end; ++column) {
          const float magnitude = std::fabs(at(column));
          // NaN stays.
          if (!(magnitude <= most)) most = magnitude;
          if (std::isnan(most)) break;
        }
        if (std::isnan(most)) {
          scale = std::numeric_limits<float>::quiet_NaN();
        } else {
          scale = std::min(most, largest_input) / codes::LargestInput(format);
          scale = most == 0 ? 1 : std::max(scale, codes::kLeastInputScale);
        }
        const bool column_major =
            problem.compute.a_scale_layout == InputScaleLayout::kColumnMajor;
        out.scales[static_cast<size_t>(
            column_major ? group * m + row : row * groups + group)] = scale;
      }
      const float inverse = 1.0f / scale;
      for (int64_t column = begin; column < end; ++column) {
        const float q = at(column) * inverse;
        const int64_t i = row * layer.k + column;
        out.codes[static_cast<size_t>(i / per_byte)] |= static_cast<std::byte>(
            codes::InputCode(q, format) << i % per_byte * layer.a.bits());
      }
    }
  }
  return out;
}

absl::StatusOr<DeviceQuantizeInput> RenderQuantizeInput(
    const Problem& problem, DataType input, const DeviceSpec& device) {
  HONE_RETURN_IF_ERROR(CheckInputFormat(problem));
  HONE_RETURN_IF_ERROR(CheckInputType(input));
  const LayerConfig& layer = problem.layer;
  const Geometry g = GeometryOf(layer);
  DeviceQuantizeInput unit;
  unit.arch = device.NvrtcArch();
  std::string& s = unit.source;
  s = FlattenedDeviceSource({"pack/quantize_input.cuh"});
  absl::StrAppend(&s, "struct Config {\n");
  const auto constant = [&s](absl::string_view name, int64_t value) {
    absl::StrAppend(&s, "  static constexpr int ", name, " = ", value, ";\n");
  };
  constant("kK", layer.k);
  constant("kInput", CodeFormat(input));
  constant("kFormat", CodeFormat(layer.a));
  constant("kBits", layer.a.bits());
  constant("kColumns", RegionColumns(layer));
  constant("kGroups", RegionsOfRow(layer));
  constant("kThreads", g.threads);
  constant("kLanes", g.lanes);
  constant("kVectors", g.vectors);
  constant("kRegions", g.regions);
  constant("kRun", g.run);
  constant("kHeld", g.held);
  constant("kGivenScale", layer.a_scale == InputScale::kTensor);
  constant("kColumnMajor",
           problem.compute.a_scale_layout == InputScaleLayout::kColumnMajor);
  constant("kPackedMax", device.sm_arch >= 90);
  constant(
      "kNarrowConversion",
      layer.a.is_float() && device.sm_arch >= (layer.a.bits() == 4 ? 100 : 89));
  // Several scales at once take registers: half of the threads, else three
  // quarters.
  const int64_t ctas = std::max<int64_t>(
      1, device.max_threads_per_sm * (g.regions > 1 ? 2 : 3) / 4 / g.threads);
  absl::StrAppend(
      &s, "};\nextern \"C\" __global__ void __launch_bounds__(", g.threads,
      ", ", ctas, ")\n", kKernelName,
      "(const hone::u8* x, hone::u8* codes, hone::u8* scales,\n"
      "    int m) {\n"
      "  extern __shared__ __align__(16) hone::u8 shared[];\n"
      "  hone::QuantizeInput<Config>(x, codes, scales, m,\n"
      "                              hone::ptx::SharedAddress(shared)).Run();\n"
      "}\n");
  return unit;
}

LaunchPlan PlanQuantizeInput(const Problem& problem, int64_t m) {
  using Kind = LaunchArg::Kind;
  const Geometry g = GeometryOf(problem.layer);
  LaunchPlan plan;
  plan.kernel_name = std::string(kKernelName);
  plan.grid.x = static_cast<uint32_t>(CeilDiv(m * RegionsOfRow(problem.layer),
                                              g.threads / g.lanes * g.regions));
  plan.block.x = static_cast<uint32_t>(g.threads);
  plan.smem_bytes = g.lanes > 32 ? static_cast<uint32_t>(g.lanes / 32 * 4) : 0;
  plan.args = {{Kind::kBuffer, BufferRole::kInput, 0},
               {Kind::kBuffer, BufferRole::kA, 0},
               {Kind::kBuffer, BufferRole::kAScale, 0},
               {Kind::kInt32, BufferRole::kA, static_cast<int32_t>(m)}};
  return plan;
}

}  // namespace hone
