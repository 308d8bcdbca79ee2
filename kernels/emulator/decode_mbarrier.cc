// mbarrier, cp.async.mbarrier.arrive, and the fences of the async proxy.
#include <bit>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/emulator/cluster.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

// Bits of Instruction::mode.
enum Mode : uint8_t {
  kExpectTx = 1,
  kDrop = 2,
  kNoComplete = 4,
  kRelaxed = 8,
  kParity = 16,
  kNoIncrement = 32,
  kCluster = 64,  // addresses of shared::cluster
};

// Where the mbarrier that a lane names lies: in whose shared memory, and at
// which offset. False after a fault.
bool Locate(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
            uint64_t address, Cta** target, uint32_t* offset) {
  Space space =
      (inst.mode & kCluster) != 0 ? Space::kSharedCluster : Space::kGeneric;
  if (address >> kWindowShift != 0) {
    ResolveGeneric(&space, &address);
    if (space != Space::kShared && space != Space::kSharedCluster) {
      cta.Fault(warp, lane, "mbarrier access outside shared memory");
      return false;
    }
  }
  *target = &cta;
  if (space == Space::kSharedCluster) {
    const uint32_t rank = TakeRank(cta, &address);
    *target = cta.cluster().Running(cta, warp, lane, rank, "mbarrier access");
    if (*target == nullptr) return false;
  }
  // All CTAs of a launch have equal shared memory.
  return SharedOffset(cta, warp, lane, address, 8, "mbarrier access", offset);
}

Mbarrier* Use(Cta& cta, Warp& warp, const Instruction& inst, uint32_t lane,
              uint64_t address, Cta** target) {
  uint32_t offset = 0;
  if (!Locate(cta, warp, inst, lane, address, target, &offset)) return nullptr;
  return cta.UseMbarrier(**target, warp, lane, offset);
}

void FaultMbarrier(Cta& cta, const Warp& warp, uint32_t lane,
                   const Mbarrier& barrier, absl::string_view error) {
  cta.Fault(warp, lane,
            absl::StrCat("mbarrier at ", cta.Place(barrier.offset), ": ", error,
                         "; it was initialized at ",
                         cta.Describe(barrier.init_statement)));
}

// r: address, count.
void Init(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const LaneAddress address(warp, inst, inst.r[0], inst.immediate);
  ForLanesWhile(mask, [&](uint32_t lane) {
    uint32_t offset = 0;
    Cta* own = nullptr;
    if (!Locate(cta, warp, inst, lane, address(lane), &own, &offset)) {
      return false;
    }
    if (own != &cta) {
      cta.Fault(warp, lane,
                "mbarrier.init in the shared memory of another CTA");
      return false;
    }
    if (const Mbarrier* live = cta.mbarriers().Find(offset)) {
      FaultMbarrier(cta, warp, lane, *live,
                    "mbarrier.init of a live mbarrier; mbarrier.inval comes "
                    "first");
      return false;
    }
    const SharedAccess access = warp.Access(lane, cta.serial());
    const SharedFault fault = cta.shared().CheckInit(offset, access);
    if (fault != SharedFault::kNone) {
      cta.FaultShared(warp, lane, fault, "mbarrier.init", offset, 8);
      return false;
    }
    Mbarrier* barrier = nullptr;
    std::string error;
    if (!cta.mbarriers().Init(offset, warp.Reg<uint32_t>(inst.r[1])[lane],
                              &barrier, &error)) {
      cta.Fault(warp, lane, error);
      return false;
    }
    cta.shared().SetMbarrier(offset, true, access);
    barrier->init_warp = warp.index;
    barrier->init_lane = lane;
    barrier->init_clock = warp.clock[warp.index];
    barrier->init_statement = warp.statement;
    return true;
  });
}

void Invalidate(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const LaneAddress address(warp, inst, inst.r[0], inst.immediate);
  ForLanesWhile(mask, [&](uint32_t lane) {
    Cta* target = nullptr;
    Mbarrier* barrier = Use(cta, warp, inst, lane, address(lane), &target);
    if (barrier == nullptr) return false;
    if (target != &cta) {
      cta.Fault(warp, lane,
                "mbarrier.inval in the shared memory of another CTA");
      return false;
    }
    for (uint32_t w = 0; w < kMaxWarps; ++w) {
      if (barrier->used[w] > warp.clock[w]) {
        FaultMbarrier(cta, warp, lane, *barrier,
                      absl::StrCat("race: mbarrier.inval is not synchronized "
                                   "with its use by warp ",
                                   w));
        return false;
      }
    }
    if (barrier->tx != 0) {
      FaultMbarrier(cta, warp, lane, *barrier,
                    absl::StrCat("wrong byte count: mbarrier.inval with a "
                                 "tx-count of ",
                                 barrier->tx));
      return false;
    }
    cta.mbarriers().Invalidate(*barrier);
    cta.shared().SetMbarrier(barrier->offset, false,
                             warp.Access(lane, cta.serial()));
    return true;
  });
}

