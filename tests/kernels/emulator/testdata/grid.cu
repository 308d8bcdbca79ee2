// CTAs that meet in global memory: the last one to come sums what all have
// written. One kernel is right, the others lack one thing each.
__device__ int counter;

template <bool kRelease, bool kAcquire, bool kBarrier>
__device__ inline void SumCtas(const int* a, int* c) {
  __shared__ int is_last;
  const int at = blockIdx.x * 64 + threadIdx.x;
  c[1 + at] = a[at];  // FAULT partial
  if (kRelease) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  if (kBarrier) __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(&counter, 1) == gridDim.x - 1;
  __syncthreads();
  if (is_last == 0) return;
  if (kAcquire) asm volatile("fence.acq_rel.gpu;" ::: "memory");
  int sum = 0;
  for (int i = threadIdx.x; i < gridDim.x * 64; i += 64) {
    sum += c[1 + i];  // FAULT sum
  }
  c[1 + threadIdx.x + gridDim.x * 64] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    int total = 0;
    for (int i = 0; i < 64; ++i) total += c[1 + i + gridDim.x * 64];
    c[0] = total;
    counter = 0;
  }
}

extern "C" __global__ void sum_ctas(const int* a, int* c) {
  SumCtas<true, true, true>(a, c);
}
extern "C" __global__ void no_release(const int* a, int* c) {
  SumCtas<false, true, true>(a, c);
}
extern "C" __global__ void no_acquire(const int* a, int* c) {
  SumCtas<true, false, true>(a, c);
}
extern "C" __global__ void no_barrier(const int* a, int* c) {
  SumCtas<true, true, false>(a, c);
}
extern "C" __global__ void release_acquire(const int* a, int* c) {
  __shared__ int is_last;
  const int at = blockIdx.x * 64 + threadIdx.x;
  c[1 + at] = a[at];
  __syncthreads();
  if (threadIdx.x == 0) {
    int old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(old)
                 : "l"(&counter)
                 : "memory");
    is_last = old == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last == 0 || threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < gridDim.x * 64; ++i) sum += c[1 + i];
  c[0] = sum;
}
extern "C" __global__ void same_element(const int* a, int* c) {
  c[1 + threadIdx.x] = a[threadIdx.x];  // FAULT same_element
}
extern "C" __global__ void warps_race(const int* a, int* c) {
  c[1 + threadIdx.x] = a[threadIdx.x];  // FAULT warps_race_store
  c[65 + threadIdx.x] = c[1 + (threadIdx.x ^ 32)] + 1;  // FAULT warps_race_load
}
// Members that do not agree on who takes part.
extern "C" __global__ void members_differ(const int* a, int* c) {
  const unsigned members = (threadIdx.x & 1) != 0 ? ~0u : ~0u >> 1;
  c[threadIdx.x] = __shfl_sync(members, a[threadIdx.x], 0);  // FAULT members_differ
}
