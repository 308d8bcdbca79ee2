// Brings one k-step into a stage of a shared-memory ring: activations, packed
// weights and group scales of both, all that the mainloop needs; with cp.async,
// or through registers (kLdg).
//
// A ring belongs to a load group. Where warps share weights or activations the
// group is the CTA. Where all warps lie along K (kPrivateRings) nothing is
// shared until the end: each warp has its own ring for its own columns, waits
// for nobody, and the warps drift apart and cover each other's latencies.
// Measured on an H200, W4A16 8192 x 8192, 8 warps along K, M = 1: 13.3 us with
// one ring and a barrier a step, though the loads alone take 9.9 and the
// arithmetic alone 10.0.
//
// Stage layout, bytes, with kColumns of K (see gemm/mma_sync_gemm.cuh):
//   A         [segments][kBlockM][128]   rows of 128 bytes (64 elements of 16
//                                        bits, 128 of 8, 256 of 4), their
//                                        16-byte chunks xor-ed with the row's
//                                        low three bits, so that ldmatrix meets
//                                        no bank conflict
//   B         [kBlockN/64][kColumns/64]  packed units, as in global memory; or
//             [segments][kBlockN][128]   rows as A's, where codes are operands
//                                        as they are
//   scales    [kBlockN/64][groups]       entries of scales and zero points;
//                                        absent unless B has groups
//   A scales  [groups][kBlockM]          float32; absent unless A has groups
#ifndef HONE_DEVICE_MEMORY_TILE_LOADER_CUH_
#define HONE_DEVICE_MEMORY_TILE_LOADER_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/memory/tile_copy.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/cp_async.cuh"

namespace hone {

template <typename Config>
struct Stage {
  static constexpr bool kPrivateRings =
      Config::kWarpsM * Config::kWarpsN == 1 && Config::kWarpsK > 1;
  // The load group: its rings per CTA, its threads and its columns of K.
  static constexpr int kRings = kPrivateRings ? Config::kWarpsK : 1;
  static constexpr int kThreads = Config::kThreads / kRings;
  static constexpr int kColumns = Config::kBlockK / kRings;

  static constexpr int kUnitsN = Config::kBlockN / layout::kUnitRows;
  static constexpr int kUnitsK = kColumns / layout::kUnitColumns;
  static constexpr int kUnitBytes =
      static_cast<int>(layout::UnitBytes(Config::kBBits));
  // Bytes of a row of operands: whole segments.
  static constexpr int kRowBytes = kColumns * Config::AType::kBits / 8;
  static_assert(kRowBytes % 128 == 0);
  // Scale groups of one k-step; a group may also span several steps.
  static constexpr int kGroups =
      Config::kGroup == 0 ? 0
                          : (kColumns + Config::kGroup - 1) / Config::kGroup;
  static constexpr int kAGroups =
      Config::kAGroup == 0 ? 0
                           : (kColumns + Config::kAGroup - 1) / Config::kAGroup;
  static constexpr int kABytes = Config::kBlockM * kRowBytes;
  static constexpr int kBBytes = kUnitsN * kUnitsK * kUnitBytes;
  static constexpr int kScaleBytes = kUnitsN * kGroups * Config::kEntryBytes;
  static constexpr int kAScaleBytes = kAGroups * Config::kBlockM * 4;
  static constexpr int kBOffset = kABytes;
  static constexpr int kScaleOffset = kABytes + kBBytes;
  static constexpr int kAScaleOffset = kScaleOffset + kScaleBytes;
  static constexpr int kBytes =
      static_cast<int>(layout::RoundUp(kAScaleOffset + kAScaleBytes, 16));

