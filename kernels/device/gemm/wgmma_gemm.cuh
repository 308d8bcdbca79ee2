// C = A · Bᵀ with packed weights, on wgmma, SM90a.
//
// Algorithm. The CTA computes Dᵀ = W · Xᵀ for a tile of kBlockN channels by
// kBlockM tokens, or D = X · Wᵀ (kTokenRows), where weights are operands as
// they are. One thread of a producer warpgroup has the copy engine fill a ring
// of kStages k-steps; the other warpgroups multiply, each its own channels and,
// where warpgroups share channels, its own part of every k-step. Weights go
// from shared memory to registers, are dequantized there and are wgmma's
// register operand; activations stay in shared memory. mbarriers alone connect
// the two sides: `full` when a step has landed, `empty` when all have read it.
// The epilogue reuses the ring's memory, or, where each warp has whole sums,
// has its own: then the grid has as many CTAs as run at a time, each takes one
// tile after the other, and the next tile's first steps land during the
// epilogue. With stream-K (kWorkers) CTAs take parts of tiles (schedule/
// work.cuh).
//
// Data layout: packed_layout.cuh (weights, scales), tma_ring.cuh (stages).
//
// Measured steps (H200, W4A16, N = K = 8192, group 128, microseconds, cold
// clean L2, medians; the limits of bytes and MMAs are 9.6, 10, 19.5, 39, 156
// and 623 at M = 1, 64, 128, 256, 1024 and 4096). In brackets: a second card,
// on which the same kernels took 2 to 5 % longer.
//   M = 1      13.0         two warpgroups along K
//   M = 1      11.5 (12.0)  four; (11.8) with steps of 1024 columns
//   M = 16     12.1 (13.1)  four; (12.3) with steps of 1024 columns
//   M = 64     18.7 (19.7)  64 x 64, two warpgroups along K
//   M = 128    27.4 (27.6)  128 x 128, K split over a cluster of two CTAs;
//                           (28.5) 128 x 64, K not split
//   M = 256    47.2 (48.6)  128 x 128; (47.5) 256 x 64
//   M = 1024    175  (178)  128 x 256, two groups of MMAs in flight; (183) with
//                           one, (180) with three; (176) 256 x 128
//   M = 4096    708  (716)  the same; (696) clusters of two CTAs that share
//                           activations; (683) channel scales
//
// Later steps, on a third card, which takes 3 to 5 % longer than the first:
//
//   Tiles begin at different k-steps (TileSchedule::Turn): small M had waited
//   for the few lines of activations that all CTAs asked for at a time.
//     W4A16, two warpgroups along K, M = 1: 18.6 to 13.0
//     mxfp4 with float8e4m3, M = 1: 15.5 to 13.1
//
//   Token and channel scales are loaded before the mainloop. Loaded fragment by
//   fragment after it, they had taken a fifth of the time of W8A8 (float8e4m3).
//     M = 128 24.6 to 20.8, 256 32.4 to 27.8, 1024 105.8 to 94.9, 4096 407 to
//     374; W4A16 with channel scales at M = 4096 680 to 669
//
//   Clusters of two share activations.
//     W8A8 at M = 64 23.0 to 18.9, 128 25.8 to 20.8, 256 42.2 to 27.8; W4A16 at
//     M = 64 23.4 to 22.0
//
//   Blockwise float8e4m3, M = 1024 and 4096: 159 and 639 with one set of
//   partial sums, 150 and 573 with two in flight within a stage, 132 and 492
//   with tokens in the MMAs' rows, where a lane needs two of their scales and
//   not thirty-two.
//
//   mxfp4 with float8e4m3, M = 1024 and 4096: 220 and 859 with scales folded
//   after every MMA, 93 and 357 with scales in the weights
//   (numeric/windowed.cuh).
//
//   Partial sums of blockwise float8e4m3 are folded block after block of 64
//   tokens, so that tiles of 256 x 128 have registers for them (loads alone 451
//   to 339 at M = 4096), and two warpgroups issue their MMAs in turns.
//     M = 1024 139 to 125, 4096 480 to 488 (128 x 192 is as fast there)
//
//   Blockwise float8e4m3's scales of A, column-major, come in one bulk copy a
//   tile and step; row-major, each is a request of 4 bytes (a fourth card;
//   row-major, then column-major, M = 256, 1024, 4096 and 8192): loads alone
//   29.3 and 29.9, 97 and 70, 369 and 265, 744 and 527; all of it 37.0 and 33.3,
//   127 and 111, 500 and 439, 1009 and 890.
//
//   The same in rows: four groups of a token come in one request of 16 bytes
//   and are dealt out to the stages: M = 256 37.0 to 33.3, 1024 127 to 114, 4096
//   500 to 447, 8192 1009 to 903 (other cards; W4A16 at M = 1, unchanged, took
//   10.3 and 10.2 on them).
//
//   What a warp's lanes have in common (ptx::Uniform: the warp's number, and so
//   the ring's walk and descriptors) is in uniform registers. Beside each MMA a
//   warp executes 12 other instructions instead of 20 (channel scales), 17
//   instead of 26 (groups of 128), 28 instead of 39 (mxfp4), of which 9, 13 and
//   20 dequantize; past some 6 in 32 clocks each takes the tensor cores two
//   (tests/gpu/wgmma_contention.cu). On the same cards: W4A16 channel M = 64 20.2
//   to 18.6, 128 27.6 to 26.7, 256 47.5 to 45.1; group 128 22.2 to 19.7, 30.2 to
//   28.7, 51.9 to 47.4; mxfp4 M = 1 13.7 to 12.7, 64 16.1 to 14.6, 128 20.6 to
//   17.9, 4096 370 to 357; fp8 M = 16 18.6 to 18.0, 1024 94.8 to 93.3.
//
//   Stream-K where tiles leave SMs idle: W4A16 10240 x 8192, M = 128 47.5 to
//   37.4, 1024 254 to 227; 2112 x 7168, 1024 66.1 to 51.5. A cut tile costs 3 to
//   4 us, so that it loses where tiles come out even.
//
// Three mistakes: a stage's ordinary reads were not fenced against the copies
// that overwrite it (mma/warpgroup_sums.cuh, Release), which showed once in
// hundreds of launches; arrivals with release at cluster scope (803 at M = 4096) are
// fences of all memory, in every warp and stage; and clusters of four do not
// all fit the SMs at once, so that 32 of them take a second wave (W8A8 at
// M = 4096: 591 instead of 374).
//
// No gain: CTAs that take several tiles and load the next one during the
// epilogue; a cluster's first weights before its CTAs meet (they come
// later: 12.7 to 14.7 at M = 1 of mxfp4, since the thread that issues them is
// late at the barrier), groups of twice as many MMAs, weights that leave the L2
// first at many tokens (8192: fp8 759 to 788), bands of 4 or 16 rows of tiles.
//
// What binds it (tests/bench/results/h200: ncu, limits, wgmma-contention). At
// M = 4096 W4A16's tensor pipe is busy 97 % of the clocks in which an SM has a
// CTA, at the 1.57 GHz that the power limit leaves; fp8's 91 %, blockwise fp8's
// 79 %, at 1.56 to 1.58. Channel scales are 6 % faster than groups of 128 there
// by their clock alone. At M = 64 (1.74 GHz) it is busy 57 % and issue slots are
// 37 %: nine instructions of dequantization in an MMA's 32 clocks, and loads
// that alone take 14.5 of 18.6 us. The L2 gives 31 bytes a clock and SM. W8A8 is
// bound by that at M = 128 to 1024.
//
// Config is rendered per kernel: what mma_sync_gemm.cuh lists, and
//   Mma                      wgmma of the tile's shape (ptx/wgmma.cuh)
//   kTokenRows               whether tokens are its rows (mma/
//                            token_warpgroup_tile.cuh), or channels (mma/
//                            warpgroup_tile.cuh)
//   kMmaBatch, kFlight       steps of a group of MMAs, groups in flight
//   kClusterM/N              tiles of a cluster
//   kClusterSplit            splits of a tile in a cluster
//   kWorkers                 clusters of stream-K; 0: none
//   kStreamed                whether warps finish tiles on their own, and CTAs
//                            take several (epilogue/streamed_epilogue.cuh)
//   kBulkWeights             whether weights and scales need no tensor map
//   kAScaleQuadBytes         memory for A's scales where they come four groups
//                            of a token at a time, else 0
//   kProducerRegisters, kMathRegisters
//                            what setmaxnreg gives each side; 0: left alone
// kThreads counts the threads that multiply.
#ifndef HONE_DEVICE_GEMM_WGMMA_GEMM_CUH_
#define HONE_DEVICE_GEMM_WGMMA_GEMM_CUH_

