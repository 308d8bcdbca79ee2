#include "tuner/traffic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tuner/trial.h"

namespace hone {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int64_t kWeekUs = int64_t{7} * 24 * 3600 * 1'000'000;

TEST(DecayedCountTest, HalvesEveryWeek) {
  DecayedCount count;
  count.Add(8, 1000);
  EXPECT_DOUBLE_EQ(count.At(1000), 8);
  EXPECT_DOUBLE_EQ(count.At(1000 + kWeekUs), 4);
  EXPECT_DOUBLE_EQ(count.At(1000 + 3 * kWeekUs), 1);
  EXPECT_NEAR(count.At(1000 + kWeekUs / 2), 8 / std::sqrt(2.0), 1e-12);
  // Far past what a double holds.
  EXPECT_EQ(count.At(1000 + 2000 * kWeekUs), 0);
}

TEST(DecayedCountTest, IsTheSameInOneStepAsInMany) {
  DecayedCount once;
  once.Add(5, 0);
  DecayedCount often = once;
  for (int i = 1; i <= 100; ++i) often.Add(0, i * (kWeekUs / 100));
  EXPECT_EQ(often.unix_us, kWeekUs);
  EXPECT_NEAR(often.weight, once.At(kWeekUs), 1e-12);
}

TEST(DecayedCountTest, ReportsMayComeInAnyOrder) {
  DecayedCount in_order;
  in_order.Add(4, kWeekUs);
  in_order.Add(2, 2 * kWeekUs);
  DecayedCount out_of_order;
  out_of_order.Add(2, 2 * kWeekUs);
  out_of_order.Add(4, kWeekUs);
  EXPECT_DOUBLE_EQ(in_order.weight, 4);
  EXPECT_EQ(in_order, out_of_order);
  // A clock that was set back makes nothing heavier.
  EXPECT_DOUBLE_EQ(in_order.At(0), 4);
}

TEST(MergeRareTest, RareOnesGoToTheNextKeptMAbove) {
  const std::vector<MWeight> histogram = {{1, 50}, {2, 1}, {3, 2},
                                          {8, 40}, {9, 3}, {100, 1}};
  EXPECT_THAT(MergeRare(histogram, 3),
              ElementsAre(MWeight{1, 50}, MWeight{9, 46}, MWeight{100, 1}));
  EXPECT_THAT(MergeRare(histogram, 1), ElementsAre(MWeight{100, 97}));
  EXPECT_EQ(MergeRare(histogram, 6), histogram);
  EXPECT_THAT(MergeRare({}, 3), IsEmpty());
}

TEST(TimeCurveTest, IsLinearBetweenPointsAndBeyondTheLast) {
  const TimeCurve curve({{4, 100}, {8, 200}, {16, 240}});
  EXPECT_DOUBLE_EQ(curve.At(1), 100);
  EXPECT_DOUBLE_EQ(curve.At(4), 100);
  EXPECT_DOUBLE_EQ(curve.At(5), 125);
  EXPECT_DOUBLE_EQ(curve.At(8), 200);
  EXPECT_DOUBLE_EQ(curve.At(12), 220);
  EXPECT_DOUBLE_EQ(curve.At(64), 960);
  EXPECT_DOUBLE_EQ(TimeCurve().At(3), 0);
}

// 10 µs up to M = 64, then in proportion.
TimeCurve Times(double scale = 1) {
  return TimeCurve(
      {{1, 10'000 * scale}, {64, 10'000 * scale}, {8192, 1'280'000 * scale}});
}

double Sum(const std::vector<MWeight>& calls) {
  return std::accumulate(
      calls.begin(), calls.end(), 0.0,
      [](double sum, const MWeight& at) { return sum + at.weight; });
}

bool Rises(const std::vector<int64_t>& ladder) {
  return std::adjacent_find(ladder.begin(), ladder.end(),
                            std::greater_equal<>()) == ladder.end();
}

TEST(TrafficLadderTest, WithoutTrafficIsTheDefault) {
  EXPECT_EQ(TrafficLadder({}, Times(), 24), DefaultLadder());
  EXPECT_EQ(TrafficLadder({{{7, 0.0}}}, Times(), 24), DefaultLadder());
  EXPECT_EQ(TrafficLadder({{{7, 5.0}}}, TimeCurve(), 24), DefaultLadder());
}

TEST(TrafficLadderTest, OfASingleMHasItAndFewOthers) {
  const std::vector<MWeight> calls = {{100, 1e6}};
  EXPECT_THAT(TrafficLadder(calls, Times(), 24),
              ElementsAre(1, 16, 64, 100, 256, 1024, 4096));
}

TEST(TrafficLadderTest, OfDecodeAndPrefillHasTheMOfBoth) {
  // Decode steps of 1 to 48 sequences, most of them 40 to 48; chunks of 2000
  // tokens; and some of any length.
  std::vector<MWeight> calls;
  for (int64_t m = 1; m <= 48; ++m) {
    calls.push_back({m, m < 40 ? 100.0 : 3000.0});
  }
  for (int64_t m = 100; m < 2000; m += 19) calls.push_back({m, 1.0});
  calls.push_back({2000, 300});
  const std::vector<int64_t> ladder = TrafficLadder(calls, Times(), 24);
  EXPECT_TRUE(Rises(ladder));
  EXPECT_LE(ladder.size(), 24);
  EXPECT_THAT(ladder,
              IsSupersetOf({1, 16, 40, 44, 48, 64, 256, 1024, 2000, 4096}));
  // Decode is where most of the time is spent, 8192 where none is.
  EXPECT_GE(std::count_if(ladder.begin(), ladder.end(),
                          [](int64_t m) { return m >= 32 && m <= 48; }),
            9);
  EXPECT_THAT(ladder, Not(Contains(8192)));
  EXPECT_THAT(ladder, Not(Contains(6144)));
}

TEST(TrafficLadderTest, OfFlatTrafficIsTheDefaultWhereTimeIs) {
  std::vector<MWeight> calls;
  for (int64_t m = 1; m <= 8192; ++m) calls.push_back({m, 1});
  const std::vector<int64_t> ladder = TrafficLadder(calls, Times(), 24);
  const std::vector<int64_t> base = DefaultLadder();
  EXPECT_TRUE(
      std::includes(base.begin(), base.end(), ladder.begin(), ladder.end()));
  EXPECT_THAT(ladder, IsSupersetOf({1, 256, 384, 512, 768, 1024, 1536, 2048,
                                    3072, 4096, 6144, 8192}));
}

TEST(TrafficLadderTest, GoesOnBeyondTheDefaultButNotForEver) {
  EXPECT_THAT(TrafficLadder({{{20'000, 1.0}}}, Times(), 24),
              ElementsAre(1, 16, 64, 256, 1024, 4096, 20'000));
  std::vector<MWeight> calls;
  for (int64_t m = 1; m <= 100; ++m) calls.push_back({m * 1000, 1});
  EXPECT_THAT(TrafficLadder(calls, Times(), 24),
              IsSupersetOf({8192, 12288, 16384, 24576, 32768}));
  EXPECT_EQ(TrafficLadder({{{1'000'000, 1.0}}}, Times(), 24).back(), 32768);
}

TEST(TrafficLadderTest, IsNeverLongerThanAsked) {
  std::vector<MWeight> calls;
  for (int64_t m = 1; m <= 40; ++m) calls.push_back({m * 100, 1000.0 / m});
  for (const size_t most : {8, 12, 24, 64}) {
    const std::vector<int64_t> ladder = TrafficLadder(calls, Times(), most);
    EXPECT_THAT(ladder, SizeIs(testing::Le(most)));
    EXPECT_TRUE(Rises(ladder));
    EXPECT_EQ(ladder.front(), 1);
  }
  EXPECT_THAT(TrafficLadder(calls, Times(), 64), SizeIs(testing::Gt(24)));
}

ProblemTraffic Traffic(TableState state, std::vector<MWeight> calls,
                       double misses = 0) {
  ProblemTraffic traffic;
  traffic.state = state;
  traffic.calls = std::move(calls);
  traffic.times = Times();
  traffic.misses = misses;
  return traffic;
}

TEST(PlanTunesTest, OrdersByTheTimeExpectedToBeSaved) {
  const std::vector<ProblemTraffic> traffic = {
      Traffic(TableState::kMissing, {{1, 1000}}),    // 10 ms
      Traffic(TableState::kFresh, {{1, 100'000}}),   // 1 s
      Traffic(TableState::kMissing, {{8192, 100}}),  // 128 ms
      Traffic(TableState::kStale, {{8192, 200}}),    // 256 ms
      Traffic(TableState::kMissing, {}, 3),
      Traffic(TableState::kMissing, {}, 7),
      Traffic(TableState::kMissing, {}),
      Traffic(TableState::kFresh, {}, 50),
  };
  const std::vector<PlannedTune> plan = PlanTunes(traffic);
  std::vector<size_t> order;
  for (const PlannedTune& tune : plan) order.push_back(tune.problem);
  // A missing table gains more than a stale one: 128 × 5 % > 256 × 2 %.
  EXPECT_THAT(order, ElementsAre(2, 3, 0, 5, 4));
  const double all = 10 + 1000 + 128 + 256;
  EXPECT_NEAR(plan[0].time_share, 128 / all, 1e-12);
  EXPECT_NEAR(plan[0].saving_share, 128 * 0.05 / all, 1e-12);
  EXPECT_NEAR(plan[1].saving_share, 256 * 0.02 / all, 1e-12);
  EXPECT_EQ(plan[3].time_share, 0);
  EXPECT_EQ(plan[3].ladder, DefaultLadder());
  EXPECT_THAT(plan[0].ladder, Contains(8192));
}

TEST(PlanTunesTest, SharesTheBudgetInProportionAboveALeast) {
  const std::vector<ProblemTraffic> traffic = {
      Traffic(TableState::kMissing, {{1, 6000}}),
      Traffic(TableState::kMissing, {{1, 3000}}),
      Traffic(TableState::kMissing, {{1, 10}}),
      Traffic(TableState::kMissing, {}, 1),
  };
  PlanOptions options;
  options.budget = absl::Seconds(110);
  const std::vector<PlannedTune> plan = PlanTunes(traffic, options);
  ASSERT_THAT(plan, SizeIs(4));
  EXPECT_NEAR(absl::ToDoubleSeconds(plan[0].budget), 60, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(plan[1].budget), 30, 1e-6);
  EXPECT_EQ(plan[2].budget, absl::Seconds(10));
  EXPECT_EQ(plan[3].budget, absl::Seconds(10));

  // Not enough for all: the last are left out, the first get what there is.
  options.budget = absl::Seconds(25);
  const std::vector<PlannedTune> two = PlanTunes(traffic, options);
  ASSERT_THAT(two, SizeIs(2));
  EXPECT_NEAR(absl::ToDoubleSeconds(two[0].budget), 15, 1e-6);
  EXPECT_EQ(two[1].budget, absl::Seconds(10));
  options.budget = absl::Seconds(3);
  const std::vector<PlannedTune> one = PlanTunes(traffic, options);
  ASSERT_THAT(one, SizeIs(1));
  EXPECT_EQ(one[0].budget, absl::Seconds(3));
  // And never more than one tune may take.
  options.budget = absl::Hours(1000);
  EXPECT_EQ(PlanTunes(traffic, options)[0].budget, absl::Hours(24));
}

TEST(PlanTunesTest, SharesEquallyWhereOnlyMissesAreKnown) {
  const std::vector<ProblemTraffic> traffic = {
      Traffic(TableState::kMissing, {}, 1),
      Traffic(TableState::kStale, {}, 2),
  };
  PlanOptions options;
  options.budget = absl::Seconds(60);
  const std::vector<PlannedTune> plan = PlanTunes(traffic, options);
  ASSERT_THAT(plan, SizeIs(2));
  EXPECT_EQ(plan[0].problem, 1);
  EXPECT_EQ(plan[0].budget, absl::Seconds(30));
  EXPECT_EQ(plan[1].budget, absl::Seconds(30));
  EXPECT_THAT(PlanTunes({}, options), IsEmpty());
}

TEST(PlanTunesTest, MergingRareMMisplacesLittleTime) {
  std::vector<MWeight> calls;
  for (int64_t m = 1; m <= 2000; ++m) {
    calls.push_back({m, 2000.0 / static_cast<double>(m)});
  }
  const std::vector<MWeight> merged = MergeRare(calls, 512);
  EXPECT_THAT(merged, SizeIs(512));
  EXPECT_NEAR(Sum(merged), Sum(calls), 1e-6);
  EXPECT_NEAR(TimeOf(Traffic(TableState::kMissing, merged)) /
                  TimeOf(Traffic(TableState::kMissing, calls)),
              1, 0.01);
}

}  // namespace
}  // namespace hone
