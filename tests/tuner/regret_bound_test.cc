// Bounds of regret on tables of known times, and the arithmetic
// of transfers. How well the assumptions hold: tests/db/shipped_tables_test.cc.
#include "tuner/regret_bound.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::IsEmpty;

Evidence At(int64_t m, int64_t ns, int64_t half_width = 0) {
  return {.m = m,
          .samples = 20,
          .median_ns = ns,
          .low_ns = ns - half_width,
          .high_ns = ns + half_width};
}

TuningConfig Config(int64_t stages) {
  TuningConfig config;
  config.stages = stages;
  return config;
}

// Ladder 1, 16, 64, 128; probed at 17.
DispatchTable Table() {
  DispatchTable table;
  table.ladder = {1, 16, 64, 128};
  table.entries = {{.m_lo = 1,
                    .m_hi = 16,
                    .config = Config(2),
                    .evidence = {At(1, 1000, 10), At(16, 1200, 10)}},
                   {.m_lo = 17,
                    .m_hi = 64,
                    .config = Config(3),
                    .evidence = {At(17, 2000, 20), At(64, 1900, 20)}},
                   {.m_lo = 65,
                    .m_hi = 0,
                    .config = Config(4),
                    .evidence = {At(128, 4000, 40)}}};
  return table;
}

TEST(BucketBoundsTest, TheSlowerNeighbourOverTheFastestThatPaddingLeaves) {
  const std::vector<BucketBound> bounds = BucketBounds(Table(), {});
  // 65 to 127 have no bound: the kernel was never measured below 128.
  ASSERT_EQ(bounds.size(), 3u);
  EXPECT_EQ(bounds[0].m_lo, 2);
  EXPECT_EQ(bounds[0].m_hi, 15);
  EXPECT_DOUBLE_EQ(bounds[0].regret, 1210.0 / 990 - 1);
  EXPECT_EQ(bounds[0].below, 1);
  EXPECT_EQ(bounds[0].above, 16);
  // A probe is measured, but not against all kernels.
  EXPECT_EQ(bounds[1].m_lo, 17);
  EXPECT_EQ(bounds[1].m_hi, 17);
  EXPECT_DOUBLE_EQ(bounds[1].regret, 2020.0 / 1190 - 1);
  EXPECT_EQ(bounds[2].m_lo, 18);
  EXPECT_EQ(bounds[2].m_hi, 63);
  EXPECT_DOUBLE_EQ(bounds[2].regret, 2020.0 / 1190 - 1);

  for (const int64_t exact : {1, 16, 64, 128, 129, 1 << 20, 65, 127}) {
    EXPECT_EQ(FindBound(bounds, exact), nullptr) << exact;
  }
  EXPECT_EQ(FindBound(bounds, 2), &bounds[0]);
  EXPECT_EQ(FindBound(bounds, 15), &bounds[0]);
  EXPECT_EQ(FindBound(bounds, 17), &bounds[1]);
  EXPECT_EQ(FindBound(bounds, 63), &bounds[2]);
  EXPECT_EQ(FindBound({}, 5), nullptr);
}

TEST(BucketBoundsTest, AFasterLargerMLowersWhatTheBestMayTake) {
  // Whoever computes 2 rows could pad to 16, where it takes only 900.
  DispatchTable table = Table();
  table.entries[0].evidence[1] = At(16, 900);
  EXPECT_DOUBLE_EQ(BucketBounds(table, {})[0].regret, 1010.0 / 900 - 1);
}

TEST(BucketBoundsTest, TrialsSayWhereTheTableDoesNot) {
  TrialTimes trials;
  trials.configs = {{Config(4).ToString(), {{64, 3000, 4500}}}};
  trials.best = {{64, 1800}};
  const std::vector<BucketBound> bounds = BucketBounds(Table(), trials);
  const BucketBound* bound = FindBound(bounds, 100);
  ASSERT_NE(bound, nullptr);
  EXPECT_EQ(bound->m_lo, 65);
  EXPECT_EQ(bound->m_hi, 127);
  EXPECT_EQ(bound->below, 64);
  // Its largest time by any session over the least of any kernel.
  EXPECT_DOUBLE_EQ(bound->regret, 4500.0 / 1800 - 1);
}

TEST(BucketBoundsTest, WithoutEvidenceThereIsNoBound) {
  DispatchTable table = Table();
  for (TableEntry& entry : table.entries) entry.evidence.clear();
  EXPECT_THAT(BucketBounds(table, {}), IsEmpty());
  // Nor below the first ladder point, where no race saw all kernels.
  table = Table();
  table.ladder = {16, 64, 128};
  EXPECT_EQ(FindBound(BucketBounds(table, {}), 2), nullptr);
  EXPECT_NE(FindBound(BucketBounds(table, {}), 18), nullptr);
}

TEST(TransferTest, ComparesWithTheFastestWhereTheKernelWasMeasured) {
  TrialTimes trials;
  trials.configs = {{Config(2).ToString(), {{1, 1100, 5000}}},
                    {Config(3).ToString(), {{64, 2000, 2000}}}};
  trials.best = {{1, 1000}, {16, 1000}, {64, 2000}, {128, 1}};
  const DispatchTable own = Table();
  const Transfer transfer = TransfersOf(own, trials, {&own})[0];
  ASSERT_EQ(transfer.regrets.size(), 2u);
  EXPECT_NEAR(transfer.regrets[0], 0.1, 1e-9);
  EXPECT_DOUBLE_EQ(transfer.regrets[1], 0);
  EXPECT_EQ(transfer.unmeasured, 2);
}

TEST(TransferTest, TheBoundIsAQuantileOfEnoughPairs) {
  std::vector<Transfer> transfers(4);
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 5; ++k) {
      transfers[i].regrets.push_back(0.01 * (5 * i + k + 1));
    }
    transfers[i].unmeasured = 2;
  }
  transfers.push_back({{}, 7});  // no key seen: no pair
  EXPECT_FALSE(BoundOf(transfers).has_value());
  transfers.push_back({{0.5}, 0});
  const auto bound = BoundOf(transfers);
  ASSERT_TRUE(bound.has_value());
  EXPECT_EQ(bound->pairs, 5);
  EXPECT_EQ(bound->keys, 21);
  EXPECT_EQ(bound->unmeasured, 15);
  // 20 of 21 are at most this.
  EXPECT_DOUBLE_EQ(bound->regret, 0.2);
}

}  // namespace
}  // namespace hone
