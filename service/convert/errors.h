// Errors on their way between absl::Status and google.rpc: reasons, field
// violations and retry hints travel as payloads of an absl::Status, under the
// type URLs that they have in google.rpc.Status.
#ifndef HONE_SERVICE_CONVERT_ERRORS_H_
#define HONE_SERVICE_CONVERT_ERRORS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hone {

// What is wrong with one field of a request.
struct FieldViolation {
  // Path in the request message: "problem.layer.b_group".
  std::string field;
  // Names the legal values.
  std::string description;
  friend bool operator==(const FieldViolation&,
                         const FieldViolation&) = default;
};

// Collects what is wrong with a request.
class FieldErrors {
 public:
  void Add(absl::string_view field, absl::string_view description);
  bool ok() const { return violations_.empty(); }
  const std::vector<FieldViolation>& violations() const { return violations_; }
  // OK, or InvalidArgument with every violation and the reason
  // INVALID_FIELD.
  absl::Status ToStatus() const;

 private:
  std::vector<FieldViolation> violations_;
};

// An InvalidArgument of the configs' Validate() and its like, whose message
// starts with the field ("layer.n is 0; it must be ..."), as a violation of
// the field at `prefix` + that field. Other errors are returned as they are.
absl::Status AsFieldViolation(const absl::Status& status,
                              absl::string_view prefix);

// `status` with an UPPER_SNAKE reason for programs, in place of the one it has.
// OK stays OK.
absl::Status WithReason(
    absl::Status status, absl::string_view reason,
    const std::map<std::string, std::string>& metadata = {});
// Adds when to try again.
absl::Status WithRetry(absl::Status status, absl::Duration delay);

// The reason, or the code's name when none was given. Empty for OK.
std::string ReasonOf(const absl::Status& status);
// What goes with the reason; see the API for its keys.
std::map<std::string, std::string> MetadataOf(const absl::Status& status);
std::vector<FieldViolation> ViolationsOf(const absl::Status& status);
// Zero when there is none.
absl::Duration RetryDelayOf(const absl::Status& status);

// A serialized google.rpc.Status: gRPC's error details. Has exactly one
// ErrorInfo.
std::string SerializeErrorDetails(const absl::Status& status);
// The inverse. Details that cannot be read are dropped.
absl::Status StatusFromErrorDetails(absl::StatusCode code,
                                    absl::string_view message,
                                    absl::string_view details);

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_ERRORS_H_
