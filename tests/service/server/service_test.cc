// The service over real gRPC and SQLite, with a simulated GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/service/support/test_daemon.h"

namespace hone {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string ExportAll(v1::TuningService::Stub& stub, absl::Status* status) {
  grpc::ClientContext context;
  const auto reader = stub.Export(&context, v1::ExportRequest());
  std::string bundle;
  v1::ExportResponse message;
  while (reader->Read(&message)) bundle += message.chunk();
  *status = FromGrpcStatus(reader->Finish());
  return bundle;
}

absl::StatusOr<v1::ImportResponse> ImportText(v1::TuningService::Stub& stub,
                                              const std::string& text) {
  grpc::ClientContext context;
  v1::ImportResponse response;
  const auto writer = stub.Import(&context, &response);
  v1::ImportRequest message;
  for (size_t at = 0; at < text.size(); at += 100'000) {
    message.set_chunk(text.substr(at, 100'000));
    if (!writer->Write(message)) break;
  }
  writer->WritesDone();
  const absl::Status status = FromGrpcStatus(writer->Finish());
  if (!status.ok()) return status;
  return response;
}

TEST(Service, BeforeAnythingIsTunedTheHeuristicAnswers) {
  TestDaemon daemon;
  const auto answer = daemon.GetConfig(SmallProblem(), 5);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->provenance().match(), v1::MATCH_KIND_HEURISTIC);
  EXPECT_FALSE(answer->provenance().verified());
  EXPECT_EQ(answer->provenance().gate(), v1::GATE_KIND_NONE);
  EXPECT_THAT(answer->evidence(), IsEmpty());
  EXPECT_EQ(answer->config().text(),
            HeuristicDefault(SmallProblem(), TestGpu(), 8).ToString());
}

TEST(Service, ATunedLayerIsServedWithItsEvidence) {
  TestDaemon daemon;
  int progress = 0;
  const auto result =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)), &progress);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(progress, 0);
  EXPECT_FALSE(result->already_fresh());
  EXPECT_TRUE(result->complete());
  EXPECT_GT(result->trials_recorded(), 6);
  EXPECT_EQ(result->provenance().match(), v1::MATCH_KIND_EXACT);
  EXPECT_EQ(result->provenance().revision(), 1);
  EXPECT_TRUE(result->provenance().verified());
  EXPECT_FALSE(result->provenance().modelled());

  const auto exact = daemon.GetConfig(SmallProblem(), 16);
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(exact->provenance().match(), v1::MATCH_KIND_EXACT);
  EXPECT_EQ(exact->provenance().gate(), v1::GATE_KIND_DEVICE);
  ASSERT_THAT(exact->evidence(), SizeIs(1));
  EXPECT_EQ(exact->evidence(0).m(), 16);
  EXPECT_GT(exact->evidence(0).samples(), 0);
  EXPECT_GT(exact->evidence(0).floor_ns(), 0);
  EXPECT_FALSE(exact->compile().kernel_id().empty());

  const auto bucket = daemon.GetConfig(SmallProblem(), 15);
  ASSERT_TRUE(bucket.ok()) << bucket.status();
  EXPECT_EQ(bucket->provenance().match(), v1::MATCH_KIND_BUCKET);
  EXPECT_FALSE(bucket->evidence().empty());

  const auto neighbour = daemon.GetConfig(SmallProblem(1024, 2048), 16);
  ASSERT_TRUE(neighbour.ok()) << neighbour.status();
  EXPECT_EQ(neighbour->provenance().match(), v1::MATCH_KIND_NEIGHBOUR);
  EXPECT_FALSE(neighbour->provenance().verified());
  EXPECT_EQ(neighbour->provenance().matched_problem(),
            SmallProblem().ToString());
  EXPECT_EQ(neighbour->compile().kernel_id(), "");
}

TEST(Service, AFreshTableAnswersATuneWithoutMeasuring) {
  TestDaemon daemon;
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
  const int rounds = daemon.executor().rounds;
  const auto again =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->already_fresh());
  EXPECT_EQ(daemon.executor().rounds, rounds);

  v1::TuneLayerRequest retune =
      daemon.TuneRequestFor(SmallProblem(), TestId(3));
  retune.set_retune(true);
  const auto measured = daemon.Tune(retune);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_FALSE(measured->already_fresh());
  EXPECT_GT(measured->trials_reused(), 0);
  EXPECT_EQ(measured->provenance().revision(), 2);
}

