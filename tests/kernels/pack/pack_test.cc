#include "kernels/pack/pack.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/memory/packed_layout.cuh"

namespace hone {
namespace {

using testing::HasSubstr;

LayerConfig Layer(int64_t n, int64_t k, DataType b, int64_t group,
                  DataType a = kFloat16) {
  LayerConfig layer;
  layer.n = n;
  layer.k = k;
  layer.a = layer.c = layer.b_scale_type = a;
  layer.b = b;
  layer.b_scale =
      group == 0 ? ScaleGranularity::kChannel : ScaleGranularity::kGroup;
  layer.b_group = group;
  return layer;
}

QuantizedWeights RandomWeights(const LayerConfig& layer, uint32_t seed) {
  std::mt19937 random(seed);
  const int offset = 1 << (layer.b.bits() - 1);
  std::uniform_int_distribution<int> code(-offset, offset - 1);
  std::uniform_real_distribution<double> scale(0.01, 2.0);
  QuantizedWeights weights;
  weights.values.resize(layer.n * layer.k);
  weights.scales.resize(layer.n * ScaleGroups(layer));
  for (auto& v : weights.values) v = static_cast<int16_t>(code(random));
  for (auto& s : weights.scales) {
    s = static_cast<uint16_t>(layer.b_scale_type.Encode(scale(random)));
  }
  return weights;
}

TEST(PackTest, RoundTripsForRaggedShapes) {
  uint32_t seed = 1;
  for (const DataType b : {kInt4, kInt8}) {
    for (const int64_t group : {0, 32, 64, 128}) {
      for (const auto& [n, k] : std::vector<std::pair<int64_t, int64_t>>{
               {64, 64}, {1, 1}, {65, 130}, {128, 129}, {200, 1000}}) {
        const LayerConfig layer = Layer(n, k, b, group);
        const QuantizedWeights weights = RandomWeights(layer, ++seed);
        const auto packed = Pack(layer, weights);
        ASSERT_TRUE(packed.ok()) << packed.status();
        EXPECT_EQ(static_cast<int64_t>(packed->b.size()),
                  PackedWeightBytes(layer));
        const auto back = Unpack(layer, *packed);
        ASSERT_TRUE(back.ok());
        EXPECT_EQ(back->values, weights.values) << n << " x " << k;
        EXPECT_EQ(back->scales, weights.scales) << n << " x " << k;
      }
    }
  }
}

// The layout is a permutation: every code has its own place.
TEST(PackTest, LayoutIsOneToOne) {
  for (const int bits : {4, 8}) {
    std::set<int64_t> seen;
    for (int n = 0; n < 128; ++n) {
      for (int k = 0; k < 192; ++k) {
        const int64_t bit = layout::CodeBitOffset(n, k, 192, bits);
        EXPECT_EQ(bit % bits, 0);
        EXPECT_LT(bit / 8, layout::PackedBytes(128, 192, bits));
        EXPECT_TRUE(seen.insert(bit).second) << n << "," << k;
      }
    }
  }
  std::set<int64_t> seen;
  for (int n = 0; n < 128; ++n) {
    for (int g = 0; g < 5; ++g) {
      EXPECT_TRUE(seen.insert(layout::ScaleIndex(n, g, 5)).second);
    }
  }
  EXPECT_EQ(*seen.rbegin(), 128 * 5 - 1);
}

// The fragment of mma.m16n8k16 as the PTX ISA gives it, spelled out.
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
            const int word4 = (block * 32 + lane) * 4 + step;
            EXPECT_EQ(layout::CodeBitOffset(n, k, 64, 4),
                      word4 * 32 + 4 * (reg + 4 * high));
            const int word8 = ((block * 2 + step / 2) * 32 + lane) * 4 +
                              step % 2 * 2 + reg / 2;
            EXPECT_EQ(layout::CodeBitOffset(n, k, 64, 8),
                      word8 * 32 + 8 * (reg % 2 * 2 + high));
          }
        }
      }
    }
  }
}

TEST(PackTest, TilesAreContiguous) {
  // 64 rows by 512 columns at 4 bits: one piece of 16 KB.
  int64_t low = std::numeric_limits<int64_t>::max();
  int64_t high = 0;
  for (int n = 64; n < 128; ++n) {
    for (int k = 512; k < 1024; ++k) {
      const int64_t byte = layout::CodeBitOffset(n, k, 8192, 4) / 8;
      low = std::min(low, byte);
      high = std::max(high, byte);
    }
  }
  EXPECT_EQ(high - low + 1, 16384);
}

TEST(PackTest, PaddingIsZeroValued) {
  const LayerConfig layer = Layer(3, 70, kInt4, 32);
  const auto packed = Pack(layer, RandomWeights(layer, 7));
  ASSERT_TRUE(packed.ok());
  LayerConfig whole = Layer(64, 128, kInt4, 32);
  const auto all = Unpack(whole, *packed);
  ASSERT_TRUE(all.ok()) << all.status();
  for (int n = 0; n < 64; ++n) {
    for (int k = 0; k < 128; ++k) {
      if (n >= 3 || k >= 70) {
        EXPECT_EQ(all->values[n * 128 + k], 0);
      }
    }
  }
  EXPECT_EQ(kFloat16.Decode(all->scales[63 * 4]), 1.0);
}

TEST(PackTest, QuantizationErrorIsWithinHalfAStep) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.02f);
  for (const DataType b : {kInt4, kInt8}) {
    for (const DataType a : {kFloat16, kBfloat16}) {
      const LayerConfig layer = Layer(40, 300, b, 64, a);
      std::vector<float> w(layer.n * layer.k);
      for (float& v : w) v = normal(random);
      const auto q = Quantize(layer, w);
      ASSERT_TRUE(q.ok()) << q.status();
      for (int64_t n = 0; n < layer.n; ++n) {
        for (int64_t k = 0; k < layer.k; ++k) {
          const double scale = a.Decode(q->scales[n * 5 + k / 64]);
          // The scale was rounded: the largest weight may miss by that too.
          const double slack =
              std::ldexp(1.0, -a.mantissa_bits() - 1) * b.MaxFinite() * scale;
          EXPECT_LE(std::fabs(q->values[n * layer.k + k] * scale -
                              w[n * layer.k + k]),
                    0.5 * scale + slack);
        }
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
  for (const int16_t v : q->values) EXPECT_EQ(v, 0);
  for (const uint16_t s : q->scales) EXPECT_EQ(kFloat16.Decode(s), 1.0);
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
  QuantizedWeights q = RandomWeights(layer, 1);
  q.values[64] = 8;
  EXPECT_THAT(std::string(Pack(layer, q).status().message()),
              HasSubstr("values[1][0] is 8; int4 holds -8 to 7"));
  LayerConfig other = layer;
  other.b = DataType::Int(3);
  EXPECT_EQ(Pack(other, q).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace hone
