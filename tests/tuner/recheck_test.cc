// Which keys a recheck takes, what it makes of them, and rechecks of tables on
// a simulated device whose times have changed since.
#include "tuner/recheck.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"
#include "tests/tuner/simulated_executor.h"
#include "tuner/known_trials.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// ---- sampling ----

DispatchTable TableAt(const std::vector<int64_t>& ladder) {
  DispatchTable table;
  table.ladder = ladder;
  table.entries.emplace_back();
  for (const int64_t m : ladder) {
    table.entries[0].evidence.push_back({.m = m, .samples = 9});
  }
  // A probe is no key.
  table.entries[0].evidence.push_back({.m = 7777, .samples = 9});
  return table;
}

TEST(SampleKeysTest, FewAreAllTaken) {
  const DispatchTable a = TableAt({1, 8, 64});
  const DispatchTable b = TableAt({2, 4});
  EXPECT_THAT(SampleKeys({&a, &b}, 5, 1),
              ElementsAre(ElementsAre(1, 8, 64), ElementsAre(2, 4)));
}

TEST(SampleKeysTest, OfManyEveryTableAndEveryPartOfTheLadderHasItsShare) {
  const std::vector<int64_t> ladder = DefaultLadder();
  const DispatchTable table = TableAt(ladder);
  const std::vector<const DispatchTable*> tables(9, &table);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto sample = SampleKeys(tables, 18, seed);
    std::vector<int> strata(3);
    for (const std::vector<int64_t>& ms : sample) {
      ASSERT_THAT(ms, SizeIs(2));
      EXPECT_LT(ms[0], ms[1]);
      for (const int64_t m : ms) {
        const auto place =
            std::find(ladder.begin(), ladder.end(), m) - ladder.begin();
        ++strata[static_cast<size_t>(3 * place / std::ssize(ladder))];
      }
    }
    EXPECT_THAT(strata, ElementsAre(6, 6, 6));
    EXPECT_EQ(SampleKeys(tables, 18, seed), sample);
  }
  EXPECT_NE(SampleKeys(tables, 18, 1), SampleKeys(tables, 18, 2));
  // Fewer keys than tables.
  int64_t keys = 0;
  for (const auto& ms : SampleKeys(tables, 4, 1)) keys += std::ssize(ms);
  EXPECT_EQ(keys, 4);
}

TEST(SampleKeysTest, ASmallTableGivesWhatItHas) {
  const DispatchTable small = TableAt({1});
  const DispatchTable large = TableAt(DefaultLadder());
  const auto sample = SampleKeys({&small, &large}, 10, 3);
  EXPECT_THAT(sample[0], SizeIs(1));
  EXPECT_THAT(sample[1], SizeIs(9));
}

// ---- judging ----

RecheckPoint Point(double ratio, bool no_slower = true) {
  RecheckPoint point;
  point.regret = {ratio, ratio, ratio, 25};
  point.no_slower_than_default = no_slower;
  return point;
}

RecheckedTable Local(const std::vector<double>& ratios) {
  RecheckedTable table;
  for (const double ratio : ratios) table.points.push_back(Point(ratio));
  table.planned = std::ssize(ratios);
  return table;
}

std::vector<RecheckVerdict> VerdictsOf(RecheckReport& report) {
  Judge(report);
  std::vector<RecheckVerdict> verdicts;
  for (const RecheckedTable& table : report.tables)
    verdicts.push_back(table.verdict);
  return verdicts;
}

TEST(JudgeTest, AMedianWithinTheLimitKeepsAll) {
  RecheckReport report;
  // One table is off, and one has no key; the median is 0.5 %.
  report.tables = {Local({1, 1.005, 1.005}), Local({1.2, 1.004}), Local({})};
  EXPECT_THAT(VerdictsOf(report),
              ElementsAre(RecheckVerdict::kKept, RecheckVerdict::kKept,
                          RecheckVerdict::kKept));
  EXPECT_TRUE(report.passed);
  EXPECT_EQ(report.keys, 5);
  EXPECT_NEAR(*report.median_regret, 0.005, 1e-9);
  EXPECT_NEAR(report.largest_regret, 0.2, 1e-9);
  EXPECT_FALSE(report.tables[2].median_regret.has_value());
}

TEST(JudgeTest, AMedianPastTheLimitRetunesWhatIsAffectedOrUnseen) {
  RecheckReport report;
  report.tables = {Local({1.02, 1.03}), Local({1, 1.005}), Local({1.05}),
                   Local({})};
  EXPECT_THAT(VerdictsOf(report),
              ElementsAre(RecheckVerdict::kRetune, RecheckVerdict::kKept,
                          RecheckVerdict::kRetune, RecheckVerdict::kRetune));
  EXPECT_FALSE(report.passed);
  EXPECT_NEAR(*report.median_regret, 0.02, 1e-9);
}

