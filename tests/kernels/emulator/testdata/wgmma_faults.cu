// wgmma used wrongly, each kernel in one way; the line marked FAULT is where it
// must be stopped. Each computes an m64n8k16 product of float16 matrices, A
// from shared memory or registers.
typedef unsigned int u32;
typedef unsigned long long u64;

extern __shared__ __align__(1024) u32 s[];

__device__ __forceinline__ u64 Descriptor(u32 offset) {
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(s)) + offset;
  return u64{address >> 4} | u64{8} << 16 | u64{16} << 32;
}
__device__ __forceinline__ void Fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void Commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void Wait() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ __forceinline__ void Pin(float (&d)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
__device__ __forceinline__ void Mma(float (&d)[4], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, "
      "1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
}
__device__ __forceinline__ void MmaRegisters(float (&d)[4], u32 (&a)[4], u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void MmaOtherShape(float (&d)[4], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3}, %4, %5, "
      "1, 1, 1;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b));
}
// A (2048 bytes) and B (256 bytes at 2048) from the input.
__device__ __forceinline__ void Fill(const u32* in) {
  for (int i = threadIdx.x; i < 576; i += blockDim.x) s[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}
__device__ __forceinline__ void Store(const float (&d)[4], float* out) {
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}

extern "C" __global__ void right(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  Pin(d);
  Fence();
  Mma(d, Descriptor(0), Descriptor(2048));
  Commit();
  Wait();
  Pin(d);
  Store(d, out);
}
// A move of an accumulator in flight only renames it.
extern "C" __global__ void renamed(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  float other = 0;
  Pin(d);
  Fence();
  asm volatile(
      "{\n"
      ".reg .f32 moved;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %5, %6, "
      "1, 1, 1, 0, 0;\n"
      "wgmma.commit_group.sync.aligned;\n"
      "mov.f32 moved, %0;\n"
      "wgmma.wait_group.sync.aligned 0;\n"
      "mov.f32 %4, moved;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(other)
      : "l"(Descriptor(0)), "l"(Descriptor(2048))
      : "memory");
  d[0] = other;
  Store(d, out);
}
extern "C" __global__ void overwritten_accumulator(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  Pin(d);
  Fence();
  Mma(d, Descriptor(0), Descriptor(2048));  // FAULT overwritten_mma
  Commit();
  asm volatile("mov.f32 %0, %1;" : "+f"(d[0]) : "f"(static_cast<float>(in[0])) : "memory");  // FAULT overwritten_accumulator
  Wait();
  Store(d, out);
}
extern "C" __global__ void touched_operand(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  u32 a[4] = {in[threadIdx.x], in[128 + threadIdx.x], in[256 + threadIdx.x],
              in[384 + threadIdx.x]};
  Pin(d);
  for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a[i])::"memory");
  Fence();
  MmaRegisters(d, a, Descriptor(2048));  // FAULT touched_mma
  Commit();
  a[2] += 1;  // FAULT touched_operand
  asm volatile("" : "+r"(a[2])::"memory");
  Wait();
  Pin(d);
  Fence();
  MmaRegisters(d, a, Descriptor(2048));
  Commit();
  Wait();
  Pin(d);
  Store(d, out);
}
extern "C" __global__ void operand_after_fence(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  Pin(d);
  Fence();
  u32 a[4] = {in[threadIdx.x], in[128 + threadIdx.x], in[256 + threadIdx.x],
              in[384 + threadIdx.x]};
  for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a[i])::"memory");
  MmaRegisters(d, a, Descriptor(2048));  // FAULT operand_after_fence
  Commit();
  Wait();
  Pin(d);
  Store(d, out);
}
extern "C" __global__ void other_shape(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  Pin(d);
  Fence();
  Mma(d, Descriptor(0), Descriptor(2048));
  MmaOtherShape(d, Descriptor(0), Descriptor(2048));  // FAULT other_shape
  Commit();
  Wait();
  Pin(d);
  Store(d, out);
}
extern "C" __global__ void stored_operand(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  Pin(d);
  Fence();
  Mma(d, Descriptor(0), Descriptor(2048));  // FAULT stored_operand_mma
  Commit();
  if (threadIdx.x == 5) s[512] = 0;  // FAULT stored_operand
  Wait();
  Pin(d);
  Store(d, out);
}
// The store comes after a wait, but of another warp.
extern "C" __global__ void stored_by_another(const u32* in, float* out) {
  Fill(in);
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) s[512] = 0;  // FAULT stored_by_another
    return;
  }
  float d[4] = {};
  Pin(d);
  Fence();
  Mma(d, Descriptor(0), Descriptor(2048));  // FAULT stored_by_another_mma
  Commit();
  Wait();
  Pin(d);
  Store(d, out);
}
extern "C" __global__ void not_waited(const u32* in, float*) {
  Fill(in);
  float d[4] = {};
  Pin(d);
  Fence();
  Mma(d, Descriptor(0), Descriptor(2048));
  Commit();  // FAULT not_waited
}
extern "C" __global__ void out_of_bounds(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  Pin(d);
  Fence();
  Mma(d, Descriptor(0), Descriptor(4096));  // FAULT out_of_bounds
  Commit();
  Wait();
  Pin(d);
  Store(d, out);
}
extern "C" __global__ void one_warp_missing(const u32* in, float* out) {
  Fill(in);
  if (threadIdx.x >= 96) return;
  float d[4] = {};
  Pin(d);
  Fence();
  Mma(d, Descriptor(0), Descriptor(2048));  // FAULT one_warp_missing
  Commit();
  Wait();
  Pin(d);
  Store(d, out);
}
extern "C" __global__ void other_instruction(const u32* in, float* out) {
  Fill(in);
  float d[4] = {};
  Pin(d);
  Fence();
  if (threadIdx.x < 64) {
    Mma(d, Descriptor(0), Descriptor(2048));
  } else {
    Mma(d, Descriptor(0), Descriptor(2048));
  }
  Commit();
  Wait();
  Pin(d);
  Store(d, out);
}
