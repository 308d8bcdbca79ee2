// The declared space of both engines.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/config/weight_layout.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

void AddIfLegal(const Problem& problem, const DeviceSpec& device,
                const TuningConfig& config,
                std::vector<TuningConfig>& configs) {
  if (!CheckConfig(problem, device, config)) configs.push_back(config);
}

void EnumerateMmaSync(const Problem& problem, const DeviceSpec& device,
                      int64_t max_m, std::vector<TuningConfig>& configs) {
  struct WarpLayout {
    int64_t block_m, block_n, warp_m, warp_n;
  };
  // Tiles whose warps lie along channels and tokens. Small token tiles are for
  // decoding: each weight is dequantized once, by one warp.
  std::vector<WarpLayout> tiles;
  for (const int64_t block_m : {8, 16, 24, 32, 48, 64, 96, 128, 192, 256}) {
    if (block_m > 8 && block_m / 2 >= max_m) continue;
    for (const int64_t block_n : {64, 128, 256}) {
      for (const int64_t warp_m : {8, 16, 24, 32, 48, 64, 96, 128}) {
        for (const int64_t warp_n : {16, 32, 64}) {
          if (block_m % warp_m != 0 || block_n % warp_n != 0) continue;
          // One warp column takes all tokens while the registers allow it;
          // splitting tokens repeats the dequantization.
          const int64_t warps_m = block_m / warp_m;
          if (block_m <= 64 && warps_m > 2) continue;
          if (warps_m > 4 || block_n / warp_n > 8) continue;
          tiles.push_back({block_m, block_n, warp_m, warp_n});
        }
      }
    }
  }
  const Producer producer =
      device.sm_arch < 80 ? Producer::kLdg : Producer::kCpAsync;
  for (const WarpLayout& tile : tiles) {
    for (const int64_t block_k : {64, 128, 256, 512, 1024, 2048}) {
      for (const int64_t warps_k : {1, 2, 4, 8, 16}) {
        const int64_t warps = (tile.block_m / tile.warp_m) *
                              (tile.block_n / tile.warp_n) * warps_k;
        // Fewer than four warps leave schedulers idle; more than sixteen add
        // nothing here.
        if (warps < 4 || warps > 16) continue;
        // Warps along K pay with an epilogue; not for wide token tiles, unless
        // the order asks for them.
        if (warps_k > 1 && tile.block_m > 64 &&
            !problem.compute.batch_invariant) {
          continue;
        }
        if (block_k % (64 * warps_k) != 0) continue;
        // More than two units a warp and step (of 16-bit operands) only
        // lengthens the unrolled code.
        if (block_k / warps_k > 2048 / problem.layer.a.bits()) continue;
        for (const int64_t stages : {2, 3, 4, 5, 6, 8}) {
          if (producer == Producer::kLdg && stages > 2) break;
          for (const int64_t ctas : {1, 2, 3, 4}) {
            for (const int64_t split : {1, 2, 3, 4, 6, 8, 12, 16}) {
              // A split fills SMs that tiles leave idle.
              const int64_t tiles_n = CeilDiv(problem.layer.n, tile.block_n);
              if (split > 1 && tiles_n * split > 4 * device.sm_count * ctas) {
                continue;
              }
              for (const RasterOrder raster :
                   {RasterOrder::kAlongM, RasterOrder::kAlongN}) {
                if (raster == RasterOrder::kAlongN && tile.block_m < 64)
                  continue;
                TuningConfig config;
                config.producer_a = config.producer_b = config.producer_scale =
                    producer;
                config.block_m = tile.block_m;
                config.block_n = tile.block_n;
                config.block_k = block_k;
                config.warp_m = tile.warp_m;
                config.warp_n = tile.warp_n;
                config.warp_k = block_k / warps_k;
                config.stages = stages;
                config.ctas_per_sm = ctas;
                config.split_k = split;
                config.split =
                    split > 1 ? Split::kSplitK : Split::kDataParallel;
                config.raster = raster;
                AddIfLegal(problem, device, config, configs);
              }
            }
          }
        }
      }
    }
  }
}

// Those whose MMAs have tokens as rows: warpgroups along tokens or, for one
// block of them, along K.
void AddTokenRowTiles(int64_t max_m, TuningConfig t,
                      std::vector<TuningConfig>& tiles) {
  for (const int64_t block_m : {64, 128, 192, 256}) {
    // Not where half of them would be empty.
    if (block_m / 2 >= max_m) continue;
    for (const int64_t block_n : {64, 128, 192, 256}) {
      for (const int64_t warp_m : {16, 32}) {
        if (block_m % (4 * warp_m) != 0) continue;
        for (const int64_t warps_k : {1, 2}) {
          if (warps_k > 1 && block_m > 64) continue;
          for (const int64_t warp_k : {128, 256}) {
            t.block_m = block_m;
            t.block_n = t.warp_n = block_n;
            t.block_k = warp_k * warps_k;
            t.warp_m = warp_m;
            t.warp_k = warp_k;
            tiles.push_back(t);
          }
        }
      }
    }
  }
}

