// mma.sync, ldmatrix and stmatrix against scalar references. The fragment
// layouts here are written as the PTX ISA states them: element i of a lane.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {
namespace {

// One warp: loads `in` words per lane, runs the text on w0, w1, ..., stores
// `out` words d0, d1, ... per lane.
std::vector<uint32_t> RunWarp(const std::string& text, int in, int out,
                              std::vector<uint32_t> words) {
  std::string ptx = absl::StrCat(
      ".version 9.0\n.target sm_90a\n.address_size 64\n"
      ".visible .entry k(.param .u64 pa, .param .u64 pc)\n{\n"
      ".shared .align 16 .b8 tile[2048];\n"
      ".reg .b32 w<16>; .reg .b32 d<8>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
      "ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pc];\n"
      "mov.u32 %r1, %tid.x;\n"
      "mad.wide.u32 %rd3, %r1, ",
      4 * in,
      ", %rd1;\n"
      "mad.wide.u32 %rd4, %r1, ",
      4 * out, ", %rd2;\n");
  for (int i = 0; i < in; ++i) {
    absl::StrAppend(&ptx, "ld.global.u32 w", i, ", [%rd3+", 4 * i, "];\n");
  }
  absl::StrAppend(&ptx, text, "\n");
  for (int i = 0; i < out; ++i) {
    absl::StrAppend(&ptx, "st.global.u32 [%rd4+", 4 * i, "], d", i, ";\n");
  }
  absl::StrAppend(&ptx, "ret;\n}\n");
  const Module module = MustParse(ptx);
  std::vector<uint32_t> result(32 * out);
  const auto stats =
      RunPlan(module, PlanFor("k", {1, 1, 1}, {32, 1, 1}), words, result);
  EXPECT_TRUE(stats.ok()) << stats.status();
  return result;
}

struct Position {
  int row, column;
};

// Element i of a lane's fragment, as the ISA lists them.
Position InA16(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  const bool upper = i < 2 || (i >= 4 && i < 6);
  return {upper ? group : group + 8, in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Position InB16(int lane, int i) {
  return {lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane >> 2};
}
Position InC(int lane, int i) {
  return {(lane >> 2) + (i < 2 ? 0 : 8), lane % 4 * 2 + (i & 1)};
}
Position InA8(int lane, int i) {
  const bool upper = i < 4 || (i >= 8 && i < 12);
  return {upper ? lane >> 2 : (lane >> 2) + 8,
          lane % 4 * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
}
Position InB8(int lane, int i) {
  return {lane % 4 * 4 + (i & 3) + (i >= 4 ? 16 : 0), lane >> 2};
}

std::string MmaText(const std::string& name, int a, int b, int c) {
  const auto list = [](const char* name, int first, int count) {
    std::string out = "{";
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&out, i == 0 ? "" : ", ", name, first + i);
    }
    return out + "}";
  };
  return absl::StrCat(name, " ", list("d", 0, c), ", ", list("w", 0, a), ", ",
                      list("w", a, b), ", ", list("w", a + b, c), ";");
}

template <typename Format>
void CheckFloat(const std::string& type, int k, bool half_accumulator) {
  const std::string accumulator = half_accumulator ? "f16" : "f32";
  SCOPED_TRACE(absl::StrCat(type, " k", k, " ", accumulator));
  std::mt19937 random(k);
  std::normal_distribution<float> normal;
  double a[16][16], b[16][8];
  float c[16][8];
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      a[i][j] = Decode16<Format>(Encode16<Format>(normal(random)));
      if (j < 8) {
        b[i][j] = Decode16<Format>(Encode16<Format>(normal(random)));
        c[i][j] = normal(random);
        if (half_accumulator) c[i][j] = Decode16<Half>(Encode16<Half>(c[i][j]));
      }
    }
  }
  const int a_words = k / 4, b_words = k / 8,
            c_words = half_accumulator ? 2 : 4;
  const int in = a_words + b_words + c_words;
  std::vector<uint32_t> words(32 * in, 0);
  for (int lane = 0; lane < 32; ++lane) {
    uint32_t* w = &words[lane * in];
    for (int i = 0; i < 2 * a_words; ++i) {
      const Position p = InA16(lane, i);
      w[i / 2] |= uint32_t{Encode16<Format>(a[p.row][p.column])}
                  << 16 * (i % 2);
    }
    for (int i = 0; i < 2 * b_words; ++i) {
      const Position p = InB16(lane, i);
      w[a_words + i / 2] |= uint32_t{Encode16<Format>(b[p.row][p.column])}
                            << 16 * (i % 2);
    }
    for (int i = 0; i < 4; ++i) {
      const Position p = InC(lane, i);
      if (half_accumulator) {
        w[a_words + b_words + i / 2] |=
            uint32_t{Encode16<Half>(c[p.row][p.column])} << 16 * (i % 2);
      } else {
        w[a_words + b_words + i] = std::bit_cast<uint32_t>(c[p.row][p.column]);
      }
    }
  }
  const auto d = RunWarp(
      MmaText(absl::StrCat("mma.sync.aligned.m16n8k", k, ".row.col.",
                           accumulator, ".", type, ".", type, ".", accumulator),
              a_words, b_words, c_words),
      in, c_words, words);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const Position p = InC(lane, i);
      double want = c[p.row][p.column];
      for (int j = 0; j < k; ++j) want += a[p.row][j] * b[j][p.column];
      if (half_accumulator) {
        const float got = Decode16<Half>(
            static_cast<uint16_t>(d[lane * 2 + i / 2] >> 16 * (i % 2)));
        ASSERT_NEAR(got, want, std::abs(want) * 0x1p-10 + 0x1p-24);
      } else {
        ASSERT_NEAR(std::bit_cast<float>(d[lane * 4 + i]), want,
                    std::abs(want) * 0x1p-23 + 1e-12);
      }
    }
  }
}

