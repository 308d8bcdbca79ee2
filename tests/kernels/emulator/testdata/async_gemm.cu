// C[m, n] = sum over k of A[m, k] * B[n, k], float16 with float32 accumulators,
// as a Hopper kernel: a producer warp loads 64-wide k blocks of A and B by
// tensor copies into a ring of stages, two warpgroups multiply them with wgmma,
// and a tensor copy stores the tile. The emulator's tests compile it as it is
// and with one of the macros below, each of which plants a fault on the lines
// marked with its name.
//
// A CTA computes 128 x 64. With CLUSTER, two CTAs along m share B: each loads
// half of it and multicasts that to both.
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

constexpr int kStages = 3;
constexpr int kTileM = 128, kTileN = 64, kTileK = 64;
constexpr u32 kBytesA = kTileM * kTileK * 2, kBytesB = kTileN * kTileK * 2;

struct Shared {
  unsigned char a[kStages][kBytesA];
  unsigned char b[kStages][kBytesB];
  unsigned char c[kTileM * kTileN * 2];
  u64 full[kStages], empty[kStages];
};

__device__ __forceinline__ u32 Address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void Init(u64* barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(Address(barrier)),
               "r"(count)
               : "memory");
}
__device__ __forceinline__ void Wait(u64* barrier, u32 parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(Address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void Expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   Address(barrier)),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void Arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(Address(barrier))
               : "memory");
}
__device__ __forceinline__ void Load(void* to, const TensorMap* map, u64* barrier,
                                     int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          Address(to)),
      "l"(map), "r"(Address(barrier)), "r"(x), "r"(y)
      : "memory");
}
__device__ __forceinline__ void StoreTile(const TensorMap* map, const void* from,
                                          int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
      "[%0, {%2, %3}], [%1];" ::"l"(map),
      "r"(Address(from)), "r"(x), "r"(y)
      : "memory");
}
#if defined(CLUSTER)
__device__ __forceinline__ u32 Rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void LoadToBoth(void* to, const TensorMap* map, u64* barrier,
                                           int x, int y) {
#if defined(MISSING_PEER)
  const unsigned short mask = blockIdx.y == 0 && Rank() == 1 ? 2 : 3;
#else
  const unsigned short mask = 3;
#endif
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile"
      ".mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
      "[%2], %5;" ::"r"(Address(to)),
      "l"(map), "r"(Address(barrier)), "r"(x), "r"(y), "h"(mask)
      : "memory");
}
__device__ __forceinline__ void ArriveAtBoth(u64* barrier) {
#pragma unroll
  for (u32 rank = 0; rank < 2; ++rank) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
        "}\n" ::"r"(Address(barrier)),
        "r"(rank)
        : "memory");
  }
}
__device__ __forceinline__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
#endif
__device__ __forceinline__ void FenceProxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ u64 Descriptor(const void* p) {
  return u64{(Address(p) & 0x3ffff) >> 4} | u64{1} << 16 | u64{64} << 32 |
         u64{1} << 62;
}
// Keeps the compiler from moving uses of the accumulators across.
__device__ __forceinline__ void Pin(float (&d)[32]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
__device__ __forceinline__ void Mma(float (&d)[32], u64 a, u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
      "%30, %31}, %32, %33, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
        "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]),
        "+f"(d[31])
      : "l"(a), "l"(b));
}
__device__ __forceinline__ u32 Pack(float low, float high) {
  u32 out;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

__device__ __forceinline__ void Release(u64* barrier) {
#if defined(CLUSTER) && !defined(RELEASE_OWN_ONLY)
  ArriveAtBoth(barrier);
#else
  Arrive(barrier);
#endif
}

__device__ __forceinline__ void Produce(Shared& s, const TensorMap* map_a,
                                        const TensorMap* map_b, int blocks) {
  for (int i = 0; i < blocks; ++i) {
    const int stage = i % kStages;
    const u32 round = i / kStages;
#if defined(WRONG_PHASE_PRODUCER)
    Wait(&s.empty[stage], round & 1);  // FAULT WRONG_PHASE_PRODUCER
#else
    Wait(&s.empty[stage], round & 1 ^ 1);
#endif
#if defined(TOO_MANY_BYTES)
    Expect(&s.full[stage], kBytesA + kBytesB + 16);
#elif defined(TOO_FEW_BYTES)
    Expect(&s.full[stage], kBytesA);
#else
    Expect(&s.full[stage], kBytesA + kBytesB);
#endif
    Load(s.a[stage], map_a, &s.full[stage], i * kTileK, blockIdx.x * kTileM);  // FAULT LOAD_A
#if defined(CLUSTER)
    const int y = blockIdx.y * kTileN + Rank() * kTileN / 2;
    LoadToBoth(s.b[stage] + Rank() * kBytesB / 2, map_b, &s.full[stage], i * kTileK, y);  // FAULT LOAD_HALF
#elif defined(SHARED_STAGE)
    Load(s.a[stage], map_b, &s.full[stage], i * kTileK, blockIdx.y * kTileN);  // FAULT SHARED_STAGE
#else
    Load(s.b[stage], map_b, &s.full[stage], i * kTileK, blockIdx.y * kTileN);  // FAULT LOAD_B
#endif
  }
}

__device__ __forceinline__ void Consume(Shared& s, const TensorMap* map_c,
                                        int blocks) {
  const int group = threadIdx.x / 128 - 1;
  const int thread = threadIdx.x % 128;
  const int warp = thread / 32, lane = thread % 32;
  float d[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) d[i] = 0;
#pragma unroll 1
  for (int i = 0; i < blocks; ++i) {
    const int stage = i % kStages;
#if defined(WRONG_PHASE_CONSUMER)
    Wait(&s.full[stage], (i / kStages & 1) ^ 1);
#elif !defined(MISSING_WAIT)
    Wait(&s.full[stage], i / kStages & 1);  // FAULT WAIT_FULL
#endif
#if defined(GENERIC_WRITE)
    if (lane == 0) *reinterpret_cast<u32*>(&s.a[stage][threadIdx.x / 32 * 16]) = 0;  // FAULT GENERIC_WRITE
    asm volatile("bar.sync 1, 256;" ::: "memory");
#endif
    Pin(d);
#if !defined(MISSING_WGMMA_FENCE)
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
#if defined(TOUCHED_AFTER_FENCE)
    d[3] += 1;  // FAULT TOUCHED_AFTER_FENCE
    Pin(d);
#endif
#if defined(DIVERGED)
    const u32 skew = warp == 2 ? 64 : 0;
#else
    const u32 skew = 0;
#endif
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      Mma(d, Descriptor(s.a[stage] + group * 8192 + k * 32 + skew),  // FAULT MMA
          Descriptor(s.b[stage] + k * 32));
    }
#if !defined(MISSING_COMMIT)
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
#if defined(EARLY_RELEASE)
    if (thread == 0) Release(&s.empty[stage]);
#endif
#if defined(READ_IN_FLIGHT)
    if (d[5] == 12345.0f) s.c[thread] = 1;  // FAULT READ_IN_FLIGHT
#endif
    Pin(d);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    Pin(d);
#if !defined(EARLY_RELEASE) && !defined(NO_RELEASE)
    if (thread == 0) Release(&s.empty[stage]);
#endif
  }
#pragma unroll
  for (int i = 0; i < 32; i += 2) {
    const int row = group * 64 + warp * 16 + lane / 4 + 8 * (i / 2 % 2);
    const int column = i / 4 * 8 + lane % 4 * 2;
    const u32 value = Pack(d[i], d[i + 1]);
    *reinterpret_cast<u32*>(&s.c[(row * kTileN + column) * 2]) = value;  // FAULT STORE_C
  }
#if !defined(MISSING_PROXY_FENCE)
  FenceProxy();
#endif
#if !defined(PLANTED_RACE)
  asm volatile("bar.sync 1, 256;" ::: "memory");
#endif
  if (threadIdx.x == 128) {
    StoreTile(map_c, s.c, blockIdx.y * kTileN, blockIdx.x * kTileM);  // FAULT STORE_TILE
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#if defined(OVERWRITTEN_SOURCE)
    s.c[7] = 0;  // FAULT OVERWRITTEN_SOURCE
#endif
#if !defined(STORE_NOT_WAITED)
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
  }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    async_gemm(const __grid_constant__ TensorMap map_a,
               const __grid_constant__ TensorMap map_b,
               const __grid_constant__ TensorMap map_c, int k) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *reinterpret_cast<Shared*>(raw);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      Init(&s.full[i], 1);  // FAULT INIT
#if defined(CLUSTER) && !defined(RELEASE_OWN_ONLY)
      Init(&s.empty[i], 4);
#else
      Init(&s.empty[i], 2);
#endif
    }
#if !defined(MISSING_INIT_FENCE)
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
#if defined(CLUSTER) && !defined(MISSING_CLUSTER_SYNC)
  // The fence has released the mbarriers; the arrival need not.
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#elif !defined(MISSING_INIT_SYNC)
  __syncthreads();
#endif
  const int blocks = k / kTileK;
  if (threadIdx.x < 128) {
    if (threadIdx.x == 0) Produce(s, &map_a, &map_b, blocks);
  } else {
    Consume(s, &map_c, blocks);
  }
#if defined(CLUSTER) && !defined(MISSING_EXIT_SYNC)
  __syncwarp();
  SyncCluster();
#endif
}
