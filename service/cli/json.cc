#include "service/cli/json.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/json_util.h"

namespace hone {
namespace {

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

JsonObject& JsonObject::Add(absl::string_view name, const Json& value) {
  absl::StrAppend(&fields_, fields_.empty() ? "" : ", ", Quoted(name), ": ",
                  value.text);
  return *this;
}

JsonObject& JsonObject::Add(absl::string_view name, absl::string_view value) {
  return Add(name, Json{Quoted(value)});
}

JsonObject& JsonObject::Add(absl::string_view name, const char* value) {
  return Add(name, absl::string_view(value));
}

JsonObject& JsonObject::Add(absl::string_view name, int64_t value) {
  return Add(name, Json{absl::StrCat(value)});
}

JsonObject& JsonObject::Add(absl::string_view name, double value) {
  return Add(name, Json{std::isfinite(value) ? absl::StrFormat("%.6g", value)
                                             : "null"});
}

JsonObject& JsonObject::Add(absl::string_view name, bool value) {
  return Add(name, Json{value ? "true" : "false"});
}

Json JsonString(absl::string_view text) { return {Quoted(text)}; }

Json JsonObject::Build() const { return {absl::StrCat("{", fields_, "}")}; }

Json JsonArray(const std::vector<Json>& values) {
  return {absl::StrCat("[",
                       absl::StrJoin(values, ", ",
                                     [](std::string* out, const Json& value) {
                                       out->append(value.text);
                                     }),
                       "]")};
}

Json ToJson(const google::protobuf::Message& message, bool indented) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  options.add_whitespace = indented;
  Json json;
  // Fails only for Any of unknown types, which hone.v1 has none of.
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json.text, options);
  if (!status.ok()) json.text = "null";
  while (!json.text.empty() && json.text.back() == '\n') json.text.pop_back();
  return json;
}

}  // namespace hone