#include "kernels/device/epilogue/epilogue.cuh"
#include "kernels/device/epilogue/partial_tiles.cuh"
#include "kernels/device/epilogue/streamed_epilogue.cuh"
#include "kernels/device/memory/tma_ring.cuh"
#include "kernels/device/mma/token_warpgroup_tile.cuh"
#include "kernels/device/mma/warpgroup_tile.cuh"
#include "kernels/device/ptx/bulk_copy.cuh"
#include "kernels/device/ptx/cluster.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/mbarrier.cuh"
#include "kernels/device/ptx/wgmma.cuh"
#include "kernels/device/schedule/tile_schedule.cuh"
#include "kernels/device/schedule/work.cuh"

namespace hone {

template <bool kTokenRows, typename Config>
struct ChooseWarpgroup {
  using Type = WarpgroupTile<Config>;
};
template <typename Config>
struct ChooseWarpgroup<true, Config> {
  using Type = TokenWarpgroupTile<Config>;
};
template <typename Config>
using WarpgroupOf = typename ChooseWarpgroup<Config::kTokenRows, Config>::Type;

// The one dynamic shared-memory block: the ring, reused by the epilogue or,
// where that is streamed or the CTA goes on with another tile, followed by its
// memory; the flag that tells a CTA whether it is
// its tile's last; and the mbarriers.
template <typename Config>
struct WgmmaSharedLayout {
  using Warp = WarpgroupOf<Config>;
  using Streamed = StreamedEpilogue<Config, Warp>;
  static constexpr int Max(int a, int b) { return a > b ? a : b; }

