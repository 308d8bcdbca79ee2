// Hone's own kernels: legal configs drawn at random, on ragged shapes, gated
// and timed by the measurer.
#include <algorithm>
#include <cstdlib>
#include <random>

#include "kernels/codegen/codegen.h"
#include "kernels/space/space.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/kernels/format_list.h"
#include "tuner/measure/gpu_measurer.h"

namespace hone {
namespace {

class KernelsGpuTest : public GpuTest {
 protected:
  std::unique_ptr<GpuMeasurer> MakeMeasurer(bool timing) {
    GpuMeasurer::Options options;
    options.timing = timing;
    options.libraries = LibrarySearchFromEnvironment(std::getenv);
    auto measurer = GpuMeasurer::Create(
        options, [](const std::string&, const std::string&) {
          return absl::StatusOr<std::string>(helper_cubin_);
        });
    EXPECT_TRUE(measurer.ok()) << measurer.status();
    return measurer.ok() ? *std::move(measurer) : nullptr;
  }
};

Problem MakeProblem(DataType a, DataType b, int64_t group, bool bias, int64_t n,
                    int64_t k) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.a = a;
  problem.layer.b = b;
  problem.layer.c = a;
  problem.layer.b_scale_type = a;
  problem.layer.b_scale =
      group == 0 ? ScaleGranularity::kChannel : ScaleGranularity::kGroup;
  problem.layer.b_group = group;
  problem.layer.bias = bias;
  return problem;
}

TEST_F(KernelsGpuTest, RandomLegalConfigsAreRightOnRaggedShapes) {
  const auto measurer = MakeMeasurer(/*timing=*/false);
  ASSERT_NE(measurer, nullptr);
  std::mt19937_64 random(7);
  const Problem problems[] = {
      MakeProblem(kFloat16, kInt4, 128, false, 520, 1100),
      MakeProblem(kBfloat16, kInt4, 64, true, 200, 704),
      MakeProblem(kFloat16, kInt4, 0, true, 1000, 520),
      MakeProblem(kBfloat16, kInt8, 0, false, 328, 1000),
      MakeProblem(kFloat16, kInt8, 32, true, 136, 2056),
      MakeProblem(kFloat16, kInt4, 128, false, 1024, 4096)};
  int gates = 0;
  for (const Problem& problem : problems) {
    ASSERT_TRUE(CheckProblem(problem, device_).ok()) << problem.ToString();
    std::vector<TuningConfig> configs = Enumerate(problem, device_, 300);
    ASSERT_FALSE(configs.empty());
    std::shuffle(configs.begin(), configs.end(), random);
    configs.resize(std::min<size_t>(configs.size(), 24));
    for (const int64_t m : {1, 300}) {
      configs.push_back(HeuristicDefault(problem, device_, m));
    }
    const std::vector<BenchKernel> kernels = CompileAll(problem, configs);
    const absl::Status begun = measurer->Begin(problem, 300, 5);
    ASSERT_TRUE(begun.ok()) << begun;
    for (size_t i = 0; i < configs.size(); ++i) {
      ASSERT_TRUE(kernels[i].status.ok())
          << configs[i].ToString() << kernels[i].status;
      const auto index = measurer->Add(configs[i], kernels[i].cubin);
      ASSERT_TRUE(index.ok());
      for (const int64_t m : {1, 7, 16, 33, 130, 257, 300}) {
        const auto result = measurer->Gate(*index, m);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(ToString(result->outcome), "measured")
            << problem.ToString() << "\n"
            << configs[i].ToString() << "\nM = " << m << ": " << result->detail;
        ++gates;
        // A lost context fails everything after it for no reason of its own.
        ASSERT_NE(result->outcome, Outcome::kFault);
      }
    }
  }
  printf("%d gates\n", gates);
}

// What SM75 is given, on whatever device is here: it has those instructions
// too. Every ninth format with a random legal config and a default.
TEST_F(KernelsGpuTest, Sm75KernelsAreRight) {
  const auto measurer = MakeMeasurer(/*timing=*/false);
  ASSERT_NE(measurer, nullptr);
  const DeviceSpec t4 = *ModelledDevice("t4");
  std::mt19937_64 random(13);
  constexpr int64_t kMaxM = 257;
  int gates = 0;
  for (const DataType a : {kFloat16, kInt8, kInt4}) {
    const std::vector<LayerConfig> formats = FormatsOf(a, 1, 1);
    for (size_t f = 0; f < formats.size(); f += 9) {
      Problem problem;
      problem.layer = formats[f];
      problem.layer.n = 1 + static_cast<int64_t>(random() % 700);
      problem.layer.k = 2 * (1 + static_cast<int64_t>(random() % 700));
      problem.layer.bias = random() % 2 == 0;
      ASSERT_TRUE(CheckProblem(problem, t4).ok()) << problem.ToString();
      const std::vector<TuningConfig> all = Enumerate(problem, t4, kMaxM);
      ASSERT_FALSE(all.empty()) << problem.ToString();
      const TuningConfig configs[] = {
          all[random() % all.size()],
          HeuristicDefault(problem, t4, f % 2 == 0 ? 1 : kMaxM)};
      const absl::Status begun = measurer->Begin(problem, kMaxM, 5);
      ASSERT_TRUE(begun.ok()) << begun;
      for (const TuningConfig& config : configs) {
        const auto kernel = RenderKernel(problem, config, t4);
        ASSERT_TRUE(kernel.ok()) << kernel.status();
        const auto cubin =
            compiler_->CompileSource(kernel->source, device_.NvrtcArch());
        ASSERT_TRUE(cubin.ok()) << cubin.status();
        const auto index = measurer->Add(config, *cubin);
        ASSERT_TRUE(index.ok());
        for (const int64_t m :
             {int64_t{1}, 2 + static_cast<int64_t>(random() % 200), kMaxM}) {
          const auto result = measurer->Gate(*index, m);
          ASSERT_TRUE(result.ok()) << result.status();
          EXPECT_EQ(ToString(result->outcome), "measured")
              << problem.ToString() << "\n"
              << config.ToString() << "\nM = " << m << ": " << result->detail;
          ++gates;
          ASSERT_NE(result->outcome, Outcome::kFault);
        }
      }
    }
  }
  printf("%d gates\n", gates);
}

TEST_F(KernelsGpuTest, RoundsGivePlausibleTimes) {
  // The measurer makes the context itself, after CUPTI, as in the worker.
  TearDown();
  const auto measurer = MakeMeasurer(/*timing=*/true);
  ASSERT_NE(measurer, nullptr);
  const Problem problem = MakeProblem(kFloat16, kInt4, 128, false, 8192, 8192);
  const TuningConfig config = HeuristicDefault(problem, device_, 16);
  const std::vector<BenchKernel> kernels = CompileAll(problem, {config});
  ASSERT_TRUE(kernels[0].status.ok()) << kernels[0].status;
  const absl::Status begun = measurer->Begin(problem, 16, 5);
  ASSERT_TRUE(begun.ok()) << begun;
  const auto index = measurer->Add(config, kernels[0].cubin);
  ASSERT_TRUE(index.ok());
  const auto gate = measurer->Gate(*index, 16);
  ASSERT_TRUE(gate.ok()) << gate.status();
  ASSERT_EQ(ToString(gate->outcome), "measured") << gate->detail;
  RoundRequest request;
  request.m = 16;
  request.order = {*index, *index, *index, *index, *index};
  const auto round = measurer->Round(request);
  ASSERT_TRUE(round.ok()) << round.status();
  const double floor = FloorNs(problem, device_, 16);
  for (const RoundResult::Entry& entry : round->entries) {
    EXPECT_EQ(entry.outcome, Outcome::kMeasured) << entry.detail;
    EXPECT_GT(static_cast<double>(entry.sample.duration_ns), 0.8 * floor);
    EXPECT_LT(static_cast<double>(entry.sample.duration_ns), 50 * floor);
    EXPECT_GT(entry.sample.sm_clock_khz, device_.max_clock_khz / 4);
  }
  const auto again = measurer->Gate(*index, 16);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(ToString(again->outcome), "measured") << again->detail;
}

TEST_F(KernelsGpuTest, AnImageTheDriverRefusesIsALaunchError) {
  const auto measurer = MakeMeasurer(/*timing=*/false);
  ASSERT_NE(measurer, nullptr);
  const Problem problem = MakeProblem(kFloat16, kInt4, 128, false, 256, 256);
  ASSERT_TRUE(measurer->Begin(problem, 16, 5).ok());
  const auto index = measurer->Add(HeuristicDefault(problem, device_, 1),
                                   std::string(5000, 'x'));
  ASSERT_TRUE(index.ok());
  const auto gate = measurer->Gate(*index, 1);
  ASSERT_TRUE(gate.ok()) << gate.status();
  EXPECT_EQ(gate->outcome, Outcome::kLaunchError);
  EXPECT_FALSE(measurer->Round({}).ok()) << "gate-only mode cannot time";
}

}  // namespace
}  // namespace hone