  // Offset of the 16-byte chunk `chunk` (0..7) of a row in a segment of A, or
  // of B with kRows = kBlockN.
  template <int kRows = Config::kBlockM>
  static __device__ __forceinline__ u32 RowOffset(int segment, int row,
                                                  int chunk) {
    return segment * (kRows * 128) + row * 128 + ((chunk ^ (row & 7)) * 16);
  }
};

// Addresses are a base that is the same for all threads, which moves with the
// k-step, plus a 32-bit offset of the thread, which does not: the former lives
// in uniform registers, the latter is computed once.
template <typename Config>
class TileLoader {
  // Where a thread's pieces of each tensor begin among those it holds.
  struct Slots {
    static constexpr int Rounds(int pieces) {
      return (pieces + Stage<Config>::kThreads - 1) / Stage<Config>::kThreads;
    }
    static constexpr int kA = Rounds(Stage<Config>::kBBytes / 16);
    static constexpr int kScales = kA + Rounds(Stage<Config>::kABytes / 16);
    static constexpr int kChunks =
        kScales + Rounds(Stage<Config>::kScaleBytes / 16);
    static constexpr int kWords = Rounds(Stage<Config>::kAScaleBytes / 4);
  };

 public:
  static constexpr int kTotalUnitsN = static_cast<int>(
      layout::RoundUp(Config::kN, layout::kUnitRows) / layout::kUnitRows);

  // `a_scales` is used where A has groups only.
  __device__ __forceinline__ TileLoader(const u8* a, const u8* b,
                                        const u8* scales, const u8* a_scales,
                                        int m, int m0, int unit_n0)
      : a_(a + static_cast<u64>(m0) * kARowBytes),
        b_(b + static_cast<u64>(unit_n0) * kUnitRowBytes),
        scales_(scales + static_cast<u64>(unit_n0) * kScaleRowBytes),
        a_scales_(a_scales),
        m_(m),
        m0_(m0),
        last_row_(m - m0 - 1),
        units_n_(kTotalUnitsN - unit_n0) {
    const int thread = static_cast<int>(ptx::ThreadIdX());
    ring_ = thread / kThreads;
    thread_ = thread % kThreads;
  }

  // Issues the copies of k-step `step` into the stage at `stage`; does not
  // commit them.
  __device__ __forceinline__ void Issue(u32 stage, int step) const {
    Copy(stage, step, AsyncCopy());
  }

  // The thread's part of a k-step, on its way through registers.
  using Held = HeldPieces<Slots::kChunks, Slots::kWords>;
  __device__ __forceinline__ void Fetch(Held& held, int step) const {
    Copy(0, step, FetchCopy<Held>{held});
  }
  __device__ __forceinline__ void Store(u32 stage, const Held& held) const {
    Copy(stage, 0, StoreCopy<Held>{held});
  }

 private:
  using S = Stage<Config>;
  static constexpr int kThreads = S::kThreads;
  static constexpr int kTotalUnitsK = static_cast<int>(
      layout::RoundUp(Config::kK, layout::kUnitColumns) / layout::kUnitColumns);
  static constexpr int kTotalGroups =
      static_cast<int>(layout::ScaleGroups(Config::kK, Config::kGroup));
  static constexpr u32 kARowBytes = Config::kK * Config::AType::kBits / 8u;
  // Of 64 rows of B, and of one where they are rows.
  static constexpr u32 kUnitRowBytes = kTotalUnitsK * S::kUnitBytes;
  static constexpr u32 kBRowBytes = kUnitRowBytes / layout::kUnitRows;
  static constexpr u32 kGroupBytes = Config::kEntryBytes;
  static constexpr u32 kScaleRowBytes = kTotalGroups * kGroupBytes;
  static constexpr int kStepUnits = Config::kBlockK / layout::kUnitColumns;
  // Whether the last k-step of the CTA reaches past K, and the last tile past
  // N.
  static constexpr bool kTailK = kTotalUnitsK % kStepUnits != 0;
  static constexpr bool kTailN = kTotalUnitsN % S::kUnitsN != 0;

  template <typename By>
  __device__ __forceinline__ void Copy(u32 stage, int step, By by) const {
    if constexpr (Config::kDirect) {
      CopyRows<Config::kBlockN, kBRowBytes, kTailN>(
          stage + S::kBOffset, b_, units_n_ * layout::kUnitRows - 1, step, by,
          0);
    } else {
      CopyB(stage + S::kBOffset, step, by);
    }
    CopyA(stage, step, by);
    if constexpr (S::kGroups > 0) CopyScales(stage + S::kScaleOffset, step, by);
    if constexpr (S::kAGroups > 0) {
      CopyAScales(stage + S::kAScaleOffset, step, by);
    }
  }

