// Scales and zero points as they are stored, to what multiplies and what is
// subtracted.
//
// A scale format has kBits, ToFloat(code) and Pair<Type>(codes): the two codes
// of a pair of rows (the low row's in the low bits) as packed values of Type.
// All conversions are exact; Pair() is only for types that Type can hold.
#ifndef HONE_DEVICE_NUMERIC_SCALE_CUH_
#define HONE_DEVICE_NUMERIC_SCALE_CUH_

#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/numeric/minifloat.cuh"
#include "kernels/device/ptx/math.cuh"

namespace hone {

// Float16 or Bfloat16.
template <typename Format>
struct WideScale {
  static constexpr int kBits = 16;
  static __device__ __forceinline__ float ToFloat(u32 code) {
    return Format::ToFloat(static_cast<u16>(code));
  }
  template <typename Type>
  static __device__ __forceinline__ u32 Pair(u32 codes) {
    return codes;
  }
};

// float8e4m3 and float8e5m2: 2 and 3 to 5 instructions a pair.
template <int kScaleExponent, int kScaleMantissa>
struct MiniScale {
  static constexpr int kBits = 8;
  using Codes = FloatWeight<kScaleExponent, kScaleMantissa>;
  static __device__ __forceinline__ float ToFloat(u32 code) {
    return ptx::HalfToFloat(
        static_cast<u16>(Codes::template Convert<Float16, true, 0, 7>(code)));
  }
  template <typename Type>
  static __device__ __forceinline__ u32 Pair(u32 codes) {
    return Codes::template Convert<Type, true, 0, 7>(
        ptx::Permute(codes, 0, 0x4140u));
  }
};

// float8e8m0: the exponent of a float32 or bfloat16. Code 0, 2^−127, is
// subnormal in both.
struct PowerScale {
  static constexpr int kBits = 8;
  static __device__ __forceinline__ float ToFloat(u32 code) {
    return ptx::BitsToFloat(code == 0 ? 0x00400000u : code << 23);
  }
  template <typename Type>
  static __device__ __forceinline__ u32 Pair(u32 codes) {
    const u32 low = codes & 0xffu;
    const u32 high = codes >> 8;
    return (low == 0 ? 0x40u : low << 7) |
           (high == 0 ? 0x00400000u : high << 23);
  }
};

struct FloatScale {
  static constexpr int kBits = 32;
  static __device__ __forceinline__ float ToFloat(u32 code) {
    return ptx::BitsToFloat(code);
  }
};

// Zero points of a pair of rows, as a weight's Register() takes them.
struct NoZero {
  static constexpr int kBits = 0;
};

template <int kZeroBits>
struct IntegerZero {
  static constexpr int kBits = kZeroBits;
  template <typename Type>
  static __device__ __forceinline__ ZeroPair Pair(u32 codes) {
    return {One<Type>(codes & ((1u << kBits) - 1)), One<Type>(codes >> kBits)};
  }

 private:
  template <typename Type>
  static __device__ __forceinline__ u32 One(u32 zero) {
    if constexpr (Type::kBits < 16) {
      return InAll(Type::kBits, 1) * zero;
    } else {
      // 2^23 + zero, exactly.
      const float value = 8388608.0f - ptx::BitsToFloat(0x4b000000u | zero);
      return Type::Pack(value, value);
    }
  }
};

struct FloatZero {
  static constexpr int kBits = 16;
  template <typename Type>
  static __device__ __forceinline__ ZeroPair Pair(u32 codes) {
    const u32 minus = codes ^ 0x80008000u;
    return {ptx::Permute(minus, 0, 0x1010u), ptx::Permute(minus, 0, 0x3232u)};
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_SCALE_CUH_
