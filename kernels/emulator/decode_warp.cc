// Warp-wide exchange: shfl, vote, match, redux, activemask, elect.
#include <algorithm>
#include <bit>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

// The lanes that take part are those that the member mask names; they must all
// be here.
bool RequireMembers(Cta& cta, Warp& warp, uint32_t members, uint32_t mask) {
  if ((members & warp.live) == mask) return true;
  cta.Fault(warp, std::countr_zero(mask),
            "divergence: a warp-wide instruction by other lanes than its "
            "member mask names");
  return false;
}

enum ShuffleMode : uint8_t { kUp, kDown, kButterfly, kIndex };

// r: destination, predicate, source, lane, clamp, members.
void Shuffle(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t first = std::countr_zero(mask);
  if (!RequireMembers(cta, warp, warp.Reg<uint32_t>(inst.r[5])[first], mask)) {
    return;
  }
  const uint32_t* source = warp.Reg<uint32_t>(inst.r[2]);
  uint32_t values[kWarpSize];
  std::copy_n(source, kWarpSize, values);
  uint32_t in_range = 0;
  ForLanesWhile(mask, [&](uint32_t lane) {
    const uint32_t b = warp.Reg<uint32_t>(inst.r[3])[lane] & 31;
    const uint32_t c = warp.Reg<uint32_t>(inst.r[4])[lane];
    const uint32_t segment = c >> 8 & 31;
    const uint32_t clamp = c & 31;
    const uint32_t low = lane & segment;
    const uint32_t high = low | (clamp & ~segment);
    uint32_t from = 0;
    bool valid = false;
    switch (inst.mode) {
      case kUp:
        from = lane - b;
        valid = static_cast<int32_t>(from) >= static_cast<int32_t>(high);
        break;
      case kDown:
        from = lane + b;
        valid = from <= high;
        break;
      case kButterfly:
        from = lane ^ b;
        valid = from <= high;
        break;
      default:
        from = low | (b & ~segment);
        valid = from <= high;
    }
    if (!valid) from = lane;
    if ((mask >> from & 1) == 0) {
      cta.Fault(warp, lane, "shfl reads a lane that does not take part");
      return false;
    }
    warp.Reg<uint32_t>(inst.r[0])[lane] = values[from];
    if (valid) in_range |= 1u << lane;
    return true;
  });
  SetPredicate(warp, inst.r[1], mask, in_range);
}

enum VoteMode : uint8_t { kAll, kAny, kUni, kBallot };

// r: destination, predicate, members.
void Vote(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t first = std::countr_zero(mask);
  if (!RequireMembers(cta, warp, warp.Reg<uint32_t>(inst.r[2])[first], mask)) {
    return;
  }
  uint32_t votes = *warp.Reg<uint32_t>(inst.r[1]);
  if (inst.Has(Instruction::kNegate)) votes = ~votes;
  votes &= mask;
  if (inst.mode == kBallot) {
    ForLanes(mask, [&](uint32_t lane) {
      warp.Reg<uint32_t>(inst.r[0])[lane] = votes;
    });
    return;
  }
  const bool value = inst.mode == kAll   ? votes == mask
                     : inst.mode == kAny ? votes != 0
                                         : votes == mask || votes == 0;
  SetPredicate(warp, inst.r[0], mask, value ? kAllLanes : 0);
}

enum ReduceMode : uint8_t { kRAdd, kRMin, kRMax, kRAnd, kROr, kRXor };

template <typename T>
void Reduce(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t first = std::countr_zero(mask);
  if (!RequireMembers(cta, warp, warp.Reg<uint32_t>(inst.r[2])[first], mask)) {
    return;
  }
  const T* values = warp.Reg<T>(inst.r[1]);
  T out = values[first];
  ForLanes(mask & (mask - 1), [&](uint32_t lane) {
    const T v = values[lane];
    switch (inst.mode) {
      case kRAdd:
        out = static_cast<T>(static_cast<uint32_t>(out) +
                             static_cast<uint32_t>(v));
        break;
      case kRMin:
        out = std::min(out, v);
        break;
      case kRMax:
        out = std::max(out, v);
        break;
      case kRAnd:
        out &= v;
        break;
      case kROr:
        out |= v;
        break;
      default:
        out ^= v;
    }
  });
  ForLanes(mask, [&](uint32_t lane) { warp.Reg<T>(inst.r[0])[lane] = out; });
}

