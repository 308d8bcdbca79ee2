// Integer, logic, shift and bit-field instructions against the host.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/kernels/emulator/instruction_test_support.h"

namespace hone::emulator {
namespace {

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

TEST(CarryTest, AFlagThatNobodySetIsCaught) {
  const Module module = MustParse(
      ".version 9.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry k(.param .u64 pa, .param .u64 pc)\n{\n"
      ".reg .b32 a, d; .reg .pred p;\n"
      "mov.u32 a, %tid.x; setp.ne.u32 p, a, 5;\n"
      "@p add.cc.u32 d, a, a;\naddc.u32 d, a, a;\nret;\n}\n");
  std::vector<U> in(1), out(1);
  const auto stats =
      RunPlan(module, PlanFor("k", {1, 1, 1}, {32, 1, 1}), in, out);
  EXPECT_TRUE(absl::IsAborted(stats.status())) << stats.status();
  EXPECT_NE(stats.status().message().find("lane 5"), std::string::npos)
      << stats.status();
  EXPECT_NE(stats.status().message().find("uninitialized: the carry flag"),
            std::string::npos);
}

}  // namespace
}  // namespace hone::emulator
