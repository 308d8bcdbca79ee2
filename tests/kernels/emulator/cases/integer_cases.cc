// Integer instructions that dequantization is made of.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

namespace hone::emulator {
namespace {

uint32_t Byte(uint32_t x, int i) { return x >> 8 * i & 0xff; }
int64_t Signed(uint32_t x, int bits) {
  return static_cast<int32_t>(x << (32 - bits)) >> (32 - bits);
}
int64_t Extend(uint32_t x, int bits, bool is_signed) {
  return is_signed ? Signed(x, bits)
                   : static_cast<int64_t>(x & ((uint64_t{1} << bits) - 1));
}

void AddPermutes(std::vector<InstructionCase>* out) {
  InstructionCase c = LaneCase(
      "prmt.b32", "prmt.b32 d0, w0, w1, w2;", 3, Compare::kBits,
      [](const uint32_t* w) {
        uint32_t d = 0;
        for (int i = 0; i < 4; ++i) {
          const uint32_t selector = w[2] >> 4 * i & 15;
          uint32_t byte = Byte((selector & 7) < 4 ? w[0] : w[1], selector & 3);
          if (selector >= 8) byte = byte >= 0x80 ? 0xff : 0;
          d |= byte << 8 * i;
        }
        return d;
      });
  c.generate = RandomWords;
  out->push_back(c);
  // For each mode and selector, the source bytes from the lowest result byte.
  struct Mode {
    const char* name;
    int bytes[4][4];
  };
  static constexpr Mode kModes[] = {
      {"f4e", {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}},
      {"b4e", {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}},
      {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
      {"ecl", {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}},
      {"ecr", {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}},
      {"rc16", {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}}};
  for (const Mode& mode : kModes) {
    const std::string opcode = absl::StrCat("prmt.b32.", mode.name);
    InstructionCase m = LaneCase(opcode, opcode + " d0, w0, w1, w2;", 3,
                                 Compare::kBits, [&mode](const uint32_t* w) {
                                   uint32_t d = 0;
                                   for (int i = 0; i < 4; ++i) {
                                     const int byte = mode.bytes[w[2] & 3][i];
                                     d |= Byte(byte < 4 ? w[0] : w[1], byte & 3)
                                          << 8 * i;
                                   }
                                   return d;
                                 });
    m.generate = RandomWords;
    out->push_back(m);
  }
}

void AddLogic(std::vector<InstructionCase>* out) {
  for (const int table : {0x01, 0x6a, 0x96, 0xca, 0xe8, 0xea, 0xfe}) {
    InstructionCase c =
        LaneCase(absl::StrCat("lop3.b32 ", table),
                 absl::StrCat("lop3.b32 d0, w0, w1, w2, ", table, ";"), 3,
                 Compare::kBits, [table](const uint32_t* w) {
                   uint32_t d = 0;
                   for (int b = 0; b < 32; ++b) {
                     const int index = (w[0] >> b & 1) << 2 |
                                       (w[1] >> b & 1) << 1 | (w[2] >> b & 1);
                     d |= static_cast<uint32_t>(table >> index & 1) << b;
                   }
                   return d;
                 });
    c.generate = RandomWords;
    out->push_back(c);
  }
  for (const bool is_signed : {false, true}) {
    const std::string opcode = is_signed ? "bfe.s32" : "bfe.u32";
    out->push_back(LaneCase(opcode, opcode + " d0, w0, w1, w2;", 3,
                            Compare::kBits, [is_signed](const uint32_t* w) {
                              const int pos = w[1] & 0xff, len = w[2] & 0xff;
                              const uint32_t sign =
                                  is_signed && len != 0
                                      ? w[0] >> std::min(pos + len - 1, 31) & 1
                                      : 0;
                              uint32_t d = 0;
                              for (int i = 0; i < 32; ++i) {
                                const uint32_t bit = i < len && pos + i < 32
                                                         ? w[0] >> (pos + i) & 1
                                                         : sign;
                                d |= bit << i;
                              }
                              return d;
                            }));
  }
  out->push_back(LaneCase("bfi.b32", "bfi.b32 d0, w0, w1, w2, w3;", 4,
                          Compare::kBits, [](const uint32_t* w) {
                            const int pos = w[2] & 0xff, len = w[3] & 0xff;
                            uint32_t d = w[1];
                            for (int i = 0; i < len && pos + i < 32; ++i) {
                              d = (d & ~(1u << (pos + i))) | (w[0] >> i & 1)
                                                                 << (pos + i);
                            }
                            return d;
                          }));
  out->push_back(LaneCase("shf.l.wrap.b32", "shf.l.wrap.b32 d0, w0, w1, w2;", 3,
                          Compare::kBits, [](const uint32_t* w) {
                            const int n = w[2] & 31;
                            return n == 0 ? w[1] : w[1] << n | w[0] >> (32 - n);
                          }));
  out->push_back(LaneCase("brev.b32", "brev.b32 d0, w0;", 1, Compare::kBits,
                          [](const uint32_t* w) {
                            uint32_t d = 0;
                            for (int i = 0; i < 32; ++i) {
                              d |= (w[0] >> i & 1) << (31 - i);
                            }
                            return d;
                          }));
}

void AddProducts(std::vector<InstructionCase>* out) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const std::string types =
          absl::StrCat(a ? ".s32" : ".u32", b ? ".s32" : ".u32");
      out->push_back(LaneCase(
          "dp4a" + types, absl::StrCat("dp4a", types, " d0, w0, w1, w2;"), 3,
          Compare::kBits, [=](const uint32_t* w) {
            int64_t sum = w[2];
            for (int i = 0; i < 4; ++i) {
              sum += Extend(Byte(w[0], i), 8, a) * Extend(Byte(w[1], i), 8, b);
            }
            return static_cast<uint32_t>(sum);
          }));
      for (const bool high : {false, true}) {
        const std::string opcode =
            absl::StrCat("dp2a.", high ? "hi" : "lo", types);
        out->push_back(
            LaneCase(opcode, opcode + " d0, w0, w1, w2;", 3, Compare::kBits,
                     [=](const uint32_t* w) {
                       int64_t sum = w[2];
                       for (int i = 0; i < 2; ++i) {
                         sum += Extend(w[0] >> 16 * i & 0xffff, 16, a) *
                                Extend(Byte(w[1], i + (high ? 2 : 0)), 8, b);
                       }
                       return static_cast<uint32_t>(sum);
                     }));
      }
      for (const bool sum : {false, true}) {
        const std::string opcode =
            absl::StrCat("vabsdiff4.u32", types, sum ? ".add" : "");
        out->push_back(LaneCase(opcode, opcode + " d0, w0, w1, w2;", 3,
                                Compare::kBits, [=](const uint32_t* w) {
                                  uint32_t d = sum ? w[2] : 0;
                                  for (int i = 0; i < 4; ++i) {
                                    const uint32_t x = static_cast<uint32_t>(
                                        std::abs(Extend(Byte(w[0], i), 8, a) -
                                                 Extend(Byte(w[1], i), 8, b)));
                                    d += sum ? x : (x & 0xff) << 8 * i;
                                  }
                                  return d;
                                }));
        // Mixed signs exist in PTX, but nothing emits them.
        if (a != b) out->pop_back();
      }
    }
  }
}