// r: state, address, count or bytes.
void Arrive(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const LaneAddress address(warp, inst, inst.r[1], inst.immediate);
  const uint32_t* operand = warp.Reg<uint32_t>(inst.r[2]);
  uint64_t* state = warp.Reg<uint64_t>(inst.r[0]);
  ForLanesWhile(mask, [&](uint32_t lane) {
    Cta* target = nullptr;
    Mbarrier* barrier = Use(cta, warp, inst, lane, address(lane), &target);
    if (barrier == nullptr) return false;
    const bool expects = (inst.mode & kExpectTx) != 0;
    state[lane] = MbarrierTable::State(*barrier);
    if ((inst.mode & kRelaxed) == 0) Join(barrier->arriving, warp.clock);
    std::string error;
    bool good = true;
    // The expectation comes first; the phase cannot complete by it, since
    // this arrival is outstanding.
    if (expects)
      good = MbarrierTable::ExpectTx(*barrier, operand[lane], &error);
    good =
        good && MbarrierTable::Arrive(*barrier, expects ? 1 : operand[lane],
                                      (inst.mode & kDrop) != 0,
                                      (inst.mode & kNoComplete) != 0, &error);
    if (!good) {
      FaultMbarrier(cta, warp, lane, *barrier, error);
      return false;
    }
    target->WakePollers(*barrier);
    return true;
  });
  if ((inst.mode & kRelaxed) == 0) ++warp.clock[warp.index];
}

// r: address, bytes.
template <bool (*kOperation)(Mbarrier&, uint32_t, std::string*)>
void Transaction(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const LaneAddress address(warp, inst, inst.r[0], inst.immediate);
  const uint32_t* bytes = warp.Reg<uint32_t>(inst.r[1]);
  ForLanesWhile(mask, [&](uint32_t lane) {
    Cta* target = nullptr;
    Mbarrier* barrier = Use(cta, warp, inst, lane, address(lane), &target);
    if (barrier == nullptr) return false;
    std::string error;
    if (!kOperation(*barrier, bytes[lane], &error)) {
      FaultMbarrier(cta, warp, lane, *barrier, error);
      return false;
    }
    target->WakePollers(*barrier);
    return true;
  });
}

// r: predicate, address, state or parity.
void Wait(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const LaneAddress address(warp, inst, inst.r[1], inst.immediate);
  uint32_t complete = 0;
  uint32_t waiting_lane = 0;
  uint32_t waiting_phase = 0;
  const Mbarrier* waiting = nullptr;
  bool good = true;
  ForLanesWhile(mask, [&](uint32_t lane) {
    Cta* target = nullptr;
    Mbarrier* barrier = Use(cta, warp, inst, lane, address(lane), &target);
    good = barrier != nullptr;
    if (!good) return false;
    if (target != &cta) {
      cta.Fault(warp, lane, "wait for an mbarrier of another CTA");
      return good = false;
    }
    // A parity names the current phase or the one before it.
    uint32_t phase = 0;
    if ((inst.mode & kParity) != 0) {
      const uint32_t parity = warp.Reg<uint32_t>(inst.r[2])[lane];
      if (parity > 1) {
        FaultMbarrier(cta, warp, lane, *barrier,
                      absl::StrCat("wrong phase: a parity of ", parity,
                                   "; legal are 0 and 1"));
        return good = false;
      }
      phase =
          barrier->phase % 2 == parity ? barrier->phase : barrier->phase - 1;
    } else {
      phase = MbarrierTable::PhaseOf(warp.Reg<uint64_t>(inst.r[2])[lane]);
      if (phase != barrier->phase && phase + 1 != barrier->phase) {
        FaultMbarrier(cta, warp, lane, *barrier,
                      absl::StrCat("wrong phase: the state is of phase ", phase,
                                   ", the mbarrier in phase ", barrier->phase,
                                   "; it must be of that or the one before"));
        return good = false;
      }
    }
    if (phase != barrier->phase) {
      complete |= 1u << lane;
      if ((inst.mode & kRelaxed) == 0) Join(warp.clock, barrier->completed);
    } else if (waiting == nullptr) {
      waiting = barrier;
      waiting_lane = lane;
      waiting_phase = phase;
    }
    return true;
  });
  if (!good) return;
  // To be suspended is one legal way to be scheduled, a quick "no" another.
  if (waiting != nullptr && !warp.poll.answer && cta.random().Below(4) != 0) {
    cta.Poll(warp, waiting_lane, *waiting, waiting_phase);
    return;
  }
  warp.poll.answer = false;
  SetPredicate(warp, inst.r[0], mask, complete);
}

