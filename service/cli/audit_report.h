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

// How far a ratio is from 1, with its interval: "+1.3 (+0.4 to +2.1) %"; "-"
// without rounds.
std::string WithInterval(const v1::AuditRatio& ratio);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_AUDIT_REPORT_H_
