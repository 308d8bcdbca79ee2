// cp.async and its groups.
#include <bit>

#include "absl/strings/str_format.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

// What the operand after the size means: Instruction::mode.
enum SourceOperand : uint8_t { kNoOperand, kSourceBytes, kIgnoreSource };

// r: shared address, global address, source size or predicate. count holds
// whether the shared address is 64 bits wide, kWideAddress the global one's.
void Copy(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const LaneAddress shared(warp, inst.r[0], inst.shared_offset,
                           inst.count != 0);
  const LaneAddress global(warp, inst, inst.r[1], inst.immediate);
  ForLanesWhile(mask, [&](uint32_t lane) {
    AsyncCopy copy;
    copy.lane = lane;
    copy.group = warp.committed[lane];
    copy.bytes = inst.bytes;
    copy.source_bytes = inst.bytes;
    if (inst.mode == kSourceBytes) {
      copy.source_bytes = warp.Reg<uint32_t>(inst.r[2])[lane];
      if (copy.source_bytes > copy.bytes) {
        cta.Fault(warp, lane,
                  absl::StrFormat("cp.async with a source size of %d bytes "
                                  "and a copy size of %d",
                                  copy.source_bytes, copy.bytes));
        return false;
      }
    } else if (inst.mode == kIgnoreSource) {
      uint32_t ignore = *warp.Reg<uint32_t>(inst.r[2]);
      if (inst.Has(Instruction::kNegate)) ignore = ~ignore;
      if ((ignore >> lane & 1) != 0) copy.source_bytes = 0;
    }
    uint64_t to = shared(lane);
    if (to >> kWindowShift == kSharedWindow >> kWindowShift) {
      to -= kSharedWindow;
    }
    if (!SharedOffset(cta, warp, lane, to, copy.bytes, "asynchronous write",
                      &copy.shared_offset)) {
      return false;
    }
    if (copy.source_bytes > 0) {
      uint64_t from = global(lane);
      copy.source = cta.global().ForRead(from, copy.source_bytes);
      if (copy.source == nullptr) {
        cta.Fault(warp, lane,
                  cta.global().Explain(from, copy.source_bytes, false));
        return false;
      }
      if (!CheckAlignment(cta, warp, lane, from, copy.bytes,
                          "asynchronous global read") ||
          !cta.CheckGlobal(warp, lane, from, copy.source_bytes,
                           /*write=*/false, /*strong=*/false)) {
        return false;
      }
    }
    cta.stats().global_bytes_read += copy.source_bytes;
    cta.stats().shared_bytes_written += copy.bytes;
    cta.IssueCopy(warp, copy);
    return !cta.faulted();
  });
}

void Commit(Cta&, Warp& warp, const Instruction&, uint32_t mask) {
  ForLanes(mask, [&](uint32_t lane) { ++warp.committed[lane]; });
}

void Wait(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  cta.WaitForCopies(warp, mask, static_cast<uint32_t>(inst.immediate));
}

void WaitAll(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  Commit(cta, warp, inst, mask);
  cta.WaitForCopies(warp, mask, 0);
}

void DecodeCopy(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  const bool l2_only = d.Take("cg");
  if (!l2_only && !d.Take("ca")) d.Fail("the cache operator");
  if (!d.Take("shared") && !d.Take("shared::cta")) d.Fail("the destination");
  if (!d.Take("global")) d.Fail("the source");
  const bool policy = d.TakeCacheHints();
  d.ExpectDone();
  int64_t shared_offset = 0;
  bool shared_wide = false;
  d.AddressInto(d.operand(0), &shared_offset, &shared_wide);
  inst.shared_offset = static_cast<int32_t>(shared_offset);
  inst.count = shared_wide ? 1 : 0;
  d.Address(d.operand(1));
  inst.bytes = static_cast<uint8_t>(d.Constant(d.operand(2)));
  const bool legal =
      l2_only ? inst.bytes == 16
              : inst.bytes == 4 || inst.bytes == 8 || inst.bytes == 16;
  if (!legal) d.Fail("the copy size");
  const size_t extra = d.operand_count() - 3 - (policy ? 1 : 0);
  if (extra == 1) {
    Type type = Type::kNone;
    if (d.IsRegister(d.operand(3), &type) && type == Type::kPred) {
      inst.mode = kIgnoreSource;
      d.PredicateSource(d.operand(3));
    } else {
      inst.mode = kSourceBytes;
      d.Source(d.operand(3), 4);
    }
  } else if (extra != 0) {
    d.Fail("the number of operands");
  }
  d.Run(Copy);
}

}  // namespace

bool DecodeAsyncCopy(InstructionDecoder& d) {
  if (d.name() != "cp") return false;
  if (!d.Take("async")) return false;
  if (d.Take("commit_group")) {
    d.ExpectDone();
    d.Run(Commit);
  } else if (d.Take("wait_group")) {
    d.ExpectDone();
    d.inst().immediate = static_cast<int64_t>(d.Constant(d.operand(0)));
    d.Run(Wait);
  } else if (d.Take("wait_all")) {
    d.ExpectDone();
    d.Run(WaitAll);
  } else {
    DecodeCopy(d);
  }
  return true;
}

}  // namespace hone::emulator
