// Branches, exits, barriers and fences; setmaxnreg, griddepcontrol, nanosleep.
#include <bit>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

void Nothing(Cta&, Warp&, const Instruction&, uint32_t) {}

void Branch(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  cta.Branch(warp, inst, mask, inst.target);
}

void UniformBranch(Cta& cta, Warp& warp, const Instruction& inst,
                   uint32_t mask) {
  if (mask != warp.stack.back().mask) {
    cta.Fault(warp, std::countr_zero(mask),
              "divergence: bra.uni taken by some lanes only");
    return;
  }
  cta.Branch(warp, inst, mask, inst.target);
}

// brx.idx: one target after another peels its lanes off.
void IndexedBranch(Cta& cta, Warp& warp, const Instruction& inst,
                   uint32_t mask) {
  const auto& table = cta.kernel().jump_tables[inst.target];
  const uint32_t* index = warp.Reg<uint32_t>(inst.r[0]);
  const uint32_t leader = std::countr_zero(mask);
  if (index[leader] >= table.size()) {
    cta.Fault(warp, leader,
              absl::StrFormat("brx.idx with index %d of %d targets",
                              index[leader], table.size()));
    return;
  }
  uint32_t same = 0;
  ForLanes(mask, [&](uint32_t lane) {
    if (index[lane] == index[leader]) same |= 1u << lane;
  });
  // Lanes with other indices stay at this statement.
  if (same != mask) --warp.stack.back().pc;
  cta.Branch(warp, inst, same, table[index[leader]]);
}

void Exit(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  cta.Exit(warp, mask);
}

void Trap(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  cta.Fault(warp, std::countr_zero(mask), "trap");
}

// The value all live lanes agree on; false after a fault.
bool Uniform(Cta& cta, Warp& warp, uint32_t slot, uint32_t mask,
             absl::string_view what, uint32_t* value) {
  const uint32_t* x = warp.Reg<uint32_t>(slot);
  *value = x[std::countr_zero(mask)];
  bool same = true;
  ForLanes(mask, [&](uint32_t lane) { same &= x[lane] == *value; });
  if (!same) {
    cta.Fault(warp, std::countr_zero(mask),
              absl::StrCat("lanes of the warp disagree on the ", what));
  }
  return same;
}

// r: id, threads, predicate, result. count: how many of the first two.
void Barrier(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "barrier")) return;
  uint32_t id = 0, threads = 0;
  if (!Uniform(cta, warp, inst.r[0], mask, "barrier", &id)) return;
  if (inst.count > 1) {
    if (!Uniform(cta, warp, inst.r[1], mask, "number of threads", &threads)) {
      return;
    }
    if (threads == 0) {
      cta.Fault(warp, std::countr_zero(mask), "barrier for 0 threads");
      return;
    }
  }
  uint32_t votes = *warp.Reg<uint32_t>(inst.r[2]);
  if (inst.Has(Instruction::kNegate)) votes = ~votes;
  cta.ArriveAtBarrier(warp, id, threads, static_cast<BarrierKind>(inst.mode),
                      votes & mask, inst.r[3]);
}

void SyncWarp(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t* members = warp.Reg<uint32_t>(inst.r[0]);
  bool good = true;
  ForLanesWhile(mask, [&](uint32_t lane) {
    // Lanes may come in several groups, each naming itself.
    good = (members[lane] >> lane & 1) != 0 &&
           (members[lane] & warp.live & ~mask) == 0;
    if (!good) {
      cta.Fault(warp, lane,
                absl::StrFormat("divergence: bar.warp.sync for lanes 0x%08x "
                                "by lanes 0x%08x",
                                members[lane], mask));
    }
    return good;
  });
  if (good && mask == warp.live) cta.SyncWarp(warp);
}

void FenceGrid(Cta& cta, Warp& warp, const Instruction&, uint32_t) {
  cta.FenceGrid(warp);
}

void Yield(Cta&, Warp& warp, const Instruction&, uint32_t) {
  warp.yields = true;
}

// count: 1 for .inc; immediate: the registers.
void SetMaxRegisters(Cta& cta, Warp& warp, const Instruction& inst,
                     uint32_t mask) {
  if (!cta.RequireConverged(warp, mask, "setmaxnreg")) return;
  cta.SetMaxRegisters(warp, inst.count != 0,
                      static_cast<uint32_t>(inst.immediate));
}

void WaitForDependency(Cta& cta, Warp& warp, const Instruction&, uint32_t) {
  cta.WaitForDependency(warp);
}

