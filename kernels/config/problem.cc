#include "kernels/config/problem.h"

#include <initializer_list>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/config/fields.h"
#include "kernels/config/sha256.h"

namespace hone {
namespace {

using Names = std::vector<absl::string_view>;

const Names& Granularities() {
  static const auto* names =
      new Names{"none", "tensor", "channel", "group", "block", "group_tensor"};
  return *names;
}
const Names& InputScales() {
  static const auto* names = new Names{"none", "tensor", "token", "group"};
  return *names;
}
const Names& ZeroPoints() {
  static const auto* names = new Names{"none", "integer", "float"};
  return *names;
}
const Names& GemmTypes() {
  static const auto* names =
      new Names{"dense", "indexed", "grouped_contiguous", "grouped_masked"};
  return *names;
}
const Names& InputScaleLayouts() {
  static const auto* names = new Names{"row_major", "column_major"};
  return *names;
}
const Names& Producers() {
  static const auto* names = new Names{"ldg", "cp_async", "tma"};
  return *names;
}
const Names& MmaInstructions() {
  static const auto* names = new Names{"mma_sync", "wgmma", "tcgen05"};
  return *names;
}
const Names& Splits() {
  static const auto* names = new Names{"data_parallel", "split_k", "stream_k"};
  return *names;
}
const Names& RasterOrders() {
  static const auto* names = new Names{"along_m", "along_n"};
  return *names;
}

const std::vector<Field<LayerConfig>>& LayerFields() {
  using C = LayerConfig;
  static const auto* fields = new std::vector<Field<C>>{
      IntField("n", &C::n),
      IntField("k", &C::k),
      IntField("experts", &C::experts),
      TypeField("a", &C::a),
      TypeField("b", &C::b),
      TypeField("c", &C::c),
      TypeField("b_scale_type", &C::b_scale_type),
      EnumField("b_scale", &C::b_scale, Granularities()),
      IntField("b_group", &C::b_group),
      IntField("b_group_n", &C::b_group_n),
      Optional(BoolField("b_scale_window", &C::b_scale_window)),
      EnumField("a_scale", &C::a_scale, InputScales()),
      IntField("a_group", &C::a_group),
      EnumField("zero_point", &C::zero_point, ZeroPoints()),
      BoolField("bias", &C::bias),
  };
  return *fields;
}

const std::vector<Field<ComputeConfig>>& ComputeFields() {
  using C = ComputeConfig;
  static const auto* fields = new std::vector<Field<C>>{
      EnumField("gemm", &C::gemm, GemmTypes()),
      BoolField("batch_invariant", &C::batch_invariant),
      TypeField("accumulator", &C::accumulator),
      EnumField("a_scale_layout", &C::a_scale_layout, InputScaleLayouts()),
      IntField("top_k", &C::top_k),
  };
  return *fields;
}

const std::vector<Field<TuningConfig>>& TuningFields() {
  using C = TuningConfig;
  static const auto* fields = new std::vector<Field<C>>{
      IntField("block_m", &C::block_m),
      IntField("block_n", &C::block_n),
      IntField("block_k", &C::block_k),
      IntField("warp_m", &C::warp_m),
      IntField("warp_n", &C::warp_n),
      IntField("warp_k", &C::warp_k),
      IntField("stages", &C::stages),
      EnumField("producer_a", &C::producer_a, Producers()),
      EnumField("producer_b", &C::producer_b, Producers()),
      EnumField("producer_scale", &C::producer_scale, Producers()),
      BoolField("warp_specialized", &C::warp_specialized),
      EnumField("mma", &C::mma, MmaInstructions()),
      IntField("mmas_in_flight", &C::mmas_in_flight),
      EnumField("split", &C::split, Splits()),
      IntField("split_k", &C::split_k),
      IntField("ctas_per_sm", &C::ctas_per_sm),
      IntField("cluster_m", &C::cluster_m),
      IntField("cluster_n", &C::cluster_n),
      EnumField("raster", &C::raster, RasterOrders()),
  };
  return *fields;
}

absl::Status Bad(absl::string_view field, const std::string& value,
                 absl::string_view legal) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be ", legal));
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low,
                        int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Bad(field, absl::StrCat(value),
             absl::StrCat("between ", low, " and ", high));
}

bool IsOneOf(DataType type, std::initializer_list<DataType> legal) {
  for (const DataType& t : legal) {
    if (t == type) return true;
  }
  return false;
}

// Group sizes: powers of two, so that groups tile the packed units, or
// `whole`, one group in all (0 where that is no choice).
absl::Status CheckGroup(absl::string_view field, int64_t value, bool used,
                        int64_t whole = 0) {
  if (!used) {
    if (value == 0) return absl::OkStatus();
    return Bad(field, absl::StrCat(value),
               "0 unless the scale is per group or block");
  }
  for (int64_t legal = 16; legal <= 1024; legal *= 2) {
    if (value == legal) return absl::OkStatus();
  }
  if (whole != 0 && value == whole) return absl::OkStatus();
  return Bad(field, absl::StrCat(value),
             absl::StrCat("one of 16, 32, 64, 128, 256, 512, 1024",
                          whole != 0 ? absl::StrCat(" or all of K, ", whole)
                                     : std::string()));
}

struct Preset {
  absl::string_view name;
  DataType b;
  DataType scale;
  ScaleGranularity granularity;
  int64_t group;
};
constexpr Preset kPresets[] = {
    {"mxfp4", kFloat4e2m1, kFloat8e8m0, ScaleGranularity::kGroup, 32},
    {"mxfp8", kFloat8e4m3, kFloat8e8m0, ScaleGranularity::kGroup, 32},
    {"nvfp4", kFloat4e2m1, kFloat8e4m3, ScaleGranularity::kGroupTensor, 16},
};

}  // namespace

