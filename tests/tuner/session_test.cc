#include "tuner/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"
#include "tests/tuner/simulated_executor.h"
#include "tuner/analytic_model.h"
#include "tuner/known_trials.h"

namespace hone {
namespace {

// A device whose true times are the model's, distorted per config by up to
// ±15 %, which the search does not know.
double TrueNs(const Problem& problem, const DeviceSpec& device,
              const TuningConfig& config, int64_t m) {
  const double model =
      Predict(problem, device, config, m, {96, 48 << 10, 0}).total_ns;
  uint64_t hash = 1469598103934665603U;
  for (const char c : config.ToString()) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  return model * (0.85 + 0.30 * static_cast<double>(hash >> 40) / (1 << 24));
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    problem_.layer.n = 4096;
    problem_.layer.k = 4096;
    problem_.layer.b_scale = ScaleGranularity::kGroup;
    problem_.layer.b_group = 128;
    device_ = *ModelledDevice("h200");
    options_.session_id = "first";
    options_.ladder = {1, 16, 64, 256, 2048};
    options_.max_kernels = 16;
    options_.max_probes = 4;
    NewExecutor(1);
  }

  void NewExecutor(uint64_t seed) {
    executor_ = std::make_unique<SimulatedExecutor>(
        device_,
        [this](const TuningConfig& config, int64_t m) {
          return TrueNs(problem_, device_, config, m);
        },
        Noise(), seed);
  }

  absl::StatusOr<SessionResult> Run() {
    SessionHooks hooks;
    hooks.known_trials = [this]() -> absl::StatusOr<std::vector<Trial>> {
      return store_;
    };
    hooks.record_trial = [this](const Trial& trial) {
      store_.push_back(trial);
      return record_status_;
    };
    hooks.progress = [this](const SessionProgress& progress) {
      EXPECT_GE(progress.done, last_.done);
      EXPECT_GE(progress.total, progress.done);
      last_ = progress;
    };
    hooks.is_cancelled = [this] { return cancelled_; };
    hooks.now = [this] { return now_; };
    last_ = {};
    TuningSession session(executor_.get(), &compiler_, options_, hooks);
    return session.Run(problem_);
  }

  SessionResult MustRun() {
    absl::StatusOr<SessionResult> result = Run();
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : SessionResult();
  }

  // The table covers every M and is nowhere slower than the default.
  void ExpectSound(const DispatchTable& table) {
    EXPECT_TRUE(table.Validate().ok()) << table.Validate();
    for (const int64_t m : options_.ladder) {
      const TableEntry* entry = table.Find(m);
      ASSERT_NE(entry, nullptr);
      EXPECT_LE(TrueNs(problem_, device_, entry->config, m),
                1.01 * TrueNs(problem_, device_,
                              HeuristicDefault(problem_, device_, m), m))
          << "M = " << m;
    }
  }

  Problem problem_;
  DeviceSpec device_;
  SessionOptions options_;
  std::unique_ptr<SimulatedExecutor> executor_;
  FakeCompiler compiler_;
  std::vector<Trial> store_;
  absl::Status record_status_;
  SessionProgress last_;
  bool cancelled_ = false;
  absl::Time now_ = absl::FromUnixSeconds(1700000000);
};

TEST_F(SessionTest, TunesALadderToATableWithEvidence) {
  const SessionResult result = MustRun();
  ExpectSound(result.table);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.table.problem, problem_);
  EXPECT_EQ(result.table.gate, GateKind::kDevice);
  EXPECT_EQ(result.table.session_id, "first");
  EXPECT_EQ(result.trials_recorded, std::ssize(store_));
  EXPECT_EQ(result.trials_reused, 0);
  EXPECT_LE(result.distinct_kernels, 5);
  EXPECT_GE(result.distinct_kernels, 1);
  EXPECT_EQ(last_.phase, SessionPhase::kDone);
  EXPECT_EQ(last_.done, last_.total);

  std::set<int64_t> proven;
  for (const TableEntry& entry : result.table.entries) {
    EXPECT_FALSE(entry.compile.kernel_id.empty());
    for (const Evidence& evidence : entry.evidence) {
      proven.insert(evidence.m);
      EXPECT_GE(evidence.samples, 12);
      EXPECT_LE(evidence.low_ns, evidence.median_ns);
      EXPECT_GE(evidence.high_ns, evidence.median_ns);
      EXPECT_GT(evidence.floor_ns, 0);
      if (std::count(options_.ladder.begin(), options_.ladder.end(),
                     evidence.m) > 0) {
        EXPECT_GT(evidence.default_median_ns, 0) << evidence.m;
        EXPECT_GT(evidence.margin, -0.011) << evidence.m;
      }
    }
  }
  for (const int64_t m : options_.ladder) EXPECT_TRUE(proven.contains(m)) << m;
  for (const Trial& trial : store_) {
    EXPECT_EQ(trial.session_id, "first");
    EXPECT_EQ(trial.gate, GateKind::kDevice);
    EXPECT_GT(trial.unix_us, 0);
  }
}

