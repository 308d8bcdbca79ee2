// From accumulators to the output.
//
// Accumulators Dᵀ pass through shared memory as float32 [kWarpsK][kBlockM]
// [kBlockN + 4] (the pad spreads a fragment's stores over all banks), are
// summed over the warps that share (m, n) in a fixed order, scaled, biased,
// converted and written in rows of 16 bytes.
//
// With split-K each CTA writes its float32 partial to the workspace; the last
// one of a tile to arrive sums the partials of all splits, in the order of the
// splits, whichever order they came in: the result is the same bits every
// time. Workspace layout: [tiles] 32-bit counters, zero before and after a
// launch, padded to 256 bytes; then [tiles][kSplitK][kBlockM][kBlockN] float32.
#ifndef HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_
#define HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/mma/warp_tile.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/schedule/tile_schedule.cuh"

namespace hone {

template <typename Config>
class Epilogue {
 public:
  static constexpr int kStride = Config::kBlockN + 4;

  static __device__ __forceinline__ void Run(
      const WarpTile<Config>& warp, const TileSchedule<Config>& tile,
      u32 shared, u32 shared_flag, const u8* scales, const u8* bias, u8* c,
      u8* workspace, int m) {
    StoreAccumulators(warp, shared);
    ptx::BarrierSync();
    if constexpr (Config::kSplitK > 1) {
      const int tiles_m = (m + Config::kBlockM - 1) / Config::kBlockM;
      const int tiles = tiles_m * TileSchedule<Config>::kTilesN;
      u32* counter = reinterpret_cast<u32*>(workspace) + tile.tile;
      u8* partials =
          workspace + layout::RoundUp(tiles * 4ll, 256) +
          static_cast<u64>(tile.tile) * (Config::kSplitK * kTileBytes);
      WritePartial(shared, partials + tile.split * kTileBytes);
      ptx::ThreadFence();
      ptx::BarrierSync();
      if (ptx::ThreadIdX() == 0) {
        const u32 before = ptx::AtomicIncrement(counter);
        const bool last = before == Config::kSplitK - 1;
        // Nobody else touches the counter once the last CTA has come.
        if (last) ptx::StoreGlobal4(counter, 0);
        ptx::StoreShared4(shared_flag, last);
      }
      ptx::BarrierSync();
      if (ptx::LoadShared4(shared_flag) == 0) return;
      ptx::ThreadFence();
      Finish(tile, m, scales, bias, c, [&](int row, int column, float* v) {
        SumSplits(partials, row, column, v);
      });
    } else {
      Finish(tile, m, scales, bias, c, [&](int row, int column, float* v) {
        SumWarps(shared, row, column, v);
      });
    }
  }

 private:
  using Type = typename Config::CType;
  static constexpr int kVectors = Config::kBlockM * Config::kBlockN / 8;
  static constexpr u32 kTileBytes = Config::kBlockM * Config::kBlockN * 4;

  static __device__ __forceinline__ void StoreAccumulators(
      const WarpTile<Config>& warp, u32 shared) {
    const int g = warp.lane() / 4;
    const int t = warp.lane() % 4;
    const int row0 = warp.warp_k() * Config::kBlockM +
                     warp.warp_m() * Config::kWarpM + 2 * t;
    const int column0 = warp.warp_n() * Config::kWarpN + g;
#pragma unroll
    for (int i = 0; i < WarpTile<Config>::kBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < WarpTile<Config>::kTokens; ++j) {
        const float(&d)[4] = warp.sum(i, j);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int row = row0 + 8 * j + r % 2;
          const int column = column0 + 16 * i + r / 2 * 8;
          ptx::StoreShared4(shared + (row * kStride + column) * 4,
                            ptx::FloatToBits(d[r]));
        }
      }
    }
  }

  // Eight neighbouring channels of one token, summed over warps along K.
  static __device__ __forceinline__ void SumWarps(u32 shared, int row,
                                                  int column, float* v) {
#pragma unroll
    for (int w = 0; w < Config::kWarpsK; ++w) {
      const u32 address =
          shared + ((w * Config::kBlockM + row) * kStride + column) * 4;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Words4 words = ptx::LoadShared16(address + half * 16);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float value = ptx::BitsToFloat(words.w[e]);
          v[half * 4 + e] = w == 0 ? value : v[half * 4 + e] + value;
        }
      }
    }
  }

  static __device__ __forceinline__ void WritePartial(u32 shared,
                                                      u8* partial) {
#pragma unroll 1
    for (int i = static_cast<int>(ptx::ThreadIdX()); i < kVectors;
         i += Config::kThreads) {
      const int row = i / (Config::kBlockN / 8);
      const int column = i % (Config::kBlockN / 8) * 8;
      float v[8];
      SumWarps(shared, row, column, v);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Words4 words;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          words.w[e] = ptx::FloatToBits(v[half * 4 + e]);
        }
        ptx::StoreGlobal16(partial + (row * Config::kBlockN + column) * 4 +
                               half * 16,
                           words);
      }
    }
  }

  static __device__ __forceinline__ void SumSplits(const u8* partials, int row,
                                                   int column, float* v) {
    const u8* source = partials + (row * Config::kBlockN + column) * 4;
#pragma unroll
    for (int split = 0; split < Config::kSplitK; ++split) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Words4 words =
            ptx::LoadGlobalL2(source + split * kTileBytes + half * 16);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float value = ptx::BitsToFloat(words.w[e]);
          v[half * 4 + e] = split == 0 ? value : v[half * 4 + e] + value;
        }
      }
    }
  }

  template <typename Sum>
  static __device__ __forceinline__ void Finish(
      const TileSchedule<Config>& tile, int m, const u8* scales,
      const u8* bias, u8* c, Sum sum) {
#pragma unroll 1
    for (int i = static_cast<int>(ptx::ThreadIdX()); i < kVectors;
         i += Config::kThreads) {
      const int row = i / (Config::kBlockN / 8);
      const int column = i % (Config::kBlockN / 8) * 8;
      const int m_index = tile.tile_m * Config::kBlockM + row;
      const int n_index = tile.tile_n * Config::kBlockN + column;
      if (m_index >= m || n_index >= Config::kN) continue;
      float v[8];
      sum(row, column, v);
      u8* destination =
          c + (static_cast<u64>(m_index) * Config::kN + n_index) * 2;
      const int count =
          Config::kN % 8 == 0 ? 8 : Min(8, Config::kN - n_index);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (e >= count) break;
        if constexpr (Config::kChannelScale) {
          const u16 scale = ptx::LoadGlobal2(
              scales + layout::ScaleIndex(n_index + e, 0, 1) * 2);
          v[e] *= Config::AType::ToFloat(scale);
        }
        if constexpr (Config::kBias) {
          v[e] += Type::ToFloat(
              ptx::LoadGlobal2(bias + static_cast<u64>(n_index + e) * 2));
        }
      }
      if constexpr (Config::kN % 8 == 0) {
        Words4 words;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          words.w[e] = Type::Pack(v[2 * e], v[2 * e + 1]);
        }
        ptx::StoreGlobal16(destination, words);
      } else {
        // Rows of N elements are not 16-byte aligned.
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          if (e >= count) break;
          ptx::StoreGlobal2(destination + e * 2,
                            static_cast<u16>(Type::Pack(v[e], 0.0f)));
        }
      }
    }
  }

  static __device__ __forceinline__ int Min(int a, int b) {
    return a < b ? a : b;
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_EPILOGUE_EPILOGUE_CUH_
