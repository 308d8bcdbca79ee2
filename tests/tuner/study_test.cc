#include "tuner/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tuner/study_space.h"

namespace hone {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// 6 x 4 x 3 x 2 configs, of which 12 are excluded.
StudySpec Spec() {
  StudySpec spec;
  spec.problem = "softmax rows=4096";
  spec.device = "H200";
  spec.parameters = {{"block", {32, 64, 128, 256, 512, 1024}, {}},
                     {"stages", {1, 2, 3, 4}, {}},
                     {"unroll", {0, 1, 2}, {}},
                     {"order", {}, {"row", "column"}}};
  spec.exclusions = {{{"block", {"1024"}}, {"stages", {"3", "4"}}}};
  spec.baseline = {
      {"block", "32"}, {"stages", "1"}, {"unroll", "0"}, {"order", "row"}};
  return spec;
}

// Fastest, 10,000 ns, at block=256, stages=3, unroll=1, order=column.
double TrueTime(const StudySettings& config) {
  const auto number = [&](const char* name) {
    return std::stod(config.at(name));
  };
  return 10000 *
         (1 + 0.15 * std::abs(std::log2(number("block") / 256)) +
          0.08 * std::abs(number("stages") - 3) +
          0.05 * std::abs(number("unroll") - 1)) *
         (config.at("order") == "column" ? 1 : 1.1);
}

// Measures what a study asks for, with log-normal noise, outliers and drift.
class Measurer {
 public:
  using Time = std::function<double(const StudySettings&)>;
  explicit Measurer(uint64_t seed, Time time = TrueTime)
      : random_(seed), time_(std::move(time)) {}

  // What one call in one round lasts.
  Sample Measure(const Study& study, size_t config, int32_t round) {
    std::normal_distribution<double> noise(0, 0.005);
    double ns = time_(study.space().Settings(config)) * (1 + 0.0005 * round) *
                std::exp(noise(random_));
    if (std::uniform_real_distribution<double>()(random_) < 0.02) ns *= 1.4;
    return {std::llround(ns / 32) * 32, 0, round};
  }

  // All that is asked for now, as results.
  std::vector<StudyResult> Results(const Study& study) {
    std::map<size_t, StudyResult> by_config;
    for (const StudyRound& round : study.rounds()) {
      for (const size_t config : round.order) {
        by_config[config].config = config;
        by_config[config].samples.push_back(
            Measure(study, config, round.round));
      }
    }
    std::vector<StudyResult> results;
    for (auto& [config, result] : by_config) {
      const auto failure = failures.find(study.space().Text(config));
      if (failure != failures.end()) {
        result = {config, failure->second, "as planned", {}};
        ++failures_reported;
      }
      results.push_back(result);
    }
    return results;
  }

  // Reports until nothing is asked for, or `limit` batches.
  void Run(Study& study, int limit = 1000) {
    for (int i = 0; i < limit && !study.rounds().empty(); ++i) {
      for (const StudyResult& result : Results(study)) {
        const absl::StatusOr<bool> taken = study.Report(result);
        ASSERT_TRUE(taken.ok()) << taken.status();
        EXPECT_TRUE(*taken);
        log.push_back(result);
      }
    }
  }

  std::map<std::string, Outcome> failures;
  int failures_reported = 0;
  std::vector<StudyResult> log;

