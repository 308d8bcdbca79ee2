#include "absl/synchronization/notification.h"
// The service over real gRPC and SQLite, with a simulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/service/support/test_daemon.h"
namespace hone {
#include "absl/synchronization/notification.h"
namespace {
#include "absl/synchronization/notification.h"
using ::testing::Contains;
#include "absl/synchronization/notification.h"
using ::testing::ElementsAre;
#include "absl/synchronization/notification.h"
using ::testing::HasSubstr;
#include "absl/synchronization/notification.h"
using ::testing::IsEmpty;
#include "absl/synchronization/notification.h"
using ::testing::SizeIs;
#include "absl/synchronization/notification.h"
std::string ExportAll(v1::TuningService::Stub& stub, absl::Status* status) {
#include "absl/synchronization/notification.h"
  grpc::ClientContext context;
#include "absl/synchronization/notification.h"
  const auto reader = stub.Export(&context, v1::ExportRequest());
#include "absl/synchronization/notification.h"
  std::string bundle;
#include "absl/synchronization/notification.h"
  v1::ExportResponse message;
#include "absl/synchronization/notification.h"
  while (reader->Read(&message)) bundle += message.chunk();
#include "absl/synchronization/notification.h"
  *status = FromGrpcStatus(reader->Finish());
#include "absl/synchronization/notification.h"
  return bundle;
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
absl::StatusOr<v1::ImportResponse> ImportText(v1::TuningService::Stub& stub,
#include "absl/synchronization/notification.h"
                                              const std::string& text) {
#include "absl/synchronization/notification.h"
  grpc::ClientContext context;
#include "absl/synchronization/notification.h"
  v1::ImportResponse response;
#include "absl/synchronization/notification.h"
  const auto writer = stub.Import(&context, &response);
#include "absl/synchronization/notification.h"
  v1::ImportRequest message;
#include "absl/synchronization/notification.h"
  for (size_t at = 0; at < text.size(); at += 100'000) {
#include "absl/synchronization/notification.h"
    message.set_chunk(text.substr(at, 100'000));
#include "absl/synchronization/notification.h"
    if (!writer->Write(message)) break;
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  writer->WritesDone();
#include "absl/synchronization/notification.h"
  const absl::Status status = FromGrpcStatus(writer->Finish());
#include "absl/synchronization/notification.h"
  if (!status.ok()) return status;
#include "absl/synchronization/notification.h"
  return response;
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, BeforeAnythingIsTunedTheHeuristicAnswers) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  const auto answer = daemon.GetConfig(SmallProblem(), 5);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(answer.ok()) << answer.status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(answer->provenance().match(), v1::MATCH_KIND_HEURISTIC);
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(answer->provenance().verified());
#include "absl/synchronization/notification.h"
  EXPECT_EQ(answer->provenance().gate(), v1::GATE_KIND_NONE);
#include "absl/synchronization/notification.h"
  EXPECT_THAT(answer->evidence(), IsEmpty());
#include "absl/synchronization/notification.h"
  EXPECT_EQ(answer->config().text(),
#include "absl/synchronization/notification.h"
            HeuristicDefault(SmallProblem(), TestGpu(), 8).ToString());
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, ATunedLayerIsServedWithItsEvidence) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  int progress = 0;
#include "absl/synchronization/notification.h"
  const auto result =
#include "absl/synchronization/notification.h"
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)), &progress);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(result.ok()) << result.status();
#include "absl/synchronization/notification.h"
  EXPECT_GT(progress, 0);
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(result->already_fresh());
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(result->complete());
#include "absl/synchronization/notification.h"
  EXPECT_GT(result->trials_recorded(), 6);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(result->provenance().match(), v1::MATCH_KIND_EXACT);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(result->provenance().revision(), 1);
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(result->provenance().verified());
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(result->provenance().modelled());
#include "absl/synchronization/notification.h"
  const auto exact = daemon.GetConfig(SmallProblem(), 16);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(exact.ok()) << exact.status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(exact->provenance().match(), v1::MATCH_KIND_EXACT);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(exact->provenance().gate(), v1::GATE_KIND_DEVICE);
#include "absl/synchronization/notification.h"
  ASSERT_THAT(exact->evidence(), SizeIs(1));
#include "absl/synchronization/notification.h"
  EXPECT_EQ(exact->evidence(0).m(), 16);
#include "absl/synchronization/notification.h"
  EXPECT_GT(exact->evidence(0).samples(), 0);
#include "absl/synchronization/notification.h"
  EXPECT_GT(exact->evidence(0).floor_ns(), 0);
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(exact->compile().kernel_id().empty());
#include "absl/synchronization/notification.h"
  const auto bucket = daemon.GetConfig(SmallProblem(), 15);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(bucket.ok()) << bucket.status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(bucket->provenance().match(), v1::MATCH_KIND_BUCKET);
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(bucket->evidence().empty());
#include "absl/synchronization/notification.h"
  const auto neighbour = daemon.GetConfig(SmallProblem(1024, 2048), 16);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(neighbour.ok()) << neighbour.status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(neighbour->provenance().match(), v1::MATCH_KIND_NEIGHBOUR);
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(neighbour->provenance().verified());
#include "absl/synchronization/notification.h"
  EXPECT_EQ(neighbour->provenance().matched_problem(),
#include "absl/synchronization/notification.h"
            SmallProblem().ToString());
#include "absl/synchronization/notification.h"
  EXPECT_EQ(neighbour->compile().kernel_id(), "");
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, AFreshTableAnswersATuneWithoutMeasuring) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(
#include "absl/synchronization/notification.h"
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
#include "absl/synchronization/notification.h"
  const int rounds = daemon.executor().rounds;
#include "absl/synchronization/notification.h"
  const auto again =
#include "absl/synchronization/notification.h"
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)));
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(again.ok()) << again.status();
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(again->already_fresh());
#include "absl/synchronization/notification.h"
  EXPECT_EQ(daemon.executor().rounds, rounds);
