// mma.sync on 8- and 4-bit operands: m16n8k32 and m16n8k64, and their halves
// along k, which take the registers of one half of k of each operand. SM75 has
// m8n8k16 and m8n8k32 of integers only, a quarter of them each.
#ifndef HONE_DEVICE_PTX_MMA_SYNC_NARROW_CUH_
#define HONE_DEVICE_PTX_MMA_SYNC_NARROW_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

// d += a · b; the types of a and b are part of the instruction's name.
#define HONE_MMA_NARROW(Name, kShape, kHalfShape, kTypes, Sum, kConstraint)    \
  __device__ __forceinline__ void Name(Sum(&d)[4], const u32(&a)[4], u32 b0,   \
                                       u32 b1) {                               \
    asm("mma.sync.aligned." kShape ".row.col." kTypes                          \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"     \
        : "+" kConstraint(d[0]), "+" kConstraint(d[1]), "+" kConstraint(d[2]), \
          "+" kConstraint(d[3])                                                \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));       \
  }                                                                            \
  __device__ __forceinline__ void Name(Sum(&d)[4], u32 a0, u32 a1, u32 b) {    \
    asm("mma.sync.aligned." kHalfShape ".row.col." kTypes                      \
        " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"                 \
        : "+" kConstraint(d[0]), "+" kConstraint(d[1]), "+" kConstraint(d[2]), \
          "+" kConstraint(d[3])                                                \
        : "r"(a0), "r"(a1), "r"(b));                                           \
  }

// SM89.
HONE_MMA_NARROW(MmaE4m3, "m16n8k32", "m16n8k16", "f32.e4m3.e4m3.f32", float,
                "f")
HONE_MMA_NARROW(MmaE5m2, "m16n8k32", "m16n8k16", "f32.e5m2.e5m2.f32", float,
                "f")
// Integers; a's type is the first.
#if HONE_SM_ARCH >= 80
HONE_MMA_NARROW(MmaS8S8, "m16n8k32", "m16n8k16", "s32.s8.s8.s32", int, "r")
HONE_MMA_NARROW(MmaU8S8, "m16n8k32", "m16n8k16", "s32.u8.s8.s32", int, "r")
HONE_MMA_NARROW(MmaS4S4, "m16n8k64", "m16n8k32", "s32.s4.s4.s32", int, "r")
HONE_MMA_NARROW(MmaU4S4, "m16n8k64", "m16n8k32", "s32.u4.s4.s32", int, "r")
#else
// Of rows g and g + 8, and then of the other half of k.
#define HONE_MMA_QUARTER(Name, kShape, kTypes)                               \
  __device__ __forceinline__ void Name##Quarter(int& d0, int& d1, u32 a,     \
                                                u32 b) {                     \
    asm("mma.sync.aligned." kShape ".row.col." kTypes                        \
        " {%0, %1}, {%2}, {%3}, {%0, %1};"                                   \
        : "+r"(d0), "+r"(d1)                                                 \
        : "r"(a), "r"(b));                                                   \
  }                                                                          \
  __device__ __forceinline__ void Name(int(&d)[4], u32 a0, u32 a1, u32 b) {  \
    Name##Quarter(d[0], d[1], a0, b);                                        \
    Name##Quarter(d[2], d[3], a1, b);                                        \
  }                                                                          \
  __device__ __forceinline__ void Name(int(&d)[4], const u32(&a)[4], u32 b0, \
                                       u32 b1) {                             \
    Name(d, a[0], a[1], b0);                                                 \
    Name(d, a[2], a[3], b1);                                                 \
  }

HONE_MMA_QUARTER(MmaS8S8, "m8n8k16", "s32.s8.s8.s32")
HONE_MMA_QUARTER(MmaU8S8, "m8n8k16", "s32.u8.s8.s32")
HONE_MMA_QUARTER(MmaS4S4, "m8n8k32", "s32.s4.s4.s32")
HONE_MMA_QUARTER(MmaU4S4, "m8n8k32", "s32.u4.s4.s32")

#undef HONE_MMA_QUARTER
#endif

#undef HONE_MMA_NARROW

// SM120a. The scales that the instruction multiplies by, one float8e8m0 per 32
// columns, are 1.
__device__ __forceinline__ void MmaE2m1(float (&d)[4], const u32 (&a)[4],
                                        u32 b0, u32 b1) {
  constexpr u32 kOnes = 0x7f7f7f7f;
  asm("mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X"
      ".f32.e2m1.e2m1.f32.ue8m0 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3}, %10, {0, 0}, %10, {0, 0};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
        "r"(kOnes));
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_MMA_SYNC_NARROW_CUH_
