#include "service/metrics/gpu_monitor.h"

#include <utility>

namespace hone {
namespace {

constexpr absl::Duration kFresh = absl::Seconds(1);
constexpr absl::Duration kHangs = absl::Seconds(10);

// A GPU that fell off the bus.
bool SaysNothing(const GpuReading& reading) {
  return !reading.sm_clock_mhz && !reading.power_mw &&
         !reading.power_limit_mw && !reading.temperature_celsius &&
         !reading.memory_used_bytes && !reading.clocks;
}

}  // namespace

std::optional<GpuReading> GpuMonitor::Read() {
  const absl::Time now = now_();
  {
    absl::MutexLock lock(&mutex_);
    if (began_.has_value())
      return now - *began_ < kHangs ? reading_ : std::nullopt;
    // A clock that is set back must not keep a reading for long.
    if (now - read_at_ < kFresh && now >= read_at_) return reading_;
    began_ = now;
  }
  // NVML may hang, and must not hold up whoever asks next.
  std::optional<GpuReading> reading = reader_();
  if (reading && SaysNothing(*reading)) reading = std::nullopt;
  absl::MutexLock lock(&mutex_);
  began_ = std::nullopt;
  reading_ = std::move(reading);
  read_at_ = now;
  return reading_;
}

GpuMonitor::Reader NvmlReader(const std::string& uuid) {
  return [uuid, device = std::shared_ptr<NvmlDevice>()]() mutable
         -> std::optional<GpuReading> {
    if (device == nullptr) device = NvmlDevice::OpenByUuid(uuid);
    if (device == nullptr) return std::nullopt;
    GpuReading reading{.sm_clock_mhz = device->SmClock(),
                       .power_mw = device->PowerDraw(),
                       .power_limit_mw = device->PowerLimit(),
                       .temperature_celsius = device->Temperature(),
                       .memory_used_bytes = device->UsedMemory(),
                       .clocks = device->CurrentClockEvents()};
    // Its handle may never work again.
    if (SaysNothing(reading)) device = nullptr;
    return reading;
  };
}

}  // namespace hone
