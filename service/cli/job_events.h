// How a command shows the events of the job that it follows.
#ifndef HONE_SERVICE_CLI_JOB_EVENTS_H_
#define HONE_SERVICE_CLI_JOB_EVENTS_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/cli/command.h"
#include "service/cli/format.h"
#include "service/cli/json.h"
#include "service/cli/progress.h"

namespace hone {

// Each event as a line of JSON where that is the format, and progress for who
// watches. `what` names the job: "audit". Both arguments must outlive the
// result.
template <typename Event>
std::function<void(const Event&)> ShowEvents(const Invocation& invocation,
                                             Progress& progress,
                                             absl::string_view what) {
  return [&invocation, &progress,
          what = std::string(what)](const Event& event) {
    if (invocation.format == Format::kJsonLines) {
      invocation.env.out << ToJson(event, /*indented=*/false).text << "\n";
      invocation.env.out.flush();
    }
    if (event.has_accepted() && event.accepted().joined()) {
      progress.Say(absl::StrCat("An equal ", what, " is running; joined it."));
    } else if (event.has_progress()) {
      progress.Update("", event.progress().phase(),
                      RenderProgress(event.progress()));
    }
  };
}

}  // namespace hone

#endif  // HONE_SERVICE_CLI_JOB_EVENTS_H_
