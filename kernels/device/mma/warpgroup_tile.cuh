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
#include "kernels/device/mma/sums.cuh"
#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/numeric/windowed.cuh"
#include "kernels/device/ptx/cluster.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/mbarrier.cuh"
#include "kernels/device/ptx/wgmma.cuh"

namespace hone {

template <typename Config>
class WarpgroupTile {
 public:
  // Blocks of 64 channels of the warpgroup, 16 of each a warp's. Packed weights
  // are fragments, and a warp's channels lie side by side; in rows the blocks
  // do.
  static constexpr int kBlocks = Config::kWarpN / 16;
  static constexpr int kTokens = Config::kBlockM / 8;

  __device__ __forceinline__ explicit WarpgroupTile(RingBarriers barriers)
      : barriers_(barriers) {
    const int thread = static_cast<int>(ptx::ThreadIdX());
    lane_ = thread % 32;
    const int warp = thread / 32;
    warp_n_ = warp % Config::kWarpsN;
    warp_k_ = warp / Config::kWarpsN;
    peer_ = S::kCluster == 1 ? 0 : PeerOf(lane_);
  }

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
          const u8* row = least + BlockChannel(i) + lane_ / 4;
          low = ptx::LoadConstant1(row);
          high = ptx::LoadConstant1(row + 8);
        }
        tables_[i] = Weight::template Base<Type>(low, high);
      }
    }
    SetZero(sum_);
    if constexpr (kPartial) {
#pragma unroll
      for (int p = 0; p < kPartialSets; ++p) SetZero(partial_[p]);
    }
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
    WaitFull(cursor);
    Unit unit;
    if constexpr (!Config::kDirect) {
      LoadUnit(ring + cursor.stage * S::kBytes, 0, unit);
    }
    last_stage_ = 0;
    int step = begin;
    // Not a for: a way around the loop would bring zeros to its end, where MMAs
    // are in flight, and ptxas serialize them (C7515).
