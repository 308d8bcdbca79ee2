// The gate: whether a kernel's output is right, on the device.
//
// Before a check, both outputs and the workspace are poisoned with NaNs, and
// the bytes before and after each hold a pattern. The kernel runs twice, into
// two outputs: the first is compared with the reference (see
// device_reference.h for the rows; NaNs are looked for in every element), both
// must be equal bit for bit, the patterns must be intact, and the part of the
// workspace that kernels must leave zero must be zero. The operands and the
// reference must still hash to what they were: a kernel that writes there would
// make right ones after it look wrong.
#ifndef HONE_TUNER_MEASURE_GATE_H_
#define HONE_TUNER_MEASURE_GATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/codegen/launch_plan.h"
#include "kernels/config/problem.h"
#include "kernels/launch/module.h"
#include "kernels/reference/reference.h"
#include "tuner/executor.h"
#include "tuner/measure/device_reference.h"
#include "tuner/measure/helper_kernels.h"
#include "tuner/measure/operands.h"

namespace hone {

// The outcome of a candidate that the driver refuses to load or launch with
// this status.
Outcome RefusalOf(const absl::Status& status);

// Device memory between two guard zones.
class GuardedBuffer {
 public:
  static constexpr uint64_t kGuardBytes = 4096;
  static constexpr uint8_t kPattern = 0xa5;

  static absl::StatusOr<GuardedBuffer> Allocate(uint64_t bytes);

  DevicePtr ptr() const { return buffer_.ptr() + kGuardBytes; }
  uint64_t bytes() const { return bytes_; }

  // Queues the pattern before the buffer and right after its first
  // `used_bytes`.
  absl::Status Arm(uint64_t used_bytes, StreamHandle stream) const;
  // Queues a check of both zones that adds to the CheckResult at `result`.
  absl::Status Check(const HelperKernels& helpers, uint64_t used_bytes,
                     DevicePtr result, StreamHandle stream) const;

 private:
  DeviceBuffer buffer_;
  uint64_t bytes_ = 0;
};

// The outcome of comparing rows, from what the compare kernel's CTAs found;
// `parts` of them per row, in order. A pure function.
struct ComparisonSummary {
  ErrorMetrics error;
  // The element that misses the reference by most of its tolerance.
  int64_t worst_m = 0;
  int64_t worst_n = 0;
};
ComparisonSummary Summarize(absl::Span<const RowComparison> found, int parts,
                            absl::Span<const int64_t> rows);

// Why `elements` compared elements with this summary are not what the
// tolerance allows; empty when they are. See Tolerance: each element has its
// bound, and enough of them together the bound of random errors.
std::string WhyWrong(const ComparisonSummary& summary, int64_t elements,
                     const Tolerance& tolerance);

// The references given must outlive it.
class Gate {
 public:
  // Allocates outputs for up to max_m tokens.
  static absl::StatusOr<Gate> Create(const HelperKernels& helpers,
                                     const Problem& problem, Operands& operands,
                                     DeviceReference& reference, int64_t max_m,
                                     StreamHandle stream);

  // Checks one kernel, whose products `mma` sums, at m ≤ max_m. A kernel that
  // cannot be launched or is wrong is a result; so is a fault (kFault), after
  // which the context is lost. DataLoss: an earlier kernel has overwritten the
  // operands or the reference, and the context is of no more use.
  absl::StatusOr<GateResult> Check(FunctionHandle function,
                                   const LaunchPlan& plan, MmaInstruction mma,
                                   int64_t m);

  // What the kernels of this problem are launched with at m tokens, with room
  // for the plan's workspace. ResourceExhausted when there is none.
  absl::StatusOr<BufferBindings> Bindings(const LaunchPlan& plan, int64_t m);

 private:
  Gate(const HelperKernels& helpers, const Problem& problem, Operands& operands,
       DeviceReference& reference, StreamHandle stream);

  absl::Status Poison(const LaunchPlan& plan, uint64_t output_bytes);
  // Queues hashes of `inputs`, into the `part`th part of hashes_.
  absl::Status QueueHashes(const std::vector<const DeviceBuffer*>& inputs,
                           size_t part);

  const HelperKernels* helpers_;
  Problem problem_;
  Operands* operands_;
  DeviceReference* reference_;
  StreamHandle stream_;
  GuardedBuffer first_;
  GuardedBuffer second_;
  GuardedBuffer workspace_;
  DeviceBuffer comparisons_;
  // CheckResult[3]: repeat, guards, zeroed workspace.
  DeviceBuffer checks_;
  // What each buffer of operands and reference hashed to when it was new.
  std::map<DevicePtr, uint64_t> known_hashes_;
  // Of all of them before the kernel ran, then after it.
  DeviceBuffer hashes_;
};

}  // namespace hone

#endif  // HONE_TUNER_MEASURE_GATE_H_
