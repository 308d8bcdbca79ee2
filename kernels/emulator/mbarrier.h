// The mbarrier objects of one CTA's shared memory, as the PTX ISA describes
// them ("Parallel synchronization and communication instructions: mbarrier").
//
// A phase completes when no arrival and no byte is outstanding: the pending
// count and the tx-count are both zero. The next phase begins at once with the
// expected count pending.
#ifndef HONE_KERNELS_EMULATOR_MBARRIER_H_
#define HONE_KERNELS_EMULATOR_MBARRIER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "kernels/emulator/vector_clock.h"

namespace hone::emulator {

inline constexpr uint32_t kMaxMbarrierCount = (1u << 20) - 1;

struct Mbarrier {
  uint32_t offset = 0;  // in shared memory
  uint32_t agent = 0;   // its entry of vector clocks
  bool live = false;
  uint32_t expected = 0;  // arrivals per phase
  uint32_t pending = 0;   // of them, outstanding
  int64_t tx = 0;         // bytes outstanding
  uint32_t phase = 0;     // phases completed since init
  uint32_t tick = 0;      // phases completed in all its lives
  // Of the current phase, for messages.
  uint64_t expected_bytes = 0;
  uint64_t arrived_bytes = 0;
  // What arrivals of the current phase, and of completed ones, have released.
  VectorClock arriving;
  VectorClock completed;
  // Its init, and whether the async proxy can see it whatever fences follow.
  uint32_t init_warp = 0;
  uint32_t init_lane = 0;
  uint32_t init_clock = 0;
  uint32_t init_statement = 0;
  bool init_fenced = false;
  // The last bulk copy that has landed: the tick that its observers know, and
  // who issued it.
  uint32_t landed_tick = 0;
  uint32_t landed_warp = 0;
  uint32_t landed_lane = 0;
  uint32_t landed_statement = 0;
  // The clock of each warp of the CTA at its last operation.
  std::array<uint32_t, kMaxWarps> used = {};
};

// Each operation returns true, or false and what is wrong in words. The caller
// tells waiting warps when `phase` has moved on.
class MbarrierTable {
 public:
  // For the CTA with that rank in a cluster of `ctas`.
  void Reset(uint32_t rank, uint32_t ctas);

  // The live mbarrier there, or nullptr.
  Mbarrier* Find(uint32_t offset);
  bool Init(uint32_t offset, uint32_t count, Mbarrier** out,
            std::string* error);
  void Invalidate(Mbarrier& barrier) { barrier.live = false; }

  static bool Arrive(Mbarrier& barrier, uint32_t count, bool drop,
                     bool no_complete, std::string* error);
  static bool ExpectTx(Mbarrier& barrier, uint32_t bytes, std::string* error);
  static bool CompleteTx(Mbarrier& barrier, uint32_t bytes, std::string* error);
  // Adds an arrival to the current phase without changing later ones.
  static bool AddPending(Mbarrier& barrier, std::string* error);

  // An opaque state names the phase and the pending count it was taken at.
  static uint64_t State(const Mbarrier& barrier) {
    return uint64_t{barrier.phase} << 32 | barrier.pending;
  }
  static uint32_t PhaseOf(uint64_t state) { return state >> 32; }
  static uint32_t PendingOf(uint64_t state) {
    return static_cast<uint32_t>(state);
  }

  template <typename F>
  void ForEachLive(F f) {
    for (Mbarrier& barrier : barriers_) {
      if (barrier.live) f(barrier);
    }
  }

 private:
  static void TryComplete(Mbarrier& barrier);

  VectorClock no_clock_;  // of this CTA, knowing nothing

  std::deque<Mbarrier> barriers_;  // addresses stay valid
  absl::flat_hash_map<uint32_t, Mbarrier*> by_offset_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_MBARRIER_H_
