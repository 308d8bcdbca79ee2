// JSON as tests look at it: json["a"]["b"][0].
#ifndef HONE_TESTS_SERVICE_WEB_JSON_VALUE_H_
#define HONE_TESTS_SERVICE_WEB_JSON_VALUE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace hone {

class JsonValue {
 public:
  static JsonValue Parse(const std::string& text) {
    google::protobuf::Value value;
    // Lists are values too, but the parser wants a message of an object.
    google::protobuf::Struct wrapped;
    const auto status = google::protobuf::util::JsonStringToMessage(
        absl::StrCat("{\"v\":", text, "}"), &wrapped);
    EXPECT_TRUE(status.ok()) << status.message().ToString() << "\n" << text;
    return JsonValue(wrapped.fields().count("v") ? wrapped.fields().at("v")
                                                 : value);
  }

  JsonValue operator[](const char* key) const {
    const auto& fields = value_.struct_value().fields();
    const auto found = fields.find(key);
    EXPECT_TRUE(found != fields.end())
        << key << " is not in " << value_.ShortDebugString();
    return found == fields.end() ? JsonValue({}) : JsonValue(found->second);
  }
  JsonValue operator[](int i) const {
    EXPECT_LT(i, size());
    return i < size() ? JsonValue(value_.list_value().values(i))
                      : JsonValue({});
  }
  bool Has(const char* key) const {
    return value_.struct_value().fields().count(key) > 0;
  }
  int size() const {
    return value_.has_struct_value() ? value_.struct_value().fields_size()
                                     : value_.list_value().values_size();
  }
  std::string text() const {
    EXPECT_TRUE(value_.has_string_value()) << value_.ShortDebugString();
    return value_.string_value();
  }
  double number() const {
    EXPECT_TRUE(value_.has_number_value()) << value_.ShortDebugString();
    return value_.number_value();
  }
  bool truth() const {
    EXPECT_TRUE(value_.has_bool_value()) << value_.ShortDebugString();
    return value_.bool_value();
  }
  bool is_null() const { return value_.has_null_value(); }
  std::vector<double> numbers() const {
    std::vector<double> out;
    for (int i = 0; i < size(); ++i) out.push_back((*this)[i].number());
    return out;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> out;
    for (int i = 0; i < size(); ++i) out.push_back((*this)[i].text());
    return out;
  }

 private:
  explicit JsonValue(google::protobuf::Value value)
      : value_(std::move(value)) {}
  google::protobuf::Value value_;
};

}  // namespace hone

#endif  // HONE_TESTS_SERVICE_WEB_JSON_VALUE_H_