void AddPairs(std::vector<InstructionCase>* out) {
  for (const bool is_signed : {false, true}) {
    for (const char* op : {"add", "min", "max", "min.relu", "max.relu"}) {
      const std::string name = op;
      if (!is_signed && name.size() > 3) continue;
      const std::string opcode =
          absl::StrCat(op, is_signed ? ".s16x2" : ".u16x2");
      out->push_back(LaneCase(
          opcode, opcode + " d0, w0, w1;", 2, Compare::kBits,
          [=](const uint32_t* w) {
            uint32_t d = 0;
            for (int i = 0; i < 32; i += 16) {
              const int64_t x = Extend(w[0] >> i & 0xffff, 16, is_signed);
              const int64_t y = Extend(w[1] >> i & 0xffff, 16, is_signed);
              int64_t z = name == "add"    ? x + y
                          : name[1] == 'i' ? std::min(x, y)
                                           : std::max(x, y);
              if (name.size() > 3) z = std::max<int64_t>(z, 0);
              d |= (static_cast<uint32_t>(z) & 0xffff) << i;
            }
            return d;
          },
          90));
    }
  }
  out->push_back(LaneCase(
      "max.relu.s32", "max.relu.s32 d0, w0, w1;", 2, Compare::kBits,
      [](const uint32_t* w) {
        return static_cast<uint32_t>(std::max(
            {static_cast<int32_t>(w[0]), static_cast<int32_t>(w[1]), 0}));
      },
      90));
  out->push_back(LaneCase("sad.u32", "sad.u32 d0, w0, w1, w2;", 3,
                          Compare::kBits, [](const uint32_t* w) {
                            return w[2] +
                                   (w[0] > w[1] ? w[0] - w[1] : w[1] - w[0]);
                          }));
}

