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
};

// The 16-bit float types.
enum Type : int { kHalf = 0, kBrain = 1 };

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

// The code nearest to a finite `value`, ties to even, saturating.
HONE_GENERATOR_FN U32 Encode(float value, int type) {
  const U32 bits = FloatToBits(value);
  const U32 sign = (bits >> 16) & 0x8000;
  const U32 magnitude = bits & 0x7fffffff;
  if (type == kBrain) {
    const U32 rounded = magnitude + 0x7fff + ((magnitude >> 16) & 1);
    return sign | (rounded >= 0x7f800000u ? 0x7f7f : rounded >> 16);
  }
  if (magnitude > 0x477fefff) return sign | 0x7bff;
  if (magnitude >= 0x38800000) {
    const U32 shifted = magnitude - 0x38000000;
    return sign | ((shifted + 0xfff + ((shifted >> 13) & 1)) >> 13);
  }
  // Subnormal: units of 2^-24.
  const U32 exponent = magnitude >> 23;
  if (exponent < 102) return sign;
  const U32 significand = (magnitude & 0x7fffff) | 0x800000;
  const U32 shift = 126 - exponent;
  const U32 half = 1u << (shift - 1);
  const U32 rest = significand & ((1u << shift) - 1);
  U32 units = significand >> shift;
  if (rest > half || (rest == half && (units & 1))) ++units;
  return sign | units;
}

// The value of a code; exact.
HONE_GENERATOR_FN float Decode(U32 code, int type) {
  if (type == kBrain) return BitsToFloat(code << 16);
  const U32 sign = (code & 0x8000) << 16;
  const U32 exponent = (code >> 10) & 31;
  const U32 mantissa = code & 0x3ff;
  if (exponent == 31) return BitsToFloat(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * (1.0f / 16777216.0f);
    return sign != 0 ? -value : value;
  }
  return BitsToFloat(sign | (((exponent + 112) << 23) | (mantissa << 13)));
}

HONE_GENERATOR_FN U32 ActivationCode(U64 seed, U64 index, int type) {
  return Encode(Normal(seed, kActivations, index), type);
}

HONE_GENERATOR_FN U32 BiasCode(U64 seed, U64 index, int type) {
  return Encode(Normal(seed, kBias, index), type);
}

// A stored (offset) code of `bits` bits, uniform; `index` counts the padded
// matrix row by row.
HONE_GENERATOR_FN U32 WeightCode(U64 seed, U64 index, int bits) {
  return static_cast<U32>(Hash(seed, kWeights, index) >> (64 - bits));
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
