#include "kernels/config/weight_layout.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using testing::HasSubstr;

LayerConfig Layer() {
  LayerConfig layer;
  layer.n = 100;
  layer.k = 300;
  return layer;
}

TEST(WeightLayoutTest, SizesOfEachGranularity) {
  LayerConfig layer = Layer();
  WeightLayout w = WeightLayoutOf(layer);
  EXPECT_EQ(w.weight_bytes, 128 * 320 / 2);
  EXPECT_EQ(w.groups, 1);
  EXPECT_EQ(w.scale_bytes, 128 * 2);

  layer.b_scale = ScaleGranularity::kGroup;
  layer.b_group = 32;
  layer.b = DataType::Uint(3);
  layer.zero_point = ZeroPoint::kInteger;
  w = WeightLayoutOf(layer);
  EXPECT_EQ(w.weight_bytes, 128 * 320 * 3 / 8);
  EXPECT_EQ(w.groups, 10);
  EXPECT_EQ(w.entry_bytes, 64 * 2 + 64 / 2);
  EXPECT_EQ(w.scale_bytes, 2 * 10 * 160);
  layer.b = DataType::Uint(5);
  EXPECT_EQ(WeightLayoutOf(layer).zero_bits, 8);
  layer.zero_point = ZeroPoint::kFloat;
  EXPECT_EQ(WeightLayoutOf(layer).zero_bits, 16);

  layer = Layer();
  ASSERT_TRUE(ApplyPreset("nvfp4", layer).ok());
  w = WeightLayoutOf(layer);
  EXPECT_EQ(w.entry_bytes, 64);
  EXPECT_TRUE(w.tensor_scale);
  EXPECT_EQ(w.tensor_offset, 2 * 20 * 64);
  EXPECT_EQ(w.scale_bytes, w.tensor_offset + 16);

  layer = Layer();
  layer.b_scale = ScaleGranularity::kBlock;
  layer.b_scale_type = kFloat32;
  layer.b_group = layer.b_group_n = 128;
  w = WeightLayoutOf(layer);
  EXPECT_TRUE(w.block);
  EXPECT_EQ(w.group_n, 128);
  EXPECT_EQ(w.scale_bytes, 2 * 3 * 16);

  layer = Layer();
  layer.b_scale = ScaleGranularity::kTensor;
  w = WeightLayoutOf(layer);
  EXPECT_EQ(w.entry_bytes, 0);
  EXPECT_EQ(w.scale_bytes, 16);
}

TEST(WeightLayoutTest, OneGroupMayBeAllOfK) {
  LayerConfig layer = Layer();
  layer.b_scale = ScaleGranularity::kGroup;
  layer.b_group = 300;
  ASSERT_TRUE(layer.Validate().ok());
  EXPECT_EQ(WeightLayoutOf(layer).groups, 1);
  EXPECT_EQ(WeightLayoutOf(layer).group, 0);
  layer.b_group = 100;
  EXPECT_THAT(std::string(layer.Validate().message()),
              HasSubstr("or all of K, 300"));
}

TEST(WeightLayoutTest, FormatsWithoutAKernelAreNamed) {
  const auto message = [](const LayerConfig& layer) {
    const absl::Status status = CheckWeightFormat(layer);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    return std::string(status.message());
  };
  EXPECT_TRUE(CheckWeightFormat(Layer()).ok());
  LayerConfig layer = Layer();
  layer.a = kFloat8e4m3;
  layer.b = DataType::Int(6);
  EXPECT_THAT(message(layer), HasSubstr("int1 to int5 and uint1 to uint4"));
  layer.b = DataType::Uint(4);
  layer.zero_point = ZeroPoint::kFloat;
  EXPECT_THAT(message(layer), HasSubstr("layer.zero_point = float"));
  layer.zero_point = ZeroPoint::kNone;
  layer.a = kInt8;
  layer.b = kFloat8e4m3;
  EXPECT_THAT(message(layer), HasSubstr("integers and float4e2m1"));
  layer.b = DataType::Uint(8);
  layer.zero_point = ZeroPoint::kInteger;
  EXPECT_THAT(message(layer), HasSubstr("at most 7 bits"));
  layer = Layer();
  layer.a = kInt4;
  layer.b_scale = ScaleGranularity::kGroup;
  layer.b_group = 16;
  EXPECT_THAT(message(layer), HasSubstr("at least 32 columns"));
  layer = Layer();
  layer.b = DataType::Float(6, 1);
  EXPECT_THAT(message(layer), HasSubstr("at most 5 exponent"));
  layer.a = kBfloat16;
  EXPECT_TRUE(CheckWeightFormat(layer).ok());
  layer = Layer();
  layer.b_scale = ScaleGranularity::kGroup;
  layer.b_group = 32;
  layer.b_scale_type = kFloat32;
  EXPECT_THAT(message(layer), HasSubstr("layer.b_scale_type = float32"));
  layer.b_scale = ScaleGranularity::kBlock;
  layer.b_group_n = 32;
  EXPECT_THAT(message(layer), HasSubstr("layer.b_group_n = 32"));
  layer.b_group_n = 64;
  EXPECT_TRUE(CheckWeightFormat(layer).ok());
  layer.b_scale_type = kFloat16;
  EXPECT_THAT(message(layer), HasSubstr("float32 with block"));
  EXPECT_FALSE(ApplyPreset("fp4", layer).ok());
}

