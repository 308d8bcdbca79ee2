#include "tuner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/space/space.h"
#include "tuner/trial.h"

namespace hone {
namespace {

Problem W4A16(int64_t n, int64_t k) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

class SearchTest : public testing::Test {
 protected:
  const DeviceSpec device_ = *ModelledDevice("h200");
  const Problem problem_ = W4A16(8192, 8192);
  const std::vector<int64_t> ladder_ = {1, 16, 128, 1024, 8192};
  const absl::StatusOr<CandidateSearch> search_ =
      CandidateSearch::Create(problem_, device_, ladder_);

  CandidatePool Select(int max_kernels, uint64_t seed,
                       const std::vector<TuningConfig>& extra = {}) {
    return search_->First(extra, max_kernels, seed);
  }
};

TEST_F(SearchTest, HoldsEveryDefaultAndIsBounded) {
  const CandidatePool pool = Select(32, 1);
  EXPECT_EQ(pool.configs.size(), 32u);
  ASSERT_EQ(pool.defaults.size(), ladder_.size());
  for (size_t p = 0; p < ladder_.size(); ++p) {
    EXPECT_EQ(pool.configs.at(static_cast<size_t>(pool.defaults[p])),
              HeuristicDefault(problem_, device_, ladder_[p]));
  }
  std::set<std::string> distinct;
  for (const TuningConfig& config : pool.configs) {
    EXPECT_FALSE(CheckConfig(problem_, device_, config).has_value());
    distinct.insert(config.ToString());
  }
  EXPECT_EQ(distinct.size(), pool.configs.size());
}

TEST_F(SearchTest, ChoosesOneOfThoseThatDifferInTheLaunchOrderOnly) {
  const CandidatePool pool = Select(32, 1);
  // Two defaults may; and the last few are drawn.
  std::set<std::string> distinct;
  int twins = 0;
  for (TuningConfig config : pool.configs) {
    if (!UsesWgmma(config)) continue;
    config.raster = RasterOrder::kAlongM;
    if (!distinct.insert(config.ToString()).second) ++twins;
  }
  EXPECT_LE(twins, 2);
  EXPECT_GT(distinct.size(), 16u);
}

TEST_F(SearchTest, EveryPointHasSeveralNearItsBestPrediction) {
  const CandidatePool pool = Select(32, 1);
  for (size_t p = 0; p < ladder_.size(); ++p) {
    std::vector<double> times;
    for (const std::vector<double>& t : pool.predicted_ns) {
      times.push_back(t[p]);
    }
    std::sort(times.begin(), times.end());
    EXPECT_LT(times[2], 1.1 * times[0]) << "M = " << ladder_[p];
  }
}

TEST_F(SearchTest, IsDiverse) {
  std::set<int64_t> blocks_m;
  std::set<int64_t> stages;
  for (const TuningConfig& config : Select(32, 1).configs) {
    blocks_m.insert(config.block_m);
    stages.insert(config.stages);
  }
  EXPECT_GE(blocks_m.size(), 4u);
  EXPECT_GE(stages.size(), 3u);
}

TEST_F(SearchTest, TheSeedDecidesOnlyTheRandomDraws) {
  const CandidatePool a = Select(32, 1);
  EXPECT_EQ(a.configs, Select(32, 1).configs);
  const CandidatePool b = Select(32, 2);
  ASSERT_EQ(a.configs.size(), b.configs.size());
  int different = 0;
  for (size_t i = 0; i < a.configs.size(); ++i) {
    different += a.configs[i] != b.configs[i];
  }
  EXPECT_GE(different, 1);
  EXPECT_LE(different, 2);
}

TEST_F(SearchTest, ExtraConfigsEnterWhenLegal) {
  TuningConfig legal = HeuristicDefault(problem_, device_, 1);
  legal.stages = 2;
  TuningConfig illegal = legal;
  illegal.stages = 32;
  const CandidatePool pool = Select(8, 1, {legal, illegal});
  EXPECT_EQ(std::count(pool.configs.begin(), pool.configs.end(), legal), 1);
  EXPECT_EQ(std::count(pool.configs.begin(), pool.configs.end(), illegal), 0);
}

// The device is faster than the model thinks at 128 columns a warp and step, at
// small M: refining must go there.
TEST_F(SearchTest, RefiningFollowsWhatWasMeasured) {
  CandidatePool pool = Select(20, 1);
  const CandidatePool first = pool;
  const auto truth = [](const TuningConfig& config, size_t point, double ns) {
    return point <= 1 && config.warp_k == 128 && config.stages >= 3 ? ns * 0.7
                                                                    : ns;
  };
  Surrogate surrogate(ladder_);
  for (size_t i = 0; i < pool.configs.size(); ++i) {
    std::vector<double> measured = pool.predicted_ns[i];
    for (size_t p = 0; p < ladder_.size(); ++p) {
      measured[p] = truth(pool.configs[i], p, measured[p]);
    }
    surrogate.Add(PositionOf(pool.configs[i]), pool.predicted_ns[i], measured);
  }
  search_->Refine(surrogate, 8, pool);
  ASSERT_EQ(pool.configs.size(), 28u);
  ASSERT_EQ(pool.predicted_ns.size(), 28u);
  EXPECT_TRUE(std::equal(first.configs.begin(), first.configs.end(),
                         pool.configs.begin()));
  int follow = 0;
  for (size_t i = 20; i < 28; ++i) {
    EXPECT_FALSE(CheckConfig(problem_, device_, pool.configs[i]).has_value());
    follow += pool.configs[i].warp_k == 128 && pool.configs[i].stages >= 3;
  }
  // Of those of two engines.
  EXPECT_GE(follow, 3);
  // The pool's own predictions are corrected too.
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_NEAR(pool.predicted_ns[i][0] /
                    truth(pool.configs[i], 0, first.predicted_ns[i][0]),
                1, 0.3)
        << pool.configs[i].ToString();
  }
}

TEST_F(SearchTest, RefusesWhatHasNoKernel) {
  Problem problem = problem_;
  problem.layer.b = DataType::Float(6, 1);
  EXPECT_EQ(CandidateSearch::Create(problem, device_, ladder_).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace hone
