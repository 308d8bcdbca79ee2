// Packed floats of at most 8 bits, with 1 or more exponent bits, to floats of 16
// bits, or of 8 and 4 where those hold them.
//
// Sign, exponent and mantissa move to where Type has them; subnormals stay
// subnormals. What is left is the difference of the exponent biases, a power of
// two: 2^−kExponent. Where scales apply to accumulators, float16 leaves it to
// the epilogue; otherwise one multiplication takes it off, exactly. (Products
// of bfloat16 codes as they stand, 2^−120 and less, would be subnormal in
// float32 accumulators.)
//
// A register takes at most a shift for the sign, a shift for the rest and two
// lop3, less where a field lies right, one lop3 and at most one shift where the
// types have the same exponent bits, and one multiplication where the power of
// two is taken off. Instructions for the 16 registers of a block's unit:
//
//   float4e2m1 → float16         48
//   float4e2m1 → float16 exact   64
//   float4e2m1 → bfloat16        68
//   float6e2m3 → float16         62
//   float6e3m2 → float16         64
//   float6e3m2 → bfloat16        70
//   float8e4m3 → float16         40
//   float8e4m3 → float16 exact   56
//   float8e4m3 → bfloat16        72
//   float8e5m2 → float16         24
//   float8e5m2 → bfloat16        72
//
// of the 8 registers of one of 8-bit operands:
//
//   float4e2m1 → float8e4m3      28
//   float4e2m1 → float8e5m2      20
//   float6e2m3 → float8e4m3      22
//   float6e3m2 → float8e4m3      30
//   float6e3m2 → float8e5m2      22
#ifndef HONE_DEVICE_NUMERIC_MINIFLOAT_CUH_
#define HONE_DEVICE_NUMERIC_MINIFLOAT_CUH_

#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/numeric/float16.cuh"
#include "kernels/device/ptx/math.cuh"

namespace hone {

template <int kWeightExponent, int kWeightMantissa>
struct FloatWeight {
  static constexpr int kBits = 1 + kWeightExponent + kWeightMantissa;
  // Of the codes moved into Type.
  template <typename Type>
  static constexpr int kBiasDifference = Type::kBias + 1 -
                                         (1 << (kWeightExponent - 1));
  template <typename Type, bool kExact>
  static constexpr int kExponent =
      kExact || Type::kExponentBits == 8 ? 0 : kBiasDifference<Type>;

  template <typename Type, bool kExact, int kReg>
  static __device__ __forceinline__ u32 Register(const u32 (&words)[kBits],
                                                 u32) {
    using F = Fields<Type::kBits, kBits,
                     layout::FloatLayout(Type::kBits, kWeightExponent)>;
    if constexpr (F::Has(kReg)) {
      return Convert<Type, kExact, F::Bit(kReg), F::LastBit(kReg)>(
          words[F::Word(kReg)]);
    } else {
      return Rebias<Type, kExact>(
          F::template Gather<kReg, kPlace<Type>, Type::kBits - 1>(words, 0));
    }
  }

  // The codes whose lower bits start at bit kBit of all parts and whose signs
  // are their bits kSignBit.
  template <typename Type, bool kExact, int kBit, int kSignBit>
  static __device__ __forceinline__ u32 Convert(u32 word) {
    constexpr int kShift = Type::kBits - 1 - kSignBit;
    constexpr u32 kSign = InAll(Type::kBits, 1u << (Type::kBits - 1));
    constexpr int kRest = kPlace<Type> - kBit;
    constexpr u32 kMask = LowBits(Type::kBits, kBits - 1) << kPlace<Type>;
    if constexpr (kShift == kRest) {
      return Rebias<Type, kExact>(Shift(word, kShift) & (kMask | kSign));
    } else {
      return Rebias<Type, kExact>(
          ptx::AndOr(Shift(word, kShift), kSign, Shift(word, kRest) & kMask));
    }
  }

 private:
  // Where the mantissa's lowest bit goes.
  template <typename Type>
  static constexpr int kPlace = Type::kMantissaBits - kWeightMantissa;

  template <typename Type, bool kExact>
  static __device__ __forceinline__ u32 Rebias(u32 code) {
    constexpr int kRest = kBiasDifference<Type> - kExponent<Type, kExact>;
    if constexpr (kRest == 0) {
      return code;
    } else {
      return Type::Mul2(code, PackedPowerOfTwo<Type>(kRest));
    }
  }
};

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_MINIFLOAT_CUH_
