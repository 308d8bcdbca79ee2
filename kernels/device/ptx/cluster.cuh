// Clusters of CTAs (SM90), one wrapper per instruction.
#ifndef HONE_DEVICE_PTX_CLUSTER_CUH_
#define HONE_DEVICE_PTX_CLUSTER_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone::ptx {

__device__ __forceinline__ u32 ClusterRank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// A barrier of all threads of the cluster. The relaxed arrival publishes
// nothing that the thread has written, which takes a microsecond less.
__device__ __forceinline__ void ClusterArrive() {
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}
__device__ __forceinline__ void ClusterArriveRelaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void ClusterWait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

}  // namespace hone::ptx

#endif  // HONE_DEVICE_PTX_CLUSTER_CUH_
