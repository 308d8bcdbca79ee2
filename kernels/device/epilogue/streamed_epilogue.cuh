// From accumulators to the output, warp by warp: for tiles whose sums are whole
// in their warps' registers.
//
// Each warp scales and converts a piece of its sums at a time, kRows tokens by
// kColumns channels, into shared memory of its own, in 16 bits with rows padded
// by 16 bytes (which spreads eight rows over all banks), and writes them in
// rows of 32 to 128 bytes. No warp waits for another, and the ring is free for
// the next tile meanwhile. A piece has all channels of the warp and is
// transposed on its way; or, where tokens are the MMA's rows (kTokenRows), the
// tokens of a block.
//
// Where the splits of a tile are a cluster (kClusterSplit), each CTA finishes a
// part of the MMA's columns: tokens, or channels. A warp writes its fragments
// of the others' parts to shared memory, over the ring, has the copy engine
// send them to those CTAs, and adds what it gets from their warps in the order
// of the splits. Layout of what is sent, and of what is received: [other
// splits][warps][fragments][lanes] of 16 bytes.
#ifndef HONE_DEVICE_EPILOGUE_STREAMED_EPILOGUE_CUH_
#define HONE_DEVICE_EPILOGUE_STREAMED_EPILOGUE_CUH_

#include "kernels/device/epilogue/epilogue.cuh"
#include "kernels/device/ptx/bulk_copy.cuh"
#include "kernels/device/ptx/cluster.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/mbarrier.cuh"
#include "kernels/device/schedule/tile_schedule.cuh"

namespace hone {

template <typename Config, typename Warp>
class StreamedEpilogue {
 public:
  static constexpr int kParts = Config::kClusterSplit;
  static constexpr int kPartTiles = Warp::kTiles / kParts;
  // Tiles of columns of a piece.
  static constexpr int kPieceTiles = Config::kTokenRows && kPartTiles % 8 == 0
                                         ? 8
                                     : kPartTiles % 4 == 0 ? 4
                                     : kPartTiles % 2 == 0 ? 2
                                                           : 1;
  static constexpr int kRows = Config::kTokenRows ? 16 : kPieceTiles * 8;
  static constexpr int kColumns =
      Config::kTokenRows ? kPieceTiles * 8 : Config::kWarpN;
  static constexpr int kStride = kColumns * 2 + 16;
  static constexpr int kWarpBytes = kRows * kStride;
  static constexpr int kWarps = Config::kThreads / 32;
  // Shared memory: buffers of all warps, and what other splits send.
  static constexpr int kBufferBytes = kWarps * kWarpBytes;
  static constexpr int kWarpPartBytes = Warp::kFragments / kParts * 512;
  static constexpr int kPartBytes = kWarps * kWarpPartBytes;
  static constexpr int kReceivedBytes = (kParts - 1) * kPartBytes;

  __device__ __forceinline__ StreamedEpilogue(
      const Warp& warp, const TileSchedule<Config>& tile, u32 buffers,
      u32 received, const OutputScales<Config, Warp>& scales)
      : warp_(warp),
        tile_(tile),
        scales_(scales),
        buffer_(buffers + warp.warp() * kWarpBytes),
        received_(received) {}

  // Sums the splits of a tile over the cluster: by way of the ring at `ring`,
  // which is free, and announced by the mbarrier `arrived`.
  __device__ __forceinline__ void Exchange(u32 ring, u32 arrived) const {
    ForPart<0>([&](auto part) { Send<decltype(part)::kValue>(ring, arrived); });
    ptx::MbarrierWait(arrived, 0);
  }

  __device__ __forceinline__ void Run(u8* c, int m) const {
    ForPart<0>([&](auto part) { Write<decltype(part)::kValue>(c, m); });
  }

 private:
  using Type = typename Config::CType;
  using Tail = Epilogue<Config, Warp>;

  template <int kPart>
  struct Part {
    static constexpr int kValue = kPart;
  };

  // Calls do_ for this CTA's part, as a constant: registers are indexed by it.
  template <int kPart, typename Do>
  __device__ __forceinline__ void ForPart(Do do_) const {
    if constexpr (kPart + 1 == kParts) {
      do_(Part<kPart>{});
    } else if (tile_.split == kPart) {
      do_(Part<kPart>{});
    } else {
      ForPart<kPart + 1>(do_);
    }
  }

  // Where the other split `other` lies among those of split `own`.
  static __device__ constexpr int Slot(int own, int other) {
    return other < own ? other : other - 1;
  }
  // A warp's 16 bytes of this lane for the fragment of block i and tile j of a
  // part, in slot `slot`.
  __device__ __forceinline__ u32 Offset(int slot, int i, int j) const {
    return slot * kPartBytes + warp_.warp() * kWarpPartBytes +
           ((i * kPartTiles + j) * 32 + warp_.lane()) * 16;
  }

