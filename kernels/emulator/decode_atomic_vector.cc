// atom and red on vectors of floats in global memory, and on 128 bits.
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/memory_access.h"

namespace hone::emulator {
namespace {

enum class Op : uint8_t { kAdd, kMin, kMax };

double Least(double a, double b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

// One element of each type: its storage and what becomes of it.
struct Single {
  using Storage = uint32_t;
  // On global memory f32 subnormals are flushed.
  static uint32_t Apply(Op, uint32_t old, uint32_t b) {
    const auto value = [](uint32_t x) {
      return FlushSubnormal(std::bit_cast<float>(x));
    };
    return std::bit_cast<uint32_t>(FlushSubnormal(value(old) + value(b)));
  }
};
template <typename Format>
struct Narrow {
  using Storage = uint16_t;
  static uint16_t Apply(Op op, uint16_t old, uint16_t b) {
    const double x = Decode16<Format>(old), y = Decode16<Format>(b);
    return Encode16<Format>(op == Op::kAdd   ? AddToOdd(x, y)
                            : op == Op::kMin ? Least(x, y)
                                             : -Least(-x, -y));
  }
};
template <typename Format>
struct Pair {
  using Storage = uint32_t;
  static uint32_t Apply(Op op, uint32_t old, uint32_t b) {
    const auto half = [&](int shift) -> uint32_t {
      return Narrow<Format>::Apply(op, static_cast<uint16_t>(old >> shift),
                                   static_cast<uint16_t>(b >> shift));
    };
    return half(16) << 16 | half(0);
  }
};

// The bytes of a global access that reads and writes, or nullptr after a
// fault. The caller holds atomic_mutex().
std::byte* GlobalBytes(Cta& cta, Warp& warp, const Instruction& inst,
                       uint32_t lane, uint64_t at, uint32_t bytes) {
  GlobalMemory& global = cta.global();
  if (global.ForRead(at, bytes) == nullptr) {
    cta.Fault(warp, lane, global.Explain(at, bytes, /*write=*/false));
    return nullptr;
  }
  std::byte* to = global.ForWrite(at, bytes);
  if (to == nullptr) {
    cta.Fault(warp, lane, global.Explain(at, bytes, /*write=*/true));
    return nullptr;
  }
  cta.AcquireGlobal(warp, at, inst.Has(Instruction::kAcquire));
  if (!cta.CheckGlobal(warp, lane, at, bytes, /*write=*/true,
                       /*strong=*/true)) {
    return nullptr;
  }
  cta.ReleaseGlobal(warp, at, inst.Has(Instruction::kRelease));
  cta.stats().global_bytes_read += bytes;
  cta.stats().global_bytes_written += bytes;
  return to;
}

// The lanes go one after another; each element is atomic by itself. r: the old
// elements, address, the operands; count: elements. mode: the operation.
template <typename E>
void VectorAtomic(Cta& cta, Warp& warp, const Instruction& inst,
                  uint32_t mask) {
  using S = typename E::Storage;
  const LaneAddress address(warp, inst, inst.r[inst.count], inst.immediate);
  const uint32_t bytes = sizeof(S) * inst.count;
  const Op op = static_cast<Op>(inst.mode);
  ForLanesWhile(mask, [&](uint32_t lane) {
    Space space = inst.bytes != 0 ? Space::kGlobal : Space::kGeneric;
    uint64_t at = address(lane);
    ResolveGeneric(&space, &at);
    if (space != Space::kGlobal) {
      cta.Fault(warp, lane, "vector atomic outside global memory");
      return false;
    }
    if (!CheckAlignment(cta, warp, lane, at, bytes, "atomic access")) {
      return false;
    }
    absl::MutexLock lock(&cta.global().atomic_mutex());
    std::byte* to = GlobalBytes(cta, warp, inst, lane, at, bytes);
    if (to == nullptr) return false;
    for (uint32_t e = 0; e < inst.count; ++e) {
      S old;
      std::memcpy(&old, to + e * sizeof(S), sizeof(S));
      const S b = warp.Reg<S>(inst.r[inst.count + 1 + e])[lane];
      const S now = E::Apply(op, old, b);
      std::memcpy(to + e * sizeof(S), &now, sizeof(S));
      warp.Reg<S>(inst.r[e])[lane] = old;
    }
    return true;
  });
}

// exch and cas of 128 bits. r: old value, address, b, c. mode: the space;
// count: 1 for cas.
void QuadAtomic(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  constexpr uint32_t kBytes = 16;
  const LaneAddress address(warp, inst, inst.r[1], inst.immediate);
  ForLanesWhile(mask, [&](uint32_t lane) {
    const auto reg = [&](int i) {
      return warp.frame + inst.r[i] + lane * kBytes;
    };
    Space space = static_cast<Space>(inst.mode);
    uint64_t at = address(lane);
    ResolveGeneric(&space, &at);
    std::byte old[kBytes];
    // cas compares with b and stores c; exch stores b.
    const auto next = [&]() -> const std::byte* {
      if (inst.count == 0) return reg(2);
      return std::memcmp(old, reg(2), kBytes) == 0 ? reg(3) : old;
    };
    if (space == Space::kGlobal) {
      if (!CheckAlignment(cta, warp, lane, at, kBytes, "atomic access")) {
        return false;
      }
      absl::MutexLock lock(&cta.global().atomic_mutex());
      std::byte* to = GlobalBytes(cta, warp, inst, lane, at, kBytes);
      if (to == nullptr) return false;
      std::memcpy(old, to, kBytes);
      std::memcpy(to, next(), kBytes);
    } else if (!ReadMemory(cta, warp, inst, lane, space, at, kBytes, old) ||
               !WriteMemory(cta, warp, inst, lane, space, at, kBytes, next())) {
      return false;
    }
    std::memcpy(reg(0), old, kBytes);
    return true;
  });
}

// What the qualifiers say, in any order after the memory order and the space.
struct Form {
  bool add = false, min = false, max = false, exch = false, cas = false;
  uint8_t elements = 1;
  Type type = Type::kNone;
  bool policy = false;
};

Form TakeForm(InstructionDecoder& d) {
  Form form;
  while (!d.Done()) {
    if (d.Take("add")) {
      form.add = true;
    } else if (d.Take("min")) {
      form.min = true;
    } else if (d.Take("max")) {
      form.max = true;
    } else if (d.Take("exch")) {
      form.exch = true;
    } else if (d.Take("cas")) {
      form.cas = true;
    } else if (d.Take("v2")) {
      form.elements = 2;
    } else if (d.Take("v4")) {
      form.elements = 4;
    } else if (d.Take("v8")) {
      form.elements = 8;
    } else if (!d.Take("noftz")) {
      form.policy |= d.TakeCacheHints();
      if (d.Done()) break;
      form.type = d.TakeType();
      if (!d.status().ok()) break;
    }
  }
  return form;
}

void DecodeQuad(InstructionDecoder& d, const Form& form, Space space) {
  Instruction& inst = d.inst();
  if (d.name() != "atom" || form.exch == form.cas) d.Fail("the operation");
  inst.mode = static_cast<uint8_t>(space);
  inst.count = form.cas ? 1 : 0;
  d.Destination(d.operand(0), 16);
  d.Address(d.operand(1));
  d.Source(d.operand(2), 16);
  d.Source(d.operand(form.cas ? 3 : 2), 16);
  d.Run(QuadAtomic);
}

Handler VectorHandler(const Form& form) {
  // Vectors have at most 16 bytes.
  if (form.elements * BytesOf(form.type) > 16) return nullptr;
  switch (form.type) {
    case Type::kF32:
      return form.add ? VectorAtomic<Single> : Handler{nullptr};
    case Type::kF16:
      return VectorAtomic<Narrow<Half>>;
    case Type::kBF16:
      return VectorAtomic<Narrow<BFloat>>;
    case Type::kF16x2:
      return VectorAtomic<Pair<Half>>;
    case Type::kBF16x2:
      return VectorAtomic<Pair<BFloat>>;
    default:
      return nullptr;
  }
}

}  // namespace

bool DecodeAtomicVector(InstructionDecoder& d) {
  if (d.name() != "atom" && d.name() != "red") return false;
  const bool quad = d.LastType() == Type::kB128;
  if (!quad && !d.Has("v2") && !d.Has("v4") && !d.Has("v8")) return false;
  Instruction& inst = d.inst();
  TakeMemoryOrder(d);
  inst.flags |= Instruction::kStrong;
  Space space = Space::kGeneric;
  TakeSpace(d, &space);
  const Form form = TakeForm(d);
  if (quad) {
    DecodeQuad(d, form, space);
    return true;
  }
  if (space != Space::kGlobal && space != Space::kGeneric) {
    d.Fail("the state space");
  }
  if (form.add + form.min + form.max != 1) d.Fail("the operation");
  inst.mode = static_cast<uint8_t>(form.add   ? Op::kAdd
                                   : form.min ? Op::kMin
                                              : Op::kMax);
  inst.count = form.elements;
  inst.bytes = space == Space::kGlobal ? 1 : 0;
  const uint32_t bytes = BytesOf(form.type);
  const bool returns = d.name() == "atom";
  const size_t first = returns ? 1 : 0;
  const auto elements = d.Elements(d.operand(first + 1));
  if (elements.size() != form.elements ||
      d.operand_count() != first + 2 + (form.policy ? 1 : 0)) {
    d.Fail("the number of operands");
  }
  if (returns) {
    const auto old = d.Elements(d.operand(0));
    if (old.size() != form.elements) d.Fail("the number of registers");
    for (const Operand* element : old) d.Destination(*element, bytes);
  } else {
    for (uint32_t e = 0; e < form.elements; ++e) d.Append(d.Scratch(bytes));
  }
  d.Address(d.operand(first));
  for (const Operand* element : elements) d.Source(*element, bytes);
  d.Run(VectorHandler(form));
  return true;
}

}  // namespace hone::emulator