  template <typename By>
  __device__ __forceinline__ void CopyB(u32 destination, int step,
                                        By by) const {
    constexpr int kUnitChunks = S::kUnitBytes / 16;
    constexpr int kRowChunks = S::kUnitsK * kUnitChunks;
    constexpr int kChunks = S::kUnitsN * kRowChunks;
    const u8* base = b_ + static_cast<u64>(step) * (kStepUnits * S::kUnitBytes);
#pragma unroll
    for (int first = 0; first < kChunks; first += kThreads) {
      const int i = first + thread_;
      if (kChunks % kThreads != 0 && i >= kChunks) break;
      const int row = i / kRowChunks;
      const int chunk = i % kRowChunks;
      bool valid = true;
      if constexpr (kTailK) {
        valid = step * kStepUnits + ring_ * S::kUnitsK + chunk / kUnitChunks <
                kTotalUnitsK;
      }
      if constexpr (kTailN) valid = valid && row < units_n_;
      const u32 offset = row * kUnitRowBytes +
                         ring_ * (S::kUnitsK * S::kUnitBytes) + chunk * 16;
      by.template Chunk<kTailK || kTailN>(
          first / kThreads, destination + i * 16, base + offset, b_, valid);
    }
  }

  template <typename By>
  __device__ __forceinline__ void CopyA(u32 destination, int step,
                                        By by) const {
    // Most tiles have all their rows. Testing that once, for the whole CTA,
    // spares each copy its predicate and address arithmetic, which at M = 16
    // come out of the issue slots that dequantization needs.
    if (!By::kInRegisters && last_row_ >= Config::kBlockM - 1) {
      CopyRows<Config::kBlockM, kARowBytes, false>(destination, a_, last_row_,
                                                   step, by, Slots::kA);
    } else {
      CopyRows<Config::kBlockM, kARowBytes, true>(destination, a_, last_row_,
                                                  step, by, Slots::kA);
    }
  }

  // The k-step of kRows rows of kTotalBytes each, which begin at `tensor`; with
  // kRagged those after `last_row` are zeros.
  template <int kRows, u32 kTotalBytes, bool kRagged, typename By>
  __device__ __forceinline__ void CopyRows(u32 destination, const u8* tensor,
                                           int last_row, int step, By by,
                                           int slot) const {
    // The alignment of a row: what one copy can move, unless registers gather
    // the pieces of a chunk.
    constexpr int kAlignment = kTotalBytes % 16 == 0  ? 16
                               : kTotalBytes % 8 == 0 ? 8
                               : kTotalBytes % 4 == 0 ? 4
                               : kTotalBytes % 2 == 0 ? 2
                                                      : 1;
    constexpr int kVector = By::kInRegisters ? 16 : kAlignment;
    constexpr int kRowVectors = S::kRowBytes / kVector;
    constexpr int kVectors = kRows * kRowVectors;
    constexpr int kStepBytes = Config::kBlockK * Config::AType::kBits / 8;
    constexpr bool kTail = kTotalBytes % kStepBytes != 0;
    const u8* base = tensor + static_cast<u64>(step) * kStepBytes;
    // Narrow copies are many; unrolled in full they spill.
    constexpr int kUnroll = kVector == 16 ? 32 : 4;
#pragma unroll(kUnroll)
    for (int first = 0; first < kVectors; first += kThreads) {
      const int i = first + thread_;
      if (kVectors % kThreads != 0 && i >= kVectors) break;
      const int row = i / kRowVectors;
      const int byte = i % kRowVectors * kVector;
      const int ring_byte = ring_ * S::kRowBytes + byte;
      // Rows past M are zeros, not copies of the last one: 128 CTAs times
      // eight reads of one line make the L2 a bottleneck (M = 1: 13.3 us
      // instead of 10.8). Their address is the last row's all the same, so that
      // only the size depends on the row.
      const int source_row = kRagged ? Min(row, last_row) : row;
      const u32 offset = source_row * kTotalBytes + ring_byte;
      const bool in_k = !kTail || step * kStepBytes + ring_byte <
                                      static_cast<int>(kTotalBytes);
      const bool valid = in_k && (!kRagged || row <= last_row);
      const u32 target =
          destination +
          S::template RowOffset<kRows>(byte / 128, row, byte % 128 / 16) +
          byte % 16;
      const u8* source = in_k ? base + offset : tensor;
      if constexpr (By::kInRegisters) {
        const int rest =
            static_cast<int>(kTotalBytes) - (step * kStepBytes + ring_byte);
        by.template Bytes<kAlignment>(slot + first / kThreads, target, source,
                                      !valid  ? 0
                                      : kTail ? Min(rest, 16)
                                              : 16);
      } else if constexpr (kVector == 16 && !kRagged && !kTail) {
        ptx::CopyAsync16(target, source);
      } else if constexpr (kVector >= 4) {
        ptx::CopyAsync<kVector>(target, source, valid);
      } else if constexpr (kVector == 2) {
        ptx::StoreShared2(target, valid ? ptx::LoadConstant2(source) : u16{0});
      } else {
        ptx::StoreShared1(target, valid ? ptx::LoadConstant1(source) : 0u);
      }
    }
  }

