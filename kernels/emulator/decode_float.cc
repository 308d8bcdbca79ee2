// Floating-point arithmetic: f16, bf16, their packed pairs, f32 and f64.
//
// Every operation is worked out in double such that one rounding to the type
// remains: sums and fused products as "round to odd" (float_format.h), the
// rest because double has more than twice the bits. f64 itself uses the
// host's arithmetic.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

enum class Op : uint8_t {
  kAdd,
  kSub,
  kMul,
  kFma,
  kDiv,
  kRcp,
  kSqrt,
  kRsqrt,
  kEx2,
  kLg2,
  kSin,
  kCos,
  kTanh,
  kMin,
  kMax,
  kNeg,
  kAbs,
  kCopySign,
};

// Instruction::mode: the rounding, and these.
constexpr uint8_t kRoundingMask = 3;
constexpr uint8_t kPropagateNan = 4;  // .NaN of min and max
constexpr uint8_t kRelu = 8;

double Smaller(double a, double b, bool propagate_nan) {
  if (std::isnan(a) || std::isnan(b)) {
    if (propagate_nan) return std::numeric_limits<double>::quiet_NaN();
    return std::isnan(a) ? b : a;
  }
  if (a == b) return std::signbit(a) ? a : b;  // -0 is less than +0
  return a < b ? a : b;
}

template <Op kOp>
double Compute(const Instruction& inst, double a, double b, double c) {
  switch (kOp) {
    case Op::kAdd:
      return AddToOdd(a, b);
    case Op::kSub:
      return AddToOdd(a, -b);
    case Op::kMul:
      return a * b;
    case Op::kFma:
      return FmaToOdd(a, b, c);
    case Op::kDiv:
      return a / b;
    case Op::kRcp:
      return 1.0 / a;
    case Op::kSqrt:
      return std::sqrt(a);
    case Op::kRsqrt:
      return 1.0 / std::sqrt(a);
    case Op::kEx2:
      return std::exp2(a);
    case Op::kLg2:
      return std::log2(a);
    case Op::kSin:
      return std::sin(a);
    case Op::kCos:
      return std::cos(a);
    case Op::kTanh:
      return std::tanh(a);
    case Op::kMin:
      return Smaller(a, b, (inst.mode & kPropagateNan) != 0);
    case Op::kMax:
      return -Smaller(-a, -b, (inst.mode & kPropagateNan) != 0);
    case Op::kNeg:
      return -a;
    case Op::kAbs:
      return std::abs(a);
    case Op::kCopySign:
      return std::copysign(b, a);
  }
  return 0;
}

double Saturate(double x) {
  return std::isnan(x) ? 0.0 : std::clamp(x, 0.0, 1.0);
}

template <Op kOp>
float ApplyF32(const Instruction& inst, float a, float b, float c) {
  const bool flush = inst.Has(Instruction::kFlushSubnormals);
  if (flush) {
    a = FlushSubnormal(a);
    b = FlushSubnormal(b);
    c = FlushSubnormal(c);
  }
  float x = RoundToFloat(Compute<kOp>(inst, a, b, c),
                         static_cast<Rounding>(inst.mode & kRoundingMask));
  if (flush) x = FlushSubnormal(x);
  if (inst.Has(Instruction::kSaturate)) x = static_cast<float>(Saturate(x));
  return x;
}

template <Op kOp>
double ApplyF64(const Instruction& inst, double a, double b, double c) {
  if constexpr (kOp == Op::kAdd) return a + b;
  if constexpr (kOp == Op::kSub) return a - b;
  if constexpr (kOp == Op::kFma) return std::fma(a, b, c);
  return Compute<kOp>(inst, a, b, c);
}

