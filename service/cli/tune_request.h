// TuneFlags() as a request, for tune and sweep.
#ifndef HONE_SERVICE_CLI_TUNE_REQUEST_H_
#define HONE_SERVICE_CLI_TUNE_REQUEST_H_

#include "absl/status/statusor.h"
#include "hone/v1/tuning_service.pb.h"
#include "service/cli/args.h"

namespace hone {

// Without its id and problem. Usage errors name the flag.
absl::StatusOr<v1::TuneLayerRequest> TuneRequestFromFlags(
    const ParsedArgs& args);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_TUNE_REQUEST_H_
