#include "service/metrics/gpu_monitor.h"

#include <utility>

namespace hone {
namespace {

constexpr absl::Duration kFresh = absl::Seconds(1);

}  // namespace

std::optional<GpuReading> GpuMonitor::Read() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = now_();
  // A clock that is set back must not keep a reading for long.
  if (now - read_at_ < kFresh && now >= read_at_) return reading_;
  reading_ = reader_();
  read_at_ = now;
  return reading_;
}

GpuMonitor::Reader NvmlReader(const std::string& uuid) {
  return [uuid, device = std::shared_ptr<NvmlDevice>()]() mutable
         -> std::optional<GpuReading> {
    if (device == nullptr) device = NvmlDevice::OpenByUuid(uuid);
    if (device == nullptr) return std::nullopt;
    return GpuReading{.sm_clock_mhz = device->SmClock(),
                      .power_mw = device->PowerDraw(),
                      .power_limit_mw = device->PowerLimit(),
                      .temperature_celsius = device->Temperature(),
                      .memory_used_bytes = device->UsedMemory(),
                      .clocks = device->CurrentClockEvents()};
  };
}

}  // namespace hone