template <Op kOp, typename Format>
uint16_t Apply16(const Instruction& inst, uint16_t a, uint16_t b, uint16_t c) {
  // Sign operations keep the payload of a NaN.
  if constexpr (kOp == Op::kNeg) return a ^ 0x8000;
  if constexpr (kOp == Op::kAbs) return a & 0x7fff;
  if constexpr (kOp == Op::kCopySign) return (b & 0x7fff) | (a & 0x8000);
  const auto flush = [&](uint16_t x) -> uint16_t {
    const bool subnormal = (x & Format::kInf) == 0;
    return inst.Has(Instruction::kFlushSubnormals) && subnormal ? x & 0x8000
                                                                : x;
  };
  double x =
      Compute<kOp>(inst, Decode16<Format>(flush(a)), Decode16<Format>(flush(b)),
                   Decode16<Format>(flush(c)));
  if (inst.Has(Instruction::kSaturate)) x = Saturate(x);
  if ((inst.mode & kRelu) != 0 && x < 0) x = 0;
  return flush(
      Encode16<Format>(x, static_cast<Rounding>(inst.mode & kRoundingMask)));
}

template <Op kOp, typename Format>
uint32_t ApplyPacked(const Instruction& inst, uint32_t a, uint32_t b,
                     uint32_t c) {
  const uint32_t low = Apply16<kOp, Format>(inst, a, b, c);
  const uint32_t high = Apply16<kOp, Format>(inst, a >> 16, b >> 16, c >> 16);
  return high << 16 | low;
}

template <Op kOp>
uint64_t ApplyF32x2(const Instruction& inst, uint64_t a, uint64_t b,
                    uint64_t c) {
  const auto half = [&](int shift) -> uint64_t {
    const auto f = [shift](uint64_t x) {
      return std::bit_cast<float>(static_cast<uint32_t>(x >> shift));
    };
    return std::bit_cast<uint32_t>(ApplyF32<kOp>(inst, f(a), f(b), f(c)));
  };
  return half(32) << 32 | half(0);
}

// min and max of three.
template <Op kOp>
float ApplyTwice(const Instruction& inst, float a, float b, float c) {
  return ApplyF32<kOp>(inst, ApplyF32<kOp>(inst, a, b, b), c, c);
}

// The common f32 operations without modifiers.
constexpr auto kAddF32 = [](float a, float b) { return a + b; };
constexpr auto kSubF32 = [](float a, float b) { return a - b; };
constexpr auto kMulF32 = [](float a, float b) { return a * b; };
constexpr auto kNegF32 = [](float a) { return -a; };

template <Op kOp>
Handler ForType(Type type, bool plain) {
  using U = uint32_t;
  using H = uint16_t;
  switch (type) {
    case Type::kF16:
      return MapWithMode<Apply16<kOp, Half>, H, H, H, H>;
    case Type::kBF16:
      return MapWithMode<Apply16<kOp, BFloat>, H, H, H, H>;
    case Type::kF16x2:
      return MapWithMode<ApplyPacked<kOp, Half>, U, U, U, U>;
    case Type::kBF16x2:
      return MapWithMode<ApplyPacked<kOp, BFloat>, U, U, U, U>;
    case Type::kF32:
      if (plain) {
        if constexpr (kOp == Op::kAdd) return Map<kAddF32, float, float, float>;
        if constexpr (kOp == Op::kSub) return Map<kSubF32, float, float, float>;
        if constexpr (kOp == Op::kMul) return Map<kMulF32, float, float, float>;
        if constexpr (kOp == Op::kNeg) return Map<kNegF32, float, float>;
      }
      return MapWithMode<ApplyF32<kOp>, float, float, float, float>;
    case Type::kF32x2:
      if constexpr (kOp == Op::kAdd || kOp == Op::kSub || kOp == Op::kMul ||
                    kOp == Op::kFma) {
        using W = uint64_t;
        return MapWithMode<ApplyF32x2<kOp>, W, W, W, W>;
      }
      return nullptr;
    case Type::kF64:
      return MapWithMode<ApplyF64<kOp>, double, double, double, double>;
    default:
      return nullptr;
  }
}

