// Instructions one by one, on edge values and random ones, against the host.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {
namespace {

using U = uint64_t;
using Expectation = std::function<U(U a, U b, U c)>;

// Per lane: registers a, b, c of `in` bits, ia, ib, ic with their low 32 bits
// and predicates p (a odd), q (b odd); the instruction writes d of `out` bits.
std::vector<U> RunInstruction(const std::string& text, int in, int out,
                              std::vector<U>& operands) {
  std::string load;
  for (int i = 0; i < 3; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    absl::StrAppend(&load, "ld.global.u64 w", name, ", [%rd4+", 8 * i, "];\n");
    if (in == 64)
      absl::StrAppend(&load, "mov.u64 ", name, ", w", name, ";\n");
    else
      absl::StrAppend(&load, "cvt.u", in, ".u64 ", name, ", w", name, ";\n");
    absl::StrAppend(&load, "cvt.u32.u64 i", name, ", w", name, ";\n");
  }
  const std::string ptx = absl::StrCat(
      ".version 9.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .u64 pa, .param .u64 pc)\n{\n"
      ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b64 wa, wb, wc, wd;\n"
      ".reg .b32 ia, ib, ic, ja; .reg .pred p, q, s, t;\n"
      ".reg .b",
      in, " a, b, c;\n.reg .b", out,
      " d, e;\n"
      "ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pc];\n"
      "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n"
      "mad.lo.u32 %r1, %r2, %r3, %r1;\n"
      "mul.wide.u32 %rd3, %r1, 24; add.u64 %rd4, %rd1, %rd3;\n"
      "mul.wide.u32 %rd5, %r1, 8; add.u64 %rd6, %rd2, %rd5;\n",
      load,
      "and.b32 ja, ia, 1; setp.ne.u32 p, ja, 0;\n"
      "and.b32 ja, ib, 1; setp.ne.u32 q, ja, 0;\n"
      "mov.u64 wd, 0;\n",
      text, "\n",
      out == 64 ? "mov.u64 wd, d;\n"
                : absl::StrCat("cvt.u64.u", out, " wd, d;\n"),
      "st.global.u64 [%rd6], wd;\nret;\n}\n");
  const Module module = MustParse(ptx);
  const uint32_t lanes = operands.size() / 3;
  std::vector<U> result(lanes);
  const auto stats = RunPlan(
      module, PlanFor("k", {lanes / 32, 1, 1}, {32, 1, 1}), operands, result);
  EXPECT_TRUE(stats.ok()) << stats.status();
  return result;
}

// Edge patterns of every width, then random ones.
std::vector<U> MakeOperands(int rows) {
  static constexpr U kEdges[] = {0,
                                 1,
                                 2,
                                 31,
                                 32,
                                 33,
                                 63,
                                 64,
                                 255,
                                 0x7f,
                                 0x80,
                                 0x7fff,
                                 0x8000,
                                 0xffff,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x3f800000,
                                 0xbf800000,
                                 0x7f800000,
                                 0x7fc00000,
                                 0x00000001,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 ~U{0},
                                 0x3c003c00,
                                 0x7bff7bff,
                                 0x00010001,
                                 0xfc007c00};
  std::mt19937_64 random(11);
  std::vector<U> out;
  for (int i = 0; i < rows * 3; ++i) {
    const U edge = kEdges[random() % std::size(kEdges)];
    out.push_back(random() % 3 == 0 ? random() : edge);
  }
  return out;
}

// How results compare: floating-point NaNs are alike whatever their payload.
enum class As { kBits, kF32, kF64, kHalf, kBFloat };

bool Same(U got, U want, int bits, As as) {
  if (got == want) return true;
  const auto both16 = [&](auto is_nan) {
    for (int at = 0; at < bits; at += 16) {
      const auto g = static_cast<uint16_t>(got >> at);
      const auto w = static_cast<uint16_t>(want >> at);
      if (g != w && !(is_nan(g) && is_nan(w))) return false;
    }
    return true;
  };
  switch (as) {
    case As::kBits:
      return false;
    case As::kF32:
      return std::isnan(std::bit_cast<float>(static_cast<uint32_t>(got))) &&
             std::isnan(std::bit_cast<float>(static_cast<uint32_t>(want)));
    case As::kF64:
      return std::isnan(std::bit_cast<double>(got)) &&
             std::isnan(std::bit_cast<double>(want));
    case As::kHalf:
      return both16([](uint16_t x) { return std::isnan(Decode16<Half>(x)); });
    case As::kBFloat:
      return both16([](uint16_t x) { return std::isnan(Decode16<BFloat>(x)); });
  }
  return false;
}

// `want` gets all 64 bits of the operands and may return more than `out` bits.
void Check(const std::string& text, int in, int out, const Expectation& want,
           As as = As::kBits) {
  SCOPED_TRACE(text);
  std::vector<U> operands = MakeOperands(1024);
  const std::vector<U> got = RunInstruction(text, in, out, operands);
  const U mask = out == 64 ? ~U{0} : (U{1} << out) - 1;
  for (size_t i = 0; i < got.size(); ++i) {
    const U a = operands[3 * i], b = operands[3 * i + 1],
            c = operands[3 * i + 2];
    const U expected = want(a, b, c) & mask;
    ASSERT_TRUE(Same(got[i], expected, out, as))
        << std::hex << "a=" << a << " b=" << b << " c=" << c << ": " << got[i]
        << ", not " << expected;
  }
}

uint32_t U32(U x) { return static_cast<uint32_t>(x); }
uint16_t U16(U x) { return static_cast<uint16_t>(x); }
int64_t S64(U x) { return static_cast<int64_t>(x); }
int32_t S32(U x) { return static_cast<int32_t>(x); }
int16_t S16(U x) { return static_cast<int16_t>(x); }
float F(U x) { return std::bit_cast<float>(U32(x)); }
double D(U x) { return std::bit_cast<double>(x); }
U Bits(float x) { return std::bit_cast<uint32_t>(x); }
U Bits(double x) { return std::bit_cast<U>(x); }

TEST(IntegerTest, Arithmetic) {
  Check("add.s32 d, a, b;", 32, 32, [](U a, U b, U) { return a + b; });
  Check("add.s32 d, a, -7;", 32, 32, [](U a, U, U) { return a - 7; });
  Check("sub.u16 d, a, b;", 16, 16, [](U a, U b, U) { return a - b; });
  Check("add.s64 d, a, b;", 64, 64, [](U a, U b, U) { return a + b; });
  Check("add.sat.s32 d, a, b;", 32, 32, [](U a, U b, U) -> U {
    return std::clamp<int64_t>(int64_t{S32(a)} + S32(b), INT32_MIN, INT32_MAX);
  });
  Check("mul.lo.s32 d, a, b;", 32, 32, [](U a, U b, U) { return a * b; });
  Check("mul.lo.u64 d, a, b;", 64, 64, [](U a, U b, U) { return a * b; });
  Check("mul.hi.s32 d, a, b;", 32, 32,
        [](U a, U b, U) -> U { return int64_t{S32(a)} * S32(b) >> 32; });
  Check("mul.hi.u32 d, a, b;", 32, 32,
        [](U a, U b, U) -> U { return U{U32(a)} * U32(b) >> 32; });
  Check("mul.hi.u64 d, a, b;", 64, 64, [](U a, U b, U) -> U {
    return static_cast<unsigned __int128>(a) * b >> 64;
  });
  Check("mul.hi.s64 d, a, b;", 64, 64, [](U a, U b, U) -> U {
    return static_cast<__int128>(S64(a)) * S64(b) >> 64;
  });
  Check("mul.wide.s32 d, a, b;", 32, 64,
        [](U a, U b, U) -> U { return int64_t{S32(a)} * S32(b); });
  Check("mul.wide.u16 d, a, b;", 16, 32,
        [](U a, U b, U) -> U { return U{U16(a)} * U16(b); });
  Check("mul.wide.s16 d, a, b;", 16, 32,
        [](U a, U b, U) -> U { return int64_t{S16(a)} * S16(b); });
  Check("mad.lo.s32 d, a, b, c;", 32, 32,
        [](U a, U b, U c) { return a * b + c; });
  Check("mad.hi.u32 d, a, b, c;", 32, 32,
        [](U a, U b, U c) -> U { return (U{U32(a)} * U32(b) >> 32) + c; });
  Check("mad.wide.s32 d, a, b, wc;", 32, 64,
        [](U a, U b, U c) -> U { return int64_t{S32(a)} * S32(b) + c; });
  Check("mad.wide.u32 d, a, b, wc;", 32, 64,
        [](U a, U b, U c) -> U { return U{U32(a)} * U32(b) + c; });
  Check("abs.s32 d, a;", 32, 32,
        [](U a, U, U) -> U { return S32(a) < 0 ? -a : a; });
  Check("neg.s64 d, a;", 64, 64, [](U a, U, U) { return -a; });
}

TEST(IntegerTest, Division) {
  Check("or.b32 e, b, 1; div.u32 d, a, e;", 32, 32,
        [](U a, U b, U) -> U { return U32(a) / (U32(b) | 1); });
  Check("or.b32 e, b, 1; rem.u32 d, a, e;", 32, 32,
        [](U a, U b, U) -> U { return U32(a) % (U32(b) | 1); });
  Check("or.b32 e, b, 1; div.s32 d, a, e;", 32, 32,
        [](U a, U b, U) -> U { return int64_t{S32(a)} / int64_t{S32(b | 1)}; });
  Check("or.b32 e, b, 1; rem.s32 d, a, e;", 32, 32,
        [](U a, U b, U) -> U { return int64_t{S32(a)} % int64_t{S32(b | 1)}; });
  Check("or.b64 e, b, 1; div.u64 d, a, e;", 64, 64,
        [](U a, U b, U) -> U { return a / (b | 1); });
  // By zero nothing traps; the result is all ones.
  Check("div.u32 d, a, 0;", 32, 32, [](U, U, U) { return ~U{0}; });
}

TEST(IntegerTest, MinMax) {
  Check("min.s32 d, a, b;", 32, 32,
        [](U a, U b, U) -> U { return std::min(S32(a), S32(b)); });
  Check("max.u32 d, a, b;", 32, 32,
        [](U a, U b, U) -> U { return std::max(U32(a), U32(b)); });
  Check("max.s16 d, a, b;", 16, 16,
        [](U a, U b, U) -> U { return std::max(S16(a), S16(b)); });
  Check("min.u64 d, a, b;", 64, 64,
        [](U a, U b, U) -> U { return std::min(a, b); });
}

TEST(IntegerTest, LogicAndShifts) {
  Check("and.b32 d, a, b;", 32, 32, [](U a, U b, U) { return a & b; });
  Check("or.b16 d, a, b;", 16, 16, [](U a, U b, U) { return a | b; });
  Check("xor.b64 d, a, b;", 64, 64, [](U a, U b, U) { return a ^ b; });
  Check("not.b32 d, a;", 32, 32, [](U a, U, U) { return ~a; });
  Check("cnot.b32 d, a;", 32, 32, [](U a, U, U) -> U { return U32(a) == 0; });
  Check("shl.b32 d, a, ib;", 32, 32,
        [](U a, U b, U) -> U { return U32(b) > 31 ? 0 : a << U32(b); });
  Check("shr.u32 d, a, ib;", 32, 32,
        [](U a, U b, U) -> U { return U32(b) > 31 ? 0 : U32(a) >> U32(b); });
  Check("shr.s32 d, a, ib;", 32, 32,
        [](U a, U b, U) -> U { return S32(a) >> std::min(U32(b), 31u); });
  Check("shr.s64 d, a, ib;", 64, 64,
        [](U a, U b, U) -> U { return S64(a) >> std::min(U32(b), 63u); });
  Check("shr.s16 d, a, ib;", 16, 16,
        [](U a, U b, U) -> U { return S16(a) >> std::min(U32(b), 15u); });
  Check("shf.l.wrap.b32 d, a, b, c;", 32, 32, [](U a, U b, U c) -> U {
    return (U{U32(b)} << 32 | U32(a)) << (c & 31) >> 32;
  });
  Check("shf.r.wrap.b32 d, a, b, c;", 32, 32, [](U a, U b, U c) -> U {
    return (U{U32(b)} << 32 | U32(a)) >> (c & 31);
  });
  Check("shf.l.clamp.b32 d, a, b, c;", 32, 32, [](U a, U b, U c) -> U {
    const uint32_t n = std::min(U32(c), 32u);
    return n == 0 ? b : n == 32 ? a : b << n | U32(a) >> (32 - n);
  });
  Check("shf.r.clamp.b32 d, a, b, c;", 32, 32, [](U a, U b, U c) -> U {
    const uint32_t n = std::min(U32(c), 32u);
    return n == 0 ? a : n == 32 ? b : U32(a) >> n | b << (32 - n);
  });
}

TEST(IntegerTest, EveryLop3) {
  std::vector<U> operands = MakeOperands(32);
  for (int table = 0; table < 256; ++table) {
    const auto got = RunInstruction(
        absl::StrCat("lop3.b32 d, a, b, c, ", table, ";"), 32, 32, operands);
    for (int i = 0; i < 32; ++i) {
      uint32_t want = 0;
      for (int bit = 0; bit < 32; ++bit) {
        const int index = (operands[3 * i] >> bit & 1) * 4 +
                          (operands[3 * i + 1] >> bit & 1) * 2 +
                          (operands[3 * i + 2] >> bit & 1);
        want |= static_cast<uint32_t>(table >> index & 1) << bit;
      }
      ASSERT_EQ(got[i], want) << table;
    }
  }
}

// The ISA's pseudocode, bit by bit.
U ExtractField(U a, U pos_arg, U len_arg, int bits, bool is_signed) {
  const int msb = bits - 1, pos = pos_arg & 0xff, len = len_arg & 0xff;
  const int sign =
      !is_signed || len == 0
          ? 0
          : static_cast<int>(a >> std::min(pos + len - 1, msb) & 1);
  U d = 0;
  for (int i = 0; i <= msb; ++i) {
    const U bit = i < len && pos + i <= msb ? a >> (pos + i) & 1 : sign;
    d |= bit << i;
  }
  return d;
}

TEST(IntegerTest, BitFields) {
  Check("bfe.u32 d, a, ib, ic;", 32, 32,
        [](U a, U b, U c) { return ExtractField(a, b, c, 32, false); });
  Check("bfe.s32 d, a, ib, ic;", 32, 32,
        [](U a, U b, U c) { return ExtractField(a, b, c, 32, true); });
  Check("bfe.s64 d, a, ib, ic;", 64, 64,
        [](U a, U b, U c) { return ExtractField(a, b, c, 64, true); });
  Check("and.b32 ja, ic, 31; bfi.b32 d, a, b, ja, 9;", 32, 32,
        [](U a, U b, U c) {
          const int pos = c & 31;
          U d = b;
          for (int i = 0; i < 9 && pos + i < 32; ++i) {
            d = (d & ~(U{1} << (pos + i))) | (a >> i & 1) << (pos + i);
          }
          return d;
        });
  Check("popc.b32 d, a;", 32, 32,
        [](U a, U, U) -> U { return std::popcount(U32(a)); });
  Check("popc.b64 d, a;", 64, 32,
        [](U a, U, U) -> U { return std::popcount(a); });
  Check("clz.b32 d, a;", 32, 32,
        [](U a, U, U) -> U { return std::countl_zero(U32(a)); });
  Check("brev.b32 d, a;", 32, 32, [](U a, U, U) {
    U d = 0;
    for (int i = 0; i < 32; ++i) d |= (a >> i & 1) << (31 - i);
    return d;
  });
  Check("bfind.u32 d, a;", 32, 32, [](U a, U, U) -> U {
    return U32(a) == 0 ? ~U{0} : 31 - std::countl_zero(U32(a));
  });
  Check("bfind.s32 d, a;", 32, 32, [](U a, U, U) -> U {
    const uint32_t v = S32(a) < 0 ? ~U32(a) : U32(a);
    return v == 0 ? ~U{0} : 31 - std::countl_zero(v);
  });
  Check("prmt.b32 d, a, b, c;", 32, 32, [](U a, U b, U c) {
    uint8_t bytes[8];
    const U both = U{U32(b)} << 32 | U32(a);
    std::memcpy(bytes, &both, 8);
    U d = 0;
    for (int i = 0; i < 4; ++i) {
      const int nibble = c >> 4 * i & 15;
      uint8_t byte = bytes[nibble & 7];
      if (nibble & 8) byte = static_cast<int8_t>(byte) < 0 ? 0xff : 0;
      d |= U{byte} << 8 * i;
    }
    return d;
  });
  Check("dp4a.s32.u32 d, a, b, c;", 32, 32, [](U a, U b, U c) {
    int64_t sum = S32(c);
    for (int i = 0; i < 4; ++i) {
      sum += static_cast<int8_t>(a >> 8 * i) *
             static_cast<int>(static_cast<uint8_t>(b >> 8 * i));
    }
    return static_cast<U>(sum);
  });
}

TEST(CompareTest, SetpSelpSet) {
  Check("setp.lt.s32 s, a, b; selp.b32 d, 1, 2, s;", 32, 32,
        [](U a, U b, U) -> U { return S32(a) < S32(b) ? 1 : 2; });
  Check("setp.hs.u32 s, a, b; selp.b32 d, 1, 2, s;", 32, 32,
        [](U a, U b, U) -> U { return U32(a) >= U32(b) ? 1 : 2; });
  Check(
      "setp.ge.and.s64 s|t, a, b, p; selp.b32 d, 1, 0, s; selp.b32 e, 2, 0, "
      "t; or.b32 d, d, e;",
      64, 32, [](U a, U b, U) -> U {
        const bool c = S64(a) >= S64(b), p = a & 1;
        return (c && p ? 1 : 0) | (!c && p ? 2 : 0);
      });
  Check("setp.eq.or.u16 s, a, b, !q; selp.b16 d, a, b, s;", 16, 16,
        [](U a, U b, U) -> U {
          return U16(a) == U16(b) || (b & 1) == 0 ? a : b;
        });
  Check("setp.ne.xor.b32 s, a, b, p; selp.b32 d, 7, 9, s;", 32, 32,
        [](U a, U b, U) -> U {
          return (U32(a) != U32(b)) != ((a & 1) != 0) ? 7 : 9;
        });
  struct FloatComparison {
    const char* name;
    bool (*holds)(float, float);
  };
  const FloatComparison comparisons[] = {
      {"eq", [](float a, float b) { return a == b; }},
      {"ne", [](float a, float b) { return a < b || a > b; }},
      {"lt", [](float a, float b) { return a < b; }},
      {"le", [](float a, float b) { return a <= b; }},
      {"gt", [](float a, float b) { return a > b; }},
      {"ge", [](float a, float b) { return a >= b; }},
      {"equ", [](float a, float b) { return !(a < b || a > b); }},
      {"neu", [](float a, float b) { return !(a == b); }},
      {"ltu", [](float a, float b) { return !(a >= b); }},
      {"leu", [](float a, float b) { return !(a > b); }},
      {"gtu", [](float a, float b) { return !(a <= b); }},
      {"geu", [](float a, float b) { return !(a < b); }},
      {"num",
       [](float a, float b) { return !std::isnan(a) && !std::isnan(b); }},
      {"nan", [](float a, float b) { return std::isnan(a) || std::isnan(b); }},
  };
  for (const FloatComparison& c : comparisons) {
    Check(absl::StrCat("setp.", c.name, ".f32 s, a, b; selp.b32 d, 1, 0, s;"),
          32, 32, [&](U a, U b, U) -> U { return c.holds(F(a), F(b)); });
    Check(absl::StrCat("setp.", c.name, ".f16 s, a, b; selp.b32 d, 1, 0, s;"),
          16, 32, [&](U a, U b, U) -> U {
            return c.holds(Decode16<Half>(U16(a)), Decode16<Half>(U16(b)));
          });
  }
  Check("set.gt.u32.s32 d, a, b;", 32, 32,
        [](U a, U b, U) -> U { return S32(a) > S32(b) ? ~U{0} : 0; });
  Check(
      "and.pred s, p, q; xor.pred t, p, q; not.pred s, s; selp.b32 d, 1, 0, "
      "s; selp.b32 e, 2, 0, t; or.b32 d, d, e;",
      32, 32, [](U a, U b, U) -> U {
        const bool p = a & 1, q = b & 1;
        return (!(p && q) ? 1 : 0) | (p != q ? 2 : 0);
      });
  // Guards, plain and negated.
  Check("mov.u32 d, 5; @p add.u32 d, a, 1; @!q add.u32 d, d, 100;", 32, 32,
        [](U a, U b, U) -> U {
          return ((a & 1) ? a + 1 : 5) + ((b & 1) ? 0 : 100);
        });
}

TEST(MoveTest, PacksAndUnpacks) {
  Check("mov.b32 d, {a, b};", 16, 32,
        [](U a, U b, U) -> U { return U{U16(b)} << 16 | U16(a); });
  Check("mov.b32 {d, e}, ib; mov.b16 d, e;", 16, 16,
        [](U, U b, U) -> U { return b >> 16; });
  Check("mov.b64 d, {ia, ib};", 32, 64,
        [](U a, U b, U) -> U { return b << 32 | U32(a); });
  Check("mov.b64 {_, d}, wa;", 32, 32, [](U a, U, U) { return a >> 32; });
}

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

TEST(ConvertTest, IntegersToIntegers) {
  Check("cvt.s32.s8 d, a;", 32, 32,
        [](U a, U, U) -> U { return static_cast<int8_t>(a); });
  Check("cvt.u32.u8 d, a;", 16, 32,
        [](U a, U, U) -> U { return static_cast<uint8_t>(a); });
  Check("cvt.s64.s32 d, a;", 32, 64, [](U a, U, U) -> U { return S32(a); });
  Check("cvt.u16.u32 d, a;", 32, 16, [](U a, U, U) { return a; });
  Check("cvt.s8.s32 d, a;", 32, 16,
        [](U a, U, U) -> U { return static_cast<int8_t>(a); });
  Check("cvt.sat.s8.s32 d, a;", 32, 32,
        [](U a, U, U) -> U { return std::clamp(S32(a), -128, 127); });
  Check("cvt.sat.u8.s32 d, a;", 32, 32,
        [](U a, U, U) -> U { return std::clamp(S32(a), 0, 255); });
  Check("cvt.sat.s32.u64 d, a;", 64, 32,
        [](U a, U, U) -> U { return std::min<U>(a, INT32_MAX); });
}

TEST(ConvertTest, FloatsAndIntegers) {
  Check("cvt.rn.f32.s32 d, a;", 32, 32,
        [](U a, U, U) { return Bits(static_cast<float>(S32(a))); });
  Check("cvt.rn.f32.u64 d, a;", 64, 32,
        [](U a, U, U) { return Bits(static_cast<float>(a)); });
  Check("cvt.rn.f32.s64 d, a;", 64, 32,
        [](U a, U, U) { return Bits(static_cast<float>(S64(a))); });
  Check("cvt.rn.f64.s64 d, a;", 64, 64,
        [](U a, U, U) { return Bits(static_cast<double>(S64(a))); });
  Check("cvt.rn.f32.u8 d, a;", 16, 32, [](U a, U, U) {
    return Bits(static_cast<float>(static_cast<uint8_t>(a)));
  });
  Check("cvt.rn.f16.s32 d, a;", 32, 16,
        [](U a, U, U) -> U { return Encode16<Half>(S32(a)); });
  const auto to_s32 = [](double x) -> U {
    if (std::isnan(x)) return 0;
    return static_cast<int64_t>(std::clamp(x, -0x1p31, 0x1p31 - 1));
  };
  Check("cvt.rzi.s32.f32 d, a;", 32, 32,
        [&](U a, U, U) { return to_s32(std::trunc(F(a))); });
  Check("cvt.rni.s32.f32 d, a;", 32, 32,
        [&](U a, U, U) { return to_s32(std::nearbyint(F(a))); });
  Check("cvt.rmi.s32.f32 d, a;", 32, 32,
        [&](U a, U, U) { return to_s32(std::floor(F(a))); });
  Check("cvt.rpi.s32.f32 d, a;", 32, 32,
        [&](U a, U, U) { return to_s32(std::ceil(F(a))); });
  Check("cvt.rzi.u8.f32 d, a;", 32, 16, [](U a, U, U) -> U {
    if (std::isnan(F(a))) return 0;
    return static_cast<U>(std::clamp(std::trunc(F(a)), 0.0f, 255.0f));
  });
  Check(
      "cvt.rni.f32.f32 d, a;", 32, 32,
      [](U a, U, U) { return Bits(std::nearbyint(F(a))); }, As::kF32);
  Check(
      "cvt.rn.f32.f64 d, a;", 64, 32,
      [](U a, U, U) { return Bits(static_cast<float>(D(a))); }, As::kF32);
  Check(
      "cvt.f64.f32 d, a;", 32, 64,
      [](U a, U, U) { return Bits(static_cast<double>(F(a))); }, As::kF64);
}

TEST(ConvertTest, NarrowFloats) {
  Check(
      "cvt.f32.f16 d, a;", 16, 32,
      [](U a, U, U) { return Bits(Decode16<Half>(U16(a))); }, As::kF32);
  Check(
      "cvt.f32.bf16 d, a;", 16, 32,
      [](U a, U, U) { return Bits(Decode16<BFloat>(U16(a))); }, As::kF32);
  Check("cvt.rn.f16.f32 d, a;", 32, 16,
        [](U a, U, U) -> U { return Encode16<Half>(F(a)); });
  Check("cvt.rz.f16.f32 d, a;", 32, 16,
        [](U a, U, U) -> U { return Encode16<Half>(F(a), Rounding::kZero); });
  Check("cvt.rn.bf16.f32 d, a;", 32, 16,
        [](U a, U, U) -> U { return Encode16<BFloat>(F(a)); });
  Check("cvt.rn.f16x2.f32 d, a, b;", 32, 32, [](U a, U b, U) -> U {
    return U{Encode16<Half>(F(a))} << 16 | Encode16<Half>(F(b));
  });
  Check("cvt.rn.relu.bf16x2.f32 d, a, b;", 32, 32, [](U a, U b, U) -> U {
    const auto f = [](float x) -> U { return Encode16<BFloat>(x < 0 ? 0 : x); };
    return f(F(a)) << 16 | f(F(b));
  });
}

TEST(WarpTest, ShufflesVotesAndReductions) {
  std::vector<U> operands = MakeOperands(32);
  const auto value = [&](int lane) { return U32(operands[3 * lane]); };
  const auto run = [&](const std::string& text) {
    return RunInstruction(text, 32, 32, operands);
  };
  const auto up = run("shfl.sync.up.b32 d|s, a, 3, 0, -1;");
  const auto down = run("shfl.sync.down.b32 d, a, 5, 31, -1;");
  const auto butterfly = run("shfl.sync.bfly.b32 d, a, 8, 31, -1;");
  // Segments of 8 lanes: their mask above, the clamp below.
  const auto segment = run("shfl.sync.idx.b32 d, a, 2, 0x181f, -1;");
  const auto predicate =
      run("shfl.sync.up.b32 e|s, a, 3, 0, -1; selp.b32 d, 1, 0, s;");
  uint32_t odd = 0, sum = 0, all = ~0u;
  int32_t least = INT32_MAX;
  for (int lane = 0; lane < 32; ++lane) {
    odd |= (value(lane) & 1) << lane;
    sum += value(lane);
    all &= value(lane);
    least = std::min(least, static_cast<int32_t>(value(lane)));
  }
  const auto ballot = run("vote.sync.ballot.b32 d, p, -1;");
  const auto any = run("vote.sync.any.pred s, p, -1; selp.b32 d, 1, 0, s;");
  const auto add = run("redux.sync.add.u32 d, a, -1;");
  const auto low = run("redux.sync.min.s32 d, a, -1;");
  const auto conjunction = run("redux.sync.and.b32 d, a, -1;");
  const auto match = run("match.any.sync.b32 d, a, -1;");
  const auto elect = run("elect.sync e|s, -1; selp.b32 d, 1, 0, s;");
  const auto active = run("mov.u32 d, 0; @p activemask.b32 d;");
  const auto lane_id = run("mov.u32 d, %laneid;");
  const auto below = run("mov.u32 d, %lanemask_lt;");
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(up[lane], value(lane >= 3 ? lane - 3 : lane));
    EXPECT_EQ(predicate[lane], lane >= 3 ? 1u : 0u);
    EXPECT_EQ(down[lane], value(lane + 5 < 32 ? lane + 5 : lane));
    EXPECT_EQ(butterfly[lane], value(lane ^ 8));
    EXPECT_EQ(segment[lane], value(lane / 8 * 8 + 2));
    EXPECT_EQ(ballot[lane], odd);
    EXPECT_EQ(any[lane], odd != 0 ? 1u : 0u);
    EXPECT_EQ(add[lane], sum);
    EXPECT_EQ(low[lane], static_cast<uint32_t>(least));
    EXPECT_EQ(conjunction[lane], all);
    uint32_t same = 0;
    for (int other = 0; other < 32; ++other) {
      same |= static_cast<uint32_t>(value(other) == value(lane)) << other;
    }
    EXPECT_EQ(match[lane], same);
    EXPECT_EQ(elect[lane], lane == 0 ? 1u : 0u);
    EXPECT_EQ(active[lane], (odd >> lane & 1) != 0 ? odd : 0);
    EXPECT_EQ(lane_id[lane], static_cast<U>(lane));
    EXPECT_EQ(below[lane], (1u << lane) - 1);
  }
}

