// cvt: between integers, between floats, and across; cvt.pack.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"
#include "kernels/emulator/narrow_float.h"

namespace hone::emulator {
namespace {

// Instruction::mode of a conversion.
constexpr uint8_t kRoundingMask = 3;
constexpr uint8_t kToIntegral = 4;  // .rni, .rzi, .rmi, .rpi
constexpr uint8_t kRelu = 8;
constexpr uint8_t kSaturateFinite = 16;

template <typename Format>
struct Bits16 {};

// How a type lies in a register of register_bytes.
template <typename T>
struct Codec {
  using Value = T;
  static T Load(const std::byte* p) {
    T x;
    std::memcpy(&x, p, sizeof(T));
    return x;
  }
  static void Store(std::byte* p, T x, uint32_t register_bytes) {
    if constexpr (std::is_integral_v<T>) {
      // Extended to the register by its own sign.
      const uint64_t wide = std::is_signed_v<T>
                                ? static_cast<uint64_t>(static_cast<int64_t>(x))
                                : static_cast<uint64_t>(x);
      std::memcpy(p, &wide, register_bytes);
    } else {
      std::memcpy(p, &x, sizeof(T));
    }
  }
};
template <typename Format>
struct Codec<Bits16<Format>> {
  using Value = double;
  static double Load(const std::byte* p) {
    uint16_t x;
    std::memcpy(&x, p, 2);
    return Decode16<Format>(x);
  }
};

template <typename T>
T ToInteger(double x, Rounding rounding, bool any_64_bits) {
  // NaN becomes 0, or, if either type has 64 bits, the sign bit alone.
  if (std::isnan(x)) {
    return any_64_bits ? static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1))
                       : T{0};
  }
  const double r = RoundToIntegral(x, rounding);
  constexpr T kMin = std::numeric_limits<T>::min();
  constexpr T kMax = std::numeric_limits<T>::max();
  if (r <= static_cast<double>(kMin)) return kMin;
  if (r >= static_cast<double>(kMax)) return kMax;
  return static_cast<T>(r);
}

template <typename To, typename From>
void IntegerToInteger(Cta&, Warp& warp, const Instruction& inst,
                      uint32_t mask) {
  std::byte* d = warp.frame + inst.r[0];
  const std::byte* a = warp.frame + inst.r[1];
  const uint32_t to = inst.register_bytes, from = inst.bytes;
  const bool saturate = inst.Has(Instruction::kSaturate);
  ForLanes(mask, [=](uint32_t i) {
    const From x = Codec<From>::Load(a + i * from);
    To y = static_cast<To>(x);
    if (saturate) {
      __int128 wide = x;
      wide = std::clamp<__int128>(wide, std::numeric_limits<To>::min(),
                                  std::numeric_limits<To>::max());
      y = static_cast<To>(wide);
    }
    Codec<To>::Store(d + i * to, y, to);
  });
}

template <typename To, typename From>
void FloatToInteger(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  std::byte* d = warp.frame + inst.r[0];
  const std::byte* a = warp.frame + inst.r[1];
  const uint32_t to = inst.register_bytes, from = inst.bytes;
  const auto rounding = static_cast<Rounding>(inst.mode & kRoundingMask);
  const bool flush =
      std::is_same_v<From, float> && inst.Has(Instruction::kFlushSubnormals);
  ForLanes(mask, [=](uint32_t i) {
    double x = Codec<From>::Load(a + i * from);
    if (flush) x = FlushSubnormal(static_cast<float>(x));
    Codec<To>::Store(
        d + i * to,
        ToInteger<To>(x, rounding,
                      sizeof(To) == 8 || std::is_same_v<From, double>),
        to);
  });
}

template <typename To>
double ClampToFinite(double x) {
  if constexpr (std::is_same_v<To, Bits16<Half>>) {
    return std::isnan(x) ? x : std::clamp(x, -65504.0, 65504.0);
  } else if constexpr (std::is_same_v<To, Bits16<BFloat>>) {
    constexpr double kMax = 0x1.fep127;
    return std::isnan(x) ? x : std::clamp(x, -kMax, kMax);
  } else {
    return x;
  }
}