absl::string_view ToString(ScaleGranularity value) {
  return Granularities()[static_cast<size_t>(value)];
}
absl::string_view ToString(InputScale value) {
  return InputScales()[static_cast<size_t>(value)];
}
absl::string_view ToString(ZeroPoint value) {
  return ZeroPoints()[static_cast<size_t>(value)];
}
absl::string_view ToString(GemmType value) {
  return GemmTypes()[static_cast<size_t>(value)];
}
absl::string_view ToString(InputScaleLayout value) {
  return InputScaleLayouts()[static_cast<size_t>(value)];
}
absl::string_view ToString(Producer value) {
  return Producers()[static_cast<size_t>(value)];
}
absl::string_view ToString(MmaInstruction value) {
  return MmaInstructions()[static_cast<size_t>(value)];
}
absl::string_view ToString(Split value) {
  return Splits()[static_cast<size_t>(value)];
}
absl::string_view ToString(RasterOrder value) {
  return RasterOrders()[static_cast<size_t>(value)];
}

absl::StatusOr<LayerConfig> LayerConfig::Parse(absl::string_view text) {
  return ParseFields(LayerFields(), "layer", text);
}
std::string LayerConfig::ToString() const {
  return PrintFields(LayerFields(), *this);
}
std::string LayerConfig::Hash() const { return Sha256Hex(ToString()); }

