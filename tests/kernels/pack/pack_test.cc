#include "kernels/pack/pack.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/reference/reference.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

using layout::CodeLayout;
using testing::HasSubstr;

LayerConfig Layer(int64_t n, int64_t k, DataType b, int64_t group,
                  DataType a = kFloat16) {
  return MakeLayer(n, k, a, b,
                   group == 0 ? Scaling{ScaleGranularity::kChannel, a}
                              : Scaling{ScaleGranularity::kGroup, a, group});
}

TEST(PackTest, EveryFormatRoundTripsForRaggedShapes) {
  uint32_t seed = 1;
  for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {65, 130}, {130, 290}}) {
    for (const LayerConfig& layer : AllFormats(n, k)) {
      ASSERT_TRUE(CheckWeightFormat(layer).ok()) << layer.ToString();
      const QuantizedWeights weights = RandomWeights(layer, ++seed);
      const auto packed = Pack(layer, weights);
      ASSERT_TRUE(packed.ok()) << layer.ToString() << packed.status();
      EXPECT_EQ(static_cast<int64_t>(packed->b.size()),
                PackedWeightBytes(layer));
      EXPECT_EQ(static_cast<int64_t>(packed->scales.size()),
                PackedScaleBytes(layer));
      const auto back = Unpack(layer, *packed);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(back->codes, weights.codes) << layer.ToString();
      EXPECT_EQ(back->scales, weights.scales) << layer.ToString();
      EXPECT_EQ(back->zeros, weights.zeros) << layer.ToString();
      EXPECT_EQ(back->tensor_scale, weights.tensor_scale) << layer.ToString();
    }
  }
}

// The layout is a permutation: every bit has its own place, and none is left.
TEST(PackTest, LayoutIsOneToOne) {
  for (const int width : {16, 8, 4}) {
    for (int bits = 1; bits <= std::min(width, 8); ++bits) {
      for (const auto layout : {CodeLayout::kPlain, CodeLayout::kSplitSign,
                                CodeLayout::kCrossSign, CodeLayout::kRows}) {
        const bool direct = layout == CodeLayout::kRows;
        if (direct != (bits == width)) continue;
        if (layout != CodeLayout::kPlain && bits == 1) continue;
        std::vector<bool> seen(layout::PackedBytes(128, 192, bits) * 8);
        for (int n = 0; n < 128; ++n) {
          for (int k = 0; k < 192; ++k) {
            for (int j = 0; j < bits; ++j) {
              const int64_t bit =
                  layout::CodeBitOffset(n, k, 192, width, bits, layout, j);
              ASSERT_LT(bit, static_cast<int64_t>(seen.size()));
              EXPECT_FALSE(seen[bit])
                  << width << " " << bits << " " << n << "," << k;
              seen[bit] = true;
            }
          }
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
      }
    }
  }
}

// The fragment of mma.m16n8k16 as the PTX ISA gives it, spelled out, for the
// widths whose fields all lie within one half word.
TEST(PackTest, WordsAreMmaFragments) {
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4;
    const int t = lane % 4;
    for (int block = 0; block < 4; ++block) {
      for (int step = 0; step < 4; ++step) {
        const int rows[4] = {g, g + 8, g, g + 8};
        const int columns[4] = {2 * t, 2 * t, 2 * t + 8, 2 * t + 8};
        for (int reg = 0; reg < 4; ++reg) {
          for (int high = 0; high < 2; ++high) {
            const int n = 16 * block + rows[reg];
            const int k = 16 * step + columns[reg] + high;
            const auto at = [&](int bits) {
              return layout::CodeBitOffset(n, k, 64, 16, bits,
                                           CodeLayout::kPlain, 0);
            };
            const int index = 4 * step + reg;
            EXPECT_EQ(at(1), (block * 32 + lane) * 32 + index + 16 * high);
            EXPECT_EQ(at(2), ((block * 32 + lane) * 2 + index / 8) * 32 +
                                 index % 8 * 2 + 16 * high);
            EXPECT_EQ(at(4), ((block * 32 + lane) * 4 + step) * 32 + reg * 4 +
                                 16 * high);
            EXPECT_EQ(at(8), (((block * 2 + step / 2) * 32 + lane) * 4 +
                              step % 2 * 2 + reg / 2) *
                                     32 +
                                 reg % 2 * 8 + 16 * high);
          }
        }
      }
    }
  }
}

