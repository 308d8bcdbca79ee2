// The config used when nothing was measured. With mma.sync: a few fixed tiles
// by M, with the split and the stages derived from the device. With wgmma: the
// tile and split of a short list that a simple model of their time prefers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"

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

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tiles of wgmma that won sweeps of W4A16 on an H200 at some M, each with the
// step and warpgroups it won with.
struct WgmmaTile {
  int64_t block_m, block_n, block_k, warp_n, warp_k;
};
constexpr WgmmaTile kWgmmaTiles[] = {
    {16, 64, 1024, 16, 256}, {24, 64, 512, 16, 128},   {32, 64, 512, 16, 128},
    {48, 64, 256, 16, 128},  {64, 64, 256, 16, 128},   {64, 128, 256, 16, 256},
    {96, 128, 128, 16, 128}, {128, 128, 128, 16, 128}, {128, 256, 128, 32, 128},
};

// SM clocks that a tile's kernel takes; the times of the tiles above at M = 16
// to 1024, N = K = 8192, within 15 %.
double WgmmaClocks(const Problem& problem, const DeviceSpec& device, int64_t m,
                   const WgmmaTile& tile, int64_t split) {
  constexpr double kStartAndEnd = 5000;
  constexpr double kExchange = 2000;
  constexpr double kBytesPerClock = 60;
  const auto ctas =
      static_cast<double>(CeilDiv(m, tile.block_m) *
                          CeilDiv(problem.layer.n, tile.block_n) * split);
  const double waves = std::ceil(ctas / static_cast<double>(device.sm_count));
  // Of 16 columns. Warpgroups with two blocks of 64 channels keep the MMAs
  // busy; with one, the latency of a fragment shows.
  const auto blocks = static_cast<double>(tile.block_n / 64);
  const auto tokens = static_cast<double>(tile.block_m);
  const double compute =
      blocks * (tile.warp_n == 32 ? 0.53 * tokens : 27 + 0.43 * tokens);
  const double loads =
      16 *
      static_cast<double>(tile.block_n * problem.layer.b.bits() / 8 +
                          tile.block_m * 2) /
      kBytesPerClock;
  const double steps =
      static_cast<double>(CeilDiv(problem.layer.k, 16 * split));
  return waves * (steps * std::max(compute, loads) + kStartAndEnd) +
         (split > 1 ? kExchange : 0);
}

// Nullopt when no tile is legal.
std::optional<TuningConfig> WgmmaDefault(const Problem& problem,
                                         const DeviceSpec& device, int64_t m) {
  std::optional<TuningConfig> best;
  double best_clocks = 0;
  for (const WgmmaTile& tile : kWgmmaTiles) {
    for (const int64_t split : {1, 2, 4}) {
      // Clusters of four splits do not all fit the SMs at once.
      if (split > 2 && tile.block_k == tile.warp_k) continue;
      TuningConfig c;
      c.mma = MmaInstruction::kWgmma;
      c.producer_a = c.producer_b = c.producer_scale = Producer::kTma;
      c.warp_specialized = true;
      c.block_m = c.warp_m = tile.block_m;
      c.block_n = tile.block_n;
      c.block_k = tile.block_k;
      c.warp_n = tile.warp_n;
      c.warp_k = tile.warp_k;
      c.raster = m > 512 ? RasterOrder::kAlongN : RasterOrder::kAlongM;
      c.split_k = split;
      c.split = split > 1 ? Split::kSplitK : Split::kDataParallel;
      // Many wide tiles: pairs share activations, which saves power.
      const int64_t tiles_n = CeilDiv(problem.layer.n, tile.block_n);
      if (m > 512 && tile.block_n == 256 && tiles_n % 2 == 0) c.cluster_n = 2;
      const double clocks = WgmmaClocks(problem, device, m, tile, split);
      if (best.has_value() && clocks >= best_clocks) continue;
      // Two groups in flight where there are two, and all stages that fit, at
      // least three: with two, loads do not overlap.
      for (c.mmas_in_flight = 2; c.mmas_in_flight > 0; --c.mmas_in_flight) {
        for (c.stages = 6; c.stages > 2; --c.stages) {
          if (!CheckConfig(problem, device, c)) break;
        }
        if (c.stages > 2) break;
      }
      if (c.mmas_in_flight == 0) continue;
      best = c;
      best_clocks = clocks;
    }
  }
  return best;
}

}  // namespace

TuningConfig HeuristicDefault(const Problem& problem, const DeviceSpec& device,
                              int64_t m) {
  if (problem.compute.batch_invariant) {
    return InvariantDefault(problem, device, m);
  }
  // Up to 8 tokens mma.sync is as fast, at 16 wgmma is 6 % ahead.
  if (m > 8 && device.sm_arch == 90) {
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
  // With one, wider steps of a warp apply group scales half as often.
  const bool grouped = problem.layer.b_scale == ScaleGranularity::kGroup;
  if (!sm75 && grouped && m > 8 && m <= 24 && tiles_n <= device.sm_count) {
    config.block_k *= 2;
    config.warp_k *= 2;
  }
  // As many stages as fit, up to four: more only lengthen the start.
  config.stages = sm75 ? 2 : 4;
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
