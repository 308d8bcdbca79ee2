// Clusters, register pools and dependent launches: kernels that are right, and
// kernels that each do one thing wrong, on the line marked FAULT. All take two
// CTAs per cluster and 64 threads, unless a test says otherwise.
#include <cstdint>

__device__ inline uint32_t Rank() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ inline uint32_t Size() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
  return r;
}
__device__ inline uint32_t Mapped(const void* p, uint32_t rank) {
  uint32_t out;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(out)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(p))),
                 "r"(rank));
  return out;
}
__device__ inline int Load(uint32_t address) {
  int x;
  asm volatile("ld.shared::cluster.u32 %0, [%1];"
               : "=r"(x)
               : "r"(address)
               : "memory");
  return x;
}
__device__ inline void Store(uint32_t address, int x) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(x)
               : "memory");
}
__device__ inline void Arrive() {
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}
__device__ inline void ArriveRelaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void Wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ inline void Sync() {
  Arrive();
  Wait();
}

extern "C" __global__ void exchange(const int* a, int* c) {
  __shared__ int tile[64];
  __shared__ int sum;
  const uint32_t next = (Rank() + 1) % Size();
  const int at = blockIdx.x * 64 + threadIdx.x;
  tile[threadIdx.x] = a[at];
  if (threadIdx.x == 0) sum = 0;
  Sync();
  const int x = Load(Mapped(&tile[63 - threadIdx.x], next));
  // The same by a generic address, and with atomics.
  uint64_t generic;
  asm volatile("mapa.u64 %0, %1, %2;"
               : "=l"(generic)
               : "l"(&tile[threadIdx.x]), "r"(next));
  const int y = *reinterpret_cast<volatile int*>(generic);
  uint32_t of;
  asm volatile("getctarank.u64 %0, %1;" : "=r"(of) : "l"(generic));
  asm volatile("red.shared::cluster.add.u32 [%0], %1;" ::"r"(
                   Mapped(&sum, next)),
               "r"(y)
               : "memory");
  Sync();
  c[at] = x * 1000 + sum + static_cast<int>(of);
}

