// Brings one k-step of a CTA's tile into a stage of the shared-memory ring
// with cp.async: activations, packed weights and group scales, each with all
// that the mainloop needs.
//
// Stage layout, bytes (Config gives the extents; see gemm/mma_sync_gemm.cuh):
//   A       [kBlockK/64][kBlockM][128]  rows of 64 elements, their 16-byte
//                                       chunks xor-ed with the row's low three
//                                       bits, so that ldmatrix meets no bank
//                                       conflict
//   B       [kBlockN/64][kBlockK/64]    packed units, as in global memory
//   scales  [kBlockN/64][groups][64]    16-bit, lane order; absent unless the
//                                       layer has group scales
#ifndef HONE_DEVICE_MEMORY_TILE_LOADER_CUH_
#define HONE_DEVICE_MEMORY_TILE_LOADER_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/cp_async.cuh"

namespace hone {

template <typename Config>
struct Stage {
  static constexpr int kUnitsN = Config::kBlockN / layout::kUnitRows;
  static constexpr int kUnitsK = Config::kBlockK / layout::kUnitColumns;
  static constexpr int kUnitBytes =
      static_cast<int>(layout::UnitBytes(Config::kBBits));
  // Scale groups of one k-step; a group may also span several steps.
  static constexpr int kGroups =
      Config::kGroup == 0 ? 0
                          : (Config::kBlockK + Config::kGroup - 1) /
                                Config::kGroup;
  static constexpr int kABytes = Config::kBlockM * Config::kBlockK * 2;
  static constexpr int kBBytes = kUnitsN * kUnitsK * kUnitBytes;
  static constexpr int kScaleBytes =
      kUnitsN * kGroups * layout::kUnitRows * 2;
  static constexpr int kBOffset = kABytes;
  static constexpr int kScaleOffset = kABytes + kBBytes;
  static constexpr int kBytes = kABytes + kBBytes + kScaleBytes;

  // Offset of the 16-byte chunk `chunk` (0..7) of a row in A's segment.
  static __device__ __forceinline__ u32 AOffset(int segment, int row,
                                                int chunk) {
    return segment * (Config::kBlockM * 128) + row * 128 +
           ((chunk ^ (row & 7)) * 16);
  }
};

template <typename Config>
class TileLoader {
 public:
  __device__ __forceinline__ TileLoader(const u8* a, const u8* b,
                                        const u8* scales, int m, int m0,
                                        int unit_n0)
      : a_(a), b_(b), scales_(scales), rows_(m - m0), unit_n0_(unit_n0) {
    a_ += static_cast<u64>(m0) * (Config::kK * 2ll);
  }

  // Issues the copies of k-step `step` into the stage at `stage`; does not
  // commit them.
  __device__ __forceinline__ void Issue(u32 stage, int step) const {
    IssueB(stage + S::kBOffset, step);
    IssueA(stage, step);
    if constexpr (S::kGroups > 0) IssueScales(stage + S::kScaleOffset, step);
  }

 private:
  using S = Stage<Config>;
  static constexpr int kThreads = Config::kThreads;
  static constexpr int kTotalUnitsK = static_cast<int>(
      layout::RoundUp(Config::kK, layout::kUnitColumns) /
      layout::kUnitColumns);
  static constexpr int kTotalUnitsN = static_cast<int>(
      layout::RoundUp(Config::kN, layout::kUnitRows) / layout::kUnitRows);
  static constexpr bool kTailK = kTotalUnitsK % S::kUnitsK != 0;
  static constexpr bool kTailN = kTotalUnitsN % S::kUnitsN != 0;

  __device__ __forceinline__ void IssueB(u32 destination, int step) const {
    constexpr int kRowChunks = S::kUnitsK * S::kUnitBytes / 16;
    constexpr int kChunks = S::kUnitsN * kRowChunks;
#pragma unroll
    for (int base = 0; base < kChunks; base += kThreads) {
      const int i = base + static_cast<int>(ptx::ThreadIdX());
      if (kChunks % kThreads != 0 && i >= kChunks) break;
      const int row = i / kRowChunks;
      const int chunk = i % kRowChunks;
      bool valid = true;
      if constexpr (kTailK) {
        valid = step * S::kUnitsK + chunk / (S::kUnitBytes / 16) <
                kTotalUnitsK;
      }
      if constexpr (kTailN) valid = valid && unit_n0_ + row < kTotalUnitsN;
      const u64 unit =
          static_cast<u64>(unit_n0_ + row) * kTotalUnitsK + step * S::kUnitsK;
      const u8* source =
          b_ + unit * S::kUnitBytes + static_cast<u32>(chunk * 16);
      Copy16<kTailK || kTailN>(destination + i * 16, source, b_, valid);
    }
  }

