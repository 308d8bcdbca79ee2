// The operands of a measurement, element by element, from a seed. Shared by
// the device (which fills gigabytes with it) and the host (whose tests compare
// with the CPU oracle): both give the same bits, so only integer arithmetic
// and single float operations are used. It has no includes.
#ifndef HONE_TUNER_MEASURE_DEVICE_GENERATOR_CUH_
#define HONE_TUNER_MEASURE_DEVICE_GENERATOR_CUH_

#ifdef __CUDACC__
#define HONE_GENERATOR_FN __host__ __device__ inline
#else
#define HONE_GENERATOR_FN inline
#endif

namespace hone::generator {

using U32 = unsigned int;
using U64 = unsigned long long;

// Which tensor a value belongs to; each has its own stream of random numbers.
enum Tensor : U32 {
  kActivations = 1,
  kWeights = 2,
  kScales = 3,
  kBias = 4,
  kZeros = 5,
};

// A number format as one integer: a kind, and its exponent and mantissa bits
// (for integers the bits besides a sign), as in DataType.
enum Kind : int { kFloatKind = 0, kIntKind = 1, kUintKind = 2 };
HONE_GENERATOR_FN constexpr int MakeFormat(int kind, int exponent,
                                           int mantissa) {
  return kind << 16 | exponent << 8 | mantissa;
}
inline constexpr int kHalf = MakeFormat(kFloatKind, 5, 10);
inline constexpr int kBrain = MakeFormat(kFloatKind, 8, 7);
inline constexpr int kSingle = MakeFormat(kFloatKind, 8, 23);
inline constexpr int kPower = MakeFormat(kFloatKind, 8, 0);  // float8e8m0

// How a layer's weights are stored, for the helpers' kernels.
struct WeightFormat {
  int bits;
  int sign_magnitude;
  // What a stored code is xor-ed with.
  int stored_xor;
  int format;  // of the codes
  int scale_format;
  int zero_format;  // of zero points
  int scale_bits;   // 0: no scales of rows
  int zero_bits;    // 0: no zero points
  int block;        // one float32 per entry
  int group;        // columns of an entry; 0: all of K
  int group_n;      // rows of a block scale
  int groups;
  int entry_bytes;
  int entry_scale_bytes;
  int tensor_scale;
  long long tensor_offset;
};

HONE_GENERATOR_FN float BitsToFloat(U32 bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

HONE_GENERATOR_FN U32 FloatToBits(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return __builtin_bit_cast(U32, value);
#endif
}

HONE_GENERATOR_FN U64 Mix(U64 x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  x ^= x >> 31;
  return x;
}

// 64 random bits, a function of its arguments alone.
HONE_GENERATOR_FN U64 Hash(U64 seed, Tensor tensor, U64 index) {
  const U64 stream = Mix(seed + 0x9e3779b97f4a7c15ull * tensor);
  return Mix(stream + 0x9e3779b97f4a7c15ull * (index + 1));
}

// About N(0, 1): the sum of eight uniform 16-bit numbers, so within ±4.9.
HONE_GENERATOR_FN float Normal(U64 seed, Tensor tensor, U64 index) {
  const U64 a = Hash(seed, tensor, 2 * index);
  const U64 b = Hash(seed, tensor, 2 * index + 1);
  int sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += static_cast<int>((a >> (16 * i)) & 0xffff);
    sum += static_cast<int>((b >> (16 * i)) & 0xffff);
  }
  // Mean 8 · 65535 / 2; deviation 65536 · sqrt(8 / 12).
  return static_cast<float>(sum - 262140) * (1.0f / 53510.0f);
}

// 2^n, exactly, for n from -149 to 127.
HONE_GENERATOR_FN float PowerOfTwo(int n) {
  return BitsToFloat(n >= -126 ? static_cast<U32>(n + 127) << 23
                               : 1u << (n + 149));
}

HONE_GENERATOR_FN int FormatKind(int format) { return format >> 16; }
HONE_GENERATOR_FN int ExponentBits(int format) { return format >> 8 & 255; }
HONE_GENERATOR_FN int MantissaBits(int format) { return format & 255; }
HONE_GENERATOR_FN int Bias(int format) {
  return (1 << (ExponentBits(format) - 1)) - 1;
}
HONE_GENERATOR_FN bool IsIeee(int format) {
  return ExponentBits(format) + MantissaBits(format) >= 15 ||
         format == MakeFormat(kFloatKind, 5, 2);
}
// The largest finite magnitude's code, of a float with a sign.
HONE_GENERATOR_FN U32 LargestCode(int format) {
  const U32 all = (1u << (ExponentBits(format) + MantissaBits(format))) - 1;
  if (IsIeee(format)) return all - (1u << MantissaBits(format));
  return format == MakeFormat(kFloatKind, 4, 3) ? all - 1 : all;
}

// `significand` over 2^shift, to the nearest integer, ties to even.
HONE_GENERATOR_FN U32 RoundedShift(U32 significand, int shift) {
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
HONE_GENERATOR_FN U32 Encode(float value, int format) {
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
HONE_GENERATOR_FN float Decode(U32 code, int format) {
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

HONE_GENERATOR_FN U32 ActivationCode(U64 seed, U64 index, int type) {
  return Encode(Normal(seed, kActivations, index), type);
}

HONE_GENERATOR_FN U32 BiasCode(U64 seed, U64 index, int type) {
  return Encode(Normal(seed, kBias, index), type);
}

// A code of `format`, uniform over all `bits` bits; but the top exponent bit of
// floats beyond ±512 is cleared, which else would drown all others (or are no
// numbers). `index` counts the padded matrix row by row.
HONE_GENERATOR_FN U32 LegalWeightCode(U32 code, int format, int bits) {
  if (FormatKind(format) != kFloatKind) return code;
  const float value = Decode(code, format);
  return value <= 512.0f && value >= -512.0f ? code
                                             : code & ~(1u << (bits - 2));
}
HONE_GENERATOR_FN U32 WeightCode(U64 seed, U64 index, int format, int bits) {
  return LegalWeightCode(
      static_cast<U32>(Hash(seed, kWeights, index) >> (64 - bits)), format,
      bits);
}

// A zero point for codes of `bits` bits: an integer, or of a float format any
// value up to the largest code. `index` is row · groups + group.
HONE_GENERATOR_FN U32 ZeroCode(U64 seed, U64 index, int format, int bits) {
  const U64 hash = Hash(seed, kZeros, index);
  if (FormatKind(format) != kFloatKind) {
    return static_cast<U32>(hash >> (64 - bits));
  }
  const float fraction = static_cast<float>(hash & 0xffff) * (1.0f / 65536.0f);
  return Encode(fraction * static_cast<float>((1 << bits) - 1), format);
}

// `base` times a factor that is spread over [1/4, 4) about log-uniformly;
// `index` is row · groups + group.
HONE_GENERATOR_FN U32 ScaleCode(U64 seed, U64 index, float base, int type) {
  const U64 hash = Hash(seed, kScales, index);
  const float mantissa =
      1.0f + static_cast<float>(hash & 0xffff) * (1.0f / 65536.0f);
  const float powers[4] = {0.25f, 0.5f, 1.0f, 2.0f};
  // The middle two are three times as frequent as the outer two.
  const U32 pick = static_cast<U32>(hash >> 61);
  const float power = powers[pick == 0 ? 0 : pick == 7 ? 3 : 1 + pick % 2];
  return Encode(mantissa * power * base, type);
}

}  // namespace hone::generator

#endif  // HONE_TUNER_MEASURE_DEVICE_GENERATOR_CUH_