absl::Status LayerConfig::Validate() const {
  HONE_RETURN_IF_ERROR(CheckRange("layer.n", n, 1, 1 << 20));
  HONE_RETURN_IF_ERROR(CheckRange("layer.k", k, 1, 1 << 20));
  HONE_RETURN_IF_ERROR(CheckRange("layer.experts", experts, 1, 4096));
  if (!IsOneOf(a, {kFloat16, kBfloat16, kFloat8e4m3, kFloat8e5m2, kFloat4e2m1,
                   kInt8, kInt4})) {
    return Bad("layer.a", a.ToString(),
               "one of float16, bfloat16, float8e4m3, float8e5m2, float4e2m1, "
               "int8, int4");
  }
  if (b.bits() > 8 || b.is_e8m0()) {
    return Bad("layer.b", b.ToString(),
               "a type of at most 8 bits with a sign "
               "or an integer");
  }
  if (b.bits() > a.bits()) {
    return Bad("layer.b", b.ToString(),
               absl::StrCat("no wider than layer.a, ", a.ToString()));
  }
  if (!IsOneOf(c, {kFloat16, kBfloat16})) {
    return Bad("layer.c", c.ToString(), "one of float16, bfloat16");
  }
  if (!IsOneOf(b_scale_type, {kFloat16, kBfloat16, kFloat8e4m3, kFloat8e5m2,
                              kFloat8e8m0, kFloat32})) {
    return Bad("layer.b_scale_type", b_scale_type.ToString(),
               "one of float16, bfloat16, float8e4m3, float8e5m2, float8e8m0, "
               "float32");
  }
  const bool grouped = b_scale == ScaleGranularity::kGroup ||
                       b_scale == ScaleGranularity::kBlock ||
                       b_scale == ScaleGranularity::kGroupTensor;
  HONE_RETURN_IF_ERROR(CheckGroup("layer.b_group", b_group, grouped, k));
  HONE_RETURN_IF_ERROR(CheckGroup("layer.b_group_n", b_group_n,
                                  b_scale == ScaleGranularity::kBlock));
  HONE_RETURN_IF_ERROR(
      CheckGroup("layer.a_group", a_group, a_scale == InputScale::kGroup, k));
  if (b_scale_window &&
      (b != kFloat4e2m1 || b_scale != ScaleGranularity::kGroup ||
       b_scale_type != kFloat8e8m0)) {
    return Bad("layer.b_scale_window", "1",
               "0 unless layer.b is float4e2m1 with group scales in "
               "float8e8m0");
  }
  if (zero_point != ZeroPoint::kNone && b.kind() != DataType::Kind::kUint) {
    return Bad(
        "layer.zero_point", std::string(hone::ToString(zero_point)),
        absl::StrCat("none unless layer.b is an unsigned integer (it is ",
                     b.ToString(), ")"));
  }
  if (zero_point != ZeroPoint::kNone && b_scale == ScaleGranularity::kBlock) {
    return Bad("layer.zero_point", std::string(hone::ToString(zero_point)),
               "none with block scales");
  }
  return absl::OkStatus();
}

