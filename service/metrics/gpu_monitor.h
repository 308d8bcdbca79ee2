// The state of honed's GPU as NVML tells it, for the metrics page.
#ifndef HONE_SERVICE_METRICS_GPU_MONITOR_H_
#define HONE_SERVICE_METRICS_GPU_MONITOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/launch/nvml_library.h"

namespace hone {

// What NVML does not tell is nullopt.
struct GpuReading {
  std::optional<int64_t> sm_clock_mhz;
  std::optional<int64_t> power_mw;
  std::optional<int64_t> power_limit_mw;
  std::optional<int64_t> temperature_celsius;
  std::optional<int64_t> memory_used_bytes;
  std::optional<ClockEvents> clocks;
};

// Thread-safe.
class GpuMonitor {
 public:
  // One reading; nullopt when NVML or the device is not there.
  using Reader = std::function<std::optional<GpuReading>()>;

  explicit GpuMonitor(Reader reader,
                      std::function<absl::Time()> now = absl::Now)
      : reader_(std::move(reader)), now_(std::move(now)) {}

  // The last reading when it is less than a second old, else a new one.
  // Nothing is read while nobody asks. While another thread reads, the last
  // reading; nullopt once that has taken 10 s, for then NVML hangs.
  std::optional<GpuReading> Read();

 private:
  const Reader reader_;
  const std::function<absl::Time()> now_;
  absl::Mutex mutex_;
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::optional<GpuReading> reading_ ABSL_GUARDED_BY(mutex_);
  // When the reading began that goes on.
  std::optional<absl::Time> began_ ABSL_GUARDED_BY(mutex_);
};

// Reads the device DeviceSpec::uuid through NVML, which is opened at the first
// call, and again at later ones while it is not there or says nothing.
GpuMonitor::Reader NvmlReader(const std::string& uuid);

}  // namespace hone

#endif  // HONE_SERVICE_METRICS_GPU_MONITOR_H_
