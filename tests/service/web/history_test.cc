#include "service/web/history.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Measurement `id` of the one config that these tests know.
RepeatedTrial At(int64_t id, int64_t median_ns) {
  RepeatedTrial trial;
  trial.id = id;
  trial.problem_hash = "p";
  trial.m = 16;
  trial.config = "c";
  trial.protocol_hash = "cold";
  trial.kernel_id = "k";
  trial.nvrtc_version = "13.0";
  trial.uuid = "GPU-1";
  trial.driver = "580";
  trial.device_row = 1;
  trial.unix_us = id * 1000;
  trial.median_ns = median_ns;
  return trial;
}

std::vector<std::pair<int64_t, int64_t>> Ids(const Noise& noise) {
  std::vector<std::pair<int64_t, int64_t>> ids;
  for (const NoisePair& pair : noise.pairs)
    ids.emplace_back(pair.first->id, pair.second->id);
  return ids;
}

TEST(NoiseTest, ComparesNeighboursInTime) {
  const std::vector<RepeatedTrial> trials = {At(1, 10000), At(2, 10100),
                                             At(5, 9999)};
  const Noise noise = NoiseOf(trials);
  EXPECT_THAT(Ids(noise), ElementsAre(std::pair(2, 5), std::pair(1, 2)));
  EXPECT_DOUBLE_EQ(noise.pairs[1].log_ratio, std::log(1.01));
  EXPECT_LT(noise.pairs[0].log_ratio, 0);
}

// Another kernel, GPU, state or subject is no A/A.
TEST(NoiseTest, ComparesOnlyTheSameKernelOnTheSameGpuInTheSameState) {
  const auto pairs = [](void (*change)(RepeatedTrial&)) {
    std::vector<RepeatedTrial> trials = {At(1, 10000), At(2, 10100)};
    change(trials[1]);
    return NoiseOf(trials).pairs;
  };
  EXPECT_THAT(pairs([](RepeatedTrial&) {}), SizeIs(1));
  EXPECT_THAT(pairs([](RepeatedTrial& t) { t.kernel_id = "x"; }), IsEmpty());
  EXPECT_THAT(pairs([](RepeatedTrial& t) { t.uuid = "x"; }), IsEmpty());
  EXPECT_THAT(pairs([](RepeatedTrial& t) { t.device_row = 2; }), IsEmpty());
  EXPECT_THAT(pairs([](RepeatedTrial& t) { t.m = 17; }), IsEmpty());
  EXPECT_THAT(pairs([](RepeatedTrial& t) { t.config = "x"; }), IsEmpty());
  EXPECT_THAT(pairs([](RepeatedTrial& t) { t.problem_hash = "x"; }), IsEmpty());
  EXPECT_THAT(pairs([](RepeatedTrial& t) { t.protocol_hash = "x"; }),
              IsEmpty());
  EXPECT_THAT(pairs([](RepeatedTrial& t) { t.median_ns = 0; }), IsEmpty());
}

TEST(NoiseTest, KernelsThatTakeTurnsAreComparedWithThemselves) {
  std::vector<RepeatedTrial> trials = {At(1, 100), At(2, 200), At(3, 100),
                                       At(4, 200)};
  trials[1].kernel_id = trials[3].kernel_id = "other";
  EXPECT_THAT(Ids(NoiseOf(trials)),
              ElementsAre(std::pair(2, 4), std::pair(1, 3)));
}

TEST(NoiseTest, SumsUpByRank) {
  std::vector<RepeatedTrial> trials;
  // 20 pairs whose |log ratio| is about 0.1 % to 2.0 %.
  for (int i = 1; i <= 20; ++i) {
    RepeatedTrial first = At(2 * i, 1000000);
    RepeatedTrial second = At(2 * i + 1, 1000000 + (i % 2 ? -1 : 1) * i * 1000);
    first.m = second.m = i;
    trials.push_back(first);
    trials.push_back(second);
  }
  const Noise noise = NoiseOf(trials);
  EXPECT_NEAR(noise.median, 0.0105, 1e-4);
  // The 19th of 20.
  EXPECT_NEAR(noise.percentile_95, 0.0192, 1e-4);
  EXPECT_TRUE(std::isnan(NoiseOf({}).median));
  EXPECT_TRUE(std::isnan(NoiseOf({}).percentile_95));
}

