// The JSON that bundles are made of: written in one canonical form, and read
// strictly. Objects, arrays, strings, integers, other numbers and booleans; no
// null, no spaces, keys rising and so never repeated.
#ifndef HONE_DB_JSON_H_
#define HONE_DB_JSON_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

struct Json;
using JsonArray = std::vector<Json>;
// By rising key.
using JsonObject = std::vector<std::pair<std::string, Json>>;

struct Json {
  Json();  // false
  explicit Json(bool value);
  explicit Json(int64_t value);
  explicit Json(double value);
  explicit Json(std::string value);
  explicit Json(JsonArray value);
  explicit Json(JsonObject value);
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  std::variant<bool, int64_t, double, std::string, JsonArray, JsonObject> value;
};

// Arrays and objects within each other, at most.
inline constexpr int kMaxJsonDepth = 8;

// One line, without its end. Sorts the keys. Strings must be UTF-8 and numbers
// finite.
std::string WriteJson(Json json);

// The opposite. InvalidArgument says what is wrong at which byte.
absl::StatusOr<Json> ReadJson(absl::string_view line);

// Appends the text as a JSON string; it must be UTF-8.
void AppendJsonString(absl::string_view text, std::string& out);

// Shortest decimal text that reads back as `value`, which must be finite.
std::string DoubleText(double value);

// Well-formed UTF-8: no overlong forms, no surrogates, at most U+10FFFF.
bool IsUtf8(absl::string_view text);

// Takes the fields out of an object one by one, naming the field that is
// missing or of another type: "entries[3].m_lo must be an integer".
class JsonFields {
 public:
  // `path` names the object in errors: "" or "entries[3].". Not owned; must
  // outlive this.
  static absl::StatusOr<JsonFields> Of(const Json& json, std::string path);

  absl::Status Get(absl::string_view key, bool& value);
  absl::Status Get(absl::string_view key, int64_t& value);
  absl::Status Get(absl::string_view key, double& value);
  absl::Status Get(absl::string_view key, std::string& value);
  // The array stays owned by the object.
  absl::StatusOr<const JsonArray*> Array(absl::string_view key);
  absl::StatusOr<const Json*> Any(absl::string_view key);
  // Whether there is such a field, for those that may be left out.
  bool Has(absl::string_view key) const;

  // The name of one of its fields in errors.
  std::string PathOf(absl::string_view key) const;
  // InvalidArgument names a field that nobody took.
  absl::Status Finish() const;

 private:
  JsonFields(const JsonObject* object, std::string path)
      : object_(object), path_(std::move(path)), taken_(object->size()) {}
  absl::Status Mistyped(absl::string_view key, absl::string_view type) const;

  const JsonObject* object_;
  std::string path_;
  std::vector<bool> taken_;
};

}  // namespace hone

#endif  // HONE_DB_JSON_H_
