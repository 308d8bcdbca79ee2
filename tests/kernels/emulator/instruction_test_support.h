// Runs single instructions on edge values and random ones, lane by lane.
#ifndef HONE_TESTS_KERNELS_EMULATOR_INSTRUCTION_TEST_SUPPORT_H_
#define HONE_TESTS_KERNELS_EMULATOR_INSTRUCTION_TEST_SUPPORT_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {

using U = uint64_t;
using Expectation = std::function<U(U a, U b, U c)>;

// Per lane: registers a, b, c of `in` bits, ia, ib, ic with their low 32 bits
// and predicates p (a odd), q (b odd); the instruction writes d of `out` bits.
inline std::vector<U> RunInstruction(const std::string& text, int in, int out,
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
inline std::vector<U> MakeOperands(int rows) {
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

inline bool Same(U got, U want, int bits, As as) {
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
inline void Check(const std::string& text, int in, int out,
                  const Expectation& want, As as = As::kBits) {
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

inline uint32_t U32(U x) { return static_cast<uint32_t>(x); }
inline uint16_t U16(U x) { return static_cast<uint16_t>(x); }
inline int64_t S64(U x) { return static_cast<int64_t>(x); }
inline int32_t S32(U x) { return static_cast<int32_t>(x); }
inline int16_t S16(U x) { return static_cast<int16_t>(x); }
inline float F(U x) { return std::bit_cast<float>(U32(x)); }
inline double D(U x) { return std::bit_cast<double>(x); }
inline U Bits(float x) { return std::bit_cast<uint32_t>(x); }
inline U Bits(double x) { return std::bit_cast<U>(x); }

}  // namespace hone::emulator

#endif  // HONE_TESTS_KERNELS_EMULATOR_INSTRUCTION_TEST_SUPPORT_H_
