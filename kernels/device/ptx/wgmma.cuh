// What surrounds wgmma (SM90a), and stmatrix. The MMA itself has one form per
// shape, with up to 132 registers as operands; kernels/codegen renders the one
// that a kernel uses as Config::Mma.
#ifndef HONE_DEVICE_PTX_WGMMA_CUH_
#define HONE_DEVICE_PTX_WGMMA_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

// Orders what the warp did with registers before, and wgmma after.
__device__ __forceinline__ void WgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes a group of MMAs.
__device__ __forceinline__ void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending groups are in flight.
template <int kPending>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Gives registers back to the CTA, or takes them, by the whole warpgroup.
template <int kRegisters>
__device__ __forceinline__ void SetMaxRegistersDown() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void SetMaxRegistersUp() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Two 8 × 8 matrices of 16-bit elements, of which a register holds elements 2t,
// 2t + 1 of row g, to shared memory by columns; lane l gives the address of
// column l % 8 of matrix l / 8 % 2.
__device__ __forceinline__ void StoreMatrix2Transposed(u32 address, u32 a,
                                                       u32 b) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
          address),
      "r"(a), "r"(b)
      : "memory");
}

// The same by rows: lane l gives the address of row l % 8 of matrix l / 8 % 2.
__device__ __forceinline__ void StoreMatrix2(u32 address, u32 a, u32 b) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address),
      "r"(a), "r"(b)
      : "memory");
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_WGMMA_CUH_
