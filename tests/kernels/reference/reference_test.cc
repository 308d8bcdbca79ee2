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
  weights.values.assign(128, 0);
  weights.values[0] = 3;       // n 0, group 0
  weights.values[40] = -2;     // n 0, group 1
  weights.values[64 + 1] = 7;  // n 1, group 0
  weights.scales = {Half(0.5), Half(4), Half(0.25), Half(1)};
  std::vector<uint16_t> a(64, Half(0));
  a[0] = Half(2);
  a[1] = Half(-1);
  a[40] = Half(10);
  const std::vector<uint16_t> bias = {Half(100), Half(-1)};
  const OracleResult r = Oracle(problem, 1, a, weights, bias);
  EXPECT_EQ(r.c[0], 2 * 3 * 0.5 + 10 * -2 * 4 + 100);
  EXPECT_EQ(r.magnitude[0], 3 + 80 + 100);
  EXPECT_EQ(r.c[1], -1 * 7 * 0.25 - 1);
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
  std::uniform_int_distribution<int> code(-8, 7);
  QuantizedWeights weights;
  weights.values.resize(96 * 2048);
  weights.scales.resize(96 * 16);
  for (auto& v : weights.values) v = static_cast<int16_t>(code(random));
  for (auto& s : weights.scales) {
    s = static_cast<uint16_t>(type.Encode(0.01 * std::exp(normal(random))));
  }
  std::vector<uint16_t> a(5 * 2048);
  for (auto& v : a) v = static_cast<uint16_t>(type.Encode(normal(random)));
  c.oracle = Oracle(c.problem, c.m, a, weights, {});
  for (const double v : c.oracle.c) {
    c.out.push_back(static_cast<uint16_t>(type.Encode(v)));
  }
  return c;
}

TEST(CompareTest, RoundedOutputsPass) {
  for (const DataType type : {kFloat16, kBfloat16}) {
    const RandomCase c = MakeCase(type);
    const Comparison r = Compare(c.problem, c.m, c.out, c.oracle);
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
    EXPECT_FALSE(Compare(c.problem, c.m, c.out, c.oracle).passed);
  }
}

TEST(CompareTest, OneWrongElementFails) {
  RandomCase c = MakeCase(kFloat16);
  c.out[100] = static_cast<uint16_t>(kFloat16.Encode(c.oracle.c[100] + 0.5));
  const Comparison r = Compare(c.problem, c.m, c.out, c.oracle);
  EXPECT_FALSE(r.passed);
  EXPECT_EQ(r.worst_m, 1);
  EXPECT_EQ(r.worst_n, 4);
}

TEST(CompareTest, NanNeverPassesWhereAFiniteValueIsDue) {
  RandomCase c = MakeCase(kFloat16);
  c.out[7] = 0x7e00;
  EXPECT_FALSE(Compare(c.problem, c.m, c.out, c.oracle).passed);
  c.oracle.c[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(Compare(c.problem, c.m, c.out, c.oracle).passed);
}

TEST(CompareTest, OverflowMayBeInfiniteOrTheLargestValue) {
  RandomCase c = MakeCase(kFloat16);
  c.oracle.c[0] = 1e6;
  c.out[0] = 0x7c00;
  EXPECT_TRUE(Compare(c.problem, c.m, c.out, c.oracle).passed);
  c.out[0] = 0x7bff;
  EXPECT_TRUE(Compare(c.problem, c.m, c.out, c.oracle).passed);
  c.out[0] = 0xfc00;
  EXPECT_FALSE(Compare(c.problem, c.m, c.out, c.oracle).passed);
}

}  // namespace
}  // namespace hone
