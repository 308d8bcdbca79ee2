// Floating-point arithmetic against the host.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/instruction_test_support.h"

namespace hone::emulator {
namespace {

TEST(FloatTest, SinglePrecision) {
  Check(
      "add.f32 d, a, b;", 32, 32, [](U a, U b, U) { return Bits(F(a) + F(b)); },
      As::kF32);
  Check(
      "sub.rn.f32 d, a, b;", 32, 32,
      [](U a, U b, U) { return Bits(F(a) - F(b)); }, As::kF32);
  Check(
      "mul.f32 d, a, 0f3FC00000;", 32, 32,
      [](U a, U, U) { return Bits(F(a) * 1.5f); }, As::kF32);
  Check(
      "fma.rn.f32 d, a, b, c;", 32, 32,
      [](U a, U b, U c) { return Bits(std::fma(F(a), F(b), F(c))); }, As::kF32);
  Check(
      "div.rn.f32 d, a, b;", 32, 32,
      [](U a, U b, U) { return Bits(F(a) / F(b)); }, As::kF32);
  Check(
      "rcp.rn.f32 d, a;", 32, 32, [](U a, U, U) { return Bits(1 / F(a)); },
      As::kF32);
  Check(
      "sqrt.rn.f32 d, a;", 32, 32,
      [](U a, U, U) { return Bits(std::sqrt(F(a))); }, As::kF32);
  Check(
      "ex2.approx.f32 d, a;", 32, 32,
      [](U a, U, U) {
        return Bits(static_cast<float>(std::exp2(double{F(a)})));
      },
      As::kF32);
  Check(
      "neg.f32 d, a;", 32, 32, [](U a, U, U) { return Bits(-F(a)); }, As::kF32);
  Check(
      "abs.f32 d, a;", 32, 32, [](U a, U, U) { return Bits(std::abs(F(a))); },
      As::kF32);
  Check(
      "add.sat.f32 d, a, b;", 32, 32,
      [](U a, U b, U) {
        const float x = F(a) + F(b);
        return Bits(std::isnan(x) ? 0.0f : std::clamp(x, 0.0f, 1.0f));
      },
      As::kF32);
  const auto flush = [](float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
  };
  Check(
      "mul.ftz.f32 d, a, b;", 32, 32,
      [&](U a, U b, U) { return Bits(flush(flush(F(a)) * flush(F(b)))); },
      As::kF32);
  Check(
      "min.f32 d, a, b;", 32, 32,
      [](U a, U b, U) {
        const float x = F(a), y = F(b);
        if (x == 0 && y == 0) return Bits(std::signbit(x) ? x : y);
        // The host's fmin treats signalling NaNs differently.
        if (std::isnan(x)) return Bits(y);
        if (std::isnan(y)) return Bits(x);
        return Bits(std::min(x, y));
      },
      As::kF32);
  Check(
      "max.NaN.f32 d, a, b;", 32, 32,
      [](U a, U b, U) {
        const float x = F(a), y = F(b);
        if (std::isnan(x) || std::isnan(y)) return Bits(std::nanf(""));
        if (x == 0 && y == 0) return Bits(std::signbit(x) ? y : x);
        return Bits(std::max(x, y));
      },
      As::kF32);
}

// Directed rounding brackets the exact value between neighbours.
TEST(FloatTest, DirectedRounding) {
  for (const std::string op : {"add", "mul"}) {
    std::vector<U> operands = MakeOperands(1024);
    std::vector<U> by_mode[4];
    const char* modes[4] = {"rn", "rz", "rm", "rp"};
    for (int m = 0; m < 4; ++m) {
      by_mode[m] = RunInstruction(
          absl::StrCat(op, ".", modes[m], ".f32 d, a, b;"), 32, 32, operands);
    }
    for (size_t i = 0; i < operands.size() / 3; ++i) {
      const long double a = F(operands[3 * i]), b = F(operands[3 * i + 1]);
      const long double exact = op == "add" ? a + b : a * b;
      if (!std::isfinite(exact)) continue;
      const float down = F(by_mode[2][i]), up = F(by_mode[3][i]);
      ASSERT_LE(down, exact);
      ASSERT_GE(up, exact);
      ASSERT_LE(up, std::nextafter(down, INFINITY));
      ASSERT_EQ(F(by_mode[1][i]), exact < 0 ? up : down);
      ASSERT_TRUE(F(by_mode[0][i]) == up || F(by_mode[0][i]) == down);
    }
  }
}

TEST(FloatTest, DoublePrecision) {
  Check(
      "add.f64 d, a, b;", 64, 64, [](U a, U b, U) { return Bits(D(a) + D(b)); },
      As::kF64);
  Check(
      "fma.rn.f64 d, a, b, c;", 64, 64,
      [](U a, U b, U c) { return Bits(std::fma(D(a), D(b), D(c))); }, As::kF64);
  Check(
      "div.rn.f64 d, a, b;", 64, 64,
      [](U a, U b, U) { return Bits(D(a) / D(b)); }, As::kF64);
  Check(
      "mul.f64 d, a, 0d3FF8000000000000;", 64, 64,
      [](U a, U, U) { return Bits(D(a) * 1.5); }, As::kF64);
}

// The reference for 16-bit formats: long double holds every sum and product of
// two f16, and of the bf16 drawn here, exactly.
template <typename Format>
void CheckNarrow(const std::string& type, As as) {
  const auto v = [](U x) -> long double { return Decode16<Format>(U16(x)); };
  const auto r = [](long double x) -> U {
    // To double by truncation with a sticky bit, then once to the format.
    double d = static_cast<double>(x);
    if (std::isfinite(d) && d != x) {
      if (std::abs(static_cast<long double>(d)) > std::abs(x)) {
        d = std::nextafter(d, 0.0);
      }
      d = std::bit_cast<double>(std::bit_cast<U>(d) | 1);
    }
    return Encode16<Format>(d);
  };
  const auto pair = [](auto f) {
    return [f](U a, U b, U c) -> U {
      return (f(a >> 16, b >> 16, c >> 16) & 0xffff) << 16 |
             (f(a, b, c) & 0xffff);
    };
  };
  const auto both = [&](const std::string& op, int sources, auto f) {
    const std::string operands = sources == 1   ? "d, a;"
                                 : sources == 2 ? "d, a, b;"
                                                : "d, a, b, c;";
    Check(absl::StrCat(op, ".", type, " ", operands), 16, 16, f, as);
    Check(absl::StrCat(op, ".", type, "x2 ", operands), 32, 32, pair(f), as);
  };
  both("add", 2, [=](U a, U b, U) { return r(v(a) + v(b)); });
  both("sub.rn", 2, [=](U a, U b, U) { return r(v(a) - v(b)); });
  both("mul", 2, [=](U a, U b, U) { return r(v(a) * v(b)); });
  both("fma.rn", 3, [=](U a, U b, U c) {
    return U{Encode16<Format>(FmaToOdd(v(a), v(b), v(c)))};
  });
  both("fma.rn.relu", 3, [=](U a, U b, U c) {
    const double x = FmaToOdd(v(a), v(b), v(c));
    return U{Encode16<Format>(x < 0 ? 0 : x)};
  });
  both("neg", 1, [](U a, U, U) { return a ^ 0x8000; });
  both("abs", 1, [](U a, U, U) { return a & 0x7fff; });
  both("max", 2, [=](U a, U b, U) -> U {
    const long double x = v(a), y = v(b);
    if (std::isnan(x)) return std::isnan(y) ? kNan16 : b;
    if (std::isnan(y)) return a;
    if (x == y) return std::signbit(x) ? b : a;
    return x > y ? a : b;
  });
}

TEST(FloatTest, HalfPrecision) { CheckNarrow<Half>("f16", As::kHalf); }
TEST(FloatTest, BFloatPrecision) { CheckNarrow<BFloat>("bf16", As::kBFloat); }

}  // namespace
}  // namespace hone::emulator
