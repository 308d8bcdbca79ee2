#include "service/web/json_writer.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace hone {
namespace {

TEST(JsonWriterTest, WritesValuesInTheOrderGiven) {
  JsonWriter json;
  json.BeginObject()
      .Field("z", 1)
      .Field("a", "text")
      .Field("yes", true)
      .Field("no", false)
      .Field("half", 0.5)
      .Key("nothing")
      .Null()
      .Key("list")
      .BeginArray()
      .Value(int64_t{-3})
      .BeginObject()
      .EndObject()
      .BeginArray()
      .EndArray()
      .Value("x")
      .EndArray()
      .Field("last", std::string("y"))
      .EndObject();
  EXPECT_EQ(std::move(json).Take(),
            R"({"z":1,"a":"text","yes":true,"no":false,"half":0.5,)"
            R"("nothing":null,"list":[-3,{},[],"x"],"last":"y"})");
}

TEST(JsonWriterTest, ColumnsKeepLargeAndMissingNumbers) {
  JsonWriter json;
  json.BeginObject()
      .Column("n", std::vector<int64_t>{0, 9007199254740991, -1})
      .ColumnOrNull("m", {0, 5})
      .Column("t", std::vector<std::string>{"a", ""})
      .Column("none", std::vector<int64_t>{})
      .FieldOrNull("x", 0)
      .FieldOrNull("y", 7)
      .FieldOrNull("r", 0.0)
      .FieldOrNull("s", 0.5)
      .EndObject();
  EXPECT_EQ(std::move(json).Take(),
            R"({"n":[0,9007199254740991,-1],"m":[null,5],"t":["a",""],)"
            R"("none":[],"x":null,"y":7,"r":null,"s":0.5})");
}

TEST(JsonWriterTest, HasNoNumberThatJsonHasNot) {
  JsonWriter json;
  json.BeginArray()
      .Value(std::nan(""))
      .Value(std::numeric_limits<double>::infinity())
      .Value(-std::numeric_limits<double>::infinity())
      .Value(1e300)
      .EndArray();
  EXPECT_EQ(std::move(json).Take(), "[null,null,null,1e+300]");
}

TEST(JsonWriterTest, EscapesTexts) {
  JsonWriter json;
  json.BeginObject()
      .Field("a\"b", "\\\n\t\x01")
      .Field("utf8", "8\xC3\x97 8")
      .Field("not utf8", "x\xC3(\"")
      .Field("zero", absl::string_view("a\0b", 3))
      .EndObject();
  EXPECT_EQ(std::move(json).Take(),
            "{\"a\\\"b\":\"\\\\\\n\\t\\u0001\",\"utf8\":\"8\xC3\x97 8\","
            "\"not utf8\":\"x?(\\\"\",\"zero\":\"a\\u0000b\"}");
}

}  // namespace
}  // namespace hone
