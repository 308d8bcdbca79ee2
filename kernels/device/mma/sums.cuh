// What an MMA's products are summed in: Sum is the type of its accumulators.
#ifndef HONE_DEVICE_MMA_SUMS_CUH_
#define HONE_DEVICE_MMA_SUMS_CUH_

#include "kernels/device/ptx/core.cuh"

namespace hone {

// The four sums of a fragment, or as pairs of float16.
template <bool kHalf, typename Sum>
struct ChoosePartial {
  using Type = Sum[4];
};
template <typename Sum>
struct ChoosePartial<true, Sum> {
  using Type = u32[2];
};

// Accumulators: the MMA's own, or float32 that partial sums join.
template <bool kPartial, typename Sum>
struct ChooseSum {
  using Type = Sum;
};
template <typename Sum>
struct ChooseSum<true, Sum> {
  using Type = float;
};

}  // namespace hone

#endif  // HONE_DEVICE_MMA_SUMS_CUH_
