// The formats of at most 8 bits: every code, every midpoint and its neighbours.
#include "kernels/emulator/narrow_float.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/config/data_type.h"

namespace hone::emulator {
namespace {

template <typename F>
void CheckFormat(int exponent, int mantissa) {
  const DataType type = DataType::Float(exponent, mantissa);
  SCOPED_TRACE(type.ToString());
  const uint32_t codes = 1u << type.bits();
  for (uint32_t code = 0; code < codes; ++code) {
    const double want = type.Decode(code);
    const float got = DecodeNarrow<F>(static_cast<uint8_t>(code));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << code;
      continue;
    }
    EXPECT_EQ(got, want) << code;
    EXPECT_EQ(std::signbit(got), std::signbit(want)) << code;
    if (!std::isfinite(want)) continue;
    EXPECT_EQ(EncodeNarrow<F>(want), code);
    // Between this value and the next above.
    const double next = type.Decode(code + 1 == codes ? code : code + 1);
    if (!std::isfinite(next) || std::signbit(next) != std::signbit(want)) {
      continue;
    }
    const double middle = (want + next) / 2;
    for (const double x : {middle, std::nextafter(middle, -INFINITY),
                           std::nextafter(middle, INFINITY)}) {
      EXPECT_EQ(EncodeNarrow<F>(x), type.Encode(x)) << x;
    }
  }
  const double max = type.MaxFinite();
  for (const double x :
       {max * 1.01, max * 2, 1e30, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(EncodeNarrow<F>(x), F::kMaxFinite);
    EXPECT_EQ(EncodeNarrow<F>(-x), F::kMaxFinite | codes / 2);
  }
}

TEST(NarrowFloatTest, EveryCodeOfEveryFormat) {
  CheckFormat<E4M3>(4, 3);
  CheckFormat<E5M2>(5, 2);
  CheckFormat<E3M2>(3, 2);
  CheckFormat<E2M3>(2, 3);
  CheckFormat<E2M1>(2, 1);
  EXPECT_EQ(EncodeNarrow<E4M3>(NAN), 0x7f);
  EXPECT_EQ(EncodeNarrow<E5M2>(NAN), 0x7f);
  EXPECT_EQ(EncodeNarrow<E2M1>(NAN), 0x7);
}

TEST(NarrowFloatTest, ScalesAreExponents) {
  for (int code = 0; code < 255; ++code) {
    const float value = DecodeE8M0(static_cast<uint8_t>(code));
    EXPECT_EQ(value, std::ldexp(1.0f, code - 127));
    EXPECT_EQ(EncodeE8M0(value, /*up=*/true, /*saturate=*/true), code);
    EXPECT_EQ(EncodeE8M0(-value, /*up=*/false, /*saturate=*/true), code);
    if (code == 0) continue;
    const float above = std::nextafter(value, INFINITY);
    EXPECT_EQ(EncodeE8M0(above, /*up=*/false, /*saturate=*/true), code);
    EXPECT_EQ(EncodeE8M0(above, /*up=*/true, /*saturate=*/true),
              std::min(code + 1, 254));
  }
  EXPECT_TRUE(std::isnan(DecodeE8M0(0xff)));
  EXPECT_EQ(EncodeE8M0(NAN, false, true), 0xff);
  EXPECT_EQ(EncodeE8M0(INFINITY, false, true), 0xfe);
  EXPECT_EQ(EncodeE8M0(INFINITY, false, false), 0xff);
  EXPECT_EQ(EncodeE8M0(0.0f, true, true), 0);
}

}  // namespace
}  // namespace hone::emulator