TEST(Service, TheSameRequestIdGetsTheFirstAnswer) {
  TestDaemon daemon;
  const auto request = daemon.TuneRequestFor(SmallProblem(), TestId(1));
  const auto first = daemon.Tune(request);
  ASSERT_TRUE(first.ok()) << first.status();
  bool joined = false;
  const auto second = daemon.Tune(request, nullptr, &joined);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(joined);
  EXPECT_EQ(second->SerializeAsString(), first->SerializeAsString());

  auto other = request;
  other.set_max_kernels(7);
  const auto reused = daemon.Tune(other);
  EXPECT_EQ(reused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(reused.status()), "REQUEST_ID_REUSED");
  EXPECT_EQ(ViolationsOf(reused.status())[0].field, "request_id");
}

TEST(Service, EqualRequestsInFlightShareOneJob) {
  TestDaemon daemon;
  daemon.Hold();
  bool joined[2] = {};
  absl::StatusOr<v1::TuneResult> results[2];
  std::thread first([&] {
    results[0] = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)),
                             nullptr, &joined[0]);
  });
  ASSERT_TRUE(daemon.WaitUntilHeld());
  std::thread second([&] {
    results[1] = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)),
                             nullptr, &joined[1]);
  });
  v1::ListTunesResponse tunes;
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    ASSERT_TRUE(
        daemon.stub().ListTunes(&context, v1::ListTunesRequest(), &tunes).ok());
    if (tunes.tunes(0).callers() == 2) break;
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_THAT(tunes.tunes(), SizeIs(1));
  EXPECT_EQ(tunes.tunes(0).callers(), 2);
  EXPECT_EQ(tunes.tunes(0).kind(), v1::JOB_KIND_TUNE);
  EXPECT_EQ(tunes.tunes(0).state(), v1::TUNE_STATE_RUNNING);
  // Lookups go on while the device is busy.
  EXPECT_TRUE(daemon.GetConfig(SmallProblem(), 1).ok());
  daemon.Release();
  first.join();
  second.join();
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  ASSERT_TRUE(results[1].ok()) << results[1].status();
  EXPECT_FALSE(joined[0]);
  EXPECT_TRUE(joined[1]);
  EXPECT_EQ(results[0]->SerializeAsString(), results[1]->SerializeAsString());
}

TEST(Service, AJobOutlivesACallerAsLongAsAnotherIsThere) {
  TestDaemon daemon;
  daemon.Hold();
  grpc::ClientContext leaving;
  const auto reader = daemon.stub().TuneLayer(
      &leaving, daemon.TuneRequestFor(SmallProblem(), TestId(1)));
  ASSERT_TRUE(daemon.WaitUntilHeld());
  absl::StatusOr<v1::TuneResult> result;
  bool joined = false;
  std::thread staying([&] {
    result = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)),
                         nullptr, &joined);
  });
  absl::SleepFor(absl::Milliseconds(300));
  leaving.TryCancel();
  reader->Finish();
  absl::SleepFor(absl::Milliseconds(300));
  daemon.Release();
  staying.join();
  EXPECT_TRUE(joined);
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST(Service, TheLastCallerToLeaveCancelsTheJobAndItsTrialsAreKept) {
  TestDaemon daemon;
  const auto first_tune = [&] {
    v1::ListTunesResponse tunes;
    grpc::ClientContext context;
    EXPECT_TRUE(
        daemon.stub().ListTunes(&context, v1::ListTunesRequest(), &tunes).ok());
    return tunes.tunes_size() > 0 ? tunes.tunes(0) : v1::Tune();
  };
  // Past the first race, whose trials are then recorded, and before the end.
  daemon.Hold(60);
  {
    grpc::ClientContext context;
    const auto reader = daemon.stub().TuneLayer(
        &context, daemon.TuneRequestFor(SmallProblem(), TestId(1)));
    ASSERT_TRUE(daemon.WaitUntilHeld());
    context.TryCancel();
    reader->Finish();
  }
  for (int i = 0; i < 500 && first_tune().callers() > 0; ++i)
    absl::SleepFor(absl::Milliseconds(10));
  daemon.Release();
  for (int i = 0; i < 500 && first_tune().state() == v1::TUNE_STATE_RUNNING;
       ++i)
    absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(first_tune().state(), v1::TUNE_STATE_CANCELLED);
  EXPECT_THAT(first_tune().error(), HasSubstr("last caller left"));
  const auto resumed =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_GT(resumed->trials_reused(), 0);
}

