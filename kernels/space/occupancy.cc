#include "kernels/space/occupancy.h"

#include <algorithm>

#include "kernels/space/space.h"

namespace hone {
namespace {

// Shared memory that the system keeps of each CTA, from SM80 on, and the grain
// of registers (CUDA C++ Programming Guide, compute capabilities).
constexpr int64_t kSystemSmemPerCta = 1024;
constexpr int64_t kRegisterGrain = 8;
constexpr int64_t kLeastRegisters = 16;

// Resident blocks of an SM, by the same table.
int64_t CtaSlots(const DeviceSpec& device) {
  switch (device.sm_arch) {
    case 75:
    case 86:
    case 87:
      return 16;
    case 89:
    case 120:
      return 24;
    default:
      return 32;
  }
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

KernelFootprint EstimateFootprint(const Problem& problem,
                                  const TuningConfig& config) {
  int64_t registers = EstimateRegisters(problem, config);
  // Warpgroups that compute get what is beyond the launch's from the producer.
  if (config.mma == MmaInstruction::kWgmma) {
    registers = std::min(registers, RegistersOf(problem, config).launch);
  }
  return {registers, SmemBytes(problem, config), 0};
}

absl::string_view ToString(SmLimit limit) {
  switch (limit) {
    case SmLimit::kThreads:
      return "threads";
    case SmLimit::kRegisters:
      return "registers";
    case SmLimit::kSharedMemory:
      return "shared memory";
    case SmLimit::kCtaSlots:
      return "CTA slots";
    case SmLimit::kLaunch:
      return "the launch";
  }
  return "";
}

Occupancy OccupancyOf(const DeviceSpec& device, const TuningConfig& config,
                      const KernelFootprint& footprint) {
  Occupancy o;
  const int64_t threads = config.threads();
  o.by_threads = device.max_threads_per_sm / threads;
  const int64_t registers =
      CeilDiv(std::max(footprint.registers, kLeastRegisters), kRegisterGrain) *
      kRegisterGrain * threads;
  o.by_registers = device.registers_per_sm / registers;
  const int64_t system = device.sm_arch >= 80 ? kSystemSmemPerCta : 0;
  // A device whose SM size is unknown holds what one block may opt in to.
  const int64_t per_sm = device.smem_per_sm_bytes > 0
                             ? device.smem_per_sm_bytes
                             : device.smem_optin_bytes + system;
  // Without any shared memory there is no such limit.
  const int64_t smem = footprint.smem_bytes + system;
  o.by_slots = CtaSlots(device);
  o.by_smem = smem > 0 ? per_sm / smem : o.by_slots;
  if (StreamsTiles(config) && config.splits() == 1) {
    o.by_launch = config.ctas_per_sm;
  }
  const struct {
    SmLimit limit;
    int64_t ctas;
  } limits[] = {
      {SmLimit::kThreads, o.by_threads},
      {SmLimit::kRegisters, o.by_registers},
      {SmLimit::kSharedMemory, o.by_smem},
      {SmLimit::kCtaSlots, o.by_slots},
      {SmLimit::kLaunch, o.by_launch > 0 ? o.by_launch : o.by_slots},
  };
  o.ctas = limits[0].ctas;
  for (const auto& [limit, ctas] : limits) {
    if (ctas >= o.ctas) continue;
    o.ctas = ctas;
    o.limit = limit;
  }
  return o;
}

Waves WavesOf(int64_t work, int64_t slots) {
  Waves waves;
  waves.full = work / slots;
  waves.rest = work % slots;
  waves.count = static_cast<double>(work) / static_cast<double>(slots);
  waves.last_fill = waves.rest == 0 ? 1
                                    : static_cast<double>(waves.rest) /
                                          static_cast<double>(slots);
  return waves;
}

}  // namespace hone
