// Which output tile, and which part of K, a CTA computes.
//
// The grid is one-dimensional: tiles · splits CTAs, the split slowest. Tiles
// are walked along M within one column of tiles (kAlongM), or in bands of
// eight rows of tiles along N (kAlongN), so that neighbouring CTAs share
// weights or activations in the L2. In clusters the walk is that of blocks of
// kClusterM by kClusterN tiles, one CTA each, n fastest; where tiles do not
// fill the last of them, CTAs compute tiles outside of the output.
#ifndef HONE_DEVICE_SCHEDULE_TILE_SCHEDULE_CUH_
#define HONE_DEVICE_SCHEDULE_TILE_SCHEDULE_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone {

inline constexpr int kRasterBand = 8;
// Channels that begin at one step where tiles must not choose: those of the
// widest tile or cluster of tiles.
inline constexpr int kTurnChannels = 256;
// Rows of clusters from which on all tiles begin at the same step.
inline constexpr int kTurnRows = 4;

template <typename Config>
struct TileSchedule {
  static constexpr int kTilesN =
      (Config::kN + Config::kBlockN - 1) / Config::kBlockN;
  // Rows and columns of clusters.
  static constexpr int kCluster = Config::kClusterM * Config::kClusterN;
  static constexpr int kClustersN =
      (kTilesN + Config::kClusterN - 1) / Config::kClusterN;
  static __device__ __forceinline__ int ClustersM(int m) {
    constexpr int kRows = Config::kBlockM * Config::kClusterM;
    return (m + kRows - 1) / kRows;
  }
  // With those outside of the output.
  static __device__ __forceinline__ int Tiles(int m) {
    return ClustersM(m) * kClustersN * kCluster;
  }
  static constexpr int kSteps =
      (Config::kK + Config::kBlockK - 1) / Config::kBlockK;

  int tile_m;
  int tile_n;
  // Linear index of the tile, independent of the split.
  int tile;
  int split;
  // Place among the tiles of the cluster.
  int rank;
  // K-steps [step_begin, step_end), and how many of them come last.
  int step_begin;
  int step_end;
  int turned;

  // The step that comes at `step`'s turn. Tiles of neighbouring channels begin
  // at neighbouring steps: if all CTAs ask for the same activations at the same
  // time, those few lines of the L2 are what they wait for (8192 x 8192, M = 1,
  // wgmma on an H200: 18.6 us without, 13.0 with). Not where many tiles of
  // tokens share weights, which then come from the L2 all at once (W8A8,
  // M = 1024: 93.4 with, 91.7 without). Where a row's sums must not depend on
  // the tile (kInvariant) it is a channel that says where to begin.
  __device__ __forceinline__ int Turn(int step) const {
    const int steps = step_end - step_begin;
    const int turn = step + turned % steps;
    return turn < step_end ? turn : turn - steps;
  }

  // Of this tile's CTA for another split, in a cluster with all of them.
  __device__ __forceinline__ u32 RankOf(int other) const {
    return static_cast<u32>(other * kCluster + rank);
  }

  __device__ __forceinline__ explicit TileSchedule(int m)
      : TileSchedule(m, static_cast<int>(ptx::BlockIdX())) {}

  // Of the CTA `index` of a grid that has one for each tile and split.
  __device__ __forceinline__ TileSchedule(int m, int index) {
    const int tiles = Tiles(m);
    const int clusters_m = ClustersM(m);
    split = 0;
    if constexpr (Config::kClusterSplit > 1) {
      split = index / kCluster % Config::kClusterSplit;
      index = index / (kCluster * Config::kClusterSplit) * kCluster +
              index % kCluster;
    } else if constexpr (Config::kSplitK > 1) {
      split = index / tiles;
      index -= split * tiles;
    }
    tile = index;
    rank = index % kCluster;
    index /= kCluster;
    if constexpr (Config::kRasterAlongM) {
      tile_n = index / clusters_m;
      tile_m = index - tile_n * clusters_m;
    } else {
      const int band = index / (kRasterBand * kClustersN);
      const int within = index - band * (kRasterBand * kClustersN);
      const int left = clusters_m - band * kRasterBand;
      const int height = left < kRasterBand ? left : kRasterBand;
      tile_n = within / height;
      tile_m = band * kRasterBand + within - tile_n * height;
    }
    tile_m = tile_m * Config::kClusterM + rank / Config::kClusterN;
    tile_n = tile_n * Config::kClusterN + rank % Config::kClusterN;
    step_begin = split * kSteps / Config::kSplitK;
    step_end = (split + 1) * kSteps / Config::kSplitK;
    if constexpr (Config::kInvariant) {
      turned = tile_n * Config::kBlockN / kTurnChannels;
    } else {
      turned = clusters_m < kTurnRows ? tile_n / Config::kClusterN : 0;
    }
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_SCHEDULE_TILE_SCHEDULE_CUH_