#include "absl/synchronization/notification.h"
  v1::TuneLayerRequest retune =
#include "absl/synchronization/notification.h"
      daemon.TuneRequestFor(SmallProblem(), TestId(3));
#include "absl/synchronization/notification.h"
  retune.set_retune(true);
#include "absl/synchronization/notification.h"
  const auto measured = daemon.Tune(retune);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(measured.ok()) << measured.status();
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(measured->already_fresh());
#include "absl/synchronization/notification.h"
  EXPECT_GT(measured->trials_reused(), 0);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(measured->provenance().revision(), 2);
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, TheSameRequestIdGetsTheFirstAnswer) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  const auto request = daemon.TuneRequestFor(SmallProblem(), TestId(1));
#include "absl/synchronization/notification.h"
  const auto first = daemon.Tune(request);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(first.ok()) << first.status();
#include "absl/synchronization/notification.h"
  bool joined = false;
#include "absl/synchronization/notification.h"
  const auto second = daemon.Tune(request, nullptr, &joined);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(second.ok()) << second.status();
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(joined);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(second->SerializeAsString(), first->SerializeAsString());
#include "absl/synchronization/notification.h"
  auto other = request;
#include "absl/synchronization/notification.h"
  other.set_max_kernels(7);
#include "absl/synchronization/notification.h"
  const auto reused = daemon.Tune(other);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(reused.status().code(), absl::StatusCode::kInvalidArgument);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(reused.status()), "REQUEST_ID_REUSED");
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ViolationsOf(reused.status())[0].field, "request_id");
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, EqualRequestsInFlightShareOneJob) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  daemon.Hold();
#include "absl/synchronization/notification.h"
  bool joined[2] = {};
#include "absl/synchronization/notification.h"
  absl::StatusOr<v1::TuneResult> results[2];
#include "absl/synchronization/notification.h"
  std::thread first([&] {
#include "absl/synchronization/notification.h"
    results[0] = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)),
#include "absl/synchronization/notification.h"
                             nullptr, &joined[0]);
#include "absl/synchronization/notification.h"
  });
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(daemon.WaitUntilHeld());
#include "absl/synchronization/notification.h"
  std::thread second([&] {
#include "absl/synchronization/notification.h"
    results[1] = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)),
#include "absl/synchronization/notification.h"
                             nullptr, &joined[1]);
#include "absl/synchronization/notification.h"
  });
#include "absl/synchronization/notification.h"
  v1::ListTunesResponse tunes;