// The same for narrower operands, by the PTX ISA's fragments of m16n8k32 and
// m16n8k64: register r of a step holds 32 bits of a row, at 32-bit word
// t + 4 · (r / 2) of the step's 32 bytes.
TEST(PackTest, NarrowCodesLieWhereTheirMmaWantsThem) {
  for (const int width : {8, 4}) {
    const int parts = 32 / width;
    for (int lane = 0; lane < 32; ++lane) {
      for (int step = 0; step < width / 4; ++step) {
        for (int r = 0; r < 4; ++r) {
          for (int part = 0; part < parts; ++part) {
            const int n = 32 + lane / 4 + r % 2 * 8;
            const int k =
                step * 8 * parts + (lane % 4 + r / 2 * 4) * parts + part;
            // One and two bits: words of whole fields.
            const int reg = 4 * step + r;
            EXPECT_EQ(layout::CodeBitOffset(n, k, 64, width, 1,
                                            CodeLayout::kPlain, 0),
                      (2 * 32 + lane) * 32 + part * width + reg);
            EXPECT_EQ(layout::CodeBitOffset(n, k, 64, width, 2,
                                            CodeLayout::kPlain, 1),
                      ((2 * 32 + lane) * 2 + reg / (width / 2)) * 32 +
                          part * width + reg % (width / 2) * 2 + 1);
          }
        }
      }
    }
  }
  // Codes that are operands stay in rows.
  EXPECT_EQ(layout::CodeBitOffset(3, 70, 100, 8, 8, CodeLayout::kRows, 5),
            (3 * 128 + 70) * 8 + 5);
  EXPECT_EQ(layout::CodeBitOffset(3, 71, 100, 4, 4, CodeLayout::kRows, 0),
            (3 * 128 + 71) * 4);
}

// What a lane reads in one load: its words lie side by side, aligned.
TEST(PackTest, LanesLoadTheirWordsInFewWideLoads) {
  for (int bits = 1; bits <= 8; ++bits) {
    int word = 0;
    for (const int width : {4, 4, 2, 1}) {
      if (bits - word < width) continue;
      for (int lane = 0; lane < 32; ++lane) {
        const int first = layout::WordIndex(bits, lane, word);
        EXPECT_EQ(first % width, 0);
        EXPECT_EQ(first, layout::WordIndex(bits, 0, word) + lane * width);
        for (int i = 1; i < width; ++i) {
          EXPECT_EQ(layout::WordIndex(bits, lane, word + i), first + i);
        }
      }
      word += width;
    }
    EXPECT_EQ(word, bits);
  }
}

TEST(PackTest, TilesAreContiguous) {
  // 64 rows by 512 columns at b bits: one piece of b · 4 KB.
  for (int bits = 1; bits <= 8; ++bits) {
    int64_t low = std::numeric_limits<int64_t>::max();
    int64_t high = 0;
    for (int n = 64; n < 128; ++n) {
      for (int k = 512; k < 1024; ++k) {
        const int64_t byte =
            layout::CodeBitOffset(n, k, 8192, 16, bits, CodeLayout::kPlain,
                                  bits - 1) /
            8;
        low = std::min(low, byte);
        high = std::max(high, byte);
      }
    }
    EXPECT_EQ(high - low + 1, bits * 4096);
  }
}

TEST(PackTest, PaddingIsZeroValued) {
  for (const DataType b : {kInt4, DataType::Int(3), kFloat8e4m3}) {
    const LayerConfig layer = Layer(3, 70, b, 32);
    const auto packed = Pack(layer, RandomWeights(layer, 7));
    ASSERT_TRUE(packed.ok());
    const LayerConfig whole = Layer(64, 128, b, 32);
    const auto all = Unpack(whole, *packed);
    ASSERT_TRUE(all.ok()) << all.status();
    for (int n = 0; n < 64; ++n) {
      for (int k = 0; k < 128; ++k) {
        if (n >= 3 || k >= 70) {
          EXPECT_EQ(b.Decode(all->codes[n * 128 + k]), 0);
        }
      }
    }
    EXPECT_EQ(kFloat16.Decode(all->scales[63 * 4]), 1.0);
  }
}