void ActiveMask(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  ForLanes(mask,
           [&](uint32_t lane) { warp.Reg<uint32_t>(inst.r[0])[lane] = mask; });
}

// r: leader's lane, predicate, members.
void Elect(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t first = std::countr_zero(mask);
  if (!RequireMembers(cta, warp, warp.Reg<uint32_t>(inst.r[2])[first], mask)) {
    return;
  }
  ForLanes(mask,
           [&](uint32_t lane) { warp.Reg<uint32_t>(inst.r[0])[lane] = first; });
  SetPredicate(warp, inst.r[1], mask, 1u << first);
}

// "d|p": two destinations; "d" alone: the second is a scratch slot.
void PairDestination(InstructionDecoder& d, const Operand& operand) {
  if (operand.kind == Operand::Kind::kPair) {
    d.Destination(operand.elements[0], 4);
    d.Destination(operand.elements[1], InstructionDecoder::kPredBytes);
  } else {
    d.Destination(operand, 4);
    d.Append(d.Scratch(InstructionDecoder::kPredBytes));
  }
}

}  // namespace

bool DecodeWarp(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  Instruction& inst = d.inst();
  if (name == "shfl") {
    if (!d.Take("sync")) d.Fail("shfl without .sync");
    inst.mode = d.Take("up")     ? kUp
                : d.Take("down") ? kDown
                : d.Take("bfly") ? kButterfly
                                 : kIndex;
    if (inst.mode == kIndex) d.Take("idx");
    d.TakeType();
    d.ExpectDone();
    PairDestination(d, d.operand(0));
    for (size_t i = 1; i <= 4; ++i) d.Source(d.operand(i), 4);
    d.Run(Shuffle);
  } else if (name == "vote") {
    if (!d.Take("sync")) d.Fail("vote without .sync");
    inst.mode = d.Take("all")   ? kAll
                : d.Take("any") ? kAny
                : d.Take("uni") ? kUni
                                : kBallot;
    if (inst.mode == kBallot) d.Take("ballot");
    d.TakeType();
    d.ExpectDone();
    d.Destination(d.operand(0),
                  inst.mode == kBallot ? 4 : InstructionDecoder::kPredBytes);
    d.PredicateSource(d.operand(1));
    d.Source(d.operand(2), 4);
    d.Run(Vote);
  } else if (name == "redux") {
    if (!d.Take("sync")) d.Fail("redux without .sync");
    static constexpr absl::string_view kOps[] = {"add", "min", "max",
                                                 "and", "or",  "xor"};
    const absl::string_view op = d.TakeQualifier();
    const auto* found = std::find(std::begin(kOps), std::end(kOps), op);
    if (found == std::end(kOps)) {
      d.Fail("the operation");
      return true;
    }
    inst.mode = static_cast<uint8_t>(found - std::begin(kOps));
    const Type type = d.TakeType();
    d.ExpectDone();
    d.Destination(d.operand(0), 4);
    d.Source(d.operand(1), 4);
    d.Source(d.operand(2), 4);
    if (type == Type::kS32) {
      d.Run(Reduce<int32_t>);
    } else if (BytesOf(type) == 4 && !IsFloat(type)) {
      d.Run(Reduce<uint32_t>);
    } else {
      d.Fail("the type");
    }
  } else if (name == "activemask") {
    d.TakeType();
    d.ExpectDone();
    d.Destination(d.operand(0), 4);
    d.Run(ActiveMask);
  } else if (name == "elect") {
    if (!d.Take("sync")) d.Fail("elect without .sync");
    d.ExpectDone();
    PairDestination(d, d.operand(0));
    d.Source(d.operand(1), 4);
    d.Run(Elect);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
