// What the answers of the pages are made from and have in common.
#ifndef HONE_SERVICE_WEB_ANSWER_H_
#define HONE_SERVICE_WEB_ANSWER_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/browse.h"
#include "db/store.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "service/http/http_message.h"
#include "service/server/tune_jobs.h"
#include "service/web/json_writer.h"
#include "tuner/executor.h"

namespace hone {

// What honed lends its pages. Everything that is called is thread-safe and
// outlives them.
struct WebParts {
  const Store* store = nullptr;
  std::optional<DeviceSpec> device;
  // Whether tunes can run now; Unavailable when the device is in quarantine.
  std::function<absl::Status()> can_tune;
  std::function<ExecutorHealth()> health = [] { return ExecutorHealth(); };
  // Newest first.
  std::function<std::vector<TuneSnapshot>()> jobs;
  std::string source_closure;
  std::string version;
  std::function<absl::Time()> now = absl::Now;
  // Differs between processes, whose answers to one question may differ.
  std::string process;
};

// ---- errors ----

// InvalidArgument and NotFound of one field of the request.
absl::Status FieldError(absl::string_view field, absl::string_view message);
absl::Status FieldNotFound(absl::string_view field, absl::string_view message);
// 400, 404, 503 or 500, with the field if there is one.
HttpResponse ErrorAnswer(const absl::Status& status);

// ---- the request ----

// The parameters of a query. Errors name the parameter and what is legal.
class QueryFields {
 public:
  // Refuses fields that are not among those known, and repeated ones.
  static absl::StatusOr<QueryFields> Of(
      const HttpRequest& request, std::initializer_list<const char*> known);

  // The field's text; an error when it is missing or empty.
  absl::StatusOr<std::string> Text(absl::string_view name) const;
  // 64 hex digits in lower case.
  absl::StatusOr<std::string> Hash(absl::string_view name) const;
  // Nullopt when it is missing.
  absl::StatusOr<std::optional<int64_t>> Int(absl::string_view name,
                                             int64_t low, int64_t high) const;

 private:
  // Null when it is missing.
  const std::string* Find(absl::string_view name) const;
  std::vector<std::pair<std::string, std::string>> fields_;
};

// The device that a class's hash names: the store's, or honed's own before
// anything was recorded on it. NotFound lists the classes there are.
absl::StatusOr<DeviceSpec> DeviceOfClass(const WebParts& parts,
                                         const StoreSnapshot& store,
                                         absl::string_view class_hash);
absl::StatusOr<Problem> ProblemOf(const StoreSnapshot& store,
                                  absl::string_view problem_hash);

// ---- the answer ----

HttpResponse JsonAnswer(JsonWriter json);

// The tag of an answer that follows from the trials and tables of a snapshot
// and from this process alone; it can be compared before the answer is made.
absl::StatusOr<std::string> EtagOf(const WebParts& parts,
                                   const StoreSnapshot& store);

// One line for people, "8192×8192 float16 × int4 group 128": N and K, the types
// and what else tells this problem from others of its kind.
std::string ProblemLabel(const Problem& problem);

// "key": {what pages show of a device}.
void WriteDevice(JsonWriter& json, absl::string_view key,
                 const DeviceSpec& device);
// "problem", "text" and "label".
void WriteProblem(JsonWriter& json, const Problem& problem);

}  // namespace hone

#endif  // HONE_SERVICE_WEB_ANSWER_H_
