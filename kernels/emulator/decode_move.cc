// mov, cvta, isspacep, selp, and the logic of predicates.
#include <cstring>

#include "absl/strings/match.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

template <typename T>
constexpr auto kCopy = [](T a) { return a; };

Handler Copy(uint32_t bytes) {
  switch (bytes) {
    case 2:
      return Map<kCopy<uint16_t>, uint16_t, uint16_t>;
    case 4:
      return Map<kCopy<uint32_t>, uint32_t, uint32_t>;
    case 8:
      return Map<kCopy<uint64_t>, uint64_t, uint64_t>;
    case 16: {
      using Quad = unsigned __int128;
      return Map<kCopy<Quad>, Quad, Quad>;
    }
    default:
      return nullptr;
  }
}

// Registers of 8 bits take 16 in a frame.
uint32_t Stride(uint32_t bytes) { return bytes < 2 ? 2 : bytes; }

// r[0] = the elements r[1...], each register_bytes wide, first in the low bits.
void Pack(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t part = inst.register_bytes;
  const uint32_t stride = Stride(part);
  const uint32_t whole = part * inst.count;
  ForLanes(mask, [&](uint32_t lane) {
    std::byte buffer[16];
    for (uint32_t e = 0; e < inst.count; ++e) {
      std::memcpy(buffer + e * part, warp.frame + inst.r[1 + e] + lane * stride,
                  part);
    }
    std::memcpy(warp.frame + inst.r[0] + lane * whole, buffer, whole);
  });
}

// The elements r[1...] = r[0].
void Unpack(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t part = inst.register_bytes;
  const uint32_t stride = Stride(part);
  const uint32_t whole = part * inst.count;
  ForLanes(mask, [&](uint32_t lane) {
    std::byte buffer[16] = {};
    std::memcpy(buffer, warp.frame + inst.r[0] + lane * whole, whole);
    for (uint32_t e = 0; e < inst.count; ++e) {
      std::byte* to = warp.frame + inst.r[1 + e] + lane * stride;
      std::memset(to, 0, stride);
      std::memcpy(to, buffer + e * part, part);
    }
  });
}

void Clock(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint64_t now = cta.stats().instructions;
  ForLanes(mask, [&](uint32_t lane) {
    if (inst.bytes == 8) {
      warp.Reg<uint64_t>(inst.r[0])[lane] = now;
    } else {
      warp.Reg<uint32_t>(inst.r[0])[lane] = static_cast<uint32_t>(now);
    }
  });
}

enum PredicateOp : uint8_t { kMovePred, kNotPred, kAndPred, kOrPred, kXorPred };

void PredicateLogic(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint32_t a = *warp.Reg<uint32_t>(inst.r[1]);
  uint32_t value = 0;
  switch (inst.mode) {
    case kMovePred:
      value = a;
      break;
    case kNotPred:
      value = ~a;
      break;
    case kAndPred:
      value = a & *warp.Reg<uint32_t>(inst.r[2]);
      break;
    case kOrPred:
      value = a | *warp.Reg<uint32_t>(inst.r[2]);
      break;
    case kXorPred:
      value = a ^ *warp.Reg<uint32_t>(inst.r[2]);
      break;
  }
  SetPredicate(warp, inst.r[0], mask, value);
}

template <typename T>
void Select(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  T* d = warp.Reg<T>(inst.r[0]);
  const T* a = warp.Reg<T>(inst.r[1]);
  const T* b = warp.Reg<T>(inst.r[2]);
  uint32_t p = *warp.Reg<uint32_t>(inst.r[3]);
  if (inst.Has(Instruction::kNegate)) p = ~p;
  ForLanes(mask, [=](uint32_t i) { d[i] = (p >> i & 1) ? a[i] : b[i]; });
}

void AddWindow(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint64_t* d = warp.Reg<uint64_t>(inst.r[0]);
  const uint64_t* a = warp.Reg<uint64_t>(inst.r[1]);
  const uint64_t add = static_cast<uint64_t>(inst.immediate);
  ForLanes(mask, [=](uint32_t i) { d[i] = a[i] + add; });
}

// mode: 1 if shared memory of other CTAs does not count.
void IsInSpace(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  const uint64_t* a = warp.Reg<uint64_t>(inst.r[1]);
  uint32_t value = 0;
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    bool inside = a[i] >> kWindowShift == static_cast<uint64_t>(inst.immediate);
    if (inside && inst.mode != 0) {
      uint64_t address = a[i] - kSharedWindow;
      inside = TakeRank(cta, &address) == cta.rank();
    }
    if (inside) value |= 1u << i;
  }
  SetPredicate(warp, inst.r[0], mask, value);
}

