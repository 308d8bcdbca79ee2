#include "tuner/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace hone {
namespace {

TEST(MedianTest, OddEvenAndEmpty) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3.0, 1.0, 2.0}), 2);
  EXPECT_EQ(Median({4.0, 1.0, 2.0, 3.0}), 2.5);
}

TEST(FixedMedianIntervalTest, KnownOrderStatistics) {
  // n = 10, 95 %: P(Bin(10, 1/2) <= 1) = 0.0107, <= 2: 0.0547, so the second
  // smallest and second largest.
  const std::vector<double> values = {10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  const MedianInterval interval = FixedMedianInterval(values, 0.05);
  EXPECT_EQ(interval.count, 10);
  EXPECT_EQ(interval.median, 5.5);
  EXPECT_EQ(interval.low, 2);
  EXPECT_EQ(interval.high, 9);
}

TEST(FixedMedianIntervalTest, TooFewObservationsSayNothing) {
  const MedianInterval interval = FixedMedianInterval({1.0, 2.0, 3.0}, 0.05);
  EXPECT_TRUE(std::isinf(interval.low));
  EXPECT_TRUE(std::isinf(interval.high));
}

TEST(LogWealthTest, MatchesTheIntegralItStandsFor) {
  // 2 · integral over p in [1/2, 1] of (2p)^s (2(1-p))^(n-s), by Simpson.
  for (const auto& [s, n] : std::vector<std::pair<int, int>>{
           {0, 1}, {1, 1}, {5, 5}, {8, 8}, {7, 10}, {20, 30}, {10, 30}}) {
    const int steps = 20000;
    double sum = 0;
    for (int i = 0; i <= steps; ++i) {
      const double p = 0.5 + 0.5 * i / steps;
      const double f = std::pow(2 * p, s) * std::pow(2 * (1 - p), n - s);
      sum += f * (i == 0 || i == steps ? 1 : i % 2 == 1 ? 4 : 2);
    }
    const double integral = 2 * sum * (0.5 / steps) / 3;
    EXPECT_NEAR(LogWealth(s, n), std::log(integral), 1e-6) << s << "/" << n;
  }
}

TEST(LogWealthTest, RisesWithObservationsAbove) {
  for (int s = 0; s < 40; ++s)
    EXPECT_LT(LogWealth(s, 40), LogWealth(s + 1, 40));
}

TEST(MedianSequenceTest, NeedsEnoughObservationsThenNarrows) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(1.0, 0.1);
  std::vector<double> values;
  double last_width = INFINITY;
  for (int n = 1; n <= 400; ++n) {
    values.push_back(normal(random));
    const MedianInterval interval = MedianSequence(values, 0.001);
    if (n <= 10) {
      EXPECT_TRUE(std::isinf(interval.low)) << n;
    }
    if (n == 20 || n == 100 || n == 400) {
      EXPECT_LT(interval.high - interval.low, last_width);
      last_width = interval.high - interval.low;
      EXPECT_LE(interval.low, interval.median);
      EXPECT_GE(interval.high, interval.median);
    }
  }
  EXPECT_LT(last_width, 0.08);
}

// The lower bound may ever exceed the true median with a chance of at most
// alpha, however often one looks and whatever the noise.
void ExpectHoldsAtAllTimes(const std::function<double(std::mt19937_64&)>& draw,
                           double true_median) {
  constexpr double kAlpha = 0.05;
  constexpr int kRuns = 600;
  std::mt19937_64 random(7);
  int misses = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> values;
    bool missed = false;
    for (int n = 0; n < 60; ++n) {
      values.push_back(draw(random));
      missed = missed || MedianSequence(values, kAlpha).low > true_median;
    }
    misses += missed;
  }
  // Three standard deviations above alpha.
  EXPECT_LE(misses, kRuns * kAlpha + 3 * std::sqrt(kRuns * kAlpha * 0.95));
}

TEST(MedianSequenceTest, HoldsAtAllTimesForNormalNoise) {
  std::normal_distribution<double> normal;
  ExpectHoldsAtAllTimes([&](auto& r) { return normal(r); }, 0);
}

TEST(MedianSequenceTest, HoldsAtAllTimesForSkewedAndHeavyNoise) {
  std::cauchy_distribution<double> cauchy;
  ExpectHoldsAtAllTimes([&](auto& r) { return cauchy(r); }, 0);
  std::exponential_distribution<double> exponential;
  ExpectHoldsAtAllTimes([&](auto& r) { return exponential(r); }, std::log(2.0));
}

TEST(MedianSequenceTest, HoldsAtAllTimesForTwoClocks) {
  std::normal_distribution<double> normal(0, 0.01);
  std::bernoulli_distribution slow(0.5);
  ExpectHoldsAtAllTimes(
      [&](auto& r) {
        // Each side of the pair runs at either clock.
        return normal(r) + (slow(r) ? 0.2 : 0) - (slow(r) ? 0.2 : 0);
      },
      0);
}

std::vector<Sample> Samples(std::vector<int64_t> ns, int32_t first_round) {
  std::vector<Sample> samples;
  for (const int64_t value : ns) samples.push_back({value, 0, first_round++});
  return samples;
}

TEST(PairedLogRatiosTest, PairsByRoundOnly) {
  std::vector<Sample> a = Samples({200, 400, 800}, 1);
  std::vector<Sample> b = Samples({100, 100, 100}, 2);
  a.erase(a.begin() + 1);  // rounds 1 and 3
  const std::vector<double> ratios = PairedLogRatios(a, b);
  ASSERT_EQ(ratios.size(), 1u);
  EXPECT_NEAR(ratios[0], std::log(8.0), 1e-12);
}

TEST(CompareSamplesTest, PairingRemovesDriftThatMediansKeep) {
  std::vector<int64_t> slow;
  std::vector<int64_t> fast;
  for (int i = 0; i < 40; ++i) {
    slow.push_back(10100 + 100 * i);
    fast.push_back(10000 + 99 * i);
  }
  const MedianInterval paired =
      CompareSamples(Samples(slow, 0), Samples(fast, 0), true, 0.01);
  EXPECT_NEAR(paired.median, 0.01, 0.0005);
  EXPECT_GT(paired.low, 0.0);
  const MedianInterval apart =
      CompareSamples(Samples(slow, 0), Samples(fast, 0), false, 0.01);
  EXPECT_LT(apart.low, 0.0);
  EXPECT_GT(apart.high, paired.high);
  // The same session, but no round in common.
  EXPECT_EQ(
      CompareSamples(Samples(slow, 0), Samples(fast, 100), true, 0.01).high,
      apart.high);
}

}  // namespace
}  // namespace hone