// Of every format: no weight misses by more than half a step, save what the
// rounding of scale and zero point does.
TEST(PackTest, QuantizationErrorIsWithinHalfAStep) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.02f);
  for (const LayerConfig& layer : AllFormats(70, 300)) {
    if (layer.b_scale == ScaleGranularity::kNone) continue;
    std::vector<float> w(layer.n * layer.k);
    for (float& v : w) {
      v = normal(random);
      // What has no negative values cannot show them.
      if (layer.b.kind() == DataType::Kind::kUint &&
          layer.zero_point == ZeroPoint::kNone) {
        v = std::fabs(v);
      }
      if (layer.b == DataType::Int(1)) v = -std::fabs(v);
    }
    const auto q = Quantize(layer, w);
    ASSERT_TRUE(q.ok()) << layer.ToString() << q.status();
    ASSERT_TRUE(Pack(layer, *q).ok()) << layer.ToString();
    const std::vector<double> back = DecodeWeights(layer, *q);
    const WeightLayout format = WeightLayoutOf(layer);
    // The widest gap between neighbouring values below the largest.
    std::vector<double> values;
    for (const double v : layer.b.CodeTable()) {
      if (std::fabs(v) <= LargestWeightValue(layer)) values.push_back(v);
    }
    std::sort(values.begin(), values.end());
    double gap = 0;
    for (size_t i = 1; i < values.size(); ++i) {
      gap = std::max(gap, values[i] - values[i - 1]);
    }
    const double largest = values.back();
    for (int64_t n = 0; n < layer.n; ++n) {
      for (int64_t k = 0; k < layer.k; ++k) {
        double scale = q->tensor_scale;
        if (format.has_scales()) {
          scale *= layer.b_scale_type.Decode(
              q->scales[n / format.group_n * format.groups +
                        (format.group == 0 ? 0 : k / format.group)]);
        }
        // A scale rounded down cuts the largest weights by as much (at most
        // half a unit, or half the least scale); a rounded zero point shifts
        // all by half a step, or its own rounding.
        const double rounding =
            format.has_scales()
                ? std::max(
                      std::ldexp(1.0, -layer.b_scale_type.mantissa_bits() - 1),
                      layer.b_scale_type.Decode(1) / 2 * q->tensor_scale /
                          scale)
                : 0;
        double slack = 2 * rounding * std::max(largest, 1.0);
        if (layer.zero_point == ZeroPoint::kInteger) slack += 0.5;
        if (layer.zero_point == ZeroPoint::kFloat) {
          slack += largest * std::ldexp(1.0, -layer.a.mantissa_bits());
        }
        ASSERT_LE(std::fabs(back[n * layer.k + k] - w[n * layer.k + k]),
                  (0.5 * gap + slack) * scale * 1.00001)
            << layer.ToString() << " " << n << "," << k;
      }
    }
  }
}

TEST(PackTest, ZeroAndTinyGroupsBecomeZeros) {
  const LayerConfig layer = Layer(2, 64, kInt4, 32);
  std::vector<float> w(128, 0.0f);
  w[70] = 1e-12f;  // its scale is below the smallest float16
  const auto q = Quantize(layer, w);
  ASSERT_TRUE(q.ok());
  for (const uint8_t code : q->codes) EXPECT_EQ(code, 0);
  for (const uint32_t s : q->scales) EXPECT_EQ(kFloat16.Decode(s), 1.0);
  // All formats keep zeros.
  for (const LayerConfig& format : AllFormats(3, 70)) {
    const auto zeros = Quantize(format, std::vector<float>(210, 0.0f));
    ASSERT_TRUE(zeros.ok()) << format.ToString();
    for (const double v : DecodeWeights(format, *zeros)) EXPECT_EQ(v, 0);
  }
}

TEST(PackTest, PowerOfTwoScalesAreRoundedUp) {
  LayerConfig layer = Layer(1, 32, kInt4, 0);
  ASSERT_TRUE(ApplyPreset("mxfp4", layer).ok());
  std::vector<float> w(32, 0.25f);
  w[3] = -7.0f;
  const auto q = Quantize(layer, w);
  ASSERT_TRUE(q.ok());
  // 7 / 6 asks for 2: nothing saturates.
  EXPECT_EQ(kFloat8e8m0.Decode(q->scales[0]), 2.0);
  EXPECT_EQ(kFloat4e2m1.Decode(q->codes[3]), -4.0);
}

