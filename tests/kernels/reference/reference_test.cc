#include "kernels/reference/reference.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace hone {
namespace {

Problem SmallProblem() {
  Problem problem;
  problem.layer.n = 2;
  problem.layer.k = 64;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 32;
  problem.layer.bias = true;
  return problem;
}

uint16_t Half(double value) {
  return static_cast<uint16_t>(kFloat16.Encode(value));
}

TEST(OracleTest, SmallProductByHand) {
  const Problem problem = SmallProblem();
  QuantizedWeights weights;
  weights.codes.assign(128, 0);
  weights.codes[0] = 3;       // n 0, group 0
  weights.codes[40] = 14;     // n 0, group 1: −2
  weights.codes[64 + 1] = 7;  // n 1, group 0
  weights.scales = {Half(0.5), Half(4), Half(0.25), Half(1)};
  std::vector<uint16_t> a(64, Half(0));
  a[0] = Half(2);
  a[1] = Half(-1);
  a[40] = Half(10);
  const std::vector<uint16_t> bias = {Half(100), Half(-1)};
  const OracleResult r = Oracle(problem, 1, a, {}, weights, bias);
  EXPECT_EQ(r.c[0], 2 * 3 * 0.5 + 10 * -2 * 4 + 100);
  // The other weights count as the smallest normal float16.
  EXPECT_NEAR(r.magnitude[0], 3 + 80 + 100, 1e-4);
  EXPECT_EQ(r.c[1], -1 * 7 * 0.25 - 1);
}

TEST(OracleTest, ZeroPointsBlocksAndTensorScales) {
  LayerConfig layer = SmallProblem().layer;
  layer.b = DataType::Uint(4);
  layer.zero_point = ZeroPoint::kFloat;
  layer.b_scale = ScaleGranularity::kGroupTensor;
  QuantizedWeights weights;
  weights.codes.assign(128, 9);
  weights.scales = {Half(0.5), Half(4), Half(0.25), Half(1)};
  weights.zeros = {Half(7.5), Half(10), Half(0), Half(9)};
  weights.tensor_scale = 3;
  std::vector<double> w = DecodeWeights(layer, weights);
  EXPECT_EQ(w[0], 1.5 * 0.5 * 3);
  EXPECT_EQ(w[32], -1 * 4 * 3.0);
  EXPECT_EQ(w[64], 9 * 0.25 * 3);
  EXPECT_EQ(w[127], 0);
  layer.zero_point = ZeroPoint::kNone;
  layer.b_scale = ScaleGranularity::kBlock;
  layer.b_scale_type = kFloat32;
  layer.b_group_n = 64;
  weights.zeros.clear();
  weights.scales = {kFloat32.Encode(0.125), kFloat32.Encode(2)};
  weights.tensor_scale = 1;
  w = DecodeWeights(layer, weights);
  EXPECT_EQ(w[0], 9 * 0.125);
  EXPECT_EQ(w[127], 18);
}

struct RandomCase {
  Problem problem;
  int64_t m;
  std::vector<uint16_t> out;
  OracleResult oracle;
};

// Outputs as a perfect kernel would round them.
RandomCase MakeCase(DataType type) {
  RandomCase c;
  c.problem.layer.n = 96;
  c.problem.layer.k = 2048;
  c.problem.layer.a = c.problem.layer.c = c.problem.layer.b_scale_type = type;
  c.problem.layer.b_scale = ScaleGranularity::kGroup;
  c.problem.layer.b_group = 128;
  c.m = 5;
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  QuantizedWeights weights;
  weights.codes.resize(96 * 2048);
  weights.scales.resize(96 * 16);
  for (auto& v : weights.codes) v = static_cast<uint8_t>(random() % 16);
  for (auto& s : weights.scales) {
    s = static_cast<uint16_t>(type.Encode(0.01 * std::exp(normal(random))));
  }
  std::vector<uint16_t> a(5 * 2048);
  for (auto& v : a) v = static_cast<uint16_t>(type.Encode(normal(random)));
  c.oracle = Oracle(c.problem, c.m, a, {}, weights, {});
  for (const double v : c.oracle.c) {
    c.out.push_back(static_cast<uint16_t>(type.Encode(v)));
  }
  return c;
}

TEST(CompareTest, RoundedOutputsPass) {
  for (const DataType type : {kFloat16, kBfloat16}) {
    const RandomCase c = MakeCase(type);
    const Comparison r =
        Compare(c.problem, c.m, c.out, c.oracle, MmaInstruction::kMmaSync);
    EXPECT_TRUE(r.passed) << r.worst_ratio << " " << r.relative_norm;
    EXPECT_GT(r.relative_norm, 0);
  }
}

TEST(CompareTest, ADroppedProductInEveryRowFails) {
  for (const DataType type : {kFloat16, kBfloat16}) {
    RandomCase c = MakeCase(type);
    // The typical product of this case, left out of every output.
    for (size_t i = 0; i < c.out.size(); ++i) {
      const double product =
          c.oracle.magnitude[i] / static_cast<double>(c.problem.layer.k);
      c.out[i] = static_cast<uint16_t>(type.Encode(c.oracle.c[i] + product));
    }
    EXPECT_FALSE(
        Compare(c.problem, c.m, c.out, c.oracle, MmaInstruction::kMmaSync)
            .passed);
  }
}

// What is rounded, and so what is tolerated, follows the format.
TEST(ToleranceTest, FollowsTheRoundings) {
  Problem problem = SmallProblem();
  const auto product = [&] {
    return DeriveTolerance(problem, MmaInstruction::kMmaSync).product_relative;
  };
  const double half_ulp = std::ldexp(1.0, -11);
  const double rounded_weights = product();
  EXPECT_GT(rounded_weights, half_ulp);
  EXPECT_GT(MagnitudeFloor(problem.layer), 6e-5);
  problem.layer.b_scale_type = kFloat8e8m0;  // in float32 only
  EXPECT_LT(product(), half_ulp / 16);
  EXPECT_EQ(MagnitudeFloor(problem.layer), 0);
  problem.layer.b_scale_type = kFloat16;
  problem.layer.b_group = 64;  // all of K: as good as channel scales
  EXPECT_LT(product(), half_ulp / 16);
  problem.layer.b_group = 32;
  problem.layer.b = DataType::Uint(4);
  problem.layer.zero_point = ZeroPoint::kFloat;
  EXPECT_NEAR(product(), rounded_weights + half_ulp, 1e-9);
  problem = SmallProblem();
  problem.compute.accumulator = kFloat16;
  EXPECT_NEAR(product(), rounded_weights + 8 * half_ulp, 1e-9);
}

TEST(CompareTest, OneWrongElementFails) {
  RandomCase c = MakeCase(kFloat16);
  c.out[100] = static_cast<uint16_t>(kFloat16.Encode(c.oracle.c[100] + 0.5));
  const Comparison r =
      Compare(c.problem, c.m, c.out, c.oracle, MmaInstruction::kMmaSync);
  EXPECT_FALSE(r.passed);
  EXPECT_EQ(r.worst_m, 1);
  EXPECT_EQ(r.worst_n, 4);
}

TEST(CompareTest, NanNeverPassesWhereAFiniteValueIsDue) {
  RandomCase c = MakeCase(kFloat16);
  c.out[7] = 0x7e00;
  EXPECT_FALSE(
      Compare(c.problem, c.m, c.out, c.oracle, MmaInstruction::kMmaSync)
          .passed);
  c.oracle.c[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(Compare(c.problem, c.m, c.out, c.oracle, MmaInstruction::kMmaSync)
                  .passed);
}

TEST(CompareTest, OverflowMayBeInfiniteOrTheLargestValue) {
  RandomCase c = MakeCase(kFloat16);
  c.oracle.c[0] = 1e6;
  c.out[0] = 0x7c00;
  EXPECT_TRUE(Compare(c.problem, c.m, c.out, c.oracle, MmaInstruction::kMmaSync)
                  .passed);
  c.out[0] = 0x7bff;
  EXPECT_TRUE(Compare(c.problem, c.m, c.out, c.oracle, MmaInstruction::kMmaSync)
                  .passed);
  c.out[0] = 0xfc00;
  EXPECT_FALSE(
      Compare(c.problem, c.m, c.out, c.oracle, MmaInstruction::kMmaSync)
          .passed);
}

}  // namespace
}  // namespace hone
