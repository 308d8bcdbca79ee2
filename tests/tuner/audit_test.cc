// The audit's arithmetic on simulated noise, and whole audits of a tuner on a
// device with known true times.
#include "tuner/audit.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"
#include "tests/tuner/simulated_executor.h"
#include "tuner/audit_report.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

constexpr int kChoice = 12;
constexpr int kRounds = 37;

// Kernels of given true times in rounds with common drift and own noise.
std::vector<std::vector<Sample>> Simulate(const std::vector<double>& true_ns,
                                          double sigma, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::vector<Sample>> samples(true_ns.size());
  double drift = 0;
  for (int round = 0; round < kRounds; ++round) {
    drift += 0.01 * normal(random);
    for (size_t i = 0; i < true_ns.size(); ++i) {
      Sample sample;
      sample.duration_ns =
          std::llround(true_ns[i] * std::exp(drift + sigma * normal(random)));
      sample.round = round;
      sample.sm_clock_khz = 1900000 + round;
      samples[i].push_back(sample);
    }
  }
  return samples;
}

AuditPoint Judge(const std::vector<std::vector<Sample>>& samples,
                 const FinalistRoles& roles) {
  return JudgeFinalists(samples, roles, kChoice, 0.05, RaceOptions());
}

TEST(AuditStatisticsTest, RegretIntervalCoversAndIsNotBiasedByTheChoice) {
  // Ten kernels equally fast, and the table's 1 % slower: choosing the fastest
  // of ten by noisy rounds must not widen the gap that is stated.
  std::vector<double> times(11, 100000);
  times[0] = 101000;
  int covered = 0;
  int bounded = 0;
  double sum = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    const AuditPoint point =
        Judge(Simulate(times, 0.02, static_cast<uint64_t>(run)),
              {.table = 0, .standard = 1, .tunes = {0, 1}});
    covered += point.regret.low <= 1.01 && 1.01 <= point.regret.high ? 1 : 0;
    bounded += point.regret_bound >= 1.01 ? 1 : 0;
    sum += point.regret.ratio;
    EXPECT_EQ(point.regret.rounds, kRounds - kChoice);
  }
  EXPECT_GE(covered, 0.93 * kRuns);
  EXPECT_GE(bounded, 0.95 * kRuns);
  // A ratio to the fastest by the same rounds would be near 1.02.
  EXPECT_NEAR(sum / kRuns, 1.01, 0.002);
}

TEST(AuditStatisticsTest, TheBestServedHasNoRegret) {
  const AuditPoint point = Judge(Simulate({100000, 120000, 150000}, 0.005, 3),
                                 {.table = 0, .standard = 2, .tunes = {0, 0}});
  EXPECT_EQ(point.regret.ratio, 1);
  EXPECT_EQ(point.regret.low, 1);
  EXPECT_EQ(point.regret_bound, 1);
  EXPECT_NEAR(point.over_default.ratio, 100.0 / 150, 0.01);
  EXPECT_EQ(point.flips, 0);
  EXPECT_EQ(point.tune_spread.ratio, 1);
  EXPECT_EQ(point.finalists, 3);
  EXPECT_NEAR(point.sm_clock_khz, 1900018, 1);
}

TEST(AuditStatisticsTest, FlipsMatterOnlyBeyondATie) {
  int matter = 0;
  constexpr int kRuns = 200;
  for (int run = 0; run < kRuns; ++run) {
    // 0.5 % apart: another kernel, but a tie.
    const AuditPoint point =
        Judge(Simulate({100000, 100500}, 0.005, static_cast<uint64_t>(run)),
              {.table = 0, .tunes = {0, 1}});
    EXPECT_EQ(point.flips, 1);
    matter += point.flip_matters ? 1 : 0;
  }
  EXPECT_LE(matter, 0.025 * kRuns);
  const AuditPoint apart = Judge(Simulate({100000, 103000}, 0.005, 1),
                                 {.table = 0, .tunes = {0, 1, 1}});
  EXPECT_EQ(apart.flips, 2);
  EXPECT_TRUE(apart.flip_matters);
  EXPECT_NEAR(apart.tune_spread.ratio, 1.03, 0.005);
  // 60 ns of 3 us are 2 %, but less than two ticks of the timer.
  EXPECT_FALSE(
      Judge(Simulate({3000, 3060}, 0.001, 1), {.table = 0, .tunes = {0, 1}})
          .flip_matters);
}

