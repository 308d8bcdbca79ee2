// cvt against the host.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/instruction_test_support.h"

namespace hone::emulator {
namespace {

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
    const auto f = [](float x) -> U {
      return Encode16<BFloat>(x <= 0 ? 0 : x);
    };
    return f(F(a)) << 16 | f(F(b));
  });
}

}  // namespace
}  // namespace hone::emulator