#include "absl/synchronization/notification.h"
  for (int i = 0; i < 200; ++i) {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(
#include "absl/synchronization/notification.h"
        daemon.stub().ListTunes(&context, v1::ListTunesRequest(), &tunes).ok());
#include "absl/synchronization/notification.h"
    if (tunes.tunes(0).callers() == 2) break;
#include "absl/synchronization/notification.h"
    absl::SleepFor(absl::Milliseconds(10));
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  ASSERT_THAT(tunes.tunes(), SizeIs(1));
#include "absl/synchronization/notification.h"
  EXPECT_EQ(tunes.tunes(0).callers(), 2);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(tunes.tunes(0).state(), v1::TUNE_STATE_RUNNING);
#include "absl/synchronization/notification.h"
  // Lookups go on while the device is busy.
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(daemon.GetConfig(SmallProblem(), 1).ok());
#include "absl/synchronization/notification.h"
  daemon.Release();
#include "absl/synchronization/notification.h"
  first.join();
#include "absl/synchronization/notification.h"
  second.join();
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(results[0].ok()) << results[0].status();
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(results[1].ok()) << results[1].status();
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(joined[0]);
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(joined[1]);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(results[0]->SerializeAsString(), results[1]->SerializeAsString());
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, AJobOutlivesACallerAsLongAsAnotherIsThere) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  daemon.Hold();
#include "absl/synchronization/notification.h"
  grpc::ClientContext leaving;
#include "absl/synchronization/notification.h"
  const auto reader = daemon.stub().TuneLayer(
#include "absl/synchronization/notification.h"
      &leaving, daemon.TuneRequestFor(SmallProblem(), TestId(1)));
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(daemon.WaitUntilHeld());
#include "absl/synchronization/notification.h"
  absl::StatusOr<v1::TuneResult> result;
#include "absl/synchronization/notification.h"
  bool joined = false;
#include "absl/synchronization/notification.h"
  std::thread staying([&] {
#include "absl/synchronization/notification.h"
    result = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)),
#include "absl/synchronization/notification.h"
                         nullptr, &joined);
#include "absl/synchronization/notification.h"
  });
#include "absl/synchronization/notification.h"
  absl::SleepFor(absl::Milliseconds(300));
#include "absl/synchronization/notification.h"
  leaving.TryCancel();
#include "absl/synchronization/notification.h"
  reader->Finish();
#include "absl/synchronization/notification.h"
  absl::SleepFor(absl::Milliseconds(300));
#include "absl/synchronization/notification.h"
  daemon.Release();
#include "absl/synchronization/notification.h"
  staying.join();
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(joined);
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(result.ok()) << result.status();
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, TheLastCallerToLeaveCancelsTheJobAndItsTrialsAreKept) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    const auto reader = daemon.stub().TuneLayer(
#include "absl/synchronization/notification.h"
        &context, daemon.TuneRequestFor(SmallProblem(), TestId(1)));
#include "absl/synchronization/notification.h"
    v1::TuneLayerResponse message;
#include "absl/synchronization/notification.h"
    // Leave once something was recorded.
#include "absl/synchronization/notification.h"
    while (reader->Read(&message)) {
#include "absl/synchronization/notification.h"
      if (message.progress().trials() > 0) {
#include "absl/synchronization/notification.h"
        daemon.Hold();
#include "absl/synchronization/notification.h"
        break;
#include "absl/synchronization/notification.h"
      }
#include "absl/synchronization/notification.h"
    }
#include "absl/synchronization/notification.h"
    context.TryCancel();
#include "absl/synchronization/notification.h"
    reader->Finish();
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  absl::SleepFor(absl::Milliseconds(300));
#include "absl/synchronization/notification.h"
  daemon.Release();
#include "absl/synchronization/notification.h"
  v1::ListTunesResponse tunes;
#include "absl/synchronization/notification.h"
  for (int i = 0; i < 500; ++i) {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(
#include "absl/synchronization/notification.h"
        daemon.stub().ListTunes(&context, v1::ListTunesRequest(), &tunes).ok());
#include "absl/synchronization/notification.h"
    if (tunes.tunes(0).state() != v1::TUNE_STATE_RUNNING) break;
#include "absl/synchronization/notification.h"
    absl::SleepFor(absl::Milliseconds(10));
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  if (tunes.tunes(0).state() == v1::TUNE_STATE_SUCCEEDED)
#include "absl/synchronization/notification.h"
    GTEST_SKIP() << "the simulated tune ended before its caller left";
#include "absl/synchronization/notification.h"
  EXPECT_EQ(tunes.tunes(0).state(), v1::TUNE_STATE_CANCELLED);
#include "absl/synchronization/notification.h"
  EXPECT_THAT(tunes.tunes(0).error(), HasSubstr("last caller left"));
#include "absl/synchronization/notification.h"
  const auto resumed =
#include "absl/synchronization/notification.h"
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)));
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(resumed.ok()) << resumed.status();
#include "absl/synchronization/notification.h"
  EXPECT_GT(resumed->trials_reused(), 0);
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, CancelEndsAJobForItsCaller) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  daemon.Hold();
#include "absl/synchronization/notification.h"
  absl::StatusOr<v1::TuneResult> result;