// Every lane does one atomic on a word of its own, that starts as b.
TEST(AtomicTest, Operations) {
  const auto atomic = [](const std::string& op, const std::string& type,
                         int bits, const Expectation& want, As as = As::kBits,
                         const std::string& extra = "") {
    const std::string word = absl::StrCat(
        "mov.u32 %r5, %tid.x; shl.b32 %r5, %r5, 3; mov.u32 %r6, "
        "bins; add.u32 %r5, %r5, %r6;\n");
    Check(absl::StrCat(".shared .align 8 .b8 bins[256];\n", word, "st.shared.b",
                       bits, " [%r5], b;\n", "atom.shared.", op, ".", type,
                       " e, [%r5], a", extra, ";\n", "ld.shared.b", bits,
                       " d, [%r5];"),
          bits, bits, want, as);
    // The returned value is the old one.
    Check(absl::StrCat(".shared .align 8 .b8 bins[256];\n", word, "st.shared.b",
                       bits, " [%r5], b;\n", "atom.shared.", op, ".", type,
                       " d, [%r5], a", extra, ";"),
          bits, bits, [](U, U b, U) { return b; });
  };
  atomic("add", "u32", 32, [](U a, U b, U) { return a + b; });
  atomic("add", "u64", 64, [](U a, U b, U) { return a + b; });
  atomic("min", "s32", 32,
         [](U a, U b, U) -> U { return std::min(S32(a), S32(b)); });
  atomic("max", "u32", 32,
         [](U a, U b, U) -> U { return std::max(U32(a), U32(b)); });
  atomic("exch", "b32", 32, [](U a, U, U) { return a; });
  atomic("inc", "u32", 32,
         [](U a, U b, U) -> U { return U32(b) >= U32(a) ? 0 : b + 1; });
  atomic("dec", "u32", 32, [](U a, U b, U) -> U {
    return U32(b) == 0 || U32(b) > U32(a) ? a : b - 1;
  });
  atomic("and", "b32", 32, [](U a, U b, U) { return a & b; });
  atomic("or", "b64", 64, [](U a, U b, U) { return a | b; });
  atomic("xor", "b32", 32, [](U a, U b, U) { return a ^ b; });
  atomic(
      "cas", "b32", 32, [](U a, U b, U c) { return U32(a) == U32(b) ? c : b; },
      As::kBits, ", c");
  atomic(
      "add", "f32", 32, [](U a, U b, U) { return Bits(F(a) + F(b)); },
      As::kF32);
  atomic(
      "add.noftz", "f16x2", 32,
      [](U a, U b, U) -> U {
        const auto f = [](U x, U y) -> U {
          return Encode16<Half>(double{Decode16<Half>(U16(x))} +
                                Decode16<Half>(U16(y)));
        };
        return f(a >> 16, b >> 16) << 16 | f(a, b);
      },
      As::kHalf);
}

