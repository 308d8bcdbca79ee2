// Exchanges and votes between the lanes of a warp.
#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_format.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

// Every lane must name itself, only lanes that are here or have exited, and the
// same ones as the other lanes that it names. Faults otherwise.
bool CheckMembers(Cta& cta, Warp& warp, uint32_t slot, uint32_t mask,
                  absl::string_view what) {
  const uint32_t* members = warp.Reg<uint32_t>(slot);
  bool good = true;
  ForLanesWhile(mask, [&](uint32_t lane) {
    good = (members[lane] >> lane & 1) != 0 &&
           (members[lane] & warp.live & ~mask) == 0;
    if (good) {
      const uint32_t first = std::countr_zero(members[lane] & mask);
      if (members[first] == members[lane]) return true;
      cta.Fault(warp, lane,
                absl::StrFormat("inconsistent members: %s with member mask "
                                "0x%08x, but lane %d has 0x%08x",
                                what, members[lane], first, members[first]));
      good = false;
    } else {
      cta.Fault(warp, lane,
                absl::StrFormat("inactive lanes: %s with member mask 0x%08x "
                                "executed by lanes 0x%08x",
                                what, members[lane], mask));
    }
    return good;
  });
  return good;
}

enum Shuffle : uint8_t { kUp, kDown, kButterfly, kIndex };

// r: value, predicate, source, lane operand, clamp and segments, members.
void ShuffleLanes(Cta& cta, Warp& warp, const Instruction& inst,
                  uint32_t mask) {
  if (!CheckMembers(cta, warp, inst.r[5], mask, "shfl.sync")) return;
  uint32_t in[kWarpSize];
  std::memcpy(in, warp.Reg<uint32_t>(inst.r[2]), sizeof(in));
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  const uint32_t* b = warp.Reg<uint32_t>(inst.r[3]);
  const uint32_t* c = warp.Reg<uint32_t>(inst.r[4]);
  uint32_t in_range = 0;
  uint32_t from_lane[kWarpSize] = {};
  ForLanes(mask, [&](uint32_t lane) {
    const uint32_t segment = c[lane] >> 8 & 31;
    const int clamp = c[lane] & 31;
    const int bound = static_cast<int>((lane & segment) | (clamp & ~segment));
    const uint32_t by = b[lane] & 31;
    int j = 0;
    bool valid = false;
    switch (inst.mode) {
      case kUp:
        j = static_cast<int>(lane) - static_cast<int>(by);
        valid = j >= bound;
        break;
      case kDown:
        j = static_cast<int>(lane + by);
        valid = j <= bound;
        break;
      case kButterfly:
        j = static_cast<int>(lane ^ by);
        valid = j <= bound;
        break;
      case kIndex:
        j = static_cast<int>((lane & segment) | (by & ~segment));
        valid = j <= bound;
        break;
    }
    from_lane[lane] = valid ? static_cast<uint32_t>(j) : lane;
    if (valid) in_range |= 1u << lane;
  });
  ForLanesWhile(mask, [&](uint32_t lane) {
    if ((mask >> from_lane[lane] & 1) == 0) {
      cta.Fault(warp, lane,
                absl::StrFormat("inactive lanes: shfl.sync reads from lane "
                                "%d, which does not take part",
                                from_lane[lane]));
      return false;
    }
    d[lane] = in[from_lane[lane]];
    return true;
  });
  SetPredicate(warp, inst.r[1], mask, in_range);
}

enum Vote : uint8_t { kAll, kAny, kUniform, kBallot };

