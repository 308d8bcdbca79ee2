// What codes of quantized activations may be: shared by device code and the
// host.
#ifndef HONE_DEVICE_NUMERIC_INPUT_CODE_CUH_
#define HONE_DEVICE_NUMERIC_INPUT_CODE_CUH_

#include "kernels/device/numeric/codes.cuh"

namespace hone::codes {

// No scale is smaller: the least normal float32, whose reciprocal is finite.
inline constexpr float kLeastInputScale = 0x1p-126f;

HONE_CODES_FN constexpr bool HasNan(int format) {
  return FormatKind(format) == kFloatKind && ExponentBits(format) >= 4;
}

// The largest value that codes have; of integers 2^(bits − 1) − 1, so that the
// least one is never used.
HONE_CODES_FN float LargestInput(int format) {
  return FormatKind(format) == kFloatKind
             ? Decode(LargestCode(format), format)
             : static_cast<float>((1 << MantissaBits(format)) - 1);
}

// The code nearest to q, ties to even, between ± the largest value. NaN is 0x7f
// in 8-bit floats and 0 in the types without one.
HONE_CODES_FN U32 InputCode(float q, int format) {
  if ((FloatToBits(q) & 0x7fffffff) > 0x7f800000) {
    return HasNan(format) ? 0x7f : 0;
  }
  const float largest = LargestInput(format);
  return Encode(q > largest ? largest : q < -largest ? -largest : q, format);
}

}  // namespace hone::codes

#endif  // HONE_DEVICE_NUMERIC_INPUT_CODE_CUH_
