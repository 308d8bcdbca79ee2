// Special registers, barriers and plain memory accesses: one wrapper per
// instruction. Inline PTX lives only in this folder.
#ifndef HONE_DEVICE_PTX_CORE_CUH_
#define HONE_DEVICE_PTX_CORE_CUH_

// The architecture whose instructions are used, compute capability × 10: units
// that are rendered for a device say it, and may be compiled for a newer one.
#ifndef HONE_SM_ARCH
#define HONE_SM_ARCH (__CUDA_ARCH__ / 10)
#endif

namespace hone {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// Four 32-bit words that move as one 16-byte access.
struct alignas(16) Words4 {
  u32 w[4];
};

namespace ptx {

__device__ __forceinline__ u32 ThreadIdX() {
  u32 value;
  asm("mov.u32 %0, %%tid.x;" : "=r"(value));
  return value;
}

__device__ __forceinline__ u32 BlockIdX() {
  u32 value;
  asm("mov.u32 %0, %%ctaid.x;" : "=r"(value));
  return value;
}

__device__ __forceinline__ u32 GridDimX() {
  u32 value;
  asm("mov.u32 %0, %%nctaid.x;" : "=r"(value));
  return value;
}

// The shared-window address of a pointer into shared memory.
__device__ __forceinline__ u32 SharedAddress(const void* pointer) {
  u32 address;
  asm("{\n.reg .u64 t;\ncvta.to.shared.u64 t, %1;\ncvt.u32.u64 %0, t;\n}"
      : "=r"(address)
      : "l"(pointer));
  return address;
}

__device__ __forceinline__ void BarrierSync() {
  asm volatile("bar.sync 0;" ::: "memory");
}

// Orders memory among the lanes of a warp.
__device__ __forceinline__ void WarpSync() {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

__device__ __forceinline__ void ThreadFence() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

__device__ __forceinline__ Words4 LoadShared16(u32 address) {
  Words4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "r"(address));
  return v;
}

__device__ __forceinline__ u32 LoadShared4(u32 address) {
  u32 v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}

__device__ __forceinline__ void LoadShared8(u32 address, u32& a, u32& b) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(a), "=r"(b)
               : "r"(address));
}

__device__ __forceinline__ u32 LoadShared2(u32 address) {
  u16 v;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(v) : "r"(address));
  return v;
}

__device__ __forceinline__ u32 LoadShared1(u32 address) {
  u32 v;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}

__device__ __forceinline__ void StoreShared4(u32 address, u32 value) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void StoreShared2(u32 address, u16 value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(value) : "memory");
}

__device__ __forceinline__ void StoreShared1(u32 address, u32 value) {
  asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void StoreShared16(u32 address, const Words4& v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
               : "memory");
}

// Data that nobody writes during the launch; the compiler may move these.
__device__ __forceinline__ u32 LoadConstant1(const void* pointer) {
  u32 v;
  asm("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"(pointer));
  return v;
}
__device__ __forceinline__ u16 LoadConstant2(const void* pointer) {
  u16 v;
  asm("ld.global.nc.b16 %0, [%1];" : "=h"(v) : "l"(pointer));
  return v;
}
__device__ __forceinline__ u32 LoadConstant4(const void* pointer) {
  u32 v;
  asm("ld.global.nc.b32 %0, [%1];" : "=r"(v) : "l"(pointer));
  return v;
}
__device__ __forceinline__ void LoadConstant8(const void* pointer, u32& a,
                                              u32& b) {
  asm("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(pointer));
}
__device__ __forceinline__ Words4 LoadConstant16(const void* pointer) {
  Words4 v;
  asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
      : "l"(pointer));
  return v;
}

// Past the L1: what other CTAs wrote in this launch.
__device__ __forceinline__ Words4 LoadGlobalL2(const void* pointer) {
  Words4 v;
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(pointer)
               : "memory");
  return v;
}

// What an earlier launch or this one wrote; issued where they stand.
__device__ __forceinline__ Words4 LoadGlobal16(const void* pointer) {
  Words4 v;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
               : "l"(pointer)
               : "memory");
  return v;
}
__device__ __forceinline__ void LoadGlobal8(const void* pointer, u32& a,
                                            u32& b) {
  asm volatile("ld.global.v2.b32 {%0, %1}, [%2];"
               : "=r"(a), "=r"(b)
               : "l"(pointer)
               : "memory");
}
__device__ __forceinline__ u32 LoadGlobal4(const void* pointer) {
  u32 v;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(v) : "l"(pointer) : "memory");
  return v;
}
__device__ __forceinline__ u32 LoadGlobal2(const void* pointer) {
  u16 v;
  asm volatile("ld.global.b16 %0, [%1];" : "=h"(v) : "l"(pointer) : "memory");
  return v;
}
__device__ __forceinline__ u32 LoadGlobal1(const void* pointer) {
  u32 v;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(pointer) : "memory");
  return v;
}

__device__ __forceinline__ void StoreGlobal16(void* pointer, const Words4& v) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(pointer),
               "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
               : "memory");
}

__device__ __forceinline__ void StoreGlobal8(void* pointer, u32 a, u32 b) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(pointer), "r"(a), "r"(b)
               : "memory");
}

__device__ __forceinline__ void StoreGlobal4(void* pointer, u32 value) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(pointer), "r"(value) : "memory");
}

__device__ __forceinline__ void StoreGlobal2(void* pointer, u16 value) {
  asm volatile("st.global.b16 [%0], %1;" ::"l"(pointer), "h"(value) : "memory");
}

__device__ __forceinline__ void StoreGlobal1(void* pointer, u32 value) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(pointer), "r"(value) : "memory");
}

__device__ __forceinline__ void AtomicMax(u32* pointer, u32 value) {
  asm volatile("red.global.max.u32 [%0], %1;" ::"l"(pointer), "r"(value)
               : "memory");
}

__device__ __forceinline__ void AtomicAdd(u32* pointer, u32 value) {
  asm volatile("red.global.add.u32 [%0], %1;" ::"l"(pointer), "r"(value)
               : "memory");
}

// Adds 1 and returns the value before.
__device__ __forceinline__ u32 AtomicIncrement(u32* pointer) {
  u32 old;
  asm volatile("atom.global.add.u32 %0, [%1], 1;"
               : "=r"(old)
               : "l"(pointer)
               : "memory");
  return old;
}

// A flag for one thread of the GPU: what the storing thread has written, or
// seen with barriers, is seen by who loads the value.
__device__ __forceinline__ void StoreRelease4(u32* pointer, u32 value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(pointer), "r"(value)
               : "memory");
}
__device__ __forceinline__ u32 LoadAcquire4(const u32* pointer) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(pointer)
               : "memory");
  return value;
}

// Make the compiler have a value ready, and not move its uses across.
__device__ __forceinline__ void Pin(u32& value) {
  asm volatile("" : "+r"(value));
}
__device__ __forceinline__ void Pin(int& value) {
  asm volatile("" : "+r"(value));
}
__device__ __forceinline__ void Pin(float& value) {
  asm volatile("" : "+f"(value));
}

}  // namespace ptx
}  // namespace hone

#endif  // HONE_DEVICE_PTX_CORE_CUH_
