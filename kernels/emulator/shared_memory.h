// One CTA's shared memory with its shadow: which bytes are initialized, which
// are the target of an asynchronous copy, who wrote and who read them when (see
// vector_clock.h).
#ifndef HONE_KERNELS_EMULATOR_SHARED_MEMORY_H_
#define HONE_KERNELS_EMULATOR_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/emulator/remote_shadow.h"
#include "kernels/emulator/vector_clock.h"

namespace hone::emulator {

enum class SharedFault : uint8_t {
  kNone,
  kOutOfBounds,
  kUninitialized,
  kPendingCopy,     // the target of a copy nobody has waited for
  kUnsyncedCopy,    // waited for by another lane of this warp only
  kReadAfterWrite,  // races: no synchronization with the other access
  kWriteAfterWrite,
  kWriteAfterRead,
  kConflictingStore,  // two lanes of one instruction, different values
};

// An access by one lane: what the shadow remembers and reports.
struct SharedAccess {
  uint32_t warp = 0;
  uint32_t lane = 0;
  uint32_t statement = 0;      // index of the instruction
  uint32_t serial = 0;         // number of the instruction in this CTA
  uint32_t synced_serial = 0;  // of the warp's last bar.sync or bar.warp.sync
  bool strong = false;
  const VectorClock* clock = nullptr;
};

class SharedMemory {
 public:
  // Makes room and forgets everything: the start of a CTA. Clocks must go on
  // rising from CTA to CTA; readers of earlier CTAs are then in the past.
  // `rank`: of the CTA in its cluster.
  void Reset(uint32_t bytes, uint32_t warps, uint32_t rank = 0);

  uint32_t bytes() const { return bytes_; }
  // Offsets count from the start of this memory, without kSharedBase.
  std::byte* data(uint32_t offset) { return data_.data() + offset; }
  bool InBounds(uint64_t offset, uint32_t bytes) const {
    return offset < bytes_ && bytes <= bytes_ - offset;
  }

  // Check an access to bytes in bounds and note it. On a fault, conflict()
  // tells of the other access.
  SharedFault Read(uint32_t offset, uint32_t bytes, const SharedAccess& access);
  // Also stores the bytes.
  SharedFault Write(uint32_t offset, uint32_t bytes, const std::byte* value,
                    const SharedAccess& access);
  // An asynchronous copy is issued: checked like a write, and nobody may touch
  // the bytes until Land().
  SharedFault BeginCopy(uint32_t offset, uint32_t bytes,
                        const SharedAccess& access);
  // Its issuing lane has waited for it.
  void Land(uint32_t offset, uint32_t bytes, const SharedAccess& access);

  // The same for warps of other CTAs of the cluster.
  SharedFault ReadRemote(uint32_t offset, uint32_t bytes,
                         const RemoteShadow::Access& access);
  SharedFault WriteRemote(uint32_t offset, uint32_t bytes,
                          const std::byte* value,
                          const RemoteShadow::Access& access);
  const RemoteShadow& remote() const { return remote_; }

  struct Conflict {
    uint32_t byte = 0;  // offset
    uint32_t warp = 0;
    uint32_t lane = 0;  // of copies only
    uint32_t statement = 0;
    int rank = -1;  // of the other access's CTA, if it is not this one
  };
  const Conflict& conflict() const { return conflict_; }

 private:
  struct Shadow {
    uint32_t write_clock = 0;
    uint32_t write_statement = 0;
    uint32_t write_serial = 0;
    uint8_t write_warp = 0;
    uint8_t copy_lane = 0;  // lane + 1 of a copy, pending or landed
    bool initialized : 1 = false;
    bool strong : 1 = false;
    bool pending : 1 = false;
  };
  // The last read of one byte by one warp.
  struct Reader {
    uint32_t clock = 0;
    uint32_t statement : 31 = 0;
    uint32_t strong : 1 = 0;
  };

  SharedFault CheckWrite(uint32_t offset, uint32_t bytes,
                         const SharedAccess& access);
  SharedFault WriterFault(uint32_t byte, SharedFault fault);
  SharedFault RemoteFault(SharedFault fault);
  // Checks against what other CTAs did.
  SharedFault CheckRemote(uint32_t offset, uint32_t bytes, bool write,
                          const RemoteShadow::Access& access);

  uint32_t bytes_ = 0;
  uint32_t warps_ = 0;
  std::vector<std::byte> data_;
  std::vector<Shadow> shadow_;
  std::vector<Reader> readers_;  // [warp][byte]
  RemoteShadow remote_;
  uint32_t rank_ = 0;
  Conflict conflict_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_SHARED_MEMORY_H_
