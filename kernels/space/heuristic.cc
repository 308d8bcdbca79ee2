// The config used when nothing was measured. With mma.sync: a few fixed tiles
// by M, with the split and the stages derived from the device. With wgmma: the
// tile and split of a short list that WgmmaTimeOf() prefers.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "kernels/config/weight_layout.h"
#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"
#include "kernels/space/wgmma_time.h"

namespace hone {
namespace {

struct Tile {
  int64_t m_up_to;
  int64_t block_m, block_n, block_k, warp_m, warp_n, warp_k;
};

// While M fits one token tile the weights are the cost: all warps share the
// channels and split K, each with a ring of its own. Larger M need reuse: wide
// tiles, warps in both directions. From sweeps of W4A16 on an H200.
constexpr Tile kTiles[] = {
    {8, 8, 64, 512, 8, 64, 64},
    {16, 16, 64, 512, 16, 64, 64},
    {24, 24, 64, 512, 24, 64, 64},
    {32, 32, 64, 512, 32, 64, 64},
    {48, 48, 128, 256, 48, 64, 128},
    {64, 64, 256, 128, 64, 32, 128},
    {96, 48, 128, 256, 48, 64, 128},
    {256, 64, 128, 128, 64, 64, 64},
    {INT64_MAX, 128, 256, 64, 64, 64, 64},
};

// SM75 holds the next step in registers and has a quarter of the shared memory:
// short steps, narrow warps along channels, and several CTAs an SM to cover
// loads and barriers. Reasoned, not measured.
constexpr Tile kTilesSm75[] = {
    {8, 8, 64, 128, 8, 16, 128},    {16, 16, 64, 128, 16, 16, 128},
    {32, 32, 64, 128, 32, 16, 128}, {64, 64, 64, 64, 32, 32, 64},
    {256, 64, 128, 64, 64, 32, 64}, {INT64_MAX, 128, 128, 64, 64, 32, 64},
};

constexpr int64_t kMostStages = 8;
// Stream-K must be expected to win by more than the model is often off by.
constexpr double kStreamKMargin = 1.03;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tiles of wgmma that won sweeps at some M on an H200, each with the step and
// warpgroups that it won with.
struct WgmmaTile {
  int64_t block_m, block_n, block_k, warp_n, warp_k;
};
// W4A16.
constexpr WgmmaTile kWideTiles[] = {
    {16, 64, 1024, 16, 256},  {24, 64, 512, 16, 128},
    {32, 64, 512, 16, 128},   {32, 256, 128, 32, 128},
    {32, 256, 256, 32, 256},  {48, 64, 256, 16, 128},
    {64, 64, 256, 16, 128},   {128, 64, 256, 16, 128},
    {64, 128, 256, 16, 256},  {96, 128, 128, 16, 128},
    {96, 128, 256, 32, 128},  {96, 256, 128, 32, 128},
    {128, 128, 128, 16, 128}, {128, 256, 128, 32, 128},
    {160, 256, 128, 32, 128}, {256, 128, 128, 16, 128},
    {48, 64, 512, 16, 128},
};
// Packed weights beside 8-bit activations.
constexpr WgmmaTile kNarrowTiles[] = {
    {8, 64, 1024, 16, 512},   {16, 64, 1024, 16, 512},
    {32, 64, 512, 16, 256},   {64, 64, 512, 16, 128},
    {64, 64, 256, 16, 128},   {128, 64, 256, 16, 128},
    {128, 128, 128, 16, 128}, {192, 128, 128, 16, 128},
    {256, 128, 128, 16, 128},
};
// Weights in rows.
constexpr WgmmaTile kRowTiles[] = {
    {16, 64, 512, 16, 512},   {32, 64, 512, 16, 512},
    {64, 64, 256, 16, 256},   {128, 64, 128, 16, 128},
    {256, 64, 128, 16, 128},  {64, 128, 256, 16, 256},
    {128, 128, 128, 16, 128}, {256, 128, 128, 16, 128},
    {128, 256, 128, 32, 128}, {192, 256, 128, 32, 128},
    {192, 64, 128, 16, 128},  {192, 128, 128, 16, 128},
};
// And scales that follow MMAs; with many tokens in the MMAs' rows (warp_n is
// block_n).
constexpr WgmmaTile kRowGroupTiles[] = {
    {16, 64, 512, 16, 512},    {32, 64, 512, 16, 512},
    {64, 64, 256, 16, 256},    {64, 128, 256, 128, 256},
    {128, 64, 256, 64, 256},   {128, 128, 128, 128, 128},
    {128, 192, 128, 192, 128}, {256, 128, 128, 128, 128},
    {96, 128, 256, 16, 256},
};
// Where B has scales of its own in each group and channel, tokens cannot be.
constexpr WgmmaTile kRowChannelGroupTiles[] = {
    {16, 64, 512, 16, 512},  {32, 64, 512, 16, 512},  {64, 64, 256, 16, 256},
    {128, 64, 256, 16, 256}, {64, 128, 256, 16, 256}, {128, 128, 256, 16, 256},
};

absl::Span<const WgmmaTile> WgmmaTiles(const Problem& problem) {
  if (problem.layer.a.bits() == 16) return kWideTiles;
  const WeightLayout weights = WeightLayoutOf(problem.layer);
  if (!weights.direct()) return kNarrowTiles;
  if (weights.group == 0 && problem.layer.a_group == 0) return kRowTiles;
  return weights.group == 0 || weights.block
             ? absl::Span<const WgmmaTile>(kRowGroupTiles)
             : kRowChannelGroupTiles;
}

// Nullopt when no tile is legal.
std::optional<TuningConfig> WgmmaDefault(const Problem& problem,
                                         const DeviceSpec& device, int64_t m) {
  // A split of 0 is stream-K.
  struct Sharing {
    int64_t split, cluster_m, cluster_n;
  };
  std::optional<TuningConfig> best;
  double best_ns = 0;
  for (const WgmmaTile& tile : WgmmaTiles(problem)) {
    const int64_t tiles_m = CeilDiv(m, tile.block_m);
    const int64_t tiles_n = CeilDiv(problem.layer.n, tile.block_n);
    // Clusters of four, of tiles or splits, do not all fit the SMs at once.
    for (const Sharing& sharing : {Sharing{1, 1, 1},
                                   {1, 1, 2},
                                   {1, 2, 1},
                                   {2, 1, 1},
                                   {4, 1, 1},
                                   {0, 1, 1},
                                   {0, 1, 2}}) {
      if (sharing.split > 2 && tile.block_k == tile.warp_k) continue;
      // Few tiles that only fill clusters up.
      if (CeilDiv(tiles_m, sharing.cluster_m) * sharing.cluster_m * 20 >
              tiles_m * 21 ||
          CeilDiv(tiles_n, sharing.cluster_n) * sharing.cluster_n * 20 >
              tiles_n * 21) {
        continue;
      }
      TuningConfig c;
      c.mma = MmaInstruction::kWgmma;
      c.producer_a = c.producer_b = c.producer_scale = Producer::kTma;
      c.warp_specialized = true;
      c.block_m = tile.block_m;
      c.warp_m = tile.warp_n != tile.block_n ? tile.block_m
                 : tile.block_m > 128        ? 32
                                             : 16;
      c.block_n = tile.block_n;
      c.block_k = tile.block_k;
      c.warp_n = tile.warp_n;
      c.warp_k = tile.warp_k;
      c.raster = WgmmaRaster(m);
      c.split_k =
          sharing.split > 0
              ? sharing.split
              : StreamWorkers(device, sharing.cluster_m * sharing.cluster_n, 1);
      c.split = sharing.split == 0  ? Split::kStreamK
                : sharing.split > 1 ? Split::kSplitK
                                    : Split::kDataParallel;
      c.cluster_m = sharing.cluster_m;
      c.cluster_n = sharing.cluster_n;
      const auto time = [&] {
        return WgmmaTimeOf(problem, device, c, m, EstimateFootprint(problem, c))
                   .total_ns *
               (c.split == Split::kStreamK ? kStreamKMargin : 1);
      };
      // A ring as deep as can be is no slower.
      c.mmas_in_flight = 2;
      c.stages = kMostStages;
      if (best.has_value() && time() >= best_ns) continue;
      // Two groups in flight where there are two, and all stages that fit, at
      // least three: with two, loads do not overlap.
      for (c.mmas_in_flight = 2; c.mmas_in_flight > 0; --c.mmas_in_flight) {
        for (c.stages = kMostStages; c.stages > 2; --c.stages) {
          if (!CheckConfig(problem, device, c)) break;
        }
        if (c.stages > 2) break;
      }
      if (c.mmas_in_flight == 0) continue;
      const double ns = time();
      if (best.has_value() && ns >= best_ns) continue;
      best = c;
      best_ns = ns;
    }
  }
  return best;
}

// Up to how many tokens Hopper's mma.sync beats wgmma.
int64_t MmaSyncTokens(const Problem& problem) {
  if (problem.layer.a.bits() == 16) return 16;
  if (problem.layer.a.bits() < 8) return INT64_MAX;
  const bool packed = !WeightLayoutOf(problem.layer).direct();
  return packed && problem.layer.a.is_float() ? 0 : 8;
}

}  // namespace

TuningConfig HeuristicDefault(const Problem& problem, const DeviceSpec& device,
                              int64_t m) {
  if (problem.compute.batch_invariant) {
    return InvariantDefault(problem, device, m);
  }
  // Up to 16 tokens mma.sync is faster (up to 8 where weights are in rows). Not
  // with packed weights and 8-bit floats, which it converts to float16.
  if (device.sm_arch == 90 && m > MmaSyncTokens(problem)) {
    const std::optional<TuningConfig> wgmma = WgmmaDefault(problem, device, m);
    if (wgmma.has_value()) return *wgmma;
  }
  const bool sm75 = device.sm_arch < 80;
  const Tile* tile = sm75 ? kTilesSm75 : kTiles;
  while (m > tile->m_up_to) ++tile;
  TuningConfig config;
  config.block_m = tile->block_m;
  config.block_n = tile->block_n;
  config.warp_m = tile->warp_m;
  config.warp_n = tile->warp_n;
  // A step brings whole segments of 128 bytes of activations.
  const int64_t segment = 1024 / problem.layer.a.bits();
  config.warp_k = std::max(tile->warp_k, segment);
  config.block_k = std::max(tile->block_k, config.warp_k);
  if (sm75) {
    config.producer_a = config.producer_b = config.producer_scale =
        Producer::kLdg;
  }
  config.raster = m > 512 ? RasterOrder::kAlongN : RasterOrder::kAlongM;
  const auto legal = [&] { return !CheckConfig(problem, device, config); };

  // Decoding streams weights: with more tiles than SMs, two small CTAs an SM
  // even out the tail.
  const int64_t tiles_n = CeilDiv(problem.layer.n, config.block_n);
  if (m <= 16 && tiles_n > device.sm_count) config.ctas_per_sm = 2;
  if (sm75 && m <= 64) config.ctas_per_sm = 4;
  // With one, longer steps of a warp: fewer waits, and group scales half as
  // often. (8192 x 8192, M = 1: 10.4 us instead of 10.9; M = 16: 12.6, 13.4.)
  const bool longer = !sm75 && problem.layer.a.bits() == 16 && m <= 24 &&
                      tiles_n <= device.sm_count;
  if (longer) {
    config.block_k *= 2;
    config.warp_k *= 2;
  }
  // As many stages as fit, up to four: more only lengthen the start.
  config.stages = sm75 ? 2 : longer ? 3 : 4;
  while (config.stages > 2 && !legal()) --config.stages;
  // A smaller device: fewer columns a step, then fewer tokens.
  while (!legal() && config.ctas_per_sm > 1) --config.ctas_per_sm;
  while (!legal() && config.block_k > config.warp_k) config.block_k /= 2;
  while (!legal() && config.warp_k > segment) {
    config.warp_k /= 2;
    config.block_k = std::max<int64_t>(config.block_k / 2, config.warp_k);
  }
  // Partial sums of scales that are for accumulators only double the
  // registers: narrower warps.
  while (!legal() && config.warp_n > (sm75 ? 16 : 32)) config.warp_n /= 2;
  while (!legal() && config.block_n > 64 && config.warp_n < config.block_n) {
    config.block_n /= 2;
  }
  while (!legal() && config.block_m > config.warp_m) {
    config.block_m /= 2;
  }
  // Split K while tiles leave most SMs idle and each part keeps two steps.
  const int64_t tiles =
      CeilDiv(m, config.block_m) * CeilDiv(problem.layer.n, config.block_n);
  const int64_t steps = CeilDiv(problem.layer.k, config.block_k);
  const int64_t slots = device.sm_count * (sm75 ? config.ctas_per_sm : 1);
  const int64_t split = std::min({slots / tiles, steps / 2, int64_t{8}});
  if (split > 1) {
    config.split = Split::kSplitK;
    config.split_k = split;
    if (!legal()) {
      config.split = Split::kDataParallel;
      config.split_k = 1;
    }
  }
  return config;
}

}  // namespace hone
