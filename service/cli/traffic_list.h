// What a daemon knows of traffic, and tuning by it.
#ifndef HONE_SERVICE_CLI_TRAFFIC_LIST_H_
#define HONE_SERVICE_CLI_TRAFFIC_LIST_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hone/v1/tuning_service.pb.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "tuner/traffic.h"

namespace hone {

// All pages of ListTraffic.
absl::StatusOr<std::vector<v1::TrafficSummary>> FetchTraffic(
    Connection& connection);

// For PlanTunes().
ProblemTraffic TrafficOf(const v1::TrafficSummary& summary);

// hone tune --from-traffic: tunes what is expected to save most time, until the
// budget ends. The plan is made anew before each tune, so that time which one
// did not need is the others'.
absl::Status TuneFromTraffic(const Invocation& invocation,
                             Connection& connection);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_TRAFFIC_LIST_H_