  // What a streamed epilogue sends goes over the ring, too.
  static constexpr int kRingBytes =
      Max(Config::kStages * TmaStage<Config>::kBytes, Streamed::kReceivedBytes);
  static constexpr int kBuffersOffset = kRingBytes;
  static constexpr int kReceivedOffset =
      kBuffersOffset + Streamed::kBufferBytes;
  static constexpr int kTileBytes = Epilogue<Config, Warp>::kSharedBytes;
  static constexpr int kTileOffset = Work<Config>::kManyTiles ? kRingBytes : 0;
  static constexpr int kFlagOffset =
      Config::kStreamed ? kReceivedOffset + Streamed::kReceivedBytes
                        : Max(kRingBytes, kTileOffset + kTileBytes);
  static constexpr int kArrivedOffset = kFlagOffset + 8;
  static constexpr int kFullOffset = kFlagOffset + 16;
  static constexpr int kEmptyOffset = kFullOffset + Config::kStages * 8;
  // Scales of A on their way to the stages (AScaleProducer).
  static constexpr int kQuadOffset = kEmptyOffset + Config::kStages * 8;
  static constexpr int kBytes = kQuadOffset + Config::kAScaleQuadBytes;
  static_assert(kQuadOffset % 16 == 0);
};

// What the kernel's arguments are, for both sides.
struct WgmmaArguments {
  const TensorMap* map_a;
  const TensorMap* map_b;
  const TensorMap* map_scales;
  const u8* b;
  const u8* scales;
  const u8* bias;
  u8* c;
  u8* workspace;
  int m;
  const u8* a_scales;
};

// The producer's thread: fills stages from `cursor` on with k-steps [begin,
// end) of a tile.
template <typename Config>
__device__ __forceinline__ void Produce(const WgmmaArguments& arguments,
                                        const TileSchedule<Config>& tile,
                                        u32 ring, RingBarriers barriers,
                                        RingCursor<Config>& cursor, int begin,
                                        int end) {
  const TmaProducer<Config> producer(
      arguments.map_a, arguments.map_b, arguments.map_scales, arguments.b,
      arguments.scales, tile.tile_m, tile.tile_n,
      arguments.m <= Config::kBlockM * Config::kClusterM);
#pragma unroll 1
  for (int step = begin; step < end; ++step) {
    ptx::MbarrierWait(barriers.empty + cursor.stage * 8, cursor.round ^ 1);
    producer.Issue(ring + cursor.stage * TmaStage<Config>::kBytes,
                   barriers.full + cursor.stage * 8, tile.Turn(step));
    cursor.Advance();
  }
}

// A warp of the producer's: A's group scales for the same steps.
template <typename Config>
__device__ __forceinline__ void ProduceAScales(const WgmmaArguments& arguments,
                                               const TileSchedule<Config>& tile,
                                               u32 ring, RingBarriers barriers,
                                               RingCursor<Config>& cursor) {
  AScaleProducer<Config> producer(
      arguments.a_scales, arguments.m, tile.tile_m * Config::kBlockM,
      ring + WgmmaSharedLayout<Config>::kQuadOffset, tile.step_begin,
      tile.step_end);
#pragma unroll 1
  for (int step = tile.step_begin; step < tile.step_end; ++step) {
    ptx::MbarrierWait(barriers.empty + cursor.stage * 8, cursor.round ^ 1);
    producer.Issue(ring + cursor.stage * TmaStage<Config>::kBytes,
                   barriers.full + cursor.stage * 8, tile.Turn(step));
    cursor.Advance();
  }
  producer.Finish();
}

// One tile of those that compute, or a part of one: the current of `work`.
template <typename Config>
__device__ __forceinline__ void Consume(const WgmmaArguments& arguments,
                                        const Work<Config>& work, u32 shared,
                                        WarpgroupOf<Config>& warpgroup,
                                        RingCursor<Config>& cursor) {
  using Warpgroup = WarpgroupOf<Config>;
  const TileSchedule<Config> tile = work.tile();
  using Shared = WgmmaSharedLayout<Config>;
  constexpr int kUnits = TmaStage<Config>::kUnitsN;
  constexpr int kTotalUnits = static_cast<int>(
      layout::RoundUp(Config::kN, layout::kUnitRows) / layout::kUnitRows);
  warpgroup.Begin(
      arguments.scales +
          static_cast<u64>(tile.tile_n) * kUnits * Config::kEntryBytes,
      kTotalUnits - tile.tile_n * kUnits,
      arguments.scales + Config::kWindowOffset + tile.tile_n * Config::kBlockN);
  const OutputScales<Config, Warpgroup> scales(
      warpgroup, tile.tile_m * Config::kBlockM, tile.tile_n * Config::kBlockN,
      arguments.m, arguments.scales, arguments.a_scales, arguments.bias);
  warpgroup.Accumulate(shared, cursor, tile.step_begin, tile.step_end);
  constexpr bool kSplits = Config::kClusterSplit > 1;
  if constexpr (TmaStage<Config>::kCluster > 1 && !kSplits) {
    // All signals to other CTAs are sent; see the end of WgmmaGemm.
    if (work.last()) ptx::ClusterArrive();
  }
  if constexpr (Work<Config>::kStreamK) {
    const PartialTiles<Config, Warpgroup> parts(arguments.workspace, work);
    if (tile.step_begin > 0) {
      parts.Publish(warpgroup);
      return;
    }
    if (tile.step_end < TileSchedule<Config>::kSteps) parts.Collect(warpgroup);
  }
  if constexpr (Config::kStreamed) {
    const StreamedEpilogue<Config, Warpgroup> epilogue(
        warpgroup, tile, shared + Shared::kBuffersOffset,
        shared + Shared::kReceivedOffset, scales);
    if constexpr (kSplits) {
      // All CTAs of the cluster have their mbarriers, and all warps of this one
      // are done with the ring.
      if constexpr (TmaStage<Config>::kCluster == 1) ptx::ClusterWait();
      Warpgroup::Sync();
      epilogue.Exchange(shared, shared + Shared::kArrivedOffset);
      ptx::ClusterArrive();
    }
    epilogue.Run(arguments.c, arguments.m);
  } else {
    // Others of the CTA may still read the ring, or the tile before.
    Warpgroup::Sync();
    const Epilogue<Config, Warpgroup> epilogue(
        warpgroup, tile, shared + Shared::kTileOffset,
        shared + Shared::kFlagOffset, scales);
    epilogue.Run(arguments.c, arguments.workspace, arguments.m);
  }
}

template <typename Config>
__device__ __forceinline__ void WgmmaGemm(const WgmmaArguments& arguments,
                                          u8* shared_pointer) {
  using Stage = TmaStage<Config>;
  using Shared = WgmmaSharedLayout<Config>;
  using Warpgroup = WarpgroupOf<Config>;
  using Tile = TileSchedule<Config>;
  static_assert(Shared::kBytes == Config::kSmemBytes,
                "the host and the device disagree about shared memory");
  // Whether the launch has clusters, whose CTAs send to each other or read each
  // other's sums.
  constexpr bool kCluster = Stage::kCluster * Config::kClusterSplit > 1;
  const u32 shared = ptx::SharedAddress(shared_pointer);
  const RingBarriers barriers = {shared + Shared::kFullOffset,
                                 shared + Shared::kEmptyOffset};
  const int thread = static_cast<int>(ptx::ThreadIdX());
  const int warp = static_cast<int>(ptx::Uniform(ptx::ThreadIdX() / 32));
  Work<Config> work(arguments.m);
  const Tile first = work.tile();
  RingCursor<Config> cursor;
  // The first stages are free. Only a cluster's must wait until all CTAs have
  // their mbarriers; others are on their way while this CTA's threads meet.
  int begin = first.step_begin;
  if (thread == Config::kThreads) {
    ptx::PrefetchTensorMap(arguments.map_a);
    if constexpr (!Config::kBulkWeights) {
      ptx::PrefetchTensorMap(arguments.map_b);
      if constexpr (Stage::kGroups > 0) {
        ptx::PrefetchTensorMap(arguments.map_scales);
      }
    }
#pragma unroll 1
    for (int i = 0; i < Config::kStages; ++i) {
      ptx::MbarrierInit(barriers.full + i * 8, Stage::kFullArrivals);
      ptx::MbarrierInit(barriers.empty + i * 8,
                        Config::kThreads / 32 * Stage::kPeers);
    }
    if constexpr (Config::kClusterSplit > 1) {
      ptx::MbarrierInit(shared + Shared::kArrivedOffset, 1);
    }
    ptx::MbarrierInitFence();
    if constexpr (Config::kClusterSplit > 1) {
      ptx::MbarrierExpect(shared + Shared::kArrivedOffset,
                          Shared::Streamed::kReceivedBytes);
    }
    if constexpr (Stage::kCluster == 1) {
      const int end = begin + Config::kStages < first.step_end
                          ? begin + Config::kStages
                          : first.step_end;
      Produce<Config>(arguments, first, shared, barriers, cursor, begin, end);
      begin = end;
    }
  }
  if constexpr (Stage::kCluster > 1) {
    // The fence has published the mbarriers.
    ptx::WarpSync();
    ptx::ClusterArriveRelaxed();
    ptx::ClusterWait();
  } else {
    ptx::BarrierSync();
    if constexpr (kCluster) ptx::ClusterArriveRelaxed();
  }
  if (warp >= Config::kThreads / 32) {
    if constexpr (Config::kMathRegisters > 0) {
      ptx::SetMaxRegistersDown<Config::kProducerRegisters>();
    }
    if (thread == Config::kThreads) {
      Produce<Config>(arguments, first, shared, barriers, cursor, begin,
                      first.step_end);
#pragma unroll 1
      while (work.Next()) {
        const Tile tile = work.tile();
        Produce<Config>(arguments, tile, shared, barriers, cursor,
                        tile.step_begin, tile.step_end);
      }
    }
    if constexpr (Stage::kAGroups > 0) {
      // The warp after the producer's thread.
      if (warp == Config::kThreads / 32 + 1) {
#pragma unroll 1
        do {
          ProduceAScales<Config>(arguments, work.tile(), shared, barriers,
                                 cursor);
        } while (work.Next());
      }
    }
    if constexpr (kCluster) {
      ptx::WarpSync();
      if constexpr (Stage::kCluster == 1) ptx::ClusterWait();
      ptx::ClusterArrive();
    }
  } else {
    if constexpr (Config::kMathRegisters > 0) {
      ptx::SetMaxRegistersUp<Config::kMathRegisters>();
    }
    Warpgroup warpgroup(barriers);
#pragma unroll 1
    do {
      Consume<Config>(arguments, work, shared, warpgroup, cursor);
    } while (work.Next());
    if constexpr (kCluster) ptx::WarpSync();
  }
  // No CTA leaves while another may still signal it, or its sums be on their
  // way.
  if constexpr (kCluster) ptx::ClusterWait();
}

}  // namespace hone

#endif  // HONE_DEVICE_GEMM_WGMMA_GEMM_CUH_
