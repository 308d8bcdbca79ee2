// Codes of number formats that are known at run time or rendered in: from
// values and to values, bit for bit as DataType does it. Shared by device code
// and the host: it has no includes. (The mainloop's conversions, which must
// cost nothing, are in the other files of this folder.)
#ifndef HONE_DEVICE_NUMERIC_CODES_CUH_
#define HONE_DEVICE_NUMERIC_CODES_CUH_

#ifdef __CUDACC__
#define HONE_CODES_FN __host__ __device__ inline
#else
#define HONE_CODES_FN inline
#endif

namespace hone::codes {

using U32 = unsigned int;

// A number format as one integer: a kind, and its exponent and mantissa bits
// (for integers the bits besides a sign), as in DataType.
enum Kind : int { kFloatKind = 0, kIntKind = 1, kUintKind = 2 };
HONE_CODES_FN constexpr int MakeFormat(int kind, int exponent, int mantissa) {
  return kind << 16 | exponent << 8 | mantissa;
}
inline constexpr int kHalf = MakeFormat(kFloatKind, 5, 10);
inline constexpr int kBrain = MakeFormat(kFloatKind, 8, 7);
inline constexpr int kSingle = MakeFormat(kFloatKind, 8, 23);
inline constexpr int kPower = MakeFormat(kFloatKind, 8, 0);  // float8e8m0

HONE_CODES_FN float BitsToFloat(U32 bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

HONE_CODES_FN U32 FloatToBits(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(U32, value);
#endif
}

// 2^n, exactly, for n from -149 to 127.
HONE_CODES_FN float PowerOfTwo(int n) {
  return BitsToFloat(n >= -126 ? static_cast<U32>(n + 127) << 23
                               : 1u << (n + 149));
}

HONE_CODES_FN constexpr int FormatKind(int format) { return format >> 16; }
HONE_CODES_FN constexpr int ExponentBits(int format) {
  return format >> 8 & 255;
}
HONE_CODES_FN constexpr int MantissaBits(int format) { return format & 255; }
HONE_CODES_FN constexpr int Bias(int format) {
  return (1 << (ExponentBits(format) - 1)) - 1;
}
HONE_CODES_FN constexpr bool IsIeee(int format) {
  return ExponentBits(format) + MantissaBits(format) >= 15 ||
         format == MakeFormat(kFloatKind, 5, 2);
}
// The code of a float's largest finite value.
HONE_CODES_FN constexpr U32 LargestCode(int format) {
  if (format == kPower) return 254;
  const U32 all = (1u << (ExponentBits(format) + MantissaBits(format))) - 1;
  if (IsIeee(format)) return all - (1u << MantissaBits(format));
  return format == MakeFormat(kFloatKind, 4, 3) ? all - 1 : all;
}

// `significand` over 2^shift, to the nearest integer, ties to even.
HONE_CODES_FN U32 RoundedShift(U32 significand, int shift) {
  if (shift <= 0) return significand << -shift;
  if (shift > 25) return 0;
  const U32 half = 1u << (shift - 1);
  const U32 rest = significand & ((1u << shift) - 1);
  U32 units = significand >> shift;
  if (rest > half || (rest == half && (units & 1))) ++units;
  return units;
}

// The code nearest to a finite `value`, ties to even, saturating, as
// DataType::Encode() gives it.
HONE_CODES_FN U32 Encode(float value, int format) {
  const U32 bits = FloatToBits(value);
  if (format == kSingle) return bits;
  const bool negative = bits >> 31 != 0;
  const U32 magnitude = bits & 0x7fffffff;
  const int mantissa = MantissaBits(format);
  // value = significand · 2^(exponent − 23).
  const int field = static_cast<int>(magnitude >> 23);
  const int exponent = field == 0 ? -126 : field - 127;
  const U32 significand = (magnitude & 0x7fffff) | (field == 0 ? 0 : 0x800000u);
  if (format == kPower) {
    // Past the middle to the next power of two; 2^-127 is subnormal.
    const U32 middle = field == 0 ? 0x600000 : 0x400000;
    const int code = field + ((magnitude & 0x7fffff) > middle ? 1 : 0);
    return negative ? 0 : code > 254 ? 254 : static_cast<U32>(code);
  }
  if (FormatKind(format) != kFloatKind || ExponentBits(format) == 0) {
    const U32 most = (1u << mantissa) - 1;
    U32 units =
        exponent > 20 ? most + 1 : RoundedShift(significand, 23 - exponent);
    if (FormatKind(format) == kFloatKind) {
      return (units > most ? most : units) | (negative ? 1u << mantissa : 0);
    }
    if (FormatKind(format) == kUintKind) {
      return negative ? 0 : units > most ? most : units;
    }
    if (!negative) return units > most ? most : units;
    if (units > most + 1) units = most + 1;
    return (0u - units) & (2 * most + 1);
  }
  const int least = 1 - Bias(format);
  const int unit = exponent > least ? exponent : least;
  const U32 sign = negative ? 1u << (ExponentBits(format) + mantissa) : 0;
  const U32 most = LargestCode(format);
  if (unit - least > (1 << ExponentBits(format))) return sign | most;
  const U32 code = (static_cast<U32>(unit - least) << mantissa) +
                   RoundedShift(significand, 23 - mantissa + unit - exponent);
  return sign | (code > most ? most : code);
}

// The value of a code; exact.
HONE_CODES_FN float Decode(U32 code, int format) {
  if (format == kSingle) return BitsToFloat(code);
  if (format == kPower) {
    return code == 255 ? BitsToFloat(0x7fc00000)
                       : PowerOfTwo(static_cast<int>(code) - 127);
  }
  const int mantissa_bits = MantissaBits(format);
  if (FormatKind(format) == kUintKind) return static_cast<float>(code);
  if (FormatKind(format) == kIntKind) {
    const int value = static_cast<int>(code);
    return static_cast<float>(
        value >> mantissa_bits != 0 ? value - (2 << mantissa_bits) : value);
  }
  const int exponent_bits = ExponentBits(format);
  const bool negative = code >> (exponent_bits + mantissa_bits) != 0;
  const U32 mantissa = code & ((1u << mantissa_bits) - 1);
  const U32 all = (1u << exponent_bits) - 1;
  const U32 exponent = (code >> mantissa_bits) & all;
  float value;
  if (exponent_bits == 0) {
    value = static_cast<float>(mantissa);
  } else if (IsIeee(format) && exponent == all) {
    value = BitsToFloat(mantissa == 0 ? 0x7f800000 : 0x7fc00000);
  } else if (format == MakeFormat(kFloatKind, 4, 3) && exponent == all &&
             mantissa == 7) {
    value = BitsToFloat(0x7fc00000);
  } else {
    const U32 units = exponent == 0 ? mantissa : mantissa | 1u << mantissa_bits;
    const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) -
                      Bias(format) - mantissa_bits;
    value = static_cast<float>(units) * PowerOfTwo(scale);
  }
  return negative ? -value : value;
}

}  // namespace hone::codes

#endif  // HONE_DEVICE_NUMERIC_CODES_CUH_
