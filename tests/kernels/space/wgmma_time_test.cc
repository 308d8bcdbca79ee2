#include "kernels/space/wgmma_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

DeviceSpec H200() { return *ModelledDevice("h200"); }

Problem W4A16(int64_t n, int64_t k) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

// 128 tokens by 256 channels, two warpgroups.
TuningConfig Wide() {
  return *TuningConfig::Parse(
      "block_k=128,block_m=128,block_n=256,mma=wgmma,mmas_in_flight=2,"
      "producer_a=tma,producer_b=tma,producer_scale=tma,raster=along_n,"
      "stages=4,warp_k=128,warp_m=128,warp_n=32,warp_specialized=1");
}

double Ns(const Problem& problem, const TuningConfig& config, int64_t m) {
  EXPECT_FALSE(CheckConfig(problem, H200(), config).has_value())
      << CheckConfig(problem, H200(), config)->reason;
  return WgmmaTimeOf(problem, H200(), config, m,
                     EstimateFootprint(problem, config))
      .total_ns;
}

struct Measured {
  Problem problem;
  TuningConfig config;
  int64_t m = 0;
  double ns = 0;
};

std::vector<Measured> ReadMeasured() {
  std::vector<Measured> all;
  std::ifstream file(HONE_WGMMA_TIMES);
  EXPECT_TRUE(file.good());
  Problem problem;
  for (std::string line; std::getline(file, line);) {
    if (line[0] == '#') continue;
    if (line[0] == '=') {
      problem = *Problem::Parse(line.substr(1));
      continue;
    }
    const std::vector<std::string> parts = absl::StrSplit(line, '|');
    Measured measured;
    measured.problem = problem;
    measured.config = *TuningConfig::Parse(
        absl::StrCat(parts.at(0),
                     ",mma=wgmma,producer_a=tma,producer_b=tma,"
                     "producer_scale=tma,warp_specialized=1"));
    for (const absl::string_view time : absl::StrSplit(parts.at(1), ',')) {
      const std::pair<std::string, std::string> m_ns =
          absl::StrSplit(time, ':');
      EXPECT_TRUE(absl::SimpleAtoi(m_ns.first, &measured.m));
      EXPECT_TRUE(absl::SimpleAtod(m_ns.second, &measured.ns));
      all.push_back(measured);
    }
  }
  return all;
}

// What the fit reached, with some room: near an M's best, and in choosing.
TEST(WgmmaTimeTest, PredictsAndRanksMeasuredKernels) {
  const std::vector<Measured> all = ReadMeasured();
  ASSERT_GT(all.size(), 300u);
  struct Point {
    double best = INFINITY;
    std::vector<std::pair<double, double>> times;  // predicted, measured
  };
  std::map<std::pair<std::string, int64_t>, Point> points;
  for (const Measured& x : all) {
    Point& point = points[{x.problem.ToString(), x.m}];
    point.best = std::min(point.best, x.ns);
    point.times.push_back({Ns(x.problem, x.config, x.m), x.ns});
  }
  double squares = 0, behind_first = 0, behind_three = 0;
  int near = 0;
  for (auto& [key, point] : points) {
    for (const auto& [predicted, ns] : point.times) {
      if (ns > 1.1 * point.best) continue;
      squares += std::pow(std::log(predicted / ns), 2);
      ++near;
    }
    std::sort(point.times.begin(), point.times.end());
    double least = INFINITY;
    for (size_t i = 0; i < 3; ++i) {
      least = std::min(least, point.times[i].second / point.best - 1);
      if (i == 0) behind_first += least;
    }
    behind_three += least;
  }
  const auto count = static_cast<double>(points.size());
  EXPECT_LT(std::sqrt(squares / near), 0.10);
  EXPECT_LT(behind_first / count, 0.05);
  EXPECT_LT(behind_three / count, 0.015);
}

TEST(WgmmaTimeTest, TheDefaultIsNearTheBestMeasured) {
  std::map<std::pair<std::string, int64_t>, double> best;
  std::map<std::string, Problem> problems;
  for (const Measured& x : ReadMeasured()) {
    double& ns =
        best.try_emplace({x.problem.ToString(), x.m}, x.ns).first->second;
    ns = std::min(ns, x.ns);
    problems[x.problem.ToString()] = x.problem;
  }
  for (const auto& [key, ns] : best) {
    const Problem& problem = problems.at(key.first);
    const TuningConfig config = HeuristicDefault(problem, H200(), key.second);
    ASSERT_TRUE(UsesWgmma(config));
    EXPECT_LT(Ns(problem, config, key.second), 1.25 * ns)
        << key.first << " M = " << key.second << " " << config.ToString();
  }
}

TEST(WgmmaTimeTest, AWaveThatIsNearlyEmptyCostsNearlyAsMuch) {
  // 64 and 80 tiles of 128 x 256 for each 256 tokens of 8192 and 10240
  // channels: 128 and 160 CTAs on 132 SMs.
  const double one = Ns(W4A16(8192, 8192), Wide(), 512);
  const double two = Ns(W4A16(10240, 8192), Wide(), 512);
  EXPECT_GT(two, 1.7 * one);
}

TEST(WgmmaTimeTest, StreamKHasNoWaves) {
  TuningConfig stream = Wide();
  stream.stages = 3;
  stream.split = Split::kStreamK;
  stream.split_k = 132;
  const double two = Ns(W4A16(10240, 8192), Wide(), 512);
  EXPECT_LT(Ns(W4A16(10240, 8192), stream, 512), 0.8 * two);
  // Where tiles fill whole waves it only costs.
  EXPECT_GT(Ns(W4A16(8192, 8192), stream, 512),
            0.99 * Ns(W4A16(8192, 8192), Wide(), 512));
}

TEST(WgmmaTimeTest, ClustersAskForFewerBytes) {
  TuningConfig cluster = Wide();
  cluster.cluster_n = 2;
  const Problem problem = W4A16(8192, 8192);
  const auto l2 = [&](const TuningConfig& config) {
    return WgmmaTimeOf(problem, H200(), config, 1024,
                       EstimateFootprint(problem, config))
        .l2_bytes;
  };
  EXPECT_LT(l2(cluster), 0.7 * l2(Wide()));
  EXPECT_LT(Ns(problem, cluster, 1024), Ns(problem, Wide(), 1024));
}

TEST(WgmmaTimeTest, ADeeperRingIsNeverSlower) {
  TuningConfig config = Wide();
  double last = INFINITY;
  for (config.stages = 2; config.stages <= 4; ++config.stages) {
    const double ns = Ns(W4A16(8192, 8192), config, 1024);
    EXPECT_LT(ns, last) << config.stages;
    last = ns;
  }
}

TEST(WgmmaTimeTest, LongKernelsLoseClock) {
  // Eight times the waves take more than eight times as long.
  const double few = Ns(W4A16(8192, 8192), Wide(), 1024);
  EXPECT_GT(Ns(W4A16(8192, 8192), Wide(), 8192), 8 * few);
  // And no kernel beats the floor.
  EXPECT_GT(Ns(W4A16(8192, 8192), Wide(), 8192),
            FloorNs(W4A16(8192, 8192), H200(), 8192));
}

}  // namespace
}  // namespace hone
