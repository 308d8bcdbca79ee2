// The fields of a config as data: one table per config drives its parsing,
// printing and the naming of fields in errors.
#ifndef HONE_KERNELS_CONFIG_FIELDS_H_
#define HONE_KERNELS_CONFIG_FIELDS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "kernels/config/data_type.h"
#include "kernels/config/status_macros.h"

namespace hone {

template <typename Config>
struct Field {
  absl::string_view key;
  std::function<std::string(const Config&)> print;
  // The error, if any, says only what is legal; the caller names the field.
  std::function<absl::Status(absl::string_view, Config&)> parse;
  // Not printed where it has its default: a field that came later, so that
  // older texts stay canonical.
  bool optional = false;
};

template <typename Config>
Field<Config> Optional(Field<Config> field) {
  field.optional = true;
  return field;
}

template <typename Config>
Field<Config> IntField(absl::string_view key, int64_t Config::*member) {
  return {key, [member](const Config& c) { return absl::StrCat(c.*member); },
          [member](absl::string_view text, Config& c) -> absl::Status {
            int64_t value = 0;
            if (!absl::SimpleAtoi(text, &value) || absl::StrCat(value) != text)
              return absl::InvalidArgumentError("must be a decimal integer");
            c.*member = value;
            return absl::OkStatus();
          }};
}

template <typename Config>
Field<Config> BoolField(absl::string_view key, bool Config::*member) {
  return {key, [member](const Config& c) { return c.*member ? "1" : "0"; },
          [member](absl::string_view text, Config& c) -> absl::Status {
            if (text != "0" && text != "1")
              return absl::InvalidArgumentError("must be 0 or 1");
            c.*member = text == "1";
            return absl::OkStatus();
          }};
}

template <typename Config>
Field<Config> TypeField(absl::string_view key, DataType Config::*member) {
  return {key, [member](const Config& c) { return (c.*member).ToString(); },
          [member](absl::string_view text, Config& c) -> absl::Status {
            HONE_ASSIGN_OR_RETURN(c.*member, DataType::Parse(text));
            return absl::OkStatus();
          }};
}

template <typename Config, typename Enum>
Field<Config> EnumField(absl::string_view key, Enum Config::*member,
                        std::vector<absl::string_view> names) {
  return {key,
          [member, names](const Config& c) {
            return std::string(names[static_cast<size_t>(c.*member)]);
          },
          [member, names](absl::string_view text, Config& c) -> absl::Status {
            const auto it = std::find(names.begin(), names.end(), text);
            if (it == names.end()) {
              return absl::InvalidArgumentError(
                  absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
            }
            c.*member = static_cast<Enum>(it - names.begin());
            return absl::OkStatus();
          }};
}

// "key=value,key=value", sorted by key.
template <typename Config>
std::string PrintFields(const std::vector<Field<Config>>& fields,
                        const Config& config) {
  std::vector<std::string> parts;
  parts.reserve(fields.size());
  for (const Field<Config>& field : fields) {
    std::string value = field.print(config);
    if (field.optional && value == field.print(Config())) continue;
    parts.push_back(absl::StrCat(field.key, "=", value));
  }
  std::sort(parts.begin(), parts.end());
  return absl::StrJoin(parts, ",");
}

// `what` names the config in errors. Keys left out keep the default.
template <typename Config>
absl::StatusOr<Config> ParseFields(const std::vector<Field<Config>>& fields,
                                   absl::string_view what,
                                   absl::string_view text) {
  Config config;
  std::vector<absl::string_view> seen;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (part.empty() && text.empty()) break;
    const size_t equals = part.find('=');
    const absl::string_view key = part.substr(0, equals);
    const auto field =
        std::find_if(fields.begin(), fields.end(),
                     [&](const Field<Config>& f) { return f.key == key; });
    if (equals == part.npos || field == fields.end()) {
      std::vector<absl::string_view> keys;
      for (const Field<Config>& f : fields) keys.push_back(f.key);
      std::sort(keys.begin(), keys.end());
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": \"", part, "\" is not key=value with a key of ",
                       absl::StrJoin(keys, ", ")));
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ".", key, " is given twice"));
    }
    seen.push_back(key);
    const absl::string_view value = part.substr(equals + 1);
    if (absl::Status status = field->parse(value, config); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ".", key, ": \"", value, "\" ", status.message()));
    }
  }
  return config;
}

}  // namespace hone

#endif  // HONE_KERNELS_CONFIG_FIELDS_H_
