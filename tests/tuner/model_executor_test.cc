#include "tuner/model_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"
#include "tests/tuner/simulated_executor.h"
#include "tuner/analytic_model.h"
#include "tuner/jit_compiler.h"
#include "tuner/session.h"

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

Candidate MakeCandidate(const TuningConfig& config) {
  Candidate candidate;
  candidate.config = config;
  candidate.compile.kernel_id = config.ToString();
  candidate.compile.registers = 96;
  candidate.compile.smem_bytes = 48 << 10;
  return candidate;
}

class ModelExecutorTest : public testing::Test {
 protected:
  const Problem problem_ = W4A16(8192, 8192);
  const DeviceSpec device_ = *ModelledDevice("h200");
  FakeCompiler fake_;
  ModelExecutor executor_{device_, &fake_};

  std::vector<int64_t> Times(uint64_t seed, int32_t round) {
    EXPECT_TRUE(executor_.Begin(problem_, 8192, seed).ok());
    RoundRequest request;
    request.m = 16;
    request.round = round;
    for (const int64_t m : {1, 64, 4096}) {
      request.order.push_back(*executor_.Add(
          MakeCandidate(HeuristicDefault(problem_, device_, m))));
    }
    const absl::StatusOr<RoundResult> result =
        executor_.Round(request, absl::Seconds(1));
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->slowed_down);
    std::vector<int64_t> times;
    for (const RoundResult::Entry& entry : result->entries) {
      EXPECT_EQ(entry.outcome, Outcome::kMeasured);
      EXPECT_EQ(entry.sample.sm_clock_khz, 0);
      times.push_back(entry.sample.duration_ns);
    }
    return times;
  }
};

TEST_F(ModelExecutorTest, SaysThatItIsAModel) {
  EXPECT_TRUE(executor_.device().modelled());
  EXPECT_EQ(executor_.protocol().timer, "model");
}

TEST_F(ModelExecutorTest, TimesAreTheModelsWithALittleJitter) {
  const std::vector<int64_t> times = Times(1, 0);
  const double expected =
      Predict(problem_, device_, HeuristicDefault(problem_, device_, 1), 16,
              {96, 48 << 10, 0})
          .total_ns;
  EXPECT_NEAR(static_cast<double>(times[0]), expected, 0.0025 * expected);
  EXPECT_EQ(times, Times(1, 0));
  EXPECT_NE(times, Times(1, 1));
  EXPECT_NE(times, Times(2, 0));
}

TEST_F(ModelExecutorTest, EveryConfigOfTheSpaceHasASibling) {
  Problem channel = problem_;
  channel.layer.b_scale = ScaleGranularity::kChannel;
  channel.layer.b_group = 0;
  channel.layer.b = kInt8;
  Problem invariant = problem_;
  invariant.compute.batch_invariant = true;
  Problem narrow = invariant;
  narrow.layer.n = 1280;
  narrow.layer.k = 8192;
  Problem bytes = channel;
  bytes.layer.a = bytes.layer.b = *DataType::Parse("float8e4m3");
  bytes.layer.a_scale = InputScale::kToken;
  Problem nibbles = bytes;
  nibbles.layer.a = nibbles.layer.b = *DataType::Parse("int4");
  for (const Problem& problem :
       {problem_, channel, invariant, narrow, bytes, nibbles}) {
    const std::vector<TuningConfig> space = Enumerate(problem, device_, 8192);
    for (size_t i = 0; i < space.size(); i += 53) {
      const absl::StatusOr<Problem> sibling =
          ModelExecutor::SiblingProblem(problem, space[i], device_);
      ASSERT_TRUE(sibling.ok()) << sibling.status();
      EXPECT_NE(sibling->layer.n % space[i].block_n, 0);
      // Clusters share copies of whole segments of 128 bytes.
      if (space[i].cluster_m * space[i].cluster_n == 1 ||
          space[i].block_k > 1024 / problem.layer.a.bits()) {
        EXPECT_NE(sibling->layer.k % space[i].block_k, 0);
      }
      EXPECT_EQ(sibling->layer.b, problem.layer.b);
    }
  }
}

TEST_F(ModelExecutorTest, ASiblingThatDoesNotCompileFailsTheGateOnce) {
  fake_.outcome = [](const TuningConfig&) { return Outcome::kCompileError; };
  ASSERT_TRUE(executor_.Begin(problem_, 8192, 1).ok());
  const int index =
      *executor_.Add(MakeCandidate(HeuristicDefault(problem_, device_, 1)));
  for (const int64_t m : {1, 16, 8192}) {
    const absl::StatusOr<GateResult> result =
        executor_.Gate(index, m, absl::Seconds(5));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->outcome, Outcome::kCompileError);
    EXPECT_THAT(result->detail, testing::HasSubstr("sibling of N = "));
  }
  EXPECT_EQ(fake_.compiles, 1);
}

