// Loops over the lanes of a warp.
#ifndef HONE_KERNELS_EMULATOR_LANES_H_
#define HONE_KERNELS_EMULATOR_LANES_H_

#include <bit>
#include <cstdint>

#include "kernels/emulator/cta.h"
#include "kernels/emulator/program.h"

namespace hone::emulator {

template <typename F>
inline void ForLanes(uint32_t mask, F f) {
  if (mask == kAllLanes) {
#pragma GCC ivdep
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) f(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) f(std::countr_zero(mask));
}

// Like ForLanes, in lane order, until f returns false.
template <typename F>
inline void ForLanesWhile(uint32_t mask, F f) {
  for (; mask != 0; mask &= mask - 1) {
    if (!f(static_cast<uint32_t>(std::countr_zero(mask)))) return;
  }
}

// r[0] = F(r[1], ...), lane by lane.
template <auto F, typename D, typename A>
void Map(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  D* d = warp.Reg<D>(inst.r[0]);
  const A* a = warp.Reg<A>(inst.r[1]);
  ForLanes(mask, [=](uint32_t i) { d[i] = F(a[i]); });
}
template <auto F, typename D, typename A, typename B>
void Map(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  D* d = warp.Reg<D>(inst.r[0]);
  const A* a = warp.Reg<A>(inst.r[1]);
  const B* b = warp.Reg<B>(inst.r[2]);
  ForLanes(mask, [=](uint32_t i) { d[i] = F(a[i], b[i]); });
}
template <auto F, typename D, typename A, typename B, typename C>
void Map(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  D* d = warp.Reg<D>(inst.r[0]);
  const A* a = warp.Reg<A>(inst.r[1]);
  const B* b = warp.Reg<B>(inst.r[2]);
  const C* c = warp.Reg<C>(inst.r[3]);
  ForLanes(mask, [=](uint32_t i) { d[i] = F(a[i], b[i], c[i]); });
}
// With the instruction, for rounding and other modes.
template <auto F, typename D, typename A, typename B, typename C>
void MapWithMode(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  D* d = warp.Reg<D>(inst.r[0]);
  const A* a = warp.Reg<A>(inst.r[1]);
  const B* b = warp.Reg<B>(inst.r[2]);
  const C* c = warp.Reg<C>(inst.r[3]);
  ForLanes(mask, [=, &inst](uint32_t i) { d[i] = F(inst, a[i], b[i], c[i]); });
}

// Writes the lanes of mask of a predicate.
inline void SetPredicate(Warp& warp, uint32_t offset, uint32_t mask,
                         uint32_t value) {
  uint32_t* p = warp.Reg<uint32_t>(offset);
  *p = (*p & ~mask) | (value & mask);
}

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_LANES_H_
