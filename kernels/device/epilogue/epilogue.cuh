// From accumulators to the output.
//
// Fragments (see mma/warp_tile.cuh) of warps that share channels and tokens
// are summed in a fixed order through shared memory, each warp taking its share
// of the fragments. Then each fragment is scaled, biased and converted, and
// passes through a 16-bit tile in shared memory, [kBlockM][kBlockN + 8] (the
// pad spreads a fragment's stores over all banks), to be written in rows of 16
// bytes.
//
// With split-K each CTA first writes its fragments in float32 to the
// workspace. The last one of a tile to arrive sums those of all splits in the
// order of the splits, whichever order they came in: the result is the same
// bits every time. Workspace layout: [tiles] 32-bit counters, zero before and
// after a launch, padded to 256 bytes; then [tiles][kSplitK][kBlockM·kBlockN]
// float32 in fragment order.
#ifndef HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_
#define HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_

#include "kernels/device/epilogue/output_scales.cuh"
#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/schedule/tile_schedule.cuh"

namespace hone {

// Warp is WarpTile, WarpgroupTile or TokenWarpgroupTile.
template <typename Config, typename Warp>
class Epilogue {
 public:
  static constexpr int kReduceBytes =
      Config::kWarpsK > 1
          ? Config::kWarpsK* Config::kBlockM* Config::kBlockN * 4
          : 0;
  static constexpr int kTileStride = Config::kBlockN + 8;
  static constexpr int kSharedBytes =
      kReduceBytes + Config::kBlockM * kTileStride * 2;

  __device__ __forceinline__ Epilogue(const Warp& warp,
                                      const TileSchedule<Config>& tile,
                                      u32 shared, u32 shared_flag,
                                      const OutputScales<Config, Warp>& scales)
      : warp_(warp),
        tile_(tile),
        reduce_(shared),
        output_(shared + kReduceBytes),
        flag_(shared_flag),
        scales_(scales) {}

  __device__ __forceinline__ void Run(u8* c, u8* workspace, int m) const {
    if constexpr (Config::kWarpsK > 1) {
#pragma unroll
      for (int f = 0; f < kFragments; ++f) {
        float v[4];
        warp_.fragment(f, v);
        ptx::StoreShared16(ReduceSlot(warp_.warp_k(), f), ToWords(v));
      }
      Warp::Sync();
    }
    if constexpr (Config::kSplitK > 1) {
      if (!SumSplits(workspace, m)) return;
    } else {
      ForEachFragment([&](int f, const float(&v)[4]) { Finish(f, v); });
    }
    Warp::Sync();
    WriteTile(c, m);
  }

  static __device__ __forceinline__ Words4 ToWords(const float (&v)[4]) {
    Words4 words;
#pragma unroll
    for (int e = 0; e < 4; ++e) words.w[e] = ptx::FloatToBits(v[e]);
    return words;
  }

