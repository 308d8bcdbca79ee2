#include "tests/kernels/emulator/cases/instruction_case.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "kernels/config/data_type.h"
#include "kernels/config/status_macros.h"

namespace hone::emulator {

bool InstructionCase::RunsOn(int arch) const {
  if (only.empty()) return arch >= min_arch;
  return std::find(only.begin(), only.end(), arch) != only.end();
}

std::string InstructionCase::LowestArch() const {
  const int arch = only.empty() ? min_arch : only.front();
  return absl::StrCat("sm_", arch, arch >= 90 ? "a" : "");
}

std::vector<InstructionCase> AllInstructionCases() {
  std::vector<InstructionCase> out;
  AddMmaCases(&out);
  AddMatrixMoveCases(&out);
  AddConvertCases(&out);
  AddIntegerCases(&out);
  AddFloatCases(&out);
  AddWarpCases(&out);
  return out;
}

std::string CaseSource(const InstructionCase& c, const std::string& name) {
  std::string text = absl::StrCat(
      "{\n.reg .b32 w<", c.inputs, ">;\n.reg .b32 d<", c.outputs,
      ">;\n.reg .b32 t<8>;\n.reg .b32 lane, base;\n.reg .b16 h<8>;\n"
      ".reg .b8 b<4>;\n.reg .b64 x<8>;\n.reg .b64 out;\n.reg .pred p, q;\n"
      "mov.u32 lane, %laneid;\n");
  std::string outputs, inputs;
  int operand = 0;
  std::string tail;
  for (int i = 0; i < c.outputs; ++i, ++operand) {
    absl::StrAppend(&outputs, i == 0 ? "" : ", ", "\"=r\"(d[", i, "])");
    absl::StrAppend(&tail, "mov.b32 $", operand, ", d", i, ";\n");
  }
  for (int i = 0; i < c.inputs; ++i, ++operand) {
    absl::StrAppend(&inputs, "\"r\"(w[", i, "]), ");
    absl::StrAppend(&text, "mov.b32 w", i, ", $", operand, ";\n");
  }
  absl::StrAppend(&inputs, "\"r\"(base), \"l\"(c + at * ", c.outputs, ")");
  absl::StrAppend(&text, "mov.b32 base, $", operand, ";\nmov.b64 out, $",
                  operand + 1, ";\n", c.text, "\n", tail, "}");
  // % is the asm statement's own escape; $ stood for its operands.
  const std::string quoted = absl::StrReplaceAll(
      text, {{"%", "%%"}, {"$", "%"}, {"\n", "\\n\"\n      \""}});
  return absl::StrCat(
      "extern \"C\" __global__ void ", name,
      "(const unsigned* a, unsigned* c) {\n"
      "  __shared__ __align__(128) unsigned tile[1024];\n"
      "  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  const unsigned base =\n"
      "      static_cast<unsigned>(__cvta_generic_to_shared(tile));\n"
      "  unsigned w[",
      c.inputs, "], d[", c.outputs, "];\n  for (int i = 0; i < ", c.inputs,
      "; ++i) w[i] = a[at * ", c.inputs, " + i];\n  asm volatile(\"", quoted,
      "\"\n      : ", outputs, "\n      : ", inputs,
      "\n      : \"memory\");\n  for (int i = 0; i < ", c.outputs,
      "; ++i) c[at * ", c.outputs, " + i] = d[i];\n}\n");
}

LaunchPlan CasePlan(const InstructionCase& c, const std::string& name,
                    int rounds) {
  LaunchPlan plan;
  plan.kernel_name = name;
  plan.grid.x = static_cast<uint32_t>(rounds) * c.cluster;
  plan.block.x = 32;
  plan.cluster.x = c.cluster;
  LaunchArg in, out;
  in.role = BufferRole::kA;
  out.role = BufferRole::kC;
  plan.args = {in, out};
  return plan;
}

std::vector<uint32_t> CaseInputs(const InstructionCase& c, uint64_t seed,
                                 int rounds) {
  // Every case draws from a stream of its own.
  uint64_t mixed = seed;
  for (const char x : c.name) {
    mixed = mixed * 1099511628211u + static_cast<unsigned char>(x);
  }
  std::mt19937_64 random(mixed);
  std::vector<uint32_t> all;
  for (int round = 0; round < rounds; ++round) {
    std::vector<uint32_t> words(size_t{32} * c.cluster * c.inputs);
    c.generate(random, round, words);
    all.insert(all.end(), words.begin(), words.end());
  }
  return all;
}

CaseResult CaseExpectation(const InstructionCase& c,
                           const std::vector<uint32_t>& inputs) {
  const size_t unit = size_t{32} * c.cluster * c.inputs;
  CaseResult all;
  for (size_t at = 0; at < inputs.size(); at += unit) {
    const std::vector<uint32_t> words(inputs.begin() + at,
                                      inputs.begin() + at + unit);
    CaseResult result;
    result.words.resize(size_t{32} * c.cluster * c.outputs);
    c.reference(words, result);
    all.words.insert(all.words.end(), result.words.begin(), result.words.end());
    all.magnitude.insert(all.magnitude.end(), result.magnitude.begin(),
                         result.magnitude.end());
  }
  return all;
}

absl::StatusOr<std::vector<uint32_t>> EmulateCase(const InstructionCase& c,
                                                  const Module& module,
                                                  const std::string& name,
                                                  std::vector<uint32_t> inputs,
                                                  int rounds, uint64_t seed) {
  std::vector<uint32_t> outputs(size_t{32} * c.cluster * c.outputs * rounds);
  Bindings bindings;
  bindings[BufferRole::kA] = {reinterpret_cast<std::byte*>(inputs.data()),
                              inputs.size() * 4, /*writable=*/false,
                              /*initialized=*/true};
  bindings[BufferRole::kC] = {reinterpret_cast<std::byte*>(outputs.data()),
                              outputs.size() * 4, /*writable=*/true,
                              /*initialized=*/false};
  Options options;
  options.seed = seed;
  HONE_RETURN_IF_ERROR(
      Execute(module, CasePlan(c, name, rounds), bindings, options).status());
  return outputs;
}

namespace {

bool SameHalf(const DataType& type, uint32_t a, uint32_t b) {
  a &= 0xffff;
  b &= 0xffff;
  return a == b || (std::isnan(type.Decode(a)) && std::isnan(type.Decode(b)));
}

// The error relative to the magnitude; equal infinities and NaNs have none.
double Error(double got, double want, double magnitude) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  const double error = std::abs(got - want) / magnitude;
  return std::isnan(error) ? HUGE_VAL : error;
}

}  // namespace

