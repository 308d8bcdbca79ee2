#include "db/json.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

TEST(JsonTest, CanonicalTextReadsBackToItself) {
  for (const char* text :
       {"{}", "[]", "true", "false", "0", "-1", "9223372036854775807",
        "-9223372036854775808", "9223372036854775808", "-0", "0.5", "-2.5e-07",
        "1e+300", "1e-320", R"("")", R"("a\"b\\c\n\t\u0000\u001f/é∞😀")",
        R"({"a":1,"b":[true,{"c":"d"}],"ba":[[[]]]})"}) {
    const absl::StatusOr<Json> json = ReadJson(text);
    ASSERT_TRUE(json.ok()) << text << ": " << json.status();
    EXPECT_EQ(WriteJson(*json), text);
  }
}

TEST(JsonTest, WritingSortsKeys) {
  EXPECT_EQ(
      WriteJson(Json(JsonObject{{"b", Json(int64_t{1})}, {"a", Json(true)}})),
      R"({"a":true,"b":1})");
}

TEST(JsonTest, DoublesReadBackBitForBit) {
  for (const double value :
       {0.1, 1.0 / 3, 4301.0625, 5e-324, std::numeric_limits<double>::max(),
        std::nextafter(1.0, 2.0), -0.0}) {
    double back = 0;
    const absl::StatusOr<Json> json =
        ReadJson("{\"x\":" + DoubleText(value) + "}");
    ASSERT_TRUE(json.ok()) << json.status();
    absl::StatusOr<JsonFields> fields = JsonFields::Of(*json, "");
    ASSERT_TRUE(fields.ok());
    ASSERT_TRUE(fields->Get("x", back).ok());
    EXPECT_EQ(back, value);
    EXPECT_EQ(std::signbit(back), std::signbit(value));
  }
}

TEST(JsonTest, RefusesEverythingElse) {
  const std::string deep(100, '[');
  for (const std::string& text : {
           std::string(""),
           std::string(" 1"),
           std::string("1 "),
           std::string("null"),
           std::string("nul"),
           std::string("tru"),
           std::string("truex"),
           std::string("+1"),
           std::string("01"),
           std::string("1."),
           std::string(".5"),
           std::string("1e5"),
           std::string("1.0"),
           std::string("1.50"),
           std::string("-"),
           std::string("--1"),
           std::string("1e999"),
           std::string("nan"),
           std::string("inf"),
           std::string("0x10"),
           std::string("\"a"),
           std::string("\"\\\""),
           std::string("\"\\x\""),
           std::string("\"\\u00e9\""),
           std::string("\"\\u001F\""),
           std::string("\"\\u00"),
           std::string("\"\n\""),
           std::string("\"\xFF\""),
           std::string("\"\xC0\x80\""),
           std::string("\"\xED\xA0\x80\""),
           std::string("\"\xF4\x90\x80\x80\""),
           std::string("\"\xE2\x88\""),
           std::string("[1,]"),
           std::string("[1 ,2]"),
           std::string("[1"),
           std::string("{\"a\"}"),
           std::string("{\"a\":}"),
           std::string("{\"a\":1,}"),
           std::string("{a:1}"),
           std::string("{\"a\":1"),
           std::string("{\"a\":1}}"),
           std::string("{\"a\":1,\"a\":2}"),
           std::string("{\"b\":1,\"a\":2}"),
           std::string(1, '\0'),
           deep,
       }) {
    const absl::StatusOr<Json> json = ReadJson(text);
    EXPECT_EQ(json.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(ReadJson(deep).status().message(), HasSubstr("levels"));
  EXPECT_THAT(ReadJson("{\"a\":1,\"a\":2}").status().message(),
              HasSubstr("key \"a\" must come after \"a\""));
}

TEST(JsonTest, FieldsNameWhatIsWrong) {
  const absl::StatusOr<Json> json =
      ReadJson(R"({"a":1,"b":"x","c":[],"d":1.5})");
  ASSERT_TRUE(json.ok());
  absl::StatusOr<JsonFields> fields = JsonFields::Of(*json, "entries[3].");
  ASSERT_TRUE(fields.ok());
  int64_t integer = 0;
  double real = 0;
  bool flag = false;
  std::string text;
  EXPECT_TRUE(fields->Get("a", integer).ok());
  EXPECT_TRUE(fields->Get("a", real).ok());
  EXPECT_EQ(fields->Get("b", integer).message(),
            "entries[3].b must be an integer");
  EXPECT_EQ(fields->Get("d", integer).message(),
            "entries[3].d must be an integer");
  EXPECT_EQ(fields->Get("a", flag).message(),
            "entries[3].a must be true or false");
  EXPECT_EQ(fields->Get("c", text).message(), "entries[3].c must be a string");
  EXPECT_EQ(fields->Get("z", text).message(), "entries[3].z is missing");
  EXPECT_EQ(fields->Array("a").status().message(),
            "entries[3].a must be an array");
  EXPECT_TRUE(fields->Finish().ok());
  absl::StatusOr<JsonFields> fresh = JsonFields::Of(*json, "");
  ASSERT_TRUE(fresh->Get("b", text).ok());
  EXPECT_EQ(fresh->Finish().message(), "a is not a known field");
  EXPECT_EQ(JsonFields::Of(Json(true), "x.").status().message(),
            "x must be an object");
}

}  // namespace
}  // namespace hone
