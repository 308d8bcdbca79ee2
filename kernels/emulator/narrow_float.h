// The floating-point formats of at most 8 bits. Bit layouts, biases and special
// values are those of the OCP 8-bit and microscaling specifications, as the PTX
// ISA refers to them.
#ifndef HONE_KERNELS_EMULATOR_NARROW_FLOAT_H_
#define HONE_KERNELS_EMULATOR_NARROW_FLOAT_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/emulator/float_format.h"

namespace hone::emulator {

// kMaxFinite is the code of the greatest finite value; kNan the canonical NaN,
// or 0 in formats without one.
struct E4M3 {
  static constexpr int kExponent = 4, kMantissa = 3, kBias = 7;
  static constexpr bool kHasInfinity = false;
  static constexpr uint8_t kMaxFinite = 0x7e, kNan = 0x7f;
};
struct E5M2 {
  static constexpr int kExponent = 5, kMantissa = 2, kBias = 15;
  static constexpr bool kHasInfinity = true;
  static constexpr uint8_t kMaxFinite = 0x7b, kNan = 0x7f;
};
struct E3M2 {
  static constexpr int kExponent = 3, kMantissa = 2, kBias = 3;
  static constexpr bool kHasInfinity = false;
  static constexpr uint8_t kMaxFinite = 0x1f, kNan = 0;
};
struct E2M3 {
  static constexpr int kExponent = 2, kMantissa = 3, kBias = 1;
  static constexpr bool kHasInfinity = false;
  static constexpr uint8_t kMaxFinite = 0x1f, kNan = 0;
};
struct E2M1 {
  static constexpr int kExponent = 2, kMantissa = 1, kBias = 1;
  static constexpr bool kHasInfinity = false;
  static constexpr uint8_t kMaxFinite = 0x7, kNan = 0;
};

namespace narrow_float_internal {

// 2^n for n that a float holds as a normal number.
constexpr float PowerOfTwo(int n) {
  return std::bit_cast<float>(static_cast<uint32_t>(127 + n) << 23);
}

template <typename F>
constexpr std::array<float, 256> DecodeTable() {
  std::array<float, 256> table = {};
  constexpr int kSign = F::kExponent + F::kMantissa;
  for (int code = 0; code < 256; ++code) {
    const int magnitude = code & ((1 << kSign) - 1);
    const int exponent = magnitude >> F::kMantissa;
    const int mantissa = magnitude & ((1 << F::kMantissa) - 1);
    float value = 0;
    if (F::kNan != 0 && magnitude > F::kMaxFinite) {
      value = F::kHasInfinity && mantissa == 0
                  ? std::numeric_limits<float>::infinity()
                  : std::numeric_limits<float>::quiet_NaN();
    } else {
      const int significand =
          exponent == 0 ? mantissa : mantissa + (1 << F::kMantissa);
      value =
          static_cast<float>(significand) *
          PowerOfTwo((exponent == 0 ? 1 : exponent) - F::kBias - F::kMantissa);
    }
    // Bits above the sign are not looked at.
    table[code] = (code >> kSign & 1) != 0 ? -value : value;
  }
  return table;
}
template <typename F>
inline constexpr std::array<float, 256> kDecodeTable = DecodeTable<F>();

}  // namespace narrow_float_internal

template <typename F>
inline float DecodeNarrow(uint8_t code) {
  return narrow_float_internal::kDecodeTable<F>[code];
}

// Rounds to nearest, ties to even, and saturates to the greatest finite value,
// as every cvt to these formats does (.satfinite). NaN becomes the canonical
// NaN, or the greatest value in formats without one.
template <typename F>
inline uint8_t EncodeNarrow(double x) {
  if (std::isnan(x)) return F::kNan != 0 ? F::kNan : F::kMaxFinite;
  constexpr int kSign = F::kExponent + F::kMantissa;
  const uint8_t sign = std::signbit(x) ? 1 << kSign : 0;
  const double magnitude = std::abs(x);
  if (magnitude >= DecodeNarrow<F>(F::kMaxFinite)) return sign | F::kMaxFinite;
  if (magnitude == 0) return sign;
  // Counted in units of the last place, subnormals share the least normal's.
  const int exponent = std::max(std::ilogb(magnitude), 1 - F::kBias);
  const int units = static_cast<int>(
      std::nearbyint(std::ldexp(magnitude, F::kMantissa - exponent)));
  // The leading one of a normal number raises the exponent field by one, and
  // so does a carry out of the mantissa.
  const int code = ((exponent + F::kBias - 1) << F::kMantissa) + units;
  return sign | static_cast<uint8_t>(std::min<int>(code, F::kMaxFinite));
}

// ue8m0: the exponent of a power of two, biased by 127; 0xff is NaN. The sign
// of x does not count. Rounds down or, with `up`, away from zero; values up to
// 2^-127 become code 0.
inline uint8_t EncodeE8M0(float x, bool up, bool saturate) {
  const uint32_t bits = std::bit_cast<uint32_t>(x) & 0x7fffffff;
  uint32_t exponent = bits >> 23;
  if (up && exponent < 255 && (bits & 0x7fffff) != 0 && bits > 0x400000) {
    ++exponent;
  }
  if (saturate && exponent == 255 && !std::isnan(x)) exponent = 254;
  return static_cast<uint8_t>(exponent);
}
inline float DecodeE8M0(uint8_t code) {
  if (code == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return code == 0 ? 0x1p-127f
                   : std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_NARROW_FLOAT_H_