TEST(Service, CancelEndsAJobForItsCaller) {
  TestDaemon daemon;
  daemon.Hold();
  absl::StatusOr<v1::TuneResult> result;
  std::thread caller([&] {
    result = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
  });
  ASSERT_TRUE(daemon.WaitUntilHeld());
  v1::CancelTuneRequest request;
  request.set_tune_id(TestId(1));
  v1::CancelTuneResponse response;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(daemon.stub().CancelTune(&context, request, &response).ok());
  }
  EXPECT_TRUE(response.cancelled());
  daemon.Release();
  caller.join();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReasonOf(result.status()), "TUNE_CANCELLED");
  {
    grpc::ClientContext context;
    ASSERT_TRUE(daemon.stub().CancelTune(&context, request, &response).ok());
    EXPECT_FALSE(response.cancelled());
  }
  request.set_tune_id("nobody");
  grpc::ClientContext context;
  const absl::Status missing =
      FromGrpcStatus(daemon.stub().CancelTune(&context, request, &response));
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(missing), "TUNE_NOT_FOUND");
}

TEST(Service, AFullQueueSaysWhenToRetry) {
  TestDaemon daemon(true, 1);
  daemon.Hold();
  std::vector<std::thread> callers;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  // The second caller fills the queue only once it was accepted.
  absl::Notification queued;
  for (int i = 0; i < 2; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    callers.emplace_back([&, i] {
      const auto reader = daemon.stub().TuneLayer(
          contexts[i].get(),
          daemon.TuneRequestFor(SmallProblem(1024 << i), TestId(i)));
      v1::TuneLayerResponse message;
      while (reader->Read(&message)) {
        if (i == 1 && message.has_accepted()) queued.Notify();
      }
      reader->Finish();
    });
    if (i == 0) {
      ASSERT_TRUE(daemon.WaitUntilHeld());
    }
  }
  ASSERT_TRUE(queued.WaitForNotificationWithTimeout(absl::Seconds(20)));
  absl::Status full;
  for (int i = 0; i < 100 && !absl::IsResourceExhausted(full); ++i) {
    grpc::ClientContext context;
    context.set_deadline(
        absl::ToChronoTime(absl::Now() + absl::Milliseconds(200)));
    const auto reader = daemon.stub().TuneLayer(
        &context, daemon.TuneRequestFor(SmallProblem(512), TestId(100 + i)));
    v1::TuneLayerResponse message;
    while (reader->Read(&message)) {
    }
    full = FromGrpcStatus(reader->Finish());
  }
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), "QUEUE_FULL");
  EXPECT_GT(RetryDelayOf(full), absl::ZeroDuration());
  for (const auto& context : contexts) context->TryCancel();
  daemon.Release();
  for (std::thread& caller : callers) caller.join();
}

TEST(Service, AnAuditReportsOnThePublishedTableAndStoresNothing) {
  TestDaemon daemon;
  v1::AuditLayerRequest request;
  *request.mutable_problem() = ToProto(SmallProblem());
  for (const int64_t m : {1, 16}) request.add_ladder(m);
  request.set_max_kernels(6);
  request.set_kernels(16);
  const auto audit = [&](int id) -> absl::StatusOr<v1::AuditReport> {
    request.set_request_id(TestId(id));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    const auto reader = daemon.stub().AuditLayer(&context, request);
    v1::AuditLayerResponse message;
    v1::AuditReport report;
    bool audited = false;
    while (reader->Read(&message)) {
      audited |= message.progress().phase() == v1::TUNE_PHASE_AUDIT;
      if (message.has_result()) report = message.result();
    }
    const absl::Status status = FromGrpcStatus(reader->Finish());
    if (!status.ok()) return status;
    EXPECT_TRUE(audited);
    return report;
  };
  auto report = audit(1);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->complete());
  EXPECT_FALSE(report->modelled());
  EXPECT_EQ(report->revision(), 0);
  EXPECT_THAT(report->tunes(), SizeIs(2));
  EXPECT_THAT(report->points(), SizeIs(2));
  EXPECT_EQ(report->kernels(), 16);
  EXPECT_LT(report->regret().largest(), 1.05);
  EXPECT_EQ(daemon.GetConfig(SmallProblem(), 16)->provenance().match(),
            v1::MATCH_KIND_HEURISTIC);

  const auto tuned =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2)));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->trials_reused(), 0);
  report = audit(3);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->revision(), tuned->provenance().revision());
  EXPECT_EQ(report->same_kernels(), report->replayed_kernels());
  EXPECT_EQ(report->replay().points(), 2);
  EXPECT_NEAR(report->replay().median(), 1, 0.02);
}

