// cvt between the formats that kernels dequantize and quantize.
#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/config/data_type.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

namespace hone::emulator {
namespace {

float F(uint32_t x) { return std::bit_cast<float>(x); }
double Half(uint32_t x) { return kFloat16.Decode(x & 0xffff); }
double BFloat(uint32_t x) { return kBfloat16.Decode(x & 0xffff); }

struct Narrow {
  const char* name;
  DataType type;
  int min_arch;
  std::vector<int> only;
};
std::vector<Narrow> Narrows() {
  const std::vector<int> blackwell = {100, 120};
  return {{"e4m3x2", kFloat8e4m3, 89, {}},
          {"e5m2x2", kFloat8e5m2, 89, {}},
          {"e3m2x2", DataType::Float(3, 2), 100, blackwell},
          {"e2m3x2", DataType::Float(2, 3), 100, blackwell},
          {"e2m1x2", kFloat4e2m1, 100, blackwell}};
}

// .satfinite: NaN is the canonical NaN, or the greatest value where there is
// none.
uint32_t EncodeNarrow(const DataType& type, double x, bool relu) {
  if (std::isnan(x)) {
    return type.bits() == 8 ? 0x7f : type.Encode(type.MaxFinite());
  }
  if (relu && x <= 0) x = 0;
  if (std::isinf(x)) x = std::copysign(type.MaxFinite(), x);
  return type.Encode(x);
}

uint32_t EncodeHalf(double x) {
  if (std::isnan(x)) return 0x7fff;
  // DataType saturates where cvt without .satfinite goes to infinity: halfway
  // from the greatest value to the next power of two on.
  if (std::abs(x) >= 65520) return x > 0 ? 0x7c00 : 0xfc00;
  return kFloat16.Encode(x);
}
uint32_t EncodeBFloat(double x) {
  if (std::isnan(x)) return 0x7fff;
  if (std::abs(x) >= 0x1.ffp127) return x > 0 ? 0x7f80 : 0xff80;
  return kBfloat16.Encode(x);
}

void AddNarrow(std::vector<InstructionCase>* out) {
  for (const Narrow& n : Narrows()) {
    const DataType type = n.type;
    const int bits = type.bits() == 4 ? 4 : 8;
    // e2m1x2 lives in an 8-bit register.
    const std::string in =
        bits == 4 ? "cvt.u8.u32 b0, w0;\n" : "cvt.u16.u32 h0, w0;\n";
    const std::string reg = bits == 4 ? "b0" : "h0";
    const std::string store =
        bits == 4 ? "\ncvt.u32.u8 d0, b0;" : "\ncvt.u32.u16 d0, h0;";
    const auto push = [&](InstructionCase c) {
      c.only = n.only;
      out->push_back(std::move(c));
    };
    for (const bool relu : {false, true}) {
      const std::string suffix = relu ? ".relu" : "";
      const std::string from_f32 =
          absl::StrCat("cvt.rn.satfinite", suffix, ".", n.name, ".f32");
      push(LaneCase(
          from_f32, absl::StrCat(from_f32, " ", reg, ", w0, w1;", store), 2,
          Compare::kBits,
          [=](const uint32_t* w) {
            return EncodeNarrow(type, F(w[0]), relu) << bits |
                   EncodeNarrow(type, F(w[1]), relu);
          },
          n.min_arch));
      const std::string to_f16 =
          absl::StrCat("cvt.rn", suffix, ".f16x2.", n.name);
      push(LaneCase(
          to_f16, absl::StrCat(in, to_f16, " d0, ", reg, ";"), 1,
          Compare::kHalves,
          [=](const uint32_t* w) {
            const auto half = [&](uint32_t code) {
              double x = type.Decode(code & ((1u << type.bits()) - 1));
              if (relu && x <= 0) x = 0;
              if (std::isinf(x)) return x > 0 ? 0x7c00u : 0xfc00u;
              return EncodeHalf(x);
            };
            return half(w[0] >> bits) << 16 | half(w[0]);
          },
          n.min_arch));
      if (type.bits() != 8 || n.min_arch != 89) continue;
      const std::string from_f16 =
          absl::StrCat("cvt.rn.satfinite", suffix, ".", n.name, ".f16x2");
      InstructionCase c = LaneCase(
          from_f16, absl::StrCat(from_f16, " h0, w0;", store), 1,
          Compare::kBits,
          [=](const uint32_t* w) {
            return EncodeNarrow(type, Half(w[0] >> 16), relu) << 8 |
                   EncodeNarrow(type, Half(w[0]), relu);
          },
          n.min_arch);
      c.generate = RandomWords;
      push(c);
    }
    out->back().generate = RandomWords;
  }
}

// The exponent of |x|, rounded down or away from zero.
uint32_t E8M0(float x, bool up, bool saturate) {
  if (std::isnan(x)) return 0xff;
  const double magnitude = std::abs(static_cast<double>(x));
  if (std::isinf(x)) return saturate ? 0xfe : 0xff;
  if (magnitude <= 0x1p-127) return 0;
  int exponent = std::ilogb(magnitude);
  if (up && std::ldexp(1.0, exponent) != magnitude) ++exponent;
  const int code = std::max(exponent + 127, 0);
  return std::min(code, saturate ? 0xfe : 0xff);
}

void AddScales(std::vector<InstructionCase>* out) {
  const auto push = [out](InstructionCase c) {
    c.only = {100, 120};
    out->push_back(std::move(c));
  };
  for (const bool up : {false, true}) {
    for (const bool saturate : {false, true}) {
      const std::string mode =
          absl::StrCat("cvt.", up ? "rp" : "rz", saturate ? ".satfinite" : "");
      const std::string from_f32 = absl::StrCat(mode, ".ue8m0x2.f32");
      push(LaneCase(
          from_f32, from_f32 + " h0, w0, w1;\ncvt.u32.u16 d0, h0;", 2,
          Compare::kBits,
          [=](const uint32_t* w) {
            return E8M0(F(w[0]), up, saturate) << 8 |
                   E8M0(F(w[1]), up, saturate);
          },
          100));
      const std::string from_bf16 = absl::StrCat(mode, ".ue8m0x2.bf16x2");
      push(LaneCase(
          from_bf16, from_bf16 + " h0, w0;\ncvt.u32.u16 d0, h0;", 1,
          Compare::kBits,
          [=](const uint32_t* w) {
            return E8M0(F(w[0] & 0xffff0000), up, saturate) << 8 |
                   E8M0(F(w[0] << 16), up, saturate);
          },
          100));
    }
  }
  push(LaneCase(
      "cvt.rn.bf16x2.ue8m0x2",
      "cvt.u16.u32 h0, w0;\ncvt.rn.bf16x2.ue8m0x2 d0, h0;", 1,
      Compare::kBFloats,
      [](const uint32_t* w) {
        const auto bits = [](uint32_t code) -> uint32_t {
          code &= 0xff;
          if (code == 0xff) return 0x7fff;
          return code == 0 ? 0x40 : code << 7;
        };
        return bits(w[0] >> 8) << 16 | bits(w[0]);
      },
      100));
}

void AddWide(std::vector<InstructionCase>* out) {
  out->push_back(LaneCase(
      "cvt.rn.f16x2.f32", "cvt.rn.f16x2.f32 d0, w0, w1;", 2, Compare::kHalves,
      [](const uint32_t* w) {
        return EncodeHalf(F(w[0])) << 16 | EncodeHalf(F(w[1]));
      },
      80));
  out->push_back(LaneCase(
      "cvt.rn.bf16x2.f32", "cvt.rn.bf16x2.f32 d0, w0, w1;", 2,
      Compare::kBFloats,
      [](const uint32_t* w) {
        return EncodeBFloat(F(w[0])) << 16 | EncodeBFloat(F(w[1]));
      },
      80));
  out->push_back(LaneCase(
      "cvt.rn.relu.bf16x2.f32", "cvt.rn.relu.bf16x2.f32 d0, w0, w1;", 2,
      Compare::kBFloats,
      [](const uint32_t* w) {
        const auto relu = [](float x) { return x <= 0 ? 0.0f : x; };
        return EncodeBFloat(relu(F(w[0]))) << 16 | EncodeBFloat(relu(F(w[1])));
      },
      80));
  out->push_back(LaneCase(
      "cvt.rn.f16.f32", "cvt.rn.f16.f32 h0, w0;\ncvt.u32.u16 d0, h0;", 1,
      Compare::kHalves, [](const uint32_t* w) { return EncodeHalf(F(w[0])); }));
  out->push_back(LaneCase(
      "cvt.rn.satfinite.f16.f32",
      "cvt.rn.satfinite.f16.f32 h0, w0;\ncvt.u32.u16 d0, h0;", 1,
      Compare::kHalves,
      [](const uint32_t* w) {
        const double x = F(w[0]);
        return EncodeHalf(std::isnan(x) ? x : std::clamp(x, -65504.0, 65504.0));
      },
      80));
  InstructionCase from_half =
      LaneCase("cvt.f32.f16", "cvt.u16.u32 h0, w0;\ncvt.f32.f16 d0, h0;", 1,
               Compare::kFloat, [](const uint32_t* w) {
                 return std::bit_cast<uint32_t>(static_cast<float>(Half(w[0])));
               });
  from_half.generate = RandomWords;
  out->push_back(from_half);
  InstructionCase from_bfloat = LaneCase(
      "cvt.f32.bf16", "cvt.u16.u32 h0, w0;\ncvt.f32.bf16 d0, h0;", 1,
      Compare::kFloat,
      [](const uint32_t* w) {
        return std::bit_cast<uint32_t>(static_cast<float>(BFloat(w[0])));
      },
      90);
  from_bfloat.generate = RandomWords;
  out->push_back(from_bfloat);
}

void AddIntegers(std::vector<InstructionCase>* out) {
  const auto to_integer = [](double x, double low, double high) -> int64_t {
    if (std::isnan(x)) return 0;
    return static_cast<int64_t>(std::clamp(std::nearbyint(x), low, high));
  };
  out->push_back(LaneCase(
      "cvt.rni.sat.s8.f32", "cvt.rni.sat.s8.f32 t0, w0;\ncvt.s32.s8 d0, t0;", 1,
      Compare::kBits, [=](const uint32_t* w) {
        return static_cast<uint32_t>(to_integer(F(w[0]), -128, 127));
      }));
  out->push_back(LaneCase(
      "cvt.rni.sat.u8.f32", "cvt.rni.sat.u8.f32 t0, w0;\ncvt.u32.u8 d0, t0;", 1,
      Compare::kBits, [=](const uint32_t* w) {
        return static_cast<uint32_t>(to_integer(F(w[0]), 0, 255));
      }));
  out->push_back(LaneCase("cvt.rni.s32.f32", "cvt.rni.s32.f32 d0, w0;", 1,
                          Compare::kBits, [=](const uint32_t* w) {
                            return static_cast<uint32_t>(
                                to_integer(F(w[0]), -0x1p31, 0x1p31 - 1));
                          }));
  out->push_back(LaneCase("cvt.rn.f32.s32", "cvt.rn.f32.s32 d0, w0;", 1,
                          Compare::kBits, [](const uint32_t* w) {
                            return std::bit_cast<uint32_t>(
                                static_cast<float>(static_cast<int32_t>(w[0])));
                          }));
  out->push_back(LaneCase("cvt.rn.f16.s32",
                          "cvt.rn.f16.s32 h0, w0;\ncvt.u32.u16 d0, h0;", 1,
                          Compare::kHalves, [](const uint32_t* w) {
                            return EncodeHalf(static_cast<int32_t>(w[0]));
                          }));
  out->push_back(LaneCase("cvt.sat.s8.s32",
                          "cvt.sat.s8.s32 t0, w0;\ncvt.s32.s8 d0, t0;", 1,
                          Compare::kBits, [](const uint32_t* w) {
                            return static_cast<uint32_t>(std::clamp(
                                static_cast<int32_t>(w[0]), -128, 127));
                          }));
  for (const int bits : {16, 8, 4, 2}) {
    for (const bool is_signed : {true, false}) {
      const std::string opcode =
          absl::StrCat("cvt.pack.sat.", is_signed ? "s" : "u", bits, ".s32",
                       bits == 16 ? "" : ".b32");
      out->push_back(LaneCase(
          opcode,
          absl::StrCat(opcode, " d0, w0, w1", bits == 16 ? "" : ", w2", ";"), 3,
          Compare::kBits,
          [=](const uint32_t* w) {
            const int64_t low = is_signed ? -(int64_t{1} << (bits - 1)) : 0;
            const int64_t high =
                (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
            const auto field = [&](uint32_t x) {
              const int64_t value =
                  std::clamp<int64_t>(static_cast<int32_t>(x), low, high);
              return static_cast<uint32_t>(value) & ((1u << bits) - 1);
            };
            const uint32_t pair = field(w[0]) << bits | field(w[1]);
            return bits == 16 ? pair : w[2] << 2 * bits | pair;
          },
          bits >= 8 ? 75 : 75));
    }
  }
}

}  // namespace

void AddConvertCases(std::vector<InstructionCase>* out) {
  AddNarrow(out);
  AddScales(out);
  AddWide(out);
  AddIntegers(out);
}

}  // namespace hone::emulator
