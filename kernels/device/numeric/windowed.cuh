// float4e2m1 to 8-bit floats with scales that are powers of two, in one lookup.
//
// Where the scales of a channel span few octaves (a layer's b_scale_window), a
// weight times its scale over the channel's least one is exact in type A, and
// the MMA needs no partial sums. The eight magnitudes are a table of eight
// bytes in two registers; the scale adds to the exponent of each but the first
// (zero, whatever the scale): one multiply-add a register, row and group. prmt
// then looks up four codes at a time by their lower three bits, which lie side
// by side as its selector wants them (CodeLayout::kTable), and one lop3 adds
// the signs.
//
// Instructions for two registers of four weights: mask and shift of the
// selectors, two lookups, a shift and two lop3 for signs: seven, and the
// tables' four multiply-adds per group and two rows.
#ifndef HONE_DEVICE_NUMERIC_WINDOWED_CUH_
#define HONE_DEVICE_NUMERIC_WINDOWED_CUH_

#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"

namespace hone {

// The tables of rows g and g + 8 of a block.
struct TablePair {
  u32 low[2];
  u32 high[2];
};

struct WindowedWeight {
  static constexpr int kBits = 4;
  // The table at scale 1 has 0.5 as the least normal number, 2^(1 − bias).
  template <typename Type, bool kExact>
  static constexpr int kExponent = Type::kBias - 2;

  // For channels whose least scales have these codes; to be scaled.
  template <typename Type>
  static __device__ __forceinline__ TablePair Base(u32 low, u32 high) {
    TablePair pair;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      pair.low[i] = Magnitudes<Type>(i) - low * Step<Type>(i);
      pair.high[i] = Magnitudes<Type>(i) - high * Step<Type>(i);
    }
    return pair;
  }

  // The tables of a group with the scale codes in the two bytes of `codes`.
  template <typename Type>
  static __device__ __forceinline__ TablePair Scaled(const TablePair& base,
                                                     u32 codes) {
    const u32 low = codes & 0xffu;
    const u32 high = codes >> 8;
    TablePair pair;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      pair.low[i] = base.low[i] + low * Step<Type>(i);
      pair.high[i] = base.high[i] + high * Step<Type>(i);
    }
    return pair;
  }

  // The four registers of MMA step kStep of a packed unit.
  template <int kStep>
  static __device__ __forceinline__ void Fragment(const u32 (&words)[kBits],
                                                  const TablePair& tables,
                                                  u32 (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const u32 word = words[kStep * 2 + i];
      const u32 selectors = word & 0x77777777u;
      a[2 * i] =
          ptx::AndOr(word, 0x80808080u,
                     ptx::Permute(tables.low[0], tables.low[1], selectors));
      a[2 * i + 1] = ptx::AndOr(
          word << 4, 0x80808080u,
          ptx::Permute(tables.high[0], tables.high[1], selectors >> 16));
    }
  }

 private:
  // What one octave adds to the codes' magnitudes.
  template <typename Type>
  static __device__ constexpr u32 Step(int i) {
    return (i == 0 ? 0x01010100u : 0x01010101u) << Type::kMantissaBits;
  }
  // 0, 0.5, 1, 1.5 and 2, 3, 4, 6 over 2^(bias − 2).
  template <typename Type>
  static __device__ constexpr u32 Magnitudes(int i) {
    constexpr u32 kHalf = 1u << Type::kMantissaBits;
    constexpr u32 kAnd = kHalf / 2;
    return i == 0 ? kHalf << 8 | 2 * kHalf << 16 | (2 * kHalf + kAnd) << 24
                  : 3 * kHalf | (3 * kHalf + kAnd) << 8 | 4 * kHalf << 16 |
                        (4 * kHalf + kAnd) << 24;
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_WINDOWED_CUH_
