// Floating-point arithmetic of f32 and of packed f16 and bf16.
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/config/data_type.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

namespace hone::emulator {
namespace {

float F(uint32_t x) { return std::bit_cast<float>(x); }
uint32_t Bits(float x) { return std::bit_cast<uint32_t>(x); }

// Rounds a long double, which holds every sum and product here nearly exactly,
// to 16 bits: by way of a double whose last bit says that it is inexact.
uint32_t Round16(const DataType& type, long double x) {
  if (std::isnan(x)) return 0x7fff;
  double d = static_cast<double>(x);
  if (std::isfinite(d) && d != x) {
    if (std::abs(static_cast<long double>(d)) > std::abs(x)) {
      d = std::nextafter(d, 0.0);
    }
    d = std::bit_cast<double>(std::bit_cast<uint64_t>(d) | 1);
  }
  // DataType saturates; arithmetic overflows to infinity.
  const double overflow =
      type.MaxFinite() * (1 + std::ldexp(1.0, -2 - type.mantissa_bits()) *
                                  (1 + std::ldexp(1.0, -type.mantissa_bits())));
  const uint32_t infinity = type == kFloat16 ? 0x7c00 : 0x7f80;
  if (std::abs(d) >= overflow) return infinity | (d < 0 ? 0x8000 : 0);
  return type.Encode(d);
}

// a + b, with an odd last bit if that is not exact: rounding it once more to a
// shorter type rounds as the exact sum would.
long double AddToOdd(long double a, long double b) {
  const long double sum = a + b;
  const long double b_part = sum - a;
  const long double error = (a - (sum - b_part)) + (b - b_part);
  if (!std::isfinite(sum) || error == 0) return sum;
  uint64_t significand;
  std::memcpy(&significand, &sum, sizeof(significand));
  if ((significand & 1) != 0) return sum;
  return std::nextafter(sum, error > 0 ? HUGE_VALL : -HUGE_VALL);
}

using Operation = long double (*)(long double, long double, long double);

void AddPairs(std::vector<InstructionCase>* out) {
  struct Op {
    const char* name;
    int sources;
    int half_arch, bfloat_arch;
    Operation f;
  };
  const auto least = [](long double a, long double b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
  };
  static const auto kLeast = least;
  const Op kOps[] = {
      {"add.rn", 2, 75, 90,
       [](long double a, long double b, long double) {
         return AddToOdd(a, b);
       }},
      {"mul.rn", 2, 75, 90,
       [](long double a, long double b, long double) { return a * b; }},
      {"fma.rn", 3, 75, 80,
       [](long double a, long double b, long double c) {
         return AddToOdd(a * b, c);
       }},
      {"fma.rn.relu", 3, 80, 80,
       [](long double a, long double b, long double c) {
         const long double x = AddToOdd(a * b, c);
         return x < 0 ? 0.0L : x;
       }},
      {"min", 2, 80, 80,
       [](long double a, long double b, long double) { return kLeast(a, b); }},
      {"max", 2, 80, 80,
       [](long double a, long double b, long double) {
         return -kLeast(-a, -b);
       }},
      {"max.NaN", 2, 80, 80,
       [](long double a, long double b, long double) {
         if (std::isnan(a) || std::isnan(b)) {
           return static_cast<long double>(NAN);
         }
         return -kLeast(-a, -b);
       }},
      {"neg", 1, 75, 80,
       [](long double a, long double, long double) { return -a; }},
      {"abs", 1, 75, 80,
       [](long double a, long double, long double) { return std::abs(a); }},
  };
  for (const bool half : {true, false}) {
    const DataType type = half ? kFloat16 : kBfloat16;
    for (const Op& op : kOps) {
      const std::string opcode =
          absl::StrCat(op.name, half ? ".f16x2" : ".bf16x2");
      const char* operands = op.sources == 1   ? " d0, w0;"
                             : op.sources == 2 ? " d0, w0, w1;"
                                               : " d0, w0, w1, w2;";
      InstructionCase c = LaneCase(
          opcode, opcode + operands, 3,
          half ? Compare::kHalves : Compare::kBFloats,
          [type, f = op.f](const uint32_t* w) {
            uint32_t d = 0;
            for (int i = 0; i < 32; i += 16) {
              const auto x = [&](int n) -> long double {
                return type.Decode(w[n] >> i & 0xffff);
              };
              d |= Round16(type, f(x(0), x(1), x(2))) << i;
            }
            return d;
          },
          half ? op.half_arch : op.bfloat_arch);
      // Halves whose sums meet: exponents close to each other.
      c.generate = [half](std::mt19937_64& random, int round,
                          std::vector<uint32_t>& words) {
        MixedWords(random, round, words);
        for (uint32_t& word : words) {
          if (random() % 2 == 0) continue;
          word = static_cast<uint32_t>(random());
          const uint32_t keep = half ? 0x83ff83ff : 0x807f807f;
          const uint32_t exponents =
              half ? (13 + random() % 5) << 10 : (123 + random() % 9) << 7;
          word = (word & keep) | exponents * 0x10001u;
        }
      };
      out->push_back(c);
    }
  }
}

// min_arch 75; within `bound` of the exact value, relative to it.
void AddApproximate(std::vector<InstructionCase>* out,
                    const std::string& opcode, double bound,
                    double (*f)(double)) {
  InstructionCase c;
  c.name = opcode;
  c.text = opcode + " d0, w0;";
  c.compare = Compare::kNearFloat;
  c.emulator_bound = 0x1p-23;
  c.device_bound = bound;
  // Ranges where the result is a normal number.
  c.generate = [](std::mt19937_64& random, int, std::vector<uint32_t>& words) {
    std::normal_distribution<float> normal;
    for (uint32_t& word : words) {
      word = Bits(std::abs(normal(random)) * 4 + 0x1p-10f);
    }
  };
  c.reference = [f](const std::vector<uint32_t>& words, CaseResult& result) {
    for (size_t i = 0; i < words.size(); ++i) {
      const double exact = f(F(words[i]));
      result.words[i] = Bits(static_cast<float>(exact));
      result.magnitude.push_back(std::abs(exact));
    }
  };
  out->push_back(c);
}

}  // namespace

void AddFloatCases(std::vector<InstructionCase>* out) {
  AddPairs(out);
  out->push_back(LaneCase("fma.rn.f32", "fma.rn.f32 d0, w0, w1, w2;", 3,
                          Compare::kFloat, [](const uint32_t* w) {
                            return Bits(std::fma(F(w[0]), F(w[1]), F(w[2])));
                          }));
  out->push_back(
      LaneCase("add.rn.f32", "add.rn.f32 d0, w0, w1;", 2, Compare::kFloat,
               [](const uint32_t* w) { return Bits(F(w[0]) + F(w[1])); }));
  out->push_back(
      LaneCase("mul.rn.f32", "mul.rn.f32 d0, w0, w1;", 2, Compare::kFloat,
               [](const uint32_t* w) { return Bits(F(w[0]) * F(w[1])); }));
  // The ISA's bounds: one unit in the last place of rcp, 2^-22.5 of ex2,
  // 2^-22.9 of rsqrt, 2^-11 of tanh.
  AddApproximate(out, "rcp.approx.ftz.f32", 0x1p-22,
                 [](double x) { return 1 / x; });
  AddApproximate(out, "ex2.approx.ftz.f32", 0x1p-21,
                 [](double x) { return std::exp2(x); });
  AddApproximate(out, "rsqrt.approx.ftz.f32", 0x1p-22,
                 [](double x) { return 1 / std::sqrt(x); });
  AddApproximate(out, "tanh.approx.f32", 0x1p-10,
                 [](double x) { return std::tanh(x); });
}

}  // namespace hone::emulator