#include "absl/synchronization/notification.h"
  std::thread caller([&] {
#include "absl/synchronization/notification.h"
    result = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
#include "absl/synchronization/notification.h"
  });
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(daemon.WaitUntilHeld());
#include "absl/synchronization/notification.h"
  v1::CancelTuneRequest request;
#include "absl/synchronization/notification.h"
  request.set_tune_id(TestId(1));
#include "absl/synchronization/notification.h"
  v1::CancelTuneResponse response;
#include "absl/synchronization/notification.h"
  {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(daemon.stub().CancelTune(&context, request, &response).ok());
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(response.cancelled());
#include "absl/synchronization/notification.h"
  daemon.Release();
#include "absl/synchronization/notification.h"
  caller.join();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(result.status()), "TUNE_CANCELLED");
#include "absl/synchronization/notification.h"
  {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(daemon.stub().CancelTune(&context, request, &response).ok());
#include "absl/synchronization/notification.h"
    EXPECT_FALSE(response.cancelled());
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  request.set_tune_id("nobody");
#include "absl/synchronization/notification.h"
  grpc::ClientContext context;
#include "absl/synchronization/notification.h"
  const absl::Status missing =
#include "absl/synchronization/notification.h"
      FromGrpcStatus(daemon.stub().CancelTune(&context, request, &response));
#include "absl/synchronization/notification.h"
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(missing), "TUNE_NOT_FOUND");
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, AFullQueueSaysWhenToRetry) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon(true, 1);
#include "absl/synchronization/notification.h"
  daemon.Hold();
#include "absl/synchronization/notification.h"
  std::vector<std::thread> callers;
#include "absl/synchronization/notification.h"
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
#include "absl/synchronization/notification.h"
  // The second caller fills the queue only once it was accepted.
#include "absl/synchronization/notification.h"
  absl::Notification queued;
