// Accesses of one lane to any state space, with all their checks, and what the
// memory instructions' decoders share.
#ifndef HONE_KERNELS_EMULATOR_MEMORY_ACCESS_H_
#define HONE_KERNELS_EMULATOR_MEMORY_ACCESS_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "kernels/emulator/cta.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/program.h"

namespace hone::emulator {

// The address operand of each lane.
class LaneAddress {
 public:
  LaneAddress(Warp& warp, uint32_t slot, int64_t offset, bool wide)
      : wide_(wide ? warp.Reg<uint64_t>(slot) : nullptr),
        narrow_(wide ? nullptr : warp.Reg<uint32_t>(slot)),
        offset_(offset) {}
  LaneAddress(Warp& warp, const Instruction& inst, uint32_t slot,
              int64_t offset)
      : LaneAddress(warp, slot, offset, inst.Has(Instruction::kWideAddress)) {}
  uint64_t operator()(uint32_t lane) const {
    // 32-bit addresses wrap around in 32 bits.
    if (wide_ != nullptr) return wide_[lane] + static_cast<uint64_t>(offset_);
    return static_cast<uint32_t>(narrow_[lane] +
                                 static_cast<uint32_t>(offset_));
  }

 private:
  const uint64_t* wide_;
  const uint32_t* narrow_;
  int64_t offset_;
};

// Each returns false after a fault. `bytes` is the access's size and alignment.
bool ReadMemory(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
                Space space, uint64_t address, uint32_t bytes,
                std::byte* value);
bool WriteMemory(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
                 Space space, uint64_t address, uint32_t bytes,
                 const std::byte* value);

// Replaces a generic address by its space and the address there.
void ResolveGeneric(Space* space, uint64_t* address);

// The rank in an address of shared::cluster, which loses it. Addresses without
// one are the executing CTA's own.
uint32_t TakeRank(const Cta& cta, uint64_t* address);

// Checks bounds and alignment; the offset that SharedMemory uses.
bool SharedOffset(Cta& cta, Warp& warp, uint32_t lane, uint64_t address,
                  uint32_t bytes, absl::string_view verb, uint32_t* offset);
// Faults unless address is a multiple of bytes.
bool CheckAlignment(Cta& cta, Warp& warp, uint32_t lane, uint64_t address,
                    uint32_t bytes, absl::string_view verb);
// Faults if lanes have exited or do not exist.
bool RequireAllLanes(Cta& cta, Warp& warp, uint32_t mask,
                     absl::string_view what);

// .volatile, .relaxed.scope, .acquire.scope, ...: sets kStrong. Consumes them.
void TakeMemoryOrder(InstructionDecoder& d);
// True if a state space was named.
bool TakeSpace(InstructionDecoder& d, Space* space);

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_MEMORY_ACCESS_H_
