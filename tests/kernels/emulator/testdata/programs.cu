// Correct kernels: control flow, warp exchanges, barriers, atomics and memory.
#include <cstdint>

// Loops and branches that diverge lane by lane.
extern "C" __global__ void collatz(const int* a, int* c) {
  int x = a[threadIdx.x], steps = 0;
  while (x != 1) {
    if (x % 2 == 0) {
      x /= 2;
    } else {
      x = 3 * x + 1;
      if (x > 100000) break;
    }
    ++steps;
  }
  const int all = __reduce_add_sync(0xffffffff, steps);  // converged again
  c[threadIdx.x] = steps + 1000 * (threadIdx.x % 32 == 0 ? all : 0);
}

extern "C" __global__ void switches(const int* a, int* c) {
  int x = a[threadIdx.x];
  switch (x) {
    case 0: x = 17; break;
    case 1: x = x * 31 + threadIdx.x; break;
    case 2: x = -5; break;
    case 3: x = x << threadIdx.x % 8; break;
    case 4: x ^= 0x55; break;
    case 5: x = 900 / (int)(threadIdx.x + 1); break;
    default: x = 1;
  }
  c[threadIdx.x] = x + __popc(__ballot_sync(0xffffffff, x > 0));
}

extern "C" __global__ void early_return(const int* a, int* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  c[i] = 2 * a[i];
}

// A block-wide sum through shuffles and static and dynamic shared memory.
extern "C" __global__ void block_sum(const int* a, int* c) {
  __shared__ int partial[32];
  extern __shared__ __align__(16) int smem[];
  int x = a[blockIdx.x * blockDim.x + threadIdx.x];
  smem[threadIdx.x] = x;
  for (int offset = 16; offset > 0; offset /= 2) {
    x += __shfl_down_sync(0xffffffff, x, offset);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
    for (int offset = 16; offset > 0; offset /= 2) {
      x += __shfl_xor_sync(0xffffffff, x, offset);
    }
    if (threadIdx.x == 0) c[blockIdx.x] = x + 0 * smem[blockDim.x - 1];
  }
}

// Warps hand over through named barriers: 0 produces, 1 consumes.
extern "C" __global__ void producer_consumer(const int* a, int* c) {
  extern __shared__ __align__(16) int smem[];
  const int lane = threadIdx.x % 32;
  for (int i = 0; i < 8; ++i) {
    if (threadIdx.x < 32) {
      if (i > 0) asm volatile("bar.sync 2, 64;" ::: "memory");
      smem[lane] = a[lane] + i;
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      c[32 * i + lane] = smem[31 - lane];
      if (i < 7) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
}

// The last CTA to arrive adds up what the others left: split-K's pattern.
extern "C" __global__ void last_arriver(const int* a, int* c, int* workspace) {
  __shared__ int last;
  const int n = blockDim.x;
  int* slots = workspace + 64;
  slots[blockIdx.x * n + threadIdx.x] = a[blockIdx.x * n + threadIdx.x];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(workspace, 1) == (int)gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  int sum = 0;
  for (int i = 0; i < (int)gridDim.x; ++i) {
    sum += __ldcg(slots + i * n + threadIdx.x);
  }
  c[threadIdx.x] = sum;
  if (threadIdx.x == 0) workspace[0] = 0;
}

extern "C" __global__ void votes(const int* a, int* c) {
  const int x = a[threadIdx.x];
  const int many = __syncthreads_count(x > 2);
  const int all = __syncthreads_and(x >= 0);
  const int any = __syncthreads_or(x > 6);
  const unsigned same = __match_any_sync(0xffffffff, x);
  c[threadIdx.x] = many + 100 * all + 1000 * any + (__popc(same) << 16);
}

// Local memory, constant tables and module variables.
__constant__ uint8_t table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ int counters[4] = {10, 20, 30, 40};
extern "C" __global__ void tables(const int* a, int* c) {
  int local[16];
  for (int i = 0; i < 16; ++i) local[(i * 7 + a[threadIdx.x]) % 16] = table[i];
  int x = 0;
  for (int i = 0; i < 16; ++i) x = x * 3 + local[(i + a[(threadIdx.x + 1) % 64]) % 16];
  atomicAdd(&counters[threadIdx.x % 4], 1);
  __syncthreads();
  c[threadIdx.x] = x + counters[threadIdx.x % 4];
}

extern "C" __global__ void shared_atomics(const int* a, int* c) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[a[threadIdx.x] & 7], 1);
  atomicMax(&bins[7], a[threadIdx.x]);
  __syncthreads();
  c[threadIdx.x] = bins[threadIdx.x % 8];
}

// Half-full copies: the rest of the 16 bytes is zeros.
extern "C" __global__ void zero_fill(const int* a, int* c, int n) {
  extern __shared__ __align__(16) int smem[];
  const int first = 4 * threadIdx.x;
  const int bytes = max(0, min(16, 4 * (n - first)));
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(smem + first));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to),
               "l"(a + first), "r"(bytes)
               : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  for (int i = 0; i < 4; ++i) c[first + i] = smem[first + i];
}
