// Which output tile, and which part of K, a CTA computes.
//
// The grid is one-dimensional: tiles · splits CTAs, the split slowest. Tiles
// are walked along M within one column of tiles (kAlongM), or in bands of
// eight rows of tiles along N (kAlongN), so that neighbouring CTAs share
// weights or activations in the L2.
#ifndef HONE_DEVICE_SCHEDULE_TILE_SCHEDULE_CUH_
#define HONE_DEVICE_SCHEDULE_TILE_SCHEDULE_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone {

inline constexpr int kRasterBand = 8;

template <typename Config>
struct TileSchedule {
  static constexpr int kTilesN =
      (Config::kN + Config::kBlockN - 1) / Config::kBlockN;
  static constexpr int kSteps =
      (Config::kK + Config::kBlockK - 1) / Config::kBlockK;

  int tile_m;
  int tile_n;
  // Linear index of the tile, independent of the split.
  int tile;
  int split;
  // K-steps [step_begin, step_end).
  int step_begin;
  int step_end;

  __device__ __forceinline__ explicit TileSchedule(int m) {
    const int tiles_m = (m + Config::kBlockM - 1) / Config::kBlockM;
    const int tiles = tiles_m * kTilesN;
    int index = static_cast<int>(ptx::BlockIdX());
    split = 0;
    if constexpr (Config::kSplitK > 1) {
      split = index / tiles;
      index -= split * tiles;
    }
    tile = index;
    if constexpr (Config::kRasterAlongM) {
      tile_n = index / tiles_m;
      tile_m = index - tile_n * tiles_m;
    } else {
      const int band = index / (kRasterBand * kTilesN);
      const int within = index - band * (kRasterBand * kTilesN);
      const int left = tiles_m - band * kRasterBand;
      const int height = left < kRasterBand ? left : kRasterBand;
      tile_n = within / height;
      tile_m = band * kRasterBand + within - tile_n * height;
    }
    step_begin = split * kSteps / Config::kSplitK;
    step_end = (split + 1) * kSteps / Config::kSplitK;
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_SCHEDULE_TILE_SCHEDULE_CUH_
