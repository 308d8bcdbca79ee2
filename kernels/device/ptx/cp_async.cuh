// cp.async (SM80): copies from global to shared memory that bypass registers.
#ifndef HONE_DEVICE_PTX_CP_ASYNC_CUH_
#define HONE_DEVICE_PTX_CP_ASYNC_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

// kBytes is 4, 8 or 16. With `valid` false nothing is read and the
// destination is filled with zeros; `source` must still be a legal address.
template <int kBytes>
__device__ __forceinline__ void CopyAsync(u32 shared, const void* source,
                                          bool valid) {
  const u32 size = valid ? kBytes : 0;
  if constexpr (kBytes == 16) {
    // .cg: past the L1, which a stream only pollutes.
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared),
                 "l"(source), "r"(size)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(shared),
                 "l"(source), "r"(size), "n"(kBytes)
                 : "memory");
  }
}

// The same without a predicate.
__device__ __forceinline__ void CopyAsync16(u32 shared, const void* source) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared),
               "l"(source)
               : "memory");
}

__device__ __forceinline__ void CopyAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kPending of this thread's groups are in flight.
template <int kPending>
__device__ __forceinline__ void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Arrives at an mbarrier (SM90) when all of this thread's copies so far have
// landed; one of the arrivals that it was initialized for.
__device__ __forceinline__ void CopyAsyncArrive(u32 barrier) {
  asm volatile(
      "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier)
      : "memory");
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_CP_ASYNC_CUH_
