// Counts a gRPC server's calls.
#ifndef HONE_SERVICE_METRICS_RPC_METER_H_
#define HONE_SERVICE_METRICS_RPC_METER_H_

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/metrics/event_metrics.h"

namespace hone {

// For ServerBuilder::experimental().SetInterceptorCreators(). `metrics` must
// outlive the server.
std::vector<
    std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
RpcMeters(EventMetrics* metrics);

// The methods of a service linked into this program, as EventMetrics names
// them; `service` is its full name.
std::vector<std::string> MethodsOf(absl::string_view service);

}  // namespace hone

#endif  // HONE_SERVICE_METRICS_RPC_METER_H_