#include "absl/synchronization/notification.h"
  for (int i = 0; i < 2; ++i) {
#include "absl/synchronization/notification.h"
    contexts.push_back(std::make_unique<grpc::ClientContext>());
#include "absl/synchronization/notification.h"
    callers.emplace_back([&, i] {
#include "absl/synchronization/notification.h"
      const auto reader = daemon.stub().TuneLayer(
#include "absl/synchronization/notification.h"
          contexts[i].get(),
#include "absl/synchronization/notification.h"
          daemon.TuneRequestFor(SmallProblem(1024 << i), TestId(i)));
#include "absl/synchronization/notification.h"
      v1::TuneLayerResponse message;
#include "absl/synchronization/notification.h"
      while (reader->Read(&message)) {
#include "absl/synchronization/notification.h"
        if (i == 1 && message.has_accepted()) queued.Notify();
#include "absl/synchronization/notification.h"
      }
#include "absl/synchronization/notification.h"
      reader->Finish();
#include "absl/synchronization/notification.h"
    });
#include "absl/synchronization/notification.h"
    if (i == 0) {
#include "absl/synchronization/notification.h"
      ASSERT_TRUE(daemon.WaitUntilHeld());
#include "absl/synchronization/notification.h"
    }
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(queued.WaitForNotificationWithTimeout(absl::Seconds(20)));
#include "absl/synchronization/notification.h"
  absl::Status full;
#include "absl/synchronization/notification.h"
  for (int i = 0; i < 100 && !absl::IsResourceExhausted(full); ++i) {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    context.set_deadline(
#include "absl/synchronization/notification.h"
        absl::ToChronoTime(absl::Now() + absl::Milliseconds(200)));
#include "absl/synchronization/notification.h"
    const auto reader = daemon.stub().TuneLayer(
#include "absl/synchronization/notification.h"
        &context, daemon.TuneRequestFor(SmallProblem(512), TestId(100 + i)));
#include "absl/synchronization/notification.h"
    v1::TuneLayerResponse message;
#include "absl/synchronization/notification.h"
    while (reader->Read(&message)) {
#include "absl/synchronization/notification.h"
    }
#include "absl/synchronization/notification.h"
    full = FromGrpcStatus(reader->Finish());
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(full), "QUEUE_FULL");
#include "absl/synchronization/notification.h"
  EXPECT_GT(RetryDelayOf(full), absl::ZeroDuration());
#include "absl/synchronization/notification.h"
  for (const auto& context : contexts) context->TryCancel();
#include "absl/synchronization/notification.h"
  daemon.Release();
#include "absl/synchronization/notification.h"
  for (std::thread& caller : callers) caller.join();
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, ExportedTablesAnswerUnverifiedAfterImport) {
#include "absl/synchronization/notification.h"
  TestDaemon from;
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(from.Tune(from.TuneRequestFor(SmallProblem(), TestId(1))).ok());
#include "absl/synchronization/notification.h"
  absl::Status status;
#include "absl/synchronization/notification.h"
  const std::string bundle = ExportAll(from.stub(), &status);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(status.ok()) << status;
#include "absl/synchronization/notification.h"
  TestDaemon to;
#include "absl/synchronization/notification.h"
  const auto imported = ImportText(to.stub(), bundle);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(imported.ok()) << imported.status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(imported->tables_added(), 1);
#include "absl/synchronization/notification.h"
  const auto answer = to.GetConfig(SmallProblem(), 16);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(answer.ok()) << answer.status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(answer->provenance().match(), v1::MATCH_KIND_EXACT);
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(answer->provenance().verified());
#include "absl/synchronization/notification.h"
  EXPECT_THAT(answer->provenance().notes(),
#include "absl/synchronization/notification.h"
              Contains("imported and not verified on this device"));
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ExportAll(to.stub(), &status), bundle);
#include "absl/synchronization/notification.h"
  const auto again = ImportText(to.stub(), bundle);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(again.ok()) << again.status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(again->tables_added(), 0);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(again->tables_known(), 1);
#include "absl/synchronization/notification.h"
  // Tuning here makes it verified.
#include "absl/synchronization/notification.h"
  const auto tuned = to.Tune(to.TuneRequestFor(SmallProblem(), TestId(2)));
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(tuned.ok()) << tuned.status();
#include "absl/synchronization/notification.h"
  EXPECT_FALSE(tuned->already_fresh());
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(to.GetConfig(SmallProblem(), 16)->provenance().verified());
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, BadBundlesAreRefusedWithTheReason) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  const auto bad = ImportText(daemon.stub(), "{\"not\":\"a bundle\"}\n");
#include "absl/synchronization/notification.h"
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(bad.status()), "BAD_BUNDLE");
#include "absl/synchronization/notification.h"
  absl::Status status;
#include "absl/synchronization/notification.h"
  ExportAll(daemon.stub(), &status);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(status), "TABLE_NOT_FOUND");
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, APinnedRevisionKeepsItsAnswer) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(
#include "absl/synchronization/notification.h"
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(
#include "absl/synchronization/notification.h"
      daemon
          .Tune(daemon.TuneRequestFor(SmallProblem(1024, 2048), TestId(2)))
#include "absl/synchronization/notification.h"
          .ok());
#include "absl/synchronization/notification.h"
  const auto newest = daemon.GetConfig(SmallProblem(1024, 2048), 16);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(newest->provenance().match(), v1::MATCH_KIND_EXACT);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(newest->provenance().revision(), 2);
#include "absl/synchronization/notification.h"
  const auto pinned = daemon.GetConfig(SmallProblem(1024, 2048), 16, 1);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(pinned.ok()) << pinned.status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(pinned->provenance().match(), v1::MATCH_KIND_NEIGHBOUR);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(pinned->provenance().revision(), 1);
#include "absl/synchronization/notification.h"
  const auto missing = daemon.GetConfig(SmallProblem(), 16, 9);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(missing.status()), "REVISION_NOT_FOUND");
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, TablesAreListedInPages) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  for (int i = 0; i < 3; ++i) {
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(
#include "absl/synchronization/notification.h"
        daemon
            .Tune(daemon.TuneRequestFor(SmallProblem(512 << i), TestId(i)))
#include "absl/synchronization/notification.h"
            .ok());
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  v1::ListTablesRequest request;
#include "absl/synchronization/notification.h"
  request.set_page_size(2);
#include "absl/synchronization/notification.h"
  v1::ListTablesResponse first, second;
#include "absl/synchronization/notification.h"
  {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(daemon.stub().ListTables(&context, request, &first).ok());
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  ASSERT_THAT(first.tables(), SizeIs(2));
#include "absl/synchronization/notification.h"
  // A table published meanwhile does not shift the walk.
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(
#include "absl/synchronization/notification.h"
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(256), TestId(9))).ok());
#include "absl/synchronization/notification.h"
  request.set_page_token(first.next_page_token());
