// Honed's own tunes while nobody asks for one.
#include "service/server/idle_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "service/server/device_backend.h"
#include "tests/service/support/test_daemon.h"

namespace hone {
namespace {

using ::testing::SizeIs;

TestDaemon::Configure IdleAfter(absl::Duration after) {
  return [after](DaemonOptions& options) {
    options.idle_tune = true;
    options.idle_after = after;
  };
}

std::vector<v1::Tune> Tunes(TestDaemon& daemon) {
  grpc::ClientContext context;
  v1::ListTunesResponse response;
  EXPECT_TRUE(daemon.stub()
                  .ListTunes(&context, v1::ListTunesRequest(), &response)
                  .ok());
  return {response.tunes().begin(), response.tunes().end()};
}

void Report(TestDaemon& daemon, int id, const Problem& problem, int64_t m,
            int64_t calls) {
  v1::ReportTrafficRequest request;
  request.set_report_id(TestId(id));
  v1::ProblemCalls* counts = request.add_problems();
  *counts->mutable_problem() = ToProto(problem);
  counts->add_calls()->set_m(m);
  counts->mutable_calls(0)->set_calls(calls);
  grpc::ClientContext context;
  v1::ReportTrafficResponse response;
  ASSERT_TRUE(daemon.stub().ReportTraffic(&context, request, &response).ok());
}

v1::MatchKind MatchOf(TestDaemon& daemon, const Problem& problem, int64_t m) {
  const auto answer = daemon.GetConfig(problem, m);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer->provenance().match();
}

template <typename Condition>
bool Eventually(const Condition& condition) {
  for (int i = 0; i < 1500; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

TEST(IdleTuner, TunesWhatTakesMostTimeThenTheRest) {
  TestDaemon daemon(IdleAfter(absl::Milliseconds(50)));
  // What only missed comes last.
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(3072), 1).ok());
  daemon.Hold();
  ASSERT_TRUE(daemon.WaitUntilHeld());  // at work on the miss already
  Report(daemon, 1, SmallProblem(1024), 100, 10);
  Report(daemon, 2, SmallProblem(2048), 100, 1000);
  daemon.Release();
  ASSERT_TRUE(Eventually([&] {
    const auto tunes = Tunes(daemon);
    return tunes.size() >= 3 && tunes[0].state() == v1::TUNE_STATE_SUCCEEDED;
  }));
  const auto tunes = Tunes(daemon);
  ASSERT_THAT(tunes, SizeIs(3));
  EXPECT_EQ(tunes[2].problem().layer().n(), 3072);
  EXPECT_EQ(tunes[1].problem().layer().n(), 2048);
  EXPECT_EQ(tunes[0].problem().layer().n(), 1024);
  for (const v1::Tune& tune : tunes) {
    EXPECT_TRUE(tune.idle());
    EXPECT_EQ(tune.callers(), 0);
    EXPECT_EQ(tune.state(), v1::TUNE_STATE_SUCCEEDED);
  }
  // The M that takes the time is a ladder point.
  EXPECT_EQ(MatchOf(daemon, SmallProblem(2048), 100), v1::MATCH_KIND_EXACT);
  // What is fresh is not tuned again.
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_THAT(Tunes(daemon), SizeIs(3));
}

TEST(IdleTuner, YieldsToARequestAndGoesOnLater) {
  TestDaemon daemon(IdleAfter(absl::Milliseconds(50)));
  daemon.Hold(/*calls=*/250);
  Report(daemon, 1, SmallProblem(1024), 16, 1000);
  ASSERT_TRUE(daemon.WaitUntilHeld());
  ASSERT_THAT(Tunes(daemon), SizeIs(1));
  EXPECT_EQ(Tunes(daemon)[0].state(), v1::TUNE_STATE_RUNNING);
  EXPECT_TRUE(Tunes(daemon)[0].idle());

  std::thread release([&] {
    EXPECT_TRUE(Eventually([&] { return Tunes(daemon).size() == 2; }));
    daemon.Release();
  });
  const auto tuned =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(2048), TestId(9)));
  release.join();
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_FALSE(tuned->already_fresh());
  // The idle tune made way in the middle, and then went on with its trials.
  ASSERT_TRUE(Eventually([&] {
    return MatchOf(daemon, SmallProblem(1024), 16) == v1::MATCH_KIND_EXACT;
  }));
  const auto tunes = Tunes(daemon);
  ASSERT_THAT(tunes, SizeIs(3));
  EXPECT_EQ(tunes[2].state(), v1::TUNE_STATE_CANCELLED);
  EXPECT_THAT(tunes[2].error(), testing::HasSubstr("made way"));
  EXPECT_EQ(tunes[1].problem().layer().n(), 2048);
  EXPECT_FALSE(tunes[1].idle());
  EXPECT_EQ(tunes[0].problem().layer().n(), 1024);
  EXPECT_TRUE(tunes[0].idle());
  EXPECT_GT(tunes[0].progress().reused(), 0);
}

