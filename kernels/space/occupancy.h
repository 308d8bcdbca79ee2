// How many CTAs of a kernel an SM holds and why not more, and in how many waves
// a launch runs. Pure functions; what ranks candidates and what explains them
// to people count with the same ones.
#ifndef HONE_KERNELS_SPACE_OCCUPANCY_H_
#define HONE_KERNELS_SPACE_OCCUPANCY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

// What one CTA holds of an SM.
struct KernelFootprint {
  int64_t registers = 0;    // per thread, as launched
  int64_t smem_bytes = 0;   // dynamic
  int64_t spill_bytes = 0;  // per thread, loads and stores
};

// Before the compile: exact shared memory, estimated registers.
KernelFootprint EstimateFootprint(const Problem& problem,
                                  const TuningConfig& config);

// What keeps another CTA off an SM.
enum class SmLimit : uint8_t {
  kThreads,
  kRegisters,
  kSharedMemory,
  kCtaSlots,
  // The kernel's CTAs take several tiles each, and only ctas_per_sm of them
  // are launched for each SM.
  kLaunch,
};
// "threads", "registers", "shared memory", "CTA slots", "the launch".
absl::string_view ToString(SmLimit limit);

// CTAs that one SM holds at a time, by each limit alone and by all of them.
struct Occupancy {
  int64_t by_threads = 0;
  int64_t by_registers = 0;
  int64_t by_smem = 0;
  int64_t by_slots = 0;
  // ctas_per_sm where the launch is the limit, else 0: no limit.
  int64_t by_launch = 0;
  // The least; 0 when not even one CTA fits.
  int64_t ctas = 0;
  // The first, in the order above, that allows no more.
  SmLimit limit = SmLimit::kThreads;
};

// The config must be well formed (TuningConfig::Validate()).
Occupancy OccupancyOf(const DeviceSpec& device, const TuningConfig& config,
                      const KernelFootprint& footprint);

// `work` pieces that run `slots` at a time.
struct Waves {
  int64_t full = 0;
  // Pieces of the last wave when it is not full, else 0.
  int64_t rest = 0;
  // work / slots: 2.5 are two full waves and half a one.
  double count = 0;
  // Share of the slots that the last wave uses, above 0 and up to 1.
  double last_fill = 0;
};
// Both at least 1.
Waves WavesOf(int64_t work, int64_t slots);

}  // namespace hone

#endif  // HONE_KERNELS_SPACE_OCCUPANCY_H_
