// What a wgmma loses to the other instructions of its warps, and to copies into
// shared memory beside it. Built by hand:
//
//   nvcc -std=c++17 -gencode=arch=compute_90a,code=sm_90a -o wgmma_contention \
//       wgmma_contention.cu
//   ./wgmma_contention > contention.json
//
// Two warpgroups an SM multiply m64nNk16 of float16, A from registers, in
// groups of four MMAs of which two are in flight, as the kernels of
// kernels/device/mma/ do. After each group every warp executes some
// instructions on registers of its own, as many for each MMA, and a producer
// has the copy engine bring 8192 bytes from L2 now and then. Reported: SM
// clocks that an MMA takes, beside the N / 2 it takes alone. Numbers are in
// clocks, so that the power limit has no part in them.
//
// On an H200 (tests/bench/results/h200/2026-12-03-wgmma-contention.json): MMAs
// alone reach their rate for every N. Up to about a quarter of the issue slots
// other instructions are free; beyond that they cost nearly what they take:
// 16 lop3 for an MMA of 64 tokens make its 32 clocks 49. So few tokens are
// bound by what dequantization and addresses take in instructions, not by the
// tensor cores. 19 bytes a clock of copies cost 3.5 %.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr int kSms = 132;
constexpr int kGroups = 400;
constexpr int kBatch = 4;
constexpr int kWarpgroups = 2;
constexpr int kThreads = kWarpgroups * 128 + 128;
constexpr int kCopyBytes = 8192;
constexpr int kCopies = 8;
constexpr int kCopiesOffset = 64 << 10;
constexpr int kBarrierOffset = kCopiesOffset + kCopies * kCopyBytes;
constexpr int kSharedBytes = kBarrierOffset + 1024;

enum class Alu { kLop3, kHfma2, kFfma };

#define D8(b)                                                                 \
  "+f"(d[b]), "+f"(d[b + 1]), "+f"(d[b + 2]), "+f"(d[b + 3]), "+f"(d[b + 4]), \
      "+f"(d[b + 5]), "+f"(d[b + 6]), "+f"(d[b + 7])

