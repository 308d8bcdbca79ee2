#include "tuner/surrogate.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

Position Config(int64_t block_m, int64_t stages) {
  TuningConfig config;
  config.block_m = block_m;
  config.stages = stages;
  return PositionOf(config);
}

class SurrogateTest : public testing::Test {
 protected:
  Surrogate surrogate_{{1, 16, 1024}};
  const std::vector<double> predicted_ = {100, 200, 3000};
};

TEST_F(SurrogateTest, KnowsNothingAtFirst) {
  EXPECT_EQ(surrogate_.Correct(Config(16, 4), predicted_), predicted_);
}

TEST_F(SurrogateTest, RepeatsWhatWasMeasuredNearly) {
  surrogate_.Add(Config(16, 4), predicted_, {200, 400, 0});
  const std::vector<double> corrected =
      surrogate_.Correct(Config(16, 4), predicted_);
  EXPECT_NEAR(corrected[0], 200, 15);
  EXPECT_NEAR(corrected[1], 400, 30);
  // Six doublings of M away: hardly.
  EXPECT_LT(corrected[2], 3150);
  EXPECT_GE(corrected[2], 3000);
}

TEST_F(SurrogateTest, FadesWithDistance) {
  surrogate_.Add(Config(16, 4), predicted_, {200, 0, 0});
  const double same = surrogate_.Correct(Config(16, 4), predicted_)[0];
  const double near = surrogate_.Correct(Config(16, 5), predicted_)[0];
  const double far = surrogate_.Correct(Config(128, 2), predicted_)[0];
  EXPECT_GT(same, near);
  EXPECT_GT(near, far);
  EXPECT_NEAR(far, 100, 15);
}

TEST_F(SurrogateTest, TheNearerMeasurementCountsMore) {
  surrogate_.Add(Config(16, 4), predicted_, {200, 0, 0});
  surrogate_.Add(Config(128, 4), predicted_, {50, 0, 0});
  EXPECT_GT(surrogate_.Correct(Config(16, 5), predicted_)[0], 150);
  EXPECT_LT(surrogate_.Correct(Config(128, 5), predicted_)[0], 70);
}

}  // namespace
}  // namespace hone
