// JSON log lines, one event each, for machines that collect stderr.
#ifndef HONE_SERVICE_SERVER_LOG_H_
#define HONE_SERVICE_SERVER_LOG_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "db/json.h"

namespace hone {

// Thread-safe.
class Logger {
 public:
  // `sink` gets whole lines, without their end, one at a time.
  explicit Logger(std::function<void(absl::string_view line)> sink,
                  std::function<absl::Time()> now = absl::Now)
      : sink_(std::move(sink)), now_(std::move(now)) {}

  using Fields = std::vector<std::pair<std::string, Json>>;
  // {"event":"...","severity":"INFO","time":"...", fields}
  void Info(absl::string_view event, Fields fields = {});
  void Warn(absl::string_view event, Fields fields = {});
  void Error(absl::string_view event, Fields fields = {});

 private:
  void Write(absl::string_view severity, absl::string_view event,
             Fields fields);

  absl::Mutex mutex_;
  const std::function<void(absl::string_view)> sink_ ABSL_GUARDED_BY(mutex_);
  const std::function<absl::Time()> now_;
};

// A log value. Bytes that are not UTF-8 are shown as '?'.
Json LogText(absl::string_view text);

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_LOG_H_
