// Bulk and tensor copies in flight: cp.async.bulk and its reducing kin; and
// st.async and red.async, whose source is registers.
//
// A copy to shared memory completes on an mbarrier, a copy to global memory in
// the bulk group of the thread that issued it. In between it may move its
// bytes at any moment, which Options::landing chooses; nobody may touch its
// target, nor write its source.
#ifndef HONE_KERNELS_EMULATOR_BULK_COPY_H_
#define HONE_KERNELS_EMULATOR_BULK_COPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/emulator/program.h"

namespace hone::emulator {

struct Mbarrier;

// Bytes that lie together on both sides.
struct BulkPiece {
  uint32_t shared = 0;  // offset of the side that every copy has
  uint32_t bytes = 0;   // in shared memory
  // Of these, [begin, end) exist on the other side; the rest is filled, or not
  // written.
  uint32_t begin = 0, end = 0;
  std::byte* global = nullptr;  // of byte `begin`
  uint64_t address = 0;         // its device address
  uint32_t source = 0;          // offset, shared to shared
};

// Combines `bytes` of `from` into `to`.
using Reduction = void (*)(std::byte* to, const std::byte* from,
                           uint32_t bytes);

struct BulkCopy {
  BulkInstruction::Kind kind = BulkInstruction::Kind::kGlobalToShared;
  // Who issued it.
  Cta* issuer = nullptr;
  uint32_t warp = 0;
  uint32_t lane = 0;
  uint32_t statement = 0;
  uint32_t serial = 0;
  uint32_t group = 0;           // of copies to global memory
  Mbarrier* barrier = nullptr;  // of copies to shared memory
  Reduction reduce = nullptr;
  // Fill of what is outside a tensor: a pattern of `fill_bytes`.
  uint64_t fill = 0;
  uint32_t fill_bytes = 1;
  std::vector<BulkPiece> pieces;

  std::vector<std::byte> data;  // once read from shared memory
  bool read = false;
  bool written = false;

  bool ReadsShared() const {
    return kind == BulkInstruction::Kind::kSharedToGlobal ||
           kind == BulkInstruction::Kind::kSharedToShared;
  }
  bool IsGeneric() const {
    return kind == BulkInstruction::Kind::kRegisterToShared;
  }
};

// The copies whose target is one CTA's shared memory, whichever CTA of the
// cluster issued them, or global memory from it.
class BulkCopies {
 public:
  void Reset();

  // Checks all pieces, marks them and takes the copy over. False after a
  // fault. `target` is the CTA that owns this, `warp` the issuer's.
  bool Issue(Cta& target, Warp& warp, BulkCopy copy);
  // Lands some at random moments, if the options say so.
  void LandSome(Cta& target);
  // Lands one copy to shared memory; false if there is none.
  bool LandOne(Cta& target);
  // Completes, for each lane of `mask`, the copies of all but its `keep` last
  // committed groups; with `read_only` only their reads.
  void Wait(Cta& target, Warp& warp, uint32_t mask, uint32_t keep,
            bool read_only);
  // Faults for what must not outlive the CTA and lands the rest.
  void Finish(Cta& target);

  // In words, the copy that reads a byte of shared memory.
  std::string DescribeReader(Cta& target, uint32_t offset) const;
  // Marks the sources of all copies that may still read.
  void MarkSources();

 private:
  // Notes that the copy reads or writes global memory, at a clock of the warp.
  static bool NoteGlobal(const BulkCopy& copy, const Warp& warp,
                         uint32_t clock);
  void ReadSource(BulkCopy& copy);
  void WriteGlobal(Cta& target, BulkCopy& copy);
  void Land(Cta& target, size_t index);
  std::vector<BulkCopy> copies_;
  // Waited for with .read only: they have read and may write later.
  std::vector<BulkCopy> unwritten_;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_BULK_COPY_H_
