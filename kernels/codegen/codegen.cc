#include "kernels/codegen/codegen.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/codegen/wgmma_wrapper.h"
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
  return absl::StrCat("hone::Integer", type.bits(), "<",
                      HasUnsignedOperand(layer), ">");
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

// With those that only fill clusters up.
int64_t Tiles(const Problem& problem, const TuningConfig& config, int64_t m) {
  return CeilDiv(m, config.block_m * config.cluster_m) *
         CeilDiv(problem.layer.n, config.block_n * config.cluster_n) *
         config.cluster_m * config.cluster_n;
}

// The workspace layout of kernels/device/epilogue/epilogue.cuh.
uint64_t CounterBytes(int64_t tiles) {
  return static_cast<uint64_t>(CeilDiv(tiles * 4, 256) * 256);
}

// Whether weights and scales of a k-step are a piece of memory each, which
// needs no tensor map (kernels/device/memory/tma_ring.cuh).
bool BulkWeights(const Problem& problem, const TuningConfig& config) {
  return !WeightLayoutOf(problem.layer).direct() && config.block_n == 64 &&
         config.cluster_m == 1 &&
         CeilDiv(problem.layer.k, 64) * 64 % config.block_k == 0 &&
         CeilDiv(problem.layer.n, 64) % config.cluster_n == 0;
}

// Packed units, of which a box has `rows` rows.
TensorMap PackedMap(const LayerConfig& layer, const TuningConfig& config,
                    int64_t rows) {
  const auto u = [](int64_t value) { return static_cast<uint64_t>(value); };
  const int64_t units_n = CeilDiv(layer.n, 64);
  const int64_t units_k = CeilDiv(layer.k, 64);
  // A unit has 64 words of 8 bytes a bit, a box at most 256 a side.
  const int64_t parts = layer.b.bits() <= 4 ? 1 : 2;
  const int64_t words = layer.b.bits() * 64 / parts;
  TensorMap b;
  b.buffer = BufferRole::kB;
  b.element = TensorMap::Element::kU64;
  b.dims = {u(words), u(units_k * parts), u(units_n)};
  b.strides = {u(words * 8), u(words * 8 * units_k * parts)};
  b.box = {static_cast<uint32_t>(words),
           static_cast<uint32_t>(config.block_k / 64 * parts),
           static_cast<uint32_t>(rows)};
  b.element_strides = {1, 1, 1};
  b.l2_promotion = TensorMap::L2Promotion::k256B;
  return b;
}

// The tensor maps of tma_ring.cuh, at one M: activations, weights, scales.
std::vector<TensorMap> TensorMaps(const Problem& problem,
                                  const TuningConfig& config, int64_t m) {
  using Element = TensorMap::Element;
  const LayerConfig& layer = problem.layer;
  const WeightLayout packed = WeightLayoutOf(layer);
  const auto u = [](int64_t value) { return static_cast<uint64_t>(value); };
  const auto box = [](int64_t value) { return static_cast<uint32_t>(value); };
  std::vector<TensorMap> maps;

  const int64_t segments = config.block_k * layer.a.bits() / 1024;
  // K-major rows of operands in segments of 128 bytes, `box_rows` of which
  // `sharers` CTAs of a cluster bring together.
  const auto rows_map = [&](BufferRole role, DataType type, int64_t rows,
                            int64_t columns, int64_t box_rows,
                            int64_t sharers) {
    const int64_t segment = 1024 / type.bits();
    const int64_t row_bytes = columns * type.bits() / 8;
    TensorMap map;
    map.buffer = role;
    map.element = type == kBfloat16   ? Element::kBF16
                  : type.bits() == 16 ? Element::kF16
                                      : Element::kU8;
    map.swizzle = TensorMap::Swizzle::k128B;
    map.l2_promotion = TensorMap::L2Promotion::k256B;
    if (columns % segment == 0 && segments % sharers == 0) {
      map.dims = {u(segment), u(rows), u(columns / segment)};
      map.strides = {u(row_bytes), 128};
      map.box = {box(segment), box(box_rows), box(segments / sharers)};
    } else {
      map.dims = {u(columns), u(rows)};
      map.strides = {u(row_bytes)};
      map.box = {box(segment), box(box_rows / sharers)};
    }
    map.element_strides.assign(map.dims.size(), 1);
    return map;
  };
  maps.push_back(rows_map(BufferRole::kA, layer.a, m, layer.k, config.block_m,
                          config.cluster_n));
  if (BulkWeights(problem, config)) return maps;

  const int64_t units_n = CeilDiv(layer.n, 64);
  const int64_t units_k = CeilDiv(layer.k, 64);
  const int64_t rows = config.block_n / 64 / config.cluster_m;
  if (packed.direct()) {
    maps.push_back(rows_map(BufferRole::kB, layer.b, units_n * 64, units_k * 64,
                            config.block_n, config.cluster_m));
  } else {
    maps.push_back(PackedMap(layer, config, rows));
  }
  if (packed.group == 0) return maps;

  TensorMap scales;
  scales.buffer = BufferRole::kBScale;
  scales.element = Element::kU64;
  // What the CTAs of a cluster send each other is aligned to 128 bytes.
  const int64_t groups = CeilDiv(config.block_k, packed.group);
  const bool shared = rows * groups * packed.entry_bytes % 128 == 0;
  scales.dims = {u(packed.entry_bytes / 8), u(packed.groups), u(units_n)};
  scales.strides = {u(packed.entry_bytes),
                    u(packed.entry_bytes * packed.groups)};
  scales.box = {box(packed.entry_bytes / 8), box(groups),
                box(shared ? rows : config.block_n / 64)};
  scales.element_strides = {1, 1, 1};
  maps.push_back(scales);
  return maps;
}

