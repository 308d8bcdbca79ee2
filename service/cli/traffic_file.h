// Files of call counts, for `hone traffic --report`:
//
//   {"report_id": "...",            a UUID; one is made up unless given
//    "problems": [
//      {"problem": "n=8192,k=8192,b=int4,b_scale=group,b_group=128",
//       "calls": {"1": 120000, "16": 300, "2048": 12}}]}
//
// A problem is canonical text as `hone sweep -o json` prints it, in which keys
// left out have their defaults, and so has the compute config if there is none.
#ifndef HONE_SERVICE_CLI_TRAFFIC_FILE_H_
#define HONE_SERVICE_CLI_TRAFFIC_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hone/v1/tuning_service.pb.h"

namespace hone {

// Usage errors name `path`, the problem and the field. `path` is only named,
// `text` is the file.
absl::StatusOr<v1::ReportTrafficRequest> ParseTrafficFile(
    absl::string_view path, absl::string_view text);

// Reads and parses the file.
absl::StatusOr<v1::ReportTrafficRequest> ReadTrafficFile(
    const std::string& path);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_TRAFFIC_FILE_H_