#include "absl/synchronization/notification.h"
  {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(daemon.stub().ListTables(&context, request, &second).ok());
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  ASSERT_THAT(second.tables(), SizeIs(1));
#include "absl/synchronization/notification.h"
  EXPECT_EQ(second.next_page_token(), "");
#include "absl/synchronization/notification.h"
  EXPECT_EQ(second.revision(), first.revision());
#include "absl/synchronization/notification.h"
  request.set_page_token("rubbish");
#include "absl/synchronization/notification.h"
  grpc::ClientContext context;
#include "absl/synchronization/notification.h"
  const absl::Status bad =
#include "absl/synchronization/notification.h"
      FromGrpcStatus(daemon.stub().ListTables(&context, request, &second));
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ViolationsOf(bad)[0].field, "page_token");
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, BadRequestsNameTheirFields) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  v1::TuneLayerRequest request =
#include "absl/synchronization/notification.h"
      daemon.TuneRequestFor(SmallProblem(), "not a uuid");
#include "absl/synchronization/notification.h"
  request.set_max_kernels(1000);
#include "absl/synchronization/notification.h"
  request.add_ladder(2);
#include "absl/synchronization/notification.h"
  request.mutable_budget()->set_nanos(5);
#include "absl/synchronization/notification.h"
  request.mutable_problem()->mutable_layer()->set_b_group(48);
#include "absl/synchronization/notification.h"
  const absl::Status status = daemon.Tune(request).status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
#include "absl/synchronization/notification.h"
  std::vector<std::string> fields;
#include "absl/synchronization/notification.h"
  for (const FieldViolation& v : ViolationsOf(status))
#include "absl/synchronization/notification.h"
    fields.push_back(v.field);
#include "absl/synchronization/notification.h"
  EXPECT_THAT(fields, ElementsAre("request_id", "ladder[3]", "max_kernels",
#include "absl/synchronization/notification.h"
                                  "budget", "problem.layer.b_group"));
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ViolationsOf(daemon.GetConfig(SmallProblem(), 0).status())[0].field,
#include "absl/synchronization/notification.h"
            "m");
#include "absl/synchronization/notification.h"
  Problem no_kernel = SmallProblem();
#include "absl/synchronization/notification.h"
  no_kernel.layer.a = kFloat8e4m3;
#include "absl/synchronization/notification.h"
  const absl::Status unimplemented = daemon.GetConfig(no_kernel, 1).status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(unimplemented.code(), absl::StatusCode::kUnimplemented);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(unimplemented), "NO_KERNEL");
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, RequestsOverOneMebibyteAreRefused) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  v1::CancelTuneRequest request;
#include "absl/synchronization/notification.h"
  request.set_tune_id(std::string(2 << 20, 'x'));
#include "absl/synchronization/notification.h"
  v1::CancelTuneResponse response;
#include "absl/synchronization/notification.h"
  grpc::ClientContext context;
#include "absl/synchronization/notification.h"
  EXPECT_EQ(daemon.stub().CancelTune(&context, request, &response).error_code(),
#include "absl/synchronization/notification.h"
            grpc::StatusCode::RESOURCE_EXHAUSTED);
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(daemon.GetConfig(SmallProblem(), 1).ok());
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, WithoutADeviceLookupsWorkForTheDeviceThatIsNamed) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon(false);
#include "absl/synchronization/notification.h"
  const absl::Status tune =
#include "absl/synchronization/notification.h"
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).status();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(tune.code(), absl::StatusCode::kFailedPrecondition);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(tune), "NO_DEVICE");
#include "absl/synchronization/notification.h"
  EXPECT_THAT(std::string(tune.message()), HasSubstr("no CUDA driver"));
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(daemon.GetConfig(SmallProblem(), 1).status()),
#include "absl/synchronization/notification.h"
            "NO_DEVICE");
