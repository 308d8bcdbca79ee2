// Packed integer codes to the registers of one MMA A fragment.
//
// Dequant<bits, Type>::Fragment() turns the words of one m16k16 step (see
// memory/packed_layout.cuh) into four registers of packed 16-bit values, codes
// offset by half their range. All results are exact. Instructions for the four
// registers:
//
//   int4 → float16    1 shift + 4 lop3 + 2 add + 2 fma       (9)
//   int4 → bfloat16   3 shift + 4 lop3 + 4 fma               (11)
//   int8 → float16    4 prmt + 4 add                         (8)
//   int8 → bfloat16   8 prmt + 8 add + 4 cvt                 (20)
#ifndef HONE_DEVICE_NUMERIC_DEQUANT_CUH_
#define HONE_DEVICE_NUMERIC_DEQUANT_CUH_

#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/ptx/math.cuh"

namespace hone {

template <int kBits, typename Type>
struct Dequant;

// 0x6400 | v is the float16 1024 + v. Nibbles 1 and 5 stay where they are,
// four bits up, and read as 1024 + 16 v.
template <>
struct Dequant<4, Float16> {
  static constexpr int kWords = 1;
  static __device__ __forceinline__ void Fragment(const u32* words,
                                                  u32 (&a)[4]) {
    constexpr u32 kMagic = 0x64006400u;
    constexpr u32 kLow = 0x000f000fu;
    constexpr u32 kHigh = 0x00f000f0u;
    constexpr u32 kMinus1032 = 0xe408e408u;
    constexpr u32 kSixteenth = 0x2c002c00u;
    constexpr u32 kMinus72 = 0xd480d480u;  // −(1024 / 16 + 8)
    const u32 q = words[0];
    const u32 r = q >> 8;
    a[0] = ptx::AddHalf2(ptx::AndOr(q, kLow, kMagic), kMinus1032);
    a[1] = ptx::FmaHalf2(ptx::AndOr(q, kHigh, kMagic), kSixteenth, kMinus72);
    a[2] = ptx::AddHalf2(ptx::AndOr(r, kLow, kMagic), kMinus1032);
    a[3] = ptx::FmaHalf2(ptx::AndOr(r, kHigh, kMagic), kSixteenth, kMinus72);
  }
};

// 0x4300 | v is the bfloat16 128 + v; its mantissa has no room for a shifted
// nibble.
template <>
struct Dequant<4, Bfloat16> {
  static constexpr int kWords = 1;
  static __device__ __forceinline__ void Fragment(const u32* words,
                                                  u32 (&a)[4]) {
    constexpr u32 kMagic = 0x43004300u;
    constexpr u32 kOne = 0x3f803f80u;
    constexpr u32 kMinus136 = 0xc308c308u;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      a[r] =
          ptx::FmaBfloat2(ptx::AndOr(words[0] >> (4 * r), 0x000f000fu, kMagic),
                          kOne, kMinus136);
    }
  }
};

// A byte under 0x64 is the float16 1024 + v.
template <>
struct Dequant<8, Float16> {
  static constexpr int kWords = 2;
  static __device__ __forceinline__ void Fragment(const u32* words,
                                                  u32 (&a)[4]) {
    constexpr u32 kMagic = 0x64646464u;
    constexpr u32 kMinus1152 = 0xe480e480u;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      a[r] = ptx::AddHalf2(
          ptx::Permute(words[r / 2], kMagic, r % 2 == 0 ? 0x4140u : 0x4342u),
          kMinus1152);
    }
  }
};

// A byte in the low mantissa of 2^23 is the float32 2^23 + v; eight bits and a
// sign fit bfloat16, so the conversion is exact.
template <>
struct Dequant<8, Bfloat16> {
  static constexpr int kWords = 2;
  static __device__ __forceinline__ float One(u32 word, int byte) {
    return ptx::BitsToFloat(ptx::Permute(word, 0x4b000000u, 0x7650u + byte)) -
           8388736.0f;  // 2^23 + 128
  }
  static __device__ __forceinline__ void Fragment(const u32* words,
                                                  u32 (&a)[4]) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      a[r] = ptx::PackBfloat2(One(words[r / 2], r % 2 * 2),
                              One(words[r / 2], r % 2 * 2 + 1));
    }
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_DEQUANT_CUH_