// Tiles of wgmma: warpgroups along channels and, for few tokens, along K.
std::vector<TuningConfig> WgmmaTiles(const Problem& problem, int64_t max_m) {
  const bool direct = WeightLayoutOf(problem.layer).direct();
  // Columns of K in as many bytes of activations as 16-bit ones have.
  const int64_t wide = 16 / problem.layer.a.bits();
  std::vector<TuningConfig> tiles;
  TuningConfig t;
  t.mma = MmaInstruction::kWgmma;
  t.producer_a = t.producer_b = t.producer_scale = Producer::kTma;
  t.warp_specialized = true;
  for (const int64_t block_m :
       {8, 16, 24, 32, 48, 64, 96, 128, 160, 176, 192, 256}) {
    if (block_m > 8 && block_m / 2 >= max_m) continue;
    for (const int64_t block_n : {64, 128, 192, 256}) {
      for (const int64_t warp_n : {16, 32}) {
        if (block_n % (4 * warp_n) != 0) continue;
        for (const int64_t warps_k : {1, 2, 4}) {
          const int64_t warpgroups = block_n / (4 * warp_n) * warps_k;
          // One alone cannot dequantize while it waits; more than four add
          // nothing.
          if ((warpgroups < 2 && !direct) || warpgroups > 4) continue;
          if (warps_k > 1 && (block_m > 128 || direct)) continue;
          for (const int64_t block_k : {64, 128, 256, 512, 1024}) {
            const int64_t warp_k = block_k / warps_k;
            // What is unrolled: long steps for short MMAs.
            const int64_t most = wide * (block_m <= 32   ? 512
                                         : block_m <= 64 ? 256
                                                         : 128);
            if (warp_k < 64 || warp_k > most) continue;
            t.block_m = t.warp_m = block_m;
            t.block_n = block_n;
            t.block_k = block_k;
            t.warp_n = warp_n;
            t.warp_k = warp_k;
            tiles.push_back(t);
          }
        }
      }
    }
  }
  if (direct) AddTokenRowTiles(max_m, t, tiles);
  return tiles;
}

// Bytes of shared memory that an SM fills, of which most are loads in flight.
constexpr int64_t kLeastInFlight = 64 << 10;

void EnumerateWgmma(const Problem& problem, const DeviceSpec& device,
                    int64_t max_m, std::vector<TuningConfig>& configs) {
  struct Cluster {
    int64_t m, n;
  };
  for (TuningConfig config : WgmmaTiles(problem, max_m)) {
    const int64_t tiles_n = CeilDiv(problem.layer.n, config.block_n);
    // Clusters of four do not all fit the SMs at once, and took twice as long
    // on an H200, whatever the tile; except with stream-K, which needs no more
    // of them than fit.
    for (const Cluster cluster : {Cluster{1, 1}, {1, 2}, {2, 1}, {1, 4}}) {
      // Few tokens are one tile, and cheap to load.
      if (cluster.m > 1 && max_m <= config.block_m) continue;
      if (cluster.n > 1 && config.block_m < 16) continue;
      if (cluster.n > tiles_n) continue;
      config.cluster_m = cluster.m;
      config.cluster_n = cluster.n;
      const int64_t groups = MmaGroups(problem, config);
      for (const int64_t flight : {1, 2, 3}) {
        // One at a time only where no more can be.
        if (flight == 1 && groups > 1) continue;
        config.mmas_in_flight = flight;
        for (const int64_t stages : {2, 3, 4, 6, 8}) {
          config.stages = stages;
          for (const int64_t ctas : {1, 2}) {
            if (ctas > 1 && config.block_m > 64) continue;
            config.ctas_per_sm = ctas;
            // Less in flight does not cover the memory's latency.
            if (ctas * SmemBytes(problem, config) < kLeastInFlight) continue;
            // 0: stream-K.
            for (const int64_t split : {0, 1, 2, 3, 4, 8}) {
              // A split fills SMs that tiles leave idle.
              if (split > 1 && tiles_n * split > 2 * device.sm_count * ctas) {
                continue;
              }
              if (split > 0 && cluster.n > 2) continue;
              config.split_k =
                  split > 0
                      ? split
                      : StreamWorkers(device, cluster.m * cluster.n, ctas);
              config.split = split == 0  ? Split::kStreamK
                             : split > 1 ? Split::kSplitK
                                         : Split::kDataParallel;
              for (const RasterOrder raster :
                   {RasterOrder::kAlongM, RasterOrder::kAlongN}) {
                if (raster == RasterOrder::kAlongN && config.block_m < 64) {
                  continue;
                }
                config.raster = raster;
                AddIfLegal(problem, device, config, configs);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

std::vector<TuningConfig> Enumerate(const Problem& problem,
                                    const DeviceSpec& device, int64_t max_m) {
  std::vector<TuningConfig> configs;
  EnumerateMmaSync(problem, device, max_m, configs);
  if (device.sm_arch == 90) EnumerateWgmma(problem, device, max_m, configs);
  return configs;
}

}  // namespace hone