  static __device__ __forceinline__ void Add(float (&v)[4], const Words4& words,
                                             bool first) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float value = ptx::BitsToFloat(words.w[e]);
      v[e] = first ? value : v[e] + value;
    }
  }

  // Sixteen bytes of eight channels of token `m_index` from `n_index` on, as
  // far as the output has them.
  static __device__ __forceinline__ void Store(u8* c, int m, int m_index,
                                               int n_index, u32 shared) {
    if (m_index >= m || n_index >= Config::kN) return;
    const Words4 words = ptx::LoadShared16(shared);
    u8* destination =
        c + (static_cast<u64>(m_index) * Config::kN + n_index) * 2;
    if constexpr (Config::kN % 8 == 0) {
      ptx::StoreGlobal16(destination, words);
    } else {
      // Rows of N elements are not 16-byte aligned.
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (n_index + e >= Config::kN) break;
        ptx::StoreGlobal2(destination + e * 2,
                          static_cast<u16>(words.w[e / 2] >> (e % 2 * 16)));
      }
    }
  }

 private:
  using Type = typename Config::CType;
  static constexpr int kFragments = Warp::kFragments;
  static constexpr u32 kTileBytes = Config::kBlockM * Config::kBlockN * 4;
  // Fragments that this warp finishes.
  static constexpr int kShare =
      (kFragments + Config::kWarpsK - 1) / Config::kWarpsK;

  // A fragment's 16 bytes of this lane, within [warp along m, n][fragment].
  __device__ __forceinline__ u32 FragmentOffset(int f) const {
    const int warp = warp_.warp_m() * Config::kWarpsN + warp_.warp_n();
    return ((warp * kFragments + f) * 32 + warp_.lane()) * 16;
  }
  __device__ __forceinline__ u32 ReduceSlot(int warp_k, int f) const {
    return reduce_ + warp_k * kTileBytes + FragmentOffset(f);
  }

  // Calls do_(f, v) for this warp's share of the fragments, summed over the
  // warps along K.
  template <typename Do>
  __device__ __forceinline__ void ForEachFragment(Do do_) const {
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      float v[4];
      if constexpr (Config::kWarpsK == 1) {
        warp_.fragment(i, v);
        do_(i, v);
      } else {
        const int f = i * Config::kWarpsK + warp_.warp_k();
        if (kFragments % Config::kWarpsK != 0 && f >= kFragments) break;
#pragma unroll
        for (int w = 0; w < Config::kWarpsK; ++w) {
          Add(v, ptx::LoadShared16(ReduceSlot(w, f)), w == 0);
        }
        do_(f, v);
      }
    }
  }

  // False when another CTA of this tile will finish it.
  __device__ __forceinline__ bool SumSplits(u8* workspace, int m) const {
    const int tiles = TileSchedule<Config>::Tiles(m);
    u32* counter = reinterpret_cast<u32*>(workspace) + tile_.tile;
    u8* partials = workspace + layout::RoundUp(tiles * 4ll, 256) +
                   static_cast<u64>(tile_.tile) * Config::kSplitK * kTileBytes;
    u8* own = partials + tile_.split * kTileBytes;
    ForEachFragment([&](int f, const float(&v)[4]) {
      ptx::StoreGlobal16(own + FragmentOffset(f), ToWords(v));
    });
    ptx::ThreadFence();
    Warp::Sync();
    if (ptx::ThreadIdX() == 0) {
      const bool last = ptx::AtomicIncrement(counter) == Config::kSplitK - 1;
      // Nobody else touches the counter once the last CTA has come.
      if (last) ptx::StoreGlobal4(counter, 0);
      ptx::StoreShared4(flag_, last);
    }
    Warp::Sync();
    if (ptx::LoadShared4(flag_) == 0) return false;
    ptx::ThreadFence();
    // All splits' loads of a few fragments at a time, then their sums: the
    // latency is paid once a batch.
    constexpr int kBatch = kShare < 4 ? kShare : 4;
#pragma unroll 1
    for (int base = 0; base < kShare; base += kBatch) {
      Words4 words[kBatch][Config::kSplitK];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int f = (base + b) * Config::kWarpsK + warp_.warp_k();
        if (f >= kFragments) break;
#pragma unroll
        for (int split = 0; split < Config::kSplitK; ++split) {
          words[b][split] = ptx::LoadGlobalL2(partials + split * kTileBytes +
                                              FragmentOffset(f));
        }
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int f = (base + b) * Config::kWarpsK + warp_.warp_k();
        if (f >= kFragments) break;
        float v[4];
#pragma unroll
        for (int split = 0; split < Config::kSplitK; ++split) {
          Add(v, words[b][split], split == 0);
        }
        Finish(f, v);
      }
    }
    return true;
  }

  // Scale, bias, conversion, and into the output tile.
  __device__ __forceinline__ void Finish(int f, const float (&v)[4]) const {
    float low[2];
    float high[2];
    scales_.Apply(warp_.lane(), f / Warp::kTiles, f % Warp::kTiles, v, low,
                  high);
    if constexpr (Warp::kStoresMatrices) {
      const int lane = warp_.lane();
      const int row = warp_.token(f) + Warp::MatrixToken(lane);
      const int column = warp_.channel(f) + Warp::MatrixChannel(lane);
      Warp::StoreMatrices(output_ + (row * kTileStride + column) * 2,
                          Type::Pack(low[0], low[1]),
                          Type::Pack(high[0], high[1]));
    } else {
      const int column = warp_.channel(f) + warp_.lane() / 4;
      const int row = warp_.token(f) + warp_.lane() % 4 * 2;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const u32 packed = Type::Pack(low[e], high[e]);
        const u32 address = output_ + ((row + e) * kTileStride + column) * 2;
        ptx::StoreShared2(address, static_cast<u16>(packed));
        ptx::StoreShared2(address + 16, static_cast<u16>(packed >> 16));
      }
    }
  }

  __device__ __forceinline__ void WriteTile(u8* c, int m) const {
    constexpr int kRowVectors = Config::kBlockN / 8;
    constexpr int kVectors = Config::kBlockM * kRowVectors;
#pragma unroll 4
    for (int base = 0; base < kVectors; base += Config::kThreads) {
      const int i = base + static_cast<int>(ptx::ThreadIdX());
      if (kVectors % Config::kThreads != 0 && i >= kVectors) break;
      const int row = i / kRowVectors;
      const int column = i % kRowVectors * 8;
      const int m_index = tile_.tile_m * Config::kBlockM + row;
      const int n_index = tile_.tile_n * Config::kBlockN + column;
      Store(c, m, m_index, n_index, output_ + (row * kTileStride + column) * 2);
    }
  }

  const Warp& warp_;
  const TileSchedule<Config>& tile_;
  u32 reduce_;
  u32 output_;
  u32 flag_;
  const OutputScales<Config, Warp>& scales_;
};

}  // namespace hone

#endif  // HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_
