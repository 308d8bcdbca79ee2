// One warpgroup's share of a tile on wgmma: weights as the A operand,
// dequantized in registers (or, where their codes are operands as they are,
// from shared memory), activations in shared memory as the B operand,
// accumulators Dᵀ [kBlocks · 64, kBlockM] in float32, or in int32 where
// integers are multiplied. A warp's share of both operands' fragments is that
// of mma.sync's.
//
// An MMA step covers 32 bytes of a row of operands: m64nNk16 of 16-bit types,
// k32 of 8-bit ones.
//
// Dequantized weights: MMAs go in groups of kBatch steps (for each of the
// kBlocks blocks of 64 channels), of which kFlight run at a time: while they
// do, the weights of the next group are dequantized into other registers. Few
// tokens make short MMAs, so that several share a group's overhead. The wait
// for a group is also what frees a stage: after the first groups of a stage,
// the one before it.
//
// Weights from shared memory (kDirect): all MMAs of a stage are one group, and
// the wait for it comes after those of the next stage are issued.
//
// Group scales go where they cost least, as in mma/warp_tile.cuh: before the
// MMA they multiply packed weights; after it (kScaleAfter) they fold a partial
// sum that starts with the group into the accumulators. Those of activations
// and of 8-bit operands have no other place, which also keeps the sums of 8-bit
// floats exact: wgmma adds them with 13 fractional bits only.
#ifndef HONE_DEVICE_MMA_WARPGROUP_TILE_CUH_
#define HONE_DEVICE_MMA_WARPGROUP_TILE_CUH_

#include "kernels/device/memory/tma_ring.cuh"
#include "kernels/device/mma/warpgroup_sums.cuh"
#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/numeric/windowed.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/wgmma.cuh"