TEST(PackTest, SignAndMagnitudeReplacesIntegersWhereItIsFaster) {
  LayerConfig layer = Layer(2, 64, kInt4, 0);
  std::vector<float> w(128);
  for (int i = 0; i < 128; ++i) w[i] = 0.01f * static_cast<float>(i - 64);
  QuantizedWeights q = *Quantize(layer, w);
  const std::vector<double> before = DecodeWeights(layer, q);
  const auto changed = UseSignMagnitude(layer, q);
  ASSERT_TRUE(changed.ok() && *changed);
  EXPECT_EQ(layer.b.ToString(), "float4e0m3");
  EXPECT_EQ(DecodeWeights(layer, q), before);
  ASSERT_TRUE(Pack(layer, q).ok());
  // Not with a code that sign and magnitude lack, ...
  layer = Layer(2, 64, kInt4, 0);
  q = *Quantize(layer, w);
  q.codes[5] = 8;
  EXPECT_FALSE(*UseSignMagnitude(layer, q));
  EXPECT_EQ(layer.b, kInt4);
  EXPECT_EQ(q.codes[5], 8);
  // ... nor where scales multiply weights, nor for bfloat16, nor zero points.
  EXPECT_FALSE(SignMagnitudeIsFaster(Layer(2, 64, kInt4, 32)));
  EXPECT_FALSE(SignMagnitudeIsFaster(Layer(2, 64, kInt4, 0, kBfloat16)));
  EXPECT_FALSE(SignMagnitudeIsFaster(Layer(2, 64, DataType::Uint(4), 0)));
  EXPECT_TRUE(SignMagnitudeIsFaster(Layer(2, 64, kInt8, 0)));
}

// A channel's least scale of its groups that are not zero follows the entries;
// what does not fit is refused, never rounded.
TEST(PackTest, AWindowOfScalesIsProved) {
  LayerConfig layer = MakeLayer(66, 128, kFloat8e4m3, kFloat4e2m1,
                                {ScaleGranularity::kGroup, kFloat8e8m0, 32});
  layer.b_scale_window = true;
  EXPECT_EQ(WindowOctaves(kFloat8e4m3), 11);
  EXPECT_EQ(WindowOctaves(kFloat8e5m2), 26);
  QuantizedWeights weights;
  weights.codes.assign(66 * 128, 1);
  weights.scales.assign(66 * 4, 120);
  weights.scales[5 * 4 + 1] = 109;
  // Zeros may have any scale, and −0 is one.
  weights.scales[7 * 4 + 3] = 1;
  for (int k = 96; k < 128; ++k) weights.codes[7 * 128 + k] = k % 2 * 8;
  const auto packed = Pack(layer, weights);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const WeightLayout w = WeightLayoutOf(layer);
  ASSERT_EQ(packed->scales.size(), static_cast<size_t>(w.window_offset + 128));
  const std::byte* least = packed->scales.data() + w.window_offset;
  EXPECT_EQ(least[0], std::byte{120});
  EXPECT_EQ(least[5], std::byte{109});
  EXPECT_EQ(least[7], std::byte{120});
  EXPECT_EQ(least[66], std::byte{127}) << "padding has scale 1";
  const auto back = Unpack(layer, *packed);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->codes, weights.codes);
  EXPECT_EQ(back->scales, weights.scales);
  weights.scales[5 * 4 + 1] = 108;
  const auto refused = Pack(layer, weights);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              testing::AllOf(testing::HasSubstr("scales[5] span 12 octaves"),
                             testing::HasSubstr("b_scale_window=0")));
}

TEST(PackTest, ErrorsNameTheFieldAndTheLegalValues) {
  const LayerConfig layer = Layer(2, 64, kInt4, 32);
  std::vector<float> w(128, 1.0f);
  w[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(std::string(Quantize(layer, w).status().message()),
              HasSubstr("weights[0][5]"));
  EXPECT_THAT(
      std::string(Quantize(layer, std::vector<float>(3)).status().message()),
      HasSubstr("128"));
  const auto message = [](const LayerConfig& l, const QuantizedWeights& q) {
    return std::string(Pack(l, q).status().message());
  };
  QuantizedWeights q = RandomWeights(layer, 1);
  q.codes[64] = 16;
  EXPECT_THAT(message(layer, q),
              HasSubstr("codes[1][0] is 16; it must be a code of int4 below"));
  const LayerConfig float8 = Layer(2, 64, kFloat8e4m3, 0);
  q = RandomWeights(float8, 1);
  q.codes[3] = 0x7f;
  EXPECT_THAT(message(float8, q), HasSubstr("codes[0][3] is 127"));
  q = RandomWeights(layer, 1);
  q.scales[3] = 0x7c00;
  EXPECT_THAT(message(layer, q), HasSubstr("scales[1][1] is not finite"));
  q.scales.pop_back();
  EXPECT_THAT(message(layer, q), HasSubstr("scales has 3 elements"));
  LayerConfig zeros = Layer(2, 64, DataType::Uint(4), 0);
  zeros.zero_point = ZeroPoint::kInteger;
  q = RandomWeights(zeros, 1);
  q.zeros[1] = 16;
  EXPECT_THAT(message(zeros, q), HasSubstr("zeros[1][0] is 16"));
  LayerConfig other = layer;
  other.a = kFloat8e4m3;
  other.b = kInt8;
  EXPECT_EQ(Pack(other, q).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace hone
