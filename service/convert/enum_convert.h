// Enums of the values as enums of the messages: the message's number is the
// value's plus one, since 0 is UNSPECIFIED there.
#ifndef HONE_SERVICE_CONVERT_ENUM_CONVERT_H_
#define HONE_SERVICE_CONVERT_ENUM_CONVERT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/generated_enum_reflection.h"
#include "service/convert/errors.h"

namespace hone {

template <typename ProtoEnum, typename Enum>
ProtoEnum EnumToProto(Enum value) {
  return static_cast<ProtoEnum>(static_cast<int>(value) + 1);
}

// UNSPECIFIED gives `when_unset`, or is an error without one.
template <typename Enum, typename ProtoEnum>
Enum EnumFromProto(ProtoEnum value, std::optional<Enum> when_unset,
                   absl::string_view field, FieldErrors& errors) {
  const int number = static_cast<int>(value);
  if (number == 0 && when_unset.has_value()) return *when_unset;
  const auto* type = google::protobuf::GetEnumDescriptor<ProtoEnum>();
  if (number != 0 && type->FindValueByNumber(number) != nullptr)
    return static_cast<Enum>(number - 1);
  std::vector<std::string> legal;
  for (int i = 0; i < type->value_count(); ++i) {
    if (type->value(i)->number() != 0) legal.push_back(type->value(i)->name());
  }
  errors.Add(field,
             absl::StrCat("is ", number == 0 ? "not set" : "unknown (",
                          number == 0 ? "" : absl::StrCat(number, ")"),
                          "; it must be one of ", absl::StrJoin(legal, ", ")));
  return Enum{};
}

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_ENUM_CONVERT_H_