void PendingCount(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint32_t* count = warp.Reg<uint32_t>(inst.r[0]);
  const uint64_t* state = warp.Reg<uint64_t>(inst.r[1]);
  ForLanes(mask, [=](uint32_t lane) {
    count[lane] = MbarrierTable::PendingOf(state[lane]);
  });
}

// r: address.
void CopyArrive(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const LaneAddress address(warp, inst, inst.r[0], inst.immediate);
  ForLanesWhile(mask, [&](uint32_t lane) {
    Cta* target = nullptr;
    Mbarrier* barrier = Use(cta, warp, inst, lane, address(lane), &target);
    if (barrier == nullptr) return false;
    std::string error;
    if ((inst.mode & kNoIncrement) == 0 &&
        !MbarrierTable::AddPending(*barrier, &error)) {
      FaultMbarrier(cta, warp, lane, *barrier, error);
      return false;
    }
    cta.ArriveAfterCopies(warp, lane, barrier);
    return !cta.faulted();
  });
}

void FenceInit(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  cta.mbarriers().ForEachLive([&](Mbarrier& barrier) {
    if (barrier.init_warp == warp.index && (mask >> barrier.init_lane & 1)) {
      barrier.init_fenced = true;
    }
  });
  uint32_t& own = warp.clock[warp.index];
  warp.clock[kInits + warp.index] = own++;
}

void FenceAsync(Cta& cta, Warp& warp, const Instruction&, uint32_t mask) {
  cta.FenceProxy(warp, mask);
}

void Nothing(Cta&, Warp&, const Instruction&, uint32_t) {}

// {.sem.scope}{.space}.b64
void TakeSemantics(InstructionDecoder& d, bool may_be_remote = false) {
  if (d.Take("relaxed")) {
    d.inst().mode |= kRelaxed;
  } else if (!d.Take("acquire")) {
    d.Take("release");
  }
  if (!d.Take("cta")) d.Take("cluster");
  if (may_be_remote && d.Take("shared::cluster")) {
    d.inst().mode |= kCluster;
  } else if (!d.Take("shared")) {
    d.Take("shared::cta");
  }
  if (d.TakeType() != Type::kB64) d.Fail("the type");
  d.ExpectDone();
}

void ExpectOperands(InstructionDecoder& d, size_t least, size_t most) {
  if (d.operand_count() < least || d.operand_count() > most) {
    d.Fail("the number of operands");
  }
}

void DecodeArrive(InstructionDecoder& d, bool drop) {
  Instruction& inst = d.inst();
  if (drop) inst.mode |= kDrop;
  if (d.Take("expect_tx")) {
    inst.mode |= kExpectTx;
  } else if (d.Take("noComplete")) {
    inst.mode |= kNoComplete;
  }
  TakeSemantics(d, /*may_be_remote=*/true);
  if ((inst.mode & kCluster) != 0 && d.operand(0).name != "_") {
    d.Fail("a state from another CTA's mbarrier");
  }
  const bool needs_operand = (inst.mode & (kExpectTx | kNoComplete)) != 0;
  ExpectOperands(d, needs_operand ? 3 : 2, 3);
  d.Destination(d.operand(0), 8);
  d.Address(d.operand(1));
  if (d.operand_count() == 3) {
    d.Source(d.operand(2), 4);
  } else {
    Operand one;
    one.kind = Operand::Kind::kInteger;
    one.bits = 1;
    d.Source(one, 4);
  }
  d.Run(Arrive);
}