// Sums and products of more words than a register has, by the carry flag.
void AddCarries(std::vector<InstructionCase>* out) {
  using U128 = unsigned __int128;
  const auto add = [out](const std::string& name, const std::string& text,
                         int inputs, int outputs,
                         std::function<void(const uint32_t*, uint32_t*)> f) {
    InstructionCase c;
    c.name = name;
    c.text = text;
    c.inputs = inputs;
    c.outputs = outputs;
    c.generate = MixedWords;
    c.reference = PerLane(inputs, outputs, std::move(f));
    out->push_back(c);
  };
  const auto wide = [](const uint32_t* w, int words) {
    U128 x = 0;
    for (int i = words - 1; i >= 0; --i) x = x << 32 | w[i];
    return x;
  };
  const auto put = [](U128 x, int words, uint32_t* d) {
    for (int i = 0; i < words; ++i) d[i] = static_cast<uint32_t>(x >> 32 * i);
  };
  // The last word holds the carry out.
  add("add.cc.u32 addc.cc.u32 addc.u32",
      "add.cc.u32 d0, w0, w3; addc.cc.u32 d1, w1, w4; "
      "addc.cc.u32 d2, w2, w5; addc.u32 d3, 0, 0;",
      6, 4, [=](const uint32_t* w, uint32_t* d) {
        put(wide(w, 3) + wide(w + 3, 3), 4, d);
      });
  // The last word is all ones after a borrow.
  add("sub.cc.s32 subc.cc.s32 subc.s32",
      "sub.cc.s32 d0, w0, w3; subc.cc.s32 d1, w1, w4; "
      "subc.cc.s32 d2, w2, w5; subc.s32 d3, 0, 0;",
      6, 4, [=](const uint32_t* w, uint32_t* d) {
        put(wide(w, 3) - wide(w + 3, 3), 4, d);
      });
  add("add.cc.u64 addc.u64",
      "mov.b64 x0, {w0, w1}; mov.b64 x1, {w2, w3}; mov.b64 x2, {w4, w5}; "
      "mov.b64 x3, {w6, w7}; add.cc.u64 x0, x0, x2; addc.u64 x1, x1, x3; "
      "mov.b64 {d0, d1}, x0; mov.b64 {d2, d3}, x1;",
      8, 4, [=](const uint32_t* w, uint32_t* d) {
        put(wide(w, 4) + wide(w + 4, 4), 4, d);
      });
  add("mad.lo.cc.u32 madc.hi.cc.u32 addc.u32",
      "mad.lo.cc.u32 d0, w0, w1, w2; madc.hi.cc.u32 d1, w0, w1, w3; "
      "addc.u32 d2, 0, 0;",
      4, 3, [=](const uint32_t* w, uint32_t* d) {
        put(U128{uint64_t{w[0]} * w[1]} + wide(w + 2, 2), 3, d);
      });
  // The high half of a signed product.
  add("mad.lo.cc.s32 madc.hi.s32",
      "mad.lo.cc.s32 d0, w0, w1, w2; madc.hi.s32 d1, w0, w1, w3;", 4, 2,
      [=](const uint32_t* w, uint32_t* d) {
        const int64_t product =
            int64_t{static_cast<int32_t>(w[0])} * static_cast<int32_t>(w[1]);
        put(static_cast<uint64_t>(product) + wide(w + 2, 2), 2, d);
      });
}

}  // namespace

void AddIntegerCases(std::vector<InstructionCase>* out) {
  AddCarries(out);
  AddPermutes(out);
  AddLogic(out);
  AddProducts(out);
  AddPairs(out);
}

}  // namespace hone::emulator
