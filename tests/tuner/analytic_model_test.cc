#include "tuner/analytic_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/space/space.h"

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

DeviceSpec H200() { return *ModelledDevice("h200"); }

TuningConfig Config(int64_t block_m, int64_t block_n, int64_t block_k,
                    int64_t warp_m, int64_t warp_n, int64_t warp_k,
                    int64_t stages, int64_t split_k) {
  TuningConfig config;
  config.block_m = block_m;
  config.block_n = block_n;
  config.block_k = block_k;
  config.warp_m = warp_m;
  config.warp_n = warp_n;
  config.warp_k = warp_k;
  config.stages = stages;
  config.split_k = split_k;
  config.split = split_k > 1 ? Split::kSplitK : Split::kDataParallel;
  return config;
}

double Ns(const Problem& problem, const TuningConfig& config, int64_t m) {
  EXPECT_FALSE(CheckConfig(problem, H200(), config).has_value())
      << CheckConfig(problem, H200(), config)->reason;
  return Predict(problem, H200(), config, m, EstimateFootprint(problem, config))
      .total_ns;
}

TEST(AnalyticModelTest, NeverBeatsTheFloor) {
  const DeviceSpec device = H200();
  for (const Problem& problem : {W4A16(8192, 8192), W4A16(57344, 8192)}) {
    for (const int64_t m : {1, 16, 96, 1024, 8192}) {
      const TuningConfig config = HeuristicDefault(problem, device, m);
      EXPECT_GT(Ns(problem, config, m), FloorNs(problem, device, m)) << m;
    }
  }
}

TEST(AnalyticModelTest, DecodingWantsEverySmBusy) {
  const Problem problem = W4A16(8192, 8192);
  // 32 CTAs against 128 of the same depth.
  const double few = Ns(problem, Config(8, 256, 128, 8, 64, 128, 4, 1), 1);
  const double all = Ns(problem, Config(8, 64, 512, 8, 64, 128, 4, 1), 1);
  EXPECT_GT(few, 1.3 * all);
}

TEST(AnalyticModelTest, DecodingWantsBytesInFlight) {
  const Problem problem = W4A16(8192, 8192);
  const double shallow = Ns(problem, Config(8, 64, 256, 8, 64, 64, 2, 1), 1);
  const double deep = Ns(problem, Config(8, 64, 256, 8, 64, 64, 6, 1), 1);
  EXPECT_GT(shallow, 1.3 * deep);
  const Prediction prediction =
      Predict(problem, H200(), Config(8, 64, 256, 8, 64, 64, 6, 1), 1,
              EstimateFootprint(problem, Config(8, 64, 256, 8, 64, 64, 6, 1)));
  EXPECT_GT(prediction.bytes_in_flight_per_sm, 40 << 10);
  // Weights once, and little else.
  EXPECT_LT(prediction.dram_bytes, 1.1 * 8192 * 8192 / 2 * (1 + 1.0 / 32));
}

TEST(AnalyticModelTest, PrefillWantsWideTiles) {
  const Problem problem = W4A16(8192, 8192);
  const double narrow =
      Ns(problem, Config(16, 64, 128, 16, 64, 64, 4, 1), 8192);
  const double wide = Ns(problem, Config(128, 128, 64, 64, 32, 64, 4, 1), 8192);
  EXPECT_GT(narrow, 1.2 * wide);
}

// Medians of an H200 (tests/bench/results/h200), from decoding to prefill.
TEST(AnalyticModelTest, PredictsWhatAnH200Measured) {
  const Problem problem = W4A16(8192, 8192);
  const struct {
    TuningConfig config;
    int64_t m;
    double us;
  } cases[] = {
      {Config(8, 64, 512, 8, 64, 64, 4, 1), 1, 10.7},
      {Config(16, 64, 512, 16, 64, 64, 4, 1), 16, 13.0},
      {Config(16, 64, 1024, 16, 64, 128, 2, 1), 16, 12.6},
      {Config(32, 64, 512, 32, 64, 64, 4, 1), 32, 18.0},
      {Config(64, 128, 512, 64, 64, 128, 2, 2), 64, 33.0},
      {Config(128, 256, 64, 64, 64, 64, 4, 1), 1024, 361},
      {Config(128, 256, 64, 64, 64, 64, 4, 1), 8192, 3060},
  };
  for (const auto& c : cases) {
    EXPECT_NEAR(Ns(problem, c.config, c.m) * 1e-3, c.us, 0.2 * c.us)
        << c.config.ToString() << " at M = " << c.m;
  }
}

TEST(AnalyticModelTest, PaddingCosts) {
  const Problem problem = W4A16(57344, 8192);
  const TuningConfig config = Config(64, 128, 128, 64, 32, 64, 3, 1);
  EXPECT_GT(Ns(problem, config, 65), 1.2 * Ns(problem, config, 64));
  EXPECT_NEAR(Ns(problem, config, 65), Ns(problem, config, 128),
              0.1 * Ns(problem, config, 128));
}

TEST(AnalyticModelTest, SplittingPaysOnlyWhereTilesAreFew) {
  const Problem small = W4A16(1024, 8192);
  EXPECT_LT(Ns(small, Config(16, 64, 256, 16, 64, 64, 4, 8), 1),
            Ns(small, Config(16, 64, 256, 16, 64, 64, 4, 1), 1));
  const Problem large = W4A16(57344, 8192);
  EXPECT_GT(Ns(large, Config(16, 64, 256, 16, 64, 64, 4, 8), 16),
            Ns(large, Config(16, 64, 256, 16, 64, 64, 4, 1), 16));
}

TEST(AnalyticModelTest, SpillsCost) {
  const Problem problem = W4A16(8192, 8192);
  const TuningConfig config = Config(64, 128, 128, 64, 32, 64, 3, 1);
  KernelFootprint footprint = EstimateFootprint(problem, config);
  const double clean =
      Predict(problem, H200(), config, 1024, footprint).total_ns;
  footprint.spill_bytes = 200;
  EXPECT_GT(Predict(problem, H200(), config, 1024, footprint).total_ns,
            1.2 * clean);
}

TEST(AnalyticModelTest, ExplainNamesTheLimit) {
  const Problem problem = W4A16(8192, 8192);
  const auto explain = [&](const TuningConfig& config, int64_t m) {
    return Predict(problem, H200(), config, m,
                   EstimateFootprint(problem, config))
        .Explain();
  };
  EXPECT_THAT(explain(Config(8, 64, 256, 8, 64, 64, 2, 1), 1),
              testing::HasSubstr("limited by latency"));
  EXPECT_THAT(explain(Config(128, 128, 64, 64, 32, 64, 4, 1), 8192),
              testing::HasSubstr("limited by compute"));
}

}  // namespace
}  // namespace hone