std::vector<LaunchArg> Arguments(const Problem& problem,
                                 const TuningConfig& config, size_t maps,
                                 int64_t m) {
  using Kind = LaunchArg::Kind;
  std::vector<LaunchArg> args;
  for (size_t i = 0; i < maps; ++i) {
    args.push_back({Kind::kTensorMap, BufferRole::kA, static_cast<int32_t>(i)});
  }
  if (!UsesWgmma(config)) args.push_back({Kind::kBuffer, BufferRole::kA, 0});
  args.insert(args.end(),
              {{Kind::kBuffer, BufferRole::kB, 0},
               {Kind::kBuffer, BufferRole::kBScale, 0},
               {Kind::kBuffer, BufferRole::kBias, 0},
               {Kind::kBuffer, BufferRole::kC, 0},
               {Kind::kBuffer, BufferRole::kWorkspace, 0},
               {Kind::kInt32, BufferRole::kA, static_cast<int32_t>(m)}});
  if (problem.layer.a_scale != InputScale::kNone) {
    args.push_back({Kind::kBuffer, BufferRole::kAScale, 0});
  }
  return args;
}

size_t TensorMapCount(const Problem& problem, const TuningConfig& config) {
  return UsesWgmma(config) ? TensorMaps(problem, config, 1).size() : 0;
}

