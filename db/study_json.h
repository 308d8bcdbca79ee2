// Studies as JSON: the spec that is stored with one, and what is exported.
#ifndef HONE_DB_STUDY_JSON_H_
#define HONE_DB_STUDY_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/store.h"
#include "tuner/study.h"

namespace hone {

// Canonical: equal specs have equal texts.
std::string WriteStudySpec(const StudySpec& spec);
// InvalidArgument says what is wrong.
absl::StatusOr<StudySpec> ReadStudySpec(absl::string_view text);

// Canonical JSON Lines, by which the study can be repeated:
//
//   {"format":"hone-study","results":2,"sha256":"…","version":1}
//   {"answer":{…},"id":"…","spec":{…}}
//   {"config":"…","detail":"…","outcome":"…","samples":[[round,ns,kHz],…]}
//
// The SHA-256 is of the lines after the first. `study` is `stored` with every
// result reported.
std::string RenderStudy(const StoredStudy& stored, const Study& study);

absl::string_view ToString(StudyDecision decision);

}  // namespace hone

#endif  // HONE_DB_STUDY_JSON_H_
