#include "tuner/cover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <random>

namespace hone {
namespace {

bool Covers(const std::vector<CoverPoint>& points,
            const std::vector<int>& kernels) {
  return std::all_of(points.begin(), points.end(), [&](const CoverPoint& p) {
    return p.kernels.empty() ||
           std::any_of(p.kernels.begin(), p.kernels.end(), [&](int k) {
             return std::count(kernels.begin(), kernels.end(), k) > 0;
           });
  });
}

std::vector<int> Members(unsigned mask) {
  std::vector<int> kernels;
  for (int k = 0; mask >> k != 0; ++k) {
    if ((mask >> k & 1) != 0) kernels.push_back(k);
  }
  return kernels;
}

TEST(SmallestCoverTest, MatchesBruteForceOnRandomInstances) {
  std::mt19937_64 random(11);
  for (int instance = 0; instance < 300; ++instance) {
    const int kernel_count = 2 + static_cast<int>(random() % 9);
    const int point_count = 1 + static_cast<int>(random() % 12);
    std::vector<CoverKernel> kernels;
    for (int k = 0; k < kernel_count; ++k) {
      kernels.push_back({static_cast<int64_t>(random() % 2), random() % 4});
    }
    std::vector<CoverPoint> points(static_cast<size_t>(point_count));
    for (CoverPoint& point : points) {
      for (int k = 0; k < kernel_count; ++k) {
        if (random() % 3 == 0) {
          point.kernels.push_back(k);
          point.regrets.push_back(0);
        }
      }
    }
    const Cover cover = SmallestCover(points, kernels);
    EXPECT_TRUE(cover.proven);
    EXPECT_TRUE(Covers(points, cover.kernels));

    // (size, newcomers, workspace) by brute force.
    using Cost = std::tuple<size_t, int64_t, uint64_t>;
    const auto cost = [&](const std::vector<int>& set) -> Cost {
      int64_t newcomers = 0;
      uint64_t workspace = 0;
      for (const int k : set) {
        newcomers += kernels[static_cast<size_t>(k)].newcomer;
        workspace += kernels[static_cast<size_t>(k)].workspace_bytes;
      }
      return {set.size(), newcomers, workspace};
    };
    std::optional<Cost> best;
    for (unsigned mask = 0; mask < 1U << kernel_count; ++mask) {
      const std::vector<int> set = Members(mask);
      if (!Covers(points, set)) continue;
      best = best ? std::min(*best, cost(set)) : cost(set);
    }
    EXPECT_EQ(cost(cover.kernels), *best) << "instance " << instance;
    EXPECT_EQ(cover.lower_bound, static_cast<int64_t>(cover.kernels.size()));
  }
}

TEST(SmallestCoverTest, AmongTheSmallestTheLeastRegretWins) {
  const std::vector<CoverPoint> points = {{{0, 1}, {0.015, 0.0}},
                                          {{0, 1}, {0.0, 0.001}}};
  EXPECT_EQ(SmallestCover(points, std::vector<CoverKernel>(2)).kernels,
            std::vector<int>{1});
  // An incumbent goes first all the same.
  EXPECT_EQ(
      SmallestCover(points, std::vector<CoverKernel>{{0, 0}, {1, 0}}).kernels,
      std::vector<int>{0});
}

TEST(SmallestCoverTest, OutOfNodesTheBoundIsStillHonest) {
  std::mt19937_64 random(5);
  std::vector<CoverPoint> points(60);
  for (CoverPoint& point : points) {
    for (int k = 0; k < 60; ++k) {
      if (random() % 12 == 0) {
        point.kernels.push_back(k);
        point.regrets.push_back(0);
      }
    }
  }
  const std::vector<CoverKernel> kernels(60);
  const Cover rough = SmallestCover(points, kernels, 10);
  const Cover better = SmallestCover(points, kernels, 20000);
  EXPECT_TRUE(Covers(points, rough.kernels));
  EXPECT_TRUE(Covers(points, better.kernels));
  EXPECT_LE(better.kernels.size(), rough.kernels.size());
  EXPECT_FALSE(rough.proven);
  EXPECT_LE(rough.lower_bound, static_cast<int64_t>(better.kernels.size()));
}

TEST(SmallestCoverTest, NothingToCover) {
  EXPECT_TRUE(SmallestCover({}, {}).kernels.empty());
}

Trial MakeTrial(double ns, double sigma, uint64_t seed, int rounds = 30) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, sigma);
  Trial trial;
  for (int r = 0; r < rounds; ++r) {
    trial.samples.push_back(
        {static_cast<int64_t>(ns * std::exp(normal(random))), 0, r});
  }
  return trial;
}

