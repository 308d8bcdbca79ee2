// Packed integers to operands of 8 and 4 bits. All conversions are exact.
//
//   to integers  A code moved to the top of its part is its value times a power
//                of two, signed or not, which the epilogue takes off: a shift
//                and a mask. With zero points the difference is formed beside a
//                bit that borrows stop at: shift, lop3, subtraction, lop3.
//   to floats    A code m is the float m · 2^(1 − bias − mantissa): up to
//                2^mantissa as a subnormal, up to twice that as a least normal
//                number. Unsigned codes are done with a mask; signed ones
//                become sign and magnitude, without lookup and branch, in four
//                to six further instructions. (Where no weight is the lowest
//                integer, sign and magnitude stored as such needs none of them:
//                sign_magnitude.cuh, UseSignMagnitude() of kernels/pack.)
//
// Instructions for the 8 registers of a block's unit (4 for 4-bit operands), for
// 1 bit and more; divide for the cost of one register of four (eight) values:
//
//   uint → int8         15 14 19 12 23 22 27
//   int → int8          15 14 19 12 23 22 27
//   int → int4          7 6 11
//   uint → float8e4m3   15 14 17 12
//   int → float8e4m3    71 70 73 68 75
//   int → float8e5m2    71 70 73 68
//   int → float4e2m1    27 26 29
#ifndef HONE_DEVICE_NUMERIC_NARROW_INTEGER_CUH_
#define HONE_DEVICE_NUMERIC_NARROW_INTEGER_CUH_

#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/ptx/math.cuh"

    namespace hone {

  // Two's complement or unsigned codes of kWeightBits.
  template <int kWeightBits, bool kSigned, bool kHasZero>
  struct NarrowInteger {
    static constexpr int kBits = kWeightBits;
    template <typename Type, bool kExact>
    static constexpr int kExponent = [] {
      if constexpr (!Type::kInteger) {
        return Type::kBias - 1 + Type::kMantissaBits;
      } else {
        return kHasZero ? 0 : kBits - Type::kBits;
      }
    }();

    template <typename Type, bool kExact, int kReg>
    static __device__ __forceinline__ u32 Register(const u32 (&words)[kBits],
                                                   u32 zero) {
      constexpr u32 kTop = InAll(Type::kBits, 1u << (Type::kBits - 1));
      if constexpr (Type::kInteger && !kHasZero) {
        return Codes<Type, kReg, Type::kBits - kBits>(words);
      } else if constexpr (Type::kInteger) {
        return ((Codes<Type, kReg, 0>(words) | kTop) - zero) ^ kTop;
      } else if constexpr (kHasZero) {
        return SignMagnitude<Type>((Codes<Type, kReg, 0>(words) | kTop) - zero);
      } else if constexpr (kSigned) {
        constexpr u32 kHalf = InAll(Type::kBits, 1u << (kBits - 1));
        return SignMagnitude<Type>(
            (Codes<Type, kReg, 0>(words) ^ (kTop | kHalf)) - kHalf);
      } else {
        return Codes<Type, kReg, 0>(words);
      }
    }

   private:
    // The register's codes, bit 0 at bit kTarget of the parts.
    template <typename Type, int kReg, int kTarget>
    static __device__ __forceinline__ u32 Codes(const u32 (&words)[kBits]) {
      using F = Fields<Type::kBits, kBits, layout::CodeLayout::kPlain>;
      if constexpr (F::Has(kReg)) {
        return Shift(words[F::Word(kReg)], kTarget - F::Bit(kReg)) &
               (LowBits(Type::kBits, kBits) << kTarget);
      } else {
        return F::template Gather<kReg, kTarget, kTarget + kBits - 1>(words, 0);
      }
    }

    // From v plus the top bit of each part, |v| below that bit: the top bit set
    // where v is not negative. A negative v takes the two's complement of the
    // whole part, which is its magnitude under a set top bit.
    template <typename Type>
    static __device__ __forceinline__ u32 SignMagnitude(u32 x) {
      constexpr u32 kOnes = InAll(Type::kBits, 1);
      if constexpr (Type::kBits == 8) {
        // Bytes of ones where v is not negative.
        const u32 positive = ptx::Permute(x, 0, 0xba98u);
        return (x ^ (~positive | InAll(8, 0x80))) + (~positive & kOnes);
      } else {
        const u32 negative = ~x >> (Type::kBits - 1) & kOnes;
        constexpr u32 kLow = (1u << (Type::kBits - 1)) - 1;
        return (x ^ InAll(Type::kBits, 1u << (Type::kBits - 1)) ^
                negative * kLow) +
               negative;
      }
    }
  };

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_NARROW_INTEGER_CUH_
