// Integer, logic, shift and bit-field instructions.
#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <type_traits>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
inline constexpr int kBits = std::numeric_limits<Unsigned<T>>::digits;

// Twice as wide, of the same signedness.
template <typename T>
struct WideType;
template <>
struct WideType<uint16_t> {
  using Type = uint32_t;
};
template <>
struct WideType<int16_t> {
  using Type = int32_t;
};
template <>
struct WideType<uint32_t> {
  using Type = uint64_t;
};
template <>
struct WideType<int32_t> {
  using Type = int64_t;
};
template <>
struct WideType<uint64_t> {
  using Type = unsigned __int128;
};
template <>
struct WideType<int64_t> {
  using Type = __int128;
};
template <typename T>
using Wide = typename WideType<T>::Type;

template <typename T>
struct Ops {
  using U = Unsigned<T>;
  // Through 64 bits, so that 16-bit operands do not overflow as int.
  static constexpr auto kAdd = [](T a, T b) {
    return static_cast<T>(uint64_t(a) + uint64_t(b));
  };
  static constexpr auto kSub = [](T a, T b) {
    return static_cast<T>(uint64_t(a) - uint64_t(b));
  };
  static constexpr auto kMulLo = [](T a, T b) {
    return static_cast<T>(uint64_t(a) * uint64_t(b));
  };
  static constexpr auto kMulHi = [](T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b) >>
                          kBits<T>);
  };
  static constexpr auto kMadLo = [](T a, T b, T c) {
    return static_cast<T>(uint64_t(a) * uint64_t(b) + uint64_t(c));
  };
  static constexpr auto kMadHi = [](T a, T b, T c) {
    return kAdd(kMulHi(a, b), c);
  };
  // Hardware does not trap: a quotient by zero is all ones, its remainder the
  // dividend.
  static constexpr auto kDiv = [](T a, T b) -> T {
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return kSub(0, a);
    return static_cast<T>(a / b);
  };
  static constexpr auto kRem = [](T a, T b) -> T {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  };
  static constexpr auto kMin = [](T a, T b) { return std::min(a, b); };
  static constexpr auto kMax = [](T a, T b) { return std::max(a, b); };
  static constexpr auto kAbs = [](T a) { return a < 0 ? kSub(0, a) : a; };
  static constexpr auto kNeg = [](T a) { return kSub(0, a); };
  static constexpr auto kAddSat = [](T a, T b) {
    const int64_t sum = static_cast<int64_t>(a) + static_cast<int64_t>(b);
    return static_cast<T>(std::clamp<int64_t>(
        sum, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  };
  static constexpr auto kSubSat = [](T a, T b) {
    const int64_t sum = static_cast<int64_t>(a) - static_cast<int64_t>(b);
    return static_cast<T>(std::clamp<int64_t>(
        sum, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  };
  static constexpr auto kAnd = [](T a, T b) { return static_cast<T>(a & b); };
  static constexpr auto kOr = [](T a, T b) { return static_cast<T>(a | b); };
  static constexpr auto kXor = [](T a, T b) { return static_cast<T>(a ^ b); };
  static constexpr auto kNot = [](T a) { return static_cast<T>(~a); };
  static constexpr auto kCnot = [](T a) { return static_cast<T>(a == 0); };
  static constexpr auto kShl = [](T a, uint32_t n) {
    return n >= uint32_t{kBits<T>} ? T{0}
                                   : static_cast<T>(static_cast<U>(a) << n);
  };
  static constexpr auto kShr = [](T a, uint32_t n) {
    const uint32_t last = kBits<T> - 1;
    if (n > last) return std::is_signed_v<T> ? static_cast<T>(a >> last) : T{0};
    return static_cast<T>(a >> n);
  };
  static constexpr auto kPopc = [](T a) -> uint32_t {
    return std::popcount(static_cast<U>(a));
  };
  static constexpr auto kClz = [](T a) -> uint32_t {
    return std::countl_zero(static_cast<U>(a));
  };
  static constexpr auto kBrev = [](T a) {
    U in = static_cast<U>(a), out = 0;
    for (int i = 0; i < kBits<T>; ++i, in >>= 1) {
      out = static_cast<U>(out << 1 | (in & 1));
    }
    return static_cast<T>(out);
  };
  static constexpr auto kBfe = [](T a, uint32_t pos, uint32_t len) {
    pos &= 0xff;
    len &= 0xff;
    const uint32_t last = kBits<T> - 1;
    U sign = 0;
    if (std::is_signed_v<T> && len != 0) {
      sign = static_cast<U>(a) >> std::min(pos + len - 1, last) & 1;
    }
    U out = pos > last ? 0 : static_cast<U>(static_cast<U>(a) >> pos);
    // Bits past the field, or past the source, repeat the sign.
    const uint32_t have =
        std::min<uint32_t>(len, pos > last ? 0 : last + 1 - pos);
    if (have <= last) {
      const U low = (U{1} << have) - 1;
      out = (out & low) | (sign != 0 ? ~low : U{0});
    }
    return static_cast<T>(out);
  };
  static constexpr auto kBfind = [](T a) -> uint32_t {
    U v = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    return v == 0 ? kNone : kBits<T> - 1 - std::countl_zero(v);
  };
};

template <typename T>
constexpr auto kMulWide = [](T a, T b) {
  return static_cast<Wide<T>>(static_cast<Wide<T>>(a) *
                              static_cast<Wide<T>>(b));
};
template <typename T>
constexpr auto kMadWide = [](T a, T b, Wide<T> c) {
  return static_cast<Wide<T>>(uint64_t(kMulWide<T>(a, b)) + uint64_t(c));
};

template <typename T>
constexpr auto kBfi = [](T a, T b, uint32_t pos, uint32_t len) {
  pos &= 0xff;
  len &= 0xff;
  constexpr uint32_t kWidth = kBits<T>;
  if (pos >= kWidth || len == 0) return b;
  const T low = len >= kWidth ? ~T{0} : (T{1} << len) - 1;
  const T field = static_cast<T>(low << pos);
  return static_cast<T>((b & ~field) | (static_cast<T>(a << pos) & field));
};
template <typename T>
void InsertBits(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  T* d = warp.Reg<T>(inst.r[0]);
  const T* a = warp.Reg<T>(inst.r[1]);
  const T* b = warp.Reg<T>(inst.r[2]);
  const uint32_t* pos = warp.Reg<uint32_t>(inst.r[3]);
  const uint32_t* len = warp.Reg<uint32_t>(inst.r[4]);
  ForLanes(mask,
           [=](uint32_t i) { d[i] = kBfi<T>(a[i], b[i], pos[i], len[i]); });
}

// Pairs of 16 bits, each half by itself.
template <typename T, auto F>
constexpr auto kInHalves = [](uint32_t a, uint32_t b) {
  const auto half = [](uint32_t x, uint32_t y) -> uint32_t {
    return static_cast<uint16_t>(F(static_cast<T>(x), static_cast<T>(y)));
  };
  return half(a >> 16, b >> 16) << 16 | half(a, b);
};
template <auto F>
constexpr auto kThenRelu = [](auto a, auto b) {
  const auto x = F(a, b);
  return x < 0 ? decltype(x){0} : x;
};

constexpr auto kPrmt = [](uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t s = selector >> 4 * i;
    uint32_t byte = bytes >> 8 * (s & 7) & 0xff;
    if (s & 8) byte = (byte & 0x80) != 0 ? 0xff : 0;
    out |= byte << 8 * i;
  }
  return out;
};

// The named modes: the low two bits of the selector rule.
constexpr auto kPrmtMode = [](const Instruction& inst, uint32_t a, uint32_t b,
                              uint32_t selector) {
  // For each mode and selector, what the plain instruction would be given.
  static constexpr uint16_t kSelectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e: four bytes, upwards
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e: downwards
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8: one byte
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl: clamped on the left
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr: on the right
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16: one half
  };
  return kPrmt(a, b, kSelectors[inst.mode][selector & 3]);
};

constexpr auto kShfLeft = [](uint32_t a, uint32_t b, uint32_t n) {
  n &= 31;
  return static_cast<uint32_t>((uint64_t{b} << 32 | a) << n >> 32);
};
constexpr auto kShfRight = [](uint32_t a, uint32_t b, uint32_t n) {
  n &= 31;
  return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> n);
};
constexpr auto kShfLeftClamp = [](uint32_t a, uint32_t b, uint32_t n) {
  return n >= 32 ? a : kShfLeft(a, b, n);
};
constexpr auto kShfRightClamp = [](uint32_t a, uint32_t b, uint32_t n) {
  return n >= 32 ? b : kShfRight(a, b, n);
};

