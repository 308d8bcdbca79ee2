// What the warpgroup tiles of both orientations share: the walk of the ring,
// descriptors of operands there, and accumulators.
//
// A warpgroup multiplies kBlocks blocks of 64 rows by kTiles tiles of eight
// columns; each of its warps has 16 rows of every block. WarpgroupTile has
// channels as rows and tokens as columns, TokenWarpgroupTile the reverse.
#ifndef HONE_DEVICE_MMA_WARPGROUP_SUMS_CUH_
#define HONE_DEVICE_MMA_WARPGROUP_SUMS_CUH_

#include "kernels/device/memory/tma_ring.cuh"
#include "kernels/device/mma/strip.cuh"
#include "kernels/device/mma/sums.cuh"
#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/ptx/bulk_copy.cuh"
#include "kernels/device/ptx/cluster.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/ptx/mbarrier.cuh"
#include "kernels/device/ptx/warp.cuh"
#include "kernels/device/ptx/wgmma.cuh"

namespace hone {

// Where scales follow MMAs, the partial sums of a group of columns are of
// kBlocksOfParts blocks at a time: of all, or block after block, which leaves
// registers for larger tiles.
template <typename Config, int kBlocksOfRows, int kTilesOfColumns,
          int kBlocksOfParts>
class WarpgroupSums {
 public:
  static constexpr int kBlocks = kBlocksOfRows;
  static constexpr int kTiles = kTilesOfColumns;

  // Of the warp's kTiles · kBlocks fragments, f = kTiles · i + j is that of
  // block i and tile j: rows g and g + 8, columns 2t and 2t + 1 each.
  static constexpr int kFragments = kBlocks * kTiles;
  __device__ __forceinline__ void fragment(int f, float (&v)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      v[e] = static_cast<float>(sum_[f / kTiles][f % kTiles][e]);
    }
  }

