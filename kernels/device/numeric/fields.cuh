// From a lane's packed words to the codes of one MMA register: the bits of its
// codes (two of 16 bits, four of 8, eight of 4), moved to where a number format
// wants them, in all parts at once.
#ifndef HONE_DEVICE_NUMERIC_FIELDS_CUH_
#define HONE_DEVICE_NUMERIC_FIELDS_CUH_

#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/device/ptx/core.cuh"
#include "kernels/device/ptx/math.cuh"

namespace hone {

// Left by `bits`, or right where that is negative.
__device__ __forceinline__ u32 Shift(u32 word, int bits) {
  return bits >= 0 ? word << bits : word >> -bits;
}

// `value` in every part of `width` bits.
__device__ constexpr u32 InAll(int width, u32 value) {
  return value * (width == 16  ? 0x00010001u
                  : width == 8 ? 0x01010101u
                               : 0x11111111u);
}

// Bits [0, count) of every part.
__device__ constexpr u32 LowBits(int width, int count) {
  return InAll(width, (1u << count) - 1);
}

// How the codes of B lie in the words of a lane; see packed_layout.cuh.
template <int kWidth, int kBits, layout::CodeLayout kLayout>
struct Fields {
  static constexpr int kPerPart = layout::Fields(kWidth, kBits);
  static constexpr int kRegisters = layout::FieldRegisters(kWidth, kBits);

  // Whether register `reg` has fields of its own: word, first bit, and last bit
  // (in the lowest part).
  static __device__ constexpr bool Has(int reg) { return reg < kRegisters; }
  static __device__ constexpr int Word(int reg) { return reg / kPerPart; }
  static __device__ constexpr int Bit(int reg) {
    return layout::PlaceOf(kWidth, kBits, kLayout, reg, 0, 0).bit;
  }
  static __device__ constexpr int LastBit(int reg) {
    return layout::PlaceOf(kWidth, kBits, kLayout, reg, 0, kBits - 1).bit;
  }

  // A register that is spread over spare bits: bits j < kBits − 1 of its codes
  // to kTarget + j, their last bits to kLast, or-ed onto `x`. One shift and one
  // lop3 for each run of bits.
  template <int kReg, int kTarget, int kLast, int kFirst = 0>
  static __device__ __forceinline__ u32 Gather(const u32 (&words)[kBits],
                                               u32 x) {
    if constexpr (kFirst == kBits) {
      return x;
    } else {
      constexpr int kEnd = RunEnd(kReg, kFirst, kTarget, kLast);
      constexpr int kTo = kFirst == kBits - 1 ? kLast : kTarget + kFirst;
      constexpr layout::BitPlace kFrom =
          layout::PlaceOf(kWidth, kBits, kLayout, kReg, 0, kFirst);
      x = ptx::AndOr(Shift(words[kFrom.word], kTo - kFrom.bit),
                     LowBits(kWidth, kEnd - kFirst) << kTo, x);
      return Gather<kReg, kTarget, kLast, kEnd>(words, x);
    }
  }

 private:
  // The end of the bits from `first` on that move together.
  static __device__ constexpr int RunEnd(int reg, int first, int target,
                                         int last) {
    const layout::BitPlace start =
        layout::PlaceOf(kWidth, kBits, kLayout, reg, 0, first);
    const int start_to = first == kBits - 1 ? last : target + first;
    int end = first + 1;
    for (; end < kBits; ++end) {
      const layout::BitPlace place =
          layout::PlaceOf(kWidth, kBits, kLayout, reg, 0, end);
      const int to = end == kBits - 1 ? last : target + end;
      if (place.word != start.word || place.bit - start.bit != end - first ||
          to - start_to != end - first) {
        break;
      }
    }
    return end;
  }
};

// The zero points of rows g and g + 8 of a block, each in all parts of a
// register: negated in 16-bit types, else as they are.
struct ZeroPair {
  u32 low;
  u32 high;
};

// Which zero points weights have.
enum class ZeroKind : u8 { kNone, kInteger, kFloat };

// The four registers of MMA step kStep of a packed unit. Weight is one of the
// classes of this folder that have Register(). The results are the weights'
// values (less their zero points) times 2^−Weight::kExponent<Type, kExact>,
// which is 0 where kExact is asked for (of 16-bit types only).
template <typename Weight, typename Type, bool kExact, int kStep>
__device__ __forceinline__ void DequantFragment(
    const u32 (&words)[Weight::kBits], const ZeroPair& zero, u32 (&a)[4]) {
  using W = Weight;
  a[0] = W::template Register<Type, kExact, 4 * kStep>(words, zero.low);
  a[1] = W::template Register<Type, kExact, 4 * kStep + 1>(words, zero.high);
  a[2] = W::template Register<Type, kExact, 4 * kStep + 2>(words, zero.low);
  a[3] = W::template Register<Type, kExact, 4 * kStep + 3>(words, zero.high);
}

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_FIELDS_CUH_
