// setp, set and slct.
#include <cmath>
#include <type_traits>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

enum Comparison : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,  // true if unordered
  kNum,
  kNan,
};
struct ComparisonName {
  const char* name;
  Comparison comparison;
};
constexpr ComparisonName kComparisons[] = {
    {"eq", kEq},   {"ne", kNe},   {"lt", kLt},   {"le", kLe},   {"gt", kGt},
    {"ge", kGe},   {"lo", kLt},   {"ls", kLe},   {"hi", kGt},   {"hs", kGe},
    {"equ", kEqu}, {"neu", kNeu}, {"ltu", kLtu}, {"leu", kLeu}, {"gtu", kGtu},
    {"geu", kGeu}, {"num", kNum}, {"nan", kNan},
};

enum Combination : uint8_t { kPlain, kAnd, kOr, kXor };

template <typename T>
struct Raw {
  using Storage = T;
  static T Value(T x, bool) { return x; }
};
template <typename Format>
struct Narrow {
  using Storage = uint16_t;
  static float Value(uint16_t x, bool) { return Decode16<Format>(x); }
};
struct Single {
  using Storage = float;
  static float Value(float x, bool flush) {
    return flush ? FlushSubnormal(x) : x;
  }
};

template <Comparison kComparison, typename T>
bool Holds(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool unordered = std::isnan(a) || std::isnan(b);
    switch (kComparison) {
      case kEq:
        return !unordered && a == b;
      case kNe:
        return !unordered && a != b;
      case kLt:
        return a < b;
      case kLe:
        return a <= b;
      case kGt:
        return a > b;
      case kGe:
        return a >= b;
      case kEqu:
        return unordered || a == b;
      case kNeu:
        return unordered || a != b;
      case kLtu:
        return unordered || a < b;
      case kLeu:
        return unordered || a <= b;
      case kGtu:
        return unordered || a > b;
      case kGeu:
        return unordered || a >= b;
      case kNum:
        return !unordered;
      case kNan:
        return unordered;
    }
  } else {
    switch (kComparison) {
      case kEq:
        return a == b;
      case kNe:
        return a != b;
      case kLt:
        return a < b;
      case kLe:
        return a <= b;
      case kGt:
        return a > b;
      case kGe:
        return a >= b;
      default:
        return false;
    }
  }
  return false;
}

// mode: comparison | combination << 4.
template <typename V, Comparison kComparison>
uint32_t Compare(const Instruction& inst, const typename V::Storage* a,
                 const typename V::Storage* b) {
  const bool flush = inst.Has(Instruction::kFlushSubnormals);
  uint32_t out = 0;
  for (uint32_t i = 0; i < kWarpSize; ++i) {
    const bool holds =
        Holds<kComparison>(V::Value(a[i], flush), V::Value(b[i], flush));
    out |= static_cast<uint32_t>(holds) << i;
  }
  return out;
}

template <typename V>
uint32_t CompareAny(const Instruction& inst, const typename V::Storage* a,
                    const typename V::Storage* b) {
  switch (inst.mode & 15) {
    case kEq:
      return Compare<V, kEq>(inst, a, b);
    case kNe:
      return Compare<V, kNe>(inst, a, b);
    case kLt:
      return Compare<V, kLt>(inst, a, b);
    case kLe:
      return Compare<V, kLe>(inst, a, b);
    case kGt:
      return Compare<V, kGt>(inst, a, b);
    case kGe:
      return Compare<V, kGe>(inst, a, b);
    case kEqu:
      return Compare<V, kEqu>(inst, a, b);
    case kNeu:
      return Compare<V, kNeu>(inst, a, b);
    case kLtu:
      return Compare<V, kLtu>(inst, a, b);
    case kLeu:
      return Compare<V, kLeu>(inst, a, b);
    case kGtu:
      return Compare<V, kGtu>(inst, a, b);
    case kGeu:
      return Compare<V, kGeu>(inst, a, b);
    case kNum:
      return Compare<V, kNum>(inst, a, b);
    default:
      return Compare<V, kNan>(inst, a, b);
  }
}

uint32_t Combine(const Instruction& inst, uint32_t value, uint32_t with) {
  switch (inst.mode >> 4) {
    case kAnd:
      return value & with;
    case kOr:
      return value | with;
    case kXor:
      return value ^ with;
    default:
      return value;
  }
}

// r: destination, its complement, a, b, predicate.
template <typename V>
void SetPredicates(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  using S = typename V::Storage;
  const uint32_t value =
      CompareAny<V>(inst, warp.Reg<S>(inst.r[2]), warp.Reg<S>(inst.r[3]));
  uint32_t with = 0;
  if (inst.mode >> 4 != kPlain) {
    with = *warp.Reg<uint32_t>(inst.r[4]);
    if (inst.Has(Instruction::kNegate)) with = ~with;
  }
  SetPredicate(warp, inst.r[0], mask, Combine(inst, value, with));
  SetPredicate(warp, inst.r[1], mask, Combine(inst, ~value, with));
}

