#include "tuner/measure/device/generator.cuh"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/config/data_type.h"

namespace hone {
namespace {

using testing::DoubleNear;

struct TypePair {
  int generator;
  DataType type;
};
const TypePair kTypes[] = {{generator::kHalf, kFloat16},
                           {generator::kBrain, kBfloat16}};

TEST(GeneratorTest, DecodesEveryCode) {
  for (const TypePair& t : kTypes) {
    for (uint32_t code = 0; code < 65536; ++code) {
      const double expected = t.type.Decode(code);
      const double found = generator::Decode(code, t.generator);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(found)) << code;
      } else {
        EXPECT_EQ(found, expected) << code;
        EXPECT_EQ(std::signbit(found), std::signbit(expected)) << code;
      }
    }
  }
}

TEST(GeneratorTest, EncodesAsDataTypeDoes) {
  for (const TypePair& t : kTypes) {
    // Every finite code, and the floats just around the middle to the next.
    for (uint32_t code = 0; code < 65536; ++code) {
      const double value = t.type.Decode(code);
      if (!std::isfinite(value)) continue;
      const auto exact = static_cast<float>(value);
      EXPECT_EQ(generator::Encode(exact, t.generator), code);
      const double next = t.type.Decode(code + 1);
      if ((code & 0x7fff) == 0x7fff || !std::isfinite(next)) continue;
      const auto middle = static_cast<float>((value + next) / 2);
      for (const float f :
           {middle,
            std::nextafterf(middle, std::numeric_limits<float>::infinity()),
            std::nextafterf(middle, -std::numeric_limits<float>::infinity())}) {
        EXPECT_EQ(generator::Encode(f, t.generator), t.type.Encode(f))
            << f << " near code " << code;
      }
    }
    for (const float f :
         {1e30f, -1e30f, 65504.0f, 65519.0f, 65520.0f, 1e-30f}) {
      EXPECT_EQ(generator::Encode(f, t.generator), t.type.Encode(f)) << f;
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
  for (int i = 0; i < 16000; ++i) ++histogram[generator::WeightCode(3, i, 4)];
  for (const int count : histogram) {
    EXPECT_GT(count, 850);
    EXPECT_LT(count, 1150);
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