#include "absl/synchronization/notification.h"
  v1::GetTableRequest request;
#include "absl/synchronization/notification.h"
  *request.mutable_problem() = ToProto(SmallProblem());
#include "absl/synchronization/notification.h"
  *request.mutable_device() = ToProto(TestGpu());
#include "absl/synchronization/notification.h"
  v1::GetTableResponse response;
#include "absl/synchronization/notification.h"
  grpc::ClientContext context;
#include "absl/synchronization/notification.h"
  const absl::Status got =
#include "absl/synchronization/notification.h"
      FromGrpcStatus(daemon.stub().GetTable(&context, request, &response));
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(got.ok()) << got;
#include "absl/synchronization/notification.h"
  EXPECT_EQ(response.provenance().match(), v1::MATCH_KIND_HEURISTIC);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(
#include "absl/synchronization/notification.h"
      response.table().entries(response.table().entries_size() - 1).m_hi(), 0);
#include "absl/synchronization/notification.h"
  v1::ListDevicesResponse devices;
#include "absl/synchronization/notification.h"
  grpc::ClientContext list;
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(daemon
                  .stub()
#include "absl/synchronization/notification.h"
                  .ListDevices(&list, v1::ListDevicesRequest(), &devices)
#include "absl/synchronization/notification.h"
                  .ok());
#include "absl/synchronization/notification.h"
  EXPECT_THAT(devices.devices(), IsEmpty());
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, TellsItsDevice) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  v1::GetDeviceResponse response;
#include "absl/synchronization/notification.h"
  {
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(daemon
                    .stub()
#include "absl/synchronization/notification.h"
                    .GetDevice(&context, v1::GetDeviceRequest(), &response)
#include "absl/synchronization/notification.h"
                    .ok());
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  EXPECT_EQ(response.device().spec().uuid(), "GPU-test");
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(response.device().can_tune());
#include "absl/synchronization/notification.h"
  EXPECT_EQ(response.source_closure().size(), 64u);
#include "absl/synchronization/notification.h"
  v1::GetDeviceRequest other;
#include "absl/synchronization/notification.h"
  other.set_uuid("GPU-other");
#include "absl/synchronization/notification.h"
  grpc::ClientContext context;
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(FromGrpcStatus(
#include "absl/synchronization/notification.h"
                daemon.stub().GetDevice(&context, other, &response))),
#include "absl/synchronization/notification.h"
            "DEVICE_NOT_FOUND");
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, HealthSaysServing) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  const auto stub = grpc::health::v1::Health::NewStub(daemon.Channel());
#include "absl/synchronization/notification.h"
  for (const char* service : {"", "hone.v1.TuningService"}) {
#include "absl/synchronization/notification.h"
    grpc::health::v1::HealthCheckRequest request;
#include "absl/synchronization/notification.h"
    request.set_service(service);
#include "absl/synchronization/notification.h"
    grpc::health::v1::HealthCheckResponse response;
#include "absl/synchronization/notification.h"
    grpc::ClientContext context;
#include "absl/synchronization/notification.h"
    const grpc::Status status = stub->Check(&context, request, &response);
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(status.ok()) << status.error_message();
#include "absl/synchronization/notification.h"
    EXPECT_EQ(response.status(),
#include "absl/synchronization/notification.h"
              grpc::health::v1::HealthCheckResponse::SERVING);
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, DrainingEndsTunesAndKeepsWhatTheyMeasured) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  daemon.Hold();
#include "absl/synchronization/notification.h"
  absl::StatusOr<v1::TuneResult> result;
#include "absl/synchronization/notification.h"
  std::thread caller([&] {
#include "absl/synchronization/notification.h"
    result = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
#include "absl/synchronization/notification.h"
  });
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(daemon.WaitUntilHeld());
#include "absl/synchronization/notification.h"
  std::thread release([&] {
#include "absl/synchronization/notification.h"
    absl::SleepFor(absl::Milliseconds(200));
#include "absl/synchronization/notification.h"
    daemon.Release();
#include "absl/synchronization/notification.h"
  });
#include "absl/synchronization/notification.h"
  daemon.daemon().Drain();
#include "absl/synchronization/notification.h"
  release.join();
#include "absl/synchronization/notification.h"
  caller.join();