// Packed pairs: one predicate per half.
template <typename Format>
void SetPredicatesPacked(Cta&, Warp& warp, const Instruction& inst,
                         uint32_t mask) {
  const uint32_t* a = warp.Reg<uint32_t>(inst.r[2]);
  const uint32_t* b = warp.Reg<uint32_t>(inst.r[3]);
  for (int half = 0; half < 2; ++half) {
    uint16_t x[kWarpSize], y[kWarpSize];
    for (uint32_t i = 0; i < kWarpSize; ++i) {
      x[i] = static_cast<uint16_t>(a[i] >> 16 * half);
      y[i] = static_cast<uint16_t>(b[i] >> 16 * half);
    }
    const uint32_t value = CompareAny<Narrow<Format>>(inst, x, y);
    uint32_t with = 0;
    if (inst.mode >> 4 != kPlain) {
      with = *warp.Reg<uint32_t>(inst.r[4]);
      if (inst.Has(Instruction::kNegate)) with = ~with;
    }
    SetPredicate(warp, inst.r[half], mask, Combine(inst, value, with));
  }
}

// bytes: 0 for an integer result (all ones), 1 for 1.0f.
template <typename V>
void SetRegister(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  using S = typename V::Storage;
  const uint32_t value =
      CompareAny<V>(inst, warp.Reg<S>(inst.r[1]), warp.Reg<S>(inst.r[2]));
  const uint32_t yes = inst.bytes == 1 ? 0x3f800000u : kAllLanes;
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  ForLanes(mask, [=](uint32_t i) { d[i] = (value >> i & 1) != 0 ? yes : 0; });
}

Comparison TakeComparison(InstructionDecoder& d) {
  for (const ComparisonName& c : kComparisons) {
    if (d.Take(c.name)) return c.comparison;
  }
  d.Fail("the comparison");
  return kEq;
}

Handler PredicateHandler(Type type) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return SetPredicates<Raw<uint16_t>>;
    case Type::kS16:
      return SetPredicates<Raw<int16_t>>;
    case Type::kB32:
    case Type::kU32:
      return SetPredicates<Raw<uint32_t>>;
    case Type::kS32:
      return SetPredicates<Raw<int32_t>>;
    case Type::kB64:
    case Type::kU64:
      return SetPredicates<Raw<uint64_t>>;
    case Type::kS64:
      return SetPredicates<Raw<int64_t>>;
    case Type::kF16:
      return SetPredicates<Narrow<Half>>;
    case Type::kBF16:
      return SetPredicates<Narrow<BFloat>>;
    case Type::kF16x2:
      return SetPredicatesPacked<Half>;
    case Type::kBF16x2:
      return SetPredicatesPacked<BFloat>;
    case Type::kF32:
      return SetPredicates<Single>;
    case Type::kF64:
      return SetPredicates<Raw<double>>;
    default:
      return nullptr;
  }
}

void DecodeSetp(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  uint8_t combination = kPlain;
  inst.mode = TakeComparison(d);
  if (d.Take("and")) combination = kAnd;
  if (d.Take("or")) combination = kOr;
  if (d.Take("xor")) combination = kXor;
  inst.mode |= combination << 4;
  if (d.Take("ftz")) inst.flags |= Instruction::kFlushSubnormals;
  const Type type = d.TakeType();
  d.ExpectDone();
  const Operand& to = d.operand(0);
  if (to.kind == Operand::Kind::kPair) {
    d.Destination(to.elements[0], 1);
    d.Destination(to.elements[1], 1);
  } else {
    d.Destination(to, 1);
    d.Append(d.Scratch(1));
  }
  d.Source(d.operand(1), BytesOf(type));
  d.Source(d.operand(2), BytesOf(type));
  if (combination != kPlain) d.PredicateSource(d.operand(3));
  d.Run(PredicateHandler(type));
}

void DecodeSet(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  inst.mode = TakeComparison(d);
  if (d.Take("ftz")) inst.flags |= Instruction::kFlushSubnormals;
  const Type to = d.TakeType();
  const Type from = d.TakeType();
  d.ExpectDone();
  inst.bytes = to == Type::kF32 ? 1 : 0;
  if (BytesOf(to) != 4 || to == Type::kF16x2 || to == Type::kBF16x2) {
    d.Fail("the result type");
  }
  d.Destination(d.operand(0), 4);
  d.Source(d.operand(1), BytesOf(from));
  d.Source(d.operand(2), BytesOf(from));
  switch (from) {
    case Type::kU32:
    case Type::kB32:
      return d.Run(SetRegister<Raw<uint32_t>>);
    case Type::kS32:
      return d.Run(SetRegister<Raw<int32_t>>);
    case Type::kU64:
      return d.Run(SetRegister<Raw<uint64_t>>);
    case Type::kS64:
      return d.Run(SetRegister<Raw<int64_t>>);
    case Type::kF16:
      return d.Run(SetRegister<Narrow<Half>>);
    case Type::kBF16:
      return d.Run(SetRegister<Narrow<BFloat>>);
    case Type::kF32:
      return d.Run(SetRegister<Single>);
    case Type::kF64:
      return d.Run(SetRegister<Raw<double>>);
    default:
      return d.Fail("the type");
  }
}

constexpr auto kSlct = [](uint32_t a, uint32_t b, int32_t c) {
  return c >= 0 ? a : b;
};

}  // namespace

bool DecodeCompare(InstructionDecoder& d) {
  if (d.name() == "setp") {
    DecodeSetp(d);
  } else if (d.name() == "set") {
    DecodeSet(d);
  } else if (d.name() == "slct") {
    const Type type = d.TakeType();
    if (BytesOf(type) != 4 || d.TakeType() != Type::kS32) d.Fail("the type");
    d.ExpectDone();
    d.Destination(d.operand(0), 4);
    for (size_t i = 1; i < 4; ++i) d.Source(d.operand(i), 4);
    d.Run(Map<kSlct, uint32_t, uint32_t, uint32_t, int32_t>);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
