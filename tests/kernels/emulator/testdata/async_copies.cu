// Small kernels around mbarriers, bulk copies and tensor copies: what they
// compute is checked by async_copy_test.cc, and those with a line marked FAULT
// must be stopped there.
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

__device__ __forceinline__ u32 Address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void Init(u64* b, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(Address(b)), "r"(count)
               : "memory");
}
__device__ __forceinline__ void Inval(u64* b) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(Address(b)) : "memory");
}
__device__ __forceinline__ u64 Arrive(u64* b, u32 count = 1) {
  u64 state;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;"
               : "=l"(state)
               : "r"(Address(b)), "r"(count)
               : "memory");
  return state;
}
__device__ __forceinline__ u64 Expect(u64* b, u32 bytes) {
  u64 state;
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
               : "=l"(state)
               : "r"(Address(b)), "r"(bytes)
               : "memory");
  return state;
}
__device__ __forceinline__ u32 TestState(u64* b, u64 state) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(Address(b)), "l"(state)
      : "memory");
  return done;
}
__device__ __forceinline__ u32 TestParity(u64* b, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(Address(b)), "r"(parity)
      : "memory");
  return done;
}
__device__ __forceinline__ void Wait(u64* b, u32 parity) {
  while (TestParity(b, parity) == 0) {
  }
}
__device__ __forceinline__ u32 Pending(u64 state) {
  u32 count;
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
  return count;
}
__device__ __forceinline__ void FenceProxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void BulkLoad(void* to, const void* from, u32 bytes, u64* b) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(Address(to)),
      "l"(from), "r"(bytes), "r"(Address(b))
      : "memory");
}
__device__ __forceinline__ void BulkStore(void* to, const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(Address(from)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void Commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void WaitRead() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void WaitAll() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Thread 0 initializes `b` for one arrival; all threads may use it then.
__device__ __forceinline__ void Setup(u64* b) {
  if (threadIdx.x == 0) {
    Init(b, 1);
    FenceProxy();
  }
  __syncthreads();
}

// --- mbarrier -----------------------------------------------------------------
extern "C" __global__ void phases(const int*, u32* out) {
  __shared__ u64 b;
  if (threadIdx.x != 0) return;
  int n = 0;
  Init(&b, 3);
  out[n++] = TestParity(&b, 1);  // the phase before the first counts as over
  out[n++] = TestParity(&b, 0);
  const u64 first = Arrive(&b);
  out[n++] = Pending(first);
  u64 state;
  asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], 1;"
               : "=l"(state)
               : "r"(Address(&b))
               : "memory");
  out[n++] = Pending(state);
  out[n++] = TestState(&b, first);
  Arrive(&b);
  out[n++] = TestState(&b, first);
  out[n++] = TestParity(&b, 0);
  out[n++] = TestParity(&b, 1);
  // One participant leaves for good.
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(Address(&b)) : "memory");
  Arrive(&b, 2);
  out[n++] = TestParity(&b, 1);
  out[n++] = Pending(Arrive(&b));  // two are expected now
  // Bytes may arrive before they are expected, and hold the phase up.
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 64;" ::"r"(Address(&b))
               : "memory");
  Arrive(&b);
  out[n++] = TestParity(&b, 0);
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 64;" ::"r"(Address(&b))
               : "memory");
  out[n++] = TestParity(&b, 0);
  // A new life at the same place.
  Inval(&b);
  Init(&b, 1);
  out[n++] = TestParity(&b, 0);
  Expect(&b, 0);
  out[n++] = TestParity(&b, 0);
}

// A ring through shared memory: each thread hands its value to the next.
extern "C" __global__ void hand_over(const u32* in, u32* out) {
  __shared__ u64 b;
  __shared__ u32 values[64];
  Setup(&b);
  if (threadIdx.x == 0) {
    Inval(&b);
    Init(&b, 64);
  }
  __syncthreads();
  for (u32 round = 0; round < 4; ++round) {
    values[threadIdx.x] = round == 0 ? in[threadIdx.x] : out[threadIdx.x];
    Arrive(&b);
    Wait(&b, 0);
    const u32 value = values[(threadIdx.x + 33) % 64];
    Arrive(&b);
    Wait(&b, 1);
    out[threadIdx.x] = value;
  }
}