TEST(MmaTest, FloatingPoint) {
  CheckFloat<Half>("f16", 16, false);
  CheckFloat<Half>("f16", 8, false);
  CheckFloat<Half>("f16", 16, true);
  CheckFloat<Half>("f16", 8, true);
  CheckFloat<BFloat>("bf16", 16, false);
  CheckFloat<BFloat>("bf16", 8, false);
}

void CheckInteger(int k, bool a_signed, bool b_signed, bool saturate) {
  std::mt19937 random(k);
  int a[16][32], b[32][8], c[16][8];
  const auto draw = [&](bool is_signed) {
    return static_cast<int>(random() % 256) - (is_signed ? 128 : 0);
  };
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 32; ++j) a[i][j] = draw(a_signed);
    for (int j = 0; j < 8; ++j) {
      c[i][j] = saturate ? (j % 2 == 0 ? INT32_MAX - 5 : INT32_MIN + 5)
                         : static_cast<int>(random() % 1000);
    }
  }
  for (auto& row : b) {
    for (int& x : row) x = draw(b_signed);
  }
  const int a_words = k / 8, b_words = k / 16;
  const int in = a_words + b_words + 4;
  std::vector<uint32_t> words(32 * in, 0);
  for (int lane = 0; lane < 32; ++lane) {
    uint32_t* w = &words[lane * in];
    for (int i = 0; i < 4 * a_words; ++i) {
      const Position p = InA8(lane, i);
      w[i / 4] |= uint32_t{static_cast<uint8_t>(a[p.row][p.column])}
                  << 8 * (i % 4);
    }
    for (int i = 0; i < 4 * b_words; ++i) {
      const Position p = InB8(lane, i);
      w[a_words + i / 4] |= uint32_t{static_cast<uint8_t>(b[p.row][p.column])}
                            << 8 * (i % 4);
    }
    for (int i = 0; i < 4; ++i) {
      const Position p = InC(lane, i);
      w[a_words + b_words + i] = static_cast<uint32_t>(c[p.row][p.column]);
    }
  }
  const auto d =
      RunWarp(MmaText(absl::StrCat("mma.sync.aligned.m16n8k", k, ".row.col",
                                   saturate ? ".satfinite" : "", ".s32.",
                                   a_signed ? "s8" : "u8", ".",
                                   b_signed ? "s8" : "u8", ".s32"),
                      a_words, b_words, 4),
              in, 4, words);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const Position p = InC(lane, i);
      int64_t want = c[p.row][p.column];
      for (int j = 0; j < k; ++j) want += a[p.row][j] * b[j][p.column];
      if (saturate) want = std::clamp<int64_t>(want, INT32_MIN, INT32_MAX);
      ASSERT_EQ(static_cast<int32_t>(d[lane * 4 + i]),
                static_cast<int32_t>(want));
    }
  }
}