void Lop3(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  const uint32_t* a = warp.Reg<uint32_t>(inst.r[1]);
  const uint32_t* b = warp.Reg<uint32_t>(inst.r[2]);
  const uint32_t* c = warp.Reg<uint32_t>(inst.r[3]);
  // The table as one mask per minterm: branch-free in the loop.
  uint32_t t[8];
  for (int i = 0; i < 8; ++i) t[i] = (inst.mode >> i & 1) != 0 ? ~0u : 0u;
  ForLanes(mask, [=](uint32_t i) {
    const uint32_t x = a[i], y = b[i], z = c[i];
    d[i] = (t[0] & ~x & ~y & ~z) | (t[1] & ~x & ~y & z) | (t[2] & ~x & y & ~z) |
           (t[3] & ~x & y & z) | (t[4] & x & ~y & ~z) | (t[5] & x & ~y & z) |
           (t[6] & x & y & ~z) | (t[7] & x & y & z);
  });
}

template <bool kSignedA, bool kSignedB>
constexpr auto kDp4a = [](uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; ++i) {
    const uint32_t x = a >> 8 * i & 0xff, y = b >> 8 * i & 0xff;
    const int32_t sx = kSignedA ? static_cast<int8_t>(x) : static_cast<int>(x);
    const int32_t sy = kSignedB ? static_cast<int8_t>(y) : static_cast<int>(y);
    c += static_cast<uint32_t>(sx * sy);
  }
  return c;
};