TEST_F(SessionTest, AnInvariantTableIsOfOneOrder) {
  problem_.compute.batch_invariant = true;
  const SessionResult result = MustRun();
  ExpectSound(result.table);
  const ReductionOrder order = InvariantOrder(problem_, device_);
  // What was tried, too: a stored trial may enter a later tune.
  for (const Trial& trial : store_) {
    EXPECT_EQ(ReductionOrderOf(trial.config), order) << trial.config.ToString();
  }
  for (const TableEntry& entry : result.table.entries) {
    EXPECT_EQ(ReductionOrderOf(entry.config), order);
    EXPECT_FALSE(CheckConfig(problem_, device_, entry.config));
  }
  EXPECT_GT(result.table.entries.size(), 1u);
}

TEST_F(SessionTest, FindsNearlyTheBestOfItsPool) {
  const SessionResult result = MustRun();
  for (const int64_t m : options_.ladder) {
    double best = 1e30;
    for (const Trial& trial : store_) {
      best = std::min(best, TrueNs(problem_, device_, trial.config, m));
    }
    // The slack for few kernels, and some noise.
    EXPECT_LE(TrueNs(problem_, device_, result.table.Find(m)->config, m),
              1.035 * best)
        << "M = " << m;
  }
}

TEST_F(SessionTest, ATableOfFewKernelsIsTheBestOfItsSize) {
  options_.ladder = {1, 16, 64, 256, 2048};
  const SessionResult whole = MustRun();
  ASSERT_GT(whole.distinct_kernels, 2);
  // Steps from one kernel up, to one that leaves nothing to gain.
  const std::vector<TradeOffPoint>& curve = whole.table.trade_off;
  ASSERT_FALSE(curve.empty());
  for (size_t i = 1; i < curve.size(); ++i) {
    EXPECT_EQ(curve[i].kernels, curve[i - 1].kernels + 1);
    EXPECT_LE(curve[i].mean_regret, curve[i - 1].mean_regret);
  }
  EXPECT_EQ(curve.back().worst_regret, 0);

  // Whatever the cover and the defaults ask for.
  for (int limit = 1; limit <= whole.distinct_kernels + 1; ++limit) {
    store_.clear();
    options_.max_table_kernels = limit;
    NewExecutor(1);
    std::set<std::string> served;
    for (const TableEntry& entry : MustRun().table.entries) {
      served.insert(entry.config.ToString());
    }
    EXPECT_LE(std::ssize(served), limit);
  }

  store_.clear();
  options_.max_table_kernels = 2;
  options_.session_id = "few";
  NewExecutor(1);
  const SessionResult few = MustRun();
  EXPECT_LE(few.distinct_kernels, 2);
  EXPECT_TRUE(few.complete);
  std::set<std::string> configs;
  double sum = 0;
  for (const TableEntry& entry : few.table.entries) {
    configs.insert(entry.config.ToString());
  }
  EXPECT_LE(configs.size(), 2u);
  const auto best_at = [&](int64_t m) {
    double best = 1e30;
    for (const Trial& trial : store_) {
      best = std::min(best, TrueNs(problem_, device_, trial.config, m));
    }
    return best;
  };
  for (const int64_t m : options_.ladder) {
    sum += std::log(TrueNs(problem_, device_, few.table.Find(m)->config, m) /
                    best_at(m));
  }
  // No pair of what was tried is much better; predictions and noise choose.
  std::map<std::string, TuningConfig> tried;
  for (const Trial& trial : store_) {
    tried.emplace(trial.config.ToString(), trial.config);
  }
  double least = 1e30;
  for (const auto& [x, a] : tried) {
    for (const auto& [y, b] : tried) {
      double pair = 0;
      for (const int64_t m : options_.ladder) {
        pair += std::log(std::min(TrueNs(problem_, device_, a, m),
                                  TrueNs(problem_, device_, b, m)) /
                         best_at(m));
      }
      least = std::min(least, pair);
    }
  }
  EXPECT_LE(sum, least + 0.02 * static_cast<double>(options_.ladder.size()));
  // What it costs shows: some M is behind its default, or else two were enough.
  for (const TableEntry& entry : few.table.entries) {
    for (const Evidence& evidence : entry.evidence) {
      if (std::count(options_.ladder.begin(), options_.ladder.end(),
                     evidence.m) == 0) {
        continue;
      }
      EXPECT_GT(evidence.default_median_ns, 0) << evidence.m;
      const double truth =
          TrueNs(problem_, device_,
                 HeuristicDefault(problem_, device_, evidence.m), evidence.m) /
              TrueNs(problem_, device_, entry.config, evidence.m) -
          1;
      EXPECT_NEAR(evidence.margin, truth, 0.03) << evidence.m;
    }
  }
}