TEST(Service, ExportedTablesAnswerUnverifiedAfterImport) {
  TestDaemon from;
  ASSERT_TRUE(from.Tune(from.TuneRequestFor(SmallProblem(), TestId(1))).ok());
  absl::Status status;
  const std::string bundle = ExportAll(from.stub(), &status);
  ASSERT_TRUE(status.ok()) << status;

  TestDaemon to;
  const auto imported = ImportText(to.stub(), bundle);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->tables_added(), 1);
  const auto answer = to.GetConfig(SmallProblem(), 16);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->provenance().match(), v1::MATCH_KIND_EXACT);
  EXPECT_FALSE(answer->provenance().verified());
  EXPECT_THAT(answer->provenance().notes(),
              Contains("imported and not verified on this device"));
  EXPECT_EQ(ExportAll(to.stub(), &status), bundle);

  const auto again = ImportText(to.stub(), bundle);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->tables_added(), 0);
  EXPECT_EQ(again->tables_known(), 1);

  // Tuning here makes it verified.
  const auto tuned = to.Tune(to.TuneRequestFor(SmallProblem(), TestId(2)));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_FALSE(tuned->already_fresh());
  EXPECT_TRUE(to.GetConfig(SmallProblem(), 16)->provenance().verified());
}

TEST(Service, BadBundlesAreRefusedWithTheReason) {
  TestDaemon daemon;
  const auto bad = ImportText(daemon.stub(), "{\"not\":\"a bundle\"}\n");
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(bad.status()), "BAD_BUNDLE");
  absl::Status status;
  ExportAll(daemon.stub(), &status);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(status), "TABLE_NOT_FOUND");
}

TEST(Service, APinnedRevisionKeepsItsAnswer) {
  TestDaemon daemon;
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(1024, 2048), TestId(2)))
          .ok());
  const auto newest = daemon.GetConfig(SmallProblem(1024, 2048), 16);
  EXPECT_EQ(newest->provenance().match(), v1::MATCH_KIND_EXACT);
  EXPECT_EQ(newest->provenance().revision(), 2);
  const auto pinned = daemon.GetConfig(SmallProblem(1024, 2048), 16, 1);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->provenance().match(), v1::MATCH_KIND_NEIGHBOUR);
  EXPECT_EQ(pinned->provenance().revision(), 1);
  const auto missing = daemon.GetConfig(SmallProblem(), 16, 9);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(missing.status()), "REVISION_NOT_FOUND");
}

TEST(Service, TablesAreListedInPages) {
  TestDaemon daemon;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        daemon.Tune(daemon.TuneRequestFor(SmallProblem(512 << i), TestId(i)))
            .ok());
  }
  v1::ListTablesRequest request;
  request.set_page_size(2);
  v1::ListTablesResponse first, second;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(daemon.stub().ListTables(&context, request, &first).ok());
  }
  ASSERT_THAT(first.tables(), SizeIs(2));
  // A table published meanwhile does not shift the walk.
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(256), TestId(9))).ok());
  request.set_page_token(first.next_page_token());
  {
    grpc::ClientContext context;
    ASSERT_TRUE(daemon.stub().ListTables(&context, request, &second).ok());
  }
  ASSERT_THAT(second.tables(), SizeIs(1));
  EXPECT_EQ(second.next_page_token(), "");
  EXPECT_EQ(second.revision(), first.revision());
  request.set_page_token("rubbish");
  grpc::ClientContext context;
  const absl::Status bad =
      FromGrpcStatus(daemon.stub().ListTables(&context, request, &second));
  EXPECT_EQ(ViolationsOf(bad)[0].field, "page_token");
}

