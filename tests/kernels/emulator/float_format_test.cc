// f16 and bf16, exhaustively, against arithmetic on their definitions.
#include "kernels/emulator/float_format.h"

#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace hone::emulator {
namespace {

// By the definition of the format, with no bit tricks.
template <typename Format>
double Value(uint16_t bits) {
  const int exponent = (bits & 0x7fff) >> Format::kMantissa;
  const int mantissa = bits & ((1 << Format::kMantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == Format::kInf >> Format::kMantissa) {
    return mantissa == 0 ? sign * INFINITY : NAN;
  }
  const int hidden = exponent == 0 ? 0 : 1 << Format::kMantissa;
  return sign *
         std::ldexp(hidden + mantissa,
                    std::max(exponent, 1) - Format::kBias - Format::kMantissa);
}

template <typename Format>
void CheckAllCodes() {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const double value = Value<Format>(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(Decode16<Format>(bits)));
      ASSERT_EQ(Encode16<Format>(value), kNan16);
      continue;
    }
    ASSERT_EQ(Decode16<Format>(bits), value) << code;
    ASSERT_EQ(Encode16<Format>(value), bits) << code;
    for (const Rounding rounding : {Rounding::kNearestEven, Rounding::kZero,
                                    Rounding::kDown, Rounding::kUp}) {
      ASSERT_EQ(Encode16<Format>(value, rounding), bits) << code;
    }
  }
}

// Around every midpoint of neighbours, in every direction.
template <typename Format>
void CheckRounding() {
  for (uint32_t code = 0; code < Format::kInf; ++code) {
    const auto low = static_cast<uint16_t>(code);
    const auto high = static_cast<uint16_t>(code + 1);
    const double a = Value<Format>(low);
    // What infinity would be if the format went on.
    const double b = high == Format::kInf ? 2 * a - Value<Format>(low - 1)
                                          : Value<Format>(high);
    const double middle = (a + b) / 2;
    const uint16_t even = code % 2 == 0 ? low : high;
    ASSERT_EQ(Encode16<Format>(middle), even) << code;
    ASSERT_EQ(Encode16<Format>(std::nextafter(middle, a)), low) << code;
    ASSERT_EQ(Encode16<Format>(std::nextafter(middle, b)), high) << code;
    ASSERT_EQ(Encode16<Format>(-middle), 0x8000 | even) << code;
    ASSERT_EQ(Encode16<Format>(middle, Rounding::kZero), low) << code;
    ASSERT_EQ(Encode16<Format>(-middle, Rounding::kZero), 0x8000 | low);
    ASSERT_EQ(Encode16<Format>(middle, Rounding::kDown), low) << code;
    ASSERT_EQ(Encode16<Format>(-middle, Rounding::kDown), 0x8000 | high);
    ASSERT_EQ(Encode16<Format>(middle, Rounding::kUp), high) << code;
    ASSERT_EQ(Encode16<Format>(-middle, Rounding::kUp), 0x8000 | low);
  }
}

TEST(FloatFormatTest, HalfCodes) { CheckAllCodes<Half>(); }
TEST(FloatFormatTest, BFloatCodes) { CheckAllCodes<BFloat>(); }
TEST(FloatFormatTest, HalfRounding) { CheckRounding<Half>(); }
TEST(FloatFormatTest, BFloatRounding) { CheckRounding<BFloat>(); }

// Sums whose double rounding would be wrong.
TEST(FloatFormatTest, AddToOddKeepsOneRounding) {
  // 1 + 2^-11 is a tie for f16; a speck of 2^-60 decides it.
  const double tie = 1 + 0x1p-11;
  EXPECT_EQ(Encode16<Half>(AddToOdd(tie, 0)), 0x3c00);
  EXPECT_EQ(Encode16<Half>(AddToOdd(tie, 0x1p-60)), 0x3c01);
  EXPECT_EQ(Encode16<Half>(AddToOdd(tie, -0x1p-60)), 0x3c00);
  EXPECT_EQ(Encode16<Half>(AddToOdd(-tie, -0x1p-60)), 0xbc01);
  const double odd_tie = 1 + 3 * 0x1p-11;
  EXPECT_EQ(Encode16<Half>(AddToOdd(odd_tie, -0x1p-60)), 0x3c01);
  EXPECT_TRUE(std::isinf(AddToOdd(INFINITY, 1)));
  EXPECT_TRUE(std::isnan(AddToOdd(INFINITY, -INFINITY)));
}

// float(a * b + c) against the host's fused multiply-add.
TEST(FloatFormatTest, FmaMatchesTheHost) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300000; ++i) {
    const auto draw = [&] {
      return std::bit_cast<float>(static_cast<uint32_t>(random()));
    };
    float a = draw(), b = draw(), c = draw();
    if (i % 2 == 0) {
      // Near cancellation, where a second rounding shows.
      a = std::ldexp(1 + static_cast<float>(random() % 4096) / 4096, 0);
      b = std::ldexp(1 + static_cast<float>(random() % 8192) / 8192, 0);
      c = -a * b + std::ldexp(static_cast<float>(random() % 64) - 32, -30);
    }
    const float want = std::fma(a, b, c);
    const float got = static_cast<float>(FmaToOdd(a, b, c));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got));
    } else {
      ASSERT_EQ(got, want) << a << " " << b << " " << c;
    }
  }
}

}  // namespace
}  // namespace hone::emulator