__device__ void Multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
      "{%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
      : D8(0), D8(8), D8(16), D8(24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void Multiply(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63},"
      "{%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
      : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void Wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done) {
    asm volatile(
        "{\n.reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}

// `clocks[b]` of CTA b, and behind them the bytes that its copies brought.
// kN / 2 is what an MMA takes alone, kPerMma how many instructions come with
// it; `copy_clocks` lie between two copies, 0: none.
template <int kN, Alu kAlu, int kPerMma>
__global__ void __launch_bounds__(kThreads, 1)
    Contend(const char* source, int64_t* clocks, int copy_clocks,
            uint32_t seed) {
  extern __shared__ __align__(1024) char shared[];
  const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t barriers = base + kBarrierOffset;
  volatile uint32_t* finished =
      reinterpret_cast<uint32_t*>(shared + kBarrierOffset + 512);
  const int thread = threadIdx.x;
  // Halves between −2 and 2.
  for (int i = thread; i < kCopiesOffset / 4; i += kThreads) {
    reinterpret_cast<uint32_t*>(shared)[i] =
        (seed * (i * 2654435761u + blockIdx.x) * 2246822519u) & 0xbfffbfffu;
  }
  if (thread == 0) {
    *finished = 0;
    for (int i = 0; i < kCopies; ++i) {
      asm volatile(
          "mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + i * 8));
    }
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (thread >= kWarpgroups * 128) {
    if (thread > kWarpgroups * 128 || copy_clocks == 0) return;
    uint32_t copies = 0;
    int64_t next = clock64();
    const char* from = source + size_t{blockIdx.x} * (kCopies * kCopyBytes);
    while (*finished < kWarpgroups * 128) {
      const uint32_t slot = copies % kCopies;
      if (copies >= kCopies) {
        Wait(barriers + slot * 8, (copies / kCopies + 1) % 2);
      }
      while (clock64() < next) {
      }
      next += copy_clocks;
      asm volatile(
          "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
              barriers + slot * 8),
          "r"(kCopyBytes)
          : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
          "[%0], [%1], %2, [%3];" ::"r"(base + kCopiesOffset +
                                        slot * kCopyBytes),
          "l"(from + slot * kCopyBytes), "r"(kCopyBytes),
          "r"(barriers + slot * 8)
          : "memory");
      ++copies;
    }
    for (uint32_t i = copies < kCopies ? 0 : copies - kCopies; i < copies;
         ++i) {
      Wait(barriers + i % kCopies * 8, i / kCopies % 2);
    }
    clocks[gridDim.x + blockIdx.x] = int64_t{copies} * kCopyBytes;
    return;
  }
  float d[kN / 2] = {};
  uint32_t a[4];
  uint32_t x[8];
  float f[8];
  for (int i = 0; i < 4; ++i) {
    a[i] = (seed * (thread + 1) * 2654435761u * (i + 7)) & 0xbfffbfffu;
  }
  for (int i = 0; i < 8; ++i) f[i] = x[i] = seed + thread + i;
  const uint32_t c0 = seed | 0x3c003c00u;
  const float g0 = 1.0f + seed * 1e-9f;
  // Rows of 128 bytes in the 128-byte swizzle.
  constexpr uint64_t kHigh = uint64_t{64u | 1u << 30} << 32;
  const int64_t begin = clock64();
#pragma unroll 1
  for (int group = 0; group < kGroups; ++group) {
    const uint64_t b =
        kHigh | ((base + group % 4 * (kN * 128)) / 16 | 1u << 16);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int step = 0; step < kBatch; ++step) Multiply(d, a, b + step * 2);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kPerMma * kBatch; ++i) {
      if constexpr (kAlu == Alu::kLop3) {
        asm volatile("lop3.b32 %0, %0, %1, %2, 0xea;"
                     : "+r"(x[i % 8])
                     : "r"(c0), "r"(seed));
      } else if constexpr (kAlu == Alu::kHfma2) {
        asm volatile("fma.rn.f16x2 %0, %0, %1, %2;"
                     : "+r"(x[i % 8])
                     : "r"(c0), "r"(seed));
      } else {
        asm volatile("fma.rn.f32 %0, %0, %1, %2;"
                     : "+f"(f[i % 8])
                     : "f"(g0), "f"(g0));
      }
    }
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const int64_t end = clock64();
  atomicAdd(const_cast<uint32_t*>(finished), 1);
  // So that nothing of it is dead.
  float sum = 0;
  for (int i = 0; i < kN / 2; ++i) sum += d[i];
  for (int i = 0; i < 8; ++i) sum += x[i] + f[i];
  if (sum == 123.25f) clocks[0] = 0;
  if (thread == 0) clocks[blockIdx.x] = end - begin;
}

int64_t Median(const int64_t* values) {
  std::vector<int64_t> sorted(values, values + kSms);
  std::sort(sorted.begin(), sorted.end());
  return sorted[kSms / 2];
}

bool first = true;

template <int kN, Alu kAlu, int kPerMma>
void Report(const char* source, int64_t* clocks, int copy_clocks) {
  auto* kernel = &Contend<kN, kAlu, kPerMma>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       kSharedBytes);
  std::vector<int64_t> runs;
  int64_t bytes = 0;
  for (uint32_t run = 1; run <= 9; ++run) {
    kernel<<<kSms, kThreads, kSharedBytes>>>(source, clocks, copy_clocks, run);
    if (const cudaError_t error = cudaDeviceSynchronize();
        error != cudaSuccess) {
      std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
      std::exit(1);
    }
    runs.push_back(Median(clocks));
    bytes = copy_clocks == 0 ? 0 : Median(clocks + kSms);
  }
  std::sort(runs.begin(), runs.end());
  const double total = static_cast<double>(runs[runs.size() / 2]);
  constexpr const char* kNames[] = {"lop3", "fma.f16x2", "fma.f32"};
  std::printf(
      "%s\n{\"n\":%d,\"instruction\":\"%s\",\"per_mma\":%d,"
      "\"copied_bytes_per_clock\":%.1f,\"clocks_per_mma\":%.1f,"
      "\"alone\":%d,\"samples\":%zu}",
      first ? "" : ",", kN, kPerMma == 0 ? "none" : kNames[int(kAlu)], kPerMma,
      bytes / total, total / (kGroups * kBatch * kWarpgroups), kN / 2,
      runs.size());
  first = false;
}

template <int kN, Alu kAlu>
void ReportAll(const char* source, int64_t* clocks, int copy_clocks) {
  Report<kN, kAlu, 4>(source, clocks, copy_clocks);
  Report<kN, kAlu, 8>(source, clocks, copy_clocks);
  Report<kN, kAlu, 12>(source, clocks, copy_clocks);
  Report<kN, kAlu, 16>(source, clocks, copy_clocks);
  Report<kN, kAlu, 20>(source, clocks, copy_clocks);
}

}  // namespace

int main() {
  char* source;
  int64_t* clocks;
  const size_t bytes = size_t{kSms} * kCopies * kCopyBytes;
  cudaMalloc(&source, bytes);
  cudaMemset(source, 1, bytes);
  cudaMallocManaged(&clocks, 2 * kSms * sizeof(int64_t));
  std::printf("[");
  for (const int copy_clocks : {0, 512, 256}) {
    Report<64, Alu::kLop3, 0>(source, clocks, copy_clocks);
    ReportAll<64, Alu::kLop3>(source, clocks, copy_clocks);
    ReportAll<64, Alu::kHfma2>(source, clocks, copy_clocks);
    Report<128, Alu::kLop3, 0>(source, clocks, copy_clocks);
    ReportAll<128, Alu::kLop3>(source, clocks, copy_clocks);
    ReportAll<128, Alu::kHfma2>(source, clocks, copy_clocks);
    ReportAll<128, Alu::kFfma>(source, clocks, copy_clocks);
  }
  std::printf("\n]\n");
  return 0;
}
