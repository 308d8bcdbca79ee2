#include "kernels/config/data_type.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

std::vector<DataType> AllTypes() {
  std::vector<DataType> types = {kFloat16, kBfloat16, kFloat8e8m0};
  for (int bits = 1; bits <= 8; ++bits) {
    types.push_back(DataType::Int(bits));
    types.push_back(DataType::Uint(bits));
  }
  for (int e = 0; e <= 7; ++e) {
    for (int m = e == 0 ? 1 : 0; 1 + e + m <= 8; ++m) {
      types.push_back(DataType::Float(e, m));
    }
  }
  return types;
}

TEST(DataTypeTest, NamesParseBack) {
  for (const DataType& type : AllTypes()) {
    const auto parsed = DataType::Parse(type.ToString());
    ASSERT_TRUE(parsed.ok()) << type.ToString() << ": " << parsed.status();
    EXPECT_EQ(*parsed, type);
  }
  EXPECT_EQ(*DataType::Parse("float16e5m10"), kFloat16);
  EXPECT_EQ(kFloat8e4m3.ToString(), "float8e4m3");
  EXPECT_EQ(kInt4.bits(), 4);
  EXPECT_EQ(kFloat8e8m0.bits(), 8);
}

TEST(DataTypeTest, RefusesWhatIsNoType) {
  for (const char* text : {"", "int", "int0", "int9", "uint-1", "float", "half",
                           "float8e4m4", "float8e4", "float16e6m9",
                           "float1e0m0", "int04", "int4 ", "float8e-4m3"}) {
    const auto parsed = DataType::Parse(text);
    EXPECT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()),
                testing::HasSubstr("bfloat16"));
  }
}

TEST(DataTypeTest, KnownValues) {
  EXPECT_EQ(kInt4.Decode(0xf), -1);
  EXPECT_EQ(kInt4.Decode(0x8), -8);
  EXPECT_EQ(DataType::Uint(4).Decode(0xf), 15);
  EXPECT_EQ(kFloat16.Decode(0x3c00), 1.0);
  EXPECT_EQ(kFloat16.Decode(0x0001), std::ldexp(1.0, -24));
  EXPECT_EQ(kBfloat16.Decode(0x3f80), 1.0);
  EXPECT_EQ(kFloat8e4m3.MaxFinite(), 448);
  EXPECT_EQ(kFloat8e5m2.MaxFinite(), 57344);
  EXPECT_EQ(kFloat4e2m1.MaxFinite(), 6);
  EXPECT_EQ(kFloat16.MaxFinite(), 65504);
  EXPECT_EQ(kFloat8e8m0.Decode(127), 1.0);
  EXPECT_EQ(DataType::Float(0, 7).Decode(0x85), -5);
  EXPECT_TRUE(std::isnan(kFloat8e4m3.Decode(0x7f)));
  EXPECT_EQ(kFloat8e4m3.Decode(0x7e), 448);
}

TEST(DataTypeTest, EveryFiniteCodeEncodesToItself) {
  for (const DataType& type : AllTypes()) {
    const std::vector<double> table = type.CodeTable();
    for (uint32_t code = 0; code < table.size(); ++code) {
      if (std::isnan(table[code])) {
        EXPECT_TRUE(std::isnan(type.Decode(type.Encode(table[code]))));
        continue;
      }
      ASSERT_EQ(type.Encode(table[code]), code)
          << type.ToString() << " value " << table[code];
    }
  }
}

// Against a search of the whole code table.
TEST(DataTypeTest, EncodesToTheNearestCodeTiesToEven) {
  for (const DataType& type : AllTypes()) {
    if (type.bits() > 8 || type.is_e8m0()) continue;
    const std::vector<double> table = type.CodeTable();
    const double limit = 1.25 * type.MaxFinite();
    for (int i = -400; i <= 400; ++i) {
      const double value = limit * i / 400;
      const double got = type.Decode(type.Encode(value));
      double best = std::numeric_limits<double>::infinity();
      for (const double candidate : table) {
        if (std::isfinite(candidate)) {
          best = std::min(best, std::fabs(candidate - value));
        }
      }
      ASSERT_EQ(std::fabs(got - value), best)
          << type.ToString() << " value " << value << " got " << got;
    }
  }
  EXPECT_EQ(kInt8.Decode(kInt8.Encode(2.5)), 2);
  EXPECT_EQ(kInt8.Decode(kInt8.Encode(3.5)), 4);
  EXPECT_EQ(kFloat16.Encode(1.0 + std::ldexp(1.0, -11)), 0x3c00u);
  EXPECT_EQ(kFloat16.Encode(1.0 + std::ldexp(3.0, -11)), 0x3c02u);
}

}  // namespace
}  // namespace hone
