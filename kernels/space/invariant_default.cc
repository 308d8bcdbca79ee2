// The config of an invariant problem when nothing was measured: the order is
// given, so that only the tile and the stages are left to choose.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>

#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

struct Tile {
  int64_t block_m, block_n, warp_m, warp_n;
};

// Two warps along K each. From few tokens to many; reasoned from the sweeps
// behind heuristic.cc, not measured.
constexpr Tile kMmaSyncTiles[] = {
    {8, 64, 8, 16},   {16, 64, 16, 16},  {24, 64, 24, 16},   {32, 64, 32, 16},
    {64, 64, 32, 32}, {64, 128, 64, 32}, {128, 128, 64, 64},
};
// Two warpgroups along K each.
constexpr Tile kWgmmaTiles[] = {
    {8, 64, 8, 16},      {16, 64, 16, 16},   {24, 64, 24, 16},
    {32, 64, 32, 16},    {48, 64, 48, 16},   {64, 64, 64, 16},
    {96, 64, 96, 16},    {128, 64, 128, 16}, {96, 128, 96, 32},
    {128, 128, 128, 32},
};

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

TuningConfig InOrder(const ReductionOrder& order, const Tile& tile, int64_t m) {
  TuningConfig c;
  c.mma = order.mma;
  c.block_m = tile.block_m;
  c.block_n = tile.block_n;
  c.block_k = order.block_k;
  c.warp_m = tile.warp_m;
  c.warp_n = tile.warp_n;
  c.warp_k = order.warp_k;
  if (order.mma == MmaInstruction::kWgmma) {
    c.producer_a = c.producer_b = c.producer_scale = Producer::kTma;
    c.warp_specialized = true;
  }
  c.split_k = order.split_k;
  c.split = order.split_k > 1 ? Split::kSplitK : Split::kDataParallel;
  c.raster = m > 512 ? RasterOrder::kAlongN : RasterOrder::kAlongM;
  return c;
}

// With the deepest ring of at most `most` stages that is legal, and `ctas` CTAs
// an SM or, if they do not fit, fewer; nullopt if none is.
std::optional<TuningConfig> Fit(const Problem& problem,
                                const DeviceSpec& device, TuningConfig config,
                                int64_t most, int64_t ctas) {
  for (config.ctas_per_sm = ctas; config.ctas_per_sm > 0;
       --config.ctas_per_sm) {
    for (config.stages = most; config.stages > 1; --config.stages) {
      if (!CheckConfig(problem, device, config)) return config;
    }
  }
  return std::nullopt;
}

// Clocks that a tile's kernel takes, as in heuristic.cc; fitted to sweeps of
// W4A16 on an H200 at M = 1, 64 and 128 where there are 64 channels.
double WgmmaClocks(const Problem& problem, const DeviceSpec& device, int64_t m,
                   const TuningConfig& c) {
  const double ctas = static_cast<double>(
      CeilDiv(m, c.block_m) * CeilDiv(problem.layer.n, c.block_n) * c.split_k);
  const double slots = static_cast<double>(device.sm_count * c.ctas_per_sm);
  const double tokens = static_cast<double>(c.block_m);
  // Of 16 columns.
  double clocks = c.warp_n == 32 ? 1.06 * tokens : 36 + 0.46 * tokens;
  const double bytes = static_cast<double>(
      c.block_n * problem.layer.b.bits() / 8 + c.block_m * 2);
  clocks = std::max(clocks, 16 * bytes / 60);
  // With two stages loads hardly overlap.
  if (c.stages == 2) clocks *= 1.2;
  const double steps =
      static_cast<double>(CeilDiv(problem.layer.k, 16 * c.split_k));
  return std::ceil(ctas / slots) * (steps * clocks + 5000);
}

TuningConfig WgmmaDefault(const Problem& problem, const DeviceSpec& device,
                          const ReductionOrder& order, int64_t m) {
  // Legal, or the order would be mma.sync's.
  TuningConfig best = InOrder(order, kWgmmaTiles[0], m);
  double best_clocks = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kWgmmaTiles) {
    TuningConfig config = InOrder(order, tile, m);
    // More small tiles than SMs: two CTAs an SM even out the tail.
    const int64_t tiles_n = CeilDiv(problem.layer.n, tile.block_n);
    const int64_t ctas = m <= 32 && tiles_n > device.sm_count ? 2 : 1;
    std::optional<TuningConfig> fit;
    for (config.mmas_in_flight = 2; config.mmas_in_flight > 0 && !fit;
         --config.mmas_in_flight) {
      fit = Fit(problem, device, config, 6, ctas);
    }
    if (!fit) continue;
    const double clocks = WgmmaClocks(problem, device, m, *fit);
    if (clocks >= best_clocks) continue;
    best = *fit;
    best_clocks = clocks;
  }
  return best;
}

TuningConfig MmaSyncDefault(const Problem& problem, const DeviceSpec& device,
                            const ReductionOrder& order, int64_t m) {
  const Tile* tile = kMmaSyncTiles;
  const Tile* last = std::end(kMmaSyncTiles) - 1;
  while (tile < last && m > (tile->block_n == 64 ? tile->block_m : 256)) ++tile;
  const bool ldg = device.sm_arch < 80;
  while (true) {
    TuningConfig config = InOrder(order, *tile, m);
    if (ldg) {
      config.producer_a = config.producer_b = config.producer_scale =
          Producer::kLdg;
    }
    const int64_t tiles_n = CeilDiv(problem.layer.n, tile->block_n);
    const int64_t ctas = m <= 16 && tiles_n > device.sm_count ? 2 : 1;
    // Few tokens make short steps, of which many must be in flight.
    const int64_t stages = ldg ? 2 : tile->block_m <= 32 ? 8 : 4;
    const auto fit = Fit(problem, device, config, stages, ctas);
    if (fit || tile == kMmaSyncTiles) return fit.value_or(config);
    --tile;
  }
}

}  // namespace

TuningConfig InvariantDefault(const Problem& problem, const DeviceSpec& device,
                              int64_t m) {
  const ReductionOrder order = InvariantOrder(problem, device);
  return order.mma == MmaInstruction::kWgmma
             ? WgmmaDefault(problem, device, order, m)
             : MmaSyncDefault(problem, device, order, m);
}

}  // namespace hone