extern "C" __global__ void tracked_copies(const u32* in, u32* out) {
  __shared__ __align__(16) u32 s[256];
  __shared__ u64 b[2];
  const u32 t = threadIdx.x;
  if (t == 0) {
    Init(&b[0], 64);
    Init(&b[1], 64);
  }
  __syncthreads();
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(Address(&s[t * 4])),
               "l"(in + t * 4)
               : "memory");
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(Address(&b[0]))
               : "memory");
  // Without .noinc the arrival is on top of the thread's own.
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(Address(&b[1]))
               : "memory");
#if !defined(TRACKED_NO_WAIT)
  Wait(&b[0], 0);
#endif
  out[t] = s[255 - t];  // FAULT TRACKED_NO_WAIT
  Arrive(&b[1]);
  Wait(&b[1], 0);
}

extern "C" __global__ void init_twice(const u32*, u32*) {
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) Init(&b, 1);  // FAULT init_twice
}
extern "C" __global__ void not_initialized(const u32*, u32*) {
  __shared__ u64 b;
  Arrive(&b);  // FAULT not_initialized
}
extern "C" __global__ void arrival_overflow(const u32*, u32*) {
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) Arrive(&b, 2);  // FAULT arrival_overflow
}
extern "C" __global__ void stale_state(const u32*, u32* out) {
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x != 0) return;
  const u64 state = Arrive(&b);
  Arrive(&b);
  out[0] = TestState(&b, state);  // FAULT stale_state
}
extern "C" __global__ void barrier_overwritten(const u32*, u32*) {
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) *(volatile u32*)&b = 0;  // FAULT barrier_overwritten
}
extern "C" __global__ void inval_race(const u32*, u32*) {
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) Arrive(&b);
  if (threadIdx.x == 32) {
    Wait(&b, 0);
  }
  if (threadIdx.x == 0) Inval(&b);  // FAULT inval_race
}
extern "C" __global__ void missing_arrival(const u32*, u32*) {
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) Wait(&b, 0);
  if (threadIdx.x == 32) Wait(&b, 1);
}
// A constant 0 would crash NVRTC 13.0.
extern "C" __global__ void count_of_zero(const u32* in, u32*) {
  __shared__ u64 b;
  if (threadIdx.x == 0) Init(&b, in[0]);  // FAULT count_of_zero
}

// --- bulk copies --------------------------------------------------------------
extern "C" __global__ void bulk_round(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) {
    Expect(&b, 256);
    BulkLoad(s, in, 128, &b);
    BulkLoad(s + 32, in + 32, 128, &b);
  }
  Wait(&b, 0);
  s[threadIdx.x] += 1;
  FenceProxy();
  __syncthreads();
  if (threadIdx.x == 32) {
    BulkStore(out, s, 256);
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], 256;" ::"l"(in) : "memory");
    Commit();
    WaitRead();
  }
}

// Its steps, one kernel each: where a device refuses one, the others still say
// something.
extern "C" __global__ void bulk_load(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) {
    Expect(&b, 256);
    BulkLoad(s, in, 256, &b);
  }
  Wait(&b, 0);
  out[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void bulk_prefetch(const u32* in, u32* out) {
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(in), "r"(256)
                 : "memory");
  }
  out[threadIdx.x] = in[threadIdx.x];
}
__device__ __forceinline__ void CopyShared(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(to),
      "r"(Address(from)), "r"(bytes), "r"(barrier)
      : "memory");
}
// Within the CTA, which the PTX ISA forbids.
extern "C" __global__ void bulk_copy_own(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64], t[64];
  __shared__ u64 b;
  Setup(&b);
  s[threadIdx.x] = in[threadIdx.x];
  FenceProxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    Expect(&b, 256);
    CopyShared(Address(t), s, 256, Address(&b));
  }
  Wait(&b, 0);
  out[threadIdx.x] = t[threadIdx.x];
}