// Types of B by type of A: how many bits integers may have, and which floats.
TEST(WeightLayoutTest, TypesGoTogetherWhereEveryValueIsExact) {
  const auto fits = [](DataType a, DataType b,
                       ZeroPoint zero = ZeroPoint::kNone) {
    LayerConfig layer = Layer();
    layer.a = a;
    layer.b = b;
    layer.zero_point = zero;
    return CheckWeightFormat(layer).ok();
  };
  const struct {
    DataType a;
    int most_int, most_uint, most_with_zero;
  } kIntegers[] = {{kFloat16, 8, 8, 8},    {kBfloat16, 8, 8, 8},
                   {kFloat8e4m3, 5, 4, 4}, {kFloat8e5m2, 4, 3, 3},
                   {kInt8, 8, 8, 7},       {kInt4, 4, 4, 3},
                   {kFloat4e2m1, 3, 2, 2}};
  for (const auto& row : kIntegers) {
    for (int bits = 1; bits <= 8; ++bits) {
      SCOPED_TRACE(testing::Message() << row.a.ToString() << " " << bits);
      EXPECT_EQ(fits(row.a, DataType::Int(bits)), bits <= row.most_int);
      EXPECT_EQ(fits(row.a, DataType::Uint(bits)), bits <= row.most_uint);
      EXPECT_EQ(fits(row.a, DataType::Uint(bits), ZeroPoint::kInteger),
                bits <= row.most_with_zero);
      EXPECT_EQ(fits(row.a, DataType::Uint(bits), ZeroPoint::kFloat),
                row.a.bits() == 16);
    }
  }
  EXPECT_TRUE(fits(kFloat8e4m3, kFloat8e4m3));
  EXPECT_FALSE(fits(kFloat8e4m3, kFloat8e5m2));
  EXPECT_FALSE(fits(kFloat8e5m2, kFloat8e4m3));
  EXPECT_TRUE(fits(kFloat8e5m2, DataType::Float(4, 2)));
  EXPECT_TRUE(fits(kFloat8e4m3, kFloat4e2m1));
  // Sign and magnitude: integers up to 16 are float8e4m3.
  EXPECT_TRUE(fits(kFloat8e4m3, DataType::Float(0, 4)));
  EXPECT_FALSE(fits(kFloat8e4m3, DataType::Float(0, 5)));
  EXPECT_TRUE(fits(kInt8, kFloat4e2m1));
  EXPECT_FALSE(fits(kInt8, DataType::Float(0, 3)));
  EXPECT_FALSE(fits(kInt4, kFloat4e2m1));
  EXPECT_TRUE(fits(kFloat4e2m1, kFloat4e2m1));
  EXPECT_FALSE(fits(kFloat4e2m1, DataType::Float(1, 2)));
}

TEST(WeightLayoutTest, ScalesThatTypeACannotHoldAreForAccumulators) {
  LayerConfig layer = Layer();
  layer.b_scale = ScaleGranularity::kGroup;
  layer.b_group = 32;
  const auto needs = [&](DataType a, DataType scale) {
    layer.a = a;
    layer.b_scale_type = scale;
    return ScalesNeedFloat32(layer);
  };
  EXPECT_FALSE(needs(kFloat16, kFloat16));
  EXPECT_FALSE(needs(kFloat16, kFloat8e4m3));
  EXPECT_FALSE(needs(kFloat16, kFloat8e5m2));
  EXPECT_TRUE(needs(kFloat16, kBfloat16));
  EXPECT_TRUE(needs(kFloat16, kFloat8e8m0));
  EXPECT_FALSE(needs(kBfloat16, kBfloat16));
  EXPECT_FALSE(needs(kBfloat16, kFloat8e8m0));
  EXPECT_TRUE(needs(kBfloat16, kFloat16));
  EXPECT_TRUE(needs(kFloat8e4m3, kFloat8e8m0));
  EXPECT_TRUE(needs(kInt8, kFloat16));
}

TEST(WeightLayoutTest, ValuesThatTypeACannotHoldAreNotUsed) {
  LayerConfig layer = Layer();
  layer.b = kFloat4e2m1;
  EXPECT_EQ(LargestWeightValue(layer), 6);
  // Its largest exponent is 2^16, past float16.
  layer.b = DataType::Float(5, 1);
  EXPECT_EQ(LargestWeightValue(layer), 49152);
  layer.a = kBfloat16;
  EXPECT_EQ(LargestWeightValue(layer), 98304);
}

}  // namespace
}  // namespace hone
