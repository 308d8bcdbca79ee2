// Progress of one or more jobs on stderr.
#ifndef HONE_SERVICE_CLI_PROGRESS_H_
#define HONE_SERVICE_CLI_PROGRESS_H_

#include <functional>
#include <map>
#include <ostream>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace hone {

// On a terminal the newest update stands on one line that rewrites itself.
// Elsewhere a job's update is printed when its phase changes, and otherwise at
// most every ten seconds. Thread-safe.
class Progress {
 public:
  Progress(std::ostream& err, bool is_terminal,
           std::function<absl::Time()> now = absl::Now);
  // Ends the rewritten line.
  ~Progress();

  // `job` tells jobs apart and may be empty; `text` is one line.
  void Update(absl::string_view job, int phase, absl::string_view text);
  // A line that stays.
  void Say(absl::string_view line);

 private:
  struct Printed {
    int phase = -1;
    absl::Time at = absl::InfinitePast();
  };

  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool is_terminal_;
  const std::function<absl::Time()> now_;
  absl::Mutex mutex_;
  std::ostream& err_ ABSL_GUARDED_BY(mutex_);
  bool line_open_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, Printed> printed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone

#endif  // HONE_SERVICE_CLI_PROGRESS_H_