TEST(MemoryTest, VectorsAndExtensions) {
  const std::string word =
      ".shared .align 16 .b8 tile[1024];\n"
      "mov.u32 %r5, %tid.x; shl.b32 %r5, %r5, 5; mov.u32 %r6, tile; add.u32 "
      "%r5, %r5, %r6;\n";
  Check(word +
            "st.shared.v4.b32 [%r5], {a, b, c, a};\n"
            "ld.shared.v2.u32 {e, d}, [%r5+8];\n sub.u32 d, e, d;",
        32, 32, [](U a, U, U c) { return c - a; });
  Check(word + "st.shared.u8 [%r5+3], a;\n ld.shared.s8 d, [%r5+3];", 32, 32,
        [](U a, U, U) -> U { return static_cast<int8_t>(a); });
  Check(word +
            "st.shared.v2.b64 [%r5], {a, b};\n"
            "cvt.u64.u32 %rd7, %r5; cvta.shared.u64 %rd7, %rd7;\n"
            "ld.v2.u64 {e, d}, [%rd7]; xor.b64 d, d, e;",
        64, 64, [](U a, U b, U) { return a ^ b; });
  Check(word +
            "st.shared.u16 [%r5], a; st.shared.u16 [%r5+2], b;\n"
            "ld.volatile.shared.u32 d, [%r5];",
        32, 32, [](U a, U b, U) -> U { return U{U16(b)} << 16 | U16(a); });
  Check(
      "createpolicy.fractional.L2::evict_first.b64 %rd7, 0f3F800000;\n"
      "ld.global.nc.L1::no_allocate.L2::cache_hint.u64 d, [%rd4], %rd7;",
      64, 64, [](U a, U, U) { return a; });
}

}  // namespace
}  // namespace hone::emulator