// Stores a double as To; x is exact or rounds as the exact value would.
template <typename To>
void StoreFloat(std::byte* d, double x, const Instruction& inst) {
  const auto rounding = static_cast<Rounding>(inst.mode & kRoundingMask);
  if ((inst.mode & kRelu) != 0 && x <= 0) x = 0;
  if ((inst.mode & kSaturateFinite) != 0) x = ClampToFinite<To>(x);
  if (inst.Has(Instruction::kSaturate)) {
    x = std::isnan(x) ? 0.0 : std::clamp(x, 0.0, 1.0);
  }
  if constexpr (std::is_same_v<To, double>) {
    std::memcpy(d, &x, 8);
  } else if constexpr (std::is_same_v<To, float>) {
    float f = RoundToFloat(x, rounding);
    if (inst.Has(Instruction::kFlushSubnormals)) f = FlushSubnormal(f);
    std::memcpy(d, &f, 4);
  } else if constexpr (std::is_same_v<To, Bits16<Half>>) {
    const uint16_t h = Encode16<Half>(x, rounding);
    std::memcpy(d, &h, 2);
  } else {
    const uint16_t h = Encode16<BFloat>(x, rounding);
    std::memcpy(d, &h, 2);
  }
}

template <typename To, typename From>
void ToFloat(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  std::byte* d = warp.frame + inst.r[0];
  const std::byte* a = warp.frame + inst.r[1];
  const uint32_t to = inst.register_bytes, from = inst.bytes;
  ForLanes(mask, [=, &inst](uint32_t i) {
    double x;
    if constexpr (std::is_same_v<From, int64_t> ||
                  std::is_same_v<From, uint64_t>) {
      // 64 bits do not fit a double: split, and add with one rounding.
      const From v = Codec<From>::Load(a + i * from);
      const double high = static_cast<double>(v >> 32) * 0x1p32;
      const double low = static_cast<double>(static_cast<uint32_t>(v));
      x = std::is_same_v<To, double> ? high + low : AddToOdd(high, low);
    } else {
      x = static_cast<double>(Codec<From>::Load(a + i * from));
    }
    if constexpr (std::is_same_v<From, float>) {
      if (inst.Has(Instruction::kFlushSubnormals)) {
        x = FlushSubnormal(static_cast<float>(x));
      }
    }
    if ((inst.mode & kToIntegral) != 0) {
      x = RoundToIntegral(x, static_cast<Rounding>(inst.mode & kRoundingMask));
    }
    StoreFloat<To>(d + i * to, x, inst);
  });
}

// Two f32 to a packed pair: the first source is the high half.
template <typename Format>
void PackPair(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  const float* a = warp.Reg<float>(inst.r[1]);
  const float* b = warp.Reg<float>(inst.r[2]);
  ForLanes(mask, [=, &inst](uint32_t i) {
    uint16_t high, low;
    StoreFloat<Bits16<Format>>(reinterpret_cast<std::byte*>(&high), a[i], inst);
    StoreFloat<Bits16<Format>>(reinterpret_cast<std::byte*>(&low), b[i], inst);
    d[i] = uint32_t{high} << 16 | low;
  });
}

// Also -0 becomes +0, as an H200 does (vectors/sm_90a.jsonl).
double Relu(const Instruction& inst, double x) {
  return (inst.mode & kRelu) != 0 && x <= 0 ? 0 : x;
}

// The packed pairs of at most 8 bits: the first source, or the upper half of
// a packed one, is the upper part. e2m1x2 takes 4 bits each.
template <typename F>
constexpr int kNarrowBits = F::kExponent + F::kMantissa + 1 <= 4 ? 4 : 8;