void DecodeWait(InstructionDecoder& d, bool try_wait) {
  if (d.Take("parity")) d.inst().mode |= kParity;
  TakeSemantics(d);
  // A time limit only says how long a try may take.
  ExpectOperands(d, 3, try_wait ? 4 : 3);
  d.Destination(d.operand(0), InstructionDecoder::kPredBytes);
  d.Address(d.operand(1));
  d.Source(d.operand(2), (d.inst().mode & kParity) != 0 ? 4 : 8);
  d.Run(Wait);
}

void DecodeFence(InstructionDecoder& d) {
  if (d.Take("mbarrier_init")) {
    if (!d.Take("release") || !d.Take("cluster")) d.Fail("the scope");
    d.ExpectDone();
    d.Run(FenceInit);
    return;
  }
  d.Take("proxy");
  if (d.Take("async")) {
    const bool global = d.Take("global");
    if (!global && !d.Take("shared::cta")) d.Take("shared::cluster");
    d.ExpectDone();
    // Only shared memory is followed by proxy.
    d.Run(global ? Nothing : FenceAsync);
  } else if (d.Take("async::generic")) {
    const bool release = d.Take("release");
    if (!release && !d.Take("acquire")) d.Fail("the semantics");
    if (!d.Take(release ? "sync_restrict::shared::cta"
                        : "sync_restrict::shared::cluster") ||
        !d.Take("cluster")) {
      d.Fail("the scope");
    }
    d.ExpectDone();
    d.Run(release ? FenceAsync : Nothing);
  } else if (d.Take("tensormap::generic")) {
    // Tensor maps are kernel parameters here, which nobody writes.
    const bool release = d.Take("release");
    if (!release && !d.Take("acquire")) d.Fail("the semantics");
    if (!d.Take("cta") && !d.Take("cluster") && !d.Take("gpu")) d.Take("sys");
    d.ExpectDone();
    ExpectOperands(d, release ? 0 : 2, release ? 0 : 2);
    if (!release) {
      d.Address(d.operand(0));
      if (d.Constant(d.operand(1)) != 128) d.Fail("a size other than 128");
    }
    d.Run(Nothing);
  } else {
    d.Fail("the proxy");
  }
}

}  // namespace

bool DecodeMbarrier(InstructionDecoder& d) {
  if (d.name() == "fence" &&
      (d.PeekQualifier() == "mbarrier_init" ||
       absl::StartsWith(d.opcode(), "fence.proxy.async") ||
       absl::StartsWith(d.opcode(), "fence.proxy.tensormap"))) {
    DecodeFence(d);
    return true;
  }
  if (absl::StartsWith(d.opcode(), "cp.async.mbarrier.arrive")) {
    d.Take("async");
    d.Take("mbarrier");
    d.Take("arrive");
    if (d.Take("noinc")) d.inst().mode |= kNoIncrement;
    TakeSemantics(d);
    ExpectOperands(d, 1, 1);
    d.Address(d.operand(0));
    d.Run(CopyArrive);
    return true;
  }
  if (d.name() != "mbarrier") return false;
  if (d.Take("init")) {
    TakeSemantics(d);
    ExpectOperands(d, 2, 2);
    d.Address(d.operand(0));
    d.Source(d.operand(1), 4);
    d.Run(Init);
  } else if (d.Take("inval")) {
    TakeSemantics(d);
    ExpectOperands(d, 1, 1);
    d.Address(d.operand(0));
    d.Run(Invalidate);
  } else if (d.PeekQualifier() == "expect_tx" ||
             d.PeekQualifier() == "complete_tx") {
    const bool expects = d.TakeQualifier() == "expect_tx";
    TakeSemantics(d, /*may_be_remote=*/true);
    ExpectOperands(d, 2, 2);
    d.Address(d.operand(0));
    d.Source(d.operand(1), 4);
    d.Run(expects ? Transaction<MbarrierTable::ExpectTx>
                  : Transaction<MbarrierTable::CompleteTx>);
  } else if (d.Take("arrive")) {
    DecodeArrive(d, false);
  } else if (d.Take("arrive_drop")) {
    DecodeArrive(d, true);
  } else if (d.Take("test_wait")) {
    DecodeWait(d, false);
  } else if (d.Take("try_wait")) {
    DecodeWait(d, true);
  } else if (d.Take("pending_count")) {
    if (d.TakeType() != Type::kB64) d.Fail("the type");
    d.ExpectDone();
    ExpectOperands(d, 2, 2);
    d.Destination(d.operand(0), 4);
    d.Source(d.operand(1), 8);
    d.Run(PendingCount);
  } else {
    d.Fail("the operation");
  }
  return true;
}

}  // namespace hone::emulator
