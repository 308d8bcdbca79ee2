// The operands of a measurement, element by element, from a seed. Shared by
// the device (which fills gigabytes with it) and the host (whose tests compare
// with the CPU oracle): both give the same bits, so only integer arithmetic
// and single float operations are used.
#ifndef HONE_TUNER_MEASURE_DEVICE_GENERATOR_CUH_
#define HONE_TUNER_MEASURE_DEVICE_GENERATOR_CUH_

#include "kernels/device/numeric/codes.cuh"

#ifdef __CUDACC__
#define HONE_GENERATOR_FN __host__ __device__ inline
#else
#define HONE_GENERATOR_FN inline
#endif

namespace hone::generator {

using namespace hone::codes;  // NOLINT: both are vocabularies of one kind
using U64 = unsigned long long;

// Which tensor a value belongs to; each has its own stream of random numbers.
enum Tensor : U32 {
  kActivations = 1,
  kWeights = 2,
  kScales = 3,
  kBias = 4,
  kZeros = 5,
  kInputScales = 6,
};

// How a layer's weights are stored, for the helpers' kernels.
struct WeightFormat {
  int bits;
  int width;        // bits of an element of A
  int code_layout;  // layout::CodeLayout
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
  // The channels' least scale code, where they follow the entries (0: none).
  int window_code;
  long long window_offset;
};

// The scales of A, row-major: rows `row_stride` apart (0: all rows share one),
// of groups of `group` columns (0: one). No values: A has none.
struct InputScales {
  const float* values;
  int row_stride;
  int group;
};

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

// What activation codes are divided by to be N(0, 1): integers fill their range.
HONE_GENERATOR_FN float ActivationSpread(int type) {
  return FormatKind(type) == kIntKind
             ? static_cast<float>((1 << MantissaBits(type)) - 1) / 3.0f
             : 1.0f;
}
HONE_GENERATOR_FN U32 ActivationCode(U64 seed, U64 index, int type) {
  return Encode(Normal(seed, kActivations, index) * ActivationSpread(type),
                type);
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

// A code of `base` times a factor that is spread over [1/4, 4) about
// log-uniformly; `index` is row · groups + group.
HONE_GENERATOR_FN U32 SpreadCode(U64 seed, Tensor tensor, U64 index, float base,
                                 int type) {
  const U64 hash = Hash(seed, tensor, index);
  const float mantissa =
      1.0f + static_cast<float>(hash & 0xffff) * (1.0f / 65536.0f);
  const float powers[4] = {0.25f, 0.5f, 1.0f, 2.0f};
  // The middle two are three times as frequent as the outer two.
  const U32 pick = static_cast<U32>(hash >> 61);
  const float power = powers[pick == 0 ? 0 : pick == 7 ? 3 : 1 + pick % 2];
  return Encode(mantissa * power * base, type);
}
HONE_GENERATOR_FN U32 ScaleCode(U64 seed, U64 index, float base, int type) {
  return SpreadCode(seed, kScales, index, base, type);
}
// A's scales, float32; `index` is row · groups + group.
HONE_GENERATOR_FN float InputScaleValue(U64 seed, U64 index, int a_type) {
  return BitsToFloat(SpreadCode(seed, kInputScales, index,
                                1.0f / ActivationSpread(a_type), kSingle));
}

}  // namespace hone::generator

#endif  // HONE_TUNER_MEASURE_DEVICE_GENERATOR_CUH_
