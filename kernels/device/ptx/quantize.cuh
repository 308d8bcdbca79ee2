// Arithmetic of input quantization, one wrapper per instruction.
#ifndef HONE_DEVICE_PTX_QUANTIZE_CUH_
#define HONE_DEVICE_PTX_QUANTIZE_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

// The larger of each pair of halves (SM90).
__device__ __forceinline__ u32 MaxHalves(u32 a, u32 b) {
  u32 d;
  asm("max.u16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// One rounding each: never fused with an addition.
__device__ __forceinline__ float MultiplyRounded(float a, float b) {
  float d;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}
__device__ __forceinline__ float DivideRounded(float a, float b) {
  float d;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

// Two codes, to the nearest, ties to even, saturating, `low` in the low half;
// NaN is 0x7f (SM89).
__device__ __forceinline__ u32 EncodeE4M3(float low, float high) {
  u16 d;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(d)
      : "f"(high), "f"(low));
  return d;
}
__device__ __forceinline__ u32 EncodeE5M2(float low, float high) {
  u16 d;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
      : "=h"(d)
      : "f"(high), "f"(low));
  return d;
}

// The same in one byte; NaN is 7 (the -a variants of SM100 and up).
__device__ __forceinline__ u32 EncodeE2M1(float low, float high) {
  u32 d;
  asm("{\n.reg .b8 t;\ncvt.rn.satfinite.e2m1x2.f32 t, %1, %2;\n"
      "cvt.u32.u8 %0, t;\n}"
      : "=r"(d)
      : "f"(high), "f"(low));
  return d;
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_QUANTIZE_CUH_
