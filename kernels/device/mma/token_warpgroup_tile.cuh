// One warpgroup's share of a tile on wgmma, D = X·Wᵀ: tokens as the A operand,
// channels as the B operand, both K-major rows in shared memory; accumulators
// [kBlocks · 64, kBlockN]. For weights that are operands as they are, of enough
// tokens for whole blocks of 64.
//
// Against the other orientation (mma/warpgroup_tile.cuh) a thread has few
// tokens, rows g and g + 8 of each block, and many channels: of A's group
// scales it needs two a block instead of two for each tile of eight tokens
// (which at 128 x 128 kept the path to shared memory busy 90 % of the time);
// of B's block scales one for each unit of 64 channels. And a token's outputs
// lie side by side in registers, so that nothing is transposed.
//
// The MMAs of a scale group are committed together. Its scales are read while
// they run; when they are done the stage is free, before the partial sums join
// the accumulators with one fma each. Without groups all MMAs of a stage are
// one group, and the wait for it comes after those of the next stage are
// issued.
#ifndef HONE_DEVICE_MMA_TOKEN_WARPGROUP_TILE_CUH_
#define HONE_DEVICE_MMA_TOKEN_WARPGROUP_TILE_CUH_

#include "kernels/device/memory/tma_ring.cuh"
#include "kernels/device/mma/warpgroup_sums.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/ptx/wgmma.cuh"

