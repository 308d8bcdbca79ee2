#include "tuner/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/tuner/simulated_executor.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

// Entrant i is the config with stages = i + 2.
TuningConfig Config(int i) {
  TuningConfig config;
  config.stages = i + 2;
  return config;
}

struct Ended {
  std::map<int, EntrantState> entrants;
  std::vector<int> order;
  bool finished = false;
  absl::Status status;
  std::vector<absl::Duration> waits;
};

Ended RunSimulated(SimulatedExecutor& executor, int entrants,
                   int protected_entrant, const RaceOptions& options,
                   uint64_t seed) {
  EXPECT_TRUE(executor.Begin({}, 1, 1).ok());
  RaceRun run;
  run.m = 1;
  run.protected_entrant = protected_entrant;
  for (int i = 0; i < entrants; ++i) {
    Candidate candidate;
    candidate.config = Config(i);
    run.candidates.push_back(*executor.Add(candidate));
  }
  Ended ended;
  run.wait = [&](absl::Duration wait) { ended.waits.push_back(wait); };
  run.stop = [] { return false; };
  run.left = [&](int entrant, const EntrantState& state) {
    EXPECT_TRUE(ended.entrants.emplace(entrant, state).second);
    ended.order.push_back(entrant);
    return absl::OkStatus();
  };
  std::mt19937_64 random(seed);
  const absl::StatusOr<bool> finished = RunRace(executor, run, options, random);
  ended.status = finished.status();
  ended.finished = finished.ok() && *finished;
  return ended;
}

SimulatedExecutor Device(std::vector<double> true_ns, Noise noise,
                         uint64_t seed) {
  return SimulatedExecutor(
      {},
      [true_ns](const TuningConfig& config, int64_t) {
        return true_ns.at(static_cast<size_t>(config.stages - 2));
      },
      noise, seed);
}

TEST(RaceTest, DropsTheSlowAndKeepsTies) {
  SimulatedExecutor device = Device({20000, 20020, 21500, 24000, 60000}, {}, 1);
  const Ended ended = RunSimulated(device, 5, -1, {}, 1);
  ASSERT_EQ(ended.entrants.size(), 5u);
  EXPECT_EQ(ended.entrants.at(0).status, EntrantState::Status::kLive);
  EXPECT_EQ(ended.entrants.at(1).status, EntrantState::Status::kLive);
  EXPECT_EQ(ended.entrants.at(2).status, EntrantState::Status::kDropped);
  EXPECT_EQ(ended.entrants.at(3).status, EntrantState::Status::kDropped);
  EXPECT_EQ(ended.entrants.at(4).status, EntrantState::Status::kScreenedOut);
  EXPECT_EQ(ended.entrants.at(4).samples.size(), 3u);
  EXPECT_LE(ended.entrants.at(2).samples.size(),
            ended.entrants.at(0).samples.size());
  EXPECT_TRUE(ended.finished);
}

TEST(RaceTest, ProtectedEntrantIsTimedToTheEndAndLeavesLast) {
  SimulatedExecutor device = Device({90000, 20000, 20100}, {}, 2);
  const Ended ended = RunSimulated(device, 3, 0, {}, 1);
  EXPECT_EQ(ended.entrants.at(0).status, EntrantState::Status::kLive);
  EXPECT_EQ(ended.entrants.at(0).samples.size(),
            ended.entrants.at(1).samples.size());
  EXPECT_EQ(ended.order.back(), 0);
}

TEST(RaceTest, StopsOnceDecided) {
  RaceOptions options;
  options.max_rounds = 200;
  Noise quiet;
  quiet.sigma = 0.001;
  quiet.outlier_share = 0;
  SimulatedExecutor device = Device({50000, 50100, 70000}, quiet, 3);
  RunSimulated(device, 3, -1, options, 1);
  EXPECT_LE(device.rounds, 40);
  EXPECT_GE(device.rounds, options.min_rounds);
}

