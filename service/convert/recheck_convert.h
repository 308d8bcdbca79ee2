// A recheck's report as a message of hone.v1.
#ifndef HONE_SERVICE_CONVERT_RECHECK_CONVERT_H_
#define HONE_SERVICE_CONVERT_RECHECK_CONVERT_H_

#include "hone/v1/recheck.pb.h"
#include "tuner/recheck_report.h"

namespace hone {

v1::RecheckReport ToProto(const RecheckReport& report);

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_RECHECK_CONVERT_H_