Difference CompareResults(const InstructionCase& c,
                          const std::vector<uint32_t>& got,
                          const CaseResult& want, double bound) {
  Difference d;
  if (got.size() != want.words.size()) {
    d.same = false;
    d.first = absl::StrCat(got.size(), " words, not ", want.words.size());
    return d;
  }
  for (size_t i = 0; i < want.words.size(); ++i) {
    const uint32_t g = got[i], w = want.words[i];
    bool same = g == w;
    double error = 0;
    const size_t lane = i / c.outputs;
    const size_t round = lane / 32 / c.cluster;
    const double allowed = c.exact_even_rounds && round % 2 == 0 ? 0 : bound;
    switch (c.compare) {
      case Compare::kBits:
        break;
      case Compare::kFloat:
        same |= std::isnan(std::bit_cast<float>(g)) &&
                std::isnan(std::bit_cast<float>(w));
        break;
      case Compare::kHalves:
        same = SameHalf(kFloat16, g, w) && SameHalf(kFloat16, g >> 16, w >> 16);
        break;
      case Compare::kBFloats:
        same =
            SameHalf(kBfloat16, g, w) && SameHalf(kBfloat16, g >> 16, w >> 16);
        break;
      case Compare::kNearFloat:
        error = Error(std::bit_cast<float>(g), std::bit_cast<float>(w),
                      want.magnitude[i]);
        same = error <= allowed;
        break;
      case Compare::kNearHalves:
        for (int half = 0; half < 32; half += 16) {
          error = std::max(error, Error(kFloat16.Decode(g >> half & 0xffff),
                                        kFloat16.Decode(w >> half & 0xffff),
                                        want.magnitude[i]));
        }
        same = error <= allowed;
        break;
    }
    d.max_error = std::max(d.max_error, error);
    if (!same && d.same) {
      d.same = false;
      d.first =
          absl::StrFormat("round %d lane %d word %d: 0x%08x, not 0x%08x", round,
                          lane % (32 * c.cluster), i % c.outputs, g, w);
    }
  }
  return d;
}

Reference PerLane(int inputs, int outputs,
                  std::function<void(const uint32_t*, uint32_t*)> f) {
  return [inputs, outputs, f = std::move(f)](const std::vector<uint32_t>& words,
                                             CaseResult& result) {
    for (size_t lane = 0; lane < words.size() / inputs; ++lane) {
      f(&words[lane * inputs], &result.words[lane * outputs]);
    }
  };
}

void MixedWords(std::mt19937_64& random, int, std::vector<uint32_t>& words) {
  static constexpr uint32_t kEdges[] = {
      0,          1,          31,         32,         0x7f,       0x80,
      0x7fff,     0x8000,     0xffff,     0x10000,    0x7fffffff, 0x80000000,
      0xffffffff, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000,
      0x00400000, 0x00400001, 0x3c003c00, 0x7bff7bff, 0x00010001, 0xfc007c00,
      0x80008000, 0x43e00000, 0x43e80000, 0x43e7ffff, 0x47600000, 0x477fffff,
      0x3b000000, 0x3a800000, 0x3a800001, 0x7f000000, 0x00200000, 0x7e017fff};
  std::normal_distribution<float> normal;
  for (uint32_t& word : words) {
    switch (random() % 4) {
      case 0:
        word = kEdges[random() % std::size(kEdges)];
        break;
      case 1:
        word = static_cast<uint32_t>(random());
        break;
      default:
        word = std::bit_cast<uint32_t>(
            std::ldexp(normal(random), static_cast<int>(random() % 24) - 12));
    }
  }
}

void RandomWords(std::mt19937_64& random, int, std::vector<uint32_t>& words) {
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
}

InstructionCase LaneCase(const std::string& name, const std::string& text,
                         int inputs, Compare compare,
                         std::function<uint32_t(const uint32_t*)> f,
                         int min_arch) {
  InstructionCase c;
  c.name = name;
  c.text = text;
  c.inputs = inputs;
  c.compare = compare;
  c.min_arch = min_arch;
  c.generate = MixedWords;
  c.reference = PerLane(
      inputs, 1,
      [f = std::move(f)](const uint32_t* w, uint32_t* d) { *d = f(w); });
  return c;
}

}  // namespace hone::emulator
