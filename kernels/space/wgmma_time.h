// How long a wgmma kernel should take: a function of a few rates of Hopper's
// SMs and of what the config makes a k-step do. The heuristic default is the
// one of a short list that it prefers, and the tuner ranks the space by it.
//
// A CTA's k-step takes the longest of
//   multiplying: the MMAs of all warpgroups, which share the tensor cores, or
//     one warpgroup's own steps, which makes operands, multiplies and waits;
//   loading: bytes from L2, of which a cluster's CTAs share some;
//   a stage's turn, from asking for it to its release, over the ring's stages.
// All steps of all waves overlap with reading each operand once from device
// memory; the launch, each tile's epilogue and the sum of parts of tiles come
// on top. Stream-K has no waves: its CTAs take as many steps each. Long kernels
// that keep the tensor cores busy run at a lower clock, because of the power
// limit.
//
// Pure functions. Its constants were fitted to times of an H200; see the .cc.
#ifndef HONE_KERNELS_SPACE_WGMMA_TIME_H_
#define HONE_KERNELS_SPACE_WGMMA_TIME_H_

#include <cstdint>

#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/space/occupancy.h"

namespace hone {

// What one SM takes in a clock at most, and what L2 gives each SM when all of
// them ask; bytes. Of Hopper, whatever the instruction.
inline constexpr double kSmBytesPerClock = 64;
inline constexpr double kL2BytesPerSmClock = 31;

// Nanoseconds of the whole launch.
struct WgmmaTime {
  double total_ns = 0;

  // Of the main loops.
  double compute_ns = 0;  // MMAs and what a warpgroup does between them
  double mma_ns = 0;      // of compute_ns: tensor cores, with tiles padded
  double load_ns = 0;     // bytes through L2
  double latency_ns = 0;  // stages' turns
  double dram_ns = 0;     // each operand once from device memory

  double fixed_ns = 0;  // launch and epilogues
  double split_ns = 0;  // adding up the parts of tiles

  int64_t ctas = 0;
  int64_t ctas_per_sm = 0;  // resident; at least 1
  double waves = 0;         // ctas over what is resident at once
  double dram_bytes = 0;
  double l2_bytes = 0;
  double bytes_in_flight_per_sm = 0;
};

// The config must be a legal one of wgmma, and m ≥ 1.
WgmmaTime WgmmaTimeOf(const Problem& problem, const DeviceSpec& device,
                      const TuningConfig& config, int64_t m,
                      const KernelFootprint& footprint);

// The launch order that is up to 5 % faster at many tokens on an H200, and as
// fast as the other at few.
RasterOrder WgmmaRaster(int64_t m);

}  // namespace hone

#endif  // HONE_KERNELS_SPACE_WGMMA_TIME_H_
