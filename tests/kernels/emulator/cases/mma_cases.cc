// mma.sync: matrices drawn as matrices, laid into fragments by the formulas of
// the PTX ISA's section on each shape, multiplied in double.
//
// Even rounds hold small integers, whose sums are exact in every accumulator:
// there hardware must agree to the bit, layouts included. Odd rounds hold
// normal values.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "kernels/config/data_type.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

namespace hone::emulator {
namespace {

struct Element {
  const char* name;
  DataType type;
  int bits;       // of its container in a register
  int shift = 0;  // of the value in the container
};

const Element kF16 = {"f16", kFloat16, 16};
const Element kBF16 = {"bf16", kBfloat16, 16};
const Element kE4M3 = {"e4m3", kFloat8e4m3, 8};
const Element kE5M2 = {"e5m2", kFloat8e5m2, 8};
const Element kE3M2 = {"e3m2", DataType::Float(3, 2), 8};
const Element kE2M3 = {"e2m3", DataType::Float(2, 3), 8};
const Element kE2M1In8 = {"e2m1", kFloat4e2m1, 8, 2};
const Element kE2M1 = {"e2m1", kFloat4e2m1, 4};
const Element kS8 = {"s8", kInt8, 8};
const Element kU8 = {"u8", DataType::Uint(8), 8};
const Element kS4 = {"s4", kInt4, 4};
const Element kU4 = {"u4", DataType::Uint(4), 4};

struct Position {
  int row, column;
};

// Element i of a lane's fragment, as the ISA lists them for the larger shape of
// each width (k16, k32, k64); the smaller one has the first half of them.
Position InA(int lane, int i, int bits, int rows) {
  const int group = lane >> 2, in_group = lane % 4;
  if (rows == 8) return {group, in_group * (32 / bits) + i};
  switch (bits) {
    case 16:
      return {i < 2 || (i >= 4 && i < 6) ? group : group + 8,
              in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
    case 8:
      return {i < 4 || (i >= 8 && i < 12) ? group : group + 8,
              in_group * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
    default:
      return {i < 8 || (i >= 16 && i < 24) ? group : group + 8,
              in_group * 8 + (i & 7) + (i >= 16 ? 32 : 0)};
  }
}
Position InB(int lane, int i, int bits) {
  const int group = lane >> 2, in_group = lane % 4;
  switch (bits) {
    case 16:
      return {in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0), group};
    case 8:
      return {in_group * 4 + (i & 3) + (i >= 4 ? 16 : 0), group};
    default:
      return {in_group * 8 + (i & 7) + (i >= 8 ? 32 : 0), group};
  }
}
Position InC(int lane, int i) {
  return {(lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)};
}

struct Mma {
  int rows = 16, k = 16;
  Element a, b;
  std::string accumulator = "f32";
  bool saturates = false;
  std::string kind;   // ".kind::..." with the block scale's qualifiers
  int scales = 0;     // per row
  std::string stype;  // ".ue8m0"
  int byte_a = 0, thread_a = 0, byte_b = 0, thread_b = 0;

  bool integer() const { return accumulator == "s32"; }
  int a_words() const { return rows * k * a.bits / 32 / 32; }
  int b_words() const { return 8 * k * b.bits / 32 / 32; }
  int c_words() const { return accumulator == "f16" ? 2 : rows * 8 / 32; }
  int inputs() const {
    return a_words() + b_words() + c_words() + (scales != 0 ? 2 : 0);
  }
};

uint32_t RandomElement(const Element& e, std::mt19937_64& random, bool small) {
  uint32_t code;
  if (e.type.is_integer()) {
    code = static_cast<uint32_t>(random()) & ((1u << e.type.bits()) - 1);
  } else if (small) {
    code = e.type.Encode(static_cast<double>(random() % 5) - 2);
  } else {
    code = e.type.Encode(std::normal_distribution<double>()(random));
  }
  return code << e.shift;
}

void Generate(const Mma& mma, std::mt19937_64& random, int round,
              std::vector<uint32_t>& words) {
  const bool small = round % 2 == 0;
  const int inputs = mma.inputs();
  for (int lane = 0; lane < 32; ++lane) {
    uint32_t* w = &words[lane * inputs];
    const auto fill = [&](const Element& e, int count) {
      for (; count > 0; --count, ++w) {
        *w = 0;
        for (int at = 0; at < 32; at += e.bits) {
          *w |= RandomElement(e, random, small) << at;
        }
      }
    };
    fill(mma.a, mma.a_words());
    fill(mma.b, mma.b_words());
    std::normal_distribution<float> normal;
    for (int i = 0; i < mma.c_words(); ++i, ++w) {
      const float x =
          small ? static_cast<float>(random() % 17) - 8 : normal(random);
      if (mma.accumulator == "f32") {
        *w = std::bit_cast<uint32_t>(x);
      } else if (mma.accumulator == "f16") {
        *w = kFloat16.Encode(x) * 0x10001u;
      } else if (mma.saturates) {
        *w = random() % 2 == 0 ? 0x7fffff00u : 0x80000100u;
      } else {
        *w = static_cast<uint32_t>(random());
      }
    }
    if (mma.scales != 0) {
      for (int i = 0; i < 2; ++i, ++w) {
        *w = 0;
        for (int at = 0; at < 32; at += 8) {
          const uint32_t code = mma.stype == ".ue8m0" ? 124 + random() % 7
                                                      : 0x28 + random() % 0x20;
          *w |= code << at;
        }
      }
    }
  }
}

double ScaleOf(const Mma& mma, uint32_t word, int byte) {
  const uint32_t code = word >> 8 * byte & 0xff;
  return mma.stype == ".ue8m0" ? std::ldexp(1.0, static_cast<int>(code) - 127)
                               : kFloat8e4m3.Decode(code);
}

void Multiply(const Mma& mma, const std::vector<uint32_t>& words,
              CaseResult& result) {
  const int inputs = mma.inputs(), c_words = mma.c_words();
  const int at_b = mma.a_words(), at_c = at_b + mma.b_words();
  const int at_scales = at_c + c_words;
  const auto value = [&](const Element& e, int lane, int at, int i) {
    const int per_word = 32 / e.bits;
    const uint32_t code =
        words[lane * inputs + at + i / per_word] >> e.bits * (i % per_word);
    return e.type.Decode(code >> e.shift & ((1u << e.type.bits()) - 1));
  };
  double a[16][64], b[64][8];
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < mma.a_words() * 32 / mma.a.bits; ++i) {
      const Position p = InA(lane, i, mma.a.bits, mma.rows);
      a[p.row][p.column] = value(mma.a, lane, 0, i);
    }
    for (int i = 0; i < mma.b_words() * 32 / mma.b.bits; ++i) {
      const Position p = InB(lane, i, mma.b.bits);
      b[p.row][p.column] = value(mma.b, lane, at_b, i);
    }
  }
  if (mma.scales != 0) {
    const int chunk = mma.k / mma.scales;
    // The lanes that hold scales: of A, two of a quad, for rows g and g + 8; of
    // B, one.
    for (int lane = 0; lane < 32; ++lane) {
      const int quad = lane / 4, in_quad = lane % 4;
      for (int k = 0; k < mma.k; ++k) {
        if (in_quad / 2 == mma.thread_a) {
          a[quad + 8 * (in_quad % 2)][k] *= ScaleOf(
              mma, words[lane * inputs + at_scales], mma.byte_a + k / chunk);
        }
        if (in_quad == mma.thread_b) {
          b[k][quad] *= ScaleOf(mma, words[lane * inputs + at_scales + 1],
                                mma.byte_b + k / chunk);
        }
      }
    }
  }
  result.magnitude.assign(result.words.size(), 0);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < mma.rows / 4; ++i) {
      const Position p = InC(lane, i);
      double sum = 0, magnitude = 0;
      for (int k = 0; k < mma.k; ++k) {
        sum += a[p.row][k] * b[k][p.column];
        magnitude += std::abs(a[p.row][k] * b[k][p.column]);
      }
      if (mma.accumulator == "f16") {
        const int word = lane * c_words + i / 2, shift = 16 * (i % 2);
        const double c = kFloat16.Decode(
            words[lane * inputs + at_c + i / 2] >> shift & 0xffff);
        result.words[word] |= kFloat16.Encode(sum + c) << shift;
        result.magnitude[word] =
            std::max(result.magnitude[word], magnitude + std::abs(c));
        continue;
      }
      const uint32_t c = words[lane * inputs + at_c + i];
      uint32_t& d = result.words[lane * c_words + i];
      if (mma.integer()) {
        // Exact: below 2^53.
        int64_t exact = static_cast<int64_t>(sum) + static_cast<int32_t>(c);
        if (mma.saturates) {
          exact = std::clamp<int64_t>(exact, INT32_MIN, INT32_MAX);
        }
        d = static_cast<uint32_t>(exact);
      } else {
        const double c_value = std::bit_cast<float>(c);
        d = std::bit_cast<uint32_t>(static_cast<float>(sum + c_value));
        result.magnitude[lane * c_words + i] = magnitude + std::abs(c_value);
      }
    }
  }
}