  template <typename By>
  __device__ __forceinline__ void CopyScales(u32 destination, int step,
                                             By by) const {
    constexpr int kGroupChunks = kGroupBytes / 16;
    constexpr int kRowChunks = S::kGroups * kGroupChunks;
    constexpr int kChunks = S::kUnitsN * kRowChunks;
    constexpr int kSteps = (Config::kK + Config::kBlockK - 1) / Config::kBlockK;
    constexpr bool kTailG =
        static_cast<long long>(kSteps) * Config::kBlockK >
        static_cast<long long>(kTotalGroups) * Config::kGroup;
    // A group may span several k-steps, or several rings of one.
    const int group0 =
        (step * Config::kBlockK + ring_ * S::kColumns) / Config::kGroup;
#pragma unroll
    for (int first = 0; first < kChunks; first += kThreads) {
      const int i = first + thread_;
      if (kChunks % kThreads != 0 && i >= kChunks) break;
      const int row = i / kRowChunks;
      const int chunk = i % kRowChunks;
      bool valid = true;
      if constexpr (kTailG) {
        valid = group0 + chunk / kGroupChunks < kTotalGroups;
      }
      if constexpr (kTailN) valid = valid && row < units_n_;
      const u32 offset =
          row * kScaleRowBytes + group0 * kGroupBytes + chunk * 16;
      by.template Chunk<kTailG || kTailN>(Slots::kScales + first / kThreads,
                                          destination + i * 16,
                                          scales_ + offset, scales_, valid);
    }
  }

  // Scales of A of this k-step's groups, of the tile's rows; those past M are
  // 0.
  template <typename By>
  __device__ __forceinline__ void CopyAScales(u32 destination, int step,
                                              By by) const {
    constexpr int kTotal = (Config::kK + Config::kAGroup - 1) / Config::kAGroup;
    constexpr int kCopies = S::kAGroups * Config::kBlockM;
    const int group0 =
        (step * Config::kBlockK + ring_ * S::kColumns) / Config::kAGroup;
    constexpr int kUnroll = By::kInRegisters ? 64 : 4;
#pragma unroll(kUnroll)
    for (int first = 0; first < kCopies; first += kThreads) {
      const int i = first + thread_;
      if (kCopies % kThreads != 0 && i >= kCopies) break;
      const int row = i % Config::kBlockM;
      const int group = group0 + i / Config::kBlockM;
      const bool valid = row <= last_row_ && group < kTotal;
      const u64 at = Config::kAScaleColumnMajor
                         ? static_cast<u64>(group) * m_ + m0_ + row
                         : static_cast<u64>(m0_ + row) * kTotal + group;
      by.Word(first / kThreads, destination + i * 4, a_scales_ + at * 4,
              a_scales_, valid);
    }
  }

  static __device__ __forceinline__ int Min(int a, int b) {
    return a < b ? a : b;
  }

  // First row of the tile, at column 0.
  const u8* a_;
  const u8* b_;
  const u8* scales_;
  const u8* a_scales_;
  int m_;
  int m0_;
  // The last row of the tile that A has; rows of units that B has.
  int last_row_;
  int units_n_;
  // Which load group, and which of its threads.
  int ring_;
  int thread_;
};

}  // namespace hone

#endif  // HONE_DEVICE_MEMORY_TILE_LOADER_CUH_