struct OpInfo {
  const char* name;
  Op op;
  int sources;
  Handler (*handler)(Type, bool);
};
constexpr OpInfo kOps[] = {
    {"add", Op::kAdd, 2, ForType<Op::kAdd>},
    {"sub", Op::kSub, 2, ForType<Op::kSub>},
    {"mul", Op::kMul, 2, ForType<Op::kMul>},
    {"fma", Op::kFma, 3, ForType<Op::kFma>},
    {"mad", Op::kFma, 3, ForType<Op::kFma>},
    {"div", Op::kDiv, 2, ForType<Op::kDiv>},
    {"rcp", Op::kRcp, 1, ForType<Op::kRcp>},
    {"sqrt", Op::kSqrt, 1, ForType<Op::kSqrt>},
    {"rsqrt", Op::kRsqrt, 1, ForType<Op::kRsqrt>},
    {"ex2", Op::kEx2, 1, ForType<Op::kEx2>},
    {"lg2", Op::kLg2, 1, ForType<Op::kLg2>},
    {"sin", Op::kSin, 1, ForType<Op::kSin>},
    {"cos", Op::kCos, 1, ForType<Op::kCos>},
    {"tanh", Op::kTanh, 1, ForType<Op::kTanh>},
    {"min", Op::kMin, 2, ForType<Op::kMin>},
    {"max", Op::kMax, 2, ForType<Op::kMax>},
    {"neg", Op::kNeg, 1, ForType<Op::kNeg>},
    {"abs", Op::kAbs, 1, ForType<Op::kAbs>},
    {"copysign", Op::kCopySign, 2, ForType<Op::kCopySign>},
};

bool ExactWithOneRounding(Op op) {
  return op == Op::kAdd || op == Op::kSub || op == Op::kMul || op == Op::kFma;
}

void DecodeOp(InstructionDecoder& d, const OpInfo& info) {
  Instruction& inst = d.inst();
  Rounding rounding = Rounding::kNearestEven;
  if (!d.TakeRounding(&rounding) && !d.Take("approx")) d.Take("full");
  if (d.Take("ftz")) inst.flags |= Instruction::kFlushSubnormals;
  if (d.Take("sat")) inst.flags |= Instruction::kSaturate;
  inst.mode = static_cast<uint8_t>(rounding);
  if (d.Take("NaN")) inst.mode |= kPropagateNan;
  if (d.Take("relu")) inst.mode |= kRelu;
  const Type type = d.TakeType();
  d.ExpectDone();
  // Directed rounding needs the exact value, which only these have.
  if (rounding != Rounding::kNearestEven &&
      (!ExactWithOneRounding(info.op) || type == Type::kF64)) {
    d.Fail("the rounding mode");
  }
  const bool minimum = info.op == Op::kMin;
  if (d.operand_count() == 4 && type == Type::kF32 &&
      (minimum || info.op == Op::kMax)) {
    d.Destination(d.operand(0), 4);
    for (size_t i = 1; i < 4; ++i) d.Source(d.operand(i), 4);
    d.Run(minimum
              ? MapWithMode<ApplyTwice<Op::kMin>, float, float, float, float>
              : MapWithMode<ApplyTwice<Op::kMax>, float, float, float, float>);
    return;
  }
  if (d.operand_count() != 1u + info.sources) d.Fail("the number of operands");
  const uint32_t bytes = BytesOf(type);
  d.Destination(d.operand(0), bytes);
  for (int i = 0; i < 3; ++i) {
    d.Source(d.operand(1 + std::min(i, info.sources - 1)), bytes);
  }
  d.Run(info.handler(type, inst.mode == 0 && inst.flags == 0));
}

}  // namespace

bool DecodeFloat(InstructionDecoder& d) {
  if (!IsFloat(d.LastType())) return false;
  for (const OpInfo& info : kOps) {
    if (d.name() == info.name) {
      DecodeOp(d, info);
      return true;
    }
  }
  return false;
}

}  // namespace hone::emulator