namespace hone {

// Blocks of rows are 64 channels of the warpgroup, 16 of each a warp's. Packed
// weights are fragments, and a warp's channels lie side by side; in rows the
// blocks do. Tiles of columns are eight tokens.
template <typename Config>
class WarpgroupTile
    : public WarpgroupSums<Config, Config::kWarpN / 16, Config::kBlockM / 8,
                           Config::kWarpN / 16> {
 public:
  using Base = WarpgroupSums<Config, Config::kWarpN / 16, Config::kBlockM / 8,
                             Config::kWarpN / 16>;
  using Base::kBlocks;
  using Base::kTiles;

  __device__ __forceinline__ explicit WarpgroupTile(RingBarriers barriers)
      : Base(barriers, Config::kWarpsN) {}

  // Starts a tile whose first entries are `entries`, of which there are
  // `units` left along N: the zero points of a layer without groups come from
  // them. `least` are its channels' least scales, where scales keep within a
  // window.
  __device__ __forceinline__ void Begin(const u8* entries, int units,
                                        const u8* least) {
    if constexpr (Config::kWindow) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        u32 low = 0;
        u32 high = 0;
        if (UnitOf(i) < units) {
          const u8* row = least + BlockChannel(i) + Base::lane() / 4;
          low = ptx::LoadConstant1(row);
          high = ptx::LoadConstant1(row + 8);
        }
        tables_[i] = Weight::template Base<Type>(low, high);
      }
    }
    Base::SetZero();
    if constexpr (kHasZero && !kGrouped) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        if (UnitOf(i) >= units) {
          zeros_[i] = {0, 0};
          continue;
        }
        const u8* pair = entries + UnitOf(i) * Config::kEntryBytes +
                         Config::kEntryScaleBytes + Pair(i) * Zero::kBits / 8;
        u32 codes;
        if constexpr (Zero::kBits == 4) {
          codes = ptx::LoadConstant1(pair);
        } else if constexpr (Zero::kBits == 8) {
          codes = ptx::LoadConstant2(pair);
        } else {
          codes = ptx::LoadConstant4(pair);
        }
        zeros_[i] = Zero::template Pair<Type>(codes);
      }
    }
  }

  // Adds the products of k-steps [begin, end), at least one, which come into
  // the ring at `ring` from `cursor` on.
  __device__ __forceinline__ void Accumulate(u32 ring,
                                             RingCursor<Config>& cursor,
                                             int begin, int end) {
    Base::WaitFull(cursor);
    Unit unit;
    if constexpr (!Config::kDirect && kStrip != Strip::kArithmetic) {
      LoadUnit(ring + cursor.stage * S::kBytes, 0, unit);
    }
    Base::Walk(cursor, begin, end, [&](RingCursor<Config> at) {
      const u32 stage = at.stage;
      if constexpr (Config::kDirect) {
        AccumulateRows(ring, stage);
        Base::WaitFull(Base::next_);
      } else {
        AccumulateStage(ring, stage, unit);
      }
      if constexpr (Base::kDrained) Base::Release(stage, true);
    });
  }

  // A fragment's two packed matrices of eight channels each, transposed; lane l
  // gives the address of token MatrixToken(l) of the fragment, from channel
  // MatrixChannel(l) on.
  static __device__ __forceinline__ void StoreMatrices(u32 address, u32 low,
                                                       u32 high) {
    ptx::StoreMatrix2Transposed(address, low, high);
  }
  static __device__ __forceinline__ int MatrixToken(int lane) {
    return lane % 8;
  }
  static __device__ __forceinline__ int MatrixChannel(int lane) {
    return lane / 8 % 2 * 8;
  }

  // Fragment f's first channel and token within the tile.
  __device__ __forceinline__ int channel(int f) const {
    return BlockChannel(f / kTiles);
  }
  __device__ __forceinline__ int token(int f) const { return f % kTiles * 8; }
  // Of the warp's block i, within the tile, and what lies between two blocks.
  static constexpr int kBlockStride = Config::kDirect ? 64 : 16;
  __device__ __forceinline__ int BlockChannel(int i) const {
    const int warp = Base::warp();
    const int first = Config::kDirect
                          ? warp / 4 * (kBlocks * 64) + warp % 4 * 16
                          : warp * Config::kWarpN;
    return first + i * kBlockStride;
  }
  __device__ __forceinline__ int warp_m() const { return 0; }
  __device__ __forceinline__ int warp_n() const { return Base::warp(); }

 private:
  using S = typename Base::S;
  using Type = typename Base::Type;
  using Weight = typename Config::Weight;
  using Scale = typename Config::Scale;
  using Zero = typename Config::Zero;
  using Base::kAGrouped;
  using Base::kDrained;
  using Base::kFlight;
  using Base::kGrouped;
  using Base::kPartial;
  using Base::kPartialSets;
  using Base::kScaleSteps;
  using Base::kSteps;
  using Base::Least;
  using typename Base::Partial;

  static constexpr int kUnits = Config::kWarpK / layout::kUnitColumns;
  static constexpr int kUnitSteps = layout::UnitSteps(Type::kBits);
  static constexpr bool kScaleAfter = Config::kScaleAfter;
  static constexpr bool kScaleBefore = kGrouped && !kScaleAfter;
  static constexpr bool kHasZero = Zero::kBits != 0;
  static constexpr int kBatch =
      Least(Config::kMmaBatch,
            kScaleAfter ? Least(kScaleSteps, kUnitSteps) : kUnitSteps);
  // Entries of B's scales in a unit's columns, and steps of each.
  static constexpr int kEntries =
      kGrouped && Config::kGroup < layout::kUnitColumns
          ? layout::kUnitColumns / Config::kGroup
          : 1;
  static constexpr int kEntrySteps = kUnitSteps / kEntries;

  // What a lane needs of a packed unit besides activations: words, and the
  // entries' scales (of rows g and g + 8 of each block) and zero points, as
  // stored.
  struct Unit {
    u32 words[kBlocks][Config::kBBits];
    u32 scales[kScaleBefore ? kEntries : 1][kBlocks];
    u32 zeros[kGrouped && kHasZero ? kEntries : 1][kBlocks];
  };

  // Of block i of the warp: its unit of 64 rows of the tile (for packed weights
  // all blocks have the same), and its place there.
  __device__ __forceinline__ int UnitOf(int i) const {
    const int warp = Base::warp();
    return Config::kDirect ? warp / 4 * kBlocks + i : warp * kBlocks / 4;
  }
  __device__ __forceinline__ int BlockOf(int i) const {
    const int warp = Base::warp();
    return Config::kDirect ? warp % 4 : warp * kBlocks % 4 + i;
  }
  // In an entry: the pair of rows g and g + 8 of block i.
  __device__ __forceinline__ int Pair(int i) const {
    return BlockOf(i) * 16 + Base::lane() / 4 * 2;
  }

  // After steps [first, end) of stage `stage` are committed: waits for the MMAs
  // before them, or for all, and flushes the partial sums that this completes.
  __device__ __forceinline__ void FlushComplete(u32 ring, u32 stage, int first,
                                                int end) {
    if constexpr (kPartialSets == 2) {
      if (first > 0) {
        ptx::WgmmaWait<1>();
        if (first % kScaleSteps == 0) {
          Flush(ring, stage, first / kScaleSteps - 1);
        }
      }
      if (end < kSteps) return;
    } else if (end % kScaleSteps != 0) {
      ptx::WgmmaWait<kFlight - 1>();
      return;
    }
    ptx::WgmmaWait<0>();
    Flush(ring, stage, end / kScaleSteps - 1);
  }

  // Adds the products of the step in stage `stage`, weights in rows.
  __device__ __forceinline__ void AccumulateRows(u32 ring, u32 stage) {
    const u32 here = ring + stage * S::kBytes;
    // The first of the warpgroup's blocks.
    const u32 rows =
        here + S::kBOffset + Base::warp() / 4 * (kBlocks * 64 * 128);
    // Steps that are committed together.
    constexpr int kTogether = kPartial ? kScaleSteps : kSteps;
#pragma unroll
    for (int first = 0; first < kSteps; first += kTogether) {
      ptx::WgmmaFence();
#pragma unroll
      for (int step = first; step < first + kTogether; ++step) {
        const u64 x = Base::template Descriptor<Config::kBlockM>(here, step);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
          Base::Multiply(step, i,
                         Base::template Descriptor<Config::kBlockN>(
                             rows + i * (64 * 128), step),
                         x);
        }
      }
      ptx::WgmmaCommit();
      if constexpr (kPartial) {
        FlushComplete(ring, stage, first, first + kTogether);
      } else {
        ptx::WgmmaWait<kFlight - 1>();
        if constexpr (!kDrained)
          Base::Release(Base::last_stage_, Base::has_last_);
      }
    }
  }

  // Adds the products of the step in stage `stage`, whose first unit is `unit`;
  // leaves the first one of the next step there.
  __device__ __forceinline__ void AccumulateStage(u32 ring, u32 stage,
                                                  Unit& unit) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      AccumulateBatches<0>(ring, stage, u, unit);
    }
  }

  template <int kStep>
  __device__ __forceinline__ void AccumulateBatches(u32 ring, u32 stage, int u,
                                                    Unit& unit) {
    if constexpr (kStep < kUnitSteps) {
      const u32 here = ring + stage * S::kBytes;
      u32 a[kBatch][kBlocks][4];
      Dequantize<kStep, 0>(unit, a);
#pragma unroll
      for (int s = 0; s < kBatch; ++s) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
          for (int r = 0; r < 4; ++r) ptx::Pin(a[s][i][r]);
        }
      }
      ptx::WgmmaFence();
