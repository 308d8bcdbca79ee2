// Small kernels that the tests of kernels/jit compile.
#ifndef HONE_TESTS_KERNELS_JIT_TEST_SOURCES_H_
#define HONE_TESTS_KERNELS_JIT_TEST_SOURCES_H_

#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/jit/nvrtc.h"

namespace hone {

inline LibrarySearch TestSearch() {
  return LibrarySearchFromEnvironment(std::getenv);
}

// NVRTC, loaded once for all tests.
inline const Nvrtc& TestNvrtc() {
  static const auto nvrtc = Nvrtc::Create(TestSearch());
  if (!nvrtc.ok()) {
    ADD_FAILURE() << nvrtc.status();
    std::abort();
  }
  return **nvrtc;
}

// A kernel that stores `value`; distinct values give distinct cubins.
inline std::string StoreSource(int value) {
  return absl::StrCat(
      "extern \"C\" __global__ void store(int* p) { p[threadIdx.x] = ", value,
      "; }\n");
}

// 64 live floats a thread in 32 registers: spills from sm_80 on where 2048
// threads fit an SM.
inline std::string SpillSource() {
  return R"(
extern "C" __global__ void __launch_bounds__(1024, 2)
spill(const float* p, float* q) {
  float v[64];
#pragma unroll
  for (int i = 0; i < 64; i++) v[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; i++) q[i * 1024 + threadIdx.x] = v[63 - i] * v[i];
})";
}

// Static shared memory of 512 bytes, and some dynamic.
inline std::string SharedSource() {
  return R"(
extern "C" __global__ void shared(int* p) {
  __shared__ int s[128];
  extern __shared__ int d[];
  s[threadIdx.x] = p[threadIdx.x];
  d[threadIdx.x] = p[threadIdx.x + 4];
  __syncthreads();
  p[threadIdx.x] = s[127 - threadIdx.x] + d[31 - threadIdx.x];
})";
}

// A stack frame of 256 bytes without spills.
inline std::string StackSource() {
  return R"(
extern "C" __global__ void stack(float* p, int n) {
  float v[64];
  for (int i = 0; i < 64; i++) v[(i * n) & 63] = p[i];
  float s = 0;
  for (int i = 0; i < 64; i++) s += v[(i * n * 7) & 63] * v[i];
  p[0] = s;
})";
}

// Takes seconds to compile: 16000 dependent operations in one straight line.
inline std::string SlowSource() {
  std::string source = R"(
extern "C" __global__ void slow(unsigned* p) {
  unsigned v[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) v[i] = p[i];)";
  for (int block = 3; block < 7; ++block) {
    absl::StrAppend(&source, R"(
#pragma unroll
  for (int r = 0; r < 4000; ++r) {
    v[r % 64] = v[(r * 7 + )",
                    block, R"() % 64] * v[(r * 13 + 5) % 64] +
                (v[(r + 1) % 64] >> (r % 31));
  })");
  }
  absl::StrAppend(&source, R"(
#pragma unroll
  for (int i = 0; i < 64; ++i) p[i] = v[i];
})");
  return source;
}

}  // namespace hone

#endif  // HONE_TESTS_KERNELS_JIT_TEST_SOURCES_H_
