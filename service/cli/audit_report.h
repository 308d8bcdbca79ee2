// An audit's report for people. Pure functions.
#ifndef HONE_SERVICE_CLI_AUDIT_REPORT_H_
#define HONE_SERVICE_CLI_AUDIT_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "hone/v1/audit.pb.h"

namespace hone {

// What was audited and how, the findings, and a line per M. InvalidArgument
// when the report's problem or device cannot be read.
absl::StatusOr<std::string> RenderAudit(const v1::AuditReport& report);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_AUDIT_REPORT_H_