TEST(Service, BadRequestsNameTheirFields) {
  TestDaemon daemon;
  v1::TuneLayerRequest request =
      daemon.TuneRequestFor(SmallProblem(), "not a uuid");
  request.set_max_kernels(1000);
  request.set_max_table_kernels(-1);
  request.add_ladder(2);
  request.mutable_budget()->set_nanos(5);
  request.mutable_problem()->mutable_layer()->set_b_group(48);
  const absl::Status status = daemon.Tune(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  std::vector<std::string> fields;
  for (const FieldViolation& v : ViolationsOf(status))
    fields.push_back(v.field);
  EXPECT_THAT(fields,
              ElementsAre("request_id", "ladder[3]", "max_kernels", "budget",
                          "problem.layer.b_group", "max_table_kernels"));
  EXPECT_EQ(ViolationsOf(daemon.GetConfig(SmallProblem(), 0).status())[0].field,
            "m");

  Problem no_kernel = SmallProblem();
  no_kernel.layer.b = DataType::Float(6, 1);
  const absl::Status unimplemented = daemon.GetConfig(no_kernel, 1).status();
  EXPECT_EQ(unimplemented.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReasonOf(unimplemented), "NO_KERNEL");
  EXPECT_TRUE(MetadataOf(unimplemented).empty());
}

// A program that gets NO_KERNEL for its activations can ask again with what the
// error names, and gets an answer.
TEST(Service, NoKernelForTheActivationsNamesTheProblemToAskForInstead) {
  TestDaemon daemon;
  Problem problem = SmallProblem();
  problem.layer.a = problem.layer.b = kFloat4e2m1;
  problem.layer.a_scale = InputScale::kToken;
  for (const absl::Status& status :
       {daemon.GetConfig(problem, 1).status(),
        daemon.Tune(daemon.TuneRequestFor(problem, TestId(1))).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(ReasonOf(status), "NO_KERNEL");
    std::map<std::string, std::string> metadata = MetadataOf(status);
    EXPECT_EQ(metadata["field"], "problem.layer.a");
    const auto next = Problem::Parse(metadata["next_problem"]);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(next->layer.a, kFloat8e4m3);
    EXPECT_TRUE(daemon.GetConfig(*next, 1).ok());
  }
}

TEST(Service, RequestsOverOneMebibyteAreRefused) {
  TestDaemon daemon;
  v1::CancelTuneRequest request;
  request.set_tune_id(std::string(2 << 20, 'x'));
  v1::CancelTuneResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(daemon.stub().CancelTune(&context, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(daemon.GetConfig(SmallProblem(), 1).ok());
}

TEST(Service, WithoutADeviceLookupsWorkForTheDeviceThatIsNamed) {
  TestDaemon daemon(false);
  const absl::Status tune =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).status();
  EXPECT_EQ(tune.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(tune), "NO_DEVICE");
  EXPECT_THAT(std::string(tune.message()), HasSubstr("no CUDA driver"));
  EXPECT_EQ(ReasonOf(daemon.GetConfig(SmallProblem(), 1).status()),
            "NO_DEVICE");
  v1::GetTableRequest request;
  *request.mutable_problem() = ToProto(SmallProblem());
  *request.mutable_device() = ToProto(TestGpu());
  v1::GetTableResponse response;
  grpc::ClientContext context;
  const absl::Status got =
      FromGrpcStatus(daemon.stub().GetTable(&context, request, &response));
  ASSERT_TRUE(got.ok()) << got;
  EXPECT_EQ(response.provenance().match(), v1::MATCH_KIND_HEURISTIC);
  EXPECT_EQ(
      response.table().entries(response.table().entries_size() - 1).m_hi(), 0);
  v1::ListDevicesResponse devices;
  grpc::ClientContext list;
  ASSERT_TRUE(daemon.stub()
                  .ListDevices(&list, v1::ListDevicesRequest(), &devices)
                  .ok());
  EXPECT_THAT(devices.devices(), IsEmpty());
}

TEST(Service, TellsItsDevice) {
  TestDaemon daemon;
  v1::GetDeviceResponse response;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(daemon.stub()
                    .GetDevice(&context, v1::GetDeviceRequest(), &response)
                    .ok());
  }
  EXPECT_EQ(response.device().spec().uuid(), "GPU-test");
  EXPECT_TRUE(response.device().can_tune());
  EXPECT_EQ(response.source_closure().size(), 64u);
  v1::GetDeviceRequest other;
  other.set_uuid("GPU-other");
  grpc::ClientContext context;
  EXPECT_EQ(ReasonOf(FromGrpcStatus(
                daemon.stub().GetDevice(&context, other, &response))),
            "DEVICE_NOT_FOUND");
}

TEST(Service, HealthSaysServing) {
  TestDaemon daemon;
  const auto stub = grpc::health::v1::Health::NewStub(daemon.Channel());
  for (const char* service : {"", "hone.v1.TuningService"}) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub->Check(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.status(),
              grpc::health::v1::HealthCheckResponse::SERVING);
  }
}

TEST(Service, DrainingEndsTunesAndKeepsWhatTheyMeasured) {
  TestDaemon daemon;
  daemon.Hold();
  absl::StatusOr<v1::TuneResult> result;
  std::thread caller([&] {
    result = daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
  });
  ASSERT_TRUE(daemon.WaitUntilHeld());
  std::thread release([&] {
    absl::SleepFor(absl::Milliseconds(200));
    daemon.Release();
  });
  daemon.daemon().Drain();
  release.join();
  caller.join();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(result.status()), "SHUTTING_DOWN");
  daemon.Stop();
  daemon.Start();
  EXPECT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
}

