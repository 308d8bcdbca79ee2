// The race detector of global memory: who wrote and who read each byte of the
// buffers that a kernel writes, across all CTAs of a launch.
//
// CTAs order each other by strong accesses to global memory. A strong write or
// atomic publishes what fences of gpu scope, by its own warp or by those it has
// synchronized with since, have covered (or, if it is a release itself, what
// its warp knows now); a strong read or atomic hands that on: at once if it is
// an acquire, else with the next fence of its warp or of one that synchronizes
// with it.
#ifndef HONE_KERNELS_EMULATOR_GLOBAL_RACES_H_
#define HONE_KERNELS_EMULATOR_GLOBAL_RACES_H_

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "kernels/emulator/vector_clock.h"

namespace hone::emulator {

// One host thread's: not thread-safe.
class GlobalRaces {
 public:
  struct Access {
    uint32_t cta = 0;  // its number in the grid
    uint32_t warp = 0;
    uint32_t statement = 0;
    uint32_t clock = 0;  // of the warp
    bool strong = false;
  };
  // Who asks: what it knows of a warp of a CTA, as a clock.
  class Knower {
   public:
    virtual ~Knower() = default;
    virtual uint32_t Known(uint32_t cta, uint32_t warp) const = 0;
  };
  struct Conflict {
    uint64_t address = 0;
    bool is_write = false;  // the other access
    Access other;
  };

  // Checks an access and notes it; false for a race, of which conflict() tells.
  bool Read(uint64_t address, uint32_t bytes, const Access& access,
            const Knower& knower);
  bool Write(uint64_t address, uint32_t bytes, const Access& access,
             const Knower& knower);
  const Conflict& conflict() const { return conflict_; }

  // A strong write or atomic to the address publishes `knowledge`, which may be
  // null.
  void Publish(uint64_t address,
               const std::shared_ptr<const GridKnowledge>& knowledge);
  // What has been published there, or null.
  std::shared_ptr<const GridKnowledge> Published(uint64_t address) const;

 private:
  struct Cell {
    Access writer, reader;  // clock 0: none
  };
  static constexpr uint32_t kPageBytes = 256;
  using Page = std::array<Cell, kPageBytes>;
  Cell& At(uint64_t address);
  bool Ordered(uint64_t address, const Access& other, bool other_writes,
               const Access& access, const Knower& knower);

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  std::unordered_map<uint64_t, std::shared_ptr<const GridKnowledge>> published_;
  Conflict conflict_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_GLOBAL_RACES_H_
