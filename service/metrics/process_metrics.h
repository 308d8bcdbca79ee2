// The standard process_* metrics, of this process.
#ifndef HONE_SERVICE_METRICS_PROCESS_METRICS_H_
#define HONE_SERVICE_METRICS_PROCESS_METRICS_H_

#include "service/metrics/families.h"

namespace hone {

// Reads /proc; what cannot be read is left out.
void CollectProcess(MetricFamilies& families);

}  // namespace hone

#endif  // HONE_SERVICE_METRICS_PROCESS_METRICS_H_
