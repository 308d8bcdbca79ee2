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
  EXPECT_THAT(message(layer), HasSubstr("layer.a = float8e4m3"));
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