template <typename F>
void NarrowFromSingles(Cta&, Warp& warp, const Instruction& inst,
                       uint32_t mask) {
  uint16_t* d = warp.Reg<uint16_t>(inst.r[0]);
  const float* a = warp.Reg<float>(inst.r[1]);
  const float* b = warp.Reg<float>(inst.r[2]);
  ForLanes(mask, [=, &inst](uint32_t i) {
    d[i] = static_cast<uint16_t>(EncodeNarrow<F>(Relu(inst, a[i]))
                                     << kNarrowBits<F> |
                                 EncodeNarrow<F>(Relu(inst, b[i])));
  });
}
template <typename F>
void NarrowFromHalves(Cta&, Warp& warp, const Instruction& inst,
                      uint32_t mask) {
  uint16_t* d = warp.Reg<uint16_t>(inst.r[0]);
  const uint32_t* a = warp.Reg<uint32_t>(inst.r[1]);
  ForLanes(mask, [=, &inst](uint32_t i) {
    const double high = Decode16<Half>(static_cast<uint16_t>(a[i] >> 16));
    const double low = Decode16<Half>(static_cast<uint16_t>(a[i]));
    d[i] = static_cast<uint16_t>(EncodeNarrow<F>(Relu(inst, high))
                                     << kNarrowBits<F> |
                                 EncodeNarrow<F>(Relu(inst, low)));
  });
}
template <typename F>
void HalvesFromNarrow(Cta&, Warp& warp, const Instruction& inst,
                      uint32_t mask) {
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  const uint16_t* a = warp.Reg<uint16_t>(inst.r[1]);
  constexpr uint32_t kMask = (1u << kNarrowBits<F>)-1;
  ForLanes(mask, [=, &inst](uint32_t i) {
    const auto half = [&](uint32_t code) -> uint32_t {
      return Encode16<Half>(
          Relu(inst, DecodeNarrow<F>(static_cast<uint8_t>(code & kMask))));
    };
    d[i] = half(a[i] >> kNarrowBits<F>) << 16 | half(a[i]);
  });
}

void E8M0FromSingles(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint16_t* d = warp.Reg<uint16_t>(inst.r[0]);
  const float* a = warp.Reg<float>(inst.r[1]);
  const float* b = warp.Reg<float>(inst.r[2]);
  const bool up =
      (inst.mode & kRoundingMask) == static_cast<uint8_t>(Rounding::kUp);
  const bool saturate = (inst.mode & kSaturateFinite) != 0;
  ForLanes(mask, [=](uint32_t i) {
    d[i] = static_cast<uint16_t>(EncodeE8M0(a[i], up, saturate) << 8 |
                                 EncodeE8M0(b[i], up, saturate));
  });
}
void E8M0FromBFloats(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint16_t* d = warp.Reg<uint16_t>(inst.r[0]);
  const uint32_t* a = warp.Reg<uint32_t>(inst.r[1]);
  const bool up =
      (inst.mode & kRoundingMask) == static_cast<uint8_t>(Rounding::kUp);
  const bool saturate = (inst.mode & kSaturateFinite) != 0;
  ForLanes(mask, [=](uint32_t i) {
    const float high = Decode16<BFloat>(static_cast<uint16_t>(a[i] >> 16));
    const float low = Decode16<BFloat>(static_cast<uint16_t>(a[i]));
    d[i] = static_cast<uint16_t>(EncodeE8M0(high, up, saturate) << 8 |
                                 EncodeE8M0(low, up, saturate));
  });
}
void BFloatsFromE8M0(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  const uint16_t* a = warp.Reg<uint16_t>(inst.r[1]);
  ForLanes(mask, [=](uint32_t i) {
    const auto bits = [](uint16_t code) -> uint32_t {
      return Encode16<BFloat>(DecodeE8M0(static_cast<uint8_t>(code)));
    };
    d[i] = bits(a[i] >> 8) << 16 | bits(a[i]);
  });
}

