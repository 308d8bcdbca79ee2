// Bit operations and packed 16-bit arithmetic, one wrapper per instruction.
#ifndef HONE_DEVICE_PTX_MATH_CUH_
#define HONE_DEVICE_PTX_MATH_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

// (a & b) | c.
__device__ __forceinline__ u32 AndOr(u32 a, u32 b, u32 c) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// (~a & b) | c.
__device__ __forceinline__ u32 AndNotOr(u32 a, u32 b, u32 c) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xae;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

__device__ __forceinline__ u32 RotateRight(u32 a, u32 bits) {
  u32 d;
  asm("shf.r.wrap.b32 %0, %1, %1, %2;" : "=r"(d) : "r"(a), "r"(bits));
  return d;
}

// Byte i of the result is byte (selector >> 4i) & 7 of {b, a}.
__device__ __forceinline__ u32 Permute(u32 a, u32 b, u32 selector) {
  u32 d;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
  return d;
}

__device__ __forceinline__ u32 AddHalf2(u32 a, u32 b) {
  u32 d;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ __forceinline__ u32 MulHalf2(u32 a, u32 b) {
  u32 d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

__device__ __forceinline__ u32 FmaHalf2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// The only packed bfloat16 arithmetic that SM80 has.
__device__ __forceinline__ u32 FmaBfloat2(u32 a, u32 b, u32 c) {
  u32 d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// Two float32 to packed float16 or bfloat16, `low` in the low half.
__device__ __forceinline__ u32 PackHalf2(float low, float high) {
  u32 d;
#if HONE_SM_ARCH >= 80
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
#else
  asm("{\n.reg .f16 l, h;\ncvt.rn.f16.f32 l, %1;\ncvt.rn.f16.f32 h, %2;\n"
      "mov.b32 %0, {l, h};\n}"
      : "=r"(d)
      : "f"(low), "f"(high));
#endif
  return d;
}
#if HONE_SM_ARCH >= 80
__device__ __forceinline__ u32 PackBfloat2(float low, float high) {
  u32 d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}
#else
// Without the instruction: to the nearest, ties to even; NaN is 0x7fff.
__device__ __forceinline__ u32 RoundToBfloat(float value) {
  const u32 bits = __float_as_uint(value);
  if (value != value) return 0x7fffu;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
__device__ __forceinline__ u32 PackBfloat2(float low, float high) {
  return RoundToBfloat(low) | RoundToBfloat(high) << 16;
}
#endif

// A product that no compiler fuses with a sum: rounded the same in every
// kernel.
__device__ __forceinline__ float Mul(float a, float b) {
  float d;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
  return d;
}

__device__ __forceinline__ float RoundToEven(float value) {
  float d;
  asm("cvt.rni.f32.f32 %0, %1;" : "=f"(d) : "f"(value));
  return d;
}

__device__ __forceinline__ float HalfToFloat(u16 value) {
  float d;
  asm("cvt.f32.f16 %0, %1;" : "=f"(d) : "h"(value));
  return d;
}

__device__ __forceinline__ float BitsToFloat(u32 bits) {
  float d;
  asm("mov.b32 %0, %1;" : "=f"(d) : "r"(bits));
  return d;
}

__device__ __forceinline__ u32 FloatToBits(float value) {
  u32 d;
  asm("mov.b32 %0, %1;" : "=r"(d) : "f"(value));
  return d;
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_MATH_CUH_