namespace hone {

template <typename Config>
class TokenWarpgroupTile : public WarpgroupSums<Config, Config::kWarpM / 16,
                                                Config::kBlockN / 8, 1> {
 public:
  using Base =
      WarpgroupSums<Config, Config::kWarpM / 16, Config::kBlockN / 8, 1>;
  using Base::kBlocks;
  using Base::kTiles;

  __device__ __forceinline__ explicit TokenWarpgroupTile(RingBarriers barriers)
      : Base(barriers, Config::kWarpsM) {
    if constexpr (kTurns) {
      if (warpgroup() == 1) ptx::NamedBarrierArrive(kTurnBarrier, 256);
    }
  }

  // After all tiles: the first warpgroup's turn that is left.
  __device__ __forceinline__ ~TokenWarpgroupTile() {
    if constexpr (kTurns) {
      if (warpgroup() == 0) ptx::NamedBarrierSync(kTurnBarrier, 256);
    }
  }

  // Starts a tile. Entries of scales are what the mainloop and the epilogue
  // read; nothing here depends on them.
  __device__ __forceinline__ void Begin(const u8* /*entries*/, int /*units*/,
                                        const u8* /*least*/) {
    Base::SetZero();
  }

  // Adds the products of k-steps [begin, end), at least one, which come into
  // the ring at `ring` from `cursor` on.
  __device__ __forceinline__ void Accumulate(u32 ring,
                                             RingCursor<Config>& cursor,
                                             int begin, int end) {
    Base::Walk(cursor, begin, end, [&](RingCursor<Config> at) {
      const u32 stage = at.stage;
      const u32 here = ring + stage * S::kBytes;
      Base::WaitFull(at);
      if constexpr (kPartial) {
        MultiplyParts(here, stage);
      } else {
        Issue<0, kSteps, 0, kBlocks>(here);
        ptx::WgmmaWait<Base::kFlight - 1>();
        if constexpr (Base::kDrained) {
          Base::Release(stage, true);
        } else {
          Base::Release(Base::last_stage_, Base::has_last_);
        }
      }
    });
  }

  // A fragment's two packed matrices of eight tokens each; lane l gives the
  // address of token MatrixToken(l) of the fragment, from channel
  // MatrixChannel(l) on.
  static __device__ __forceinline__ void StoreMatrices(u32 address, u32 low,
                                                       u32 high) {
    ptx::StoreMatrix2(address, low, high);
  }
  static __device__ __forceinline__ int MatrixToken(int lane) {
    return lane % 16;
  }
  static __device__ __forceinline__ int MatrixChannel(int /*lane*/) {
    return 0;
  }

  // Fragment f's first channel and token within the tile.
  __device__ __forceinline__ int channel(int f) const { return f % kTiles * 8; }
  __device__ __forceinline__ int token(int f) const {
    return BlockToken(f / kTiles);
  }
  // Of the warp's block i of tokens, and of 16 channels.
  __device__ __forceinline__ int BlockToken(int i) const {
    const int warp = Base::warp();
    return warp / 4 * (kBlocks * 64) + i * 64 + warp % 4 * 16;
  }
  static constexpr int kBlockStride = 16;
  __device__ __forceinline__ int BlockChannel(int i) const {
    return i * kBlockStride;
  }
  __device__ __forceinline__ int warp_m() const { return Base::warp(); }
  __device__ __forceinline__ int warp_n() const { return 0; }

 private:
  using S = typename Base::S;
  using Base::kAGrouped;
  using Base::kGrouped;
  using Base::kPartial;
  using Base::kPartialSets;
  using Base::kParts;
  using Base::kScaleSteps;
  using Base::kSteps;
  static constexpr int kUnits = S::kUnitsN;
  static_assert(Config::kDirect && (!kGrouped || Config::kBlockScale));

  // Whether two warpgroups issue their MMAs in turns, so that one's run while
  // the other's sums join the accumulators: by themselves they fall into step,
  // share the tensor cores, and then leave them idle together. (8192 x 8192,
  // 256 x 128, M = 1024 and 4096, microseconds on an H200: 133 and 518 without,
  // 125 and 488 with; 138 and 531 if a turn comes only when the MMAs before it
  // are done, and no gain if it comes when one, two or three of their four are
  // left: 129, 127 and 127 beside 127 on another card. Three warpgroups, with
  // tiles of 192 x 128, took 159 and 647 in turns, 164 and 678 without.)
  static constexpr bool kTurns =
      kPartial && kPartialSets == 1 && Config::kThreads == 256;
  // Warpgroup w's turn comes at barrier kTurnBarrier + w.
  static constexpr u32 kTurnBarrier = 2;
  static __device__ __forceinline__ u32 warpgroup() {
    return ptx::ThreadIdX() / 128;
  }

  // What multiplies a part's sums: of rows g and g + 8, by unit of channels.
  struct Factors {
    float low[kUnits];
    float high[kUnits];
  };

  // Issues steps [kFirst, kEnd) of blocks [kFirstBlock, kEndBlock) of the stage
  // at `here`, committed together.
  template <int kFirst, int kEnd, int kFirstBlock, int kEndBlock>
  __device__ __forceinline__ void Issue(u32 here) {
    // The first of the warpgroup's blocks.
    const u32 rows = here + Base::warp() / 4 * (kBlocks * 64 * 128);
    ptx::WgmmaFence();
#pragma unroll
    for (int step = kFirst; step < kEnd; ++step) {
      const u64 columns =
          Base::template Descriptor<Config::kBlockN>(here + S::kBOffset, step);
#pragma unroll
      for (int i = kFirstBlock; i < kEndBlock; ++i) {
        Base::Multiply(step, i,
                       Base::template Descriptor<Config::kBlockM>(
                           rows + i * (64 * 128), step),
                       columns);
      }
    }
    ptx::WgmmaCommit();
  }

  // Stage `stage`, at `here`, part by part from kPart on: groups of columns,
  // and each group's blocks. With two sets of partial sums one joins the
  // accumulators while the MMAs of the next run.
  template <int kPart = 0>
  __device__ __forceinline__ void MultiplyParts(u32 here, u32 stage) {
    if constexpr (kPart < kParts) {
      constexpr bool kLast = kPart + 1 == kParts;
      constexpr int kFirst = kPart / kBlocks * kScaleSteps;
      constexpr int kBlock = kPart % kBlocks;
      if constexpr (kTurns) {
        ptx::NamedBarrierSync(kTurnBarrier + warpgroup(), 256);
      }
      Issue<kFirst, kFirst + kScaleSteps, kBlock, kBlock + 1>(here);
      if constexpr (kTurns) {
        ptx::NamedBarrierArrive(kTurnBarrier + (warpgroup() ^ 1), 256);
      }
      if constexpr (kPartialSets == 2 && kPart > 0) {
        const Factors factors = LoadFactors(here, kPart - 1);
        ptx::WgmmaWait<1>();
        Fold(kPart - 1, factors);
      }
      if constexpr (kPartialSets == 1 || kLast) {
        const Factors factors = LoadFactors(here, kPart);
        ptx::WgmmaWait<0>();
        if constexpr (kLast) Base::Release(stage, true);
        Fold(kPart, factors);
      }
      MultiplyParts<kPart + 1>(here, stage);
    }
  }

  // Those of the warpgroup's part `part` in the stage at `here`.
  __device__ __forceinline__ Factors LoadFactors(u32 here, int part) const {
    const int column = Base::ScaleColumn(part / kBlocks);
    float low = 1.0f;
    float high = 1.0f;
    if constexpr (kAGrouped) {
      const u32 row = here + S::kAScaleOffset +
                      (Base::AGroupOf(column) * Config::kBlockM +
                       BlockToken(part % kBlocks) + Base::lane() / 4) *
                          4;
      low = ptx::BitsToFloat(ptx::LoadShared4(row));
      high = ptx::BitsToFloat(ptx::LoadShared4(row + 32));
    }
    Factors factors;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      float of_unit = 1.0f;
      if constexpr (kGrouped) {
        of_unit = ptx::BitsToFloat(
            ptx::LoadShared4(Base::Entry(here, Base::GroupOf(column), u)));
      }
      factors.low[u] = of_unit * low;
      factors.high[u] = of_unit * high;
    }
    return factors;
  }

  // Adds the partial sums of part `part`, which are complete.
  __device__ __forceinline__ void Fold(int part, const Factors& factors) {
    if constexpr (kStrip == Strip::kDequantization) return;
    auto& partial = Base::partial_[part % kPartialSets];
    Base::PinAll(partial);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        Base::sum_[part % kBlocks][j][e] +=
            static_cast<float>(partial[0][j][e]) *
            (e < 2 ? factors.low[j / 8] : factors.high[j / 8]);
      }
    }
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_MMA_TOKEN_WARPGROUP_TILE_CUH_
