#include "service/web/json_writer.h"

#include <charconv>
#include <cmath>

#include "db/json.h"

namespace hone {

void JsonWriter::Separate() {
  if (needs_comma_) out_.push_back(',');
  needs_comma_ = true;
}

JsonWriter& JsonWriter::Raw(absl::string_view text) {
  Separate();
  out_.append(text.data(), text.size());
  return *this;
}

JsonWriter& JsonWriter::BeginObject() {
  Raw("{");
  needs_comma_ = false;
  return *this;
}
JsonWriter& JsonWriter::EndObject() {
  out_.push_back('}');
  needs_comma_ = true;
  return *this;
}
JsonWriter& JsonWriter::BeginArray() {
  Raw("[");
  needs_comma_ = false;
  return *this;
}
JsonWriter& JsonWriter::EndArray() {
  out_.push_back(']');
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(absl::string_view key) {
  Value(key);
  out_.push_back(':');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Value(absl::string_view value) {
  Separate();
  if (IsUtf8(value)) {
    AppendJsonString(value, out_);
    return *this;
  }
  std::string ascii(value);
  for (char& c : ascii) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  AppendJsonString(ascii, out_);
  return *this;
}

JsonWriter& JsonWriter::Value(double value) {
  return std::isfinite(value) ? Raw(DoubleText(value)) : Null();
}

JsonWriter& JsonWriter::Integer(int64_t value) {
  Separate();
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value);
  out_.append(digits, static_cast<size_t>(end.ptr - digits));
  return *this;
}

JsonWriter& JsonWriter::Column(absl::string_view key,
                               const std::vector<int64_t>& values) {
  Key(key).BeginArray();
  for (const int64_t value : values) Integer(value);
  return EndArray();
}

JsonWriter& JsonWriter::ColumnOrNull(absl::string_view key,
                                     const std::vector<int64_t>& values) {
  Key(key).BeginArray();
  for (const int64_t value : values) ValueOrNull(value);
  return EndArray();
}

JsonWriter& JsonWriter::Column(absl::string_view key,
                               const std::vector<std::string>& values) {
  Key(key).BeginArray();
  for (const std::string& value : values) Value(value);
  return EndArray();
}

}  // namespace hone
