// Exchanges within a warp and a cluster, and atomics.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/config/data_type.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

namespace hone::emulator {
namespace {

using Words = std::vector<uint32_t>;

InstructionCase WarpCase(const std::string& name, const std::string& text,
                         std::function<uint32_t(const Words&, int lane)> f,
                         int min_arch = 75) {
  InstructionCase c;
  c.name = name;
  c.text = text;
  c.min_arch = min_arch;
  c.generate = RandomWords;
  c.reference = [f = std::move(f)](const Words& words, CaseResult& result) {
    for (int lane = 0; lane < 32; ++lane) result.words[lane] = f(words, lane);
  };
  return c;
}

void AddShuffles(std::vector<InstructionCase>* out) {
  out->push_back(WarpCase(
      "shfl.sync.up", "shfl.sync.up.b32 d0, w0, 3, 0, -1;",
      [](const Words& w, int lane) { return w[lane >= 3 ? lane - 3 : lane]; }));
  out->push_back(WarpCase("shfl.sync.down",
                          "shfl.sync.down.b32 d0, w0, 5, 0x181f, -1;",
                          [](const Words& w, int lane) {
                            return w[lane % 8 + 5 < 8 ? lane + 5 : lane];
                          }));
  out->push_back(
      WarpCase("shfl.sync.bfly", "shfl.sync.bfly.b32 d0, w0, 9, 31, -1;",
               [](const Words& w, int lane) { return w[lane ^ 9]; }));
  out->push_back(
      WarpCase("shfl.sync.idx",
               "and.b32 t0, w0, 31; shfl.sync.idx.b32 d0, w0, t0, 31, -1;",
               [](const Words& w, int lane) { return w[w[lane] & 31]; }));
  out->push_back(WarpCase("vote.sync.ballot",
                          "and.b32 t0, w0, 1; setp.ne.u32 p, t0, 0;\n"
                          "vote.sync.ballot.b32 d0, p, -1;",
                          [](const Words& w, int) {
                            uint32_t ballot = 0;
                            for (int i = 0; i < 32; ++i)
                              ballot |= (w[i] & 1) << i;
                            return ballot;
                          }));
  out->push_back(WarpCase("match.any.sync",
                          "and.b32 t0, w0, 3; match.any.sync.b32 d0, t0, -1;",
                          [](const Words& w, int lane) {
                            uint32_t same = 0;
                            for (int i = 0; i < 32; ++i) {
                              if ((w[i] & 3) == (w[lane] & 3)) same |= 1u << i;
                            }
                            return same;
                          }));
  out->push_back(WarpCase("match.all.sync",
                          "and.b32 t0, w0, 0; match.all.sync.b32 d0|p, t0, -1;",
                          [](const Words&, int) { return ~0u; }));
  struct Reduction {
    const char* name;
    uint32_t (*f)(uint32_t, uint32_t);
  };
  const Reduction kReductions[] = {
      {"add.u32", [](uint32_t a, uint32_t b) { return a + b; }},
      {"min.s32",
       [](uint32_t a, uint32_t b) {
         return static_cast<int32_t>(a) < static_cast<int32_t>(b) ? a : b;
       }},
      {"max.u32", [](uint32_t a, uint32_t b) { return std::max(a, b); }},
      {"and.b32", [](uint32_t a, uint32_t b) { return a & b; }},
      {"or.b32", [](uint32_t a, uint32_t b) { return a | b; }},
      {"xor.b32", [](uint32_t a, uint32_t b) { return a ^ b; }},
  };
  for (const Reduction& r : kReductions) {
    const std::string opcode = absl::StrCat("redux.sync.", r.name);
    out->push_back(WarpCase(
        opcode, opcode + " d0, w0, -1;",
        [f = r.f](const Words& w, int) {
          uint32_t x = w[0];
          for (int i = 1; i < 32; ++i) x = f(x, w[i]);
          return x;
        },
        80));
  }
}

// One 16-bit element of an atomic: op is a(dd), i (min) or x (max).
uint32_t Combine16(const DataType& type, char op, uint32_t a, uint32_t b) {
  const double x = type.Decode(a), y = type.Decode(b);
  double z = x + y;
  if (op != 'a') {
    if (std::isnan(x)) return std::isnan(y) ? 0x7fff : b;
    if (std::isnan(y)) return a;
    const bool first =
        x == y ? std::signbit(x) == (op == 'i') : (x < y) == (op == 'i');
    return first ? a : b;
  }
  if (std::isnan(z)) return 0x7fff;
  // The sum of two bf16 may not fit a double: what is lost only matters for
  // which side of a tie it is on.
  const double lost = std::abs(x) > std::abs(y) ? y - (z - x) : x - (z - y);
  if (std::isfinite(z) && lost != 0) {
    uint64_t bits = std::bit_cast<uint64_t>(z);
    if ((bits & 1) == 0) bits += (lost > 0) == (z > 0) ? 1 : -1;
    z = std::bit_cast<double>(bits);
  }
  const bool half = type == kFloat16;
  if (std::abs(z) >= (half ? 65520.0 : 0x1.ffp127)) {
    return (half ? 0x7c00 : 0x7f80) | (z < 0 ? 0x8000 : 0);
  }
  return type.Encode(z);
}

// Every lane works on a word of its own, that starts as w0.
void AddAtomics(std::vector<InstructionCase>* out) {
  const std::string shared =
      "shl.b32 t0, lane, 2; add.u32 t0, base, t0; st.shared.b32 [t0], w0;\n";
  const auto add =
      [&](const std::string& opcode, const std::string& more, Compare compare,
          std::function<uint32_t(const uint32_t*)> f, int min_arch = 75) {
        InstructionCase c =
            LaneCase(opcode,
                     absl::StrCat(shared, opcode, " t1, [t0], w1", more,
                                  ";\nld.shared.b32 d0, [t0];"),
                     3, compare, std::move(f), min_arch);
        out->push_back(c);
      };
  add("atom.shared.add.u32", "", Compare::kBits,
      [](const uint32_t* w) { return w[0] + w[1]; });
  add("atom.shared.inc.u32", "", Compare::kBits,
      [](const uint32_t* w) { return w[0] >= w[1] ? 0 : w[0] + 1; });
  add("atom.shared.dec.u32", "", Compare::kBits, [](const uint32_t* w) {
    return w[0] == 0 || w[0] > w[1] ? w[1] : w[0] - 1;
  });
  add("atom.shared.max.s32", "", Compare::kBits, [](const uint32_t* w) {
    return static_cast<uint32_t>(
        std::max(static_cast<int32_t>(w[0]), static_cast<int32_t>(w[1])));
  });
  add("atom.shared.cas.b32", ", w2", Compare::kBits,
      [](const uint32_t* w) { return w[0] == w[1] ? w[2] : w[0]; });
  add("atom.shared.add.noftz.f16x2", "", Compare::kHalves,
      [](const uint32_t* w) {
        uint32_t d = 0;
        for (int i = 0; i < 32; i += 16) {
          const double x = kFloat16.Decode(w[0] >> i & 0xffff) +
                           kFloat16.Decode(w[1] >> i & 0xffff);
          const uint32_t bits = std::isnan(x) ? 0x7fff
                                : std::abs(x) >= 65520.0
                                    ? (x > 0 ? 0x7c00 : 0xfc00)
                                    : kFloat16.Encode(x);
          d |= bits << i;
        }
        return d;
      });
  // All lanes add to one word: the order does not matter.
  InstructionCase sum;
  sum.name = "red.shared.add.u32";
  sum.text =
      "setp.eq.u32 p, lane, 0; @p st.shared.b32 [base], 0; bar.warp.sync -1;\n"
      "red.shared.add.u32 [base], w0; bar.warp.sync -1;\n"
      "ld.shared.b32 d0, [base];";
  sum.generate = RandomWords;
  sum.reference = [](const Words& words, CaseResult& result) {
    uint32_t total = 0;
    for (const uint32_t word : words) total += word;
    std::fill(result.words.begin(), result.words.end(), total);
  };
  out->push_back(sum);
}

// red and atom on vectors: every lane on global memory of its own, the place of
// its outputs, which starts as w0 to w3; w4 to w7 are added.
void AddVectors(std::vector<InstructionCase>* out) {
  struct Form {
    const char* opcode;
    int words;
    bool halves;       // two of 16 bits per word
    const char* type;  // of a register
    int registers;
    char op = 'a';
  };
  static constexpr Form kForms[] = {
      {"red.global.add.f32", 1, false, "b32", 1},
      {"red.global.add.v2.f32", 2, false, "b32", 2},
      {"red.global.add.v4.f32", 4, false, "b32", 4},
      {"red.global.add.noftz.v2.f16x2", 2, true, "b32", 2},
      {"red.global.add.noftz.v4.f16x2", 4, true, "b32", 4},
      {"red.global.add.noftz.v8.f16", 4, true, "b16", 8},
      {"red.global.min.noftz.v4.f16x2", 4, true, "b32", 4, 'i'},
      {"red.global.max.noftz.v4.f16x2", 4, true, "b32", 4, 'x'},
      {"red.global.add.noftz.v4.bf16x2", 4, true, "b32", 4},
      {"red.global.add.noftz.v8.bf16", 4, true, "b16", 8},
  };
  for (const Form& form : kForms) {
    const std::string opcode = form.opcode;
    const bool bfloat = opcode.find("bf16") != std::string::npos;
    InstructionCase c;
    c.name = opcode;
    c.min_arch = form.words == 1 ? 75 : 90;
    c.inputs = 8;
    c.outputs = form.words;
    std::string list;
    for (int i = 0; i < form.words; ++i) {
      absl::StrAppend(&c.text, "st.global.b32 [out+", 4 * i, "], w", i, ";\n");
      if (form.registers > form.words) {
        absl::StrAppend(&c.text, "mov.b32 {h", 2 * i, ", h", 2 * i + 1, "}, w",
                        4 + i, ";\n");
      }
    }
    for (int i = 0; i < form.registers; ++i) {
      absl::StrAppend(&list, i == 0 ? "" : ", ",
                      form.registers > form.words ? "h" : "w",
                      form.registers > form.words ? i : 4 + i);
    }
    absl::StrAppend(&c.text, opcode, " [out], ",
                    form.registers == 1 ? list : "{" + list + "}", ";\n");
    for (int i = 0; i < form.words; ++i) {
      absl::StrAppend(&c.text, "ld.relaxed.gpu.global.b32 d", i, ", [out+",
                      4 * i, "];\n");
    }
    c.compare = !form.halves ? Compare::kFloat
                : bfloat     ? Compare::kBFloats
                             : Compare::kHalves;
    c.generate = MixedWords;
    c.reference = PerLane(8, form.words, [=](const uint32_t* w, uint32_t* d) {
      for (int i = 0; i < form.words; ++i) {
        const uint32_t a = w[i], b = w[4 + i];
        if (!form.halves) {
          // f32 in global memory flushes subnormals.
          const auto flush = [](float x) {
            return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x)
                                                      : x;
          };
          d[i] = std::bit_cast<uint32_t>(flush(flush(std::bit_cast<float>(a)) +
                                               flush(std::bit_cast<float>(b))));
          continue;
        }
        d[i] = 0;
        for (int at = 0; at < 32; at += 16) {
          d[i] |= Combine16(bfloat ? kBfloat16 : kFloat16, form.op,
                            a >> at & 0xffff, b >> at & 0xffff)
                  << at;
        }
      }
    });
    out->push_back(c);
  }
  InstructionCase quad;
  quad.name = "atom.global.cas.b128";
  quad.min_arch = 90;
  quad.inputs = 8;
  quad.outputs = 4;
  // Lanes with an even w7 compare equal.
  quad.text =
      ".reg .b128 qa, qb, qc, qd;\n"
      "st.global.v4.b32 [out], {w0, w1, w2, w3};\n"
      "mov.b64 x0, {w0, w1}; mov.b64 x1, {w2, w3};\n"
      "and.b32 t0, w7, 1; xor.b32 t1, w3, t0; mov.b64 x2, {w2, t1};\n"
      "mov.b64 x3, {w4, w5}; mov.b64 x4, {w6, w7};\n"
      "mov.b128 qb, {x0, x2}; mov.b128 qc, {x3, x4};\n"
      "atom.global.cas.b128 qd, [out], qb, qc;\n"
      "mov.b128 {x5, x6}, qd;\n"
      "mov.b64 {d0, d1}, x5; ld.relaxed.gpu.global.b32 d2, [out+8];\n"
      "ld.relaxed.gpu.global.b32 d3, [out+12];";
  quad.generate = RandomWords;
  quad.reference = PerLane(8, 4, [](const uint32_t* w, uint32_t* d) {
    const bool equal = (w[7] & 1) == 0;
    d[0] = w[0];
    d[1] = w[1];
    d[2] = equal ? w[6] : w[2];
    d[3] = equal ? w[7] : w[3];
  });
  out->push_back(quad);
}

void AddCluster(std::vector<InstructionCase>* out) {
  InstructionCase c;
  c.name = "ld.shared::cluster";
  c.min_arch = 90;
  c.cluster = 2;
  c.text =
      "shl.b32 t0, lane, 2; add.u32 t0, base, t0; st.shared.b32 [t0], w0;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "mov.u32 t1, %cluster_ctarank; xor.b32 t1, t1, 1;\n"
      "mapa.shared::cluster.u32 t2, t0, t1;\n"
      "ld.shared::cluster.u32 d0, [t2];\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
  c.generate = RandomWords;
  c.reference = [](const Words& words, CaseResult& result) {
    for (int i = 0; i < 64; ++i) result.words[i] = words[i ^ 32];
  };
  out->push_back(c);
  c.name = "red.shared::cluster.add.u32";
  c.text =
      "shl.b32 t0, lane, 2; add.u32 t0, base, t0; st.shared.b32 [t0], w0;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "mapa.shared::cluster.u32 t2, t0, 0;\n"
      "red.shared::cluster.add.u32 [t2], w0;\n"
      "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
      "ld.shared.u32 d0, [t0];";
  c.reference = [](const Words& words, CaseResult& result) {
    for (int i = 0; i < 32; ++i) {
      result.words[i] = 2 * words[i] + words[i + 32];
      result.words[i + 32] = words[i + 32];
    }
  };
  out->push_back(c);
}

}  // namespace

void AddWarpCases(std::vector<InstructionCase>* out) {
  AddShuffles(out);
  AddAtomics(out);
  AddVectors(out);
  AddCluster(out);
}

}  // namespace hone::emulator
