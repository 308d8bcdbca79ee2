// The three configurations that describe a kernel, as plain values.
//
//   LayerConfig    what the model dictates
//   ComputeConfig  what the workload dictates
//   TuningConfig   what the device dictates; only performance depends on it
//   Problem        LayerConfig + ComputeConfig
//
// Shapes: A is the activations [M, K], B the weights [N, K], C the output
// [M, N]; C = A · Bᵀ. M belongs to no config: it is known at each call.
//
// Each config has one canonical text, `key=value` pairs sorted by key and
// joined by commas, e.g. "a=float16,a_group=0,a_scale=none,b=int4,...". Every
// key is always printed. Parse() accepts the keys in any order, takes the
// default for keys left out and refuses unknown or repeated ones. Hash() is
// the SHA-256 of the canonical text, in hex.
//
// Validate() checks each field by itself and against its own config, and names
// the field and the legal values. Whether a kernel exists for a valid config
// is answered by kernels/space.
#ifndef HONE_KERNELS_CONFIG_PROBLEM_H_
#define HONE_KERNELS_CONFIG_PROBLEM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/config/data_type.h"

namespace hone {

// How finely a scale varies. `group` runs along K; `block` covers group_n rows
// of B by group columns; `group_tensor` is a group scale times one float32.
enum class ScaleGranularity : uint8_t {
  kNone,
  kTensor,
  kChannel,
  kGroup,
  kBlock,
  kGroupTensor,
};

// How finely the scale of A varies: per token (row of A) or per K-group.
enum class InputScale : uint8_t { kNone, kTensor, kToken, kGroup };

enum class ZeroPoint : uint8_t { kNone, kInteger, kFloat };

enum class GemmType : uint8_t {
  kDense,
  kIndexed,
  kGroupedContiguous,
  kGroupedMasked,
};

// Memory order of the per-group scales of A: [M, groups] or [groups, M].
enum class InputScaleLayout : uint8_t { kRowMajor, kColumnMajor };

// Who brings a tensor's tile into shared memory.
enum class Producer : uint8_t { kLdg, kCpAsync, kTma };

enum class MmaInstruction : uint8_t { kMmaSync, kWgmma, kTcgen05 };

enum class Split : uint8_t { kDataParallel, kSplitK, kStreamK };

// Which tile coordinate the launch order walks first. kAlongM shares one tile
// of B among neighbouring CTAs, kAlongN one tile of A.
enum class RasterOrder : uint8_t { kAlongM, kAlongN };

struct LayerConfig {
  // Rows of B = columns of C, 1 .. 2^20.
  int64_t n = 0;
  // Length of the reduction, 1 .. 2^20.
  int64_t k = 0;
  // 1 for a dense layer, else the number of experts, at most 4096.
  int64_t experts = 1;
  DataType a = kFloat16;
  DataType b = kInt4;
  DataType c = kFloat16;
  // Scale of B.
  DataType b_scale_type = kFloat16;
  ScaleGranularity b_scale = ScaleGranularity::kChannel;
  // Columns of B that share a scale: a power of two from 16 to 1024, or K; 0
  // unless b_scale is group, block or group_tensor.
  int64_t b_group = 0;
  // Rows of B that share a scale; 0 unless b_scale is block.
  int64_t b_group_n = 0;
  // Whether the scales of each channel keep within a window of octaves in which
  // 8-bit activations' type holds all scaled weights: then they go into weights
  // instead of sums. Pack() proves it. For float4e2m1 with float8e8m0 group
  // scales; see WindowOctaves() of weight_layout.h.
  bool b_scale_window = false;
  // Scale of A, always float32.
  InputScale a_scale = InputScale::kNone;
  // Columns of A that share a scale: a power of two from 16 to 1024, or K; 0
  // unless a_scale is group.
  int64_t a_group = 0;
  // Of the granularity of b_scale (per channel where that is none or tensor),
  // in units of the code: a weight is (code − zero) · scale. Integers from 0 to
  // 2^bits − 1, or values of type a. For unsigned integers only.
  ZeroPoint zero_point = ZeroPoint::kNone;
  // Whether a bias [N] of type c is added to every row of C.
  bool bias = false;

  static absl::StatusOr<LayerConfig> Parse(absl::string_view text);
  std::string ToString() const;
  std::string Hash() const;
  absl::Status Validate() const;

  friend bool operator==(const LayerConfig&, const LayerConfig&) = default;
};

struct ComputeConfig {
  GemmType gemm = GemmType::kDense;
  // The same row of A gives the same bits whatever M it is batched with.
  bool batch_invariant = false;
  // float16: the products of at most 64 columns are summed in float16, at that
  // type's MMA rate, and those sums in float32. Sums past 65504 are infinite.
  DataType accumulator = kFloat32;
  InputScaleLayout a_scale_layout = InputScaleLayout::kRowMajor;
  // Experts chosen per token; 0 for dense.
  int64_t top_k = 0;

