// Requests of StudyService turned into values, and values into answers; errors
// are InvalidArgument with field violations.
#ifndef HONE_SERVICE_SERVER_STUDY_REQUESTS_H_
#define HONE_SERVICE_SERVER_STUDY_REQUESTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "hone/v1/study_service.pb.h"
#include "tuner/study.h"

namespace hone {

// A study of the spec, before any result.
absl::StatusOr<Study> StudyFromProto(const v1::StudySpec& spec);
v1::StudySpec ToProto(const StudySpec& spec);

// `field` names the result in errors: "results[3]".
absl::StatusOr<StudyResult> StudyResultFromProto(const v1::StudyResult& result,
                                                 const StudySpace& space,
                                                 absl::string_view field);

// An error of Study::Report() as a violation of the request's field.
absl::Status AsResultViolation(const absl::Status& status,
                               const v1::StudyResult& result,
                               absl::string_view field);

v1::ParameterValues ToProto(const StudySettings& settings);
v1::StudyPhase ToProto(StudyPhase phase);
v1::StudyAnswer ToProto(const StudyAnswer& answer, const StudySpace& space);
v1::SuggestResponse SuggestionOf(const Study& study);

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_STUDY_REQUESTS_H_
