// What the decoders of bulk and tensor copies share.
#ifndef HONE_KERNELS_EMULATOR_BULK_ISSUE_H_
#define HONE_KERNELS_EMULATOR_BULK_ISSUE_H_

#include "kernels/emulator/bulk_copy.h"
#include "kernels/emulator/cta.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {

// The address of a lane.
inline uint64_t BulkAddress(Warp& warp, const Instruction& inst,
                            const BulkInstruction::Address& address,
                            uint32_t lane) {
  return LaneAddress(warp, inst.r[address.r], address.offset,
                     address.wide)(lane);
}

// The offset of `bytes` of shared memory at a lane's address, which must be a
// multiple of `alignment`; false after a fault. With `rank`, the address may be
// in another CTA of the cluster: `*rank` says in which.
bool BulkSharedOffset(Cta& cta, Warp& warp, const Instruction& inst,
                      const BulkInstruction::Address& address, uint32_t lane,
                      uint32_t bytes, uint32_t alignment,
                      absl::string_view verb, uint32_t* offset,
                      uint32_t* rank = nullptr);

// Issues `copy`, of which pieces, fill and reduction are set, for one lane: to
// shared memory of the CTA with `rank`, or of all that the instruction's mask
// names, each with its mbarrier; to global memory in the lane's open bulk
// group. False after a fault.
bool IssueBulk(Cta& cta, Warp& warp, const Instruction& inst,
               const BulkInstruction& bulk, uint32_t lane, uint32_t rank,
               BulkCopy copy);

// Decoding: an address operand; the operands after it.
BulkInstruction::Address TakeBulkAddress(InstructionDecoder& d,
                                         const Operand& operand);
uint32_t TakeBulkSource(InstructionDecoder& d, const Operand& operand,
                        uint32_t bytes);

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_BULK_ISSUE_H_