 private:
  std::mt19937_64 random_;
  Time time_;
};

std::string BestText(const Study& study) {
  const StudyAnswer answer = study.Answer();
  return answer.best ? study.space().Text(*answer.best) : "none";
}

TEST(StudySpaceTest, LeavesOutWhatIsExcluded) {
  const auto space = StudySpace::Create(Spec().parameters, Spec().exclusions);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ(space->size(), 144u - 12u);
  for (size_t i = 0; i < space->size(); ++i) {
    EXPECT_EQ(*space->Find(space->Settings(i), "config"), i);
  }
  EXPECT_EQ(space->Text(*space->Find(Spec().baseline, "baseline")),
            "block=32,order=row,stages=1,unroll=0");
  StudySettings excluded = Spec().baseline;
  excluded["block"] = "1024";
  excluded["stages"] = "4";
  EXPECT_THAT(space->Find(excluded, "baseline").status().message(),
              HasSubstr("baseline is excluded"));
}

TEST(StudySpaceTest, ErrorsNameTheFieldAndWhatIsLegal) {
  const auto error = [](const std::function<void(StudySpec&)>& change) {
    StudySpec spec = Spec();
    change(spec);
    return std::string(Study::Create(spec).status().message());
  };
  EXPECT_THAT(error([](StudySpec& s) { s.problem = ""; }),
              HasSubstr("problem has 0 bytes; it must have 1 to 256"));
  EXPECT_THAT(error([](StudySpec& s) { s.device = "a\nb"; }),
              HasSubstr("device has"));
  EXPECT_THAT(error([](StudySpec& s) { s.max_configs = 513; }),
              HasSubstr("max_configs is 513; it must be between 2 and 512"));
  EXPECT_THAT(error([](StudySpec& s) { s.batch_size = 0; }),
              HasSubstr("batch_size is 0; it must be between 1 and 64"));
  EXPECT_THAT(error([](StudySpec& s) { s.parameters.clear(); }),
              HasSubstr("parameters has 0 entries"));
  EXPECT_THAT(error([](StudySpec& s) { s.parameters[1].name = "block"; }),
              HasSubstr("parameters[1].name is \"block\"; it must be unique"));
  EXPECT_THAT(error([](StudySpec& s) {
                s.parameters[1].numbers = {2, 1};
              }),
              HasSubstr("parameters[1] has the value 1; numbers must rise"));
  EXPECT_THAT(error([](StudySpec& s) { s.parameters[3].words = {"a,b"}; }),
              HasSubstr("parameters[3] has the value \"a,b\""));
  EXPECT_THAT(error([](StudySpec& s) {
                s.parameters[1].numbers.clear();
                for (int i = 0; i < 256; ++i)
                  s.parameters[1].numbers.push_back(i);
                s.parameters[2].numbers = s.parameters[1].numbers;
              }),
              HasSubstr("parameters make more than 16384 configs"));
  EXPECT_THAT(error([](StudySpec& s) {
                s.exclusions = {{{"blok", {}}}};
              }),
              HasSubstr("exclusions[0] names \"blok\""));
  EXPECT_THAT(
      error([](StudySpec& s) {
        s.exclusions = {{{"order", {"rows"}}}};
      }),
      HasSubstr("exclusions[0] has the value \"rows\" of order; it must be "
                "one of row, column"));
  EXPECT_THAT(error([](StudySpec& s) {
                s.exclusions = {{{"order", {"row", "column"}}}};
              }),
              HasSubstr("exclusions leave no config"));
  EXPECT_THAT(error([](StudySpec& s) { s.baseline["stages"] = "9"; }),
              HasSubstr("baseline.stages is \"9\"; it must be one of 1, 2"));
  EXPECT_THAT(error([](StudySpec& s) { s.baseline["stage"] = "1"; }),
              HasSubstr("baseline has \"stage\"; it must have exactly block"));
}

TEST(StudyTest, TheRightConfigWinsOverNoise) {
  int right = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StudySpec spec = Spec();
    spec.seed = seed;
    Study study = *Study::Create(spec);
    Measurer measurer(seed);
    measurer.Run(study);
    EXPECT_EQ(study.phase(), StudyPhase::kDecided);
    const StudyAnswer answer = study.Answer();
    EXPECT_NE(answer.decision, StudyDecision::kUndecided);
    ASSERT_TRUE(answer.best.has_value());
    EXPECT_GE(answer.evidence.samples, 12);
    EXPECT_LE(answer.evidence.low_ns, answer.evidence.median_ns);
    EXPECT_GE(answer.evidence.high_ns, answer.evidence.median_ns);
    EXPECT_GT(answer.evidence.margin, 0.4);
    EXPECT_LE(study.known().size(), 64u);
    right += TrueTime(study.space().Settings(*answer.best)) == 10000;
  }
  // 64 of 132 configs are measured; the surrogate has to find this one.
  EXPECT_GE(right, 19);
}

TEST(StudyTest, FewOfALargeSpaceAreEnough) {
  StudySpec spec = Spec();
  spec.parameters[1].numbers = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  spec.parameters[2].numbers = {0, 1, 2, 3, 4, 5, 6, 7};
  spec.exclusions.clear();
  double regret = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    spec.seed = seed;
    Study study = *Study::Create(spec);
    ASSERT_EQ(study.space().size(), 1152u);
    Measurer measurer(seed);
    measurer.Run(study);
    regret += TrueTime(study.space().Settings(*study.Answer().best)) / 10000;
  }
  EXPECT_LT(regret / 10, 1.06);
}

