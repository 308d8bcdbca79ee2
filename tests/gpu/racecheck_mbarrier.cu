// What compute-sanitizer's racecheck understands of the synchronization by
// which a wgmma kernel reuses the shared memory of A's group scales
// (kernels/device/memory/tma_ring.cuh, AScaleProducer): a ring of two stages,
// one warp that writes, four warps that read, and per stage two mbarriers,
// `full` and `empty`, in dynamic shared memory, as inline PTX. Built by hand:
//
//   nvcc -arch=sm_90a -lineinfo -o racecheck_mbarrier racecheck_mbarrier.cu
//   compute-sanitizer --tool racecheck ./racecheck_mbarrier VARIANT
//
// Each variant does the same work and checks the sums on the host, which is its
// exit status. By the PTX memory model (an arrive releases and a wait acquires
// at the CTA's scope; bar.warp.sync orders the accesses of the lanes before it)
// no_syncwarp and early_arrive race, and no other does.
//
// On an H200, compute-sanitizer 2025.3.1 (CUDA 13.0) reports nothing for
// all_lanes, stores_all_lanes and bar_sync, and a WAR hazard for all others:
// first of lane 5's read and the writer's next write, whether that is cp.async
// or st.shared, and however the mbarriers are initialized or counted
// (--num-cuda-barriers). So it follows mbarriers, but takes an arrival for one
// of the arriving lane's own reads: elected and no_syncwarp are the same to it,
// and what it says of the kernel is not that there is a race. (The release
// notes of 2025.4 call racecheck's false positives with mbarriers fixed.)
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kStages = 2;
constexpr int kReaders = 4;
constexpr int kThreads = 32 * (kReaders + 1);
constexpr int kSteps = 64;

enum Variant {
  // cp.async and cp.async.mbarrier.arrive.noinc by all lanes of the writer; of
  // each reading warp one lane arrives, after a __syncwarp: the kernel's way.
  kElected,
  // The same, but every lane that has read arrives for itself.
  kAllLanes,
  // kElected, with st.shared and an arrival of each lane instead of cp.async.
  kStores,
  // kAllLanes, with st.shared.
  kStoresAllLanes,
  // kElected without the __syncwarp: the other lanes may still read. A race.
  kNoSyncwarp,
  // kElected, whose lane arrives before it reads, so that the writer waits for
  // nothing. (Without its wait it could lap the readers, who would hang.) A
  // race.
  kEarlyArrive,
  // kElected, and a named barrier of all warps after each step: what any tool
  // understands.
  kBarSync,
  // kElected, whose mbarriers are initialized in a loop that stays one.
  kUncounted,
};
constexpr const char* kVariants[] = {
    "elected",     "all_lanes",    "stores",   "stores_all_lanes",
    "no_syncwarp", "early_arrive", "bar_sync", "uncounted"};

__device__ uint32_t Shared(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void Init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}

__device__ void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

__device__ void Wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// `from` has kSteps rows of 32 words; `to`, a sum for each reading thread.
template <Variant kVariant>
__global__ void __launch_bounds__(kThreads)
    Ring(const uint32_t* from, uint32_t* to) {
  extern __shared__ __align__(16) uint32_t memory[];
  constexpr bool kAll = kVariant == kAllLanes || kVariant == kStoresAllLanes;
  constexpr bool kStore = kVariant == kStores || kVariant == kStoresAllLanes;
  const uint32_t data = Shared(memory);
  const uint32_t full = data + kStages * 32 * 4;
  const uint32_t empty = full + kStages * 8;
  const int lane = threadIdx.x % 32;
  constexpr int kUnroll = kVariant == kUncounted ? 1 : kStages;
  if (threadIdx.x == 0) {
#pragma unroll kUnroll
    for (int i = 0; i < kStages; ++i) {
      Init(full + i * 8, 32);
      Init(empty + i * 8, kAll ? kReaders * 32 : kReaders);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  uint32_t sum = 0;
#pragma unroll 1
  for (int step = 0; step < kSteps; ++step) {
    const int stage = step % kStages;
    const uint32_t parity = step / kStages % 2;
    const uint32_t word = data + (stage * 32 + lane) * 4;
    if (threadIdx.x >= kReaders * 32) {
      // The phase before the first counts as over.
      Wait(empty + stage * 8, parity ^ 1);
      if (kStore) {
        const uint32_t value = from[step * 32 + lane];
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(word), "r"(value)
                     : "memory");
        Arrive(full + stage * 8);
      } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(word),
                     "l"(from + step * 32 + lane)
                     : "memory");
        asm volatile(
            "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(
                full + stage * 8)
            : "memory");
      }
    } else {
      Wait(full + stage * 8, parity);
      if (kVariant == kEarlyArrive && lane == 0) Arrive(empty + stage * 8);
      // Another lane's word, as the readers of scales do.
      uint32_t value;
      asm volatile("ld.shared.u32 %0, [%1];"
                   : "=r"(value)
                   : "r"(data + (stage * 32 + (lane ^ 5)) * 4)
                   : "memory");
      sum = sum * 3 + value;
      if (kAll) {
        Arrive(empty + stage * 8);
      } else {
        if (kVariant != kNoSyncwarp) __syncwarp();
        if (kVariant != kEarlyArrive && lane == 0) Arrive(empty + stage * 8);
      }
    }
    if (kVariant == kBarSync) asm volatile("bar.sync 1, %0;" ::"n"(kThreads));
  }
  if (threadIdx.x < kReaders * 32) to[threadIdx.x] = sum;
}

bool Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return true;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  return false;
}

template <Variant kVariant>
int Run() {
  static uint32_t words[kSteps * 32];
  for (int i = 0; i < kSteps * 32; ++i) words[i] = i * 2654435761u;
  uint32_t sums[kReaders * 32];
  uint32_t* from = nullptr;
  uint32_t* to = nullptr;
  if (!Check(cudaMalloc(&from, sizeof words), "cudaMalloc") ||
      !Check(cudaMalloc(&to, sizeof sums), "cudaMalloc") ||
      !Check(cudaMemcpy(from, words, sizeof words, cudaMemcpyHostToDevice),
             "cudaMemcpy")) {
    return 2;
  }
  Ring<kVariant><<<1, kThreads, kStages*(32 * 4 + 16)>>>(from, to);
  if (!Check(cudaGetLastError(), "launch") ||
      !Check(cudaMemcpy(sums, to, sizeof sums, cudaMemcpyDeviceToHost),
             "cudaMemcpy")) {
    return 2;
  }
  int wrong = 0;
  for (int t = 0; t < kReaders * 32; ++t) {
    uint32_t sum = 0;
    for (int step = 0; step < kSteps; ++step) {
      sum = sum * 3 + words[step * 32 + (t % 32 ^ 5)];
    }
    wrong += sum != sums[t];
  }
  printf("%s: %d of %d sums are wrong\n", kVariants[kVariant], wrong,
         kReaders * 32);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int (*kRuns[])() = {
      Run<kElected>,    Run<kAllLanes>,    Run<kStores>,  Run<kStoresAllLanes>,
      Run<kNoSyncwarp>, Run<kEarlyArrive>, Run<kBarSync>, Run<kUncounted>};
  for (int i = 0; argc == 2 && i < 8; ++i) {
    if (strcmp(argv[1], kVariants[i]) == 0) return kRuns[i]();
  }
  fprintf(stderr, "usage: racecheck_mbarrier VARIANT, one of");
  for (const char* variant : kVariants) fprintf(stderr, " %s", variant);
  fprintf(stderr, "\n");
  return 2;
}
