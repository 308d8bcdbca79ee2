// Shorthands that fill prometheus-cpp's metric families.
#ifndef HONE_SERVICE_METRICS_FAMILIES_H_
#define HONE_SERVICE_METRICS_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

using MetricFamilies = std::vector<prometheus::MetricFamily>;
using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// A family without values, at the end of `families`.
inline prometheus::MetricFamily& AddFamily(MetricFamilies& families,
                                           absl::string_view name,
                                           absl::string_view help,
                                           prometheus::MetricType type) {
  families.push_back({std::string(name), std::string(help), type, {}});
  return families.back();
}

// A value of a family of counters or gauges.
inline void AddValue(prometheus::MetricFamily& family, MetricLabels labels,
                     double value) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  metric.counter.value = value;
  metric.gauge.value = value;
  family.metric.push_back(std::move(metric));
}

inline void AddCounter(MetricFamilies& families, absl::string_view name,
                       absl::string_view help, double value) {
  AddValue(AddFamily(families, name, help, prometheus::MetricType::Counter), {},
           value);
}

inline void AddGauge(MetricFamilies& families, absl::string_view name,
                     absl::string_view help, double value) {
  AddValue(AddFamily(families, name, help, prometheus::MetricType::Gauge), {},
           value);
}

}  // namespace hone

#endif  // HONE_SERVICE_METRICS_FAMILIES_H_
