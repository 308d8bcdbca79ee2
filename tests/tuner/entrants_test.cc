#include "tuner/entrants.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hone {
namespace {

TEST(CoarseToFineTest, VisitsEveryIndexOnceEndsFirst) {
  EXPECT_TRUE(CoarseToFine(0).empty());
  for (size_t count = 1; count < 40; ++count) {
    std::vector<size_t> order = CoarseToFine(count);
    EXPECT_EQ(order.front(), 0u);
    if (count > 2) {
      EXPECT_EQ(order[1], count - 1);
      EXPECT_EQ(order[2], count / 2);
    }
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order.size(), count);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(order[i], i);
  }
}

class EntrantsTest : public testing::Test {
 protected:
  // Kernel i is predicted 1000 · (1 + i / 4) at every point.
  EntrantsTest() : kernels_(40) {
    for (size_t i = 0; i < kernels_.size(); ++i) {
      kernels_[i].config.stages = static_cast<int64_t>(i) + 2;
      kernels_[i].predicted_ns.assign(3,
                                      1000 * (1 + static_cast<double>(i) / 4));
    }
  }
  std::vector<size_t> Select(int standard,
                             const TuningConfig* incumbent = nullptr) const {
    return SelectEntrants(kernels_, ladder_, 1, standard, kScoutRatio,
                          incumbent, best_ns_);
  }
  static bool Has(const std::vector<size_t>& entrants, size_t kernel) {
    return std::count(entrants.begin(), entrants.end(), kernel) > 0;
  }

  std::vector<PoolKernel> kernels_;
  const std::vector<int64_t> ladder_ = {1, 16, 256};
  std::map<int64_t, int64_t> best_ns_;
};

TEST_F(EntrantsTest, TheNearOnesAlwaysAFewAndTheDefault) {
  // At a ratio of 2.5: 0 to 6; eight in any case.
  EXPECT_EQ(Select(0).size(), 8u);
  const std::vector<size_t> with_far_default = Select(39);
  EXPECT_EQ(with_far_default.size(), 9u);
  EXPECT_TRUE(Has(with_far_default, 39));
  kernels_[0].state = PoolKernel::State::kOut;
  EXPECT_FALSE(Has(Select(1), 0));
}

TEST_F(EntrantsTest, NeverTooMany) {
  for (PoolKernel& kernel : kernels_) kernel.predicted_ns.assign(3, 1000);
  EXPECT_EQ(Select(0).size(), 24u);
}

TEST_F(EntrantsTest, TheIncumbentAndTheNeighboursWinnersWhateverTheModelSays) {
  EXPECT_TRUE(Has(Select(0, &kernels_[30].config), 30));
  Trial trial;
  trial.median_ns = 1050;
  kernels_[35].raced[256] = trial;
  kernels_[36].raced[1] = trial;
  EXPECT_FALSE(Has(Select(0), 35));
  best_ns_ = {{256, 1000}};
  EXPECT_TRUE(Has(Select(0), 35));
  EXPECT_FALSE(Has(Select(0), 36));
  best_ns_ = {{1, 1000}, {256, 900}};
  EXPECT_FALSE(Has(Select(0), 35));
  EXPECT_TRUE(Has(Select(0), 36));
  kernels_[36].raced[1].outcome = Outcome::kScreenedOut;
  EXPECT_FALSE(Has(Select(0), 36));
}

}  // namespace
}  // namespace hone
