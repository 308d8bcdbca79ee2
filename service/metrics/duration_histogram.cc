#include "service/metrics/duration_histogram.h"

#include <algorithm>
#include <limits>

namespace hone {

DurationHistogram::DurationHistogram(
    std::initializer_list<absl::Duration> bounds) {
  for (const absl::Duration bound : bounds)
    bounds_ns_.at(bounds_++) = absl::ToInt64Nanoseconds(bound);
}

void DurationHistogram::Observe(absl::Duration duration) {
  const int64_t ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration));
  size_t bucket = 0;
  while (bucket < bounds_ && ns > bounds_ns_[bucket]) ++bucket;
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(ns, std::memory_order_relaxed);
}

prometheus::ClientMetric DurationHistogram::Collect() const {
  prometheus::ClientMetric out;
  prometheus::ClientMetric::Histogram& histogram = out.histogram;
  for (size_t i = 0; i <= bounds_; ++i) {
    histogram.sample_count += counts_[i].load(std::memory_order_relaxed);
    histogram.bucket.push_back({histogram.sample_count,
                                i < bounds_
                                    ? static_cast<double>(bounds_ns_[i]) / 1e9
                                    : std::numeric_limits<double>::infinity()});
  }
  histogram.sample_sum =
      static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) / 1e9;
  return out;
}

}  // namespace hone