// r: destination, predicate, members.
void VoteLanes(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!CheckMembers(cta, warp, inst.r[2], mask, "vote.sync")) return;
  uint32_t p = *warp.Reg<uint32_t>(inst.r[1]);
  if (inst.Has(Instruction::kNegate)) p = ~p;
  const uint32_t* members = warp.Reg<uint32_t>(inst.r[2]);
  uint32_t result = 0;
  ForLanes(mask, [&](uint32_t lane) {
    const uint32_t group = members[lane] & mask;
    const uint32_t ayes = p & group;
    bool holds = false;
    switch (inst.mode) {
      case kAll:
        holds = ayes == group;
        break;
      case kAny:
        holds = ayes != 0;
        break;
      case kUniform:
        holds = ayes == group || ayes == 0;
        break;
      case kBallot:
        warp.Reg<uint32_t>(inst.r[0])[lane] = ayes;
        return;
    }
    if (holds) result |= 1u << lane;
  });
  if (inst.mode != kBallot) SetPredicate(warp, inst.r[0], mask, result);
}

// match.any and match.all. r: destination, predicate, value, members.
// mode: 1 for all.
template <typename T>
void Match(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!CheckMembers(cta, warp, inst.r[3], mask, "match.sync")) return;
  const T* a = warp.Reg<T>(inst.r[2]);
  const uint32_t* members = warp.Reg<uint32_t>(inst.r[3]);
  uint32_t out[kWarpSize] = {};
  uint32_t all = 0;
  ForLanes(mask, [&](uint32_t lane) {
    const uint32_t group = members[lane] & mask;
    uint32_t same = 0;
    ForLanes(group, [&](uint32_t other) {
      if (a[other] == a[lane]) same |= 1u << other;
    });
    out[lane] = inst.mode == 0 ? same : same == group ? group : 0;
    if (same == group) all |= 1u << lane;
  });
  ForLanes(mask, [&](uint32_t lane) {
    warp.Reg<uint32_t>(inst.r[0])[lane] = out[lane];
  });
  SetPredicate(warp, inst.r[1], mask, all);
}

enum Reduction : uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor };

template <typename T>
void Reduce(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!CheckMembers(cta, warp, inst.r[2], mask, "redux.sync")) return;
  T in[kWarpSize];
  std::memcpy(in, warp.Reg<T>(inst.r[1]), sizeof(in));
  const uint32_t* members = warp.Reg<uint32_t>(inst.r[2]);
  ForLanes(mask, [&](uint32_t lane) {
    T x = in[lane];
    ForLanes(members[lane] & mask & ~(1u << lane), [&](uint32_t other) {
      const T y = in[other];
      switch (inst.mode) {
        case kAdd:
          x = static_cast<T>(static_cast<uint32_t>(x) +
                             static_cast<uint32_t>(y));
          break;
        case kMin:
          x = std::min(x, y);
          break;
        case kMax:
          x = std::max(x, y);
          break;
        case kAnd:
          x &= y;
          break;
        case kOr:
          x |= y;
          break;
        case kXor:
          x ^= y;
          break;
      }
    });
    warp.Reg<T>(inst.r[0])[lane] = x;
  });
}

void ActiveMask(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  ForLanes(mask, [=](uint32_t lane) { d[lane] = mask; });
}

// r: elected lane, predicate, members. Which lane it is must not matter, but is
// the same whenever the members are.
void Elect(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  if (!CheckMembers(cta, warp, inst.r[2], mask, "elect.sync")) return;
  const uint32_t* members = warp.Reg<uint32_t>(inst.r[2]);
  uint32_t elected = 0;
  ForLanes(mask, [&](uint32_t lane) {
    uint32_t group = members[lane] & mask;
    Random draw(cta.launch().options.seed ^ group);
    for (uint32_t skip = draw.Below(std::popcount(group)); skip > 0; --skip) {
      group &= group - 1;
    }
    const uint32_t leader = std::countr_zero(group);
    warp.Reg<uint32_t>(inst.r[0])[lane] = leader;
    elected |= 1u << leader;
  });
  SetPredicate(warp, inst.r[1], mask, elected);
}