  static absl::StatusOr<ComputeConfig> Parse(absl::string_view text);
  std::string ToString() const;
  std::string Hash() const;
  absl::Status Validate() const;

  friend bool operator==(const ComputeConfig&, const ComputeConfig&) = default;
};

struct TuningConfig {
  // CTA tile, in tokens (m), output channels (n) and reduction elements (k).
  int64_t block_m = 16;
  int64_t block_n = 64;
  int64_t block_k = 64;
  // Tile of one warp; (block_m / warp_m) · (block_n / warp_n) ·
  // (block_k / warp_k) warps of the CTA compute, and warps that share (m, n)
  // are summed in a fixed order through shared memory. With wgmma four warps
  // are a warpgroup, whose MMA has 64 rows, 16 a warp. Rows are channels: a
  // warp has 16 or 32 of them and all tokens of the tile (warp_m = block_m).
  // Or, for weights that are operands as they are, rows are tokens: a warp has
  // 16 or 32 of them and all channels of the tile (warp_n = block_n).
  int64_t warp_m = 16;
  int64_t warp_n = 64;
  int64_t warp_k = 64;
  // Depth of the shared-memory ring.
  int64_t stages = 4;
  // Who fills the ring, per tensor.
  Producer producer_a = Producer::kCpAsync;
  Producer producer_b = Producer::kCpAsync;
  Producer producer_scale = Producer::kCpAsync;
  // Whether a warpgroup of its own does the loading (needs TMA).
  bool warp_specialized = false;
  MmaInstruction mma = MmaInstruction::kMmaSync;
  // wgmma groups in flight; 1 for mma.sync, which has no such choice.
  int64_t mmas_in_flight = 1;
  Split split = Split::kDataParallel;
  // With split_k the CTAs that share one output tile, with stream_k the
  // clusters (or CTAs) that share the steps of all tiles; else 1.
  int64_t split_k = 1;
  // Promised to the register allocator (__launch_bounds__).
  int64_t ctas_per_sm = 1;
  int64_t cluster_m = 1;
  int64_t cluster_n = 1;
  RasterOrder raster = RasterOrder::kAlongM;

  static absl::StatusOr<TuningConfig> Parse(absl::string_view text);
  std::string ToString() const;
  std::string Hash() const;
  absl::Status Validate() const;

  // Parts of every tile's K, and the workers of stream-K (0: none).
  int64_t splits() const { return split == Split::kSplitK ? split_k : 1; }
  int64_t workers() const { return split == Split::kStreamK ? split_k : 0; }

  int64_t warps_m() const { return block_m / warp_m; }
  int64_t warps_n() const { return block_n / warp_n; }
  int64_t warps_k() const { return block_k / warp_k; }
  // Those that compute, and all of the CTA.
  int64_t math_threads() const {
    return 32 * warps_m() * warps_n() * warps_k();
  }
  int64_t threads() const {
    return math_threads() + (warp_specialized ? 128 : 0);
  }

  friend bool operator==(const TuningConfig&, const TuningConfig&) = default;
};

// Layer + Compute Config: what is tuned, at each M of a ladder.
struct Problem {
  LayerConfig layer;
  ComputeConfig compute;

  // "layer-text;compute-text".
  static absl::StatusOr<Problem> Parse(absl::string_view text);
  std::string ToString() const;
  std::string Hash() const;
  absl::Status Validate() const;

  friend bool operator==(const Problem&, const Problem&) = default;
};

// Sets B's type and scales (b, b_scale, b_scale_type, b_group, zero_point) to
// those of a named format:
//   mxfp4  float4e2m1, a float8e8m0 scale per 32 columns (OCP MX v1.0)
//   mxfp8  float8e4m3, a float8e8m0 scale per 32 columns (OCP MX v1.0)
//   nvfp4  float4e2m1, a float8e4m3 scale per 16 columns and one float32
// InvalidArgument lists the names.
absl::Status ApplyPreset(absl::string_view name, LayerConfig& layer);

absl::string_view ToString(ScaleGranularity value);
absl::string_view ToString(InputScale value);
absl::string_view ToString(ZeroPoint value);
absl::string_view ToString(GemmType value);
absl::string_view ToString(InputScaleLayout value);
absl::string_view ToString(Producer value);
absl::string_view ToString(MmaInstruction value);
absl::string_view ToString(Split value);
absl::string_view ToString(RasterOrder value);

}  // namespace hone

#endif  // HONE_KERNELS_CONFIG_PROBLEM_H_