void DecodeSetMaxRegisters(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  inst.count = d.Take("inc") ? 1 : 0;
  if (inst.count == 0 && !d.Take("dec")) d.Fail("the action");
  if (!d.Take("sync") || !d.Take("aligned") || d.TakeType() != Type::kU32) {
    d.Fail("the form");
  }
  d.ExpectDone();
  const uint64_t registers = d.Constant(d.operand(0));
  if (registers < 24 || registers > 256 || registers % 8 != 0) {
    d.Fail("a register count that is no multiple of 8 from 24 to 256");
  }
  inst.immediate = static_cast<int64_t>(registers);
  d.Run(SetMaxRegisters);
}

void DecodeBarrier(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  if (d.name() == "bar" && d.Take("warp")) {
    if (!d.Take("sync")) d.Fail("the operation");
    d.ExpectDone();
    d.Source(d.operand(0), 4);
    d.Run(SyncWarp);
    return;
  }
  d.Take("cta");
  BarrierKind kind = BarrierKind::kSync;
  Type type = Type::kNone;
  if (d.Take("arrive")) {
    kind = BarrierKind::kArrive;
  } else if (d.Take("red")) {
    d.Take("aligned");
    kind = d.Take("popc")  ? BarrierKind::kPopc
           : d.Take("and") ? BarrierKind::kAnd
                           : BarrierKind::kOr;
    if (kind == BarrierKind::kOr && !d.Take("or")) d.Fail("the operation");
    d.Take("aligned");
    type = d.TakeType();
    if (type != (kind == BarrierKind::kPopc ? Type::kU32 : Type::kPred)) {
      d.Fail("the type");
    }
  } else if (!d.Take("sync")) {
    d.Fail("the operation");
  }
  d.Take("aligned");
  d.ExpectDone();
  inst.mode = static_cast<uint8_t>(kind);
  const size_t first = type == Type::kNone ? 0 : 1;
  const size_t predicates = first;
  inst.count = d.operand_count() - first - predicates;
  if (inst.count != 1 && inst.count != 2) d.Fail("the number of operands");
  if (kind == BarrierKind::kArrive && inst.count != 2) {
    d.Fail("an arrival without the number of threads");
  }
  d.Source(d.operand(first), 4);
  d.Source(d.operand(first + inst.count - 1), 4);
  if (type == Type::kNone) {
    d.Append(d.Scratch(1));
    d.Append(d.Scratch(1));
  } else {
    d.PredicateSource(d.operand(first + inst.count));
    d.Destination(d.operand(0), kind == BarrierKind::kPopc ? 4 : 1);
  }
  d.Run(Barrier);
}

void DecodeIndexedBranch(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  d.Take("idx");
  d.Take("uni");
  d.ExpectDone();
  d.Source(d.operand(0), 4);
  inst.jump_table = true;
  inst.target = d.JumpTable(d.operand(1));
  d.Run(IndexedBranch);
}

}  // namespace

bool DecodeControl(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  Instruction& inst = d.inst();
  if (name == "bra") {
    const bool uniform = d.Take("uni");
    d.ExpectDone();
    inst.target = d.Label(d.operand(0));
    d.Run(uniform ? UniformBranch : Branch);
  } else if (name == "brx") {
    DecodeIndexedBranch(d);
  } else if (name == "ret" || name == "exit") {
    d.Take("uni");
    d.ExpectDone();
    inst.ends_lane = true;
    d.Run(Exit);
  } else if (name == "trap") {
    d.Run(Trap);
  } else if ((name == "bar" || name == "barrier") &&
             d.PeekQualifier() != "cluster") {
    DecodeBarrier(d);
  } else if (name == "setmaxnreg") {
    DecodeSetMaxRegisters(d);
  } else if (name == "griddepcontrol") {
    // What the launch after this one may read early is its own business.
    const bool wait = d.Take("wait");
    if (!wait && !d.Take("launch_dependents")) d.Fail("the action");
    d.ExpectDone();
    d.Run(wait ? WaitForDependency : Nothing);
  } else if (name == "nanosleep") {
    d.Run(Yield);
  } else if (name == "membar" || name == "fence") {
    // Memory is sequentially consistent here, but other CTAs are ordered by
    // fences of a scope that reaches them. fence.proxy is no such fence.
    const bool reaches =
        !d.Has("proxy") && (d.Has("gpu") || d.Has("gl") || d.Has("sys"));
    d.Run(reaches ? FenceGrid : Nothing);
  } else if (name == "pmevent" || name == "brkpt") {
    d.Run(Nothing);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
