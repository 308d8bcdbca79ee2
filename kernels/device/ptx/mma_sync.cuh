// ldmatrix, and mma.sync m16n8k16 of 16-bit types: one instruction from SM80
// on, on SM75 two m16n8k8, which take the registers of one half of k each.
#ifndef HONE_DEVICE_PTX_MMA_SYNC_CUH_
#define HONE_DEVICE_PTX_MMA_SYNC_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

// Four 8×8 matrices of 16-bit elements; lane l gives the address of row l % 8
// of matrix l / 8 and receives elements 2t, 2t + 1 of row g of each.
__device__ __forceinline__ void LoadMatrix4(u32 (&d)[4], u32 address) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(address)
      : "memory");
}

// d += a · b, in float32 or, two values a register, in float16.
#if HONE_SM_ARCH >= 80
__device__ __forceinline__ void MmaHalf(float (&d)[4], const u32 (&a)[4],
                                        u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void MmaHalf(u32 (&d)[2], const u32 (&a)[4], u32 b0,
                                        u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
      "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#else
__device__ __forceinline__ void MmaHalfK8(float (&d)[4], u32 a0, u32 a1,
                                          u32 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
}

__device__ __forceinline__ void MmaHalfK8(u32 (&d)[2], u32 a0, u32 a1, u32 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 "
      "{%0, %1}, {%2, %3}, {%4}, {%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a0), "r"(a1), "r"(b));
}

template <typename Accumulator>
__device__ __forceinline__ void MmaHalf(Accumulator& d, const u32 (&a)[4],
                                        u32 b0, u32 b1) {
  MmaHalfK8(d, a[0], a[1], b0);
  MmaHalfK8(d, a[2], a[3], b1);
}
#endif

// SM80.
__device__ __forceinline__ void MmaBfloat(float (&d)[4], const u32 (&a)[4],
                                          u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_MMA_SYNC_CUH_