  __device__ __forceinline__ void IssueA(u32 destination, int step) const {
    // Elements per copy: what the alignment of a row of K elements allows.
    constexpr int kVector = Config::kK % 8 == 0   ? 8
                            : Config::kK % 4 == 0 ? 4
                            : Config::kK % 2 == 0 ? 2
                                                  : 1;
    constexpr int kRowVectors = Config::kBlockK / kVector;
    constexpr int kVectors = Config::kBlockM * kRowVectors;
#pragma unroll
    for (int base = 0; base < kVectors; base += kThreads) {
      const int i = base + static_cast<int>(ptx::ThreadIdX());
      if (kVectors % kThreads != 0 && i >= kVectors) break;
      const int row = i / kRowVectors;
      const int column = i % kRowVectors * kVector;
      const int k = step * Config::kBlockK + column;
      const bool valid =
          row < rows_ && (Config::kK % Config::kBlockK == 0 || k < Config::kK);
      const u32 target = destination +
                         S::AOffset(column / 64, row, column % 64 / 8) +
                         column % 8 * 2;
      const u8* source =
          a_ + static_cast<u64>(row) * (Config::kK * 2ll) + k * 2ll;
      if constexpr (kVector == 8) {
        Copy16<true>(target, source, a_, valid);
      } else if constexpr (kVector > 1) {
        ptx::CopyAsync<kVector * 2>(target, valid ? source : a_, valid);
      } else {
        ptx::StoreShared2(target, valid ? ptx::LoadGlobal2(source) : u16{0});
      }
    }
  }

  __device__ __forceinline__ void IssueScales(u32 destination,
                                              int step) const {
    constexpr int kTotalGroups =
        static_cast<int>(layout::ScaleGroups(Config::kK, Config::kGroup));
    constexpr int kGroupChunks = layout::kUnitRows * 2 / 16;
    constexpr int kRowChunks = S::kGroups * kGroupChunks;
    constexpr int kChunks = S::kUnitsN * kRowChunks;
    constexpr bool kTailG = kTotalGroups % S::kGroups != 0;
    const int group0 = step * Config::kBlockK / Config::kGroup;
#pragma unroll
    for (int base = 0; base < kChunks; base += kThreads) {
      const int i = base + static_cast<int>(ptx::ThreadIdX());
      if (kChunks % kThreads != 0 && i >= kChunks) break;
      const int row = i / kRowChunks;
      const int chunk = i % kRowChunks;
      bool valid = true;
      if constexpr (kTailG) {
        valid = group0 + chunk / kGroupChunks < kTotalGroups;
      }
      if constexpr (kTailN) valid = valid && unit_n0_ + row < kTotalUnitsN;
      const u64 group =
          static_cast<u64>(unit_n0_ + row) * kTotalGroups + group0;
      const u8* source = scales_ + group * (layout::kUnitRows * 2) +
                         static_cast<u32>(chunk * 16);
      Copy16<kTailG || kTailN>(destination + i * 16, source, scales_, valid);
    }
  }

  // `fallback` stands in for the source when nothing is read, since even an
  // empty copy must name a legal address.
  template <bool kPredicated>
  static __device__ __forceinline__ void Copy16(u32 target, const u8* source,
                                                const u8* fallback,
                                                bool valid) {
    if constexpr (kPredicated) {
      ptx::CopyAsync<16>(target, valid ? source : fallback, valid);
    } else {
      ptx::CopyAsync16(target, source);
    }
  }

  const u8* a_;
  const u8* b_;
  const u8* scales_;
  int rows_;
  int unit_n0_;
};

}  // namespace hone

#endif  // HONE_DEVICE_MEMORY_TILE_LOADER_CUH_