TEST_F(SessionTest, TwoTunesAgree) {
  const DispatchTable first = MustRun().table;
  store_.clear();
  options_.session_id = "second";
  NewExecutor(99);
  const DispatchTable second = MustRun().table;
  for (const int64_t m : options_.ladder) {
    const double a = TrueNs(problem_, device_, first.Find(m)->config, m);
    const double b = TrueNs(problem_, device_, second.Find(m)->config, m);
    EXPECT_NEAR(a / b, 1, 0.025) << "M = " << m;
  }
}

TEST_F(SessionTest, FailingCandidatesAreStoredAndNeverServed) {
  // By their number of stages: does not compile, wrong, hangs, faults.
  const auto kind = [](const TuningConfig& config) { return config.stages; };
  compiler_.outcome = [&](const TuningConfig& config) {
    return kind(config) == 6 ? Outcome::kCompileError : Outcome::kMeasured;
  };
  executor_->gate = [&](const TuningConfig& config, int64_t) {
    GateResult result;
    if (kind(config) == 3) {
      result.outcome = Outcome::kWrongResult;
      result.detail = "off";
      result.error.worst_ratio = 17;
    }
    return result;
  };
  executor_->fault = [&](const TuningConfig& config, int64_t m) {
    if (kind(config) == 8) return Outcome::kTimeout;
    return kind(config) == 2 && m > 16 ? Outcome::kFault : Outcome::kMeasured;
  };
  const SessionResult result = MustRun();
  EXPECT_TRUE(result.table.Validate().ok());
  for (const TableEntry& entry : result.table.entries) {
    for (const int64_t stages : {2, 3, 6, 8}) {
      EXPECT_NE(kind(entry.config), stages);
    }
  }
  std::map<Outcome, int> outcomes;
  for (const Trial& trial : store_) {
    ++outcomes[trial.outcome];
    if (trial.outcome == Outcome::kCompileError) {
      EXPECT_TRUE(trial.compile.kernel_id.empty());
      EXPECT_FALSE(trial.compile.source_key.empty());
      EXPECT_EQ(trial.gate, GateKind::kNone);
    }
    if (trial.outcome == Outcome::kWrongResult) {
      EXPECT_EQ(trial.error.worst_ratio, 17);
    }
  }
  // Which of them the pool holds is the search's affair, but some it must.
  EXPECT_GT(last_.failed, 2);
  EXPECT_EQ(last_.failed,
            outcomes[Outcome::kCompileError] + outcomes[Outcome::kWrongResult] +
                outcomes[Outcome::kTimeout] + outcomes[Outcome::kFault]);

  // A second session does not try them again.
  const size_t before = store_.size();
  options_.session_id = "again";
  MustRun();
  for (size_t i = before; i < store_.size(); ++i) {
    EXPECT_TRUE(store_[i].outcome == Outcome::kMeasured ||
                store_[i].outcome == Outcome::kScreenedOut);
  }
}

TEST_F(SessionTest, AKernelThatFailsAfterTimingIsReplaced) {
  const DispatchTable first = MustRun().table;
  const TuningConfig winner = first.Find(1)->config;
  store_.clear();
  NewExecutor(1);
  // Right when gated first, wrong once it has run.
  std::map<std::string, int> gates;
  executor_->gate = [&](const TuningConfig& config, int64_t) {
    GateResult result;
    if (config == winner && executor_->calls[{config.ToString(), 1}] > 0) {
      result.outcome = Outcome::kWrongResult;
    }
    return result;
  };
  const DispatchTable second = MustRun().table;
  EXPECT_TRUE(second.Validate().ok());
  for (const TableEntry& entry : second.entries) {
    EXPECT_NE(entry.config, winner);
  }
}