#pragma unroll 1
    do {
      has_last_ = step > begin;
      const RingCursor<Config> here = cursor;
      cursor.Advance();
      // After the last step, the same once more: without a branch.
      const bool more = step + 1 < end;
      next_.stage = more ? cursor.stage : here.stage;
      next_.round = more ? cursor.round : here.round;
      if constexpr (Config::kDirect) {
        AccumulateRows(ring, here.stage);
        WaitFull(next_);
      } else {
        AccumulateStage(ring, here.stage, unit);
      }
      if constexpr (kDrained) Release(here.stage, true);
      last_stage_ = here.stage;
    } while (++step < end);
    ptx::WgmmaWait<0>();
    PinAll(sum_);
    if constexpr (!kDrained) Release(last_stage_, true);
  }

  // A fragment's two packed 8 × 8 matrices, transposed.
  static constexpr bool kStoresMatrices = true;
  static __device__ __forceinline__ void StoreTransposed(u32 address, u32 low,
                                                         u32 high) {
    ptx::StoreMatrix2Transposed(address, low, high);
  }

  // A barrier of the warps that compute; the producer is not among them.
  static __device__ __forceinline__ void Sync() {
    ptx::NamedBarrierSync(1, Config::kThreads);
  }

  // Fragment f = kTokens · i + j: rows 16 of block i, tokens 8·j, as in
  // WarpTile.
  static constexpr int kFragments = kBlocks * kTokens;
  __device__ __forceinline__ void fragment(int f, float (&v)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      v[e] = static_cast<float>(sum_[f / kTokens][f % kTokens][e]);
    }
  }
  // Its first channel and token within the tile.
  __device__ __forceinline__ int channel(int f) const {
    return BlockChannel(f / kTokens);
  }
  // Of the warp's block i, within the tile, and what lies between two blocks.
  static constexpr int kBlockStride = Config::kDirect ? 64 : 16;
  __device__ __forceinline__ int BlockChannel(int i) const {
    const int first = Config::kDirect
                          ? warp_n_ / 4 * (kBlocks * 64) + warp_n_ % 4 * 16
                          : warp_n_ * Config::kWarpN;
    return first + i * kBlockStride;
  }
  __device__ __forceinline__ int token(int f) const { return f % kTokens * 8; }
  __device__ __forceinline__ int lane() const { return lane_; }
  __device__ __forceinline__ int warp_m() const { return 0; }
  __device__ __forceinline__ int warp_n() const { return warp_n_; }
  __device__ __forceinline__ int warp_k() const { return warp_k_; }

 private:
  using S = TmaStage<Config>;
  using Type = typename Config::AType;
  using Weight = typename Config::Weight;
  using Scale = typename Config::Scale;
  using Zero = typename Config::Zero;
  using Mma = typename Config::Mma;

  static constexpr int kUnits = Config::kWarpK / layout::kUnitColumns;
  static constexpr int kUnitSteps = layout::UnitSteps(Type::kBits);
  static constexpr int kStepColumns = layout::StepColumns(Type::kBits);
  // Steps of a segment, 32 of its 128 bytes each.
  static constexpr int kSegmentSteps = 4;
  static constexpr int kSteps = Config::kWarpK / kStepColumns;
  // Columns of this warpgroup that share one scale, and the steps they take.
  static constexpr bool kGrouped = Config::kGroup > 0;
  static constexpr bool kAGrouped = Config::kAGroup > 0;
  static constexpr int Least(int a, int b) { return a < b ? a : b; }
  static constexpr int kScaleColumns = Least(
      Config::kWarpK, Least(kGrouped ? Config::kGroup : Config::kWarpK,
                            kAGrouped ? Config::kAGroup : Config::kWarpK));
  static constexpr int kScaleSteps = kScaleColumns / kStepColumns;
  static_assert(kScaleSteps > 0);
  static constexpr bool kScaleAfter = Config::kScaleAfter;
  static constexpr bool kScaleBefore = kGrouped && !kScaleAfter;
  static constexpr bool kHasZero = Zero::kBits != 0;
  // Sums that start at zero and join the accumulators with a group's end.
  static constexpr bool kPartial = kScaleAfter;
  static constexpr int kBatch =
      Least(Config::kMmaBatch,
            kScaleAfter ? Least(kScaleSteps, kUnitSteps) : kUnitSteps);
  static constexpr int kFlight = Config::kFlight;
  // Partial sums of a stage. There may be two sets, so that one joins the
  // accumulators while the MMAs of the other run; not across stages, where
  // ptxas would serialize the MMAs (C7514).
  static constexpr int kGroups = kSteps / kScaleSteps;
  static constexpr int kPartialSets =
      kPartial && kFlight > 1 && kGroups > 1 ? 2 : 1;
  // Whether no MMA is in flight at the end of a stage.
  static constexpr bool kDrained = kPartial || kFlight == 1;

  // Entries of B's scales in a unit's columns, and steps of each.
  static constexpr int kEntries =
      kGrouped && Config::kGroup < layout::kUnitColumns
          ? layout::kUnitColumns / Config::kGroup
          : 1;
  static constexpr int kEntrySteps = kUnitSteps / kEntries;

  using Partial = typename Type::Sum;
  using Sum = typename ChooseSum<kPartial, Partial>::Type;

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
    return Config::kDirect ? warp_n_ / 4 * kBlocks + i : warp_n_ * kBlocks / 4;
  }
  __device__ __forceinline__ int BlockOf(int i) const {
    return Config::kDirect ? warp_n_ % 4 : warp_n_ * kBlocks % 4 + i;
  }
  // In an entry: the pair of rows g and g + 8 of block i.
  __device__ __forceinline__ int Pair(int i) const {
    return BlockOf(i) * 16 + lane_ / 4 * 2;
  }

  __device__ __forceinline__ void WaitFull(RingCursor<Config> cursor) const {
    ptx::MbarrierWait(barriers_.full + cursor.stage * 8, cursor.round);
  }

  // The warp is done with a stage, if `condition` holds.
  __device__ __forceinline__ void Release(u32 stage, bool condition) const {
    ptx::WarpSync();
    const u32 barrier = barriers_.empty + stage * 8;
    if constexpr (S::kCluster == 1) {
      ptx::MbarrierArriveIf(barrier, condition && lane_ == 0);
    } else {
      ptx::MbarrierArriveAtIf(barrier, peer_, condition && lane_ < S::kPeers);
    }
  }

  // The rank of lane l's CTA among those that send to this one: those along n,
  // then the others along m.
  __device__ __forceinline__ u32 PeerOf(u32 lane) const {
    const u32 rank = ptx::ClusterRank() % S::kCluster;
    const u32 first = ptx::ClusterRank() - rank;
    const u32 n = rank % Config::kClusterN;
    const u32 m = rank / Config::kClusterN;
    if (lane < Config::kClusterN) return first + m * Config::kClusterN + lane;
    const u32 other = lane - Config::kClusterN;
    // Lanes past the peers do not arrive.
    return lane < S::kPeers
               ? first + (other + (other >= m)) * Config::kClusterN + n
               : 0;
  }

  template <typename T>
  using Sums = T[kBlocks][kTokens][4];
  template <typename T>
  static __device__ __forceinline__ void PinAll(Sums<T>& sums) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kTokens; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) ptx::Pin(sums[i][j][e]);
      }
    }
  }

  // Pinned, since a zero that the compiler writes late, after a fence, would be
  // a write to a register in flight. The first MMA of a partial sum ignores
  // what it finds, but not when it was written.
  template <typename T>
  static __device__ __forceinline__ void SetZero(Sums<T>& sums) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int j = 0; j < kTokens; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = T{0};
      }
    }
    PinAll(sums);
  }

  // The first word of the descriptor of the 32 bytes of K of the warpgroup's
  // step `step`, in rows of 128-byte segments at `rows`, kRows to a segment:
  // 16-byte units.
  template <int kRows>
  __device__ __forceinline__ u32 Descriptor(u32 rows, int step) const {
    constexpr int kBytes = kRows * 128;
    if constexpr (kSteps % kSegmentSteps == 0) {
      rows += warp_k_ * (kSteps / kSegmentSteps * kBytes) +
              step / kSegmentSteps * kBytes + step % kSegmentSteps * 32;
    } else {
      const u32 at = static_cast<u32>(warp_k_ * kSteps + step);
      rows += at / kSegmentSteps * kBytes + at % kSegmentSteps * 32;
    }
    return rows / 16 | 1u << 16;
  }
  static __device__ __forceinline__ u64 WithHigh(u32 descriptor) {
    return static_cast<u64>(kDescriptorHigh) << 32 | descriptor;
  }

  // The MMA of one of the warpgroup's steps and block i, of operands w and x.
  template <typename W>
  __device__ __forceinline__ void Multiply(int step, int i, const W& w, u64 x) {
    if constexpr (kPartial) {
      Partial(&sums)[kTokens][4] =
          partial_[step / kScaleSteps % kPartialSets][i];
      if (step % kScaleSteps == 0) {
        Mma::template Run<false>(sums, w, x);
      } else {
        Mma::template Run<true>(sums, w, x);
      }
    } else {
      Mma::template Run<true>(sum_[i], w, x);
    }
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
    const u32 rows = here + S::kBOffset + warp_n_ / 4 * (kBlocks * 64) * 128;
    // Steps that are committed together.
    constexpr int kTogether = kPartial ? kScaleSteps : kSteps;
#pragma unroll
    for (int first = 0; first < kSteps; first += kTogether) {
      ptx::WgmmaFence();
#pragma unroll
      for (int step = first; step < first + kTogether; ++step) {
        const u64 x = WithHigh(Descriptor<Config::kBlockM>(here, step));
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
          Multiply(step, i,
                   WithHigh(Descriptor<Config::kBlockN>(rows + i * (64 * 128),
                                                        step)),
                   x);
        }
      }
      ptx::WgmmaCommit();
      if constexpr (kPartial) {
        FlushComplete(ring, stage, first, first + kTogether);
      } else {
        ptx::WgmmaWait<kFlight - 1>();
        if constexpr (!kDrained) Release(last_stage_, has_last_);
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
        const u64 x = WithHigh(Descriptor<Config::kBlockM>(here, step));
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) Multiply(step, i, a[s][i], x);
      }
      ptx::WgmmaCommit();
      // The next unit's loads run while the MMAs do.
      Unit next = unit;
      if constexpr (kStep + kBatch == kUnitSteps) {
        if (u + 1 < kUnits) {
          LoadUnit(here, u + 1, next);
        } else {
          WaitFull(next_);
          LoadUnit(ring + next_.stage * S::kBytes, 0, next);
        }
      }
      const int step = u * kUnitSteps + kStep + kBatch;
      if constexpr (kPartial) {
        FlushComplete(ring, stage, step - kBatch, step);
      } else {
        ptx::WgmmaWait<kFlight - 1>();
        if (!kDrained && step / kBatch == kFlight - 1) {
          Release(last_stage_, has_last_);
        }
      }
      unit = next;
      AccumulateBatches<kStep + kBatch>(ring, stage, u, unit);
    }
  }

  // Of the second word of a descriptor: 1024 bytes between groups of eight
  // rows, and the 128-byte swizzle.
  static constexpr u32 kDescriptorHigh = 64u | 1u << 30;

  template <int kStep, int kInBatch>
  __device__ __forceinline__ void Dequantize(const Unit& unit,
                                             u32 (&a)[kBatch][kBlocks][4]) {
    if constexpr (kInBatch < kBatch) {
      constexpr int kUnitStep = kStep + kInBatch;
      constexpr int kEntry = kUnitStep / kEntrySteps;
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        u32(&w)[4] = a[kInBatch][i];
        if constexpr (Config::kWindow) {
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
    const int column = warp_k_ * kUnits + u;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i)
      LoadWords(stage, column, i, unit.words[i]);
    if constexpr (kScaleBefore || (kGrouped && kHasZero)) {
      if (u * layout::kUnitColumns % Config::kGroup == 0 ||
          Config::kGroup < layout::kUnitColumns) {
        const int group = GroupOf(column * layout::kUnitColumns);
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

  // The stage's group of B that has its column `column`.
  static __device__ __forceinline__ int GroupOf(int column) {
    // A stage inside a larger group has its one entry at index 0.
    return Config::kGroup >= Config::kBlockK ? 0 : column / Config::kGroup;
  }

  // Of group `group` of the stage at `stage`, each block's scales.
  __device__ __forceinline__ void LoadScales(u32 stage, int group,
                                             u32 (&scales)[kBlocks]) const {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      const u32 entry = Entry(stage, group, i);
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
      const u32 zero = Entry(stage, group, i) + Config::kEntryScaleBytes +
                       Pair(i) * Zero::kBits / 8;
      if constexpr (Zero::kBits == 4) {
        zeros[i] = ptx::LoadShared1(zero);
      } else if constexpr (Zero::kBits == 8) {
        zeros[i] = ptx::LoadShared2(zero);
      } else {
        zeros[i] = ptx::LoadShared4(zero);
      }
    }
  }
  __device__ __forceinline__ u32 Entry(u32 stage, int group, int i) const {
    return stage + S::kScaleOffset +
           (UnitOf(i) * S::kGroups + group) * Config::kEntryBytes;
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
      const Words4 v = ptx::LoadShared16(address + w * 128 + lane_ * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i) words[w + i] = v.w[i];
    }
    constexpr int kFours = kBits / 4 * 4;
    if constexpr (kBits % 4 >= 2) {
      ptx::LoadShared8(address + kFours * 128 + lane_ * 8, words[kFours],
                       words[kFours + 1]);
    }
    if constexpr (kBits % 2 == 1) {
      words[kBits - 1] =
          ptx::LoadShared4(address + (kBits - 1) * 128 + lane_ * 4);
    }
  }

  // Scales the partial sums of group `group` of those of stage `stage` into the
  // accumulators.
  __device__ __forceinline__ void Flush(u32 ring, u32 stage, int group) {
    const u32 here = ring + stage * S::kBytes;
    const int column = warp_k_ * Config::kWarpK + group * kScaleColumns;
    u32 scales[kBlocks];
    if constexpr (kGrouped) LoadScales(here, GroupOf(column), scales);
    Sums<Partial>& partial = partial_[group % kPartialSets];
    PinAll(partial);
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
    for (int j = 0; j < kTokens; ++j) {
      float of_token[2] = {1.0f, 1.0f};
      if constexpr (kAGrouped) {
        const int of_a =
            Config::kAGroup >= Config::kBlockK ? 0 : column / Config::kAGroup;
        u32 codes[2];
        ptx::LoadShared8(
            here + S::kAScaleOffset +
                (of_a * Config::kBlockM + j * 8 + lane_ % 4 * 2) * 4,
            codes[0], codes[1]);
        of_token[0] = ptx::BitsToFloat(codes[0]);
        of_token[1] = ptx::BitsToFloat(codes[1]);
      }
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float scale = e < 2 ? low[i] : high[i];
          sum_[i][j][e] += static_cast<float>(partial[i][j][e]) *
                           (kAGrouped ? scale * of_token[e % 2] : scale);
        }
      }
    }
  }

  Sum sum_[kBlocks][kTokens][4];
  // Products not yet in the accumulators.
  Sums<Partial> partial_[kPartialSets];
  // Of each block's rows, where scales keep within a window.
  TablePair tables_[Config::kWindow ? kBlocks : 1];
  // Of channels, where zero points do not come with each group.
  ZeroPair zeros_[kHasZero ? kBlocks : 1];
  RingBarriers barriers_;
  int lane_;
  int warp_n_;
  int warp_k_;
  u32 peer_;
  // The stage before this one, whether there is one, and where the next is.
  u32 last_stage_;
  bool has_last_;
  RingCursor<Config> next_;
};

}  // namespace hone

#endif  // HONE_DEVICE_MMA_WARPGROUP_TILE_CUH_
