// Activation types of 8 and 4 bits as components: the MMA that takes them and
// what it sums in. Weights of the same type need no conversion.
//
// A type has kBits; kInteger; Sum, the type of its accumulators; Mma() of a
// whole step and HalfMma() of one half of a step's columns, for scale groups
// that are that narrow. Floats also have the parts of their codes.
#ifndef HONE_DEVICE_NUMERIC_NARROW_CUH_
#define HONE_DEVICE_NUMERIC_NARROW_CUH_

#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/mma_sync_narrow.cuh"

namespace hone {

struct Float8e4m3 {
  static constexpr int kBits = 8;
  static constexpr bool kInteger = false;
  static constexpr int kExponentBits = 4;
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  using Sum = float;
  static __device__ __forceinline__ void Mma(Sum (&d)[4], const u32 (&a)[4],
                                             u32 b0, u32 b1) {
    ptx::MmaE4m3(d, a, b0, b1);
  }
  static __device__ __forceinline__ void HalfMma(Sum (&d)[4], u32 a0, u32 a1,
                                                 u32 b) {
    ptx::MmaE4m3(d, a0, a1, b);
  }
};

struct Float8e5m2 {
  static constexpr int kBits = 8;
  static constexpr bool kInteger = false;
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  using Sum = float;
  static __device__ __forceinline__ void Mma(Sum (&d)[4], const u32 (&a)[4],
                                             u32 b0, u32 b1) {
    ptx::MmaE5m2(d, a, b0, b1);
  }
  static __device__ __forceinline__ void HalfMma(Sum (&d)[4], u32 a0, u32 a1,
                                                 u32 b) {
    ptx::MmaE5m2(d, a0, a1, b);
  }
};

// Weights may be unsigned.
template <bool kUnsignedWeights>
struct Integer8 {
  static constexpr int kBits = 8;
  static constexpr bool kInteger = true;
  using Sum = int;
  static __device__ __forceinline__ void Mma(Sum (&d)[4], const u32 (&a)[4],
                                             u32 b0, u32 b1) {
    if constexpr (kUnsignedWeights) {
      ptx::MmaU8S8(d, a, b0, b1);
    } else {
      ptx::MmaS8S8(d, a, b0, b1);
    }
  }
  static __device__ __forceinline__ void HalfMma(Sum (&d)[4], u32 a0, u32 a1,
                                                 u32 b) {
    if constexpr (kUnsignedWeights) {
      ptx::MmaU8S8(d, a0, a1, b);
    } else {
      ptx::MmaS8S8(d, a0, a1, b);
    }
  }
};

template <bool kUnsignedWeights>
struct Integer4 {
  static constexpr int kBits = 4;
  static constexpr bool kInteger = true;
  using Sum = int;
  static __device__ __forceinline__ void Mma(Sum (&d)[4], const u32 (&a)[4],
                                             u32 b0, u32 b1) {
    if constexpr (kUnsignedWeights) {
      ptx::MmaU4S4(d, a, b0, b1);
    } else {
      ptx::MmaS4S4(d, a, b0, b1);
    }
  }
  static __device__ __forceinline__ void HalfMma(Sum (&d)[4], u32 a0, u32 a1,
                                                 u32 b) {
    if constexpr (kUnsignedWeights) {
      ptx::MmaU4S4(d, a0, a1, b);
    } else {
      ptx::MmaS4S4(d, a0, a1, b);
    }
  }
};

struct Float4e2m1 {
  static constexpr int kBits = 4;
  static constexpr bool kInteger = false;
  static constexpr int kExponentBits = 2;
  static constexpr int kMantissaBits = 1;
  static constexpr int kBias = 1;
  using Sum = float;
  static __device__ __forceinline__ void Mma(Sum (&d)[4], const u32 (&a)[4],
                                             u32 b0, u32 b1) {
    ptx::MmaE2m1(d, a, b0, b1);
  }
  // There is no narrower instruction: the other half is zeros.
  static __device__ __forceinline__ void HalfMma(Sum (&d)[4], u32 a0, u32 a1,
                                                 u32 b) {
    const u32 a[4] = {a0, a1, 0, 0};
    ptx::MmaE2m1(d, a, b, 0);
  }
};

// Codes that are operands as they are stored.
template <int kCodeBits>
struct DirectWeight {
  static constexpr int kBits = kCodeBits;
  template <typename Type, bool kExact>
  static constexpr int kExponent = 0;
};

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_NARROW_CUH_
