// Kernels that each do one thing wrong, on the line marked FAULT. All run with
// 64 threads unless a test says otherwise.
#include <cstdint>

__device__ inline uint32_t Shared(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline void Copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(Shared(to)),
               "l"(from)
               : "memory");
}
__device__ inline void Commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int n>
__device__ inline void Wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

extern "C" __global__ void read_past_end(const int* a, int* c) {
  c[threadIdx.x] = a[threadIdx.x + 1];  // FAULT read_past_end
}

extern "C" __global__ void write_past_end(const int* a, int* c) {
  const int x = a[threadIdx.x];
  c[threadIdx.x + 1] = x;  // FAULT write_past_end
}

extern "C" __global__ void write_before_start(const int* a, int* c) {
  const int x = a[threadIdx.x];
  c[static_cast<int>(threadIdx.x) - 1] = x;  // FAULT write_before_start
}

extern "C" __global__ void write_read_only(int* a, int* c) {
  c[threadIdx.x] = 1;
  a[threadIdx.x] = 2;  // FAULT write_read_only
}

extern "C" __global__ void read_uninitialized_buffer(const int* a, int* c) {
  int sum = a[threadIdx.x];
  if (threadIdx.x != 7) c[threadIdx.x] = sum;
  sum += c[threadIdx.x];  // FAULT read_uninitialized_buffer
  c[threadIdx.x] = sum;
}

extern "C" __global__ void misaligned(const char* a, int* c) {
  c[threadIdx.x] = *reinterpret_cast<const int*>(a + 2);  // FAULT misaligned
}

extern "C" __global__ void misaligned_vector(const int* a, int* c) {
  const int4 v = *reinterpret_cast<const int4*>(a + 2);  // FAULT misaligned_vector
  c[threadIdx.x] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void shared_past_end(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  smem[threadIdx.x + 1] = a[threadIdx.x];  // FAULT shared_past_end
  __syncthreads();
  c[threadIdx.x] = smem[threadIdx.x];
}

extern "C" __global__ void uninitialized_shared(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  if (threadIdx.x != 9) smem[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  c[threadIdx.x] = smem[threadIdx.x];  // FAULT uninitialized_shared
}

extern "C" __global__ void missing_barrier(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  smem[threadIdx.x] = 0;
  __syncthreads();
  smem[threadIdx.x] = a[threadIdx.x];  // FAULT missing_barrier_store
  c[threadIdx.x] = smem[63 - threadIdx.x];  // FAULT missing_barrier_load
}

extern "C" __global__ void write_after_read(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  smem[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  const int x = smem[63 - threadIdx.x];  // FAULT write_after_read_load
  smem[threadIdx.x] = x + 1;  // FAULT write_after_read_store
  __syncthreads();
  c[threadIdx.x] = smem[threadIdx.x];
}

extern "C" __global__ void conflicting_store(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  if (threadIdx.x < 32) smem[threadIdx.x / 2] = a[threadIdx.x];  // FAULT conflicting_store
  __syncthreads();
  c[threadIdx.x] = smem[0];
}

extern "C" __global__ void missing_wait(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  if (threadIdx.x < 16) Copy16(smem + 4 * threadIdx.x, a + 4 * threadIdx.x);
  Commit();
  __syncthreads();
  c[threadIdx.x] = smem[threadIdx.x];  // FAULT missing_wait
}

extern "C" __global__ void lax_wait(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  if (threadIdx.x < 16) Copy16(smem + 4 * threadIdx.x, a + 4 * threadIdx.x);
  Commit();
  if (threadIdx.x < 16) {
    Copy16(smem + 64 + 4 * threadIdx.x, a + 4 * threadIdx.x);
  }
  Commit();
  Wait<1>();
  __syncthreads();
  const int x = smem[threadIdx.x];
  c[threadIdx.x] = x + smem[64 + threadIdx.x];  // FAULT lax_wait
}

extern "C" __global__ void wait_without_barrier(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  Copy16(smem + 4 * threadIdx.x, a + 4 * (threadIdx.x % 16));
  Commit();
  Wait<0>();
  c[threadIdx.x] = smem[4 * (63 - threadIdx.x)];  // FAULT wait_without_barrier
}

// One warp only: the lanes still need a __syncwarp() after the wait.
extern "C" __global__ void wait_without_syncwarp(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  Copy16(smem + 4 * threadIdx.x, a + 4 * (threadIdx.x % 16));
  Commit();
  Wait<0>();
  c[threadIdx.x] = smem[4 * (31 - threadIdx.x)];  // FAULT wait_without_syncwarp
}

extern "C" __global__ void overwrite_copy(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  Copy16(smem + 4 * threadIdx.x, a + 4 * (threadIdx.x % 16));
  Commit();
  smem[4 * threadIdx.x] = 1;  // FAULT overwrite_copy
  Wait<0>();
  c[threadIdx.x] = smem[4 * threadIdx.x];
}

extern "C" __global__ void divergent_barrier(const int* a, int* c) {
  if (a[threadIdx.x] != 0) {
    c[threadIdx.x] = 1;
    __syncthreads();  // FAULT divergent_barrier
  }
  c[threadIdx.x] = 2;
}

extern "C" __global__ void deadlock(const int* a, int* c) {
  if (threadIdx.x < 32) {
    __syncthreads();  // FAULT deadlock
    c[threadIdx.x] = a[threadIdx.x];
  }
}

extern "C" __global__ void wrong_count(const int* a, int* c) {
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");  // FAULT wrong_count_a
  } else {
    asm volatile("bar.sync 1, 32;" ::: "memory");  // FAULT wrong_count_b
  }
  c[threadIdx.x] = a[threadIdx.x];
}

extern "C" __global__ void divergent_shuffle(const int* a, int* c) {
  int x = a[threadIdx.x];
  if (x != 0) {
    x = __shfl_xor_sync(0xffffffff, x, 1);  // FAULT divergent_shuffle
  }
  c[threadIdx.x] = x;
}

extern "C" __global__ void divergent_ldmatrix(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  smem[threadIdx.x % 32] = a[threadIdx.x];
  __syncwarp();
  uint32_t x = 0;
  if (a[threadIdx.x] != 0) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(x)
                 : "r"(Shared(smem)));  // FAULT divergent_ldmatrix
  }
  c[threadIdx.x] = x;
}

extern "C" __global__ void divergent_mma(const int* a, int* c) {
  float d[4] = {};
  const uint32_t x = a[threadIdx.x];
  if (x != 0) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4}, {%4}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(x));  // FAULT divergent_mma
  }
  c[threadIdx.x] = static_cast<int>(d[0]);
}

extern "C" __global__ void endless(volatile int* a, int* c) {
  while (a[threadIdx.x] == 1) {  // FAULT endless
  }
  c[threadIdx.x] = 1;
}

extern "C" __global__ void traps(const int* a, int* c) {
  if (a[threadIdx.x] == 1) __trap();  // FAULT traps
  c[threadIdx.x] = 1;
}
