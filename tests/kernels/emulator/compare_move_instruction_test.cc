// setp, selp, set, predicate logic and mov against the host.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/instruction_test_support.h"

namespace hone::emulator {
namespace {

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

}  // namespace
}  // namespace hone::emulator