TEST(Service, AnsweredTunesOfAnEarlierLifeAreAnsweredAgain) {
  TestDaemon daemon;
  v1::TuneLayerRequest request =
      daemon.TuneRequestFor(SmallProblem(), TestId(1));
  request.set_retune(true);
  ASSERT_TRUE(daemon.Tune(request).ok());
  daemon.Stop();
  daemon.Start();
  const auto again = daemon.Tune(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->already_fresh());
  EXPECT_EQ(daemon.executor().rounds, 0);
}

TEST(Service, ASecondDaemonOnTheSocketOrDatabaseIsRefused) {
  TestDaemon daemon;
  Logger quiet([](absl::string_view) {});
  DaemonOptions options;
  options.listen = daemon.daemon().address();
  options.database = daemon.folder() / "other.db";
  EXPECT_EQ(Daemon::Start(options, DeviceBackend(), &quiet).status().code(),
            absl::StatusCode::kUnavailable);
  options.listen = "unix:" + (daemon.folder() / "run/other.sock");
  options.database = daemon.folder() / "db/hone.db";
  EXPECT_EQ(Daemon::Start(options, DeviceBackend(), &quiet).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Service, LogsAreJsonLines) {
  TestDaemon daemon;
  const std::vector<std::string> lines = daemon.log_lines();
  ASSERT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    const auto json = ReadJson(line);
    ASSERT_TRUE(json.ok()) << json.status() << ": " << line;
  }
  EXPECT_THAT(lines[0], HasSubstr("\"event\":\"serving\""));
}

TEST(Listen, BeyondLoopbackOnlyWithConsent) {
  for (const char* good : {"unix:/run/hone/honed.sock", "127.0.0.1:7070",
                           "localhost:0", "[::1]:7070"}) {
    EXPECT_TRUE(CheckListenAddress(good, false).ok()) << good;
  }
  for (const char* open : {"0.0.0.0:7070", "[::]:7070", "node17:7070"}) {
    EXPECT_THAT(std::string(CheckListenAddress(open, false).message()),
                HasSubstr("--insecure"));
    EXPECT_TRUE(CheckListenAddress(open, true).ok()) << open;
  }
  for (const char* bad : {"", "unix:relative", "127.0.0.1", "127.0.0.1:x",
                          ":7070", "127.0.0.1:70000"}) {
    EXPECT_FALSE(CheckListenAddress(bad, true).ok()) << bad;
  }
}

}  // namespace
}  // namespace hone
