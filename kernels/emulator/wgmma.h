// Warpgroup matrix products in flight.
//
// A warpgroup issues an MMA when its fourth warp has come to it. From then on
// the MMA may read its operands and write its accumulators at any moment until
// a wgmma.wait_group of its group; Options::landing chooses. One warp's wait is
// enough to know that the whole warpgroup's MMA is done.
#ifndef HONE_KERNELS_EMULATOR_WGMMA_H_
#define HONE_KERNELS_EMULATOR_WGMMA_H_

#include <array>
#include <cstdint>
#include <deque>

#include "kernels/emulator/program.h"
#include "kernels/emulator/vector_clock.h"

namespace hone::emulator {

class WgmmaUnit {
 public:
  void Reset();

  // A warp comes to an MMA with its descriptors (a: 0 if in registers) and
  // scale-d. It waits here until the warpgroup is complete.
  void Arrive(Cta& cta, Warp& warp, uint64_t a, uint64_t b, bool accumulate);
  // Which warps of a warpgroup have come to the MMA that it gathers for.
  uint32_t Arrived(uint32_t warpgroup) const {
    return groups_[warpgroup].arrived;
  }
  // wgmma.wait_group: all but the `keep` last committed groups of the warp.
  void Wait(Cta& cta, Warp& warp, uint32_t keep);
  void ComputeAll(Cta& cta, uint32_t warpgroup);

 private:
  struct Mma {
    uint32_t statement = 0;
    uint64_t a = 0, b = 0;
    bool accumulate = false;
    uint32_t group = 0;
  };
  struct Warpgroup {
    uint32_t arrived = 0;  // bit mask of the four warps
    Mma gathering;
    std::deque<Mma> queue;  // issued, not computed yet; in order
  };
  void Issue(Cta& cta, uint32_t warpgroup);
  bool CheckOperand(Cta& cta, uint32_t warpgroup, const Mma& mma, bool is_a,
                    const VectorClock& known);
  void Compute(Cta& cta, uint32_t warpgroup, const Mma& mma);

  std::array<Warpgroup, kMaxWarpgroups> groups_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_WGMMA_H_
