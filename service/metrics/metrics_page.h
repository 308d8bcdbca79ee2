// The metrics page: what honed counted, and its state at the moment when it is
// asked, as Prometheus reads it.
//
// Labels hold words of this program alone (and the device's name and UUID):
// never a layer, a hash or a message.
#ifndef HONE_SERVICE_METRICS_METRICS_PAGE_H_
#define HONE_SERVICE_METRICS_METRICS_PAGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/config/device_spec.h"
#include "service/convert/job_kind.h"
#include "service/metrics/event_metrics.h"
#include "service/metrics/gpu_monitor.h"
#include "tuner/executor.h"
#include "tuner/session.h"

namespace hone {

// The tuning queue as it is now.
struct QueueReading {
  struct Running {
    JobKind kind = JobKind::kTune;
    SessionProgress progress;
  };
  int64_t queued = 0;
  int64_t limit = 0;
  std::optional<Running> running;
};

// The tables that answer lookups now.
struct TablesReading {
  int64_t revision = 0;
  // By whether their kernels' sources are this binary's, and whether they were
  // tuned or checked here.
  int64_t fresh_verified = 0;
  int64_t fresh_unverified = 0;
  int64_t stale_verified = 0;
  int64_t stale_unverified = 0;
};

class MetricsPage {
 public:
  // What the page asks of honed. All functions are thread-safe.
  struct Sources {
    const EventMetrics* events = nullptr;
    std::function<QueueReading()> queue;
    std::function<TablesReading()> tables;
    // Of the device; without an executor, empty.
    std::function<ExecutorHealth()> health;
    std::function<absl::Status()> can_tune;
    std::optional<DeviceSpec> device;
    // Null for a modelled device and without one.
    GpuMonitor* gpu = nullptr;
    std::string database;
    std::string version;
  };

  static constexpr char kContentType[] = "text/plain; version=0.0.4";

  // What `sources` points to must outlive the page.
  explicit MetricsPage(Sources sources) : sources_(std::move(sources)) {}

  // Prometheus' text format. Thread-safe; takes no lock of a lookup for longer
  // than one of those does.
  std::string Render() const;

 private:
  void CollectQueue(MetricFamilies& families) const;
  void CollectDevice(MetricFamilies& families) const;
  void CollectGpu(MetricFamilies& families) const;
  void CollectDatabase(MetricFamilies& families) const;

  const Sources sources_;
};

}  // namespace hone

#endif  // HONE_SERVICE_METRICS_METRICS_PAGE_H_