TEST(JudgePointTest, SlackToTheBestAndTieToTheDefault) {
  const Trial best = MakeTrial(20000, 0.002, 1);
  const Trial tie = MakeTrial(20050, 0.002, 2);
  const Trial within_slack = MakeTrial(20240, 0.002, 3);
  const Trial outside = MakeTrial(20900, 0.002, 4);
  const std::vector<Measured> measured = {
      {0, &best}, {1, &tie}, {2, &within_slack}, {3, &outside}};
  std::vector<Standing> standings = JudgePoint(measured, 3, {});
  ASSERT_EQ(standings.size(), 4u);
  EXPECT_TRUE(standings[0].admissible);
  EXPECT_TRUE(standings[0].tie);
  EXPECT_TRUE(standings[1].admissible);
  EXPECT_TRUE(standings[1].tie);
  EXPECT_EQ(standings[1].regret, 0);
  EXPECT_TRUE(standings[2].admissible);
  EXPECT_FALSE(standings[2].tie);
  EXPECT_NEAR(standings[2].regret, 0.012, 0.003);
  EXPECT_FALSE(standings[3].admissible);

  // When the best is the default, 1.2 % behind is too far.
  standings = JudgePoint(measured, 0, {});
  EXPECT_TRUE(standings[0].admissible);
  EXPECT_FALSE(standings[2].admissible);
}

TEST(JudgePointTest, NoiseWithoutEvidenceAdmitsOnlyTheBest) {
  const Trial best = MakeTrial(20000, 0.05, 1, 4);
  const Trial other = MakeTrial(20500, 0.05, 2, 4);
  const std::vector<Measured> measured = {{0, &best}, {1, &other}};
  int admissible = 0;
  for (const Standing& standing : JudgePoint(measured, -1, {})) {
    admissible += standing.admissible;
  }
  EXPECT_EQ(admissible, 1);
}

TEST(AssignPointsTest, StaysWithTheNeighbourAmongTies) {
  const std::vector<CoverPoint> points = {
      {{0, 1}, {0, 0}}, {{0, 1}, {0.005, 0}}, {{0, 1}, {0.015, 0}}, {{}, {}}};
  const std::vector<CoverKernel> kernels = {{1, 0}, {1, 100}};
  EXPECT_EQ(AssignPoints(points, kernels, {0, 1}, 0.01),
            (std::vector<int>{0, 0, 1, -1}));
  EXPECT_EQ(AssignPoints(points, kernels, {1}, 0.01),
            (std::vector<int>{1, 1, 1, -1}));
}

TEST(BuildRangesTest, PointsBetweenGoToTheNextLadderPoint) {
  EXPECT_EQ(BuildRanges(std::vector<TablePoint>{
                {4, 0, 4, 0}, {8, 0, 8, 0}, {16, 1, 16, 0}, {32, 1, 16, 0}}),
            (std::vector<TableRange>{{1, 8, 0}, {9, 0, 1}}));
  EXPECT_EQ(BuildRanges(std::vector<TablePoint>{{64, 5, 64, 100}}),
            (std::vector<TableRange>{{1, 0, 5}}));
}

TEST(BuildRangesTest, ATileCliffExtendsTheFasterKernel) {
  // Kernel 0 runs one tile of 32 up to M = 32 and is faster than kernel 1,
  // which runs one tile of 64 all along.
  EXPECT_EQ(BuildRanges(
                std::vector<TablePoint>{{24, 0, 32, 1000}, {48, 1, 64, 1300}}),
            (std::vector<TableRange>{{1, 32, 0}, {33, 0, 1}}));
  // Not when kernel 1 has fewer tiles below its own point...
  EXPECT_EQ(BuildRanges(
                std::vector<TablePoint>{{24, 0, 32, 1000}, {48, 1, 16, 1300}}),
            (std::vector<TableRange>{{1, 24, 0}, {25, 0, 1}}));
  // ...or is no slower.
  EXPECT_EQ(BuildRanges(
                std::vector<TablePoint>{{24, 0, 32, 1300}, {48, 1, 64, 1300}}),
            (std::vector<TableRange>{{1, 24, 0}, {25, 0, 1}}));
  // The next point is never swallowed.
  EXPECT_EQ(BuildRanges(
                std::vector<TablePoint>{{24, 0, 64, 1000}, {32, 1, 64, 1300}}),
            (std::vector<TableRange>{{1, 31, 0}, {32, 0, 1}}));
}

TEST(CliffProbesTest, LastMultipleAndOneMoreWithinTheLimit) {
  EXPECT_EQ(CliffProbes(std::vector<int64_t>{1, 2, 64, 96},
                        std::vector<int64_t>{16, 64}, 16),
            (std::vector<int64_t>{48, 49, 65, 80, 81}));
  EXPECT_EQ(CliffProbes(std::vector<int64_t>{1, 2, 64, 96},
                        std::vector<int64_t>{16}, 2),
            (std::vector<int64_t>{48, 49}));
  EXPECT_TRUE(CliffProbes(std::vector<int64_t>{8}, std::vector<int64_t>{16}, 9)
                  .empty());
}

}  // namespace
}  // namespace hone
