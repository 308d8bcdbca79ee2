// cvt: between integers, between floats, and across.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

// Instruction::mode of a conversion.
constexpr uint8_t kRoundingMask = 3;
constexpr uint8_t kToIntegral = 4;  // .rni, .rzi, .rmi, .rpi
constexpr uint8_t kRelu = 8;

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

// Stores a double as To; x is exact or rounds as the exact value would.
template <typename To>
void StoreFloat(std::byte* d, double x, const Instruction& inst) {
  const auto rounding = static_cast<Rounding>(inst.mode & kRoundingMask);
  if ((inst.mode & kRelu) != 0 && x < 0) x = 0;
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

}  // namespace

bool DecodeConvert(InstructionDecoder& d) {
  if (d.name() != "cvt") return false;
  Instruction& inst = d.inst();
  TakeAnyRounding(d, &inst.mode);
  if (d.Take("relu")) inst.mode |= kRelu;
  if (d.Take("ftz")) inst.flags |= Instruction::kFlushSubnormals;
  if (d.Take("sat")) inst.flags |= Instruction::kSaturate;
  const Type to = d.TakeType();
  const Type from = d.TakeType();
  d.ExpectDone();
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