TEST(StudyTest, TiesGoToTheBaselineAndAreListed) {
  StudySpec spec = Spec();
  spec.parameters = {{"x", {1, 2, 3, 4}, {}}};
  spec.exclusions.clear();
  spec.baseline = {{"x", "3"}};
  Study study = *Study::Create(spec);
  Measurer measurer(3, [](const StudySettings& config) {
    return config.at("x") == "1" ? 12000.0 : 10000.0;
  });
  measurer.Run(study);
  EXPECT_EQ(BestText(study), "x=3");
  EXPECT_THAT(study.Answer().ties, ElementsAre(1, 3));
  EXPECT_NEAR(study.Answer().evidence.margin, 0, 0.001);
}

TEST(StudyTest, DifferencesBelowTheTickAreTies) {
  StudySpec spec = Spec();
  spec.parameters = {{"x", {1, 2}, {}}};
  spec.exclusions.clear();
  spec.baseline = {{"x", "1"}};
  Study study = *Study::Create(spec);
  // 2 % apart, yet less than 64 ns.
  Measurer measurer(3, [](const StudySettings& config) {
    return config.at("x") == "1" ? 1632.0 : 1600.0;
  });
  measurer.Run(study);
  EXPECT_EQ(BestText(study), "x=1");
}

TEST(StudyTest, AFailedConfigIsNeverAskedForAgain) {
  Study study = *Study::Create(Spec());
  const size_t best = *study.space().Find(
      {{"block", "256"}, {"stages", "3"}, {"unroll", "1"}, {"order", "column"}},
      "config");
  // Known beforehand: before it was ever asked for.
  ASSERT_TRUE(*study.Report({best, Outcome::kWrongResult, "NaN", {}}));
  EXPECT_FALSE(*study.Report({best, Outcome::kWrongResult, "NaN", {}}));
  Measurer measurer(1);
  for (size_t i = 0; i < study.space().size(); i += 3) {
    if (i != study.baseline())
      measurer.failures[study.space().Text(i)] = Outcome::kFault;
  }
  std::set<size_t> failed = {best};
  while (!study.rounds().empty()) {
    for (const StudyRound& round : study.rounds()) {
      for (const size_t config : failed)
        EXPECT_THAT(round.order, Not(Contains(config)));
    }
    const size_t before = measurer.log.size();
    measurer.Run(study, 1);
    for (size_t i = before; i < measurer.log.size(); ++i) {
      if (measurer.log[i].outcome != Outcome::kMeasured)
        failed.insert(measurer.log[i].config);
    }
  }
  EXPECT_GT(failed.size(), 5u);
  EXPECT_THAT(failed, Not(Contains(*study.Answer().best)));
  EXPECT_EQ(study.known().at(best).outcome, Outcome::kWrongResult);
  EXPECT_LE(study.known().size(), 65u);
  EXPECT_THAT(study
                  .Report({best,
                           Outcome::kMeasured,
                           "",
                           {Sample{.duration_ns = 1, .round = 0}}})
                  .status()
                  .message(),
              HasSubstr("outcome is measured, but the config failed before"));
}

TEST(StudyTest, WithoutABaselineThatWorksOthersStillRace) {
  Study study = *Study::Create(Spec());
  Measurer measurer(1);
  measurer.failures["block=32,order=row,stages=1,unroll=0"] =
      Outcome::kLaunchError;
  measurer.Run(study);
  EXPECT_EQ(measurer.failures_reported, 1);
  EXPECT_EQ(BestText(study), "block=256,order=column,stages=3,unroll=1");
  EXPECT_EQ(study.Answer().evidence.default_median_ns, 0);
}

TEST(StudyTest, WhenNothingWorksItSaysSo) {
  Study study = *Study::Create(Spec());
  Measurer measurer(1);
  for (size_t i = 0; i < study.space().size(); ++i)
    measurer.failures[study.space().Text(i)] = Outcome::kCompileError;
  measurer.Run(study);
  EXPECT_EQ(study.Answer().decision, StudyDecision::kNoneWorks);
  EXPECT_FALSE(study.Answer().best.has_value());
  EXPECT_EQ(measurer.failures_reported, 64);
}

TEST(StudyTest, AFailureAfterTheRaceTakesTheWinnerAway) {
  Study study = *Study::Create(Spec());
  Measurer measurer(1);
  measurer.Run(study);
  const size_t best = *study.Answer().best;
  ASSERT_TRUE(*study.Report({best, Outcome::kWrongResult, "at K=7", {}}));
  ASSERT_TRUE(study.Answer().best.has_value());
  EXPECT_NE(*study.Answer().best, best);
  EXPECT_THAT(study.Answer().ties, Not(Contains(best)));
}