// dp2a: the halves of a with the lower or the upper two bytes of b.
template <bool kSignedA, bool kSignedB, bool kHigh>
constexpr auto kDp2a = [](uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 2; ++i) {
    const uint32_t x = a >> 16 * i & 0xffff;
    const uint32_t y = b >> 8 * (i + (kHigh ? 2 : 0)) & 0xff;
    const int64_t sx =
        kSignedA ? static_cast<int16_t>(x) : static_cast<int64_t>(x);
    const int64_t sy =
        kSignedB ? static_cast<int8_t>(y) : static_cast<int64_t>(y);
    c += static_cast<uint32_t>(sx * sy);
  }
  return c;
};

// vabsdiff4: per byte, or with c the sum of all four.
template <bool kSignedA, bool kSignedB, bool kSum>
constexpr auto kAbsDiff4 = [](uint32_t a, uint32_t b, uint32_t c) {
  uint32_t out = kSum ? c : 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t x = a >> 8 * i & 0xff, y = b >> 8 * i & 0xff;
    const int sx = kSignedA ? static_cast<int8_t>(x) : static_cast<int>(x);
    const int sy = kSignedB ? static_cast<int8_t>(y) : static_cast<int>(y);
    const uint32_t difference =
        static_cast<uint32_t>(sx > sy ? sx - sy : sy - sx);
    out += kSum ? difference : (difference & 0xff) << 8 * i;
  }
  return out;
};

template <typename T>
constexpr auto kSad = [](T a, T b, T c) {
  return Ops<T>::kAdd(c, a < b ? Ops<T>::kSub(b, a) : Ops<T>::kSub(a, b));
};

// Calls f with a value of the C++ type of 16, 32 or 64 bits.
template <typename F>
Handler ByType(Type type, F f) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return f(uint16_t{});
    case Type::kS16:
      return f(int16_t{});
    case Type::kB32:
    case Type::kU32:
      return f(uint32_t{});
    case Type::kS32:
      return f(int32_t{});
    case Type::kB64:
    case Type::kU64:
      return f(uint64_t{});
    case Type::kS64:
      return f(int64_t{});
    default:
      return nullptr;
  }
}

void Operands(InstructionDecoder& d, std::initializer_list<uint32_t> bytes) {
  if (d.operand_count() != bytes.size()) d.Fail("the number of operands");
  size_t i = 0;
  for (uint32_t b : bytes) {
    if (i == 0) {
      d.Destination(d.operand(0), b);
    } else {
      d.Source(d.operand(i), b);
    }
    ++i;
  }
}

