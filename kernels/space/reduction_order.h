// Batch invariance (compute.batch_invariant): the same row of A gives the same
// bits of C whatever M it is batched with.
//
// Every config that may serve such a problem therefore adds the products of K
// in one order with the same roundings. What that order depends on:
//
//   engine     how an MMA rounds within itself: mma.sync and wgmma may differ,
//              and wgmma with tokens as its rows and with channels
//   block_k,   products of K are dealt to the warps along K, warp_k columns at
//   warp_k     a time, and each warp sums its own; then their sums are added
//   split_k    each part of K is summed by itself; then the parts are added
//   channels   of tiles and clusters, which say at which step of K to begin
//   scales     of groups: on weights before the MMA, or on sums after it
//              (ScalesAfterMma(), which is then the problem's alone)
//
// Tiles in tokens, stages, MMAs in flight, the raster and the way that splits
// exchange their sums change none of it: each accumulator takes its columns in
// one order, and sums of warps and splits are added in theirs. Columns past K
// add zeros.
//
// The order is a pure function of the problem and the device's architecture, so
// that tables tuned apart, defaults and neighbours' tables agree on it.
#ifndef HONE_KERNELS_SPACE_REDUCTION_ORDER_H_
#define HONE_KERNELS_SPACE_REDUCTION_ORDER_H_

#include <cstdint>
#include <string>

#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

// In what order an invariant problem adds its products, in terms of the fields
// of a Tuning Config.
struct ReductionOrder {
  MmaInstruction mma = MmaInstruction::kMmaSync;
  int64_t block_k = 0;
  int64_t warp_k = 0;
  int64_t split_k = 1;

  friend bool operator==(const ReductionOrder&,
                         const ReductionOrder&) = default;
};

// The order in which `config` adds.
ReductionOrder ReductionOrderOf(const TuningConfig& config);

// The one order of a problem. Whether the problem asks for invariance is not
// looked at. It must pass CheckProblem().
ReductionOrder InvariantOrder(const Problem& problem, const DeviceSpec& device);

// Why `config` may not serve an invariant problem, naming the field and what it
// must be; empty when it may.
std::string BreaksInvariance(const Problem& problem, const DeviceSpec& device,
                             const TuningConfig& config);

// HeuristicDefault() of an invariant problem.
TuningConfig InvariantDefault(const Problem& problem, const DeviceSpec& device,
                              int64_t m);

}  // namespace hone

#endif  // HONE_KERNELS_SPACE_REDUCTION_ORDER_H_
