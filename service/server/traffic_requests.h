// Reports of traffic checked and turned into values, and what is known of it as
// messages.
#ifndef HONE_SERVICE_SERVER_TRAFFIC_REQUESTS_H_
#define HONE_SERVICE_SERVER_TRAFFIC_REQUESTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "hone/v1/tuning_service.pb.h"
#include "kernels/config/device_spec.h"
#include "service/server/traffic_keeper.h"

namespace hone {

// The calls of a report, all on `device`. InvalidArgument with field
// violations; a problem that has no kernel on the device is one too.
absl::StatusOr<std::vector<TrafficCount>> TrafficFromProto(
    const v1::ReportTrafficRequest& request, const DeviceSpec& device);

v1::TrafficSummary ToProto(const TrafficView& view);

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_TRAFFIC_REQUESTS_H_