Handler PackedOrRelu(absl::string_view name, Type type, bool relu) {
  using U = uint32_t;
  using S16 = Ops<int16_t>;
  using U16 = Ops<uint16_t>;
  if (type == Type::kS32 && relu) {
    using S32 = Ops<int32_t>;
    if (name == "min") return Map<kThenRelu<S32::kMin>, int, int, int>;
    if (name == "max") return Map<kThenRelu<S32::kMax>, int, int, int>;
  }
  if (type == Type::kS16x2) {
    if (name == "min") {
      return relu ? Map<kInHalves<int16_t, kThenRelu<S16::kMin>>, U, U, U>
                  : Map<kInHalves<int16_t, S16::kMin>, U, U, U>;
    }
    if (name == "max") {
      return relu ? Map<kInHalves<int16_t, kThenRelu<S16::kMax>>, U, U, U>
                  : Map<kInHalves<int16_t, S16::kMax>, U, U, U>;
    }
  }
  if (relu) return nullptr;
  if (name == "add") return Map<kInHalves<uint16_t, U16::kAdd>, U, U, U>;
  if (type == Type::kU16x2) {
    if (name == "min") return Map<kInHalves<uint16_t, U16::kMin>, U, U, U>;
    if (name == "max") return Map<kInHalves<uint16_t, U16::kMax>, U, U, U>;
  }
  return nullptr;
}

void Binary(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  const bool sat = d.Take("sat");
  bool relu = d.Take("relu");
  const Type type = d.TakeType();
  relu |= d.Take("relu");
  d.ExpectDone();
  if (type == Type::kU16x2 || type == Type::kS16x2 || relu) {
    if (sat) d.Fail(".sat");
    Operands(d, {4, 4, 4});
    d.Run(PackedOrRelu(name, type, relu));
    return;
  }
  const uint32_t bytes = BytesOf(type);
  Operands(d, {bytes, bytes, bytes});
  if (sat && type != Type::kS32) d.Fail(".sat");
  d.Run(ByType(type, [&](auto t) -> Handler {
    using T = decltype(t);
    if (name == "add") {
      return sat ? Map<Ops<T>::kAddSat, T, T, T> : Map<Ops<T>::kAdd, T, T, T>;
    }
    if (name == "sub") {
      return sat ? Map<Ops<T>::kSubSat, T, T, T> : Map<Ops<T>::kSub, T, T, T>;
    }
    if (name == "div") return Map<Ops<T>::kDiv, T, T, T>;
    if (name == "rem") return Map<Ops<T>::kRem, T, T, T>;
    if (name == "min") return Map<Ops<T>::kMin, T, T, T>;
    if (name == "max") return Map<Ops<T>::kMax, T, T, T>;
    if (name == "and") return Map<Ops<T>::kAnd, T, T, T>;
    if (name == "or") return Map<Ops<T>::kOr, T, T, T>;
    if (name == "xor") return Map<Ops<T>::kXor, T, T, T>;
    return nullptr;
  }));
}

void Unary(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  const Type type = d.TakeType();
  d.ExpectDone();
  const uint32_t bytes = BytesOf(type);
  Operands(d, {bytes, bytes});
  d.Run(ByType(type, [&](auto t) -> Handler {
    using T = decltype(t);
    if (name == "abs") return Map<Ops<T>::kAbs, T, T>;
    if (name == "neg") return Map<Ops<T>::kNeg, T, T>;
    if (name == "not") return Map<Ops<T>::kNot, T, T>;
    if (name == "cnot") return Map<Ops<T>::kCnot, T, T>;
    if (name == "brev") return Map<Ops<T>::kBrev, T, T>;
    return nullptr;
  }));
}

void Count(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  const Type type = d.TakeType();
  d.ExpectDone();
  Operands(d, {4, BytesOf(type)});
  d.Run(ByType(type, [&](auto t) -> Handler {
    using T = decltype(t);
    if (name == "popc") return Map<Ops<T>::kPopc, uint32_t, T>;
    if (name == "clz") return Map<Ops<T>::kClz, uint32_t, T>;
    return Map<Ops<T>::kBfind, uint32_t, T>;
  }));
}

