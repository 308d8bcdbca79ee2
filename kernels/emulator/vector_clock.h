// Happens-before, as vector clocks.
//
// Each warp has a clock that it raises after every release (a barrier arrival,
// a strong write), and knows for every other warp up to which clock it has
// synchronized. An access of another warp is ordered before what a warp does
// now if its clock is known here.
//
// Asynchronous operations complete through agents with clocks of their own: a
// warpgroup counts its finished wgmma groups, an mbarrier its completed
// phases. Who waits for one learns its count, and passes it on with every
// release. The same goes for proxy fences: beside what a warp knows to have
// happened, it knows up to which clock of everybody a proxy fence has followed.
#ifndef HONE_KERNELS_EMULATOR_VECTOR_CLOCK_H_
#define HONE_KERNELS_EMULATOR_VECTOR_CLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace hone::emulator {

inline constexpr uint32_t kMaxWarps = 32;
inline constexpr uint32_t kMaxWarpgroups = kMaxWarps / 4;
inline constexpr uint32_t kMaxMbarriers = 88;

// Indices of the entries: warps from 0, then these.
inline constexpr uint32_t kWarpgroupAgents = kMaxWarps;
inline constexpr uint32_t kMbarrierAgents = kWarpgroupAgents + kMaxWarpgroups;
inline constexpr uint32_t kFenced = kMbarrierAgents + kMaxMbarriers;
// Behind those of the fences: up to which clock of a warp its mbarrier.inits
// are known, by a fence.mbarrier_init and whatever barrier, relaxed ones too.
inline constexpr uint32_t kInits = 2 * kFenced;
using CtaClock = std::array<uint32_t, kInits + kMaxWarps>;

// What somebody knows of the warps of other CTAs, by the CTA's number in the
// grid, from accesses to global memory.
using WarpClocks = std::array<uint32_t, kMaxWarps>;
using GridKnowledge = std::map<uint32_t, WarpClocks>;

// Raises what `knowledge` points to, which may be null, to at least `other`.
inline void Join(std::shared_ptr<const GridKnowledge>& knowledge,
                 const std::shared_ptr<const GridKnowledge>& other) {
  if (other == nullptr || knowledge == other) return;
  if (knowledge == nullptr) {
    knowledge = other;
    return;
  }
  auto both = std::make_shared<GridKnowledge>(*knowledge);
  for (const auto& [cta, clocks] : *other) {
    WarpClocks& known = (*both)[cta];
    for (uint32_t w = 0; w < kMaxWarps; ++w) {
      if (known[w] < clocks[w]) known[w] = clocks[w];
    }
  }
  knowledge = std::move(both);
}

// What somebody in the CTA with this cluster rank knows: of its own CTA as an
// array, and of the others in its cluster as peers[rank] (empty if the CTA is
// alone; peers[own rank] is not used).
struct VectorClock : CtaClock {
  uint32_t rank = 0;
  std::vector<CtaClock> peers;
  // Of CTAs met in global memory; null: nothing.
  std::shared_ptr<const GridKnowledge> grid;
  // What fences of gpu scope have made visible to all, for the next strong
  // write to publish; and what strong reads have seen, for the next fence to
  // acquire. Both pass through barriers: who fences and who meets the other CTA
  // may be different threads.
  std::shared_ptr<const GridKnowledge> fenced;
  std::shared_ptr<const GridKnowledge> to_acquire;

  const CtaClock& Of(uint32_t other_rank) const {
    return other_rank == rank ? *this : peers[other_rank];
  }
  CtaClock& Of(uint32_t other_rank) {
    return other_rank == rank ? *this : peers[other_rank];
  }
};

inline void Join(CtaClock& clock, const CtaClock& other) {
  for (size_t i = 0; i < clock.size(); ++i) {
    if (clock[i] < other[i]) clock[i] = other[i];
  }
}

// Raises `clock` to at least `other` everywhere.
inline void Join(VectorClock& clock, const VectorClock& other) {
  Join(clock.grid, other.grid);
  Join(clock.fenced, other.fenced);
  Join(clock.to_acquire, other.to_acquire);
  if (clock.peers.empty()) {
    Join(static_cast<CtaClock&>(clock), static_cast<const CtaClock&>(other));
    return;
  }
  for (uint32_t rank = 0; rank < clock.peers.size(); ++rank) {
    Join(clock.Of(rank), other.Of(rank));
  }
}

// Lowers `clock` to at most `other` of the same CTA everywhere: what both know.
inline void Meet(VectorClock& clock, const VectorClock& other) {
  const auto meet = [](CtaClock& c, const CtaClock& o) {
    for (size_t i = 0; i < c.size(); ++i) {
      if (c[i] > o[i]) c[i] = o[i];
    }
  };
  meet(clock, other);
  for (size_t rank = 0; rank < clock.peers.size(); ++rank) {
    meet(clock.peers[rank], other.peers[rank]);
  }
}

// A proxy fence by somebody with this clock.
inline void FenceAll(VectorClock& clock) {
  const auto fence = [](CtaClock& c) {
    for (uint32_t i = 0; i < kFenced; ++i) c[kFenced + i] = c[i];
  };
  fence(clock);
  for (CtaClock& peer : clock.peers) fence(peer);
}

// A clock that knows all warps up to `base` and nothing of agents.
inline CtaClock ClockAt(uint32_t base) {
  CtaClock clock = {};
  for (uint32_t i = 0; i < kMaxWarps; ++i) clock[i] = clock[kFenced + i] = base;
  return clock;
}

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_VECTOR_CLOCK_H_
