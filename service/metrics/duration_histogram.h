// How often something took how long.
#ifndef HONE_SERVICE_METRICS_DURATION_HISTOGRAM_H_
#define HONE_SERVICE_METRICS_DURATION_HISTOGRAM_H_

#include <prometheus/client_metric.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <initializer_list>

#include "absl/time/time.h"

namespace hone {

// Thread-safe. Observing takes two relaxed atomic additions and no lock, so
// that it can stand in the path of a lookup; a reader may see an observation
// counted whose time is not in the sum yet.
class DurationHistogram {
 public:
  // Upper bounds of the buckets, rising, at most kMostBounds. What is longer
  // than all of them has a bucket too.
  static constexpr size_t kMostBounds = 16;
  explicit DurationHistogram(std::initializer_list<absl::Duration> bounds);

  // Negative durations, which a clock that is set back gives, count as 0.
  void Observe(absl::Duration duration);

  // Bounds and sum in seconds; without labels.
  prometheus::ClientMetric Collect() const;

 private:
  size_t bounds_ = 0;
  std::array<int64_t, kMostBounds> bounds_ns_{};
  std::array<std::atomic<uint64_t>, kMostBounds + 1> counts_{};
  std::atomic<int64_t> sum_ns_ = 0;
};

}  // namespace hone

#endif  // HONE_SERVICE_METRICS_DURATION_HISTOGRAM_H_