void Multiply(InstructionDecoder& d) {
  const bool add = d.name() == "mad";
  const bool hi = d.Take("hi");
  const bool wide = !hi && d.Take("wide");
  if (!hi && !wide && !d.Take("lo")) d.Fail("the multiplication");
  const Type type = d.TakeType();
  d.ExpectDone();
  const uint32_t in = BytesOf(type);
  const uint32_t out = wide ? 2 * in : in;
  if (add) {
    Operands(d, {out, in, in, out});
  } else {
    Operands(d, {out, in, in});
  }
  d.Run(ByType(type, [&](auto t) -> Handler {
    using T = decltype(t);
    if constexpr (sizeof(T) <= 4) {
      using W = Wide<T>;
      if (wide && add) return Map<kMadWide<T>, W, T, T, W>;
      if (wide) return Map<kMulWide<T>, W, T, T>;
    }
    if (wide) return nullptr;
    if (add) {
      return hi ? Map<Ops<T>::kMadHi, T, T, T, T>
                : Map<Ops<T>::kMadLo, T, T, T, T>;
    }
    return hi ? Map<Ops<T>::kMulHi, T, T, T> : Map<Ops<T>::kMulLo, T, T, T>;
  }));
}

void Shift(InstructionDecoder& d) {
  const bool left = d.name() == "shl";
  const Type type = d.TakeType();
  d.ExpectDone();
  Operands(d, {BytesOf(type), BytesOf(type), 4});
  d.Run(ByType(type, [&](auto t) -> Handler {
    using T = decltype(t);
    return left ? Map<Ops<T>::kShl, T, T, uint32_t>
                : Map<Ops<T>::kShr, T, T, uint32_t>;
  }));
}

void FunnelShift(InstructionDecoder& d) {
  const bool left = d.Take("l");
  if (!left && !d.Take("r")) d.Fail("the direction");
  const bool clamp = d.Take("clamp");
  if (!clamp && !d.Take("wrap")) d.Fail("the mode");
  if (d.TakeType() != Type::kB32) d.Fail("the type");
  d.ExpectDone();
  Operands(d, {4, 4, 4, 4});
  using U = uint32_t;
  if (left) {
    d.Run(clamp ? Map<kShfLeftClamp, U, U, U, U> : Map<kShfLeft, U, U, U, U>);
  } else {
    d.Run(clamp ? Map<kShfRightClamp, U, U, U, U> : Map<kShfRight, U, U, U, U>);
  }
}

void BitField(InstructionDecoder& d) {
  const bool extract = d.name() == "bfe";
  const Type type = d.TakeType();
  d.ExpectDone();
  const uint32_t bytes = BytesOf(type);
  if (extract) {
    Operands(d, {bytes, bytes, 4, 4});
    d.Run(ByType(type, [](auto t) -> Handler {
      using T = decltype(t);
      if constexpr (sizeof(T) < 4) {
        return nullptr;
      } else {
        return Map<Ops<T>::kBfe, T, T, uint32_t, uint32_t>;
      }
    }));
    return;
  }
  Operands(d, {bytes, bytes, bytes, 4, 4});
  d.Run(bytes == 4   ? InsertBits<uint32_t>
        : bytes == 8 ? InsertBits<uint64_t>
                     : Handler{nullptr});
}

void DecodeLop3(InstructionDecoder& d) {
  if (d.TakeType() != Type::kB32) d.Fail("the type");
  d.ExpectDone();
  for (size_t i = 0; i < 4; ++i) {
    if (i == 0) {
      d.Destination(d.operand(0), 4);
    } else {
      d.Source(d.operand(i), 4);
    }
  }
  d.inst().mode = static_cast<uint8_t>(d.Constant(d.operand(4)));
  d.Run(Lop3);
}

void DecodeDp4a(InstructionDecoder& d) {
  const Type a = d.TakeType();
  const Type b = d.TakeType();
  d.ExpectDone();
  if (BytesOf(a) != 4 || BytesOf(b) != 4) d.Fail("the type");
  Operands(d, {4, 4, 4, 4});
  using U = uint32_t;
  if (IsSigned(a)) {
    d.Run(IsSigned(b) ? Map<kDp4a<true, true>, U, U, U, U>
                      : Map<kDp4a<true, false>, U, U, U, U>);
  } else {
    d.Run(IsSigned(b) ? Map<kDp4a<false, true>, U, U, U, U>
                      : Map<kDp4a<false, false>, U, U, U, U>);
  }
}

// Calls f with two constants: whether a and b are signed.
template <typename F>
Handler BySigns(Type a, Type b, F f) {
  using Yes = std::true_type;
  using No = std::false_type;
  if (IsSigned(a)) return IsSigned(b) ? f(Yes{}, Yes{}) : f(Yes{}, No{});
  return IsSigned(b) ? f(No{}, Yes{}) : f(No{}, No{});
}