TEST_F(ModelExecutorTest, RefusesWhatItDoesNotHold) {
  ASSERT_TRUE(executor_.Begin(problem_, 64, 1).ok());
  EXPECT_FALSE(executor_.Gate(0, 1, absl::Seconds(1)).ok());
  RoundRequest request;
  request.m = 1;
  request.order = {0};
  EXPECT_FALSE(executor_.Round(request, absl::Seconds(1)).ok());
  *executor_.Add(MakeCandidate(HeuristicDefault(problem_, device_, 1)));
  EXPECT_FALSE(executor_.Gate(0, 65, absl::Seconds(1)).ok());
  Problem none = problem_;
  none.layer.b = DataType::Float(6, 1);
  EXPECT_EQ(executor_.Begin(none, 64, 1).code(),
            absl::StatusCode::kUnimplemented);
}

// With the real NVRTC and the real emulator.
class ModelledDeviceTest : public ModelExecutorTest {
 protected:
  void SetUp() override {
    absl::StatusOr<std::shared_ptr<const Nvrtc>> nvrtc =
        Nvrtc::Create(LibrarySearchFromEnvironment(
            [](const char* name) -> const char* { return std::getenv(name); }));
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
    compiler_ = std::make_unique<JitCompiler>(
        std::make_shared<Compiler>(*nvrtc, nullptr));
  }
  std::unique_ptr<JitCompiler> compiler_;
};

TEST_F(ModelledDeviceTest, ARealKernelPassesTheEmulatedGate) {
  ModelExecutor executor(device_, compiler_.get());
  ASSERT_TRUE(executor.Begin(problem_, 8192, 1).ok());
  const TuningConfig config = HeuristicDefault(problem_, device_, 16);
  const absl::StatusOr<CompiledCandidate> compiled =
      compiler_->Compile(problem_, device_, config);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->outcome, Outcome::kMeasured) << compiled->detail;
  EXPECT_EQ(compiled->candidate.compile.source_key,
            *compiler_->SourceKey(problem_, device_, config));
  EXPECT_GT(compiled->candidate.compile.registers, 16);
  EXPECT_GE(compiled->candidate.compile.smem_bytes,
            SmemBytes(problem_, config));
  EXPECT_EQ(compiled->candidate.compile.kernel_id.size(), 64u);
  const int index = *executor.Add(compiled->candidate);
  const absl::StatusOr<GateResult> result =
      executor.Gate(index, 16, absl::Seconds(60));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, Outcome::kMeasured) << result->detail;
  EXPECT_EQ(result->gate, GateKind::kEmulated);
  EXPECT_GT(result->error.worst_ratio, 0);
  EXPECT_LE(result->error.worst_ratio, 1);
}

// A real tune of an invariant problem, K split over CTAs.
TEST_F(ModelledDeviceTest, AnInvariantSessionPublishesOneOrder) {
  Problem problem = problem_;
  problem.compute.batch_invariant = true;
  problem.layer.n = 1280;
  problem.layer.k = 4096;
  ModelExecutor executor(device_, compiler_.get());
  SessionOptions options;
  options.ladder = {1, 64, 256};
  options.max_kernels = 5;
  options.max_probes = 0;
  SessionHooks hooks;
  hooks.known_trials = []() -> absl::StatusOr<std::vector<Trial>> {
    return std::vector<Trial>();
  };
  hooks.record_trial = [](const Trial& trial) {
    EXPECT_TRUE(trial.outcome == Outcome::kMeasured ||
                trial.outcome == Outcome::kScreenedOut)
        << trial.detail;
    return absl::OkStatus();
  };
  hooks.progress = [](const SessionProgress&) {};
  hooks.is_cancelled = [] { return false; };
  const absl::StatusOr<SessionResult> result =
      TuningSession(&executor, compiler_.get(), options, hooks).Run(problem);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->table.problem, problem);
  const ReductionOrder order = InvariantOrder(problem, device_);
  EXPECT_EQ(order.split_k, 2);
  EXPECT_TRUE(result->table.Validate().ok());
  for (const TableEntry& entry : result->table.entries) {
    EXPECT_EQ(ReductionOrderOf(entry.config), order);
  }
}

TEST_F(ModelledDeviceTest, ASessionTunesAndSaysEmulated) {
  ModelExecutor executor(device_, compiler_.get());
  SessionOptions options;
  options.session_id = "modelled";
  options.ladder = {1, 64};
  options.max_kernels = 4;
  options.max_probes = 0;
  int64_t trials = 0;
  SessionHooks hooks;
  hooks.known_trials = []() -> absl::StatusOr<std::vector<Trial>> {
    return std::vector<Trial>();
  };
  hooks.record_trial = [&](const Trial& trial) {
    EXPECT_TRUE(trial.outcome == Outcome::kMeasured ||
                trial.outcome == Outcome::kScreenedOut)
        << trial.detail;
    EXPECT_EQ(trial.gate, GateKind::kEmulated);
    ++trials;
    return absl::OkStatus();
  };
  hooks.progress = [](const SessionProgress&) {};
  hooks.is_cancelled = [] { return false; };
  const absl::StatusOr<SessionResult> result =
      TuningSession(&executor, compiler_.get(), options, hooks).Run(problem_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->complete);
  EXPECT_GT(trials, 3);
  EXPECT_TRUE(result->table.Validate().ok());
  EXPECT_EQ(result->table.gate, GateKind::kEmulated);
  EXPECT_EQ(result->table.protocol.timer, "model");
  EXPECT_TRUE(result->table.device.modelled());
}

}  // namespace
}  // namespace hone
