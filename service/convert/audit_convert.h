// An audit's report as a message of hone.v1.
#ifndef HONE_SERVICE_CONVERT_AUDIT_CONVERT_H_
#define HONE_SERVICE_CONVERT_AUDIT_CONVERT_H_

#include "hone/v1/audit.pb.h"
#include "tuner/audit_report.h"

namespace hone {

v1::AuditRatio ToProto(const AuditRatio& ratio);
v1::AuditReport ToProto(const AuditReport& report);

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_AUDIT_CONVERT_H_
