// Accesses to one CTA's shared memory from other CTAs of its cluster: who and
// when, for the race detector. Accesses by the CTA's own warps are the business
// of SharedMemory; each of the two checks against the other.
#ifndef HONE_KERNELS_EMULATOR_REMOTE_SHADOW_H_
#define HONE_KERNELS_EMULATOR_REMOTE_SHADOW_H_

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/emulator/vector_clock.h"

namespace hone::emulator {

class RemoteShadow {
 public:
  struct Access {
    uint32_t rank = 0;  // of the CTA that accesses
    uint32_t warp = 0;
    uint32_t statement = 0;
    bool strong = false;
    const VectorClock* clock = nullptr;
  };
  struct Conflict {
    uint32_t byte = 0;
    uint32_t rank = 0;
    uint32_t warp = 0;
    uint32_t statement = 0;
  };

  void Reset() {
    writers_.clear();
    readers_.clear();
    last_.clear();
  }
  // False in the common case: nothing to check.
  bool used() const { return !last_.empty(); }

  // Whether an access to [offset, offset + bytes) is ordered after the remote
  // writes there (and, for a write, the remote reads). On false, conflict()
  // tells of the other access.
  bool OrderedAfterWrites(uint32_t offset, uint32_t bytes,
                          const Access& access);
  bool OrderedAfterReads(uint32_t offset, uint32_t bytes, const Access& access);

  // Whether a proxy fence follows the remote writes there, as far as somebody
  // with this clock knows.
  bool Fenced(uint32_t offset, uint32_t bytes, const VectorClock& clock);
  // An asynchronous write takes the place of the remote writes there.
  void ForgetWrites(uint32_t offset, uint32_t bytes);

  // Note a remote access that touches no bytes of its own.
  void NoteUse(const Access& access);
  // Note a remote access. `size`: of the whole shared memory.
  void NoteRead(uint32_t offset, uint32_t bytes, uint32_t size,
                const Access& access);
  void NoteWrite(uint32_t offset, uint32_t bytes, uint32_t size,
                 const Access& access);

  // One noted access; clock 0: none.
  struct Note {
    uint32_t clock = 0;
    uint32_t statement = 0;
    uint8_t rank = 0;
    uint8_t warp = 0;
    bool strong = false;
  };
  // The last access of each remote warp. The owner's exit must come after.
  const std::map<uint32_t, Note>& last() const { return last_; }

  const Conflict& conflict() const { return conflict_; }

 private:
  bool Ordered(uint32_t byte, const Note& note, const Access& access);

  std::vector<Note> writers_;                      // per byte
  std::map<uint32_t, std::vector<Note>> readers_;  // per warp, per byte
  std::map<uint32_t, Note> last_;                  // per warp
  Conflict conflict_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_REMOTE_SHADOW_H_
