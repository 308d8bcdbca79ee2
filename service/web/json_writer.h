// Writes JSON as it goes, in the order given. For answers with columns of
// 100,000 numbers, and with null, which the canonical JSON of db/json.h has
// not; strings and numbers are written as there.
#ifndef HONE_SERVICE_WEB_JSON_WRITER_H_
#define HONE_SERVICE_WEB_JSON_WRITER_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  // What follows is its value.
  JsonWriter& Key(absl::string_view key);

  // Bytes that are not UTF-8 are shown as '?'.
  JsonWriter& Value(absl::string_view value);
  // Not finite gives null.
  JsonWriter& Value(double value);
  // Only bool itself: a literal "" must not become true.
  template <std::same_as<bool> T>
  JsonWriter& Value(T value) {
    return Raw(value ? "true" : "false");
  }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& Value(T value) {
    return Integer(static_cast<int64_t>(value));
  }
  JsonWriter& Null() { return Raw("null"); }
  // 0 stands for a number that is missing.
  template <typename T>
  JsonWriter& ValueOrNull(T value) {
    return value == 0 ? Null() : Value(value);
  }

  template <typename T>
  JsonWriter& Field(absl::string_view key, const T& value) {
    return Key(key).Value(value);
  }
  template <typename T>
  JsonWriter& FieldOrNull(absl::string_view key, T value) {
    return Key(key).ValueOrNull(value);
  }
  JsonWriter& Column(absl::string_view key, const std::vector<int64_t>& values);
  JsonWriter& ColumnOrNull(absl::string_view key,
                           const std::vector<int64_t>& values);
  JsonWriter& Column(absl::string_view key,
                     const std::vector<std::string>& values);

  // All of it, once everything begun has ended.
  std::string Take() && { return std::move(out_); }

 private:
  JsonWriter& Raw(absl::string_view text);
  JsonWriter& Integer(int64_t value);
  // A comma where one is needed.
  void Separate();

  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace hone

#endif  // HONE_SERVICE_WEB_JSON_WRITER_H_
