#include "kernels/codegen/codegen.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"
#include "kernels/config/weight_layout.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

constexpr absl::string_view kKernelName = "hone_gemm";

std::string TypeName(const LayerConfig& layer, DataType type) {
  if (type == kFloat16) return "hone::Float16";
  if (type == kBfloat16) return "hone::Bfloat16";
  if (type == kFloat8e4m3) return "hone::Float8e4m3";
  if (type == kFloat8e5m2) return "hone::Float8e5m2";
  if (type == kFloat4e2m1) return "hone::Float4e2m1";
  // With zero points the weights' operand has a sign.
  const bool unsigned_weights = layer.b.kind() == DataType::Kind::kUint &&
                                layer.zero_point == ZeroPoint::kNone;
  return absl::StrCat("hone::Integer", type.bits(), "<", unsigned_weights, ">");
}

std::string ScaleName(DataType type) {
  if (type == kFloat16) return "hone::WideScale<hone::Float16>";
  if (type == kBfloat16) return "hone::WideScale<hone::Bfloat16>";
  if (type == kFloat8e8m0) return "hone::PowerScale";
  if (type == kFloat32) return "hone::FloatScale";
  return absl::StrCat("hone::MiniScale<", type.exponent_bits(), ", ",
                      type.mantissa_bits(), ">");
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t Tiles(const Problem& problem, const TuningConfig& config, int64_t m) {
  return CeilDiv(m, config.block_m) * CeilDiv(problem.layer.n, config.block_n);
}

// The workspace layout of kernels/device/epilogue/epilogue.cuh.
uint64_t CounterBytes(int64_t tiles) {
  return static_cast<uint64_t>(CeilDiv(tiles * 4, 256) * 256);
}

std::vector<LaunchArg> Arguments(const Problem& problem, int64_t m) {
  using Kind = LaunchArg::Kind;
  std::vector<LaunchArg> arguments = {
      {Kind::kBuffer, BufferRole::kA, 0},
      {Kind::kBuffer, BufferRole::kB, 0},
      {Kind::kBuffer, BufferRole::kBScale, 0},
      {Kind::kBuffer, BufferRole::kBias, 0},
      {Kind::kBuffer, BufferRole::kC, 0},
      {Kind::kBuffer, BufferRole::kWorkspace, 0},
      {Kind::kInt32, BufferRole::kA, static_cast<int32_t>(m)}};
  if (problem.layer.a_scale != InputScale::kNone) {
    arguments.push_back({Kind::kBuffer, BufferRole::kAScale, 0});
  }
  return arguments;
}

}  // namespace

KernelTypes TypesOf(const LayerConfig& layer) {
  KernelTypes types;
  const DataType b = layer.b;
  const bool narrow = layer.a.bits() < 16;
  types.a_file = narrow ? "numeric/narrow.cuh" : "numeric/float16.cuh";
  types.a = TypeName(layer, layer.a);
  types.scale = ScaleName(layer.b_scale_type);
  absl::string_view zero_kind = "kNone";
  types.zero = "hone::NoZero";
  if (layer.zero_point == ZeroPoint::kInteger) {
    zero_kind = "kInteger";
    types.zero = absl::StrCat("hone::IntegerZero<",
                              WeightLayoutOf(layer).zero_bits, ">");
  } else if (layer.zero_point == ZeroPoint::kFloat) {
    zero_kind = "kFloat";
    types.zero = "hone::FloatZero";
  }
  if (WeightLayoutOf(layer).direct()) {
    types.weight_file = "numeric/narrow.cuh";
    types.weight = absl::StrCat("hone::DirectWeight<", b.bits(), ">");
  } else if (narrow && b.is_integer()) {
    types.weight_file = "numeric/narrow_integer.cuh";
    types.weight = absl::StrCat("hone::NarrowInteger<", b.bits(), ", ",
                                b.kind() == DataType::Kind::kInt, ", ",
                                layer.zero_point != ZeroPoint::kNone, ">");
  } else if (layer.a.is_integer()) {
    types.weight_file = "numeric/e2m1_integer.cuh";
    types.weight = "hone::E2m1IntegerWeight";
  } else if (b.is_integer()) {
    types.weight_file = "numeric/integer.cuh";
    const int offset =
        b.kind() == DataType::Kind::kInt ? 1 << (b.bits() - 1) : 0;
    types.weight = absl::StrCat("hone::IntegerWeight<", b.bits(), ", ", offset,
                                ", hone::ZeroKind::", zero_kind, ">");
  } else if (b.exponent_bits() == 0) {
    types.weight_file = "numeric/sign_magnitude.cuh";
    types.weight =
        absl::StrCat("hone::SignMagnitudeWeight<", b.mantissa_bits(), ">");
  } else {
    types.weight_file = "numeric/minifloat.cuh";
    types.weight = absl::StrCat("hone::FloatWeight<", b.exponent_bits(), ", ",
                                b.mantissa_bits(), ">");
  }
  return types;
}