TEST(AuditStatisticsTest, AFailedKernelCountsForNothing) {
  std::vector<std::vector<Sample>> samples =
      Simulate({100000, 50000, 120000}, 0.005, 1);
  samples[1].clear();
  AuditPoint point = Judge(samples, {.table = 0, .tunes = {1, 0}});
  EXPECT_EQ(point.regret.ratio, 1);
  EXPECT_EQ(point.tune_regrets[0].rounds, 0);
  EXPECT_EQ(point.tune_spread.rounds, 0);
  EXPECT_EQ(point.finalists, 2);
  // And of a table's kernel that failed nothing is stated.
  point = Judge(samples, {.table = 1, .tunes = {0, 0}});
  EXPECT_EQ(point.regret.rounds, 0);
  EXPECT_EQ(point.table_ns, 0);
}

TEST(AuditStatisticsTest, ReplayJoinsBothIntervals) {
  const auto samples = Simulate({100000}, 0.0, 1);
  std::vector<Sample> fresh = samples[0];
  for (Sample& sample : fresh) sample.duration_ns = 102000;
  Evidence stored;
  stored.median_ns = 100000;
  stored.low_ns = 99000;
  stored.high_ns = 101000;
  const AuditRatio ratio = ReplayOf(fresh, stored, 0.05);
  EXPECT_DOUBLE_EQ(ratio.ratio, 1.02);
  EXPECT_DOUBLE_EQ(ratio.low, 102.0 / 101);
  EXPECT_DOUBLE_EQ(ratio.high, 102.0 / 99);
  EXPECT_EQ(ratio.rounds, kRounds);
  EXPECT_EQ(ReplayOf(fresh, Evidence(), 0.05).rounds, 0);
}

TEST(AuditStatisticsTest, SpreadTakesTheNearestRank) {
  std::vector<double> ratios;
  for (int i = 23; i >= 1; --i) ratios.push_back(i);
  AuditSpread spread = SpreadOf(ratios);
  EXPECT_EQ(spread.points, 23);
  EXPECT_EQ(spread.median, 12);
  EXPECT_EQ(spread.percentile_95, 22);
  EXPECT_EQ(spread.largest, 23);
  spread = SpreadOf({1.5});
  EXPECT_EQ(spread.percentile_95, 1.5);
  EXPECT_EQ(SpreadOf({}).points, 0);
}

class AuditRunTest : public ::testing::Test {
 protected:
  AuditRunTest()
      : device_(*ModelledDevice("h200")),
        executor_(device_, TrueTime, Noise{}, 7) {
    problem_.layer.n = 1024;
    problem_.layer.k = 1024;
    problem_.layer.b_scale = ScaleGranularity::kGroup;
    problem_.layer.b_group = 128;
    options_.ladder = {1, 16, 64};
    options_.tune_kernels = 8;
    options_.kernels = 30;
    hooks_.progress = [this](const SessionProgress& progress) {
      last_ = progress;
    };
    hooks_.is_cancelled = [] { return false; };
  }

  static double TrueTime(const TuningConfig& config, int64_t m) {
    const double tiles = static_cast<double>((m + config.block_m - 1) /
                                             config.block_m * config.block_m);
    return 20000 + 40 * tiles + 200.0 * static_cast<double>(config.stages) +
           3.0 * static_cast<double>(config.block_n);
  }