// cvt.pack: the saturated sources side by side, the first one above, in the low
// bits of the result; what fits of c moves above them. mode: bits of an
// element; count: 1 if it is signed.
void PackIntegers(Cta&, Warp& warp, const Instruction& inst, uint32_t mask) {
  uint32_t* d = warp.Reg<uint32_t>(inst.r[0]);
  const int32_t* a = warp.Reg<int32_t>(inst.r[1]);
  const int32_t* b = warp.Reg<int32_t>(inst.r[2]);
  const uint32_t* c = warp.Reg<uint32_t>(inst.r[3]);
  const uint32_t bits = inst.mode;
  const int32_t low = inst.count != 0 ? -(1 << (bits - 1)) : 0;
  const int32_t high = (1 << (inst.count != 0 ? bits - 1 : bits)) - 1;
  const uint32_t field = (1u << bits) - 1;
  ForLanes(mask, [=](uint32_t i) {
    const uint32_t x = static_cast<uint32_t>(std::clamp(a[i], low, high));
    const uint32_t y = static_cast<uint32_t>(std::clamp(b[i], low, high));
    const uint32_t above = bits == 16 ? 0 : c[i] << 2 * bits;
    d[i] = above | (x & field) << bits | (y & field);
  });
}

// Calls f(tag) with the C++ type of a PTX type.
template <typename F>
Handler ByInteger(Type type, F f) {
  switch (type) {
    case Type::kU8:
      return f(uint8_t{});
    case Type::kU16:
      return f(uint16_t{});
    case Type::kU32:
      return f(uint32_t{});
    case Type::kU64:
      return f(uint64_t{});
    case Type::kS8:
      return f(int8_t{});
    case Type::kS16:
      return f(int16_t{});
    case Type::kS32:
      return f(int32_t{});
    case Type::kS64:
      return f(int64_t{});
    default:
      return nullptr;
  }
}
template <typename F>
Handler ByFloat(Type type, F f) {
  switch (type) {
    case Type::kF16:
      return f(Bits16<Half>{});
    case Type::kBF16:
      return f(Bits16<BFloat>{});
    case Type::kF32:
      return f(float{});
    case Type::kF64:
      return f(double{});
    default:
      return nullptr;
  }
}

Handler Choose(Type to, Type from) {
  if (!IsFloat(to) && !IsFloat(from)) {
    return ByInteger(to, [&](auto t) {
      return ByInteger(from, [](auto f) -> Handler {
        return IntegerToInteger<decltype(t), decltype(f)>;
      });
    });
  }
  if (!IsFloat(to)) {
    return ByInteger(to, [&](auto t) {
      return ByFloat(from, [](auto f) -> Handler {
        return FloatToInteger<decltype(t), decltype(f)>;
      });
    });
  }
  if (!IsFloat(from)) {
    return ByFloat(to, [&](auto t) {
      return ByInteger(from, [](auto f) -> Handler {
        return ToFloat<decltype(t), decltype(f)>;
      });
    });
  }
  return ByFloat(to, [&](auto t) {
    return ByFloat(from, [](auto f) -> Handler {
      return ToFloat<decltype(t), decltype(f)>;
    });
  });
}

bool TakeAnyRounding(InstructionDecoder& d, uint8_t* mode) {
  Rounding rounding;
  if (d.TakeRounding(&rounding)) {
    *mode = static_cast<uint8_t>(rounding);
    return true;
  }
  static constexpr const char* kIntegral[] = {"rni", "rzi", "rmi", "rpi"};
  for (uint8_t i = 0; i < 4; ++i) {
    if (d.Take(kIntegral[i])) {
      *mode = i | kToIntegral;
      return true;
    }
  }
  return false;
}

void DecodePack(InstructionDecoder& d) {
  Instruction& inst = d.inst();
  if (!d.Take("sat")) d.Fail("cvt.pack without .sat");
  const absl::string_view to = d.TakeQualifier();
  inst.count = absl::StartsWith(to, "s") ? 1 : 0;
  uint32_t bits = 0;
  if (to.empty() || !absl::SimpleAtoi(to.substr(1), &bits) ||
      (bits != 2 && bits != 4 && bits != 8 && bits != 16) ||
      d.TakeType() != Type::kS32) {
    d.Fail("the types");
  }
  const bool third = d.Take("b32");
  if (third != (bits != 16)) d.Fail("the types");
  d.ExpectDone();
  inst.mode = static_cast<uint8_t>(bits);
  d.Destination(d.operand(0), 4);
  d.Source(d.operand(1), 4);
  d.Source(d.operand(2), 4);
  d.Source(d.operand(third ? 3 : 2), 4);
  d.Run(PackIntegers);
}

