#include "kernels/config/problem.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using testing::HasSubstr;

LayerConfig Layer() {
  LayerConfig layer;
  layer.n = 8192;
  layer.k = 4096;
  layer.b_scale = ScaleGranularity::kGroup;
  layer.b_group = 128;
  return layer;
}

TEST(ProblemTest, CanonicalTextIsSortedAndStable) {
  EXPECT_EQ(Layer().ToString(),
            "a=float16,a_group=0,a_scale=none,b=int4,b_group=128,b_group_n=0,"
            "b_scale=group,b_scale_type=float16,bias=0,c=float16,experts=1,"
            "k=4096,n=8192,zero_point=none");
  EXPECT_EQ(ComputeConfig{}.ToString(),
            "a_scale_layout=row_major,accumulator=float32,batch_invariant=0,"
            "gemm=dense,top_k=0");
  EXPECT_EQ(TuningConfig{}.ToString(),
            "block_k=64,block_m=16,block_n=64,cluster_m=1,cluster_n=1,"
            "ctas_per_sm=1,mma=mma_sync,mmas_in_flight=1,producer_a=cp_async,"
            "producer_b=cp_async,producer_scale=cp_async,raster=along_m,"
            "split=data_parallel,split_k=1,stages=4,warp_k=64,warp_m=16,"
            "warp_n=64,warp_specialized=0");
  // The hash is part of stored keys: a change of text is a migration.
  EXPECT_EQ(ComputeConfig{}.Hash(), ComputeConfig{}.Hash());
  EXPECT_EQ(Layer().Hash().size(), 64u);
}

TEST(ProblemTest, TextParsesBack) {
  LayerConfig layer = Layer();
  layer.a = kFloat8e4m3;
  layer.b = DataType::Float(0, 4);
  layer.c = kBfloat16;
  layer.a_scale = InputScale::kGroup;
  layer.a_group = 128;
  layer.bias = true;
  layer.experts = 16;
  EXPECT_EQ(*LayerConfig::Parse(layer.ToString()), layer);
  ComputeConfig compute;
  compute.gemm = GemmType::kIndexed;
  compute.top_k = 8;
  compute.batch_invariant = true;
  EXPECT_EQ(*ComputeConfig::Parse(compute.ToString()), compute);
  TuningConfig tuning;
  tuning.mma = MmaInstruction::kWgmma;
  tuning.producer_a = Producer::kTma;
  tuning.split = Split::kSplitK;
  tuning.split_k = 4;
  tuning.raster = RasterOrder::kAlongN;
  EXPECT_EQ(*TuningConfig::Parse(tuning.ToString()), tuning);
  const Problem problem{layer, compute};
  EXPECT_EQ(*Problem::Parse(problem.ToString()), problem);
}

// A field that came later is printed where it is set only, so that older texts
// and hashes stay what they are.
TEST(ProblemTest, LaterFieldsLeaveOlderTextsAlone) {
  LayerConfig layer = *LayerConfig::Parse(
      "n=64,k=64,a=float8e4m3,b=float4e2m1,b_scale=group,b_group=32,"
      "b_scale_type=float8e8m0");
  const std::string before = layer.ToString();
  EXPECT_EQ(before.find("b_scale_window"), std::string::npos);
  layer.b_scale_window = true;
  EXPECT_NE(layer.ToString().find(",b_scale_window=1,"), std::string::npos);
  EXPECT_NE(layer.ToString(), before);
  EXPECT_EQ(*LayerConfig::Parse(layer.ToString()), layer);
  layer.b = kInt4;
  EXPECT_NE(std::string(layer.Validate().message()).find("b_scale_window"),
            std::string::npos);
}

TEST(ProblemTest, KeysMayBeLeftOutAndReordered) {
  const auto layer = LayerConfig::Parse("k=64,n=128");
  ASSERT_TRUE(layer.ok()) << layer.status();
  EXPECT_EQ(layer->k, 64);
  EXPECT_EQ(layer->b, kInt4);
}

std::string ParseError(const std::string& text) {
  const auto layer = LayerConfig::Parse(text);
  return layer.ok() ? "" : std::string(layer.status().message());
}

TEST(ProblemTest, ParseErrorsNameFieldAndLegalValues) {
  EXPECT_THAT(ParseError("n=8192,colour=red"), HasSubstr("b_group"));
  EXPECT_THAT(ParseError("n=8192,n=1"), HasSubstr("layer.n is given twice"));
  EXPECT_THAT(ParseError("n=eight"), HasSubstr("layer.n"));
  EXPECT_THAT(ParseError("n=+8"), HasSubstr("decimal integer"));
  EXPECT_THAT(ParseError("b_scale=row"),
              HasSubstr("none, tensor, channel, group, block, group_tensor"));
  EXPECT_THAT(ParseError("b=int12"), HasSubstr("layer.b"));
  EXPECT_THAT(ParseError("bias=yes"), HasSubstr("0 or 1"));
}

std::string Invalid(const LayerConfig& layer) {
  const absl::Status status = layer.Validate();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ProblemTest, ValidationNamesFieldAndLegalValues) {
  EXPECT_TRUE(Layer().Validate().ok());
  LayerConfig layer = Layer();
  layer.n = 0;
  EXPECT_THAT(Invalid(layer), HasSubstr("layer.n is 0"));
  layer = Layer();
  layer.b_group = 100;
  EXPECT_THAT(Invalid(layer), HasSubstr("16, 32, 64, 128"));
  layer = Layer();
  layer.b_scale = ScaleGranularity::kChannel;
  EXPECT_THAT(Invalid(layer), HasSubstr("layer.b_group"));
  layer = Layer();
  layer.a = kInt4;
  layer.b = kInt8;
  EXPECT_THAT(Invalid(layer), HasSubstr("no wider than layer.a, int4"));
  layer = Layer();
  layer.zero_point = ZeroPoint::kInteger;
  EXPECT_THAT(Invalid(layer), HasSubstr("layer.zero_point"));
  layer = Layer();
  layer.c = kFloat32;
  EXPECT_THAT(Invalid(layer), HasSubstr("layer.c"));
}

TEST(ProblemTest, TuningValidation) {
  EXPECT_TRUE(TuningConfig{}.Validate().ok());
  TuningConfig config;
  config.warp_n = 48;
  EXPECT_THAT(std::string(config.Validate().message()), HasSubstr("divisor"));
  config = {};
  config.split_k = 4;
  EXPECT_THAT(std::string(config.Validate().message()),
              HasSubstr("tuning.split_k"));
  config = {};
  config.block_m = 256;
  config.block_n = 256;
  config.warp_m = 8;
  config.warp_n = 16;
  EXPECT_THAT(std::string(config.Validate().message()), HasSubstr("32 warps"));
}

TEST(ProblemTest, ExpertsAndGemmTypeAgree) {
  Problem problem{Layer(), {}};
  EXPECT_TRUE(problem.Validate().ok());
  problem.layer.experts = 8;
  EXPECT_THAT(std::string(problem.Validate().message()),
              HasSubstr("layer.experts"));
}

}  // namespace
}  // namespace hone
