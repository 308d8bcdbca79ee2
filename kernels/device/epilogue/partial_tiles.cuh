// Sums of parts of tiles, from the workers of stream-K that have one to the one
// that finishes the tile (schedule/work.cuh), through the workspace.
//
// Warps hand over to the same warp of the other CTA; nobody else waits.
// Workspace: 32-bit flags [workers][CTAs of a cluster][warps], zero before and
// after a launch, padded to 256 bytes; then sums in the same order, a warp's in
// fragments of 32 lanes by 16 bytes. A worker has at most one part that others
// finish, its first.
#ifndef HONE_DEVICE_EPILOGUE_PARTIAL_TILES_CUH_
#define HONE_DEVICE_EPILOGUE_PARTIAL_TILES_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/schedule/work.cuh"

namespace hone {

template <typename Config, typename Warp>
class PartialTiles {
 public:
  __device__ __forceinline__ PartialTiles(u8* workspace,
                                          const Work<Config>& work)
      : workspace_(workspace), work_(work) {}

  // Hands over the warp's sums of the current part.
  __device__ __forceinline__ void Publish(const Warp& warp) const {
    u8* sums = Sums(work_.worker()) + warp.lane() * 16;
#pragma unroll
    for (int f = 0; f < Warp::kFragments; ++f) {
      ptx::StoreGlobal16(sums + f * 512, warp.words(f));
    }
    ptx::ThreadFence();
    ptx::WarpSync();
    if (warp.lane() == 0) ptx::StoreRelease4(Flag(work_.worker()), 1);
  }

  // Adds those of all other parts of the current tile, which has begun here, in
  // their order along K.
  __device__ __forceinline__ void Collect(Warp& warp) const {
    constexpr int kBatch = Warp::kFragments < 8 ? Warp::kFragments : 8;
    const int end = work_.TileEnd();
#pragma unroll 1
    for (int other = work_.worker() + 1; work_.Begin(other) < end; ++other) {
      if (warp.lane() == 0) {
        u32* flag = Flag(other);
        while (ptx::LoadAcquire4(flag) == 0) {
        }
        // Nobody else reads it.
        ptx::StoreGlobal4(flag, 0);
      }
      ptx::WarpSync();
      const u8* sums = Sums(other) + warp.lane() * 16;
#pragma unroll
      for (int first = 0; first < Warp::kFragments; first += kBatch) {
        Words4 words[kBatch];
#pragma unroll
        for (int f = 0; f < kBatch; ++f) {
          if (first + f >= Warp::kFragments) break;
          words[f] = ptx::LoadGlobalL2(sums + (first + f) * 512);
        }
#pragma unroll
        for (int f = 0; f < kBatch; ++f) {
          if (first + f >= Warp::kFragments) break;
          warp.Add(first + f, words[f]);
        }
      }
    }
  }

 private:
  static constexpr int kWarps = Config::kThreads / 32;
  static constexpr int kCtas = Config::kClusterM * Config::kClusterN;
  static constexpr long long kFlagBytes =
      layout::RoundUp(Config::kWorkers * kCtas * kWarps * 4ll, 256);

  // Of this warp in worker `worker`.
  __device__ __forceinline__ int Index(int worker) const {
    return (worker * kCtas + work_.rank()) * kWarps +
           static_cast<int>(ptx::ThreadIdX()) / 32;
  }
  __device__ __forceinline__ u32* Flag(int worker) const {
    return reinterpret_cast<u32*>(workspace_) + Index(worker);
  }
  __device__ __forceinline__ u8* Sums(int worker) const {
    return workspace_ + kFlagBytes +
           static_cast<u64>(Index(worker)) * (Warp::kFragments * 512);
  }

  u8* workspace_;
  const Work<Config>& work_;
};

}  // namespace hone

#endif  // HONE_DEVICE_EPILOGUE_PARTIAL_TILES_CUH_
