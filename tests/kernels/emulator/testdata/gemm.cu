// A small cp.async multistage GEMM on mma.sync: C[16,64] = A[16,K] * B[64,K]^T.
#include <cstdint>

constexpr int kM = 16, kN = 64, kBlockK = 32, kStages = 3;
constexpr int kPitch = kBlockK + 8;  // halves per shared row: no bank conflicts

__device__ inline void CopyAsync(void* shared, const void* global) {
  uint32_t dst = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst),
               "l"(global));
}

extern "C" __global__ void __launch_bounds__(128)
    gemm(const uint16_t* a, const uint16_t* b, float* c, int k) {
  extern __shared__ __align__(128) uint16_t smem[];
  uint16_t* a_tiles = smem;
  uint16_t* b_tiles = smem + kStages * kM * kPitch;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  auto load = [&](int tile) {
    const int stage = tile % kStages;
    if (tid < kM * kBlockK / 8) {
      const int row = tid / 4, col = tid % 4 * 8;
      CopyAsync(a_tiles + (stage * kM + row) * kPitch + col,
                a + row * k + tile * kBlockK + col);
    }
    for (int i = tid; i < kN * kBlockK / 8; i += 128) {
      const int row = i / 4, col = i % 4 * 8;
      CopyAsync(b_tiles + (stage * kN + row) * kPitch + col,
                b + row * k + tile * kBlockK + col);
    }
  };
  const int tiles = k / kBlockK;
  for (int t = 0; t < kStages - 1; ++t) {
    if (t < tiles) load(t);
    asm volatile("cp.async.commit_group;");
  }
  float acc[2][4] = {};
  for (int t = 0; t < tiles; ++t) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2));
    __syncthreads();
    if (t + kStages - 1 < tiles) load(t + kStages - 1);
    asm volatile("cp.async.commit_group;");
    const int stage = t % kStages;
    for (int kk = 0; kk < kBlockK; kk += 16) {
      uint32_t fa[4];
      uint32_t pa = static_cast<uint32_t>(__cvta_generic_to_shared(
          a_tiles + (stage * kM + lane % 16) * kPitch + kk + lane / 16 * 8));
      asm volatile(
          "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
          : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
          : "r"(pa));
      for (int n = 0; n < 2; ++n) {
        uint32_t fb[2];
        uint32_t pb = static_cast<uint32_t>(__cvta_generic_to_shared(
            b_tiles + (stage * kN + warp * 16 + n * 8 + lane % 8) * kPitch +
            kk + lane / 8 % 2 * 8));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(fb[0]), "=r"(fb[1])
                     : "r"(pb));
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(acc[n][0]), "+f"(acc[n][1]), "+f"(acc[n][2]),
              "+f"(acc[n][3])
            : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]),
              "r"(fb[1]));
      }
    }
  }
  for (int n = 0; n < 2; ++n) {
    const int col = warp * 16 + n * 8 + lane % 4 * 2;
    for (int h = 0; h < 2; ++h) {
      float2 v = make_float2(acc[n][2 * h], acc[n][2 * h + 1]);
      *reinterpret_cast<float2*>(c + (lane / 4 + 8 * h) * kN + col) = v;
    }
  }
}