  absl::StatusOr<AuditReport> Audit() {
    return RunAudit(executor_, compiler_, uncached_, options_, hooks_,
                    problem_);
  }

  DeviceSpec device_;
  SimulatedExecutor executor_;
  FakeCompiler compiler_;
  FakeCompiler uncached_;
  Problem problem_;
  AuditOptions options_;
  AuditHooks hooks_;
  SessionProgress last_;
};

TEST_F(AuditRunTest, RegretIsThatOfTheTrueTimes) {
  const auto report = Audit();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->complete);
  EXPECT_EQ(report->kernels, 30);
  EXPECT_GE(report->space, 30);
  EXPECT_EQ(report->failed, 0);
  EXPECT_EQ(report->revision, 0);
  ASSERT_EQ(report->tunes.size(), 2u);
  EXPECT_EQ(report->tunes[0].seed, 2u);
  EXPECT_EQ(report->tunes[1].seed, 3u);
  EXPECT_GT(report->tunes[0].trials, 0);
  ASSERT_EQ(report->points.size(), 3u);
  for (const AuditPoint& point : report->points) {
    const double table =
        TrueTime(*TuningConfig::Parse(point.table_config), point.m);
    const double best =
        TrueTime(*TuningConfig::Parse(point.best_config), point.m);
    EXPECT_EQ(point.screened, 30);
    EXPECT_NEAR(point.regret.ratio, table / best, 0.01) << point.m;
    EXPECT_EQ(point.regret.rounds, options_.ratio_rounds);
    EXPECT_TRUE(point.same_kernel);
    EXPECT_NEAR(point.replay.ratio, 1, 0.01);
    EXPECT_GT(point.stored_ns, 0);
  }
  EXPECT_EQ(report->flip_pairs, 3);
  EXPECT_EQ(report->regret.points, 3);
  EXPECT_EQ(report->tunes[1].regret.points, 3);
  EXPECT_EQ(report->replay.points, 3);
  // The table's kernels, and only those, were compiled without a cache.
  EXPECT_EQ(uncached_.compiles, report->replayed_kernels);
  EXPECT_EQ(report->same_kernels, report->replayed_kernels);
  EXPECT_EQ(last_.phase, SessionPhase::kAudit);
  EXPECT_EQ(last_.done, last_.total);
}

TEST_F(AuditRunTest, ADeclaredSubspaceIsSearchedWhole) {
  const Subspace within = *Subspace::Parse(
      "mma=mma_sync,block_m=16,block_n=64,warp_n=64,warp_k=64");
  std::vector<TuningConfig> configs = Enumerate(problem_, device_, 64);
  const size_t space = configs.size();
  std::erase_if(configs, [&](const TuningConfig& config) {
    return !within.Contains(config);
  });
  ASSERT_GT(configs.size(), 10u);
  ASSERT_LT(configs.size(), 400u);
  options_.within = within;
  options_.kernels = 450;
  const auto all = Audit();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(all->exhaustive);
  EXPECT_EQ(all->within, within.ToString());
  EXPECT_EQ(all->within_configs, static_cast<int64_t>(configs.size()));
  EXPECT_EQ(all->space, static_cast<int64_t>(space));
  EXPECT_GE(all->kernels, static_cast<int64_t>(configs.size()));
  for (const AuditPoint& point : all->points) {
    double best = TrueTime(*TuningConfig::Parse(point.table_config), point.m);
    for (const TuningConfig& config : configs) {
      best = std::min(best, TrueTime(config, point.m));
    }
    // The tunes' kernels may be faster than any within.
    EXPECT_LE(TrueTime(*TuningConfig::Parse(point.best_config), point.m),
              1.01 * best);
  }
  options_.kernels = static_cast<int>(configs.size()) - 1;
  const auto part = Audit();
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_FALSE(part->exhaustive);
  options_.within = *Subspace::Parse("block_m=24,block_n=80");
  EXPECT_THAT(std::string(Audit().status().message()),
              HasSubstr("lies within \"block_m=24,block_n=80\""));
}

