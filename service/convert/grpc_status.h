// absl::Status with its reasons and violations as grpc::Status, and back.
#ifndef HONE_SERVICE_CONVERT_GRPC_STATUS_H_
#define HONE_SERVICE_CONVERT_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "service/convert/errors.h"

namespace hone {

inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message()),
                      SerializeErrorDetails(status));
}

inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  return StatusFromErrorDetails(
      static_cast<absl::StatusCode>(status.error_code()),
      status.error_message(), status.error_details());
}

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_GRPC_STATUS_H_
