// JSON output: messages as protobuf JSON, and small objects with their fields
// in the order they were added.
#ifndef HONE_SERVICE_CLI_JSON_H_
#define HONE_SERVICE_CLI_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace hone {

// A value already written as JSON.
struct Json {
  std::string text;
};

Json JsonString(absl::string_view text);

class JsonObject {
 public:
  JsonObject& Add(absl::string_view name, absl::string_view value);
  JsonObject& Add(absl::string_view name, const char* value);
  JsonObject& Add(absl::string_view name, int64_t value);
  // At most six significant digits after rounding; not finite gives null.
  JsonObject& Add(absl::string_view name, double value);
  JsonObject& Add(absl::string_view name, bool value);
  JsonObject& Add(absl::string_view name, const Json& value);
  Json Build() const;

 private:
  std::string fields_;
};

Json JsonArray(const std::vector<Json>& values);

// Field names as in the .proto file; with every field, set or not. `indented`
// spreads it over lines.
Json ToJson(const google::protobuf::Message& message, bool indented);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_JSON_H_
