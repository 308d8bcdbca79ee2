// Happens-before, as vector clocks.
//
// Each warp has a clock that it raises after every release (a barrier arrival,
// a strong write), and knows for every other warp up to which clock it has
// synchronized. An access of another warp is ordered before what a warp does
// now if its clock is known here.
#ifndef HONE_KERNELS_EMULATOR_VECTOR_CLOCK_H_
#define HONE_KERNELS_EMULATOR_VECTOR_CLOCK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hone::emulator {

inline constexpr uint32_t kMaxWarps = 32;
using CtaClock = std::array<uint32_t, kMaxWarps>;

// What somebody in the CTA with this cluster rank knows: of its own CTA as an
// array, and of the others in its cluster as peers[rank] (empty if the CTA is
// alone; peers[own rank] is not used).
struct VectorClock : CtaClock {
  uint32_t rank = 0;
  std::vector<CtaClock> peers;

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
  if (clock.peers.empty()) {
    Join(static_cast<CtaClock&>(clock), static_cast<const CtaClock&>(other));
    return;
  }
  for (uint32_t rank = 0; rank < clock.peers.size(); ++rank) {
    Join(clock.Of(rank), other.Of(rank));
  }
}

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_VECTOR_CLOCK_H_
