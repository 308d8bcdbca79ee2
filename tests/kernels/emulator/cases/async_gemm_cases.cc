// A pipelined Hopper GEMM, alone and in clusters: testdata/async_gemm.cu.
#include <random>

#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/cases/async_case.h"

namespace hone::emulator {

LaunchPlan AsyncGemmPlan(bool cluster) {
  constexpr int kM = kAsyncGemmM, kN = kAsyncGemmN, kK = kAsyncGemmK;
  LaunchPlan plan;
  plan.kernel_name = "async_gemm";
  plan.grid = {kM / 128, kN / 64, 1};
  plan.block = {384, 1, 1};
  if (cluster) plan.cluster = {2, 1, 1};
  plan.smem_bytes = 3 * (16384 + 8192) + 16384 + 48;
  using E = TensorMap::Element;
  plan.tensor_maps = {
      MatrixMap(BufferRole::kA, E::kF16, kK, kM, 64, 128,
                TensorMap::Swizzle::k128B),
      MatrixMap(BufferRole::kB, E::kF16, kK, kN, 64, cluster ? 32 : 64,
                TensorMap::Swizzle::k128B),
      MatrixMap(BufferRole::kC, E::kF16, kN, kM, 64, 128),
  };
  plan.args = {MapArg(0), MapArg(1), MapArg(2), IntArg(kK)};
  return plan;
}

void AddAsyncGemmCases(std::vector<AsyncCase>* out) {
  constexpr int kM = kAsyncGemmM, kN = kAsyncGemmN, kK = kAsyncGemmK;
  std::vector<uint16_t> a(kM * kK), b(kN * kK), expected(kM * kN);
  std::mt19937 random(7);
  for (uint16_t& x : a) {
    x = Encode16<Half>((static_cast<int>(random() % 17) - 8) * 0.25);
  }
  for (uint16_t& x : b) {
    x = Encode16<Half>((static_cast<int>(random() % 17) - 8) * 0.5);
  }
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      // Every partial sum is a multiple of 1/8 that float32 holds.
      double sum = 0;
      for (int k = 0; k < kK; ++k) {
        sum += double{Decode16<Half>(a[m * kK + k])} *
               Decode16<Half>(b[n * kK + k]);
      }
      expected[m * kN + n] = Encode16<Half>(sum);
    }
  }
  for (const bool cluster : {false, true}) {
    AsyncCase c;
    c.name = cluster ? "async_gemm_cluster" : "async_gemm";
    c.source = cluster ? AsyncSource("async_gemm.cu", {"CLUSTER"})
                       : AsyncSource("async_gemm.cu");
    c.plan = AsyncGemmPlan(cluster);
    c.buffers[BufferRole::kA] = BytesOfVector(a);
    c.buffers[BufferRole::kB] = BytesOfVector(b);
    c.buffers[BufferRole::kC].assign(kM * kN * 2, 0xee);
    c.expected = BytesOfVector(expected);
    out->push_back(c);
  }
}

}  // namespace hone::emulator