TEST_F(SessionTest, InterruptionsAreStoredAndBlameNobody) {
  std::set<std::string> interrupted;
  executor_->gate = [&](const TuningConfig& config, int64_t) {
    GateResult result;
    if (interrupted.insert(config.ToString()).second) {
      result.interruptions = {"killed"};
    }
    return result;
  };
  executor_->interruption = [](int round) {
    return round % 50 == 0 ? "killed in a round" : "";
  };
  ExpectSound(MustRun().table);
  int64_t gates = 0;
  int64_t rounds = 0;
  for (const Trial& trial : store_) {
    EXPECT_TRUE(trial.outcome == Outcome::kMeasured ||
                trial.outcome == Outcome::kScreenedOut ||
                trial.outcome == Outcome::kInterrupted);
    gates += trial.detail == "killed";
    rounds += trial.detail == "killed in a round";
  }
  EXPECT_EQ(gates, std::ssize(interrupted));
  EXPECT_EQ(rounds, executor_->rounds / 50);
  EXPECT_GT(rounds, 0);
}

TEST_F(SessionTest, CircumstancesAreNoReasonToLeaveAKernelOut) {
  // In the first session one is interrupted again and again and one finds no
  // memory; the second session tries both again.
  std::map<std::string, Outcome> unlucky;
  executor_->gate = [&](const TuningConfig& config, int64_t) {
    GateResult result;
    if (unlucky.empty()) {
      unlucky[config.ToString()] = Outcome::kInterrupted;
    } else if (unlucky.size() == 1) {
      unlucky.emplace(config.ToString(), Outcome::kOutOfMemory);
    }
    const auto it = unlucky.find(config.ToString());
    if (it != unlucky.end()) result.outcome = it->second;
    return result;
  };
  MustRun();
  ASSERT_EQ(unlucky.size(), 2u);
  const auto measured = [&](const std::string& config) {
    return std::count_if(store_.begin(), store_.end(), [&](const Trial& trial) {
      return trial.config.ToString() == config && !trial.samples.empty();
    });
  };
  for (const auto& [config, outcome] : unlucky) {
    EXPECT_EQ(measured(config), 0);
  }
  NewExecutor(2);
  MustRun();
  for (const auto& [config, outcome] : unlucky) {
    EXPECT_GT(measured(config), 0) << ToString(outcome);
  }
}

TEST_F(SessionTest, ASharedOrThrottledDeviceGivesNoTable) {
  options_.race.max_disturbed = 2;
  for (const bool shared : {false, true}) {
    NewExecutor(3);
    store_.clear();
    const auto later = [](int round) { return round > 40; };
    if (shared) {
      executor_->foreign = later;
    } else {
      executor_->slowdown = later;
    }
    const absl::StatusOr<SessionResult> result = Run();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable)
        << result.status();
    // What was measured before stays.
    EXPECT_FALSE(store_.empty());
    EXPECT_LE(executor_->rounds, 43);
  }
}

TEST_F(SessionTest, AllCandidatesFailing) {
  compiler_.outcome = [](const TuningConfig&) {
    return Outcome::kCompileError;
  };
  const absl::Status status = Run().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("compile_error"));
}

TEST_F(SessionTest, DefaultsFailingLeavesTheRest) {
  compiler_.outcome = [&](const TuningConfig& config) {
    for (const int64_t m : options_.ladder) {
      if (config == HeuristicDefault(problem_, device_, m)) {
        return Outcome::kCompileTimeout;
      }
    }
    return Outcome::kMeasured;
  };
  EXPECT_TRUE(MustRun().table.Validate().ok());
}

TEST_F(SessionTest, CancelStopsSoonAndKeepsTrials) {
  executor_->after_call = [&] { cancelled_ = executor_->rounds >= 40; };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(executor_->rounds, 40);
  EXPECT_GT(store_.size(), 0u);
}

TEST_F(SessionTest, AnErrorOfTheStoreEndsTheSession) {
  record_status_ = absl::DataLossError("disk full");
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SessionTest, TheBudgetEndsWithTheBestSoFar) {
  options_.budget = absl::Seconds(10);
  executor_->after_call = [&] { now_ += absl::Milliseconds(60); };
  const SessionResult result = MustRun();
  EXPECT_FALSE(result.complete);
  EXPECT_LT(result.elapsed, absl::Seconds(12));
  ExpectSound(result.table);
}