TEST(MmaTest, Integers) {
  CheckInteger(32, true, true, false);
  CheckInteger(32, false, true, false);
  CheckInteger(32, true, false, false);
  CheckInteger(16, true, true, false);
  CheckInteger(32, true, true, true);
}

// Fills tile with 16-bit values 0, 1, 2, ... (1024 of them), lane by lane.
std::string FillTile() {
  return "mov.u32 %r2, tile; shl.b32 %r3, %r1, 6; add.u32 %r3, %r3, %r2;\n"
         "shl.b32 %r4, %r1, 5; mov.u32 %r5, 0;\n"
         "{ .reg .pred p; .reg .b32 x, y;\n"
         "fill: add.u32 x, %r4, %r5; st.shared.u16 [%r3], x;\n"
         "add.u32 %r3, %r3, 2; add.u32 %r5, %r5, 1; setp.lt.u32 p, %r5, 32;\n"
         "@p bra fill; }\n";
}

TEST(MatrixMoveTest, LdmatrixEveryShape) {
  for (const int count : {1, 2, 4}) {
    for (const bool transpose : {false, true}) {
      // Row r of matrix m lies at 16 * w0 of lane 8m + r: rows in any order.
      std::vector<uint32_t> words(32);
      for (int lane = 0; lane < 32; ++lane)
        words[lane] = (lane * 37 + 11) % 128;
      std::string list = "{d0";
      for (int i = 1; i < count; ++i) absl::StrAppend(&list, ", d", i);
      const auto d = RunWarp(
          absl::StrCat(FillTile(),
                       "bar.warp.sync -1; shl.b32 %r6, w0, 4; add.u32 %r6, "
                       "%r6, %r2;\n",
                       "ldmatrix.sync.aligned.m8n8.x", count,
                       transpose ? ".trans" : "", ".shared.b16 ", list,
                       "}, [%r6];"),
          1, count, words);
      for (int lane = 0; lane < 32; ++lane) {
        for (int m = 0; m < count; ++m) {
          for (int half = 0; half < 2; ++half) {
            int row = lane / 4, column = lane % 4 * 2 + half;
            if (transpose) std::swap(row, column);
            const uint32_t want = words[8 * m + row] * 8 + column;
            ASSERT_EQ(d[lane * count + m] >> 16 * half & 0xffff, want)
                << "x" << count << " lane " << lane;
          }
        }
      }
    }
  }
}

TEST(MatrixMoveTest, StmatrixUndoesLdmatrix) {
  std::vector<uint32_t> words(32 * 4);
  for (size_t i = 0; i < words.size(); ++i) words[i] = 0x10001 * i + 0x70000;
  for (const std::string trans : {"", ".trans"}) {
    const auto d = RunWarp(
        absl::StrCat("mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r3, "
                     "%r3, %r2;\n"
                     "stmatrix.sync.aligned.m8n8.x4",
                     trans,
                     ".shared.b16 [%r3], {w0, w1, w2, w3};\n"
                     "ldmatrix.sync.aligned.m8n8.x4",
                     trans, ".shared.b16 {d0, d1, d2, d3}, [%r3];"),
        4, 4, words);
    EXPECT_EQ(d, words);
  }
}

}  // namespace
}  // namespace hone::emulator
