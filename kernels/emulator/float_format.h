// Conversions between the narrow floating-point formats and double, correctly
// rounded, and the arithmetic helpers that keep one rounding per operation.
#ifndef HONE_KERNELS_EMULATOR_FLOAT_FORMAT_H_
#define HONE_KERNELS_EMULATOR_FLOAT_FORMAT_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hone::emulator {

enum class Rounding : uint8_t { kNearestEven, kZero, kDown, kUp };

// 16-bit formats: 5 exponent and 10 mantissa bits, or 8 and 7.
struct Half {
  static constexpr int kMantissa = 10;
  static constexpr int kBias = 15;
  static constexpr uint16_t kInf = 0x7c00;
};
struct BFloat {
  static constexpr int kMantissa = 7;
  static constexpr int kBias = 127;
  static constexpr uint16_t kInf = 0x7f80;
};
inline constexpr uint16_t kNan16 = 0x7fff;

template <typename Format>
inline float Decode16(uint16_t bits);

template <>
inline float Decode16<BFloat>(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

template <>
inline float Decode16<Half>(uint16_t bits) {
  const uint32_t magnitude = uint32_t{bits & 0x7fffu} << 13;
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  // Multiplying by 2^112 rebiases normal and subnormal values alike.
  const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  uint32_t out = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7c00) == 0x7c00) out = 0x7f800000u | magnitude;
  return std::bit_cast<float>(out | sign);
}

// Rounds to the nearest value of the format, ties to even, once.
template <typename Format>
inline uint16_t Encode16(double x) {
  constexpr int kShift = 52 - Format::kMantissa;
  constexpr int kMinNormal = 1 - Format::kBias;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint16_t sign = static_cast<uint16_t>(bits >> 48 & 0x8000);
  const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
  if (magnitude > uint64_t{0x7ff} << 52) return kNan16;
  if (magnitude < static_cast<uint64_t>(1023 + kMinNormal) << 52) {
    // Subnormal: count units of the least value; adding 2^52 rounds them.
    constexpr uint64_t kUnit =
        static_cast<uint64_t>(1023 + Format::kMantissa - kMinNormal) << 52;
    const double units =
        std::bit_cast<double>(magnitude) * std::bit_cast<double>(kUnit);
    const double rounded = units + 0x1p52;
    return sign |
           static_cast<uint16_t>(std::bit_cast<uint64_t>(rounded) & 0xffff);
  }
  const uint64_t half = (uint64_t{1} << (kShift - 1)) - 1;
  const uint64_t rounded =
      (magnitude + half + (magnitude >> kShift & 1)) >> kShift;
  const uint64_t rebased =
      rounded -
      (static_cast<uint64_t>(1023 - Format::kBias) << Format::kMantissa);
  return sign | static_cast<uint16_t>(rebased >= Format::kInf ? Format::kInf
                                                              : rebased);
}

// The same in any rounding direction.
template <typename Format>
inline uint16_t Encode16(double x, Rounding rounding) {
  uint16_t bits = Encode16<Format>(x);
  if (rounding == Rounding::kNearestEven || std::isnan(x) || std::isinf(x)) {
    return bits;
  }
  const double got = Decode16<Format>(bits);
  const bool negative = std::signbit(x);
  const bool toward_zero =
      rounding == Rounding::kZero || (rounding == Rounding::kDown) == !negative;
  // One unit in the last place is one step of the magnitude bits.
  if (toward_zero) {
    if (std::abs(got) > std::abs(x)) --bits;
  } else if (std::abs(got) < std::abs(x)) {
    ++bits;
  }
  return bits;
}

// sum + error, the exact sum of two doubles, squeezed into one double that
// rounds to any format of at most 50 bits as the exact sum would: if inexact,
// its last bit is odd ("round to odd").
inline double AddToOdd(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  if (error == 0 || !std::isfinite(sum)) return sum;
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (bits & 1) return sum;
  // The exact sum lies between sum and its neighbour on error's side; of the
  // two the odd one is wanted, and sum is even.
  const bool away = (error > 0) == (sum > 0);
  return std::bit_cast<double>(away ? bits + 1 : bits - 1);
}

// a * b + c for formats of at most 24 bits: the product is exact in double.
inline double FmaToOdd(double a, double b, double c) {
  return AddToOdd(a * b, c);
}

inline float RoundToFloat(double x, Rounding rounding) {
  float f = static_cast<float>(x);
  if (rounding == Rounding::kNearestEven || !std::isfinite(x)) return f;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  switch (rounding) {
    case Rounding::kZero:
      if (std::abs(static_cast<double>(f)) > std::abs(x)) {
        f = std::nextafter(f, 0.0f);
      }
      break;
    case Rounding::kDown:
      if (f > x) f = std::nextafter(f, -kInf);
      break;
    case Rounding::kUp:
      if (f < x) f = std::nextafter(f, kInf);
      break;
    case Rounding::kNearestEven:
      break;
  }
  return f;
}

inline float FlushSubnormal(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

// Rounds to an integral value.
inline double RoundToIntegral(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven:
      return std::nearbyint(x);
    case Rounding::kZero:
      return std::trunc(x);
    case Rounding::kDown:
      return std::floor(x);
    case Rounding::kUp:
      return std::ceil(x);
  }
  return x;
}

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_FLOAT_FORMAT_H_
