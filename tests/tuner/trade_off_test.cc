#include "tuner/trade_off.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace hone {
namespace {

TradeOffOptions Exact() {
  TradeOffOptions options;
  options.tie = 0;
  options.tie_floor_ns = 0;
  return options;
}

// Three kernels, each best at one of three M; the third serves the first two
// M at 10 %.
TEST(TradeOffTest, EachStepIsTheBestSetOfItsSize) {
  const std::vector<TimesAtM> points = {{1, {10000, 20000, 11000}},
                                        {64, {30000, 20000, 22000}},
                                        {256, {90000, 80000, 40000}}};
  const std::vector<int64_t> compile_ms = {300, 400, 500};
  const std::vector<TradeOffStep> steps = TradeOff(points, compile_ms, Exact());
  ASSERT_EQ(steps.size(), 3);
  EXPECT_EQ(steps[0].kernels, (std::vector<int>{2}));
  EXPECT_NEAR(steps[0].worst_regret, 0.1, 1e-9);
  EXPECT_NEAR(steps[0].mean_regret, std::cbrt(1.1 * 1.1) - 1, 1e-9);
  EXPECT_EQ(steps[0].compile_ms, 500);
  // Either of the others takes one M to its best: the one compiled faster.
  EXPECT_EQ(steps[1].kernels, (std::vector<int>{0, 2}));
  EXPECT_NEAR(steps[1].mean_regret, std::cbrt(1.1) - 1, 1e-9);
  EXPECT_EQ(steps[1].compile_ms, 800);
  EXPECT_EQ(steps[2].kernels, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(steps[2].worst_regret, 0);
  for (const TradeOffStep& step : steps) EXPECT_TRUE(step.proven);
}

TEST(TradeOffTest, AnMWithoutATimeIsNotServed) {
  // No single kernel has both.
  const std::vector<TimesAtM> points = {
      {1, {10000, 0, 0}}, {2, {0, 20000, 30000}}, {3, {0, 0, 0}}};
  const std::vector<int64_t> compile_ms = {1, 1, 1};
  const std::vector<TradeOffStep> steps = TradeOff(points, compile_ms, Exact());
  ASSERT_EQ(steps.size(), 1);
  EXPECT_EQ(steps[0].kernels, (std::vector<int>{0, 1}));
  EXPECT_EQ(steps[0].worst_regret, 0);
  EXPECT_TRUE(TradeOff({}, compile_ms, Exact()).empty());
}

TEST(TradeOffTest, DifferencesWithinATieAreNone) {
  TradeOffOptions options;
  // 1 % of 20 us, and the floor of 64 ns at 3 us.
  const std::vector<int64_t> compile_ms = {1, 1};
  EXPECT_EQ(TradeOff({TimesAtM{1, {20000, 20199}}, TimesAtM{2, {3064, 3000}}},
                     compile_ms, options)
                .size(),
            1);
  EXPECT_EQ(TradeOff({TimesAtM{1, {20000, 20199}}, TimesAtM{2, {3065, 3000}}},
                     compile_ms, options)[0]
                .kernels,
            (std::vector<int>{1}));
  EXPECT_EQ(TradeOff({TimesAtM{1, {20000, 20201}}, TimesAtM{2, {3065, 3000}}},
                     compile_ms, options)
                .size(),
            2);
}

// Sums of logarithms, of every set of `size`.
double LeastSum(const std::vector<TimesAtM>& points, size_t kernels,
                size_t size) {
  double least = 1e300;
  for (uint32_t set = 0; set < 1u << kernels; ++set) {
    if (static_cast<size_t>(__builtin_popcount(set)) != size) continue;
    double sum = 0;
    for (const TimesAtM& point : points) {
      double best = 1e300, served = 1e300;
      for (size_t k = 0; k < kernels; ++k) {
        best = std::min(best, point.ns[k]);
        if (set >> k & 1) served = std::min(served, point.ns[k]);
      }
      sum += std::log(served / best);
    }
    least = std::min(least, sum);
  }
  return least;
}

TEST(TradeOffTest, AgreesWithEverySetOfRandomTimes) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> spread(0, 1);
  for (int round = 0; round < 30; ++round) {
    const size_t kernels = 4 + random() % 8;
    std::vector<TimesAtM> points(3 + random() % 9);
    for (TimesAtM& point : points) {
      for (size_t k = 0; k < kernels; ++k) {
        point.ns.push_back(10000 * std::exp(spread(random)));
      }
    }
    const std::vector<TradeOffStep> steps =
        TradeOff(points, std::vector<int64_t>(kernels, 100), Exact());
    for (const TradeOffStep& step : steps) {
      ASSERT_TRUE(step.proven);
      EXPECT_NEAR(
          std::log1p(step.mean_regret) * static_cast<double>(points.size()),
          LeastSum(points, kernels, step.kernels.size()), 1e-9)
          << step.kernels.size() << " of " << kernels;
    }
    EXPECT_NEAR(steps.back().worst_regret, 0, 1e-12);
  }
}

TEST(TradeOffTest, ASearchCutOffSaysSoAndIsNearTheBest) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> spread(0, 1);
  std::vector<TimesAtM> points(12);
  constexpr size_t kKernels = 14;
  for (TimesAtM& point : points) {
    for (size_t k = 0; k < kKernels; ++k) {
      point.ns.push_back(10000 * std::exp(spread(random)));
    }
  }
  TradeOffOptions options = Exact();
  options.node_limit = 3;
  options.max_kernels = 4;
  const std::vector<TradeOffStep> steps =
      TradeOff(points, std::vector<int64_t>(kKernels, 1), options);
  ASSERT_EQ(steps.size(), 4);
  EXPECT_FALSE(steps[3].proven);
  for (size_t i = 0; i < steps.size(); ++i) {
    const double sum =
        std::log1p(steps[i].mean_regret) * static_cast<double>(points.size());
    const double least = LeastSum(points, kKernels, i + 1);
    EXPECT_GE(sum, least - 1e-9);
    EXPECT_LE(sum, least + 0.6);
    if (i > 0) {
      EXPECT_LE(steps[i].mean_regret, steps[i - 1].mean_regret);
    }
  }
}

}  // namespace
}  // namespace hone