absl::StatusOr<RenderedKernel> RenderKernel(const Problem& problem,
                                            const TuningConfig& config,
                                            const DeviceSpec& device) {
  HONE_RETURN_IF_ERROR(CheckProblem(problem, device));
  if (const auto refusal = CheckConfig(problem, device, config)) {
    return absl::FailedPreconditionError(
        absl::StrCat("tuning config refused by rule ", refusal->rule, ": ",
                     refusal->reason));
  }
  const LayerConfig& layer = problem.layer;
  RenderedKernel kernel;
  kernel.kernel_name = std::string(kKernelName);
  kernel.arch = device.NvrtcArch();
  std::string& s = kernel.source;
  const KernelTypes types = TypesOf(layer);
  const WeightLayout packed = WeightLayoutOf(layer);
  s = absl::StrCat(
      "#define HONE_SM_ARCH ", device.sm_arch, "\n",
      FlattenedDeviceSource({"gemm/mma_sync_gemm.cuh", types.a_file,
                             types.weight_file, "numeric/scale.cuh"}));
  absl::StrAppend(&s, "struct Config {\n");
  const auto constant = [&s](absl::string_view name, int64_t value) {
    absl::StrAppend(&s, "  static constexpr int ", name, " = ", value, ";\n");
  };
  constant("kN", layer.n);
  constant("kK", layer.k);
  constant("kBBits", layer.b.bits());
  constant("kDirect", packed.direct());
  absl::string_view a_scale = "kNone";
  if (layer.a_scale == InputScale::kTensor) a_scale = "kTensor";
  if (layer.a_scale == InputScale::kToken) a_scale = "kToken";
  absl::StrAppend(
      &s, "  static constexpr hone::AScale kAScale = hone::AScale::", a_scale,
      ";\n");
  constant("kAGroup", layer.a_group);
  constant("kAScaleColumnMajor",
           problem.compute.a_scale_layout == InputScaleLayout::kColumnMajor);
  constant("kGroup", packed.group);
  constant("kEntryBytes", packed.entry_bytes);
  constant("kEntryScaleBytes", packed.scale_bytes_per_entry);
  constant("kBlockScale", packed.block);
  constant("kTensorScale", packed.tensor_scale);
  absl::StrAppend(&s, "  static constexpr long long kTensorOffset = ",
                  packed.tensor_offset, ";\n");
  const bool half = problem.compute.accumulator == kFloat16;
  const bool scale_after = ScalesAfterMma(problem, config);
  constant("kScaleAfter", scale_after);
  constant("kHalfAccumulate", half);
  // A power of two left to the epilogue would make scaled weights, and sums in
  // float16, subnormal.
  constant("kExactWeights", half || (packed.group != 0 && !scale_after));
  constant("kBias", layer.bias);
  constant("kBlockM", config.block_m);
  constant("kBlockN", config.block_n);
  constant("kBlockK", config.block_k);
  constant("kWarpM", config.warp_m);
  constant("kWarpN", config.warp_n);
  constant("kWarpK", config.warp_k);
  constant("kWarpsM", config.warps_m());
  constant("kWarpsN", config.warps_n());
  constant("kWarpsK", config.warps_k());
  constant("kThreads", config.threads());
  constant("kStages", config.stages);
  constant("kLdg", config.producer_b == Producer::kLdg);
  constant("kSplitK", config.split_k);
  constant("kRasterAlongM", config.raster == RasterOrder::kAlongM);
  constant("kSmemBytes", SmemBytes(problem, config));
  absl::StrAppend(&s, "  using AType = ", types.a,
                  ";\n  using CType = ", TypeName(layer, layer.c),
                  ";\n  using Weight = ", types.weight,
                  ";\n  using Scale = ", types.scale,
                  ";\n  using Zero = ", types.zero, ";\n};\n");
  const bool a_scaled = layer.a_scale != InputScale::kNone;
  absl::StrAppend(
      &s, "extern \"C\" __global__ void __launch_bounds__(", config.threads(),
      ", ", config.ctas_per_sm, ")\n", kKernelName,
      "(const hone::u8* a, const hone::u8* b, const hone::u8* scales,\n"
      "          const hone::u8* bias, hone::u8* c, hone::u8* workspace,\n"
      "          int m",
      a_scaled ? ", const hone::u8* a_scales" : "",
      ") {\n"
      "  extern __shared__ __align__(128) hone::u8 shared[];\n"
      "  hone::MmaSyncGemm<Config>(a, ",
      a_scaled ? "a_scales" : "nullptr",
      ", b, scales, bias, c,\n"
      "                            workspace, m, shared);\n"
      "}\n");
  return kernel;
}

LaunchPlan PlanLaunch(const Problem& problem, const TuningConfig& config,
                      int64_t m) {
  LaunchPlan plan;
  plan.kernel_name = std::string(kKernelName);
  const int64_t tiles = Tiles(problem, config, m);
  plan.grid.x = static_cast<uint32_t>(tiles * config.split_k);
  plan.block.x = static_cast<uint32_t>(config.threads());
  plan.smem_bytes = static_cast<uint32_t>(SmemBytes(problem, config));
  plan.args = Arguments(problem, m);
  if (config.split_k > 1) {
    plan.workspace_zeroed_bytes = CounterBytes(tiles);
    plan.workspace_bytes =
        plan.workspace_zeroed_bytes +
        static_cast<uint64_t>(tiles * config.split_k * config.block_m *
                              config.block_n * 4);
  }
  return plan;
}

uint64_t MaxWorkspaceBytes(const Problem& problem, const TuningConfig& config,
                           int64_t max_m) {
  // The workspace grows with the number of tiles, so with M.
  return PlanLaunch(problem, config, max_m).workspace_bytes;
}

std::string KernelIdentity(absl::string_view cubin_hash, const Problem& problem,
                           const TuningConfig& config) {
  std::string text = absl::StrCat(
      cubin_hash, ";threads=", config.threads(),
      ";smem=", SmemBytes(problem, config), ";block_m=", config.block_m,
      ";block_n=", config.block_n, ";split_k=", config.split_k, ";args=");
  for (const LaunchArg& arg : Arguments(problem, 0)) {
    absl::StrAppend(&text, static_cast<int>(arg.kind), ".",
                    static_cast<int>(arg.role), ",");
  }
  return Sha256Hex(text);
}

}  // namespace hone