absl::Status ApplyPreset(absl::string_view name, LayerConfig& layer) {
  std::vector<absl::string_view> names;
  for (const Preset& preset : kPresets) {
    names.push_back(preset.name);
    if (preset.name != name) continue;
    layer.b = preset.b;
    layer.b_scale_type = preset.scale;
    layer.b_scale = preset.granularity;
    layer.b_group = preset.group;
    layer.b_group_n = 0;
    layer.zero_point = ZeroPoint::kNone;
    return absl::OkStatus();
  }
  return Bad("preset", std::string(name),
             absl::StrCat("one of ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<ComputeConfig> ComputeConfig::Parse(absl::string_view text) {
  return ParseFields(ComputeFields(), "compute", text);
}
std::string ComputeConfig::ToString() const {
  return PrintFields(ComputeFields(), *this);
}
std::string ComputeConfig::Hash() const { return Sha256Hex(ToString()); }

absl::Status ComputeConfig::Validate() const {
  if (!IsOneOf(accumulator, {kFloat16, kFloat32})) {
    return Bad("compute.accumulator", accumulator.ToString(),
               "one of float32, float16");
  }
  if (gemm == GemmType::kIndexed) {
    return CheckRange("compute.top_k", top_k, 1, 64);
  }
  if (top_k != 0) {
    return Bad("compute.top_k", absl::StrCat(top_k),
               "0 unless compute.gemm is indexed");
  }
  return absl::OkStatus();
}

absl::StatusOr<TuningConfig> TuningConfig::Parse(absl::string_view text) {
  return ParseFields(TuningFields(), "tuning", text);
}
std::string TuningConfig::ToString() const {
  return PrintFields(TuningFields(), *this);
}
std::string TuningConfig::Hash() const { return Sha256Hex(ToString()); }

absl::Status TuningConfig::Validate() const {
  HONE_RETURN_IF_ERROR(CheckRange("tuning.block_m", block_m, 8, 512));
  HONE_RETURN_IF_ERROR(CheckRange("tuning.block_n", block_n, 16, 512));
  HONE_RETURN_IF_ERROR(CheckRange("tuning.block_k", block_k, 16, 2048));
  HONE_RETURN_IF_ERROR(CheckRange("tuning.warp_m", warp_m, 8, block_m));
  HONE_RETURN_IF_ERROR(CheckRange("tuning.warp_n", warp_n, 16, block_n));
  HONE_RETURN_IF_ERROR(CheckRange("tuning.warp_k", warp_k, 16, block_k));
  const struct {
    absl::string_view field;
    int64_t block, warp;
  } kTiles[] = {{"tuning.warp_m", block_m, warp_m},
                {"tuning.warp_n", block_n, warp_n},
                {"tuning.warp_k", block_k, warp_k}};
  for (const auto& tile : kTiles) {
    if (tile.block % tile.warp != 0) {
      return Bad(tile.field, absl::StrCat(tile.warp),
                 absl::StrCat("a divisor of the block's ", tile.block));
    }
  }
  if (threads() > 1024) {
    return Bad("tuning.warp_m × warp_n × warp_k",
               absl::StrCat(threads() / 32, " warps"),
               "so large that a block has at most 32 warps");
  }
  HONE_RETURN_IF_ERROR(CheckRange("tuning.stages", stages, 1, 16));
  HONE_RETURN_IF_ERROR(
      CheckRange("tuning.mmas_in_flight", mmas_in_flight, 1, 8));
  const int64_t most = split == Split::kSplitK    ? 64
                       : split == Split::kStreamK ? 1024
                                                  : 1;
  if (split_k > most || split_k < std::min<int64_t>(most, 2)) {
    return Bad("tuning.split_k", absl::StrCat(split_k),
               split == Split::kDataParallel
                   ? "1 unless tuning.split is split_k or stream_k"
                   : absl::StrCat("2 to ", most, " when tuning.split is ",
                                  hone::ToString(split)));
  }
  HONE_RETURN_IF_ERROR(CheckRange("tuning.ctas_per_sm", ctas_per_sm, 1, 16));
  HONE_RETURN_IF_ERROR(CheckRange("tuning.cluster_m", cluster_m, 1, 8));
  HONE_RETURN_IF_ERROR(CheckRange("tuning.cluster_n", cluster_n, 1, 8));
  return absl::OkStatus();
}

absl::StatusOr<Problem> Problem::Parse(absl::string_view text) {
  const size_t semicolon = text.find(';');
  if (semicolon == text.npos) {
    return absl::InvalidArgumentError(
        "problem: the text must be a layer's and a compute config's, joined by "
        "';'");
  }
  Problem problem;
  HONE_ASSIGN_OR_RETURN(problem.layer,
                        LayerConfig::Parse(text.substr(0, semicolon)));
  HONE_ASSIGN_OR_RETURN(problem.compute,
                        ComputeConfig::Parse(text.substr(semicolon + 1)));
  return problem;
}

std::string Problem::ToString() const {
  return absl::StrCat(layer.ToString(), ";", compute.ToString());
}
std::string Problem::Hash() const { return Sha256Hex(ToString()); }

absl::Status Problem::Validate() const {
  HONE_RETURN_IF_ERROR(layer.Validate());
  HONE_RETURN_IF_ERROR(compute.Validate());
  if ((compute.gemm == GemmType::kDense) != (layer.experts == 1)) {
    return Bad("layer.experts", absl::StrCat(layer.experts),
               compute.gemm == GemmType::kDense
                   ? "1 when compute.gemm is dense"
                   : "at least 2 unless compute.gemm is dense");
  }
  return absl::OkStatus();
}

}  // namespace hone