TEST(StudyTest, TheSameResultsMakeTheSameStudy) {
  Study study = *Study::Create(Spec());
  Measurer measurer(9);
  measurer.failures["block=128,order=row,stages=2,unroll=1"] =
      Outcome::kTimeout;
  measurer.Run(study, 7);
  Study again = *Study::Create(Spec());
  for (const StudyResult& result : measurer.log)
    ASSERT_TRUE(again.Report(result).ok());
  ASSERT_EQ(again.rounds().size(), study.rounds().size());
  for (size_t i = 0; i < study.rounds().size(); ++i) {
    EXPECT_EQ(again.rounds()[i].round, study.rounds()[i].round);
    EXPECT_EQ(again.rounds()[i].order, study.rounds()[i].order);
  }
  EXPECT_EQ(again.Answer().best, study.Answer().best);
}

TEST(StudyTest, ResultsComeInAnyPortionsAndTwice) {
  Study study = *Study::Create(Spec());
  Study whole = *Study::Create(Spec());
  Measurer measurer(4);
  const std::vector<StudyResult> results = measurer.Results(study);
  for (const StudyResult& result : results) {
    ASSERT_TRUE(*whole.Report(result));
    for (const Sample& sample : result.samples) {
      StudyResult part = {result.config, Outcome::kMeasured, "", {sample}};
      EXPECT_TRUE(*study.Report(part));
      EXPECT_FALSE(*study.Report(part));
    }
  }
  EXPECT_EQ(study.rounds()[0].round, 3);
  EXPECT_EQ(study.rounds()[0].order, whole.rounds()[0].order);
  // Still known once the study has moved on.
  EXPECT_FALSE(*study.Report(results[0]));
  StudyResult changed = results[0];
  ++changed.samples[1].duration_ns;
  EXPECT_THAT(study.Report(changed).status().message(),
              HasSubstr("samples[1].round is 1, which was reported with"));
}

TEST(StudyTest, BadResultsAreRefusedAndChangeNothing) {
  Study study = *Study::Create(Spec());
  const size_t config = study.rounds()[0].order[0];
  const auto error = [&](const StudyResult& result) {
    return std::string(study.Report(result).status().message());
  };
  const auto with = [&](std::vector<Sample> samples) {
    return error({config, Outcome::kMeasured, "", std::move(samples)});
  };
  EXPECT_THAT(error({999, Outcome::kMeasured, "", {}}),
              HasSubstr("config is 999; it must be between 0 and 131"));
  EXPECT_THAT(with({}), HasSubstr("samples is empty"));
  EXPECT_THAT(with({{0, 0, 0}}), HasSubstr("samples[0].duration_ns is 0"));
  EXPECT_THAT(with({{5, -1, 0}}), HasSubstr("samples[0].sm_clock_khz is -1"));
  EXPECT_THAT(with({{5, 0, 1}, {5, 0, 1}}),
              HasSubstr("samples[1].round is 1; rounds must rise"));
  EXPECT_THAT(with({{5, 0, 3}}),
              HasSubstr("samples[0].round is 3; it must be a round that"));
  EXPECT_THAT(error({config, Outcome::kScreenedOut, "", {}}),
              HasSubstr("outcome is screened_out"));
  EXPECT_THAT(error({config, Outcome::kFault, "", {{5, 0, 0}}}),
              HasSubstr("samples has 1 entries"));
  EXPECT_THAT(error({config, Outcome::kFault, std::string(2000, 'x'), {}}),
              HasSubstr("detail has 2000 bytes"));
  EXPECT_TRUE(study.known().at(config).samples.empty());
}

TEST(StudyTest, EqualConfigsAreHardlyEverToldApart) {
  StudySpec spec = Spec();
  spec.parameters = {{"x", {1, 2, 3, 4, 5, 6}, {}}};
  spec.exclusions.clear();
  spec.baseline = {{"x", "1"}};
  int moved = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Study study = *Study::Create(spec);
    Measurer measurer(seed, [](const StudySettings&) { return 20000.0; });
    measurer.Run(study);
    moved += BestText(study) != "x=1";
  }
  EXPECT_LE(moved, 5);
}

}  // namespace
}  // namespace hone