std::string List(const char* name, int first, int count) {
  std::string out = "{";
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ", ", name, first + i);
  }
  return out + "}";
}

InstructionCase MakeCase(const Mma& mma, int min_arch,
                         std::vector<int> only = {}) {
  InstructionCase c;
  const std::string types =
      absl::StrCat(".", mma.accumulator, ".", mma.a.name, ".", mma.b.name, ".",
                   mma.accumulator, mma.stype);
  const std::string opcode =
      absl::StrCat("mma.sync.aligned.m", mma.rows, "n8k", mma.k, ".row.col",
                   mma.kind, mma.saturates ? ".satfinite" : "", types);
  c.name = opcode;
  if (mma.scales != 0) {
    absl::StrAppend(&c.name, " {", mma.byte_a, ",", mma.thread_a, "} {",
                    mma.byte_b, ",", mma.thread_b, "}");
  }
  c.min_arch = min_arch;
  c.only = std::move(only);
  const int a = mma.a_words(), b = mma.b_words(), n = mma.c_words();
  c.inputs = mma.inputs();
  c.outputs = n;
  c.text = absl::StrCat(opcode, " ", List("d", 0, n), ", ", List("w", 0, a),
                        ", ", List("w", a, b), ", ", List("w", a + b, n));
  if (mma.scales != 0) {
    absl::StrAppend(&c.text, ", w", a + b + n, ", {", mma.byte_a, ", ",
                    mma.thread_a, "}, w", a + b + n + 1, ", {", mma.byte_b,
                    ", ", mma.thread_b, "}");
  }
  c.text += ";";
  if (!mma.integer()) {
    const bool half = mma.accumulator == "f16";
    c.compare = half ? Compare::kNearHalves : Compare::kNearFloat;
    // The emulator rounds once. Hardware aligns the products to the greatest
    // and cuts bits off: at least 23 below its leading one with 16-bit
    // operands, as few as 13 with narrower ones on some chips; f16
    // accumulators may be rounded once per half of k.
    c.emulator_bound = half ? 0x1p-11 : 0x1p-23;
    c.exact_even_rounds = true;
    c.device_bound = (mma.k + 8) * (mma.a.bits == 16 ? 0x1p-23 : 0x1p-13) +
                     (half ? 0x1p-9 : 0.0);
  }
  c.generate = [mma](std::mt19937_64& random, int round,
                     std::vector<uint32_t>& words) {
    Generate(mma, random, round, words);
  };
  c.reference = [mma](const std::vector<uint32_t>& words, CaseResult& result) {
    Multiply(mma, words, result);
  };
  return c;
}

}  // namespace

