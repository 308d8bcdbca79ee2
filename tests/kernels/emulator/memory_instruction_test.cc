// Atomics, vector accesses and extensions against the host.
#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/instruction_test_support.h"

namespace hone::emulator {
namespace {

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
