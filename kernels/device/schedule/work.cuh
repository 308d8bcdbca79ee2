// The tiles of a CTA, or its parts of tiles, one after the other.
//
// Most kernels have one. A streamed kernel's CTA takes tiles as far apart as
// the grid is wide. With stream-K (kWorkers > 0) all k-steps of all tiles are
// one line, which kWorkers clusters part evenly, so that they end together
// however many tiles there are: Osama, Merrill, Cecka, Garland, Owens,
// "Stream-K" (PPoPP 2023). A worker has the rest of a tile that others began,
// whole tiles, and the beginning of one that others end. Who begins a tile
// finishes it, and only that part of a worker, its last, waits for others; so
// what it waits for, the first part of the next workers, is long done. The line
// runs against the order in which CTAs start: a CTA waits only for those that
// started before it, however few of them run at a time.
#ifndef HONE_DEVICE_SCHEDULE_WORK_CUH_
#define HONE_DEVICE_SCHEDULE_WORK_CUH_

#include "kernels/device/ptx/core.cuh"
#include "kernels/device/schedule/tile_schedule.cuh"

namespace hone {

template <typename Config>
class Work {
 public:
  using Tile = TileSchedule<Config>;
  static constexpr bool kStreamK = Config::kWorkers > 0;
  static constexpr bool kManyTiles =
      kStreamK || (Config::kStreamed && Config::kSplitK == 1);

  // At the first of them; there is one.
  __device__ __forceinline__ explicit Work(int m) : m_(m) {
    at_ = static_cast<int>(ptx::BlockIdX());
    if constexpr (kStreamK) {
      worker_ = Config::kWorkers - 1 - at_ / Tile::kCluster;
      rank_ = at_ % Tile::kCluster;
      at_ = Begin(worker_);
      end_ = Begin(worker_ + 1);
    } else if constexpr (kManyTiles) {
      stride_ = static_cast<int>(ptx::GridDimX());
      end_ = Tile::Tiles(m);
    }
  }

  __device__ __forceinline__ Tile tile() const {
    if constexpr (!kStreamK) return Tile(m_, at_);
    const int index = at_ / Tile::kSteps;
    Tile tile(m_, index * Tile::kCluster + rank_);
    tile.step_begin = at_ - index * Tile::kSteps;
    tile.step_end = Least(tile.step_begin + end_ - at_, Tile::kSteps);
    return tile;
  }

  // Whether the current one is the last.
  __device__ __forceinline__ bool last() const {
    if constexpr (!kManyTiles) return true;
    return at_ + Step() >= end_;
  }

  // Goes to the next; false if there is none.
  __device__ __forceinline__ bool Next() {
    if constexpr (!kManyTiles) return false;
    at_ += Step();
    return at_ < end_;
  }

  // Of stream-K: the worker, the CTA's place in its cluster, and where on the
  // line the parts of worker `worker` begin.
  __device__ __forceinline__ int worker() const { return worker_; }
  __device__ __forceinline__ int rank() const { return rank_; }
  __device__ __forceinline__ int Begin(int worker) const {
    const int steps = Tile::ClustersM(m_) * Tile::kClustersN * Tile::kSteps;
    return static_cast<int>(static_cast<long long>(worker) * steps /
                            Config::kWorkers);
  }
  // Where the current tile ends.
  __device__ __forceinline__ int TileEnd() const {
    return (at_ / Tile::kSteps + 1) * Tile::kSteps;
  }

 private:
  static __device__ __forceinline__ int Least(int a, int b) {
    return a < b ? a : b;
  }
  __device__ __forceinline__ int Step() const {
    if constexpr (!kStreamK) return stride_;
    return Least(TileEnd() - at_, end_ - at_);
  }

  int m_;
  // The tile, or the step on the line; how far it goes.
  int at_;
  int end_;
  int stride_;
  int worker_;
  int rank_;
};

}  // namespace hone

#endif  // HONE_DEVICE_SCHEDULE_WORK_CUH_