TEST_F(AuditRunTest, FindsABadTableAndTimesThatDoNotHold) {
  const auto good = Audit();
  ASSERT_TRUE(good.ok()) << good.status();
  // A published table that serves one slow kernel, with times it never took.
  DispatchTable table;
  table.problem = problem_;
  table.device = device_;
  table.source_closure = "older";
  table.entries.emplace_back();
  TuningConfig slow = *TuningConfig::Parse(good->points[0].best_config);
  for (const TuningConfig& config : Enumerate(problem_, device_, 64)) {
    if (TrueTime(config, 1) > TrueTime(slow, 1)) slow = config;
  }
  table.entries[0].config = slow;
  table.entries[0].compile.kernel_id = "another";
  for (const int64_t m : options_.ladder) {
    Evidence evidence;
    evidence.m = m;
    evidence.samples = 20;
    evidence.median_ns = std::llround(TrueTime(slow, m) / 1.1);
    evidence.low_ns = evidence.median_ns - 50;
    evidence.high_ns = evidence.median_ns + 50;
    table.entries[0].evidence.push_back(evidence);
  }
  options_.published = table;
  options_.revision = 9;
  const auto report = Audit();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->revision, 9);
  EXPECT_EQ(report->table_source_closure, "older");
  EXPECT_NE(report->source_closure, "older");
  const double expected =
      TrueTime(slow, 1) /
      TrueTime(*TuningConfig::Parse(report->points[0].best_config), 1);
  EXPECT_GT(expected, 1.02);
  EXPECT_NEAR(report->points[0].regret.ratio, expected, 0.01);
  EXPECT_GT(report->points[0].regret.low, 1.01);
  EXPECT_GE(report->points[0].regret_bound, report->points[0].regret.ratio);
  EXPECT_NEAR(report->replay.median, 1.1, 0.01);
  EXPECT_EQ(report->replayed_kernels, 1);
  EXPECT_EQ(report->same_kernels, 0);
  EXPECT_FALSE(report->points[0].same_kernel);
}

TEST_F(AuditRunTest, WrongKernelsAreTheBestOfNothing) {
  // The fastest kernels of all are wrong; tunes and audit must not take them.
  executor_.gate = [](const TuningConfig& config, int64_t) {
    GateResult result;
    if (config.stages == 2) result.outcome = Outcome::kWrongResult;
    return result;
  };
  const auto report = Audit();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->failed, 0);
  for (const AuditPoint& point : report->points) {
    EXPECT_NE(TuningConfig::Parse(point.best_config)->stages, 2);
    EXPECT_EQ(point.screened, report->kernels - report->failed);
  }
}

TEST_F(AuditRunTest, SaysWhenTheBudgetEnded) {
  options_.budget = absl::Seconds(1000);
  absl::Time now = absl::UnixEpoch();
  hooks_.now = [&] { return now; };
  // The tunes and the first M take no time, then the clock jumps.
  hooks_.progress = [&](const SessionProgress& progress) {
    if (progress.phase == SessionPhase::kAudit && progress.m == 1)
      now += absl::Seconds(1001);
  };
  const auto report = Audit();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->complete);
  EXPECT_EQ(report->points.size(), 1u);
  EXPECT_EQ(report->elapsed, absl::Seconds(1001));
}

TEST_F(AuditRunTest, RefusesBadOptionsByName) {
  options_.tunes = 1;
  EXPECT_THAT(std::string(Audit().status().message()),
              HasSubstr("tunes must be at least 2"));
  options_.tunes = 2;
  options_.kernels = 1;
  EXPECT_THAT(std::string(Audit().status().message()),
              HasSubstr("kernels must be at least 2"));
}

TEST_F(AuditRunTest, CanBeCancelled) {
  hooks_.is_cancelled = [this] { return last_.phase == SessionPhase::kAudit; };
  EXPECT_EQ(Audit().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace hone