void DecodeDp2a(InstructionDecoder& d) {
  const bool high = d.Take("hi");
  if (!high && !d.Take("lo")) d.Fail("the half");
  const Type a = d.TakeType();
  const Type b = d.TakeType();
  d.ExpectDone();
  if (BytesOf(a) != 4 || BytesOf(b) != 4) d.Fail("the type");
  Operands(d, {4, 4, 4, 4});
  d.Run(BySigns(a, b, [&](auto sa, auto sb) -> Handler {
    using U = uint32_t;
    constexpr bool kA = decltype(sa)::value, kB = decltype(sb)::value;
    return high ? Map<kDp2a<kA, kB, true>, U, U, U, U>
                : Map<kDp2a<kA, kB, false>, U, U, U, U>;
  }));
}

// The one SIMD video instruction that NVRTC still emits.
void DecodeAbsDiff4(InstructionDecoder& d) {
  const Type to = d.TakeType();
  const Type a = d.TakeType();
  const Type b = d.TakeType();
  const bool sum = d.Take("add");
  d.ExpectDone();
  if (to != Type::kU32 && to != Type::kS32) d.Fail("the type");
  Operands(d, {4, 4, 4, 4});
  d.Run(BySigns(a, b, [&](auto sa, auto sb) -> Handler {
    using U = uint32_t;
    constexpr bool kA = decltype(sa)::value, kB = decltype(sb)::value;
    return sum ? Map<kAbsDiff4<kA, kB, true>, U, U, U, U>
               : Map<kAbsDiff4<kA, kB, false>, U, U, U, U>;
  }));
}

void DecodeSad(InstructionDecoder& d) {
  const Type type = d.TakeType();
  d.ExpectDone();
  const uint32_t bytes = BytesOf(type);
  Operands(d, {bytes, bytes, bytes, bytes});
  d.Run(ByType(type, [](auto t) -> Handler {
    using T = decltype(t);
    return Map<kSad<T>, T, T, T, T>;
  }));
}

void DecodePrmt(InstructionDecoder& d) {
  if (d.TakeType() != Type::kB32) d.Fail("the type");
  static constexpr const char* kModes[] = {"f4e", "b4e", "rc8",
                                           "ecl", "ecr", "rc16"};
  const bool plain = d.Done();
  bool known = plain;
  for (uint8_t i = 0; i < std::size(kModes) && !known; ++i) {
    known = d.Take(kModes[i]);
    d.inst().mode = i;
  }
  d.ExpectDone();
  Operands(d, {4, 4, 4, 4});
  using U = uint32_t;
  d.Run(plain ? Map<kPrmt, U, U, U, U> : MapWithMode<kPrmtMode, U, U, U, U>);
}

}  // namespace

bool DecodeInteger(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  // Names shared with floating point are told apart by their type, which
  // comes last.
  const bool is_float = IsFloat(d.LastType());
  if (name == "add" || name == "sub" || name == "div" || name == "min" ||
      name == "max") {
    if (is_float) return false;
    Binary(d);
  } else if (name == "abs" || name == "neg") {
    if (is_float) return false;
    Unary(d);
  } else if (name == "mul" || name == "mad") {
    if (is_float) return false;
    Multiply(d);
  } else if (name == "rem" || name == "and" || name == "or" || name == "xor") {
    Binary(d);
  } else if (name == "not" || name == "cnot" || name == "brev") {
    Unary(d);
  } else if (name == "popc" || name == "clz" || name == "bfind") {
    Count(d);
  } else if (name == "shl" || name == "shr") {
    Shift(d);
  } else if (name == "shf") {
    FunnelShift(d);
  } else if (name == "bfe" || name == "bfi") {
    BitField(d);
  } else if (name == "lop3") {
    DecodeLop3(d);
  } else if (name == "dp4a") {
    DecodeDp4a(d);
  } else if (name == "dp2a") {
    DecodeDp2a(d);
  } else if (name == "vabsdiff4") {
    DecodeAbsDiff4(d);
  } else if (name == "sad") {
    DecodeSad(d);
  } else if (name == "prmt") {
    DecodePrmt(d);
  } else {
    return false;
  }
  return true;
}

}  // namespace hone::emulator
