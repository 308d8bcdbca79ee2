#include "tuner/measure/device/generator.cuh"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/config/data_type.h"
#include "tests/kernels/format_list.h"
#include "tuner/measure/operands.h"

namespace hone {
namespace {

using testing::DoubleNear;

std::vector<DataType> AllTypes() {
  std::vector<DataType> types = WeightTypes(kBfloat16);
  types.insert(types.end(), {kFloat16, kBfloat16, kFloat8e8m0});
  return types;
}

TEST(GeneratorTest, DecodesEveryCode) {
  for (const DataType type : AllTypes()) {
    const int format = GeneratorType(type);
    for (uint32_t code = 0; code < 1u << type.bits(); ++code) {
      const double expected = type.Decode(code);
      const double found = generator::Decode(code, format);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(found)) << type.ToString() << " " << code;
      } else {
        ASSERT_EQ(found, expected) << type.ToString() << " " << code;
        EXPECT_EQ(std::signbit(found), std::signbit(expected)) << code;
      }
    }
  }
  EXPECT_EQ(generator::Decode(0x3fc00000, generator::kSingle), 1.5f);
  EXPECT_EQ(generator::Encode(-2.0f, generator::kSingle), 0xc0000000);
}

TEST(GeneratorTest, EncodesAsDataTypeDoes) {
  for (const DataType type : AllTypes()) {
    const int format = GeneratorType(type);
    const auto check = [&](float f) {
      ASSERT_EQ(generator::Encode(f, format), type.Encode(f))
          << type.ToString() << " " << f;
    };
    // Every finite code, and the floats just around the middle to the next.
    for (uint32_t code = 0; code < 1u << type.bits(); ++code) {
      const double value = type.Decode(code);
      if (!std::isfinite(value)) continue;
      const auto exact = static_cast<float>(value);
      check(exact);
      const double next = type.Decode(code + 1);
      if (!std::isfinite(next)) continue;
      const auto middle = static_cast<float>((value + next) / 2);
      for (const float f :
           {middle,
            std::nextafterf(middle, std::numeric_limits<float>::infinity()),
            std::nextafterf(middle, -std::numeric_limits<float>::infinity())}) {
        check(f);
      }
    }
    for (const float f : {1e30f, -1e30f, 65504.0f, 65519.0f, 65520.0f, 1e-30f,
                          -1e-42f, 300.0f, -300.0f, 0.0f}) {
      check(f);
    }
  }
}

TEST(GeneratorTest, ActivationsAreNormalAndNeverTheSameTwice) {
  double sum = 0;
  double square = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const double v = generator::Normal(1, generator::kActivations, i);
    sum += v;
    square += v * v;
    EXPECT_LT(std::fabs(v), 5);
  }
  EXPECT_THAT(sum / kCount, DoubleNear(0, 0.01));
  EXPECT_THAT(square / kCount, DoubleNear(1, 0.01));
  // Seeds, tensors and indexes give independent streams.
  EXPECT_NE(generator::Hash(1, generator::kActivations, 0),
            generator::Hash(2, generator::kActivations, 0));
  EXPECT_NE(generator::Hash(1, generator::kActivations, 0),
            generator::Hash(1, generator::kWeights, 0));
  EXPECT_NE(generator::Hash(1, generator::kActivations, 0),
            generator::Hash(1, generator::kActivations, 1));
}

TEST(GeneratorTest, WeightCodesAreUniform) {
  int histogram[16] = {};
  for (int i = 0; i < 16000; ++i) {
    ++histogram[generator::WeightCode(3, i, GeneratorType(kInt4), 4)];
  }
  for (const int count : histogram) {
    EXPECT_GT(count, 850);
    EXPECT_LT(count, 1150);
  }
}

TEST(GeneratorTest, WeightCodesAreFiniteAndOfModestSize) {
  for (const DataType type : AllTypes()) {
    if (type.bits() > 8 || type.is_e8m0()) continue;
    for (int i = 0; i < 2000; ++i) {
      const double value = type.Decode(
          generator::WeightCode(3, i, GeneratorType(type), type.bits()));
      ASSERT_LE(std::fabs(value), 512) << type.ToString();
    }
  }
}

TEST(GeneratorTest, ScalesSpreadAroundTheirBase) {
  double low = 1e9;
  double high = 0;
  for (int i = 0; i < 10000; ++i) {
    const double scale = generator::Decode(
        generator::ScaleCode(3, i, 0.01f, generator::kHalf), generator::kHalf);
    low = std::min(low, scale);
    high = std::max(high, scale);
  }
  EXPECT_GE(low, 0.0025 * 0.999);
  EXPECT_LT(low, 0.003);
  EXPECT_LE(high, 0.04 * 1.001);
  EXPECT_GT(high, 0.035);
}

}  // namespace
}  // namespace hone