bool WindowOf(absl::string_view space, uint64_t* window) {
  if (space == "global") {
    *window = 0;
  } else if (space == "shared" || space == "shared::cta" ||
             space == "shared::cluster") {
    *window = kSharedWindow;
  } else if (space == "local") {
    *window = kLocalWindow;
  } else if (space == "const") {
    *window = kConstWindow;
  } else if (space == "param" || space == "param::entry") {
    *window = kParamWindow;
  } else {
    return false;
  }
  return true;
}

void DecodeMov(InstructionDecoder& d) {
  const Type type = d.TakeType();
  d.ExpectDone();
  const Operand& to = d.operand(0);
  const Operand& from = d.operand(1);
  Instruction& inst = d.inst();
  const uint32_t bytes = BytesOf(type);
  if (type == Type::kPred) {
    d.Destination(to, 1);
    d.PredicateSource(from);
    inst.mode = inst.Has(Instruction::kNegate) ? kNotPred : kMovePred;
    d.Run(PredicateLogic);
    return;
  }
  const bool pack = from.kind == Operand::Kind::kVector;
  if (pack || to.kind == Operand::Kind::kVector) {
    const Operand& vector = pack ? from : to;
    const Operand& scalar = pack ? to : from;
    inst.count = vector.elements.size();
    if (inst.count == 0 || bytes % inst.count != 0) {
      d.Fail("this vector");
      return;
    }
    inst.register_bytes = bytes / inst.count;
    if (pack) {
      d.Destination(scalar, bytes);
    } else {
      d.Source(scalar, bytes);
    }
    for (const Operand& element : vector.elements) {
      if (pack) {
        d.Source(element, Stride(inst.register_bytes));
      } else {
        d.Destination(element, Stride(inst.register_bytes));
      }
    }
    d.Run(pack ? Pack : Unpack);
    return;
  }
  d.Destination(to, bytes);
  if (from.kind == Operand::Kind::kName &&
      (from.name == "%clock" || from.name == "%clock64" ||
       from.name == "%clock_hi" ||
       absl::StartsWith(from.name, "%globaltimer"))) {
    inst.bytes = bytes;
    d.Run(Clock);
    return;
  }
  d.Source(from, bytes);
  d.Run(Copy(bytes));
}

void DecodeCvta(InstructionDecoder& d) {
  const bool to = d.Take("to");
  uint64_t window = 0;
  if (!WindowOf(d.TakeQualifier(), &window)) d.Fail("the state space");
  if (BytesOf(d.TakeType()) != 8) d.Fail("32-bit generic addresses");
  d.ExpectDone();
  d.inst().immediate = static_cast<int64_t>(to ? -window : window);
  d.Destination(d.operand(0), 8);
  d.Source(d.operand(1), 8);
  d.Run(AddWindow);
}

void DecodeSelp(InstructionDecoder& d) {
  const uint32_t bytes = BytesOf(d.TakeType());
  d.ExpectDone();
  d.Destination(d.operand(0), bytes);
  d.Source(d.operand(1), bytes);
  d.Source(d.operand(2), bytes);
  d.PredicateSource(d.operand(3));
  switch (bytes) {
    case 2:
      return d.Run(Select<uint16_t>);
    case 4:
      return d.Run(Select<uint32_t>);
    case 8:
      return d.Run(Select<uint64_t>);
    default:
      return d.Fail("the type");
  }
}

}  // namespace

bool DecodeMove(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  if (name == "mov") {
    DecodeMov(d);
  } else if (name == "cvta") {
    DecodeCvta(d);
  } else if (name == "selp") {
    DecodeSelp(d);
  } else if (name == "isspacep") {
    uint64_t window = 0;
    const absl::string_view space = d.TakeQualifier();
    if (!WindowOf(space, &window)) d.Fail("the state space");
    d.ExpectDone();
    d.inst().immediate = static_cast<int64_t>(window >> kWindowShift);
    d.inst().mode = space == "shared" || space == "shared::cta" ? 1 : 0;
    d.Destination(d.operand(0), 1);
    d.Source(d.operand(1), 8);
    d.Run(IsInSpace);
  } else if (d.PeekQualifier() == "pred" && (name == "and" || name == "or" ||
                                             name == "xor" || name == "not")) {
    d.TakeQualifier();
    d.ExpectDone();
    Instruction& inst = d.inst();
    inst.mode = name == "and"   ? kAndPred
                : name == "or"  ? kOrPred
                : name == "xor" ? kXorPred
                                : kNotPred;
    d.Destination(d.operand(0), 1);
    d.Source(d.operand(1), 1);
    if (name != "not") d.Source(d.operand(2), 1);
    if (inst.Has(Instruction::kNegate)) d.Fail("a negated operand");
    d.Run(PredicateLogic);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
