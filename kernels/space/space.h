// Which Tuning Configs are legal for a problem on a device, and why not.
//
// Every legality rule is one row of a table (Rules()); shared-memory use is
// exact, register use an estimate. Pure functions of their arguments.
#ifndef HONE_KERNELS_SPACE_SPACE_H_
#define HONE_KERNELS_SPACE_SPACE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

// Why a config is not legal.
struct Refusal {
  // The rule's name, e.g. "smem_fits".
  std::string rule;
  // A sentence that names the field and the legal values.
  std::string reason;
};

// Whether the device's MMA takes activations of this type.
bool HasActivation(DataType a, const DeviceSpec& device);

// Whether Hone has a kernel for this problem on this device at all.
// Unimplemented says which field has no kernel and what has one, and of
// activations that the device has no MMA for, what NextComputable() answers;
// InvalidArgument when the configs are not valid in themselves.
absl::Status CheckProblem(const Problem& problem, const DeviceSpec& device);

// A problem that the device has no MMA for, computed in the next higher type of
// activations that it has one for: float4e2m1 and 8-bit floats in the floats
// above them, integers in wider ones and then in float16, bfloat16 in float16
// (whose range is smaller). With 16 bits A has no scales.
struct Fallback {
  Problem problem;
  // What was changed, for people; empty when nothing was.
  std::string note;
};
// The problem itself when its activations have an MMA. Otherwise CheckProblem()
// passes for the answer; its error for the last type tried when there is none.
absl::StatusOr<Fallback> NextComputable(const Problem& problem,
                                        const DeviceSpec& device);

// The first rule that `config` breaks, or nullopt when it is legal. The
// problem must pass CheckProblem().
std::optional<Refusal> CheckConfig(const Problem& problem,
                                   const DeviceSpec& device,
                                   const TuningConfig& config);

// Every rule that `config` breaks.
std::vector<Refusal> AllRefusals(const Problem& problem,
                                 const DeviceSpec& device,
                                 const TuningConfig& config);

// Whether a config is one of the wgmma engine.
bool UsesWgmma(const TuningConfig& config);

// Columns of K that one load group brings in a k-step: warp_k when all warps
// lie along K, so that each has its own ring, else block_k.
int64_t LoadColumns(const TuningConfig& config);

// Bytes of one stage of the CTA's ring, or of its rings together: tiles and
// scales, with the rows that only pad M and N.
int64_t RingStageBytes(const Problem& problem, const TuningConfig& config);

// Dynamic shared memory of the kernel, bytes; exact.
int64_t SmemBytes(const Problem& problem, const TuningConfig& config);

// Of those, what scales of A take on their way to the stages where they come
// four groups of each token at a time (AScaleProducer in
// kernels/device/memory/tma_ring.cuh): where they lie side by side, a step has
// one of them and there is room. Else 0.
int64_t AScaleQuadBytes(const Problem& problem, const TuningConfig& config);

// Whether group scales are applied to accumulators, after the MMA, rather than
// to weights before it: where type A cannot hold them, where sums in float16
// join the accumulators anyway, and where the warp has few tokens (see
// kernels/device/mma/warp_tile.cuh). The last only without batch invariance.
bool ScalesAfterMma(const Problem& problem, const TuningConfig& config);

// Steps of K, 32 bytes of a row of activations each, whose wgmmas are one group
// where weights are dequantized: short MMAs share a group's overhead.
int64_t MmaBatch(const Problem& problem, const TuningConfig& config);

// Groups of wgmmas that a warpgroup can have in flight at a time, at most 4: of
// a k-step where weights are dequantized, since its registers are written again
// in the next one; two where both operands are in shared memory, one if partial
// sums are waited for.
int64_t MmaGroups(const Problem& problem, const TuningConfig& config);

// Whether a wgmma's rows are tokens, and its columns channels: a warp has all
// channels of the tile. Otherwise rows are channels, and columns tokens.
bool TokenRows(const TuningConfig& config);

// Columns of a wgmma of the config: block_m, or block_n with TokenRows().
int64_t WgmmaColumnsOf(const TuningConfig& config);

// Whether wgmma has a shape of so many columns for type A: multiples of 8 up to
// 256; of 16, or 8 and 24, for integers (PTX ISA, "Matrix Shape" of wgmma).
bool WgmmaColumns(DataType a, int64_t columns);

// Whether warps of a wgmma kernel finish tiles on their own, because their sums
// are whole; its CTAs may take several tiles.
bool StreamsTiles(const TuningConfig& config);

// Clusters of `cluster` CTAs (1, 2 or 4) that run at a time, `ctas_per_sm` on
// each SM: how many workers stream-K needs to keep the device busy. SMs of a
// cluster are of one GPC, which leaves some over where it has more than two
// (30 of four on an H200's 132 SMs; cudaOccupancyMaxActiveClusters).
int64_t StreamWorkers(const DeviceSpec& device, int64_t cluster,
                      int64_t ctas_per_sm);

// Splits of a tile that are in one cluster, and sum through its shared memory
// instead of the workspace: all of them where a cluster can be that large.
int64_t ClusterSplit(const TuningConfig& config);

// How registers are shared between the warpgroups of a wgmma kernel: what each
// thread starts with, and, where those that compute need more than that, what
// setmaxnreg leaves the producer's and gives the others.
struct WarpgroupRegisters {
  int64_t launch = 0;
  bool reassigned = false;
  int64_t producer = 0;
  int64_t math = 0;
};
WarpgroupRegisters RegistersOf(const Problem& problem,
                               const TuningConfig& config);

// Registers per thread that computes, estimated from fragments and
// accumulators.
int64_t EstimateRegisters(const Problem& problem, const TuningConfig& config);

// Every legal config of the declared space that can make sense at some M up
// to max_m. Deterministic order.
std::vector<TuningConfig> Enumerate(const Problem& problem,
                                    const DeviceSpec& device, int64_t max_m);

// The config used when nothing was measured; legal for every problem that
// passes CheckProblem().
TuningConfig HeuristicDefault(const Problem& problem, const DeviceSpec& device,
                              int64_t m);

// Fewest bytes that device memory must move at this M: weights, scales, bias,
// activations and output, each once.
int64_t MinimumBytes(const Problem& problem, int64_t m);

// How many times float16's rate the device multiplies operands of type A at.
double OperandRate(DataType a, const DeviceSpec& device);

// The fastest possible time of a problem at one M, by each of what it must do.
struct Floors {
  // MinimumBytes(), and the device's streaming rate.
  double bytes = 0;
  double memory_gbps = 0;
  // 2·M·N·K, and the device's best rate for A.
  double operations = 0;
  double tflops = 0;

  double bytes_ns() const { return bytes / memory_gbps; }
  double mma_ns() const { return operations / (tflops * 1e3); }
  // The larger of the two.
  double ns() const { return std::max(bytes_ns(), mma_ns()); }
  bool memory_binds() const { return bytes_ns() >= mma_ns(); }
  // Operations per byte.
  double intensity() const { return operations / bytes; }
};
Floors FloorsOf(const Problem& problem, const DeviceSpec& device, int64_t m);

// FloorsOf().ns(), nanoseconds.
double FloorNs(const Problem& problem, const DeviceSpec& device, int64_t m);

}  // namespace hone

#endif  // HONE_KERNELS_SPACE_SPACE_H_