TEST(JudgeTest, AFailedKernelIsRetunedWhateverTheRestShows) {
  RecheckReport report;
  report.tables = {Local({1, 1, 1}), Local({1, 1})};
  report.tables[1].points[0].failure = "wrong_result: half of it";
  EXPECT_THAT(VerdictsOf(report),
              ElementsAre(RecheckVerdict::kKept, RecheckVerdict::kRetune));
  EXPECT_TRUE(report.passed);
  EXPECT_EQ(report.failed, 1);
  // Where most fail there is no median, and nothing passes.
  for (RecheckPoint& point : report.tables[0].points) point.failure = "fault";
  EXPECT_THAT(VerdictsOf(report),
              ElementsAre(RecheckVerdict::kRetune, RecheckVerdict::kRetune));
  EXPECT_FALSE(report.median_regret.has_value());
  EXPECT_FALSE(report.passed);
}

TEST(JudgeTest, ImportedTablesAreJudgedByTheDefaultAndApart) {
  RecheckReport report;
  RecheckedTable good = Local({1.3, 1.3, 1.3});
  good.imported = true;
  RecheckedTable slow = good;
  slow.points[1].no_slower_than_default = false;
  RecheckedTable cut = good;
  cut.points.pop_back();
  RecheckedTable unseen = Local({});
  unseen.imported = true;
  report.tables = {good, slow, cut, unseen, Local({1})};
  EXPECT_THAT(VerdictsOf(report),
              ElementsAre(RecheckVerdict::kVerified,
                          RecheckVerdict::kUnverified, RecheckVerdict::kUnknown,
                          RecheckVerdict::kUnknown, RecheckVerdict::kKept));
  EXPECT_EQ(*report.median_regret, 0);
}

TEST(JudgeTest, WhatTheBudgetLeftOutIsUnknown) {
  RecheckReport report;
  report.tables = {Local({1}), Local({1})};
  report.tables[1].points.clear();
  EXPECT_THAT(VerdictsOf(report),
              ElementsAre(RecheckVerdict::kKept, RecheckVerdict::kUnknown));
}

// ---- measuring ----

double TrueTime(const TuningConfig& config, int64_t m) {
  const double tiles = static_cast<double>((m + config.block_m - 1) /
                                           config.block_m * config.block_m);
  return 20000 + 40 * tiles + 200.0 * static_cast<double>(config.stages) +
         3.0 * static_cast<double>(config.block_n);
}

class RecheckTest : public ::testing::Test {
 protected:
  RecheckTest()
      : device_(*ModelledDevice("h200")),
        executor_(
            device_,
            [this](const TuningConfig& config, int64_t m) {
              return TrueTime(config, m) * (slower ? slower(config, m) : 1.0);
            },
            Noise{}, 7) {
    problem_.layer.n = 1024;
    problem_.layer.k = 1024;
    problem_.layer.b_scale = ScaleGranularity::kGroup;
    problem_.layer.b_group = 128;
    options_.session_id = "recheck";
    hooks_.record_trial = [this](const Trial& trial) {
      stored_.push_back(trial);
      return absl::OkStatus();
    };
    hooks_.point = [](const RecheckPoint&) {};
    hooks_.is_cancelled = [] { return false; };
    // The fastest of some legal configs serves; the others are runners-up.
    for (const TuningConfig& config : Enumerate(problem_, device_, 64)) {
      if (std::ssize(configs_) < 8 &&
          config != HeuristicDefault(problem_, device_, 16) &&
          config != HeuristicDefault(problem_, device_, 64)) {
        configs_.push_back(config);
      }
    }
    std::sort(configs_.begin(), configs_.end(),
              [](const auto& a, const auto& b) {
                return TrueTime(a, 64) < TrueTime(b, 64);
              });
    table_ = TableAt({16, 64});
    table_.problem = problem_;
    table_.device = device_;
    table_.entries[0].config = configs_[0];
    for (const int64_t m : table_.ladder) {
      for (const TuningConfig& config : configs_)
        known_.push_back(Known(config, m));
    }
  }

  Trial Known(const TuningConfig& config, int64_t m) {
    Trial trial;
    trial.problem = problem_;
    trial.m = m;
    trial.config = config;
    trial.compile =
        compiler_.Compile(problem_, device_, config)->candidate.compile;
    trial.median_ns = std::llround(TrueTime(config, m));
    trial.samples = {{trial.median_ns, 1, 3}};
    trial.session_id = "tune";
    return trial;
  }

  std::vector<RecheckPoint> Recheck() {
    const auto points = RecheckTable(executor_, compiler_, table_,
                                     table_.ladder, known_, options_, hooks_);
    EXPECT_TRUE(points.ok()) << points.status();
    return points.ok() ? *points : std::vector<RecheckPoint>();
  }

  // By what a new driver multiplies the times.
  std::function<double(const TuningConfig&, int64_t m)> slower;
  DeviceSpec device_;
  FakeCompiler compiler_;
  SimulatedExecutor executor_;
  Problem problem_;
  std::vector<TuningConfig> configs_;
  DispatchTable table_;
  std::vector<Trial> known_;
  std::vector<Trial> stored_;
  RecheckOptions options_;
  RecheckHooks hooks_;
};

