// Kernels with a part taken out, to see what that part costs: hone-kernel-bench
// compiles them (its --help names them); nothing else does. Their outputs are
// wrong, their loads, stores and barriers those of the whole kernel.
#ifndef HONE_DEVICE_MMA_STRIP_CUH_
#define HONE_DEVICE_MMA_STRIP_CUH_

namespace hone {

enum class Strip {
  kNothing,
  // Only the ring's loads, its barriers and the epilogue are left.
  kArithmetic,
  // MMAs of the codes as they lie there: no dequantization, no group scales.
  kDequantization,
  // Operands are made, but not multiplied.
  kMmas,
};

#ifdef HONE_STRIP
inline constexpr Strip kStrip = static_cast<Strip>(HONE_STRIP);
#else
inline constexpr Strip kStrip = Strip::kNothing;
#endif

}  // namespace hone

#endif  // HONE_DEVICE_MMA_STRIP_CUH_