TEST(RaceTest, EveryRoundShufflesAllLiveEntrants) {
  Race race(6, -1, {}, 100);
  std::mt19937_64 random(1);
  std::set<std::vector<int>> orders;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(race.round(), 100 + i);
    std::vector<int> order = race.NextOrder(random);
    orders.insert(order);
    RoundResult result;
    result.entries.resize(order.size());
    for (RoundResult::Entry& entry : result.entries) {
      entry.sample.duration_ns = 1000;
    }
    ASSERT_TRUE(race.Report(order, result).ok());
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  }
  EXPECT_GT(orders.size(), 5u);
  EXPECT_EQ(race.entrants()[0].samples.back().round, 109);
}

TEST(RaceTest, SlowedDownRoundsAreRepeated) {
  SimulatedExecutor device = Device({20000, 20000}, {}, 4);
  device.slowdown = [](int round) { return round % 2 == 0 && round <= 8; };
  RaceOptions options;
  options.max_disturbed = 4;
  const Ended ended = RunSimulated(device, 2, -1, options, 1);
  EXPECT_EQ(device.rounds,
            4 + static_cast<int>(ended.entrants.at(0).samples.size()));
}

TEST(RaceTest, OfADeviceThatStaysDisturbedNothingIsMade) {
  RaceOptions options;
  options.max_disturbed = 4;
  for (const bool shared : {false, true}) {
    SimulatedExecutor device = Device({20000, 20000}, {}, 4);
    if (shared) {
      device.foreign = [](int round) { return round > 10; };
    } else {
      device.slowdown = [](int round) { return round > 10; };
    }
    const Ended ended = RunSimulated(device, 2, -1, options, 1);
    EXPECT_EQ(ended.status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(ended.status.message()),
                testing::HasSubstr(shared ? "another process (77)"
                                          : "hardware slowdown"));
    EXPECT_EQ(device.rounds, 10 + 4 + 1);
    EXPECT_TRUE(ended.entrants.empty());
    // It waits longer and longer for the disturbance to pass.
    EXPECT_EQ(ended.waits,
              (std::vector<absl::Duration>{
                  absl::Milliseconds(20), absl::Milliseconds(40),
                  absl::Milliseconds(80), absl::Milliseconds(160)}));
  }
}

TEST(RaceTest, RoundsAtAnotherClockAreRepeated) {
  Noise noise;
  noise.slow_clock_share = 0.15;
  SimulatedExecutor device = Device({20000, 20000, 20000}, noise, 5);
  RaceOptions options;
  options.max_repeats = 100;
  const Ended ended = RunSimulated(device, 3, -1, options, 1);
  int slow = 0;
  for (const Sample& sample : ended.entrants.at(0).samples) {
    slow += sample.sm_clock_khz < 1900000;
  }
  // Only the first rounds, before there is a median, may be off.
  EXPECT_LE(slow, 3);
}

TEST(RaceTest, AFailureCostsTheRoundButNotTheOthers) {
  SimulatedExecutor device = Device({20000, 20000, 20000}, {}, 6);
  device.fault = [](const TuningConfig& config, int64_t) {
    return config.stages == 3 ? Outcome::kTimeout : Outcome::kMeasured;
  };
  const Ended ended = RunSimulated(device, 3, -1, {}, 1);
  EXPECT_EQ(ended.order.front(), 1);
  EXPECT_EQ(ended.entrants.at(1).failure, Outcome::kTimeout);
  EXPECT_EQ(ended.entrants.at(1).detail, "simulated");
  EXPECT_GE(ended.entrants.at(0).samples.size(), 12u);
  EXPECT_EQ(ended.entrants.at(0).samples.front().round, 1);

  device.fault = [](const TuningConfig&, int64_t) { return Outcome::kFault; };
  EXPECT_TRUE(RunSimulated(device, 3, -1, {}, 1).finished);
}

