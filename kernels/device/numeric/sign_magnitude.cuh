// Packed sign and magnitude (floats without exponent) to 16-bit floats.
//
// With its sign in bit 15 and its magnitude in the low bits, a code already is
// a float16: the subnormal magnitude · 2^−24. The packing puts the sign where
// one rotation brings both halves there, so a register takes a rotation and a
// mask, and the epilogue takes 2^24 off.
//
// Where the exact values are needed, the sign and the magic number (see
// float16.cuh) are or-ed on, ±(2^mantissa + magnitude), and ∓2^mantissa added:
// a rotation, two lop3 and an addition.
//
// Instructions for the 16 registers of a block's unit, for magnitudes of 1 to 7
// bits; symmetric integers of the same width take 34 and more in float16, 36
// and more in bfloat16 (integer.cuh):
//
//   e0 → float16         30 34 28 36 46 41 24
//   e0 → float16 exact   62 66 60 68 78 73 56
//   e0 → bfloat16        62 66 60 68 78 73 56
//
// of the 8 (4) registers of one of narrower operands, of which the codes are
// subnormals or least normal numbers as they stand:
//
//   e0 → float8e4m3      14 21 12 26
//   e0 → float8e5m2      14 21 12
//   e0 → float4e2m1      6 10
#ifndef HONE_DEVICE_NUMERIC_SIGN_MAGNITUDE_CUH_
#define HONE_DEVICE_NUMERIC_SIGN_MAGNITUDE_CUH_

#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/ptx/math.cuh"

namespace hone {

template <int kMagnitudeBits>
struct SignMagnitudeWeight {
  static constexpr int kBits = 1 + kMagnitudeBits;
  template <typename Type, bool kExact>
  static constexpr int kExponent = kExact || Type::kExponentBits == 8
                                       ? 0
                                       : Type::kBias - 1 + Type::kMantissaBits;

  template <typename Type, bool kExact, int kReg>
  static __device__ __forceinline__ u32 Register(const u32 (&words)[kBits],
                                                 u32) {
    constexpr int kWidth = Type::kBits;
    constexpr u32 kSign = InAll(kWidth, 1u << (kWidth - 1));
    constexpr u32 kCode = kSign | LowBits(kWidth, kMagnitudeBits);
    using F = Fields<kWidth, kBits, layout::CodeLayout::kCrossSign>;
    u32 code;
    if constexpr (!F::Has(kReg)) {
      code = F::template Gather<kReg, 0, kWidth - 1>(words, 0);
    } else {
      code = words[F::Word(kReg)];
      if constexpr (F::Bit(kReg) != 0) {
        code = ptx::RotateRight(code, F::Bit(kReg));
      }
    }
    if constexpr (kExponent<Type, kExact> != 0) {
      return code & kCode;
    } else {
      return Type::Add2(ptx::AndOr(code, kCode, Type::kMagic),
                        ptx::AndNotOr(code, kSign, Type::kMagic));
    }
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_SIGN_MAGNITUDE_CUH_