TEST_F(RecheckTest, AnUnchangedDeviceHasNoRegret) {
  compiler_.compiles = 0;
  const std::vector<RecheckPoint> points = Recheck();
  ASSERT_THAT(points, SizeIs(2));
  for (const RecheckPoint& point : points) {
    EXPECT_LT(point.regret.ratio, 1.01) << point.m;
    EXPECT_EQ(point.regret.rounds, options_.ratio_rounds);
    EXPECT_THAT(point.failure, IsEmpty());
    EXPECT_TRUE(point.no_slower_than_default);
    EXPECT_EQ(point.kernels, 5);  // served, default, three others
    EXPECT_EQ(point.served_config, configs_[0].ToString());
  }
  EXPECT_LE(compiler_.compiles, 6);
  // Every kernel's samples are stored, apart from those of sessions.
  ASSERT_THAT(stored_, SizeIs(10));
  KnownTrials known;
  for (const Trial& trial : stored_) {
    EXPECT_EQ(trial.outcome, Outcome::kMeasured);
    EXPECT_EQ(trial.samples.size(), 37u);
    EXPECT_EQ(trial.session_id, "recheck");
    EXPECT_EQ(trial.gate, GateKind::kDevice);
    known.Add(trial);
  }
  PoolKernel kernel;
  kernel.candidate.compile = stored_[0].compile;
  EXPECT_EQ(known.Restore(kernel), 0);
  EXPECT_EQ(known.NextRound(16, &PoolKernel::raced), 0);
}

TEST_F(RecheckTest, FindsThatAnotherKernelIsFasterNow) {
  slower = [this](const TuningConfig& config, int64_t m) {
    return config == configs_[0] && m == 64 ? 1.1 : 1.0;
  };
  const std::vector<RecheckPoint> points = Recheck();
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_LT(points[0].regret.ratio, 1.01);
  EXPECT_GT(points[1].regret.low, 1.05);
  EXPECT_NE(points[1].best_config, configs_[0].ToString());
  EXPECT_GT(points[1].served_ns, points[1].best_ns);
}

TEST_F(RecheckTest, TheRoundsOfASecondRecheckAreNew) {
  Recheck();
  const int32_t first = stored_.back().samples.back().round;
  known_.insert(known_.end(), stored_.begin(), stored_.end());
  stored_.clear();
  Recheck();
  for (const Trial& trial : stored_) {
    if (trial.m == 64) {
      EXPECT_GT(trial.samples.front().round, first);
    }
  }
}

TEST_F(RecheckTest, AServedKernelThatIsWrongNowIsAFinding) {
  executor_.gate = [this](const TuningConfig& config, int64_t m) {
    GateResult result;
    if (config == configs_[0] && m == 64) {
      result.outcome = Outcome::kWrongResult;
      result.detail = "half of it";
    }
    return result;
  };
  const std::vector<RecheckPoint> points = Recheck();
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_THAT(points[0].failure, IsEmpty());
  EXPECT_EQ(points[1].failure, "wrong_result: half of it");
  EXPECT_FALSE(points[1].no_slower_than_default);
  EXPECT_EQ(points[1].served_ns, 0);
  EXPECT_GT(points[1].best_ns, 0);
  EXPECT_EQ(stored_.back().m, 64);
}

TEST_F(RecheckTest, AConfigThatDoesNotCompileOrIsNoLongerLegal) {
  compiler_.outcome = [this](const TuningConfig& config) {
    return config == configs_[0] ? Outcome::kCompileError : Outcome::kMeasured;
  };
  EXPECT_THAT(Recheck()[0].failure, HasSubstr("compile_error: simulated"));
  table_.entries[0].config.mma = MmaInstruction::kTcgen05;
  EXPECT_THAT(Recheck()[0].failure, HasSubstr("no longer legal"));
}

TEST_F(RecheckTest, WhatOthersDidToTheServedKernelIsNoFinding) {
  executor_.gate = [this](const TuningConfig& config, int64_t m) {
    GateResult result;
    if (config == configs_[0] && m == 16)
      result.outcome = Outcome::kInterrupted;
    return result;
  };
  EXPECT_THAT(Recheck(), IsEmpty());
}

TEST_F(RecheckTest, EndsAtItsDeadlineAndWhenCancelled) {
  absl::Time now = absl::UnixEpoch();
  options_.deadline = now + absl::Seconds(10);
  hooks_.now = [&] { return now; };
  hooks_.point = [&](const RecheckPoint&) { now += absl::Seconds(11); };
  EXPECT_THAT(Recheck(), SizeIs(1));
  options_.deadline = absl::InfiniteFuture();
  hooks_.is_cancelled = [] { return true; };
  EXPECT_EQ(RecheckTable(executor_, compiler_, table_, table_.ladder, known_,
                         options_, hooks_)
                .status()
                .code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace hone
