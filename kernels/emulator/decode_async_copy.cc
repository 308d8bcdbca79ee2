// cp.async and its groups.
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

// r: shared address, global address, the global address's constant offset,
// source size. bytes: the copy's size; kWideAddress: the shared address's
// width; register_bytes: 1 when the global address is 64 bits wide.
void Copy(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  ForLanesWhile(mask, [&](uint32_t lane) {
    const uint64_t target =
        LaneAddress(warp, inst.r[0], inst.Has(Instruction::kWideAddress),
                    inst.immediate, lane);
    Location to;
    if (!Resolve(cta, warp, lane, Space::kShared, target, inst.bytes,
                 "asynchronous write", &to)) {
      return false;
    }
    AsyncCopy copy;
    copy.lane = lane;
    copy.group = warp.committed[lane];
    copy.shared_offset = static_cast<uint32_t>(to.at);
    copy.bytes = inst.bytes;
    copy.source_bytes = warp.Reg<uint32_t>(inst.r[3])[lane];
    if (!cta.shared().InBounds(to.at, inst.bytes)) {
      cta.FaultShared(warp, lane, SharedFault::kOutOfBounds,
                      "asynchronous write", copy.shared_offset, inst.bytes);
      return false;
    }
    if (copy.source_bytes > copy.bytes) {
      cta.Fault(warp, lane, "cp.async reads more than it writes");
      return false;
    }
    const uint64_t source = LaneAddress(
        warp, inst.r[1], inst.register_bytes != 0,
        static_cast<int64_t>(warp.Reg<uint64_t>(inst.r[2])[lane]), lane);
    Location from;
    if (!Resolve(cta, warp, lane, Space::kGlobal, source, inst.bytes,
                 "asynchronous read", &from)) {
      return false;
    }
    if (copy.source_bytes > 0) {
      copy.source = cta.global().ForRead(from.at, copy.source_bytes);
      if (copy.source == nullptr) {
        cta.Fault(warp, lane,
                  cta.global().Explain(from.at, copy.source_bytes,
                                       /*write=*/false));
        return false;
      }
      cta.stats().global_bytes_read += copy.source_bytes;
    }
    cta.IssueCopy(warp, copy);
    return !cta.faulted();
  });
}

void Commit(Cta&, Warp& warp, const Instruction&, uint32_t mask) {
  ForLanes(mask, [&](uint32_t lane) { ++warp.committed[lane]; });
}

void Wait(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  // wait_all also waits for the group still open.
  if (inst.mode != 0) Commit(cta, warp, inst, mask);
  cta.WaitForCopies(warp, mask, static_cast<uint32_t>(inst.immediate));
}

void DecodeCopy(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  const bool policy = d.TakeCacheHints();
  if (!(d.Take("shared") || d.Take("shared::cta")) || !d.Take("global")) {
    d.Fail("the state spaces");
    return;
  }
  const bool late_policy = d.TakeCacheHints();
  d.ExpectDone();
  bool wide = false;
  int64_t offset = 0;
  d.AddressInto(d.operand(0), &inst.immediate, &wide);
  if (wide) inst.flags |= Instruction::kWideAddress;
  d.AddressInto(d.operand(1), &offset, &wide);
  inst.register_bytes = wide ? 1 : 0;
  Operand constant;
  constant.kind = Operand::Kind::kInteger;
  constant.bits = static_cast<uint64_t>(offset);
  d.Source(constant, 8);
  inst.bytes = static_cast<uint8_t>(d.Constant(d.operand(2)));
  if (inst.bytes != 4 && inst.bytes != 8 && inst.bytes != 16) {
    d.Fail("the copy size");
  }
  const size_t operands = d.operand_count() - (policy || late_policy ? 1 : 0);
  if (operands == 4) {
    d.Source(d.operand(3), 4);
  } else {
    constant.bits = inst.bytes;
    d.Source(constant, 4);
  }
  d.Run(Copy);
}

}  // namespace

bool DecodeAsyncCopy(InstructionDecoder& d) {
  if (d.name() != "cp" || !d.Take("async")) return false;
  Instruction& inst = d.inst();
  if (d.Take("commit_group")) {
    d.ExpectDone();
    d.Run(Commit);
  } else if (d.Take("wait_group")) {
    d.ExpectDone();
    inst.immediate = static_cast<int64_t>(d.Constant(d.operand(0)));
    d.Run(Wait);
  } else if (d.Take("wait_all")) {
    d.ExpectDone();
    inst.mode = 1;
    d.Run(Wait);
  } else {
    DecodeCopy(d);
  }
  return true;
}

}  // namespace hone::emulator