  // The same as they are, and to add to them.
  __device__ __forceinline__ Words4 words(int f) const {
    Words4 words;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      words.w[e] = ToBits(sum_[f / kTiles][f % kTiles][e]);
    }
    return words;
  }
  __device__ __forceinline__ void Add(int f, const Words4& words) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      Sum value;
      FromBits(words.w[e], value);
      sum_[f / kTiles][f % kTiles][e] += value;
    }
  }

  // A fragment goes to shared memory as two packed 8 × 8 matrices.
  static constexpr bool kStoresMatrices = true;

  // A barrier of the warps that compute; the producer is not among them.
  static __device__ __forceinline__ void Sync() {
    ptx::NamedBarrierSync(1, Config::kThreads);
  }

  __device__ __forceinline__ int lane() const { return lane_; }
  // Along the rows, and along K.
  __device__ __forceinline__ int warp() const { return warp_; }
  __device__ __forceinline__ int warp_k() const { return warp_k_; }

 protected:
  using S = TmaStage<Config>;
  using Type = typename Config::AType;
  using Mma = typename Config::Mma;

  static constexpr int kStepColumns = layout::StepColumns(Type::kBits);
  // Steps of a segment, 32 of its 128 bytes each.
  static constexpr int kSegmentSteps = 4;
  static constexpr int kSteps = Config::kWarpK / kStepColumns;
  // Columns of K of this warpgroup that share one scale, and the steps they
  // take.
  static constexpr bool kGrouped = Config::kGroup > 0;
  static constexpr bool kAGrouped = Config::kAGroup > 0;
  static constexpr int Least(int a, int b) { return a < b ? a : b; }
  static constexpr int kScaleColumns = Least(
      Config::kWarpK, Least(kGrouped ? Config::kGroup : Config::kWarpK,
                            kAGrouped ? Config::kAGroup : Config::kWarpK));
  static constexpr int kScaleSteps = kScaleColumns / kStepColumns;
  static_assert(kScaleSteps > 0);
  // Sums that start at zero and join the accumulators with a group's end.
  static constexpr bool kPartial = Config::kScaleAfter;
  static constexpr int kFlight = Config::kFlight;
  // Partial sums of a stage, by group and then, if they are not of all blocks,
  // by block. There may be two sets, so that one joins the accumulators while
  // the MMAs of the other run; not across stages, where ptxas would serialize
  // the MMAs (C7514).
  static constexpr int kGroups = kSteps / kScaleSteps;
  static constexpr int kParts = kGroups * (kBlocks / kBlocksOfParts);
  static constexpr int kPartialSets =
      kPartial && kFlight > 1 && kParts > 1 ? 2 : 1;
  // Whether no MMA is in flight at the end of a stage.
  static constexpr bool kDrained = kPartial || kFlight == 1;

  using Partial = typename Type::Sum;
  using Sum = typename ChooseSum<kPartial, Partial>::Type;
  template <typename T, int kOf = kBlocks>
  using Sums = T[kOf][kTiles][4];
  using PartialSums = Sums<Partial, kBlocksOfParts>;

  // `warps` of the CTA lie along the rows.
  __device__ __forceinline__ WarpgroupSums(RingBarriers barriers, int warps)
      : barriers_(barriers) {
    const int warp = static_cast<int>(ptx::Uniform(ptx::ThreadIdX() / 32));
    lane_ = static_cast<int>(ptx::ThreadIdX()) % 32;
    warp_ = warp % warps;
    warp_k_ = warp / warps;
    peer_ = S::kCluster == 1 ? 0 : PeerOf(lane_);
  }

  __device__ __forceinline__ void SetZero() {
    SetZero(sum_);
    if constexpr (kPartial) {
#pragma unroll
      for (int p = 0; p < kPartialSets; ++p) SetZero(partial_[p]);
    }
  }

  // Calls multiply(cursor) for the stages of k-steps [begin, end), at least
  // one, from `cursor` on. It waits for the stage or, one ahead, for next_,
  // issues its MMAs, and releases the stage if it is drained, else last_stage_.
  template <typename Multiply>
  __device__ __forceinline__ void Walk(RingCursor<Config>& cursor, int begin,
                                       int end, Multiply multiply) {
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
      if constexpr (kStrip == Strip::kArithmetic) {
        WaitFull(here);
        Release(here.stage, true);
        continue;
      }
      multiply(here);
      last_stage_ = here.stage;
    } while (++step < end);
    ptx::WgmmaWait<0>();
    PinAll(sum_);
    if constexpr (!kDrained && kStrip != Strip::kArithmetic) {
      Release(last_stage_, true);
    }
  }

  __device__ __forceinline__ void WaitFull(RingCursor<Config> cursor) const {
    ptx::MbarrierWait(barriers_.full + cursor.stage * 8, cursor.round);
  }

  // The warp is done with a stage, if `condition` holds. The stage's next
  // copies come through the async proxy, which mbarriers alone do not order
  // behind what the warp has read by ordinary loads: without the fence an H200
  // now and then gave it weights or scales of a later step. (In time it costs 0
  // to 1 %.)
  __device__ __forceinline__ void Release(u32 stage, bool condition) const {
    if constexpr (!Config::kDirect || kGrouped ||
                  (kAGrouped && Config::kAScaleColumnMajor)) {
      ptx::AsyncProxyFence();
    }
    ptx::WarpSync();
    const u32 barrier = barriers_.empty + stage * 8;
    if constexpr (S::kCluster == 1) {
      ptx::MbarrierArriveIf(barrier, condition && lane_ == 0);
    } else {
      ptx::MbarrierArriveAtIf(barrier, peer_, condition && lane_ < S::kPeers);
    }
  }

  template <typename T, int kOf>
  static __device__ __forceinline__ void PinAll(T (&sums)[kOf][kTiles][4]) {
#pragma unroll
    for (int i = 0; i < kOf; ++i) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) ptx::Pin(sums[i][j][e]);
      }
    }
  }

  // The descriptor of the 32 bytes of K of the warpgroup's step `step`, in rows
  // of 128-byte segments at `rows`, kRows to a segment. In its first word
  // addresses in units of 16 bytes; in its second 1024 bytes between groups of
  // eight rows, and the 128-byte swizzle.
  template <int kRows>
  __device__ __forceinline__ u64 Descriptor(u32 rows, int step) const {
    constexpr int kBytes = kRows * 128;
    u32 offset;
    if constexpr (kSteps % kSegmentSteps == 0) {
      offset = warp_k_ * (kSteps / kSegmentSteps * kBytes) +
               step / kSegmentSteps * kBytes + step % kSegmentSteps * 32;
    } else {
      const u32 at = static_cast<u32>(warp_k_ * kSteps + step);
      offset = at / kSegmentSteps * kBytes + at % kSegmentSteps * 32;
    }
    // One addition for each step: what is left of it is common to a stage.
    const u32 low = (rows / 16 | 1u << 16) + offset / 16;
    constexpr u32 kHigh = 64u | 1u << 30;
    return static_cast<u64>(kHigh) << 32 | low;
  }

  // The MMA of one of the warpgroup's steps and block i, of the operands of its
  // rows and columns.
  template <typename Rows>
  __device__ __forceinline__ void Multiply(int step, int i, const Rows& rows,
                                           u64 columns) {
    if constexpr (kStrip == Strip::kMmas) return;
    if constexpr (kPartial && kStrip != Strip::kDequantization) {
      const int group = step / kScaleSteps;
      const int part = kBlocksOfParts == kBlocks ? group : group * kBlocks + i;
      Partial(&sums)[kTiles][4] =
          partial_[part % kPartialSets][i % kBlocksOfParts];
      if (step % kScaleSteps == 0) {
        Mma::template Run<false>(sums, rows, columns);
      } else {
        Mma::template Run<true>(sums, rows, columns);
      }
    } else {
      Mma::template Run<true>(sum_[i], rows, columns);
    }
  }

  // Columns of K from the stage's begin to those of the warpgroup's partial
  // sums `group`, and the index of B's entry or A's scales for them: a stage
  // inside a larger group has its one at index 0.
  __device__ __forceinline__ int ScaleColumn(int group) const {
    return warp_k_ * Config::kWarpK + group * kScaleColumns;
  }
  static __device__ __forceinline__ int GroupOf(int column) {
    return Config::kGroup >= Config::kBlockK ? 0 : column / Config::kGroup;
  }
  static __device__ __forceinline__ int AGroupOf(int column) {
    return Config::kAGroup >= Config::kBlockK ? 0 : column / Config::kAGroup;
  }
  // The entry of B's scales of the tile's unit of 64 channels `unit`.
  static __device__ __forceinline__ u32 Entry(u32 stage, int group, int unit) {
    return stage + S::kScaleOffset +
           (unit * S::kGroups + group) * Config::kEntryBytes;
  }

  Sum sum_[kBlocks][kTiles][4];
  // Products not yet in the accumulators.
  PartialSums partial_[kPartialSets];
  int lane_;
  int warp_;
  int warp_k_;
  // The stage before this one, whether there is one, and where the next is.
  u32 last_stage_;
  bool has_last_;
  RingCursor<Config> next_;

 private:
  static __device__ __forceinline__ u32 ToBits(float v) {
    return ptx::FloatToBits(v);
  }
  static __device__ __forceinline__ u32 ToBits(int v) {
    return static_cast<u32>(v);
  }
  static __device__ __forceinline__ void FromBits(u32 bits, float& v) {
    v = ptx::BitsToFloat(bits);
  }
  static __device__ __forceinline__ void FromBits(u32 bits, int& v) {
    v = static_cast<int>(bits);
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

  // Pinned, since a zero that the compiler writes late, after a fence, would be
  // a write to a register in flight. The first MMA of a partial sum ignores
  // what it finds, but not when it was written.
  template <typename T, int kOf>
  static __device__ __forceinline__ void SetZero(T (&sums)[kOf][kTiles][4]) {
#pragma unroll
    for (int i = 0; i < kOf; ++i) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j][e] = T{0};
      }
    }
    PinAll(sums);
  }

  RingBarriers barriers_;
  u32 peer_;
};

}  // namespace hone

#endif  // HONE_DEVICE_MMA_WARPGROUP_SUMS_CUH_