extern "C" __global__ void indices(const int* a, int* c) {
  uint32_t x, y, nx, ny, id, ny_clusters;
  asm volatile("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(x));
  asm volatile("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(y));
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(nx));
  asm volatile("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(ny));
  asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(id));
  asm volatile("mov.u32 %0, %%nclusterid.y;" : "=r"(ny_clusters));
  uint32_t is_explicit;
  asm volatile(
      "{.reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, "
      "p;}"
      : "=r"(is_explicit));
  if (threadIdx.x == 0) {
    c[blockIdx.y * gridDim.x + blockIdx.x] =
        Rank() + 10 * x + 100 * y + 1000 * nx + 10000 * ny + 100000 * id +
        1000000 * ny_clusters + 10000000 * is_explicit + a[0];
  }
}

// A warp of rank 1 writes what rank 0 reads without a barrier in between.
extern "C" __global__ void race(const int* a, int* c) {
  __shared__ int tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  Sync();
  if (Rank() == 1) {
    Store(Mapped(&tile[threadIdx.x], 0), 7);  // FAULT race_store
  } else {
    c[threadIdx.x] = tile[threadIdx.x];  // FAULT race_load
  }
  Sync();
}

// The barrier is arrived at, but nobody waits before the data is used.
extern "C" __global__ void missing_cluster_wait(const int* a, int* c) {
  __shared__ int tile[64];
  Sync();
  tile[threadIdx.x] = a[threadIdx.x];
  Arrive();
  const int x = Load(Mapped(&tile[threadIdx.x], 1 - Rank()));  // FAULT missing_cluster_wait
  Wait();
  c[blockIdx.x * 64 + threadIdx.x] = x;
  Sync();
}

// A relaxed arrival publishes nothing.
extern "C" __global__ void relaxed_arrival(const int* a, int* c) {
  __shared__ int tile[64];
  Sync();
  tile[threadIdx.x] = a[threadIdx.x];
  ArriveRelaxed();
  Wait();
  c[blockIdx.x * 64 + threadIdx.x] =
      Load(Mapped(&tile[threadIdx.x], 1 - Rank()));  // FAULT relaxed_arrival
  Sync();
}

extern "C" __global__ void unstarted_peer(const int* a, int* c) {
  __shared__ int tile[64];
  Store(Mapped(&tile[threadIdx.x], 1 - Rank()), a[threadIdx.x]);  // FAULT unstarted_peer
  Sync();
  c[blockIdx.x * 64 + threadIdx.x] = tile[threadIdx.x];
}

// The last read races with the exit of the CTA that is read.
extern "C" __global__ void early_exit(const int* a, int* c) {
  __shared__ int tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  Sync();
  c[blockIdx.x * 64 + threadIdx.x] = Load(Mapped(&tile[threadIdx.x], 1 - Rank()));  // FAULT early_exit
}

extern "C" __global__ void past_peer(const int* a, int* c) {
  __shared__ int tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  Sync();
  Store(Mapped(&tile[threadIdx.x], 1 - Rank()) + 4, 1);  // FAULT past_peer
  Sync();
  c[blockIdx.x * 64 + threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void no_such_rank(const int* a, int* c) {
  __shared__ int tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  Sync();
  c[threadIdx.x] = Load(Mapped(&tile[threadIdx.x], 2));  // FAULT no_such_rank
}

// shared::cta instructions do not take addresses of other CTAs.
extern "C" __global__ void wrong_window(const int* a, int* c) {
  __shared__ int tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  Sync();
  int x;
  asm volatile("ld.shared::cta.u32 %0, [%1];" : "=r"(x) : "r"(Mapped(tile, 1 - Rank())) : "memory");  // FAULT wrong_window
  c[threadIdx.x] = x;
  Sync();
}

extern "C" __global__ void arrive_twice(const int* a, int* c) {
  Arrive();
  Arrive();  // FAULT arrive_twice
  Wait();
  c[threadIdx.x] = a[threadIdx.x];
}

extern "C" __global__ void wait_first(const int* a, int* c) {
  Wait();  // FAULT wait_first
  c[threadIdx.x] = a[threadIdx.x];
}

extern "C" __global__ void cluster_deadlock(const int* a, int* c) {
  __shared__ int tile[64];
  tile[threadIdx.x] = a[threadIdx.x];
  if (Rank() == 0) {
    Sync();  // FAULT cluster_deadlock
  } else if (threadIdx.x >= 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");
  }
  c[threadIdx.x] = tile[threadIdx.x];
}

// Three warpgroups, 168 registers per thread: a producer gives to consumers.
template <int dec, int inc>
__device__ inline void Reallocate(const int* a, int* c) {
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(dec));
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(inc));
  }
  c[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(384, 1)
    registers_fit(const int* a, int* c) {
  Reallocate<24, 240>(a, c);
}
extern "C" __global__ void __launch_bounds__(384, 1)
    registers_short(const int* a, int* c) {
  Reallocate<80, 224>(a, c);
}
extern "C" __global__ void registers_uncapped(const int* a, int* c) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  c[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(128, 1)
    registers_wrong_way(const int* a, int* c) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 40;");
  c[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(128, 1)
    registers_split(const int* a, int* c) {
  if (threadIdx.x < 64) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 48;");
  }
  c[threadIdx.x] = a[threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(128, 1)
    registers_one_warp(const int* a, int* c) {
  if (threadIdx.x < 32) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  c[threadIdx.x] = a[threadIdx.x];
}

extern "C" __global__ void dependent(const int* a, int* c) {
  __shared__ int flag;
  if (threadIdx.x < 32) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    flag = 1;
  }
  __syncthreads();
  c[threadIdx.x] = a[threadIdx.x] + flag;
  asm volatile("griddepcontrol.launch_dependents;");
}
extern "C" __global__ void missing_dependency_wait(const int* a, int* c) {
  if (threadIdx.x < 32) asm volatile("griddepcontrol.wait;" ::: "memory");
  c[threadIdx.x] = a[threadIdx.x];  // FAULT missing_dependency_wait
}

// Producers arrive at barrier 1, a consumer waits there; then the other way
// round at barrier 2.
template <int count>
__device__ inline void HandOver(const int* a, int* c) {
  __shared__ int tile[64];
  const bool consumer = threadIdx.x >= 64;
  for (int i = 0; i < 3; ++i) {
    if (consumer) {
      asm volatile("barrier.cta.sync.aligned 1, 96;" ::: "memory");
      c[threadIdx.x - 64] = tile[threadIdx.x - 64] + tile[threadIdx.x - 32];
      asm volatile("barrier.cta.arrive.aligned 2, 96;" ::: "memory");
    } else {
      if (i > 0) asm volatile("barrier.cta.sync.aligned 2, 96;" ::: "memory");
      tile[threadIdx.x] = a[threadIdx.x] + i;  // FAULT hand_over
      asm volatile("barrier.cta.arrive.aligned 1, %0;" ::"n"(count) : "memory");  // FAULT wrong_arrival
    }
  }
}
extern "C" __global__ void hand_over(const int* a, int* c) {
  HandOver<96>(a, c);
}
extern "C" __global__ void wrong_arrival_count(const int* a, int* c) {
  HandOver<64>(a, c);
}
extern "C" __global__ void barrier_reductions(const int* a, int* c) {
  const int odd = a[threadIdx.x] & 1;
  uint32_t count, all, any;
  asm volatile(
      "{.reg .pred p, q; setp.ne.s32 p, %3, 0;\n"
      "barrier.cta.red.popc.aligned.u32 %0, 3, p;\n"
      "barrier.cta.red.and.aligned.pred q, 3, !p; selp.u32 %1, 1, 0, q;\n"
      "barrier.cta.red.or.aligned.pred q, 3, 64, p; selp.u32 %2, 1, 0, q;}"
      : "=r"(count), "=r"(all), "=r"(any)
      : "r"(odd)
      : "memory");
  c[threadIdx.x] = count + 100 * all + 1000 * any;
}
extern "C" __global__ void mixed_barrier(const int* a, int* c) {
  uint32_t any = 1;
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");  // FAULT mixed_barrier_sync
  } else {
    asm volatile("{.reg .pred p; setp.ne.s32 p, %1, 0;\n" "bar.red.or.pred p, 1, 64, p; selp.u32 %0, 1, 0, p;}" : "=r"(any) : "r"(a[threadIdx.x]) : "memory");  // FAULT mixed_barrier_red
  }
  c[threadIdx.x] = any;
}
