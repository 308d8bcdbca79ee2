#include "kernels/emulator/bulk_issue.h"

#include <bit>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/emulator/cluster.h"

namespace hone::emulator {

bool BulkSharedOffset(Cta& cta, Warp& warp, const Instruction& inst,
                      const BulkInstruction::Address& address, uint32_t lane,
                      uint32_t bytes, uint32_t alignment,
                      absl::string_view verb, uint32_t* offset,
                      uint32_t* rank) {
  uint64_t at = BulkAddress(warp, inst, address, lane);
  if (at >> kWindowShift == kSharedWindow >> kWindowShift) at -= kSharedWindow;
  if (rank != nullptr) *rank = TakeRank(cta, &at);
  // All CTAs of a launch have equal shared memory.
  const uint64_t from = at - kSharedBase;
  if (!cta.shared().InBounds(from, bytes)) {
    cta.FaultShared(warp, lane, SharedFault::kOutOfBounds, verb,
                    static_cast<uint32_t>(from), bytes);
    return false;
  }
  if (at % alignment != 0) {
    cta.Fault(warp, lane,
              absl::StrFormat("misaligned: %s at shared address 0x%x; it must "
                              "be a multiple of %d",
                              verb, at, alignment));
    return false;
  }
  *offset = static_cast<uint32_t>(from);
  return true;
}

bool IssueBulk(Cta& cta, Warp& warp, const Instruction& inst,
               const BulkInstruction& bulk, uint32_t lane, uint32_t rank,
               BulkCopy copy) {
  copy.kind = bulk.kind;
  copy.issuer = &cta;
  copy.warp = warp.index;
  copy.lane = lane;
  copy.statement = warp.statement;
  copy.serial = cta.serial();
  if (bulk.kind == BulkInstruction::Kind::kSharedToGlobal) {
    copy.group = warp.bulk_committed[lane];
    return cta.bulk().Issue(cta, warp, std::move(copy));
  }
  uint32_t offset = 0;
  uint32_t barrier_rank = 0;
  if (!BulkSharedOffset(cta, warp, inst, bulk.mbarrier, lane, 8, 8,
                        "mbarrier access", &offset, &barrier_rank)) {
    return false;
  }
  uint32_t targets = 1u << rank;
  if (bulk.cta_mask != kNone) {
    targets = warp.Reg<uint16_t>(inst.r[bulk.cta_mask])[lane];
    if (targets == 0) {
      cta.Fault(warp, lane, "multicast to no CTA: the mask is 0");
      return false;
    }
  } else if (barrier_rank != rank) {
    cta.Fault(warp, lane,
              absl::StrFormat("bulk copy to the CTA with rank %d with an "
                              "mbarrier of the CTA with rank %d; the two must "
                              "be the same",
                              rank, barrier_rank));
    return false;
  }
  for (; targets != 0; targets &= targets - 1) {
    Cta* target = cta.cluster().Running(
        cta, warp, lane, std::countr_zero(targets), "bulk write");
    if (target == nullptr) return false;
    BulkCopy one = copy;
    one.barrier = cta.UseMbarrier(*target, warp, lane, offset);
    if (one.barrier == nullptr ||
        !cta.CheckAsyncMbarrier(*target, warp, lane, *one.barrier) ||
        !target->bulk().Issue(*target, warp, std::move(one))) {
      return false;
    }
  }
  return true;
}

BulkInstruction::Address TakeBulkAddress(InstructionDecoder& d,
                                         const Operand& operand) {
  BulkInstruction::Address address;
  address.r = d.AppendedCount();
  d.AddressInto(operand, &address.offset, &address.wide);
  return address;
}

uint32_t TakeBulkSource(InstructionDecoder& d, const Operand& operand,
                        uint32_t bytes) {
  const uint32_t r = d.AppendedCount();
  d.Source(operand, bytes);
  return r;
}

}  // namespace hone::emulator
