// A ring of k-steps in shared memory that the copy engine fills: one thread
// issues one copy per operand and step, all completing on the step's mbarrier.
//
// Stage layout, bytes, with kBlockK columns in segments of 128 bytes of a row
// of activations (64 columns of 16 bits, 128 of 8):
//   A         [segments][kBlockM][128]  in the 128-byte swizzle, as wgmma
//                                       wants operands
//   B         [kBlockN/64][kBlockK/64]  packed units, as in global memory; or
//             [segments][kBlockN][128]  rows as A's, where codes are operands
//                                       as they are
//   scales    [kBlockN/64][groups]      entries of scales and zero points;
//                                       absent unless B has groups
//   A scales  [groups][kBlockM]         float32; absent unless A has groups
// padded to a multiple of 1024, the period of the swizzle.
//
// Tensor maps, innermost dimension first; the engine writes zeros for what lies
// outside, so neither M, N nor K has tails to care for. With S columns in a
// segment:
//   A       {S, M, K/S} when K is a multiple of S, else {K, M}
//   B       {words of a unit or half of one, those of a row of units, N/64}, or
//           rows of N and K, both padded to 64, as A's
//   scales  {words of an entry, groups, N/64}
// Where the tile has one row of packed units and no tails, B and scales need no
// map: they are single pieces of memory, and the stream of weights need not
// wait for a descriptor (kBulkWeights).
//
// Scales of A are a second warp's business, which arrives at the same mbarrier
// (AScaleProducer). Those of a whole tile of tokens that lie side by side, on
// 16 bytes, are one bulk copy. Where a token's lie side by side, four groups of
// each token come at a time (cp.async, 16 bytes), a step or more before the
// first of them is wanted, and are dealt out to the stages; the two sets of them
// lie behind the ring:
//   quads     [2][kBlockM][4]           float32
// Else each comes by itself, with cp.async, 4 bytes.
//
// In a cluster the kClusterN CTAs of one token tile bring a part of A each, and
// the kClusterM CTAs of one channel tile a part of B, to all who share it;
// scales that cannot be parted in multiples of 128 bytes, each its own. A stage
// is free when all who read what its CTA sends have released it.
#ifndef HONE_DEVICE_MEMORY_TMA_RING_CUH_
#define HONE_DEVICE_MEMORY_TMA_RING_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/ptx/bulk_copy.cuh"
#include "kernels/device/ptx/cluster.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/cp_async.cuh"
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
  static constexpr int kAGroups =
      Config::kAGroup == 0
          ? 0
          : (Config::kBlockK + Config::kAGroup - 1) / Config::kAGroup;
  // Columns of a segment, 128 bytes of a row of operands.
  static constexpr int kSegmentColumns = 1024 / Config::AType::kBits;
  static constexpr int kSegments = Config::kBlockK / kSegmentColumns;
  static_assert(Config::kBlockK % kSegmentColumns == 0);
  static constexpr int kSegmentBytes = Config::kBlockM * 128;
  static constexpr int kABytes = kSegments * kSegmentBytes;
  static constexpr int kBBytes = kUnitsN * kUnitsK * kUnitBytes;
  static constexpr int kScaleBytes = kUnitsN * kGroups * Config::kEntryBytes;
  static constexpr int kAScaleBytes = kAGroups * Config::kBlockM * 4;
  static constexpr int kBOffset = kABytes;
  static constexpr int kScaleOffset = kABytes + kBBytes;
  static constexpr int kAScaleOffset = kScaleOffset + kScaleBytes;
  // What the copy engine brings, and what a stage takes.
  static constexpr int kLoadBytes = kAScaleOffset;
  static constexpr int kBytes =
      (kAScaleOffset + kAScaleBytes + 1023) / 1024 * 1024;
  // Arrivals that fill a stage: the producer's, and those of the copies of A's
  // scales.
  static constexpr int kFullArrivals = kAGroups > 0 ? 1 + 32 : 1;

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

  // K-major rows from `first_row` on: kRows of them, segment by segment.
  // kSharers CTAs of a cluster each bring a part to all of `mask`.
  template <int kRows, int kSharers, bool kWholeSegments>
  __device__ __forceinline__ void CopyRows(u32 target, const TensorMap* map,
                                           u32 full, int step, int first_row,
                                           int part, u16 mask,
                                           u64 policy) const {
    const int segment = step * S::kSegments;
    if constexpr (S::kSegments % kSharers == 0 && kWholeSegments) {
      // One box; in a cluster, of this CTA's share of the columns.
      const int first = part * (S::kSegments / kSharers);
      target += first * (kRows * 128);
      if constexpr (kSharers > 1) {
        ptx::TensorMulticast3(target, map, full, 0, first_row, segment + first,
                              mask);
      } else {
        ptx::TensorCopy3(target, map, full, 0, first_row, segment + first,
                         policy);
      }
    } else {
      // One box for each segment; in a cluster, of its share of the rows.
      const int first = part * (kRows / kSharers);
      target += first * 128;
#pragma unroll
      for (int i = 0; i < S::kSegments; ++i) {
        const int column = (segment + i) * S::kSegmentColumns;
        if constexpr (kSharers > 1) {
          ptx::TensorMulticast2(target + i * (kRows * 128), map, full, column,
                                first_row + first, mask);
        } else {
          ptx::TensorCopy2(target + i * (kRows * 128), map, full, column,
                           first_row + first, policy);
        }
      }
    }
  }

  __device__ __forceinline__ void IssueA(u32 target, u32 full, int step) const {
    CopyRows<Config::kBlockM, kClusterN, Config::kK % S::kSegmentColumns == 0>(
        target, map_a_, full, step, row_, along_n(), mask_a(),
        ptx::EvictNormal());
  }

  // Parts of a unit that are one inner dimension of the map: a box has at most
  // 256 words of 8 bytes along each.
  static constexpr int kUnitParts = Config::kBBits <= 4 ? 1 : 2;

  __device__ __forceinline__ void IssueB(u32 target, u32 full, int step) const {
    if constexpr (Config::kBulkWeights) {
      ptx::BulkCopy(target, b_ + static_cast<u64>(step) * S::kBBytes,
                    S::kBBytes, full, policy_);
    } else if constexpr (Config::kDirect) {
      CopyRows<Config::kBlockN, kClusterM,
               layout::RoundUp(Config::kK, layout::kUnitColumns) %
                       S::kSegmentColumns ==
                   0>(target, map_b_, full, step, unit_n_ * layout::kUnitRows,
                      along_m(), mask_b(), policy_);
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
  // of them, if that is a multiple of 128 bytes.
  template <int kBytes>
  __device__ __forceinline__ void CopyUnits(u32 target, const TensorMap* map,
                                            u32 full, int column) const {
    if constexpr (kClusterM > 1 && kBytes % (kClusterM * 128) == 0) {
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

// One warp's copies of A's group scales for k-steps of a tile.
template <typename Config>
class AScaleProducer {
 public:
  static constexpr int kTotal =
      Config::kAGroup == 0
          ? 0
          : (Config::kK + Config::kAGroup - 1) / Config::kAGroup;
  // Where scales come four groups of a token at a time, the bytes of such a
  // set. Those are of four steps or more: those of two steps or one came too
  // late (8192 x 8192 with 256 and 512 columns a step, M = 64 and 16: 20.2 and
  // 18.6 us without, 21.2 and 20.0 so).
  static constexpr int kQuadBytes = Config::kAScaleQuadBytes / 2;
  static constexpr bool kByQuads = kQuadBytes > 0;
  static_assert(!kByQuads || (!Config::kAScaleColumnMajor && kTotal % 4 == 0 &&
                              Config::kBlockK <= Config::kAGroup &&
                              kQuadBytes == Config::kBlockM * 16));

  // `scales` is [M][groups], or [groups][M]; `row` the tile's first token;
  // `quads` where two sets of quads lie; `begin` and `end` the tile's steps.
  __device__ __forceinline__ AScaleProducer(const u8* scales, int m, int row,
                                            u32 quads, int begin, int end)
      : scales_(scales),
        m_(m),
        row_(row),
        quads_(quads),
        first_(QuadOf(begin)),
        last_(QuadOf(end - 1)) {}

  // Brings those of k-step `step` into the stage at `stage`.
  __device__ __forceinline__ void Issue(u32 stage, u32 full, int step) {
    const int first = step * Config::kBlockK / Config::kAGroup;
    const int lane = static_cast<int>(ptx::ThreadIdX()) % 32;
    const u32 target = stage + S::kAScaleOffset;
    if constexpr (kByQuads) {
      Want(QuadOf(step));
#pragma unroll
      for (int i = 0; i < (Config::kBlockM + 31) / 32; ++i) {
        const int token = i * 32 + lane;
        if (Config::kBlockM % 32 != 0 && token >= Config::kBlockM) break;
        ptx::StoreShared4(
            target + token * 4,
            ptx::LoadShared4(SetOf(quad_) + token * 16 + first % 4 * 4));
      }
      ptx::MbarrierArriveIf(full, true);
      return;
    }
    if constexpr (Config::kAScaleColumnMajor && kWholeGroups) {
      if (m_ % 4 == 0 && row_ + Config::kBlockM <= m_) {
        if (lane == 0) {
          ptx::MbarrierExpect(full, S::kAScaleBytes);
#pragma unroll
          for (int g = 0; g < S::kAGroups; ++g) {
            const u64 at = static_cast<u64>(first + g) * m_ + row_;
            ptx::BulkCopy(target + g * kGroupBytes, scales_ + at * 4,
                          kGroupBytes, full, ptx::EvictNormal());
          }
        } else {
          ptx::MbarrierArriveIf(full, true);
        }
        return;
      }
    }
#pragma unroll 2
    for (int i = lane; i < S::kAGroups * Config::kBlockM; i += 32) {
      const int group = first + i / Config::kBlockM;
      const int token = row_ + i % Config::kBlockM;
      const bool valid = token < m_ && group < kTotal;
      const u64 at = Config::kAScaleColumnMajor
                         ? static_cast<u64>(group) * m_ + token
                         : static_cast<u64>(token) * kTotal + group;
      ptx::CopyAsync<4>(target + i * 4, valid ? scales_ + at * 4 : scales_,
                        valid);
    }
    ptx::CopyAsyncArrive(full);
  }

  // After the last step: nothing that came too early lands later.
  __device__ __forceinline__ void Finish() const {
    if constexpr (kByQuads) ptx::CopyAsyncWait<0>();
  }

 private:
  using S = TmaStage<Config>;

  static __device__ __forceinline__ int QuadOf(int step) {
    return step * Config::kBlockK / (Config::kAGroup * 4);
  }
  // Two quads that follow each other are in different sets, but for the last
  // and the first of an odd number.
  __device__ __forceinline__ u32 SetOf(int quad) const {
    return quads_ + quad % 2 * kQuadBytes;
  }

  // Makes `quad` the one at hand, and has the next one come. A lane copies and
  // reads quads of the same tokens, so that it waits for nobody else.
  __device__ __forceinline__ void Want(int quad) {
    if (quad == quad_) return;
    if (quad != next_) Copy(quad);
    ptx::CopyAsyncWait<0>();
    quad_ = quad;
    next_ = quad < last_ ? quad + 1 : first_;
    // Not over the one at hand.
    if ((next_ ^ quad) & 1) {
      Copy(next_);
    } else {
      next_ = -1;
    }
  }
  __device__ __forceinline__ void Copy(int quad) const {
    const int lane = static_cast<int>(ptx::ThreadIdX()) % 32;
#pragma unroll 2
    for (int token = lane; token < Config::kBlockM; token += 32) {
      const bool valid = row_ + token < m_ && quad * 4 < kTotal;
      const u64 at = static_cast<u64>(row_ + token) * kTotal + quad * 4;
      ptx::CopyAsync<16>(SetOf(quad) + token * 16,
                         valid ? scales_ + at * 4 : scales_, valid);
    }
    ptx::CopyAsyncCommit();
  }

  static constexpr int kGroupBytes = Config::kBlockM * 4;
  // Whether every k-step's groups are groups of the layer.
  static constexpr bool kWholeGroups =
      Config::kK % Config::kBlockK == 0 || S::kAGroups == 1;
  static_assert(S::kAScaleOffset % 16 == 0);

  const u8* scales_;
  int m_;
  int row_;
  // Quads: the sets, the first and the last that are wanted, the one at hand
  // and the one on its way; -1 where there is none.
  u32 quads_;
  int first_;
  int last_;
  int quad_ = -1;
  int next_ = -1;
};

}  // namespace hone

#endif  // HONE_DEVICE_MEMORY_TMA_RING_CUH_
