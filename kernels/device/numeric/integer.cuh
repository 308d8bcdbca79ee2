// Packed integers to 16-bit floats (to narrower operands: narrow_integer.cuh).
//
// Where the mantissa of Type has room, a field is or-ed into the magic number
// 2^mantissa and the sum taken off again: with the offset of symmetric integers
// or the zero point, in the same addition. A field that lies o bits up reads as
// 2^mantissa + v · 2^o, and an fma takes the 2^o off too, which saves the
// shift; fields further up are shifted down together. All results are exact but
// those with float zero points, whose difference is rounded once.
//
// Instructions for the 16 registers of a block's unit, for 1 to 8 bits, with or
// without an offset (divide by 16 for the cost of one register of two values):
//
//   int → float16    33 34 40 36 46 50 53 32
//   int → bfloat16   34 36 43 44 51 50 53 56
//   uint8 → bfloat16   72
//
// Integer zero points add a few per group and none per register (16 for uint8 →
// bfloat16); float zero points add 16.
//
// 8 bits do not fit beside bfloat16's magic number. The low seven do; the
// eighth chooses what to subtract, 128 or 256: two lop3 and one fma, and one
// addition for unsigned codes.
#ifndef HONE_DEVICE_NUMERIC_INTEGER_CUH_
#define HONE_DEVICE_NUMERIC_INTEGER_CUH_

#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/ptx/math.cuh"

namespace hone {

// Codes of kWeightBits, offset by kOffset.
template <int kWeightBits, int kOffset, ZeroKind kZero>
struct IntegerWeight {
  static constexpr int kBits = kWeightBits;
  template <typename Type, bool kExact>
  static constexpr int kExponent = 0;

  template <typename Type, bool kExact, int kReg>
  static __device__ __forceinline__ u32 Register(const u32 (&words)[kBits],
                                                 u32 zero) {
    using F = Fields<16, kBits, layout::CodeLayout::kPlain>;
    if constexpr (!F::Has(kReg)) {
      return Finish<Type, 0>(
          F::template Gather<kReg, 0, kBits - 1>(words, Type::kMagic), zero);
    } else {
      const u32 word = words[F::Word(kReg)];
      constexpr int kBit = F::Bit(kReg);
      if constexpr (kBits > Type::kMantissaBits) {
        return WithZero<Type>(Wide<Type>(word >> kBit), zero);
      } else if constexpr (kBits == 8) {
        // A byte under the magic number's upper byte.
        return Finish<Type, 0>(
            ptx::Permute(word, Type::kMagic, kBit == 0 ? 0x5250u : 0x5351u),
            zero);
      } else {
        // Fields that fit the mantissa where they are, and how far the others
        // are shifted, all by the same.
        constexpr int kSpan =
            ((Type::kMantissaBits - kBits) / kBits + 1) * kBits;
        constexpr int kShift = kBit / kSpan * kSpan;
        constexpr int kUp = kBit - kShift;
        return Finish<Type, kUp>(
            ptx::AndOr(word >> kShift, LowBits(16, kBits) << kUp, Type::kMagic),
            zero);
      }
    }
  }

 private:
  // From 2^mantissa + v · 2^kUp to v less offset and zero point.
  template <typename Type, int kUp>
  static __device__ __forceinline__ u32 Finish(u32 x, u32 zero) {
    u32 minus = PackedMinusMagic<Type>(kUp, kOffset);
    if constexpr (kZero == ZeroKind::kInteger) minus = Type::Add2(minus, zero);
    u32 value;
    if constexpr (kUp == 0) {
      value = Type::Add2(x, minus);
    } else {
      value = Type::Fma2(x, PackedPowerOfTwo<Type>(-kUp), minus);
    }
    if constexpr (kZero == ZeroKind::kFloat) value = Type::Add2(value, zero);
    return value;
  }

  // v − 128; `code` holds v in the low bytes of its halves.
  template <typename Type>
  static __device__ __forceinline__ u32 Wide(u32 code) {
    const u32 low = ptx::AndOr(code, LowBits(16, 7), Type::kMagic);
    // −128 where the top bit is set, −256 where it is not.
    const u32 minus = ptx::AndNotOr(code, 0x00800080u, 0xc300c300u);
    return Type::Add2(low, minus);
  }

  // v − kOffset − zero from v − 128.
  template <typename Type>
  static __device__ __forceinline__ u32 WithZero(u32 value, u32 zero) {
    static_assert(kOffset == 0 || kOffset == 128 && kZero == ZeroKind::kNone);
    constexpr u32 k128 = PackedPowerOfTwo<Type>(7);
    if constexpr (kOffset == 128) {
      return value;
    } else if constexpr (kZero == ZeroKind::kNone) {
      return Type::Add2(value, k128);
    } else if constexpr (kZero == ZeroKind::kInteger) {
      return Type::Add2(value, Type::Add2(k128, zero));
    } else {
      return Type::Add2(Type::Add2(value, k128), zero);
    }
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_INTEGER_CUH_