#include "absl/synchronization/notification.h"
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
#include "absl/synchronization/notification.h"
  EXPECT_EQ(ReasonOf(result.status()), "SHUTTING_DOWN");
#include "absl/synchronization/notification.h"
  daemon.Stop();
#include "absl/synchronization/notification.h"
  daemon.Start();
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(
#include "absl/synchronization/notification.h"
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, AnsweredTunesOfAnEarlierLifeAreAnsweredAgain) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  v1::TuneLayerRequest request =
#include "absl/synchronization/notification.h"
      daemon.TuneRequestFor(SmallProblem(), TestId(1));
#include "absl/synchronization/notification.h"
  request.set_retune(true);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(daemon.Tune(request).ok());
#include "absl/synchronization/notification.h"
  daemon.Stop();
#include "absl/synchronization/notification.h"
  daemon.Start();
#include "absl/synchronization/notification.h"
  const auto again = daemon.Tune(request);
#include "absl/synchronization/notification.h"
  ASSERT_TRUE(again.ok()) << again.status();
#include "absl/synchronization/notification.h"
  EXPECT_TRUE(again->already_fresh());
#include "absl/synchronization/notification.h"
  EXPECT_EQ(daemon.executor().rounds, 0);
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, ASecondDaemonOnTheSocketOrDatabaseIsRefused) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  Logger quiet([](absl::string_view) {});
#include "absl/synchronization/notification.h"
  DaemonOptions options;
#include "absl/synchronization/notification.h"
  options.listen = daemon.daemon().address();
#include "absl/synchronization/notification.h"
  options.database = daemon.folder() / "other.db";
#include "absl/synchronization/notification.h"
  EXPECT_EQ(Daemon::Start(options, DeviceBackend(), &quiet).status().code(),
#include "absl/synchronization/notification.h"
            absl::StatusCode::kUnavailable);
#include "absl/synchronization/notification.h"
  options.listen = "unix:" + (daemon.folder() / "run/other.sock");
#include "absl/synchronization/notification.h"
  options.database = daemon.folder() / "db/hone.db";
#include "absl/synchronization/notification.h"
  EXPECT_EQ(Daemon::Start(options, DeviceBackend(), &quiet).status().code(),
#include "absl/synchronization/notification.h"
            absl::StatusCode::kFailedPrecondition);
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Service, LogsAreJsonLines) {
#include "absl/synchronization/notification.h"
  TestDaemon daemon;
#include "absl/synchronization/notification.h"
  const std::vector<std::string> lines = daemon.log_lines();
#include "absl/synchronization/notification.h"
  ASSERT_FALSE(lines.empty());
#include "absl/synchronization/notification.h"
  for (const std::string& line : lines) {
#include "absl/synchronization/notification.h"
    const auto json = ReadJson(line);
#include "absl/synchronization/notification.h"
    ASSERT_TRUE(json.ok()) << json.status() << ": " << line;
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  EXPECT_THAT(lines[0], HasSubstr("\"event\":\"serving\""));
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
TEST(Listen, BeyondLoopbackOnlyWithConsent) {
#include "absl/synchronization/notification.h"
  for (const char* good : {"unix:/run/hone/honed.sock", "127.0.0.1:7070",
#include "absl/synchronization/notification.h"
                           "localhost:0", "[::1]:7070"}) {
#include "absl/synchronization/notification.h"
    EXPECT_TRUE(CheckListenAddress(good, false).ok()) << good;
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  for (const char* open : {"0.0.0.0:7070", "[::]:7070", "node17:7070"}) {
#include "absl/synchronization/notification.h"
    EXPECT_THAT(std::string(CheckListenAddress(open, false).message()),
#include "absl/synchronization/notification.h"
                HasSubstr("--insecure"));
#include "absl/synchronization/notification.h"
    EXPECT_TRUE(CheckListenAddress(open, true).ok()) << open;
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
  for (const char* bad : {"", "unix:relative", "127.0.0.1", "127.0.0.1:x",
#include "absl/synchronization/notification.h"
                          ":7070", "127.0.0.1:70000"}) {
#include "absl/synchronization/notification.h"
    EXPECT_FALSE(CheckListenAddress(bad, true).ok()) << bad;
#include "absl/synchronization/notification.h"
  }
#include "absl/synchronization/notification.h"
}
#include "absl/synchronization/notification.h"
}  // namespace
#include "absl/synchronization/notification.h"
}  // namespace hone
