// Exchange among the lanes of a warp.
#ifndef HONE_DEVICE_PTX_WARP_CUH_
#define HONE_DEVICE_PTX_WARP_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

// The value of the lane whose number differs in the bits of `lanes`.
__device__ __forceinline__ float ShuffleXor(float value, int lanes) {
  float d;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=f"(d)
               : "f"(value), "r"(lanes));
  return d;
}
__device__ __forceinline__ u32 ShuffleXor(u32 value, int lanes) {
  u32 d;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=r"(d)
               : "r"(value), "r"(lanes));
  return d;
}

// That of lane `lane`, modulo 32.
__device__ __forceinline__ u32 ShuffleIndex(u32 value, int lane) {
  u32 d;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
               : "=r"(d)
               : "r"(value), "r"(lane));
  return d;
}

// A value that is the same in all lanes, as one of which ptxas knows it: what is
// computed from it, such as descriptors, takes none of the instructions that
// compete with MMAs for registers.
__device__ __forceinline__ u32 Uniform(u32 value) {
  return ShuffleIndex(value, 0);
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_WARP_CUH_