TEST(RaceTest, AFailureOutsideOfARoundCostsNoSamples) {
  Race race(2, 0, {}, 0);
  std::mt19937_64 random(1);
  RoundResult result;
  result.entries.resize(2);
  for (RoundResult::Entry& entry : result.entries)
    entry.sample.duration_ns = 20000;
  ASSERT_TRUE(race.Report(race.NextOrder(random), result).ok());
  EXPECT_FALSE(race.Settled());
  race.Fail(0, Outcome::kWrongResult, "late");
  race.Fail(0, Outcome::kFault, "later");
  EXPECT_EQ(race.entrants()[0].failure, Outcome::kWrongResult);
  EXPECT_EQ(race.entrants()[0].detail, "late");
  EXPECT_EQ(race.entrants()[0].samples.size(), 1u);
  EXPECT_EQ(race.round(), 1);
  EXPECT_EQ(race.NextOrder(random), std::vector<int>{1});
  EXPECT_FALSE(race.over());
  race.Fail(1, Outcome::kFault, "");
  EXPECT_TRUE(race.over());
  EXPECT_FALSE(race.Settled());
}

TEST(RaceTest, ResultsThatDoNotFitAreErrors) {
  Race race(2, -1, {}, 0);
  std::mt19937_64 random(1);
  const std::vector<int> order = race.NextOrder(random);
  EXPECT_EQ(race.Report(order, {}).status().code(),
            absl::StatusCode::kInternal);
  RoundResult no_time;
  no_time.entries.resize(2);
  EXPECT_EQ(race.Report(order, no_time).status().code(),
            absl::StatusCode::kInternal);
}

// ---- error rates on simulated noise ----

struct NoiseCase {
  const char* name;
  Noise noise;
};

class RaceNoiseTest : public testing::TestWithParam<NoiseCase> {};

TEST_P(RaceNoiseTest, TheTrueBestIsHardlyEverDropped) {
  constexpr int kRuns = 400;
  int dropped = 0;
  for (int run = 0; run < kRuns; ++run) {
    // The best leads by 0.3 %; a third are far off.
    std::vector<double> times = {20000};
    for (int i = 1; i < 12; ++i) times.push_back(20000 * (1 + 0.003 * i * i));
    SimulatedExecutor device =
        Device(times, GetParam().noise, static_cast<uint64_t>(run));
    const Ended ended =
        RunSimulated(device, 12, 11, {}, static_cast<uint64_t>(run) + 1000);
    dropped += ended.entrants.at(0).status != EntrantState::Status::kLive;
  }
  EXPECT_LE(dropped, kRuns / 100);
}

TEST_P(RaceNoiseTest, EqualKernelsAreHardlyEverToldApart) {
  constexpr int kRuns = 300;
  int flips = 0;
  for (int run = 0; run < kRuns; ++run) {
    SimulatedExecutor device =
        Device(std::vector<double>(6, 20000.0), GetParam().noise,
               static_cast<uint64_t>(run));
    const Ended ended =
        RunSimulated(device, 6, -1, {}, static_cast<uint64_t>(run) + 1000);
    bool flip = false;
    for (const auto& [entrant, state] : ended.entrants) {
      flip = flip || state.status != EntrantState::Status::kLive;
    }
    flips += flip;
  }
  EXPECT_LE(flips, kRuns / 100);
}

TEST_P(RaceNoiseTest, ClearLosersLeave) {
  constexpr int kRuns = 50;
  int kept = 0;
  for (int run = 0; run < kRuns; ++run) {
    SimulatedExecutor device =
        Device({20000, 22400}, GetParam().noise, static_cast<uint64_t>(run));
    const Ended ended =
        RunSimulated(device, 2, -1, {}, static_cast<uint64_t>(run));
    kept += ended.entrants.at(1).status == EntrantState::Status::kLive;
  }
  EXPECT_LE(kept, kRuns / 10);
}

INSTANTIATE_TEST_SUITE_P(
    Noise, RaceNoiseTest,
    testing::Values(NoiseCase{"quiet", {}},
                    NoiseCase{"drift", {.drift = 0.003}},
                    NoiseCase{"outliers",
                              {.outlier_share = 0.10, .outlier_factor = 4}},
                    NoiseCase{"bimodal", {.slow_clock_share = 0.3}},
                    NoiseCase{"bimodal_unseen",
                              {.slow_clock_share = 0.3, .report_clock = false}},
                    NoiseCase{"loud", {.sigma = 0.02}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hone