// --- two CTAs -------------------------------------------------------------------
__device__ __forceinline__ u32 Rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ u32 In(u32 rank, const void* p) {
  u32 address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(Address(p)), "r"(rank));
  return address;
}
__device__ __forceinline__ void ClusterSync() {
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
// Thread 0 initializes `b` for all CTAs of the cluster, and expects bytes.
__device__ __forceinline__ void SetupCluster(u64* b, u32 bytes) {
  if (threadIdx.x == 0) {
    Init(b, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    Expect(b, bytes);
  }
  ClusterSync();
}
// Each CTA copies its half of `in` into the shared memory of CTA (its rank +
// DISTANCE) % 2, and writes what it got.
#define COPY_TO(NAME, DISTANCE)                                                   \
  extern "C" __global__ void NAME(const u32* in, u32* out) {                      \
    __shared__ __align__(128) u32 s[64], t[64];                                   \
    __shared__ u64 b;                                                             \
    const u32 rank = Rank(), to = (rank + DISTANCE) % 2;                          \
    s[threadIdx.x] = in[rank * 64 + threadIdx.x];                                 \
    FenceProxy();                                                                 \
    SetupCluster(&b, 256);                                                        \
    if (threadIdx.x == 0) CopyShared(In(to, t), s, 256, In(to, &b));              \
    Wait(&b, 0);                                                                  \
    out[rank * 64 + threadIdx.x] = t[threadIdx.x];                                \
    ClusterSync();                                                                \
  }
COPY_TO(bulk_copy_same, 0)
COPY_TO(bulk_copy_peer, 1)

// Each CTA loads half of 256 bytes into both.
extern "C" __global__ void bulk_multicast(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  const u32 rank = Rank();
  SetupCluster(&b, 256);
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1], 128, [%2], %3;" ::"r"(Address(s + rank * 32)),
        "l"(in + rank * 32), "r"(Address(&b)), "h"((short)3)
        : "memory");
  }
  Wait(&b, 0);
  out[rank * 64 + threadIdx.x] = s[threadIdx.x];
  ClusterSync();
}