  template <int kPart>
  __device__ __forceinline__ void Send(u32 ring, u32 arrived) const {
#pragma unroll
    for (int other = 0; other < kParts; ++other) {
      if (other == kPart) continue;
#pragma unroll
      for (int i = 0; i < Warp::kBlocks; ++i) {
#pragma unroll
        for (int j = 0; j < kPartTiles; ++j) {
          float v[4];
          warp_.fragment(i * Warp::kTiles + other * kPartTiles + j, v);
          ptx::StoreShared16(ring + Offset(Slot(kPart, other), i, j),
                             Tail::ToWords(v));
        }
      }
    }
    ptx::AsyncProxyFence();
    ptx::WarpSync();
    if (warp_.lane() == 0) {
#pragma unroll
      for (int other = 0; other < kParts; ++other) {
        if (other == kPart) continue;
        ptx::BulkCopyToCluster(
            received_ + Offset(Slot(other, kPart), 0, 0), tile_.RankOf(other),
            ring + Offset(Slot(kPart, other), 0, 0), kWarpPartBytes, arrived);
      }
    }
    ptx::WarpSync();
  }

  // Fragment f of the CTA's own part, with those of the other splits.
  template <int kPart>
  __device__ __forceinline__ void Sum(int i, int j, float (&v)[4]) const {
    float own[4];
    warp_.fragment(i * Warp::kTiles + kPart * kPartTiles + j, own);
#pragma unroll
    for (int split = 0; split < kParts; ++split) {
      Words4 words;
      if (split == kPart) {
        words = Tail::ToWords(own);
      } else {
        words = ptx::LoadShared16(received_ + Offset(Slot(kPart, split), i, j));
      }
      Tail::Add(v, words, split == 0);
    }
  }

  template <int kPart>
  __device__ __forceinline__ void Write(u8* c, int m) const {
#pragma unroll
    for (int first = 0; first < kPartTiles; first += kPieceTiles) {
      if constexpr (Config::kTokenRows) {
#pragma unroll
        for (int i = 0; i < Warp::kBlocks; ++i) {
          Put<kPart>(i, first, 0);
          Copy(c, m, warp_.BlockToken(i), (kPart * kPartTiles + first) * 8);
        }
      } else {
#pragma unroll
        for (int i = 0; i < Warp::kBlocks; ++i) Put<kPart>(i, first, i * 16);
        Copy(c, m, (kPart * kPartTiles + first) * 8, warp_.BlockChannel(0));
      }
    }
  }

  // Block i's outputs of tiles [first, first + kPieceTiles) of the part, to the
  // buffer from channel `column` on.
  template <int kPart>
  __device__ __forceinline__ void Put(int i, int first, int column) const {
    const int lane = warp_.lane();
    const u32 target = buffer_ + Warp::MatrixToken(lane) * kStride +
                       (Warp::MatrixChannel(lane) + column) * 2;
    // From one tile of the piece to the next.
    constexpr int kStep = Config::kTokenRows ? 16 : 8 * kStride;
#pragma unroll
    for (int j = 0; j < kPieceTiles; ++j) {
      float v[4];
      Sum<kPart>(i, first + j, v);
      float low[2];
      float high[2];
      scales_.Apply(lane, i, kPart * kPartTiles + first + j, v, low, high);
      Warp::StoreMatrices(target + j * kStep, Type::Pack(low[0], low[1]),
                          Type::Pack(high[0], high[1]));
    }
  }

  // The buffer to the output, from `token` and `channel` of the tile on.
  __device__ __forceinline__ void Copy(u8* c, int m, int token,
                                       int channel) const {
    constexpr int kRowVectors = kColumns / 8;
    const int lane = warp_.lane();
    const int row = lane / kRowVectors;
    const int column = lane % kRowVectors * 8;
    const int m0 = tile_.tile_m * Config::kBlockM + token + row;
    const int n0 = tile_.tile_n * Config::kBlockN + channel;
    // Blocks of 16 channels may be apart.
    const int n = column / 16 * Warp::kBlockStride + column % 16;
    ptx::WarpSync();
#pragma unroll
    for (int r = 0; r < kRows; r += 32 / kRowVectors) {
      // With few rows not all lanes have one.
      if (32 / kRowVectors > kRows && row >= kRows) break;
      Tail::Store(c, m, m0 + r, n0 + n,
                  buffer_ + (r + row) * kStride + column * 2);
    }
    ptx::WarpSync();
  }

  const Warp& warp_;
  const TileSchedule<Config>& tile_;
  const OutputScales<Config, Warp>& scales_;
  u32 buffer_;
  u32 received_;
};

}  // namespace hone

#endif  // HONE_DEVICE_EPILOGUE_STREAMED_EPILOGUE_CUH_
