// C = A · Bᵀ with packed weights, on mma.sync, SM75 and up.
//
// Algorithm. The CTA computes Dᵀ = W · Xᵀ for a tile of kBlockN channels by
// kBlockM tokens. A ring of kStages k-steps in shared memory is filled by
// cp.async; one barrier a step, of the load group, both publishes the oldest
// stage and frees the one before it. Where there is no cp.async (kLdg) two
// stages take turns: the next k-step is fetched into registers before the
// arithmetic on this one and stored after it. Warps split the tile along
// channels, tokens and, within a k-step, along K; weights go from shared memory
// straight to MMA fragments in registers. The epilogue reuses the rings'
// memory.
//
// Data layout: packed_layout.cuh (weights, scales), tile_loader.cuh (stages).
//
// Measured steps (H200, W4A16, N = K = 8192, group 128, microseconds, cold
// clean L2, median of 21; loads alone take 9.9, the byte floor is 8.1):
//   M = 1     13.3  one ring, one barrier a step for all warps
//   M = 1     10.8  a ring for each warp along K: arithmetic and loads overlap
//   M = 16    16.7  as above, one ring
//   M = 16    13.9  a ring for each warp
//   M = 16    13.3  one scale application per 128 columns instead of per 64
//   M = 64    41.6  one epilogue tile of float32, read back vector by vector
//   M = 64    34.9  fragments summed in place, batched loads of the splits,
//                   16-bit output tile
//   M = 8192  3132  ldmatrix for one token tile and two steps: 32 registers
//   M = 8192  2904  ldmatrix for two token tiles and one step: 16 registers
// What binds it now: the loads up to M = 8; issue slots (dequantization at half
// rate on the ALU pipe) at M = 16; the rate of mma.sync, one m16n8k16 in about
// ten cycles a quarter SM, from M = 64 on. Hopper's wgmma has twice that rate.
//
// Config is rendered per kernel:
//   kN, kK, kBBits; AType, CType, kBias, kHalfAccumulate
//   kDirect                  codes of B are operands as they are
//   kAScale, kAGroup, kAScaleColumnMajor
//                            scales of A: one or one a token in the epilogue,
//                            or groups of kAGroup columns (0: none), [M,
//                            groups] or [groups, M]
//   Weight, Scale, Zero      number formats (numeric/), of which the unit holds
//                            only the ones used
//   kGroup                   columns of an entry of scales; 0: one entry a unit
//                            of rows, for all of K
//   kEntryBytes, kEntryScaleBytes, kBlockScale, kTensorScale, kTensorOffset
//                            the scale tensor (packed_layout.cuh)
//   kScaleAfter              where group scales go (mma/warp_tile.cuh)
//   kExactWeights            whether the epilogue may take a power of two off
//   kBlockM/N/K, kWarpM/N/K, kWarpsM/N/K, kThreads, kStages, kSplitK,
//   kRasterAlongM, kSmemBytes; kLdg
//   kInvariant               whether the bits of a row must not depend on its
//                            batch (kernels/space/reduction_order.h)
// and HONE_SM_ARCH, which chooses the instructions (ptx/core.cuh).
#ifndef HONE_DEVICE_GEMM_MMA_SYNC_GEMM_CUH_
#define HONE_DEVICE_GEMM_MMA_SYNC_GEMM_CUH_

#include "kernels/device/epilogue/epilogue.cuh"
#include "kernels/device/memory/tile_loader.cuh"
#include "kernels/device/mma/warp_tile.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/cp_async.cuh"
#include "kernels/device/schedule/tile_schedule.cuh"