// The kernel itself, after its Config.
std::string RenderEntry(const Problem& problem, const TuningConfig& config) {
  std::string s = absl::StrCat(
      "extern \"C\" __global__ void __launch_bounds__(", config.threads(), ", ",
      config.ctas_per_sm, ")\n", kKernelName, "(");
  constexpr absl::string_view kMapNames[] = {"map_a", "map_b", "map_scales"};
  const size_t maps = TensorMapCount(problem, config);
  for (size_t i = 0; i < maps; ++i) {
    absl::StrAppend(&s, "const __grid_constant__ hone::TensorMap ",
                    kMapNames[i], ",\n          ");
  }
  if (maps == 0) absl::StrAppend(&s, "const hone::u8* a, ");
  const bool a_scaled = problem.layer.a_scale != InputScale::kNone;
  absl::StrAppend(&s,
                  "const hone::u8* b, const hone::u8* scales,\n"
                  "          const hone::u8* bias, hone::u8* c,\n"
                  "          hone::u8* workspace, int m",
                  a_scaled ? ", const hone::u8* a_scales" : "",
                  ") {\n"
                  "  extern __shared__ __align__(",
                  maps == 0 ? 128 : 1024, ") hone::u8 shared[];\n");
  if (maps == 0) {
    absl::StrAppend(&s, "  hone::MmaSyncGemm<Config>(a, ",
                    a_scaled ? "a_scales" : "nullptr",
                    ", b, scales, bias,\n                            c, "
                    "workspace, m, shared);\n");
  } else {
    absl::StrAppend(&s, "  hone::WgmmaGemm<Config>({");
    for (size_t i = 0; i < std::size(kMapNames); ++i) {
      absl::StrAppend(
          &s,
          i < maps ? absl::StrCat("&", kMapNames[i]) : std::string("nullptr"),
          ", ");
    }
    absl::StrAppend(&s,
                    "b, scales,\n                           bias, c, "
                    "workspace, m, ",
                    a_scaled ? "a_scales" : "nullptr", "}, shared);\n");
  }
  absl::StrAppend(&s, "}\n");
  return s;
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
  if (WeightLayoutOf(layer).window) {
    types.weight_file = "numeric/windowed.cuh";
    types.weight = "hone::WindowedWeight";
  } else if (WeightLayoutOf(layer).direct()) {
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
  return RenderUnchecked(problem, config, device);
}

RenderedKernel RenderUnchecked(const Problem& problem,
                               const TuningConfig& config,
                               const DeviceSpec& device) {
  const LayerConfig& layer = problem.layer;
  RenderedKernel kernel;
  kernel.kernel_name = std::string(kKernelName);
  kernel.arch = device.NvrtcArch();
  std::string& s = kernel.source;
  const KernelTypes types = TypesOf(layer);
  const WeightLayout packed = WeightLayoutOf(layer);
  const bool wgmma = UsesWgmma(config);
  s = absl::StrCat(
      "#define HONE_SM_ARCH ", device.sm_arch, "\n",
      FlattenedDeviceSource(
          {wgmma ? "gemm/wgmma_gemm.cuh" : "gemm/mma_sync_gemm.cuh",
           types.a_file, types.weight_file, "numeric/scale.cuh"}));
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
  constant("kWindow", packed.window);
  absl::StrAppend(&s, "  static constexpr long long kWindowOffset = ",
                  packed.window_offset, ";\n");
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
  constant("kThreads", config.math_threads());
  constant("kStages", config.stages);
  constant("kLdg", config.producer_b == Producer::kLdg);
  constant("kSplitK", config.splits());
  if (wgmma) constant("kWorkers", config.workers());
  constant("kRasterAlongM", config.raster == RasterOrder::kAlongM);
  constant("kInvariant", problem.compute.batch_invariant);
  constant("kTokenRows", TokenRows(config));
  constant("kClusterM", config.cluster_m);
  constant("kClusterN", config.cluster_n);
  constant("kClusterSplit", ClusterSplit(config));
  constant("kSmemBytes", SmemBytes(problem, config));
  if (wgmma) {
    const WarpgroupRegisters registers = RegistersOf(problem, config);
    constant("kMmaBatch", MmaBatch(problem, config));
    constant("kFlight", config.mmas_in_flight);
    constant("kStreamed", StreamsTiles(config));
    constant("kBulkWeights", BulkWeights(problem, config));
    constant("kAScaleQuadBytes", AScaleQuadBytes(problem, config));
    constant("kProducerRegisters", registers.producer);
    constant("kMathRegisters", registers.reassigned ? registers.math : 0);
    absl::StrAppend(&s, RenderWgmmaWrapper(layer, WgmmaColumnsOf(config),
                                           TokenRows(config)));
  }
  absl::StrAppend(&s, "  using AType = ", types.a,
                  ";\n  using CType = ", TypeName(layer, layer.c),
                  ";\n  using Weight = ", types.weight,
                  ";\n  using Scale = ", types.scale,
                  ";\n  using Zero = ", types.zero, ";\n};\n");
  absl::StrAppend(&s, RenderEntry(problem, config));
  return kernel;
}

LaunchPlan PlanLaunch(const Problem& problem, const TuningConfig& config,
                      int64_t m, int64_t sm_count) {
  LaunchPlan plan;
  plan.kernel_name = std::string(kKernelName);
  const int64_t tiles = Tiles(problem, config, m);
  int64_t ctas = tiles * config.splits();
  const int64_t cluster = config.cluster_m * config.cluster_n;
  if (config.workers() > 0) {
    ctas = config.workers() * cluster;
  } else if (StreamsTiles(config) && config.split_k == 1 && sm_count > 0) {
    const int64_t resident =
        std::max<int64_t>(sm_count * config.ctas_per_sm / cluster, 1) * cluster;
    ctas = std::min(ctas, resident);
  }
  plan.grid.x = static_cast<uint32_t>(ctas);
  plan.block.x = static_cast<uint32_t>(config.threads());
  plan.smem_bytes = static_cast<uint32_t>(SmemBytes(problem, config));
  const int64_t cluster_split = ClusterSplit(config);
  plan.cluster.x = static_cast<uint32_t>(cluster * cluster_split);
  if (UsesWgmma(config)) plan.tensor_maps = TensorMaps(problem, config, m);
  plan.args = Arguments(problem, config, plan.tensor_maps.size(), m);
  if (config.workers() > 0) {
    plan.waits_for_lower_ctas = true;
    // epilogue/partial_tiles.cuh: a flag for each warp, and its sums.
    const int64_t warps = ctas * config.math_threads() / 32;
    plan.workspace_zeroed_bytes = CounterBytes(warps);
    plan.workspace_bytes =
        plan.workspace_zeroed_bytes +
        static_cast<uint64_t>(ctas * config.block_m * config.block_n *
                              config.warps_k() * 4);
  } else if (config.splits() > cluster_split) {
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
      ";block_n=", config.block_n, ";split_k=", config.split_k,
      config.workers() > 0 ? "w" : "");
  if (UsesWgmma(config)) {
    absl::StrAppend(&text, ";block_k=", config.block_k,
                    ";cluster=", config.cluster_m, "x", config.cluster_n);
  }
  absl::StrAppend(&text, ";args=");
  for (const LaunchArg& arg :
       Arguments(problem, config, TensorMapCount(problem, config), 0)) {
    absl::StrAppend(&text, static_cast<int>(arg.kind), ".",
                    static_cast<int>(arg.role), ",");
  }
  return Sha256Hex(text);
}

}  // namespace hone
