// mbarriers (SM90) and named barriers, one wrapper per instruction.
#ifndef HONE_DEVICE_PTX_MBARRIER_CUH_
#define HONE_DEVICE_PTX_MBARRIER_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

__device__ __forceinline__ void MbarrierInit(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}

// Shows initialized mbarriers to the cluster and to the copy engine.
__device__ __forceinline__ void MbarrierInitFence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and expects `bytes` of copies in this phase.
__device__ __forceinline__ void MbarrierExpect(u32 barrier, u32 bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

// Arrives where `condition` holds. A branch around it would end a basic block
// between wgmmas, and ptxas serializes those (C7513).
__device__ __forceinline__ void MbarrierArriveIf(u32 barrier, bool condition) {
  asm volatile(
      "{\n.reg .pred p;\n"
      "setp.ne.b32 p, %1, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n}" ::"r"(barrier),
      "r"(static_cast<u32>(condition))
      : "memory");
}

// The same at the same mbarrier of the cluster's CTA `rank`. Orders nothing but
// the CTA's own accesses: a release at the cluster's scope is a fence of all of
// the GPU's memory, and what is signalled here, that something has been read,
// needs none.
__device__ __forceinline__ void MbarrierArriveAtIf(u32 barrier, u32 rank,
                                                   bool condition) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b32 there;\n"
      "setp.ne.b32 p, %2, 0;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "@p mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
      "r"(rank), "r"(static_cast<u32>(condition))
      : "memory");
}

// Waits for the end of the phase of this parity. Phases count from 0; the one
// before the first has parity 1 and has ended.
__device__ __forceinline__ void MbarrierWait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A barrier of `threads` of the CTA's threads.
__device__ __forceinline__ void NamedBarrierSync(u32 barrier, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Counts the warp's threads without waiting for the others.
__device__ __forceinline__ void NamedBarrierArrive(u32 barrier, u32 threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_MBARRIER_CUH_