// A destination "d" or "d|p".
void ValueAndPredicate(InstructionDecoder& d, const Operand& operand) {
  if (operand.kind == Operand::Kind::kPair) {
    d.Destination(operand.elements[0], 4);
    d.Destination(operand.elements[1], 1);
  } else {
    d.Destination(operand, 4);
    d.Append(d.Scratch(1));
  }
}

void DecodeShuffle(InstructionDecoder& d) {
  if (!d.Take("sync")) d.Fail("shfl without .sync");
  Instruction& inst = d.inst();
  inst.mode = d.Take("up")     ? kUp
              : d.Take("down") ? kDown
              : d.Take("bfly") ? kButterfly
                               : kIndex;
  if (inst.mode == kIndex && !d.Take("idx")) d.Fail("the mode");
  if (d.TakeType() != Type::kB32) d.Fail("the type");
  d.ExpectDone();
  ValueAndPredicate(d, d.operand(0));
  for (size_t i = 1; i < 5; ++i) d.Source(d.operand(i), 4);
  d.Run(ShuffleLanes);
}

void DecodeVote(InstructionDecoder& d) {
  if (!d.Take("sync")) d.Fail("vote without .sync");
  Instruction& inst = d.inst();
  inst.mode = d.Take("all")   ? kAll
              : d.Take("any") ? kAny
              : d.Take("uni") ? kUniform
                              : kBallot;
  if (inst.mode == kBallot && !d.Take("ballot")) d.Fail("the mode");
  const Type type = d.TakeType();
  if (type != (inst.mode == kBallot ? Type::kB32 : Type::kPred)) {
    d.Fail("the type");
  }
  d.ExpectDone();
  d.Destination(d.operand(0), inst.mode == kBallot ? 4 : 1);
  d.PredicateSource(d.operand(1));
  d.Source(d.operand(2), 4);
  d.Run(VoteLanes);
}

void DecodeMatch(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  inst.mode = d.Take("all") ? 1 : 0;
  if (inst.mode == 0 && !d.Take("any")) d.Fail("the mode");
  if (!d.Take("sync")) d.Fail("match without .sync");
  const Type type = d.TakeType();
  d.ExpectDone();
  ValueAndPredicate(d, d.operand(0));
  d.Source(d.operand(1), BytesOf(type));
  d.Source(d.operand(2), 4);
  d.Run(type == Type::kB32   ? Match<uint32_t>
        : type == Type::kB64 ? Match<uint64_t>
                             : Handler{nullptr});
}

void DecodeRedux(InstructionDecoder& d) {
  if (!d.Take("sync")) d.Fail("redux without .sync");
  Instruction& inst = d.inst();
  static constexpr const char* kNames[] = {"add", "min", "max",
                                           "and", "or",  "xor"};
  bool known = false;
  for (uint8_t i = 0; i < 6 && !known; ++i) {
    known = d.Take(kNames[i]);
    inst.mode = i;
  }
  const Type type = d.TakeType();
  d.ExpectDone();
  if (!known || BytesOf(type) != 4 || IsFloat(type)) d.Fail("the operation");
  d.Destination(d.operand(0), 4);
  d.Source(d.operand(1), 4);
  d.Source(d.operand(2), 4);
  d.Run(IsSigned(type) ? Reduce<int32_t> : Reduce<uint32_t>);
}

}  // namespace

bool DecodeWarp(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  if (name == "shfl") {
    DecodeShuffle(d);
  } else if (name == "vote") {
    DecodeVote(d);
  } else if (name == "match") {
    DecodeMatch(d);
  } else if (name == "redux") {
    DecodeRedux(d);
  } else if (name == "activemask") {
    if (d.TakeType() != Type::kB32) d.Fail("the type");
    d.ExpectDone();
    d.Destination(d.operand(0), 4);
    d.Run(ActiveMask);
  } else if (name == "elect") {
    if (!d.Take("sync")) d.Fail("elect without .sync");
    d.ExpectDone();
    ValueAndPredicate(d, d.operand(0));
    d.Source(d.operand(1), 4);
    d.Run(Elect);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
