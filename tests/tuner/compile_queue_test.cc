#include "tuner/compile_queue.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "absl/synchronization/notification.h"
#include "tests/tuner/simulated_executor.h"

namespace hone {
namespace {

std::vector<TuningConfig> Configs(int count) {
  std::vector<TuningConfig> configs(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i)
    configs[static_cast<size_t>(i)].stages = i + 2;
  return configs;
}

std::vector<size_t> InOrder(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST(CompileQueueTest, CompilesWhatIsListedAndReportsByIndex) {
  FakeCompiler compiler;
  const std::vector<TuningConfig> configs = Configs(20);
  CompileQueue queue(&compiler, {}, {}, configs, {3, 7, 11});
  std::set<size_t> seen;
  while (seen.size() < 3) {
    std::optional<CompileQueue::Result> result =
        queue.Next(absl::InfiniteDuration());
    ASSERT_TRUE(result.has_value());
    ASSERT_TRUE(result->compiled.ok());
    EXPECT_EQ(result->compiled->candidate.config, configs[result->index]);
    seen.insert(result->index);
  }
  EXPECT_EQ(seen, (std::set<size_t>{3, 7, 11}));
  EXPECT_EQ(compiler.compiles, 3);
  EXPECT_FALSE(queue.Next(absl::Milliseconds(1)).has_value());
}

// Blocks every compile until told.
class StuckCompiler : public FakeCompiler {
 public:
  absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) override {
    absl::StatusOr<CompiledCandidate> result =
        FakeCompiler::Compile(problem, device, config);
    release.WaitForNotification();
    return result;
  }
  absl::Notification release;
};

TEST(CompileQueueTest, EndsWithoutStartingWhatStillWaits) {
  StuckCompiler compiler;
  std::thread releaser;
  {
    CompileQueue queue(&compiler, {}, {}, Configs(50), InOrder(50));
    EXPECT_FALSE(queue.Next(absl::Milliseconds(20)).has_value());
    releaser = std::thread([&] {
      absl::SleepFor(absl::Milliseconds(20));
      compiler.release.Notify();
    });
  }
  releaser.join();
  // One for each thread, and at most one more that a thread took just before.
  EXPECT_LE(compiler.compiles, 4);
}

TEST(CompileQueueTest, NothingToCompile) {
  FakeCompiler compiler;
  CompileQueue queue(&compiler, {}, {}, Configs(2), {});
  EXPECT_FALSE(queue.Next(absl::Milliseconds(1)).has_value());
}

}  // namespace
}  // namespace hone
