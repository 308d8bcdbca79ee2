// A ring of k-steps in shared memory that the copy engine fills: one thread
// issues one copy per operand and step, all completing on the step's mbarrier.
//
// Stage layout, bytes, with kBlockK columns:
//   A       [kBlockK/64][kBlockM][128]  rows of 64 elements in the 128-byte
//                                       swizzle, as wgmma's B operand wants
//   B       [kBlockN/64][kBlockK/64]    packed units, as in global memory
//   scales  [kBlockN/64][groups]        entries of scales and zero points;
//                                       absent unless the layer has groups
// padded to a multiple of 1024, the period of the swizzle.
//
// Tensor maps, innermost dimension first; the engine writes zeros for what lies
// outside, so neither M, N nor K has tails to care for:
//   A       {64, M, K/64} when K is a multiple of 64, else {K, M}
//   B       {words of a unit or half of one, those of a row of units, N/64}
//   scales  {words of an entry, groups, N/64}
// Where the tile has one row of units and no tails, B and scales need no map:
// they are single pieces of memory, and the stream of weights need not wait for
// a descriptor (kBulkWeights).
//
// In a cluster the kClusterN CTAs of one token tile bring a part of A each, and
// the kClusterM CTAs of one channel tile a part of B, to all who share it. A
// stage is free when all who read what its CTA sends have released it.
#ifndef HONE_DEVICE_MEMORY_TMA_RING_CUH_
#define HONE_DEVICE_MEMORY_TMA_RING_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/ptx/bulk_copy.cuh"
#include "kernels/device/ptx/cluster.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/mbarrier.cuh"

namespace hone {

template <typename Config>
struct TmaStage {
  static constexpr int kUnitsN = Config::kBlockN / layout::kUnitRows;
  static constexpr int kUnitsK = Config::kBlockK / layout::kUnitColumns;
  static constexpr int kUnitBytes =
      static_cast<int>(layout::UnitBytes(Config::kBBits));
  // Scale groups of one k-step; a group may also span several steps.
  static constexpr int kGroups =
      Config::kGroup == 0
          ? 0
          : (Config::kBlockK + Config::kGroup - 1) / Config::kGroup;
  static constexpr int kSegmentBytes = Config::kBlockM * 128;
  static constexpr int kABytes = kUnitsK * kSegmentBytes;
  static constexpr int kBBytes = kUnitsN * kUnitsK * kUnitBytes;
  static constexpr int kScaleBytes = kUnitsN * kGroups * Config::kEntryBytes;
  static constexpr int kBOffset = kABytes;
  static constexpr int kScaleOffset = kABytes + kBBytes;
  // What arrives, and what a stage takes.
  static constexpr int kLoadBytes = kABytes + kBBytes + kScaleBytes;
  static constexpr int kBytes = (kLoadBytes + 1023) / 1024 * 1024;

  // Tiles of a cluster.
  static constexpr int kCluster = Config::kClusterM * Config::kClusterN;
  // CTAs that read what this one sends: those of its token tile and those of
  // its channel tile.
  static constexpr int kPeers = Config::kClusterM + Config::kClusterN - 1;
};

// The mbarriers of a ring: stage i's is at 8·i.
struct RingBarriers {
  u32 full;
  u32 empty;
};

// Position in the ring of one that walks it.
template <typename Config>
struct RingCursor {
  u32 stage = 0;
  u32 round = 0;

  __device__ __forceinline__ void Advance() {
    if (++stage == Config::kStages) {
      stage = 0;
      round ^= 1;
    }
  }
};

template <typename Config>
class TmaProducer {
 public:
  __device__ __forceinline__ TmaProducer(const TensorMap* map_a,
                                         const TensorMap* map_b,
                                         const TensorMap* map_scales,
                                         const u8* b, const u8* scales,
                                         int tile_m, int tile_n, bool stream)
      : map_a_(map_a),
        map_b_(map_b),
        map_scales_(map_scales),
        b_(b + static_cast<u64>(tile_n) * S::kUnitsN * kUnitRowBytes),
        scales_(scales +
                static_cast<u64>(tile_n) * S::kUnitsN * kScaleRowBytes),
        row_(tile_m * Config::kBlockM),
        unit_n_(tile_n * S::kUnitsN),
        // Weights that one tile of tokens reads will not be wanted again.
        policy_(stream ? ptx::EvictFirst() : ptx::EvictNormal()) {
    const int rank = S::kCluster > 1 ? static_cast<int>(ptx::ClusterRank()) : 0;
    rank_ = rank % S::kCluster;
    first_ = rank - rank_;
  }

  // Fills the stage at `stage` with k-step `step`.
  __device__ __forceinline__ void Issue(u32 stage, u32 full, int step) const {
    ptx::MbarrierExpect(full, S::kLoadBytes);
    IssueB(stage + S::kBOffset, full, step);
    if constexpr (S::kGroups > 0) {
      IssueScales(stage + S::kScaleOffset, full, step);
    }
    IssueA(stage, full, step);
  }