TEST(RegressionsTest, SameStateIsNone) {
  const std::vector<RepeatedTrial> trials = {At(1, 10000), At(2, 20000)};
  const Regressions found = RegressionsOf(trials);
  EXPECT_THAT(found.rows, IsEmpty());
  EXPECT_THAT(found.versions, SizeIs(1));
}

TEST(RegressionsTest, HoldsTheNewestAgainstTheNewestOfAnotherState) {
  for (void (*change)(RepeatedTrial&) :
       {+[](RepeatedTrial& t) { t.driver = "590"; },
        +[](RepeatedTrial& t) { t.nvrtc_version = "13.1"; },
        +[](RepeatedTrial& t) { t.kernel_id = "rebuilt"; }}) {
    std::vector<RepeatedTrial> trials = {At(1, 9000), At(2, 10000),
                                         At(3, 15000), At(4, 12000)};
    change(trials[2]);
    change(trials[3]);
    const Regressions found = RegressionsOf(trials);
    ASSERT_THAT(found.rows, SizeIs(1));
    EXPECT_EQ(found.rows[0].before->id, 2);
    EXPECT_EQ(found.rows[0].after->id, 4);
    EXPECT_DOUBLE_EQ(found.rows[0].ratio, 1.2);
    EXPECT_TRUE(found.rows[0].beyond_tie);
  }
}

TEST(RegressionsTest, TellsVersionsApart) {
  std::vector<RepeatedTrial> trials = {At(7, 10000), At(8, 10000),
                                       At(9, 10000)};
  trials[0].driver = "570";
  trials[2].nvrtc_version = "13.1";
  // Seen out of order: what counts is the first trial.
  std::swap(trials[0].unix_us, trials[2].unix_us);
  const Regressions found = RegressionsOf(trials);
  ASSERT_THAT(found.versions, SizeIs(3));
  EXPECT_EQ(found.versions[0].nvrtc, "13.1");
  EXPECT_EQ(found.versions[0].from_us, 7000);
  EXPECT_EQ(found.versions[1].driver, "580");
  EXPECT_EQ(found.versions[2].driver, "570");
  ASSERT_THAT(found.rows, SizeIs(1));
  EXPECT_EQ(found.rows[0].version_before, 1);
  EXPECT_EQ(found.rows[0].version_after, 0);
}

TEST(RegressionsTest, OtherGpusAreNotCompared) {
  std::vector<RepeatedTrial> trials = {At(1, 10000), At(2, 12000)};
  trials[1].driver = "590";
  trials[1].uuid = "GPU-2";
  EXPECT_THAT(RegressionsOf(trials).rows, IsEmpty());
}

TEST(RegressionsTest, BothBoundsOfATieCount) {
  const auto beyond = [](int64_t before, int64_t after) {
    std::vector<RepeatedTrial> trials = {At(1, before), At(2, after)};
    trials[1].driver = "590";
    return RegressionsOf(trials).rows.at(0).beyond_tie;
  };
  EXPECT_FALSE(beyond(1000, 1064));  // 64 ns
  EXPECT_TRUE(beyond(1000, 1065));
  EXPECT_FALSE(beyond(1000000, 1010000));  // 1 %
  EXPECT_TRUE(beyond(1000000, 1010001));
  EXPECT_TRUE(beyond(1010001, 1000000));
}

TEST(RegressionsTest, TheLargestChangeComesFirst) {
  std::vector<RepeatedTrial> trials;
  for (const auto& [m, after] :
       {std::pair(1, 10500), std::pair(2, 5000), std::pair(3, 13000)}) {
    RepeatedTrial first = At(10 * m, 10000);
    RepeatedTrial second = At(10 * m + 1, after);
    first.m = second.m = m;
    second.driver = "590";
    trials.push_back(first);
    trials.push_back(second);
  }
  std::vector<int64_t> ms;
  for (const Regression& row : RegressionsOf(trials).rows)
    ms.push_back(row.after->m);
  EXPECT_THAT(ms, ElementsAre(2, 3, 1));
}

}  // namespace
}  // namespace hone
