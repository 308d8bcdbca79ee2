// What a config does with a device at one M, for people who want to know why a
// kernel is as fast as it is: pure functions, values in, values out.
//
// Nothing is measured here. Counts (tiles, CTAs, bytes) are exact, floors and
// occupancy follow from the device's figures, and `model` is the analytic
// model's view, which is MODELLED whatever the device is.
#ifndef HONE_TUNER_EXPLAIN_H_
#define HONE_TUNER_EXPLAIN_H_

#include <cstdint>
#include <string>

#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/space/occupancy.h"
#include "kernels/space/space.h"
#include "tuner/analytic_model.h"

namespace hone {

// What a time makes of a problem's floors.
struct Achieved {
  // Of the floor: 1 is the fastest possible.
  double fraction = 0;
  // Operations, and the bytes that must move at least, over the time.
  double tflops = 0;
  double tb_per_s = 0;
};
// `ns` is above 0.
Achieved AchievedIn(const Floors& floors, double ns);

// A tiled dimension: what there is, and what tiles cover.
struct TiledLength {
  int64_t length = 0;
  int64_t tiles = 0;
  int64_t covered = 0;
};

struct Explanation {
  Floors floors;

  // ---- the work ----
  // Of the MMA instruction: "m16n8k16", "m64n128k16".
  std::string mma_shape;
  // m counts tokens, n channels, k the columns of a tile's whole reduction in
  // steps of block_k. Tiles that only fill clusters up are counted.
  TiledLength m, n, k;
  // Share of the MMA's rows that are beyond M or N: 0 wastes nothing.
  double padding = 0;
  // Output tiles times split_k: what CTAs take one of at a time.
  int64_t pieces = 0;
  // What is launched; fewer than pieces where CTAs take several.
  int64_t ctas = 0;
  // Pieces that run at a time, and the waves they make.
  int64_t slots = 0;
  Waves waves;
  int64_t cluster = 1;  // CTAs
  uint64_t workspace_bytes = 0;

  // ---- an SM ----
  Occupancy occupancy;
  // CTAs that an SM has at most at this M.
  int64_t running = 0;
  int64_t cta_warps = 0;
  int64_t running_warps = 0;
  int64_t max_warps = 0;
  KernelFootprint footprint;
  // Of a thread that computes, before the compile.
  int64_t estimated_registers = 0;
  // With wgmma; launch is 0 otherwise.
  WarpgroupRegisters warpgroups;
  int64_t stage_bytes = 0;
  // On their way to an SM in the steady state: all stages but the one that is
  // computed on, of every running CTA, without rows that only pad M.
  double in_flight = 0;
  // What bandwidth times latency asks for (BytesInFlightForFullRate), and what
  // streams needed to get there in practice.
  double in_flight_least = 0;
  double in_flight_wanted = 0;

  Prediction model;
};

// The config must be legal for the problem and the device (AllRefusals() is
// empty), and m ≥ 1.
Explanation Explain(const Problem& problem, const DeviceSpec& device,
                    const TuningConfig& config, int64_t m,
                    const KernelFootprint& footprint);

}  // namespace hone

#endif  // HONE_TUNER_EXPLAIN_H_
