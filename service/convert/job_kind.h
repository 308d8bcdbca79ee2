// What a job of the device's queue does.
#ifndef HONE_SERVICE_CONVERT_JOB_KIND_H_
#define HONE_SERVICE_CONVERT_JOB_KIND_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace hone {

enum class JobKind : uint8_t { kTune, kAudit, kRecheck };

inline constexpr std::array kJobKinds = {JobKind::kTune, JobKind::kAudit,
                                         JobKind::kRecheck};

inline absl::string_view ToString(JobKind kind) {
  switch (kind) {
    case JobKind::kTune:
      return "tune";
    case JobKind::kAudit:
      return "audit";
    case JobKind::kRecheck:
      return "recheck";
  }
  return "";
}

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_JOB_KIND_H_