template <typename F>
Handler FromNarrow(Type from) {
  return from == Type::kF32     ? NarrowFromSingles<F>
         : from == Type::kF16x2 ? NarrowFromHalves<F>
                                : Handler{nullptr};
}

// Pairs of at most 8 bits; nullptr for a combination that PTX lacks.
Handler ChooseNarrow(Type to, Type from) {
  switch (to) {
    case Type::kE4M3x2:
      return FromNarrow<E4M3>(from);
    case Type::kE5M2x2:
      return FromNarrow<E5M2>(from);
    case Type::kE3M2x2:
      return FromNarrow<E3M2>(from);
    case Type::kE2M3x2:
      return FromNarrow<E2M3>(from);
    case Type::kE2M1x2:
      return FromNarrow<E2M1>(from);
    case Type::kUE8M0x2:
      return from == Type::kF32      ? E8M0FromSingles
             : from == Type::kBF16x2 ? E8M0FromBFloats
                                     : Handler{nullptr};
    case Type::kBF16x2:
      return from == Type::kUE8M0x2 ? BFloatsFromE8M0 : Handler{nullptr};
    case Type::kF16x2:
      break;
    default:
      return nullptr;
  }
  switch (from) {
    case Type::kE4M3x2:
      return HalvesFromNarrow<E4M3>;
    case Type::kE5M2x2:
      return HalvesFromNarrow<E5M2>;
    case Type::kE3M2x2:
      return HalvesFromNarrow<E3M2>;
    case Type::kE2M3x2:
      return HalvesFromNarrow<E2M3>;
    case Type::kE2M1x2:
      return HalvesFromNarrow<E2M1>;
    default:
      return nullptr;
  }
}

bool IsNarrow(Type type) {
  return type >= Type::kE4M3x2 && type <= Type::kUE8M0x2;
}

}  // namespace

bool DecodeConvert(InstructionDecoder& d) {
  if (d.name() != "cvt") return false;
  if (d.Take("pack")) {
    DecodePack(d);
    return true;
  }
  Instruction& inst = d.inst();
  TakeAnyRounding(d, &inst.mode);
  // .relu and .satfinite come in either order.
  for (int i = 0; i < 2; ++i) {
    if (d.Take("relu")) inst.mode |= kRelu;
    if (d.Take("satfinite")) inst.mode |= kSaturateFinite;
  }
  if (d.Take("ftz")) inst.flags |= Instruction::kFlushSubnormals;
  if (d.Take("sat")) inst.flags |= Instruction::kSaturate;
  const Type to = d.TakeType();
  const Type from = d.TakeType();
  d.ExpectDone();
  if (IsNarrow(to) || IsNarrow(from)) {
    const bool saturates = (inst.mode & kSaturateFinite) != 0;
    if (IsNarrow(to) && to != Type::kUE8M0x2 && !saturates) {
      d.Fail("a conversion without .satfinite");
    }
    d.WideElements(d.operand(0), BytesOf(to), 1, /*destination=*/true);
    d.WideElements(d.operand(1), BytesOf(from), 1, /*destination=*/false);
    if (from == Type::kF32) d.Source(d.operand(2), 4);
    d.Run(ChooseNarrow(to, from));
    return true;
  }
  if (to == Type::kF16x2 || to == Type::kBF16x2) {
    if (from != Type::kF32) d.Fail("the source type");
    d.Destination(d.operand(0), 4);
    d.Source(d.operand(1), 4);
    d.Source(d.operand(2), 4);
    d.Run(to == Type::kF16x2 ? PackPair<Half> : PackPair<BFloat>);
    return true;
  }
  // Registers may be wider than the types.
  inst.register_bytes =
      d.WideElements(d.operand(0), BytesOf(to), 1, /*destination=*/true);
  inst.bytes =
      d.WideElements(d.operand(1), BytesOf(from), 1, /*destination=*/false);
  d.Run(Choose(to, from));
  return true;
}

}  // namespace hone::emulator