#pragma unroll
      for (int s = 0; s < kBatch; ++s) {
        const int step = u * kUnitSteps + kStep + s;
        const u64 x = Base::template Descriptor<Config::kBlockM>(here, step);
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) Base::Multiply(step, i, a[s][i], x);
      }
      ptx::WgmmaCommit();
      // The next unit's loads run while the MMAs do.
      Unit next = unit;
      if constexpr (kStep + kBatch == kUnitSteps) {
        if (u + 1 < kUnits) {
          LoadUnit(here, u + 1, next);
        } else {
          Base::WaitFull(Base::next_);
          LoadUnit(ring + Base::next_.stage * S::kBytes, 0, next);
        }
      }
      const int step = u * kUnitSteps + kStep + kBatch;
      if constexpr (kPartial) {
        FlushComplete(ring, stage, step - kBatch, step);
      } else {
        ptx::WgmmaWait<kFlight - 1>();
        if (!kDrained && step / kBatch == kFlight - 1) {
          Base::Release(Base::last_stage_, Base::has_last_);
        }
      }
      unit = next;
      AccumulateBatches<kStep + kBatch>(ring, stage, u, unit);
    }
  }

  template <int kStep, int kInBatch>
  __device__ __forceinline__ void Dequantize(const Unit& unit,
                                             u32 (&a)[kBatch][kBlocks][4]) {
    if constexpr (kInBatch < kBatch) {
      constexpr int kUnitStep = kStep + kInBatch;
      constexpr int kEntry = kUnitStep / kEntrySteps;
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        u32(&w)[4] = a[kInBatch][i];
        if constexpr (kStrip == Strip::kDequantization) {
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            // Registers of its own: the words' are loaded again meanwhile.
            w[r] = unit.words[i][r % Config::kBBits] ^ (kUnitStep + 1u);
          }
        } else if constexpr (Config::kWindow) {
          Weight::template Fragment<kUnitStep>(
              unit.words[i],
              Weight::template Scaled<Type>(tables_[i], unit.scales[kEntry][i]),
              w);
        } else {
          ZeroPair zero = zeros_[kHasZero ? i : 0];
          if constexpr (kHasZero && kGrouped) {
            zero = Zero::template Pair<Type>(unit.zeros[kEntry][i]);
          }
          DequantFragment<Weight, Type, Config::kExactWeights, kUnitStep>(
              unit.words[i], zero, w);
          if constexpr (kScaleBefore) {
            const u32 scales =
                Scale::template Pair<Type>(unit.scales[kEntry][i]);
            const u32 low = ptx::Permute(scales, 0, 0x1010);
            const u32 high = ptx::Permute(scales, 0, 0x3232);
            w[0] = Type::Mul2(w[0], low);
            w[1] = Type::Mul2(w[1], high);
            w[2] = Type::Mul2(w[2], low);
            w[3] = Type::Mul2(w[3], high);
          }
        }
      }
      Dequantize<kStep, kInBatch + 1>(unit, a);
    }
  }

  // The warpgroup's unit `u` of the stage at `stage`. Entries that span several
  // units come with the first of them.
  __device__ __forceinline__ void LoadUnit(u32 stage, int u, Unit& unit) const {
    const int column = Base::warp_k() * kUnits + u;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      LoadWords(stage, column, i, unit.words[i]);
    if constexpr ((kScaleBefore || (kGrouped && kHasZero)) &&
                  kStrip != Strip::kDequantization) {
      if (u * layout::kUnitColumns % Config::kGroup == 0 ||
          Config::kGroup < layout::kUnitColumns) {
        const int group = Base::GroupOf(column * layout::kUnitColumns);
#pragma unroll
        for (int e = 0; e < kEntries; ++e) {
          if constexpr (kScaleBefore) {
            LoadScales(stage, group + e, unit.scales[e]);
          }
          if constexpr (kHasZero) LoadZeros(stage, group + e, unit.zeros[e]);
        }
      }
    }
  }

  // Of group `group` of the stage at `stage`, each block's scales.
  __device__ __forceinline__ void LoadScales(u32 stage, int group,
                                             u32 (&scales)[kBlocks]) const {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const u32 entry = Base::Entry(stage, group, UnitOf(i));
      const u32 scale = entry + Pair(i) * (Scale::kBits / 8);
      if constexpr (Config::kBlockScale) {
        scales[i] = ptx::LoadShared4(entry);
      } else if constexpr (Scale::kBits == 8) {
        scales[i] = ptx::LoadShared2(scale);
      } else {
        scales[i] = ptx::LoadShared4(scale);
      }
    }
  }

  // And zero points.
  __device__ __forceinline__ void LoadZeros(u32 stage, int group,
                                            u32 (&zeros)[kBlocks]) const {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const u32 zero = Base::Entry(stage, group, UnitOf(i)) +
                       Config::kEntryScaleBytes + Pair(i) * Zero::kBits / 8;
      if constexpr (Zero::kBits == 4) {
        zeros[i] = ptx::LoadShared1(zero);
      } else if constexpr (Zero::kBits == 8) {
        zeros[i] = ptx::LoadShared2(zero);
      } else {
        zeros[i] = ptx::LoadShared4(zero);
      }
    }
  }
  // The lane's words of a block, in the widest loads (see packed_layout.cuh).
  __device__ __forceinline__ void LoadWords(
      u32 stage, int unit, int block, u32 (&words)[Config::kBBits]) const {
    constexpr int kBits = Config::kBBits;
    const u32 address = stage + S::kBOffset +
                        (UnitOf(0) * S::kUnitsK + unit) * S::kUnitBytes +
                        BlockOf(block) * (kBits * 128);
#pragma unroll
    for (int w = 0; w + 4 <= kBits; w += 4) {
      const Words4 v = ptx::LoadShared16(address + w * 128 + Base::lane() * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[w + i] = v.w[i];
    }
    constexpr int kFours = kBits / 4 * 4;
    if constexpr (kBits % 4 >= 2) {
      ptx::LoadShared8(address + kFours * 128 + Base::lane() * 8, words[kFours],
                       words[kFours + 1]);
    }
    if constexpr (kBits % 2 == 1) {
      words[kBits - 1] =
          ptx::LoadShared4(address + (kBits - 1) * 128 + Base::lane() * 4);
    }
  }

  // Scales the partial sums of group `group` of those of stage `stage` into the
  // accumulators.
  __device__ __forceinline__ void Flush(u32 ring, u32 stage, int group) {
    if constexpr (kStrip == Strip::kDequantization) return;
    const u32 here = ring + stage * S::kBytes;
    const int column = Base::ScaleColumn(group);
    u32 scales[kBlocks];
    if constexpr (kGrouped) LoadScales(here, Base::GroupOf(column), scales);
    auto& partial = Base::partial_[group % kPartialSets];
    Base::PinAll(partial);
    float low[kBlocks];
    float high[kBlocks];
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if constexpr (!kGrouped) {
        low[i] = high[i] = 1.0f;
      } else if constexpr (Config::kBlockScale) {
        low[i] = high[i] = ptx::BitsToFloat(scales[i]);
      } else {
        constexpr u32 kMask = (1u << Scale::kBits) - 1;
        low[i] = Scale::ToFloat(scales[i] & kMask);
        high[i] = Scale::ToFloat(scales[i] >> Scale::kBits);
      }
    }
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      float of_token[2] = {1.0f, 1.0f};
      if constexpr (kAGrouped) {
        u32 codes[2];
        ptx::LoadShared8(here + S::kAScaleOffset +
                             (Base::AGroupOf(column) * Config::kBlockM + j * 8 +
                              Base::lane() % 4 * 2) *
                                 4,
                         codes[0], codes[1]);
        of_token[0] = ptx::BitsToFloat(codes[0]);
        of_token[1] = ptx::BitsToFloat(codes[1]);
      }
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float scale = e < 2 ? low[i] : high[i];
          Base::sum_[i][j][e] += static_cast<float>(partial[i][j][e]) *
                                 (kAGrouped ? scale * of_token[e % 2] : scale);
        }
      }
    }
  }

  // Of each block's rows, where scales keep within a window.
  TablePair tables_[Config::kWindow ? kBlocks : 1];
  // Of channels, where zero points do not come with each group.
  ZeroPair zeros_[kHasZero ? kBlocks : 1];
};

}  // namespace hone

#endif  // HONE_DEVICE_MMA_WARPGROUP_TILE_CUH_
