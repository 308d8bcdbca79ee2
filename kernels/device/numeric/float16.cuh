// The two 16-bit activation types as components: conversion, packed scaling
// and the MMA that takes them.
#ifndef HONE_DEVICE_NUMERIC_FLOAT16_CUH_
#define HONE_DEVICE_NUMERIC_FLOAT16_CUH_

#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"
#include "kernels/device/ptx/mma_sync.cuh"

namespace hone {

struct Float16 {
  static __device__ __forceinline__ float ToFloat(u16 code) {
    return ptx::HalfToFloat(code);
  }
  static __device__ __forceinline__ u32 Pack(float low, float high) {
    return ptx::PackHalf2(low, high);
  }
  static __device__ __forceinline__ u32 Mul2(u32 a, u32 b) {
    return ptx::MulHalf2(a, b);
  }
  static __device__ __forceinline__ void Mma(float (&d)[4], const u32 (&a)[4],
                                             u32 b0, u32 b1) {
    ptx::MmaHalf(d, a, b0, b1);
  }
};

struct Bfloat16 {
  static __device__ __forceinline__ float ToFloat(u16 code) {
    return ptx::BitsToFloat(static_cast<u32>(code) << 16);
  }
  static __device__ __forceinline__ u32 Pack(float low, float high) {
    return ptx::PackBfloat2(low, high);
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

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_FLOAT16_CUH_
