#include "kernels/pack/device_pack.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/codegen/embedded.h"
#include "kernels/config/status_macros.h"
#include "kernels/config/weight_layout.h"
#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/numeric/codes.cuh"
#include "kernels/pack/pack.h"

namespace hone {
namespace {

// kernels/device/pack/pack_weights.cuh.
constexpr int64_t kThreads = 256;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

LaunchPlan Plan(absl::string_view kernel, int64_t warps) {
  using Kind = LaunchArg::Kind;
  LaunchPlan plan;
  plan.kernel_name = std::string(kernel);
  plan.grid.x = static_cast<uint32_t>(CeilDiv(warps * 32, kThreads));
  plan.block.x = kThreads;
  plan.args = {{Kind::kBuffer, BufferRole::kWeights, 0},
               {Kind::kBuffer, BufferRole::kB, 0},
               {Kind::kBuffer, BufferRole::kBScale, 0},
               {Kind::kBuffer, BufferRole::kWorkspace, 0}};
  plan.workspace_bytes = kPackWorkspaceBytes;
  return plan;
}

}  // namespace

int CodeFormat(DataType type) {
  const int kind = type.is_float()                       ? codes::kFloatKind
                   : type.kind() == DataType::Kind::kInt ? codes::kIntKind
                                                         : codes::kUintKind;
  return codes::MakeFormat(kind, type.exponent_bits(), type.mantissa_bits());
}

absl::StatusOr<DevicePack> RenderPack(const LayerConfig& layer, DataType input,
                                      const DeviceSpec& device) {
  HONE_RETURN_IF_ERROR(CheckWeightFormat(layer));
  if (WeightLayoutOf(layer).window) {
    return absl::UnimplementedError(
        "no packing kernel for layer.b_scale_window = 1: whether all channels' "
        "scales keep within the window, Pack() finds out on the CPU");
  }
  if (input != kFloat16 && input != kBfloat16 && input != kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("input is ", input.ToString(),
                     "; weights to pack must be float16, bfloat16 or float32"));
  }
  const WeightLayout w = WeightLayoutOf(layer);
  DevicePack pack;
  pack.arch = device.NvrtcArch();
  std::string& s = pack.source;
  s = FlattenedDeviceSource({"pack/pack_weights.cuh"});
  absl::StrAppend(&s, "struct Config {\n");
  const auto constant = [&s](absl::string_view name, int64_t value) {
    absl::StrAppend(&s, "  static constexpr int ", name, " = ", value, ";\n");
  };
  const auto real = [&s](absl::string_view name, double value) {
    absl::StrAppend(&s, "  static constexpr float ", name, " = ",
                    absl::StrFormat("%a", value), "f;\n");
  };
  constant("kN", layer.n);
  constant("kK", layer.k);
  constant("kInput", CodeFormat(input));
  constant("kFormat", CodeFormat(layer.b));
  constant("kScaleFormat", CodeFormat(layer.b_scale_type));
  constant(
      "kZeroFormat",
      CodeFormat(layer.zero_point == ZeroPoint::kFloat ? layer.a : layer.b));
  constant("kBits", w.bits);
  constant("kWidth", w.width);
  absl::StrAppend(&s,
                  "  static constexpr hone::layout::CodeLayout kLayout =\n"
                  "      static_cast<hone::layout::CodeLayout>(",
                  static_cast<int>(w.code_layout), ");\n");
  constant("kStoredXor", StoredXor(layer));
  constant("kGroup", w.group);
  constant("kGroups", w.groups);
  constant("kGroupN", w.group_n);
  constant("kEntryBytes", w.entry_bytes);
  constant("kEntryScaleBytes", w.scale_bytes_per_entry);
  constant("kScaleBits", w.scale_bits);
  constant("kZeroBits", w.zero_bits);
  constant("kBlock", w.block);
  constant("kTensorScale", w.tensor_scale);
  absl::StrAppend(&s, "  static constexpr long long kTensorOffset = ",
                  w.tensor_offset, ";\n");
  const double divisor = QuantizationDivisor(layer);
  real("kDivisor", divisor);
  real("kLargestScale", LargestRelativeScale(layer.b_scale_type));
  real("kLow", layer.b.kind() == DataType::Kind::kUint ? 0.0 : -divisor);
  absl::StrAppend(&s, "};\n");
  const int64_t units_n = CeilDiv(layer.n, layout::kUnitRows);
  const int64_t units_k = CeilDiv(layer.k, layout::kUnitColumns);
  const struct {
    absl::string_view kernel;
    absl::string_view step;
    int64_t warps;
  } steps[] = {
      {"hone_pack_range", "Range", w.tensor_scale ? layer.n : 0},
      {"hone_pack_scales", "Scales",
       w.entry_bytes == 0 ? (w.tensor_scale ? 1 : 0)
                          : units_n * w.groups * (w.block ? 1 : 32)},
      {"hone_pack_codes", "Codes", units_n * units_k * 4},
  };
  for (const auto& step : steps) {
    if (step.warps == 0) continue;
    absl::StrAppend(
        &s, "extern \"C\" __global__ void __launch_bounds__(", kThreads, ")\n",
        step.kernel,
        "(const hone::u8* weights, hone::u8* b, hone::u8* scales,\n"
        "    hone::u32* workspace) {\n  hone::PackWeights<Config>(weights, b, "
        "scales, workspace).",
        step.step, "();\n}\n");
    pack.launches.push_back(Plan(step.kernel, step.warps));
  }
  return pack;
}

}  // namespace hone