void AddMmaCases(std::vector<InstructionCase>* out) {
  const auto add = [out](int rows, int k, const Element& a, const Element& b,
                         const std::string& accumulator, int min_arch,
                         bool saturates = false) {
    Mma mma;
    mma.rows = rows;
    mma.k = k;
    mma.a = a;
    mma.b = b;
    mma.accumulator = accumulator;
    mma.saturates = saturates;
    out->push_back(MakeCase(mma, min_arch));
  };
  for (const char* accumulator : {"f32", "f16"}) {
    add(16, 8, kF16, kF16, accumulator, 75);
    add(16, 16, kF16, kF16, accumulator, 80);
    for (const Element& a : {kE4M3, kE5M2}) {
      for (const Element& b : {kE4M3, kE5M2}) {
        add(16, 16, a, b, accumulator, 89);
        add(16, 32, a, b, accumulator, 89);
      }
    }
  }
  add(16, 8, kBF16, kBF16, "f32", 80);
  add(16, 16, kBF16, kBF16, "f32", 80);
  for (const bool saturates : {false, true}) {
    for (const Element& a : {kS8, kU8}) {
      for (const Element& b : {kS8, kU8}) {
        add(8, 16, a, b, "s32", 75, saturates);
        add(16, 16, a, b, "s32", 80, saturates);
        add(16, 32, a, b, "s32", 80, saturates);
      }
    }
    for (const Element& a : {kS4, kU4}) {
      for (const Element& b : {kS4, kU4}) {
        add(8, 32, a, b, "s32", 75, saturates);
        add(16, 32, a, b, "s32", 80, saturates);
        add(16, 64, a, b, "s32", 80, saturates);
      }
    }
  }
  for (const Element& a : {kE4M3, kE5M2, kE3M2, kE2M3, kE2M1In8}) {
    for (const Element& b : {kE4M3, kE5M2, kE3M2, kE2M3, kE2M1In8}) {
      Mma mma;
      mma.k = 32;
      mma.a = a;
      mma.b = b;
      for (const char* accumulator : {"f32", "f16"}) {
        mma.kind = ".kind::f8f6f4";
        mma.accumulator = accumulator;
        out->push_back(MakeCase(mma, 120, {120}));
      }
      mma.kind = ".kind::mxf8f6f4.block_scale.scale_vec::1X";
      mma.accumulator = "f32";
      mma.scales = 1;
      mma.stype = ".ue8m0";
      mma.byte_a = 3;
      mma.thread_a = 1;
      mma.byte_b = 1;
      mma.thread_b = 2;
      out->push_back(MakeCase(mma, 120, {120}));
    }
  }
  Mma mma;
  mma.k = 64;
  mma.a = mma.b = kE2M1;
  mma.kind = ".kind::mxf4.block_scale.scale_vec::2X";
  mma.scales = 2;
  mma.stype = ".ue8m0";
  mma.byte_b = 2;
  mma.thread_b = 3;
  out->push_back(MakeCase(mma, 120, {120}));
  mma.kind = ".kind::mxf4nvf4.block_scale.scale_vec::2X";
  out->push_back(MakeCase(mma, 120, {120}));
  mma.kind = ".kind::mxf4nvf4.block_scale.scale_vec::4X";
  mma.scales = 4;
  mma.stype = ".ue4m3";
  mma.byte_b = 0;
  mma.thread_a = 1;
  out->push_back(MakeCase(mma, 120, {120}));
}

}  // namespace hone::emulator
