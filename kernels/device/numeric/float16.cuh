// The two 16-bit activation types as components: conversion, packed arithmetic
// and the MMA that takes them.
//
// kMagic + v, in each half, is the value 2^kMantissaBits + v for integers v
// below 2^kMantissaBits: how integers become floats without a conversion.
#ifndef HONE_DEVICE_NUMERIC_FLOAT16_CUH_
#define HONE_DEVICE_NUMERIC_FLOAT16_CUH_

#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/ptx/mma_sync.cuh"

namespace hone {

struct Float16 {
  static constexpr int kBits = 16;
  using Sum = float;
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 10;
  static constexpr int kBias = 15;
  static constexpr u32 kMagic = 0x64006400u;
  static constexpr u32 kOne = 0x3c003c00u;

  static __device__ __forceinline__ float ToFloat(u16 code) {
    return ptx::HalfToFloat(code);
  }
  static __device__ __forceinline__ u32 Pack(float low, float high) {
    return ptx::PackHalf2(low, high);
  }
  static __device__ __forceinline__ u32 Add2(u32 a, u32 b) {
    return ptx::AddHalf2(a, b);
  }
  static __device__ __forceinline__ u32 Mul2(u32 a, u32 b) {
    return ptx::MulHalf2(a, b);
  }
  static __device__ __forceinline__ u32 Fma2(u32 a, u32 b, u32 c) {
    return ptx::FmaHalf2(a, b, c);
  }
  template <typename Accumulator>
  static __device__ __forceinline__ void Mma(Accumulator& d, const u32 (&a)[4],
                                             u32 b0, u32 b1) {
    ptx::MmaHalf(d, a, b0, b1);
  }
};

struct Bfloat16 {
  static constexpr int kBits = 16;
  using Sum = float;
  static constexpr int kExponentBits = 8;
  static constexpr int kMantissaBits = 7;
  static constexpr int kBias = 127;
  static constexpr u32 kMagic = 0x43004300u;
  static constexpr u32 kOne = 0x3f803f80u;

  static __device__ __forceinline__ float ToFloat(u16 code) {
    return ptx::BitsToFloat(static_cast<u32>(code) << 16);
  }
  static __device__ __forceinline__ u32 Pack(float low, float high) {
    return ptx::PackBfloat2(low, high);
  }
  // SM80 has no packed addition or multiplication, only this.
  static __device__ __forceinline__ u32 Fma2(u32 a, u32 b, u32 c) {
    return ptx::FmaBfloat2(a, b, c);
  }
  static __device__ __forceinline__ u32 Add2(u32 a, u32 b) {
    return ptx::FmaBfloat2(a, kOne, b);
  }
  // a · b − 0: the sign of zero products survives.
  static __device__ __forceinline__ u32 Mul2(u32 a, u32 b) {
    return ptx::FmaBfloat2(a, b, 0x80008000u);
  }
  static __device__ __forceinline__ void Mma(float (&d)[4], const u32 (&a)[4],
                                             u32 b0, u32 b1) {
    ptx::MmaBfloat(d, a, b0, b1);
  }
};

// In both halves: a power of two, and −(2^(kMantissaBits − up) + v) for v below
// that power.
template <typename Type>
__device__ constexpr u32 PackedPowerOfTwo(int exponent) {
  return static_cast<u32>(exponent + Type::kBias) << Type::kMantissaBits |
         static_cast<u32>(exponent + Type::kBias) << (Type::kMantissaBits + 16);
}
template <typename Type>
__device__ constexpr u32 PackedMinusMagic(int up, int v) {
  return PackedPowerOfTwo<Type>(Type::kMantissaBits - up) +
         (static_cast<u32>(v) << up) * 0x00010001u + 0x80008000u;
}

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_FLOAT16_CUH_
