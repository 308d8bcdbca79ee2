// GpuMeasurer: gates and times candidates on one GPU, in this process.
//
// The worker child and hone-kernel-bench run it. A kernel that faults takes
// the process's CUDA context with it; the worker exists so that this costs a
// child only.
//
// Protocol 1: kernel time from CUPTI records matched by correlation id; each
// timed call follows a read of 4 × the L2, whose kernel also reads the SM
// clock; NVML is asked for slowdowns once a round. In gate-only mode CUPTI is
// not touched, so compute-sanitizer and ncu can watch.
#ifndef HONE_TUNER_MEASURE_GPU_MEASURER_H_
#define HONE_TUNER_MEASURE_GPU_MEASURER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/codegen/launch_plan.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/jit/shared_library.h"
#include "kernels/launch/module.h"
#include "kernels/launch/nvml_library.h"
#include "tuner/executor.h"
#include "tuner/measure/cupti_timer.h"
#include "tuner/measure/device_reference.h"
#include "tuner/measure/gate.h"
#include "tuner/measure/helper_kernels.h"
#include "tuner/measure/l2_flush.h"
#include "tuner/measure/operands.h"

namespace hone {

// Compiles a CUDA C++ unit for an architecture ("sm_90a") to a cubin.
using CompileFunction = std::function<absl::StatusOr<std::string>(
    const std::string& source, const std::string& arch)>;

// One thread uses it, always the same: the context is current there.
class GpuMeasurer {
 public:
  struct Options {
    int device = 0;
    // False: gate-only mode; Round() is refused.
    bool timing = true;
    Protocol protocol;
    // Where CUPTI is looked for.
    LibrarySearch libraries;
  };

  // `compile` is called once, for the helper kernels. Unavailable when there
  // is no driver, device or (with timing) CUPTI.
  static absl::StatusOr<std::unique_ptr<GpuMeasurer>> Create(
      const Options& options, const CompileFunction& compile);
  ~GpuMeasurer();

  const DeviceSpec& device() const { return device_; }
  const Protocol& protocol() const { return options_.protocol; }

  // As in Executor. Returns once the operands exist. Gate() computes the
  // reference at an M when it first needs it; PrepareGate() does so before.
  absl::Status Begin(const Problem& problem, int64_t max_m, uint64_t seed);
  // The cubin is loaded when it is first needed.
  absl::StatusOr<int> Add(const TuningConfig& config, std::string cubin);
  absl::Status PrepareGate(int64_t m);
  // Aborted, or kFault, when the kernel faulted: the context is lost.
  absl::StatusOr<GateResult> Gate(int candidate, int64_t m);
  // Aborted when a kernel faulted.
  absl::StatusOr<RoundResult> Round(const RoundRequest& request);

  // Runs a kernel whose answer is known. Any error means that the device does
  // not compute as it should.
  absl::Status Sentinel();

  // The clock events of the latest round, where NVML told them.
  const std::optional<ClockEvents>& last_clock_events() const {
    return last_clock_events_;
  }

 private:
  struct Loaded {
    TuningConfig config;
    std::string cubin;
    std::optional<Module> module;
    FunctionHandle function = nullptr;
    int64_t prepared_smem = -1;
    std::map<int64_t, LaunchPlan> plans;
  };
  // What belongs to one problem.
  struct Session {
    Problem problem;
    int64_t max_m = 0;
    Operands operands;
    std::unique_ptr<DeviceReference> reference;
    std::optional<hone::Gate> gate;
    std::vector<Loaded> candidates;
    // Of the latest round.
    int64_t last_m = 0;
  };

  GpuMeasurer(const Options& options, DeviceSpec device, Context context);

  // The candidate with its module loaded and its plan for m. InvalidArgument
  // when the driver refuses it.
  absl::StatusOr<std::pair<Loaded*, const LaunchPlan*>> Prepare(int candidate,
                                                                int64_t m);

  // Others that compute on the device, as of a moment ago.
  std::vector<int64_t> ForeignProcesses();
  // Waits until the SM clock is near its highest, or long enough.
  absl::Status Settle();

  const Options options_;
  const DeviceSpec device_;
  // Before everything that lives in the context.
  std::unique_ptr<CuptiTimer> timer_;
  Context context_;
  std::unique_ptr<NvmlDevice> nvml_;
  Stream stream_;
  HelperKernels helpers_;
  std::optional<L2Flush> flush_;
  std::unique_ptr<Session> session_;
  std::optional<ClockEvents> last_clock_events_;
  std::vector<int64_t> foreign_;
  absl::Time foreign_asked_ = absl::InfinitePast();
};

}  // namespace hone

#endif  // HONE_TUNER_MEASURE_GPU_MEASURER_H_