// out += in, element-wise, by every type; out holds what it had on entry in
// its second half too.
#define REDUCE_KERNEL(NAME, OP)                                                  \
  extern "C" __global__ void NAME(const u32* in, u32* out) {                     \
    __shared__ __align__(128) u32 s[32];                                         \
    s[threadIdx.x] = in[threadIdx.x];                                            \
    out[threadIdx.x] = in[32 + threadIdx.x];                                     \
    FenceProxy();                                                                \
    __syncthreads();                                                             \
    if (threadIdx.x == 0) {                                                      \
      asm volatile("fence.proxy.async.global;" ::: "memory");                    \
      asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." OP      \
                   " [%0], [%1], 128;" ::"l"(out),                               \
                   "r"(Address(s))                                               \
                   : "memory");                                                  \
      Commit();                                                                  \
      WaitAll();                                                                 \
    }                                                                            \
  }
REDUCE_KERNEL(reduce_add_u32, "add.u32")
REDUCE_KERNEL(reduce_min_s32, "min.s32")
REDUCE_KERNEL(reduce_max_u32, "max.u32")
REDUCE_KERNEL(reduce_and_b32, "and.b32")
REDUCE_KERNEL(reduce_add_f32, "add.f32")
REDUCE_KERNEL(reduce_add_f16, "add.noftz.f16")
REDUCE_KERNEL(reduce_max_bf16, "max.bf16")
REDUCE_KERNEL(reduce_add_u64, "add.u64")

// Both warps add their values to a third array at the same time: in the CTA
// DISTANCE ranks further.
#define REDUCE_TO(NAME, DISTANCE)                                                 \
  extern "C" __global__ void NAME(const u32* in, u32* out) {                      \
    __shared__ __align__(128) u32 sum[32], s[64];                                 \
    __shared__ u64 b;                                                             \
    const u32 to = (Rank() + DISTANCE) % 2;                                       \
    s[threadIdx.x] = in[Rank() * 64 + threadIdx.x];                               \
    if (threadIdx.x < 32) sum[threadIdx.x] = 5;                                   \
    FenceProxy();                                                                 \
    SetupCluster(&b, 256);                                                        \
    if (threadIdx.x % 32 == 0) {                                                  \
      asm volatile(                                                               \
          "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx" \
          "::bytes.add.u32 [%0], [%1], 128, [%2];" ::"r"(In(to, sum)),            \
          "r"(Address(s + threadIdx.x)), "r"(In(to, &b))                          \
          : "memory");                                                            \
    }                                                                             \
    Wait(&b, 0);                                                                  \
    if (threadIdx.x < 32) out[Rank() * 32 + threadIdx.x] = sum[threadIdx.x];      \
    ClusterSync();                                                                \
  }
REDUCE_TO(reduce_same, 0)
REDUCE_TO(reduce_peer, 1)
// In a launch without clusters hardware refuses this.
extern "C" __global__ void reduce_alone(const u32* in, u32* out) {
  __shared__ __align__(128) u32 sum[32], s[64];
  __shared__ u64 b;
  Setup(&b);
  s[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 32) sum[threadIdx.x] = 5;
  FenceProxy();
  __syncthreads();
  if (threadIdx.x == 0) Expect(&b, 256);
  if (threadIdx.x % 32 == 0) {
    asm volatile(
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx"
        "::bytes.add.u32 [%0], [%1], 128, [%2];" ::"r"(Address(sum)),
        "r"(Address(s + threadIdx.x)), "r"(Address(&b))
        : "memory");
  }
  Wait(&b, 0);
  if (threadIdx.x < 32) out[threadIdx.x] = sum[threadIdx.x];
}

// --- single values --------------------------------------------------------------
// Every thread stores two values into the other CTA, and adds one to a sum
// there.
extern "C" __global__ void store_peer(const u32* in, u32* out) {
  __shared__ __align__(16) u32 pair[128];
  __shared__ u32 sum[2];
  __shared__ u64 b;
  const u32 t = threadIdx.x, peer = 1 - Rank();
  if (t < 2) sum[t] = 7;
  SetupCluster(&b, 64 * 12);
  const u32 x = in[Rank() * 64 + t];
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 "
      "[%0], {%1, %2}, [%3];" ::"r"(In(peer, pair + 2 * t)),
      "r"(x), "r"(x + 1000), "r"(In(peer, &b))
      : "memory");
  asm volatile(
      "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 "
      "[%0], %1, [%2];" ::"r"(In(peer, sum + t % 2)),
      "r"(x), "r"(In(peer, &b))
      : "memory");
  Wait(&b, 0);
  out[Rank() * 192 + 2 * t] = pair[2 * t];
  out[Rank() * 192 + 2 * t + 1] = pair[2 * t + 1];
  out[Rank() * 192 + 128 + t] = sum[t % 2];
  ClusterSync();
}

extern "C" __global__ void bulk_misaligned(const u32* in, u32*) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) BulkLoad(s, in + 1, 64, &b);  // FAULT bulk_misaligned
}
extern "C" __global__ void bulk_odd_size(const u32* in, u32*) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) BulkLoad(s, in, 72, &b);  // FAULT bulk_odd_size
}
extern "C" __global__ void bulk_past_end(const u32* in, u32*) {
  __shared__ __align__(128) u32 s[128];
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) BulkLoad(s, in, 272, &b);  // FAULT bulk_past_end
}
extern "C" __global__ void bulk_uninitialized(const u32*, u32* out) {
  __shared__ __align__(128) u32 s[64];
  if (threadIdx.x == 0) {
    BulkStore(out, s, 64);  // FAULT bulk_uninitialized
    Commit();
    WaitRead();
  }
}
extern "C" __global__ void bulk_unobserved(const u32* in, u32*) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) {
    Expect(&b, 64);
    BulkLoad(s, in, 64, &b);  // FAULT bulk_unobserved
  }
}
extern "C" __global__ void bulk_not_expected(const u32* in, u32*) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  Setup(&b);  // FAULT bulk_not_expected
  if (threadIdx.x == 0) BulkLoad(s, in, 64, &b);
}
// The other warp's store needs a fence of its own, or one after the barrier.
extern "C" __global__ void fence_of_another(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  s[threadIdx.x] = in[threadIdx.x];  // FAULT fence_of_another_store
  if (threadIdx.x == 0) FenceProxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    BulkStore(out, s, 256);  // FAULT fence_of_another
    Commit();
    WaitRead();
  }
}
extern "C" __global__ void fence_after_barrier(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    FenceProxy();
    BulkStore(out, s, 256);
    Commit();
    WaitRead();
  }
}
// One thread's own fence covers its own store.
extern "C" __global__ void fence_of_one(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  if (threadIdx.x == 33) {
    for (int i = 0; i < 64; ++i) s[i] = in[i];
    FenceProxy();
    BulkStore(out, s, 256);
    Commit();
    WaitRead();
  }
}
// Ordinary writes must reach the async proxy before it overwrites them.
extern "C" __global__ void write_then_load(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  s[threadIdx.x] = 0;  // FAULT write_then_load_store
  Setup(&b);
  if (threadIdx.x == 0) {
    Expect(&b, 256);
    BulkLoad(s, in, 256, &b);  // FAULT write_then_load
  }
  Wait(&b, 0);
  out[threadIdx.x] = s[threadIdx.x];
}
// A load may overtake an ordinary read before it, barriers or not.
extern "C" __global__ void read_then_load(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  Setup(&b);
  for (u32 round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) {
      Expect(&b, 256);
      BulkLoad(s, in, 256, &b);  // FAULT read_then_load
    }
    Wait(&b, round);
    out[threadIdx.x] = s[threadIdx.x];  // FAULT read_then_load_read
    __syncthreads();
  }
}
// The second load may not land where the other warp still reads.
extern "C" __global__ void reload_race(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  __shared__ u64 b;
  Setup(&b);
  for (u32 round = 0; round < 2; ++round) {
    if (threadIdx.x == 0) {
      Expect(&b, 256);
      BulkLoad(s, in, 256, &b);  // FAULT reload_race
    }
    Wait(&b, round);
    out[threadIdx.x] = s[threadIdx.x];  // FAULT reload_race_read
  }
}

