// The config used when nothing was measured: a few fixed tiles by M, with the
// split and the stages derived from the device.
#include <algorithm>
#include <cstdint>

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

}  // namespace

TuningConfig HeuristicDefault(const Problem& problem, const DeviceSpec& device,
                              int64_t m) {
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
  while (!legal() && config.warp_n > 32) config.warp_n /= 2;
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
