// What clients see when a device goes bad: tunes are refused, lookups go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "service/convert/errors.h"
#include "tests/service/support/test_daemon.h"
#include "tuner/worker/process_executor.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

// Makes kernels of which the fake worker dies once `evil` is set.
class EvilCompiler : public FakeCompiler {
 public:
  explicit EvilCompiler(const bool* evil) : evil_(evil) {}
  absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) override {
    auto compiled = FakeCompiler::Compile(problem, device, config);
    if (compiled.ok()) {
      compiled->candidate.cubin = *evil_ ? "crash" : "good kernel";
    }
    return compiled;
  }

 private:
  const bool* const evil_;
};

v1::Device DeviceOf(TestDaemon& daemon) {
  grpc::ClientContext context;
  v1::GetDeviceResponse response;
  EXPECT_TRUE(daemon.stub()
                  .GetDevice(&context, v1::GetDeviceRequest(), &response)
                  .ok());
  return response.device();
}

TEST(IsolationTest, OfADeviceInQuarantineOnlyLookupsAreAnswered) {
  bool evil = false;
  TempFolder folder;
  const std::string broken = folder / "broken";
  ProcessExecutor::Options worker;
  worker.command = {HONE_FAKE_WORKER, "--sentinel-fails=" + broken};
  auto executor = ProcessExecutor::Create(worker);
  ASSERT_TRUE(executor.ok()) << executor.status();
  DeviceBackend backend;
  backend.device = (*executor)->device();
  backend.executor = *std::move(executor);
  backend.compiler = std::make_unique<EvilCompiler>(&evil);
  backend.uncached = std::make_unique<EvilCompiler>(&evil);
  TestDaemon daemon(std::move(backend));

  const auto tuned =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_TRUE(DeviceOf(daemon).can_tune());

  // The next worker that is lost is the last one.
  evil = true;
  std::ofstream(broken) << "broken";
  for (const int id : {2, 3}) {
    const auto refused =
        daemon.Tune(daemon.TuneRequestFor(SmallProblem(2048), TestId(id)));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ReasonOf(refused.status()), "DEVICE_QUARANTINED");
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("sentinel"));
  }
  EXPECT_FALSE(DeviceOf(daemon).can_tune());
  EXPECT_THAT(DeviceOf(daemon).unavailable(), HasSubstr("quarantine"));

  const auto exact = daemon.GetConfig(SmallProblem(), 16);
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(exact->provenance().match(), v1::MATCH_KIND_EXACT);
  const auto untuned = daemon.GetConfig(SmallProblem(2048), 16);
  ASSERT_TRUE(untuned.ok()) << untuned.status();
  EXPECT_NE(untuned->provenance().match(), v1::MATCH_KIND_EXACT);
  // The crash was the device's: no kernel is blamed for it.
  const auto store =
      Store::Open(daemon.folder() / "db/hone.db", {.read_only = true});
  ASSERT_TRUE(store.ok()) << store.status();
  const auto trials =
      (*store)->KnownTrials(SmallProblem(2048), *daemon.device(), Protocol());
  ASSERT_TRUE(trials.ok()) << trials.status();
  EXPECT_TRUE(trials->empty());
}

TEST(IsolationTest, OfASharedDeviceNothingIsPublished) {
  TestDaemon daemon;
  daemon.executor().foreign = [](int round) { return round > 60; };
  const auto refused =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused.status()), "DEVICE_DISTURBED");
  EXPECT_GT(RetryDelayOf(refused.status()), absl::ZeroDuration());
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("another process (77)"));
  const auto answer = daemon.GetConfig(SmallProblem(), 16);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->provenance().match(), v1::MATCH_KIND_HEURISTIC);
  // Once it is alone, a tune goes on with what was measured.
  daemon.executor().foreign = nullptr;
  const auto tuned =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_GT(tuned->trials_reused(), 0);
}

}  // namespace
}  // namespace hone