TEST_F(SessionTest, ABudgetTooShortForAnything) {
  options_.budget = absl::Seconds(1);
  executor_->after_call = [&] { now_ += absl::Seconds(2); };
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SessionTest, AKilledSessionResumesWithoutRepeatingATrial) {
  using Key = std::tuple<int64_t, std::string, int>;
  const auto key = [](const Trial& trial) -> Key {
    const Evidences stage = StageOf(trial);
    return {trial.m, trial.compile.kernel_id,
            stage == &PoolKernel::scouted ? 0
            : stage == &PoolKernel::raced ? 1
                                          : 2};
  };
  // Killed wherever: scouting, in the races, between records, confirming.
  for (const int kill_at : {10, 45, 90, 120, 135}) {
    store_.clear();
    now_ = absl::FromUnixSeconds(1700000000);
    NewExecutor(1);
    cancelled_ = false;
    executor_->after_call = [&] { cancelled_ = executor_->rounds >= kill_at; };
    const absl::StatusOr<SessionResult> killed = Run();
    ASSERT_FALSE(killed.ok()) << "not reached: " << kill_at;
    const size_t kept = store_.size();

    cancelled_ = false;
    NewExecutor(2);
    const SessionResult resumed = MustRun();
    ExpectSound(resumed.table);
    EXPECT_EQ(resumed.trials_reused, static_cast<int64_t>(kept));
    std::set<Key> seen;
    for (const Trial& trial : store_) {
      EXPECT_TRUE(seen.insert(key(trial)).second)
          << "measured again: M = " << trial.m << " " << trial.config.ToString()
          << " after a kill at " << kill_at;
    }
    // Once complete, nothing is left to measure.
    const size_t complete = store_.size();
    NewExecutor(3);
    const DispatchTable again = MustRun().table;
    EXPECT_EQ(store_.size(), complete);
    EXPECT_EQ(executor_->rounds, 0);
    EXPECT_EQ(again.entries.size(), resumed.table.entries.size());
  }
}

TEST_F(SessionTest, AFailureToRecordInTheMiddleOfARaceResumes) {
  // As if killed between two records of one race.
  int records = 0;
  SessionHooks hooks;
  hooks.known_trials = [this]() -> absl::StatusOr<std::vector<Trial>> {
    return store_;
  };
  hooks.record_trial = [&](const Trial& trial) -> absl::Status {
    if (++records > 12) return absl::AbortedError("killed");
    store_.push_back(trial);
    return absl::OkStatus();
  };
  hooks.progress = [](const SessionProgress&) {};
  hooks.is_cancelled = [] { return false; };
  EXPECT_EQ(TuningSession(executor_.get(), &compiler_, options_, hooks)
                .Run(problem_)
                .status()
                .code(),
            absl::StatusCode::kAborted);
  NewExecutor(2);
  ExpectSound(MustRun().table);
}

TEST_F(SessionTest, TheIncumbentWinsTies) {
  // Everything takes equally long.
  executor_ = std::make_unique<SimulatedExecutor>(
      device_, [](const TuningConfig&, int64_t m) { return 20000.0 + m; },
      Noise(), 1);
  const DispatchTable first = MustRun().table;
  EXPECT_EQ(first.entries.size(), 1u);
  TuningConfig other;
  for (const Trial& trial : store_) {
    if (trial.config != first.entries[0].config) other = trial.config;
  }
  options_.incumbent = first;
  options_.incumbent->entries[0].config = other;
  options_.session_id = "retune";
  store_.clear();
  const DispatchTable second = MustRun().table;
  ASSERT_EQ(second.entries.size(), 1u);
  EXPECT_EQ(second.entries[0].config, other);
  EXPECT_GT(second.entries[0].evidence[0].ties.size(), 3u);
}

TEST_F(SessionTest, OptionsAreChecked) {
  options_.ladder = {4, 2};
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kInvalidArgument);
  options_.ladder = {0, 1};
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kInvalidArgument);
  options_.ladder = {1};
  options_.max_table_kernels = -1;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kInvalidArgument);
  options_.max_table_kernels = 0;
  options_.max_kernels = 0;
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kInvalidArgument);
  options_.max_kernels = 8;
  options_.budget = absl::ZeroDuration();
  EXPECT_EQ(Run().status().code(), absl::StatusCode::kInvalidArgument);
  options_.budget = absl::Seconds(60);
  problem_.compute.gemm = GemmType::kIndexed;
  EXPECT_FALSE(Run().ok());
}

}  // namespace
}  // namespace hone