namespace hone {

// The one dynamic shared-memory block: the rings, reused by the epilogue, then
// the flag that tells a CTA whether it is its tile's last.
template <typename Config>
struct SharedLayout {
  static constexpr int kRingBytes = Config::kStages * Stage<Config>::kBytes;
  static constexpr int kRingsBytes = Stage<Config>::kRings * kRingBytes;
  static constexpr int kFlagOffset =
      kRingsBytes > Epilogue<Config, WarpTile<Config>>::kSharedBytes
          ? kRingsBytes
          : Epilogue<Config, WarpTile<Config>>::kSharedBytes;
  static constexpr int kBytes = kFlagOffset + 16;
};

// Publishes what each thread of the load group has waited for, and frees what
// all of them have read.
template <typename Config>
__device__ __forceinline__ void LoadGroupSync() {
  if constexpr (Stage<Config>::kPrivateRings) {
    ptx::WarpSync();
  } else {
    ptx::BarrierSync();
  }
}

template <typename Config>
__device__ __forceinline__ void RunAsync(const TileLoader<Config>& loader,
                                         const TileSchedule<Config>& tile,
                                         u32 ring, WarpTile<Config>& warp) {
  using Ring = Stage<Config>;
  // Prologue: all stages but one.
#pragma unroll
  for (int i = 0; i < Config::kStages - 1; ++i) {
    const int step = tile.step_begin + i;
    if (step < tile.step_end) {
      loader.Issue(ring + i * Ring::kBytes, tile.Turn(step));
    }
    ptx::CopyAsyncCommit();
  }
  u32 read = ring;
  u32 write = ring + (Config::kStages - 1) * Ring::kBytes;
  const u32 end = ring + SharedLayout<Config>::kRingBytes;
#pragma unroll 1
  for (int step = tile.step_begin; step < tile.step_end; ++step) {
    ptx::CopyAsyncWait<Config::kStages - 2>();
    LoadGroupSync<Config>();
    const int next = step + Config::kStages - 1;
    if (next < tile.step_end) loader.Issue(write, tile.Turn(next));
    ptx::CopyAsyncCommit();
    warp.Accumulate(read);
    read += Ring::kBytes;
    if (read == end) read = ring;
    write += Ring::kBytes;
    if (write == end) write = ring;
  }
  ptx::CopyAsyncWait<0>();
}

template <typename Config>
__device__ __forceinline__ void RunThroughRegisters(
    const TileLoader<Config>& loader, const TileSchedule<Config>& tile,
    u32 ring, WarpTile<Config>& warp) {
  static_assert(Config::kStages == 2);
  typename TileLoader<Config>::Held held;
  u32 read = ring;
  u32 write = ring + Stage<Config>::kBytes;
  if (tile.step_begin < tile.step_end) {
    loader.Fetch(held, tile.Turn(tile.step_begin));
    loader.Store(read, held);
  }
#pragma unroll 1
  for (int step = tile.step_begin; step < tile.step_end; ++step) {
    LoadGroupSync<Config>();
    const bool more = step + 1 < tile.step_end;
    if (more) loader.Fetch(held, tile.Turn(step + 1));
    warp.Accumulate(read);
    if (more) loader.Store(write, held);
    const u32 swap = read;
    read = write;
    write = swap;
  }
}

template <typename Config>
__device__ __forceinline__ void MmaSyncGemm(const u8* a, const u8* a_scales,
                                            const u8* b, const u8* scales,
                                            const u8* bias, u8* c,
                                            u8* workspace, int m,
                                            u8* shared_pointer) {
  using Ring = Stage<Config>;
  static_assert(SharedLayout<Config>::kBytes == Config::kSmemBytes,
                "the host and the device disagree about shared memory");
  const u32 shared = ptx::SharedAddress(shared_pointer);
  const TileSchedule<Config> tile(m);
  const TileLoader<Config> loader(a, b, scales, a_scales, m,
                                  tile.tile_m * Config::kBlockM,
                                  tile.tile_n * Ring::kUnitsN);
  WarpTile<Config> warp;
  warp.Begin(scales + static_cast<u64>(tile.tile_n) * Ring::kUnitsN *
                          Config::kEntryBytes,
             TileLoader<Config>::kTotalUnitsN - tile.tile_n * Ring::kUnitsN,
             scales + Config::kWindowOffset + tile.tile_n * Config::kBlockN);
  const OutputScales<Config, WarpTile<Config>> output_scales(
      warp, tile.tile_m * Config::kBlockM, tile.tile_n * Config::kBlockN, m,
      scales, a_scales, bias);
  const u32 ring =
      Ring::kPrivateRings
          ? shared + warp.warp_k() * SharedLayout<Config>::kRingBytes
          : shared;
  if constexpr (Config::kLdg) {
    RunThroughRegisters<Config>(loader, tile, ring, warp);
  } else {
    RunAsync<Config>(loader, tile, ring, warp);
  }
  ptx::BarrierSync();
  const Epilogue<Config, WarpTile<Config>> epilogue(
      warp, tile, shared, shared + SharedLayout<Config>::kFlagOffset,
      output_scales);
  epilogue.Run(c, workspace, m);
}

}  // namespace hone

#endif  // HONE_DEVICE_GEMM_MMA_SYNC_GEMM_CUH_