 private:
  using S = TmaStage<Config>;
  static constexpr int kTotalUnitsK = static_cast<int>(
      layout::RoundUp(Config::kK, layout::kUnitColumns) / layout::kUnitColumns);
  static constexpr u32 kUnitRowBytes = kTotalUnitsK * S::kUnitBytes;
  static constexpr u32 kScaleRowBytes =
      static_cast<u32>(layout::ScaleGroups(Config::kK, Config::kGroup)) *
      Config::kEntryBytes;
  static constexpr int kClusterM = Config::kClusterM;
  static constexpr int kClusterN = Config::kClusterN;

  // This CTA's place among those that share its weights, and its activations.
  __device__ __forceinline__ int along_m() const { return rank_ / kClusterN; }
  __device__ __forceinline__ int along_n() const { return rank_ % kClusterN; }
  // Those CTAs' bits.
  __device__ __forceinline__ u16 mask_a() const {
    return static_cast<u16>(((1u << kClusterN) - 1)
                            << (first_ + along_m() * kClusterN));
  }
  __device__ __forceinline__ u16 mask_b() const {
    u32 mask = 0;
#pragma unroll
    for (int i = 0; i < kClusterM; ++i) mask |= 1u << i * kClusterN;
    return static_cast<u16>(mask << (first_ + along_n()));
  }

  __device__ __forceinline__ void IssueA(u32 target, u32 full, int step) const {
    const int segment = step * S::kUnitsK;
    if constexpr (S::kUnitsK % kClusterN == 0 && Config::kK % 64 == 0) {
      // One box; in a cluster, of this CTA's share of the columns.
      constexpr int kShare = S::kUnitsK / kClusterN;
      const int first = along_n() * kShare;
      CopyA3(target + first * S::kSegmentBytes, full, segment + first);
    } else {
      // One box for each 64 columns; in a cluster, of its share of the rows.
      constexpr int kRows = Config::kBlockM / kClusterN;
      const int first = along_n() * kRows;
#pragma unroll
      for (int i = 0; i < S::kUnitsK; ++i) {
        CopyA2(target + i * S::kSegmentBytes + first * 128, full,
               (segment + i) * 64, row_ + first);
      }
    }
  }
  __device__ __forceinline__ void CopyA3(u32 target, u32 full,
                                         int segment) const {
    if constexpr (kClusterN > 1) {
      ptx::TensorMulticast3(target, map_a_, full, 0, row_, segment, mask_a());
    } else {
      ptx::TensorCopy3(target, map_a_, full, 0, row_, segment);
    }
  }
  __device__ __forceinline__ void CopyA2(u32 target, u32 full, int column,
                                         int row) const {
    if constexpr (kClusterN > 1) {
      ptx::TensorMulticast2(target, map_a_, full, column, row, mask_a());
    } else {
      ptx::TensorCopy2(target, map_a_, full, column, row);
    }
  }

  // Parts of a unit that are one inner dimension of the map: a box has at most
  // 256 words of 8 bytes along each.
  static constexpr int kUnitParts = Config::kBBits <= 4 ? 1 : 2;

  __device__ __forceinline__ void IssueB(u32 target, u32 full, int step) const {
    if constexpr (Config::kBulkWeights) {
      ptx::BulkCopy(target, b_ + static_cast<u64>(step) * S::kBBytes,
                    S::kBBytes, full, policy_);
    } else {
      CopyUnits<S::kBBytes>(target, map_b_, full,
                            step * S::kUnitsK * kUnitParts);
    }
  }

  __device__ __forceinline__ void IssueScales(u32 target, u32 full,
                                              int step) const {
    // A group may span several k-steps.
    const int group = step * Config::kBlockK / Config::kGroup;
    if constexpr (Config::kBulkWeights) {
      ptx::BulkCopy(target, scales_ + group * Config::kEntryBytes,
                    S::kScaleBytes, full, policy_);
    } else {
      CopyUnits<S::kScaleBytes>(target, map_scales_, full, group);
    }
  }

  // From `column` of all rows of units of the tile; in a cluster, of its share
  // of them.
  template <int kBytes>
  __device__ __forceinline__ void CopyUnits(u32 target, const TensorMap* map,
                                            u32 full, int column) const {
    if constexpr (kClusterM > 1) {
      const int part = along_m();
      ptx::TensorMulticast3(target + part * (kBytes / kClusterM), map, full, 0,
                            column, unit_n_ + part * (S::kUnitsN / kClusterM),
                            mask_b());
    } else {
      ptx::TensorCopy3(target, map, full, 0, column, unit_n_, policy_);
    }
  }

  const TensorMap* map_a_;
  const TensorMap* map_b_;
  const TensorMap* map_scales_;
  // The tile's first rows.
  const u8* b_;
  const u8* scales_;
  int row_;
  int unit_n_;
  u64 policy_;
  // Place among the tiles of the cluster, and the rank of the first of them.
  int rank_;
  int first_;
};

}  // namespace hone

#endif  // HONE_DEVICE_MEMORY_TMA_RING_CUH_
