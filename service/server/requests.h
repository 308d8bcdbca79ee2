// Requests checked and turned into values; errors are InvalidArgument with
// field violations.
#ifndef HONE_SERVICE_SERVER_REQUESTS_H_
#define HONE_SERVICE_SERVER_REQUESTS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/browse.h"
#include "hone/v1/tuning_service.pb.h"
#include "service/server/tune_jobs.h"

namespace hone {

// Whether `text` is a UUID: 8-4-4-4-12 hex digits.
bool IsUuid(absl::string_view text);

absl::StatusOr<TuneRequest> TuneRequestFromProto(
    const v1::TuneLayerRequest& request);

absl::StatusOr<TuneRequest> AuditRequestFromProto(
    const v1::AuditLayerRequest& request);

absl::StatusOr<TuneRequest> RecheckRequestFromProto(
    const v1::RecheckTablesRequest& request);

// M of a lookup, 1 to 2^30.
absl::Status CheckM(int64_t m);

// A device given in a request: its numbers must be possible ones.
absl::StatusOr<DeviceSpec> DeviceFromProto(const v1::DeviceSpec& device);

// Where a walk over a list goes on: a position in the list of one revision.
struct PagePosition {
  int64_t revision = 0;
  int64_t offset = 0;
};
// 50 unless given, at most 1000.
absl::StatusOr<int64_t> PageSize(int32_t requested);
std::string MakePageToken(absl::string_view list, const PagePosition& position);
// The beginning for an empty token. `list` keeps tokens of different lists
// apart.
absl::StatusOr<PagePosition> ParsePageToken(absl::string_view list,
                                            absl::string_view token);

// Adds `size` trials from position `offset` on, in the order recorded, and the
// token of the next page. Trials are only ever added, so that a walk sees each
// once.
void AddTrialsPage(const TrialColumns& trials, int64_t offset, int64_t size,
                   v1::ListTrialsResponse* response);

v1::TuneProgress ToProto(const SessionProgress& progress, TuneState state);
v1::Tune ToProto(const TuneSnapshot& snapshot);
v1::TuneResult ToProto(const TuneOutcome& outcome);

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_REQUESTS_H_
