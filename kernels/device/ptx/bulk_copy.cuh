// The copy engine's instructions (SM90): bulk and tensor copies from global to
// shared memory that complete on an mbarrier. One thread issues each.
#ifndef HONE_DEVICE_PTX_BULK_COPY_CUH_
#define HONE_DEVICE_PTX_BULK_COPY_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone {

// What the host's driver made of a tensor's description.
struct alignas(64) TensorMap {
  u8 bytes[128];
};

namespace ptx {

// An L2 policy: the lines read are the first to leave.
__device__ __forceinline__ u64 EvictFirst() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ u64 EvictNormal() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_normal.b64 %0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ void PrefetchTensorMap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// `bytes`, and both addresses, are multiples of 16.
__device__ __forceinline__ void BulkCopy(u32 shared, const void* global,
                                         u32 bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared),
      "l"(global), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// From shared memory to address `target` of the cluster's CTA `rank`,
// completing on the mbarrier at `barrier` there.
__device__ __forceinline__ void BulkCopyToCluster(u32 target, u32 rank,
                                                  u32 source, u32 bytes,
                                                  u32 barrier) {
  asm volatile(
      "{\n.reg .b32 to, done;\n"
      "mapa.shared::cluster.u32 to, %0, %4;\n"
      "mapa.shared::cluster.u32 done, %3, %4;\n"
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[to], [%1], %2, [done];\n}" ::"r"(target),
      "r"(source), "r"(bytes), "r"(barrier), "r"(rank)
      : "memory");
}

// Shows what the thread has written to shared memory to the copy engine.
__device__ __forceinline__ void AsyncProxyFence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The box whose first element has these coordinates, the innermost first.
__device__ __forceinline__ void TensorCopy2(u32 shared, const TensorMap* map,
                                            u32 barrier, int x, int y,
                                            u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4}], "
      "[%2], %5;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "l"(policy)
      : "memory");
}
__device__ __forceinline__ void TensorCopy3(u32 shared, const TensorMap* map,
                                            u32 barrier, int x, int y, int z,
                                            u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5}], "
      "[%2], %6;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy)
      : "memory");
}

// To the same place of every CTA of the cluster whose bit of `mask` is set,
// completing on the mbarrier at the same place of each.
__device__ __forceinline__ void TensorMulticast2(u32 shared,
                                                 const TensorMap* map,
                                                 u32 barrier, int x, int y,
                                                 u16 mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4}], [%2], %5;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask)
      : "memory");
}
__device__ __forceinline__ void TensorMulticast3(u32 shared,
                                                 const TensorMap* map,
                                                 u32 barrier, int x, int y,
                                                 int z, u16 mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask)
      : "memory");
}

}  // namespace ptx
}  // namespace hone

#endif  // HONE_DEVICE_PTX_BULK_COPY_CUH_