TEST(IdleTuner, YieldsToAStudy) {
  TestDaemon daemon(IdleAfter(absl::Milliseconds(50)));
  daemon.Hold();
  Report(daemon, 1, SmallProblem(1024), 16, 1000);
  ASSERT_TRUE(daemon.WaitUntilHeld());
  const auto studies = v1::StudyService::NewStub(daemon.Channel());
  grpc::ClientContext context;
  v1::SuggestRequest request;
  request.set_study_id(TestId(1));
  v1::SuggestResponse response;
  // Whether there is such a study is another matter.
  studies->Suggest(&context, request, &response);
  daemon.Release();
  ASSERT_TRUE(Eventually([&] {
    return Tunes(daemon).back().state() == v1::TUNE_STATE_CANCELLED;
  }));
  EXPECT_THAT(Tunes(daemon).back().error(), testing::HasSubstr("made way"));
}

TEST(IdleTuner, DoesNothingUnlessAsked) {
  TestDaemon daemon;
  Report(daemon, 1, SmallProblem(1024), 16, 1000);
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_THAT(Tunes(daemon), SizeIs(0));
}

TEST(IdleTuner, LeavesASharedDeviceAloneAfterOneRound) {
  TestDaemon daemon(IdleAfter(absl::Milliseconds(50)));
  daemon.executor().foreign = [](int) { return true; };
  Report(daemon, 1, SmallProblem(1024), 16, 1000);
  Report(daemon, 2, SmallProblem(2048), 16, 1000);
  ASSERT_TRUE(Eventually([&] {
    const auto tunes = Tunes(daemon);
    return !tunes.empty() && tunes[0].state() == v1::TUNE_STATE_FAILED;
  }));
  absl::SleepFor(absl::Milliseconds(300));
  // Not another one, of this problem or the other.
  EXPECT_THAT(Tunes(daemon), SizeIs(1));
  EXPECT_EQ(daemon.executor().rounds, 1);
}

TEST(IdleTuner, LeavesAProblemAloneThatSomebodyCancelled) {
  TestDaemon daemon(IdleAfter(absl::Milliseconds(50)));
  daemon.Hold();
  Report(daemon, 1, SmallProblem(1024), 16, 1000);
  ASSERT_TRUE(daemon.WaitUntilHeld());
  grpc::ClientContext context;
  v1::CancelTuneRequest request;
  request.set_tune_id(Tunes(daemon)[0].tune_id());
  v1::CancelTuneResponse response;
  ASSERT_TRUE(daemon.stub().CancelTune(&context, request, &response).ok());
  daemon.Release();
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_THAT(Tunes(daemon), SizeIs(1));
  EXPECT_EQ(Tunes(daemon)[0].state(), v1::TUNE_STATE_CANCELLED);
}

// With real compiles. The idle tune must have made way, not merely have been
// short; the time holds on a machine that does not build meanwhile.
TEST(IdleTuner, OnAModelledDeviceMakesWayForARequest) {
  const auto env = [](const char*) -> const char* { return nullptr; };
  TempFolder cache;
  DeviceOptions device;
  device.device = "model:h200";
  device.cache_folder = cache / "cubins";
  device.compiler = HONE_COMPILER;
  absl::StatusOr<DeviceBackend> backend = OpenDevice(device, env);
  ASSERT_TRUE(backend.ok()) << backend.status();
  ASSERT_TRUE(backend->can_tune.ok()) << backend->can_tune;
  TestDaemon daemon(*std::move(backend), IdleAfter(absl::Milliseconds(50)));
  const Problem problem = SmallProblem(256, 256);
  Report(daemon, 1, problem, 16, 1000);
  ASSERT_TRUE(Eventually([&] {
    const auto tunes = Tunes(daemon);
    return !tunes.empty() && tunes[0].progress().compiled() > 0;
  }));
  v1::TuneLayerRequest request =
      daemon.TuneRequestFor(SmallProblem(512, 256), TestId(9));
  request.set_detached(true);
  const absl::Time start = absl::Now();
  grpc::ClientContext context;
  const auto reader = daemon.stub().TuneLayer(&context, request);
  v1::TuneLayerResponse message;
  absl::Duration latency = absl::InfiniteDuration();
  while (reader->Read(&message)) {
    if (!message.has_progress() ||
        message.progress().phase() == v1::TUNE_PHASE_QUEUED)
      continue;
    latency = absl::Now() - start;
    context.TryCancel();
    break;
  }
  reader->Finish();
  RecordProperty("latency_ms",
                 static_cast<int>(absl::ToInt64Milliseconds(latency)));
  EXPECT_LT(latency, absl::Seconds(5));
  const auto tunes = Tunes(daemon);
  const auto idle = std::find_if(tunes.begin(), tunes.end(),
                                 [](const auto& tune) { return tune.idle(); });
  ASSERT_NE(idle, tunes.end());
  EXPECT_EQ(idle->state(), v1::TUNE_STATE_CANCELLED);
}

}  // namespace
}  // namespace hone
