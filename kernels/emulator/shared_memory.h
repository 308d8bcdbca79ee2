// One CTA's shared memory with its shadow: which bytes are initialized, which
// are the target or the source of an asynchronous operation, who wrote and who
// read them when, and through which proxy.
//
// Ordinary instructions and cp.async use the generic proxy; bulk and tensor
// copies and wgmma the async proxy. The async proxy sees a generic write only
// if a proxy fence lies between the two, and without one it may overwrite what
// an earlier generic read has not fetched yet (an H200 does).
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
  kUnobservedCopy,  // a bulk copy whose mbarrier phase was not waited for
  kReadAfterWrite,  // races: no synchronization with the other access
  kWriteAfterWrite,
  kWriteAfterRead,
  kConflictingStore,  // two lanes of one instruction, different values
  kMissingProxyFence,
  kUnfencedRead,     // an async write may overtake an earlier generic read
  kSourceInFlight,   // written while a bulk copy reads it
  kOperandInFlight,  // written while a wgmma reads it
  kMbarrierObject,   // an ordinary access to a live mbarrier
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
  // `rank`: of the CTA in its cluster; `start`: before all of its clocks.
  void Reset(uint32_t bytes, uint32_t warps, uint32_t rank = 0,
             uint32_t start = 0);

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
  // A cp.async is issued: checked like a write, and nobody may touch the bytes
  // until Land().
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
  // A warp of another CTA uses an mbarrier here.
  void NoteRemoteUse(const SharedAccess& access);
  // The async proxy, for operations of this or another CTA of the cluster ---
  // Some lanes of a warp execute a proxy fence at the warp's `clock`.
  void NoteProxyFence(uint32_t warp, uint32_t mask, uint32_t clock);
  // An operation is issued that will write: nobody may touch the bytes until
  // LandAsync(). Several reductions may be under way to the same bytes.
  // `generic`: through the generic proxy (st.async), which needs no fence.
  SharedFault BeginAsyncWrite(uint32_t offset, uint32_t bytes, bool reduces,
                              bool generic, const SharedAccess& access);
  // The bytes are there for whoever knows `agent` up to `tick`. Also ends a
  // cp.async whose completion an mbarrier tracks.
  void LandAsync(uint32_t offset, uint32_t bytes, uint32_t agent, uint32_t tick,
                 bool generic = false);
  // Marks bytes, after a LandAsync of another operation, as still in flight.
  void StayPending(uint32_t offset, uint32_t bytes);
  // An operation is issued that will read. With access.warp = kNobody nothing
  // is known beyond the clock.
  static constexpr uint32_t kNobody = 0xff;
  SharedFault CheckAsyncRead(uint32_t offset, uint32_t bytes,
                             const SharedAccess& access);
  // Bulk copies mark their source until the issuing thread has waited; then
  // they count as its read.
  void MarkSource(uint32_t offset, uint32_t bytes, bool in_flight);
  void NoteRead(uint32_t offset, uint32_t bytes, const SharedAccess& access);
  // wgmma operands, in 16-byte rows: in flight for everybody who does not know
  // `tick` of the warpgroup.
  void NoteOperand(uint32_t warpgroup, uint32_t offset, uint32_t tick,
                   uint32_t statement);

  // mbarrier objects -------------------------------------------------------
  void SetMbarrier(uint32_t offset, bool live, const SharedAccess& access);
  // Checks the 8 bytes as a write does, before an init.
  SharedFault CheckInit(uint32_t offset, const SharedAccess& access) {
    return CheckWrite(offset, 8, access);
  }
  // Whether a generic write by `lane`, complete at `write_clock` of `agent`,
  // reaches the async proxy for somebody who knows so much of this CTA.
  bool IsFenced(uint32_t agent, uint32_t lane, uint32_t write_clock,
                const CtaClock& known) const;

  struct Conflict {
    uint32_t byte = 0;  // offset
    uint32_t warp = 0;
    uint32_t lane = 0;
    uint32_t statement = 0;
    bool async = false;  // by a bulk or tensor copy
    int rank = -1;       // of the other access's CTA, if it is not this one
  };
  const Conflict& conflict() const { return conflict_; }

 private:
  struct Shadow {
    uint32_t write_clock = 0;  // of `agent`
    uint32_t write_statement = 0;
    uint32_t write_serial = 0;
    uint32_t write_warp : 5 = 0;
    uint32_t lane : 5 = 0;
    uint32_t rank : 4 = 0;   // of the writing warp's CTA
    uint32_t agent : 7 = 0;  // the warp, or the mbarrier of a bulk copy
    uint32_t initialized : 1 = 0;
    uint32_t strong : 1 = 0;
    uint32_t pending : 1 = 0;
    uint32_t copy : 1 = 0;      // by cp.async
    uint32_t async : 1 = 0;     // through the async proxy
    uint32_t source : 1 = 0;    // a bulk copy reads it
    uint32_t mbarrier : 1 = 0;  // part of a live mbarrier
    uint32_t reduces : 1 = 0;   // by bulk reductions, pending or not
  };
  static_assert(kFenced <= 128);
  // The last read of one byte by one warp.
  struct Reader {
    uint32_t clock = 0;
    uint32_t statement : 30 = 0;
    uint32_t strong : 1 = 0;
    uint32_t async : 1 = 0;
  };
  // The last wgmma of a warpgroup that reads one 16-byte row.
  struct OperandRow {
    uint32_t tick = 0;
    uint32_t statement = 0;
  };
  struct ProxyFence {
    uint32_t clock = 0;
    uint32_t mask = 0;
  };

  // The access as the shadow's last writer, an ordinary store so far.
  static void NoteWriter(Shadow& shadow, const SharedAccess& access);
  SharedFault CheckWrite(uint32_t offset, uint32_t bytes,
                         const SharedAccess& access, bool reduces = false);
  // Whether a proxy fence follows each generic read, as far as somebody with
  // this clock knows. Of which lane does not matter.
  SharedFault CheckReadsFenced(uint32_t offset, uint32_t bytes,
                               const CtaClock& known);
  SharedFault CheckBusy(uint32_t byte, const Shadow& shadow);
  SharedFault CheckOperands(uint32_t offset, uint32_t bytes,
                            const CtaClock& known);
  SharedFault WriterFault(uint32_t byte, SharedFault fault);
  SharedFault RemoteFault(SharedFault fault);
  // What the access's warp is to the shadow.
  uint32_t SelfOf(const SharedAccess& access) const {
    return access.clock->rank == rank_ ? access.warp : kNobody;
  }
  // Checks against what other CTAs did.
  SharedFault CheckRemote(uint32_t offset, uint32_t bytes, bool write,
                          const RemoteShadow::Access& access);

  uint32_t bytes_ = 0;
  uint32_t warps_ = 0;
  std::vector<std::byte> data_;
  std::vector<Shadow> shadow_;
  std::vector<Reader> readers_;  // [warp][byte]
  RemoteShadow remote_;
  uint32_t start_ = 0;
  uint32_t rank_ = 0;
  // [warpgroup][row]; empty for warpgroups that issue no wgmma.
  std::array<std::vector<OperandRow>, kMaxWarpgroups> operands_;
  bool has_operands_ = false;
  std::array<std::vector<ProxyFence>, kMaxWarps> fences_;  // clocks rise
  Conflict conflict_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_SHARED_MEMORY_H_
