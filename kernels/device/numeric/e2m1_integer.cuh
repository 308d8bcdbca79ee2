// Packed float4e2m1 to int8: twice the value, 0, 1, 2, 3, 4, 6, 8 or 12.
//
// The three low bits of four codes, brought together, select from a table of
// magnitudes and from one of their negatives; bytes of signs choose between
// them. Twelve instructions a register of four values.
//
// Instructions for the 8 registers of a block's unit:
//
//   float4e2m1 → int8   96
#ifndef HONE_DEVICE_NUMERIC_E2M1_INTEGER_CUH_
#define HONE_DEVICE_NUMERIC_E2M1_INTEGER_CUH_

#include "kernels/device/numeric/fields.cuh"
#include "kernels/device/ptx/math.cuh"

    namespace hone {

  struct E2m1IntegerWeight {
    static constexpr int kBits = 4;
    template <typename Type, bool kExact>
    static constexpr int kExponent = -1;

    template <typename Type, bool kExact, int kReg>
    static __device__ __forceinline__ u32 Register(const u32 (&words)[kBits],
                                                   u32) {
      using F = Fields<8, kBits, layout::FloatLayout(8, 2)>;
      static_assert(Type::kBits == 8 && F::Has(kReg));
      const u32 word = words[F::Word(kReg)];
      const u32 codes = word >> F::Bit(kReg) & LowBits(8, 3);
      // A nibble for each byte, the first two in byte 0, the others in byte 2.
      const u32 nibbles = codes | codes >> 4;
      const u32 selector = ptx::Permute(nibbles, 0, 0x4420u);
      const u32 plus = ptx::Permute(0x03020100u, 0x0c080604u, selector);
      const u32 minus = ptx::Permute(0xfdfeff00u, 0xf4f8fafcu, selector);
      const u32 negative =
          ptx::Permute(word << (7 - F::LastBit(kReg)), 0, 0xba98u);
      return (plus & ~negative) | (minus & negative);
    }
  };

}  // namespace hone

#endif  // HONE_DEVICE_NUMERIC_E2M1_INTEGER_CUH_