// The rest of the CTA may use what a bulk copy has stored once it is complete;
// that it has read its source is not enough.
extern "C" __global__ void bulk_store_seen(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  s[threadIdx.x] = in[threadIdx.x];
  FenceProxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    BulkStore(out, s, 256);
    Commit();
    WaitAll();
  }
  __syncthreads();
  out[threadIdx.x] += 1;
}
extern "C" __global__ void bulk_store_seen_early(const u32* in, u32* out) {
  __shared__ __align__(128) u32 s[64];
  s[threadIdx.x] = in[threadIdx.x];
  FenceProxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    BulkStore(out, s, 256);  // FAULT bulk_store_seen_early_store
    Commit();
    WaitRead();
  }
  __syncthreads();
  if (threadIdx.x >= 32) out[threadIdx.x] += 1;  // FAULT bulk_store_seen_early
}

// --- tensor copies ------------------------------------------------------------
#define TENSOR_KERNELS(RANK, COORDINATES)                                            \
  extern "C" __global__ void load##RANK(const __grid_constant__ TensorMap map,       \
                                        u32* out, int bytes, int c0, int c1, int c2, \
                                        int c3, int c4) {                            \
    extern __shared__ __align__(1024) u32 s[];                                       \
    __shared__ u64 b;                                                                \
    Setup(&b);                                                                       \
    if (threadIdx.x == 0) {                                                          \
      asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");               \
      asm volatile("cp.async.bulk.prefetch.tensor." #RANK                            \
                   "d.L2.global.tile [%0, {" COORDINATES "}];" ::"l"(&map),          \
                   "r"(0), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(0), "r"(c4)       \
                   : "memory");                                                      \
      Expect(&b, bytes);                                                             \
      asm volatile("cp.async.bulk.tensor." #RANK                                     \
                   "d.shared::cluster.global.mbarrier::complete_tx::bytes [%6], "    \
                   "[%0, {" COORDINATES "}], [%1];" ::"l"(&map),                     \
                   "r"(Address(&b)), "r"(c0), "r"(c1), "r"(c2), "r"(c3),             \
                   "r"(Address(s)), "r"(c4)                                           \
                   : "memory");                                                      \
    }                                                                                \
    Wait(&b, 0);                                                                     \
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = s[i];         \
  }                                                                                  \
  extern "C" __global__ void store##RANK(const __grid_constant__ TensorMap map,      \
                                         const u32* in, int bytes, int add, int c0,  \
                                         int c1, int c2, int c3, int c4) {           \
    extern __shared__ __align__(1024) u32 s[];                                       \
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) s[i] = in[i];          \
    FenceProxy();                                                                    \
    __syncthreads();                                                                 \
    if (threadIdx.x == 0) {                                                          \
      if (add) {                                                                     \
        asm volatile("cp.reduce.async.bulk.tensor." #RANK                            \
                     "d.global.shared::cta.add.bulk_group [%0, {" COORDINATES        \
                     "}], [%6];" ::"l"(&map),                                        \
                     "r"(0), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(Address(s)),    \
                     "r"(c4)                                                         \
                     : "memory");                                                    \
      } else {                                                                       \
        asm volatile("cp.async.bulk.tensor." #RANK                                   \
                     "d.global.shared::cta.bulk_group [%0, {" COORDINATES            \
                     "}], [%6];" ::"l"(&map),                                        \
                     "r"(0), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(Address(s)),    \
                     "r"(c4)                                                         \
                     : "memory");                                                    \
      }                                                                              \
      Commit();                                                                      \
      WaitAll();                                                                     \
    }                                                                                \
  }
TENSOR_KERNELS(1, "%2")
TENSOR_KERNELS(2, "%2, %3")
TENSOR_KERNELS(3, "%2, %3, %4")
TENSOR_KERNELS(4, "%2, %3, %4, %5")
TENSOR_KERNELS(5, "%2, %3, %4, %5, %7")

// Each of two CTAs loads a box of `bytes` at its own row of boxes into both.
extern "C" __global__ void multicast2(const __grid_constant__ TensorMap map, u32* out,
                                      int bytes, int c0, int c1, int rows) {
  extern __shared__ __align__(1024) u32 s[];
  __shared__ u64 b;
  const u32 rank = Rank();
  SetupCluster(&b, 2 * bytes);
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
            Address(s) + rank * bytes),
        "l"(&map), "r"(c0), "r"(c1 + static_cast<int>(rank) * rows), "r"(Address(&b)),
        "h"((short)3)
        : "memory");
  }
  Wait(&b, 0);
  for (int i = threadIdx.x; i < bytes / 2; i += blockDim.x) out[rank * bytes / 2 + i] = s[i];
  ClusterSync();
}

