#include "service/server/log.h"

#include <algorithm>

namespace hone {

Json LogText(absl::string_view text) {
  std::string out(text);
  if (!IsUtf8(out)) {
    std::replace_if(
        out.begin(), out.end(), [](unsigned char c) { return c >= 0x80; }, '?');
  }
  return Json{std::move(out)};
}

void Logger::Info(absl::string_view event, Fields fields) {
  Write("INFO", event, std::move(fields));
}
void Logger::Warn(absl::string_view event, Fields fields) {
  Write("WARNING", event, std::move(fields));
}
void Logger::Error(absl::string_view event, Fields fields) {
  Write("ERROR", event, std::move(fields));
}

void Logger::Write(absl::string_view severity, absl::string_view event,
                   Fields fields) {
  fields.push_back({"event", LogText(event)});
  fields.push_back({"severity", LogText(severity)});
  fields.push_back({"time", LogText(absl::FormatTime(absl::RFC3339_full, now_(),
                                                     absl::UTCTimeZone()))});
  const std::string line = WriteJson(Json{JsonObject(std::move(fields))});
  absl::MutexLock lock(&mutex_);
  sink_(line);
}

}  // namespace hone
