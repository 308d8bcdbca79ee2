// Branches, returns, barriers and fences.
#include <bit>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

void Nothing(Cta&, Warp&, const Instruction&, uint32_t) {}

void Branch(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  cta.Branch(warp, inst, mask, inst.target);
}

void BranchTable(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const auto& table = cta.kernel().jump_tables[inst.target];
  const uint32_t* index = warp.Reg<uint32_t>(inst.r[0]);
  const uint32_t first = index[std::countr_zero(mask)];
  bool uniform = true;
  ForLanes(mask, [&](uint32_t lane) { uniform &= index[lane] == first; });
  if (!uniform || first >= table.size()) {
    cta.Fault(warp, std::countr_zero(mask),
              "brx.idx whose index differs among lanes or is past its table");
    return;
  }
  cta.Branch(warp, inst, mask, table[first]);
}

void Return(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  cta.Exit(warp, mask);
}

void Trap(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  cta.Fault(warp, std::countr_zero(mask), "trap");
}

// r: barrier id, thread count (0: all), result, predicate of reductions.
void Barrier(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "a CTA barrier")) return;
  const uint32_t lane = std::countr_zero(mask);
  const auto kind = static_cast<BarrierKind>(inst.mode);
  uint32_t votes = 0;
  if (kind != BarrierKind::kSync && kind != BarrierKind::kArrive) {
    votes = *warp.Reg<uint32_t>(inst.r[3]);
    if (inst.Has(Instruction::kNegate)) votes = ~votes;
    votes &= mask;
  }
  cta.ArriveAtBarrier(warp, warp.Reg<uint32_t>(inst.r[0])[lane],
                      warp.Reg<uint32_t>(inst.r[1])[lane], kind, votes,
                      inst.r[2]);
}

void WarpBarrier(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t lane = std::countr_zero(mask);
  const uint32_t named = warp.Reg<uint32_t>(inst.r[0])[lane] & warp.live;
  if (mask != named) {
    cta.Fault(warp, lane,
              "divergence: bar.warp.sync by other lanes than its mask names");
    return;
  }
  cta.SyncWarp(warp);
}

void DecodeBarrier(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  d.Take("cta");
  Operand zero;
  zero.kind = Operand::Kind::kInteger;
  BarrierKind kind = BarrierKind::kSync;
  if (d.Take("warp")) {
    if (!d.Take("sync")) d.Fail("the warp barrier");
    d.ExpectDone();
    d.Source(d.operand(0), 4);
    d.Run(WarpBarrier);
    return;
  }
  if (d.Take("sync")) {
    kind = BarrierKind::kSync;
  } else if (d.Take("arrive")) {
    kind = BarrierKind::kArrive;
  } else if (d.Take("red")) {
    kind = d.Take("popc")  ? BarrierKind::kPopc
           : d.Take("and") ? BarrierKind::kAnd
                           : BarrierKind::kOr;
    if (kind == BarrierKind::kOr) d.Take("or");
  } else {
    d.Fail("the barrier's operation");
  }
  d.Take("aligned");
  const bool reduces =
      kind != BarrierKind::kSync && kind != BarrierKind::kArrive;
  if (reduces) d.TakeType();
  d.Take("aligned");
  d.ExpectDone();
  inst.mode = static_cast<uint8_t>(kind);
  const size_t first = reduces ? 1 : 0;
  const size_t inputs = d.operand_count() - (reduces ? 2 : 0);
  d.Source(d.operand(first), 4);
  d.Source(inputs == 2 ? d.operand(first + 1) : zero, 4);
  if (reduces) {
    d.Destination(d.operand(0), kind == BarrierKind::kPopc ? 4 : 1);
    d.PredicateSource(d.operand(d.operand_count() - 1));
  }
  d.Run(Barrier);
}

}  // namespace

bool DecodeControl(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  Instruction& inst = d.inst();
  if (name == "bra") {
    d.Take("uni");
    d.ExpectDone();
    inst.target = d.Label(d.operand(0));
    d.Run(Branch);
  } else if (name == "brx") {
    if (!d.Take("idx")) d.Fail("the branch");
    d.Take("uni");
    d.ExpectDone();
    d.Source(d.operand(0), 4);
    inst.target = d.JumpTable(d.operand(1));
    inst.jump_table = true;
    d.Run(BranchTable);
  } else if (name == "ret" || name == "exit") {
    d.Take("uni");
    d.ExpectDone();
    inst.ends_lane = true;
    d.Run(Return);
  } else if (name == "trap") {
    inst.ends_lane = true;
    d.Run(Trap);
  } else if (name == "bar" || name == "barrier") {
    DecodeBarrier(d);
  } else if (name == "membar" || name == "fence" || name == "nanosleep" ||
             name == "griddepcontrol" || name == "pragma") {
    // CTAs run one after another and accesses in order: nothing to wait for.
    d.Run(Nothing);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