// The box reduces the tensor by one operation.
#define TENSOR_REDUCE(OP)                                                                \
  extern "C" __global__ void reduce2_##OP(const __grid_constant__ TensorMap map,         \
                                          const u32* in, int bytes, int c0, int c1) {    \
    extern __shared__ __align__(1024) u32 s[];                                           \
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) s[i] = in[i];              \
    FenceProxy();                                                                        \
    __syncthreads();                                                                     \
    if (threadIdx.x == 0) {                                                              \
      asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta." #OP              \
                   ".bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),                      \
                   "r"(c0), "r"(c1), "r"(Address(s))                                     \
                   : "memory");                                                          \
      Commit();                                                                          \
      WaitAll();                                                                         \
    }                                                                                    \
  }
TENSOR_REDUCE(add)
TENSOR_REDUCE(min)
TENSOR_REDUCE(max)
TENSOR_REDUCE(inc)
TENSOR_REDUCE(dec)
TENSOR_REDUCE(and)
TENSOR_REDUCE(or)
TENSOR_REDUCE(xor)

// One instruction alone.
extern "C" __global__ void fetch2(const __grid_constant__ TensorMap map, u32* out,
                                  int bytes, int c0, int c1) {
  extern __shared__ __align__(1024) u32 s[];
  __shared__ u64 b;
  Setup(&b);
  if (threadIdx.x == 0) {
    Expect(&b, bytes);
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(Address(s)),
        "l"(&map), "r"(c0), "r"(c1), "r"(Address(&b))
        : "memory");
  }
  Wait(&b, 0);
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = s[i];
}
extern "C" __global__ void prefetch2(const __grid_constant__ TensorMap map, u32*, int,
                                     int c0, int c1) {
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map),
                 "r"(c0), "r"(c1)
                 : "memory");
  }
}
extern "C" __global__ void put2(const __grid_constant__ TensorMap map, const u32* in, int bytes,
                                int c0, int c1) {
  extern __shared__ __align__(1024) u32 s[];
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) s[i] = in[i];
  FenceProxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
        "r"(c0), "r"(c1), "r"(Address(s))
        : "memory");
    Commit();
    WaitAll();
  }
}
