// The page of a daemon that is really asked, over gRPC and HTTP.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "tests/db/fixture.h"
#include "tests/service/support/http_client.h"
#include "tests/service/support/test_daemon.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Page(TestDaemon& daemon) {
  const HttpReply reply = HttpGet(daemon.daemon().http_address(), "/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-type"), "text/plain; version=0.0.4");
  return reply.body;
}

TEST(DaemonMetrics, TuneAndLookupsAreCounted) {
  TestDaemon daemon;
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(), 16).ok());
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2))).ok());
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(), 16).ok());
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(), 15).ok());
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(1024, 2048), 16).ok());
  EXPECT_FALSE(daemon.GetConfig(SmallProblem(), 0).ok());
  const std::string page = Page(daemon);
  for (const char* line :
       {"hone_lookups_total{match=\"heuristic\"} 1\n",
        "hone_lookups_total{match=\"exact\"} 1\n",
        "hone_lookups_total{match=\"bucket\"} 1\n",
        "hone_lookups_total{match=\"neighbour\"} 1\n",
        "hone_lookup_duration_seconds_count{match=\"exact\"} 1\n",
        "hone_rpcs_total{method=\"hone.v1.TuningService/"
        "GetConfig\",code=\"OK\"} 4\n",
        "hone_rpcs_total{method=\"hone.v1.TuningService/"
        "GetConfig\",code=\"INVALID_ARGUMENT\"} 1\n",
        "hone_rpc_duration_seconds_count{method=\"hone.v1.TuningService/"
        "GetConfig\"} 5\n",
        "hone_rpcs_total{method=\"hone.v1.TuningService/"
        "TuneLayer\",code=\"OK\"} 2\n",
        "hone_rpcs_total{method=\"hone.v1.StudyService/"
        "Suggest\",code=\"OK\"} 0\n",
        "hone_tunes_total{kind=\"tune\",state=\"succeeded\"} 1\n",
        "hone_tunes_total{kind=\"tune\",state=\"fresh\"} 1\n",
        "hone_tune_duration_seconds_count{kind=\"tune\"} 1\n",
        "hone_tune_queue_length 0\n", "hone_tune_queue_limit 64\n",
        "hone_database_revision 1\n",
        "hone_tables{freshness=\"fresh\",verified=\"true\"} 1\n",
        "hone_device_can_tune 1\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
  EXPECT_THAT(page,
              Not(HasSubstr("hone_trials_total{outcome=\"measured\"} 0")));
  EXPECT_THAT(page, Not(HasSubstr("hone_database_size_bytes 0\n")));
}

TEST(DaemonMetrics, TrialsOfAuditsAndRechecksAreCounted) {
  TestDaemon daemon;
  const auto measured = [&] {
    const std::string page = Page(daemon);
    const std::string name = "\nhone_trials_total{outcome=\"measured\"} ";
    const size_t at = page.find(name);
    EXPECT_NE(at, page.npos);
    return at == page.npos ? -1 : std::stod(page.substr(at + name.size()));
  };
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
  const double tuned = measured();
  {
    v1::RecheckTablesRequest request;
    request.set_request_id(TestId(2));
    grpc::ClientContext context;
    const auto reader = daemon.stub().RecheckTables(&context, request);
    v1::RecheckTablesResponse message;
    while (reader->Read(&message)) continue;
    ASSERT_TRUE(reader->Finish().ok());
  }
  const double rechecked = measured();
  EXPECT_GT(rechecked, tuned);
  v1::AuditLayerRequest request;
  request.set_request_id(TestId(3));
  *request.mutable_problem() = ToProto(SmallProblem());
  for (const int64_t m : {1, 16}) request.add_ladder(m);
  request.set_max_kernels(6);
  request.set_kernels(16);
  grpc::ClientContext context;
  const auto reader = daemon.stub().AuditLayer(&context, request);
  v1::AuditLayerResponse message;
  while (reader->Read(&message)) continue;
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_GT(measured(), rechecked);
}

TEST(DaemonMetrics, CallersCannotMakeThePageGrow) {
  TestDaemon daemon;
  const auto lines = [&] {
    const std::string page = Page(daemon);
    return std::count(page.begin(), page.end(), '\n');
  };
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(), 1).ok());
  const auto before = lines();
  for (int i = 2; i < 60; ++i)
    ASSERT_TRUE(daemon.GetConfig(SmallProblem(64 * i, 128 * i), i).ok());
  // Methods that there are not, too.
  grpc::GenericStub stub(daemon.Channel());
  const grpc::Slice empty("");
  const grpc::ByteBuffer request(&empty, 1);
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(
        &context, "/hone.v1.TuningService/Get" + std::to_string(i), request,
        &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_LE(lines(), before + 1);  // other, UNIMPLEMENTED
}

TEST(DaemonMetrics, WhatRunsWaitsAndIsCancelledIsSeen) {
  TestDaemon daemon;
  daemon.Hold(3);
  std::thread first([&] {
    (void)daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
  });
  ASSERT_TRUE(daemon.WaitUntilHeld());
  std::thread second([&] {
    (void)daemon.Tune(daemon.TuneRequestFor(SmallProblem(2048), TestId(2)));
  });
  std::string page;
  for (int i = 0; i < 500; ++i) {
    page = Page(daemon);
    if (page.find("hone_tune_queue_length 1\n") != page.npos) break;
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_THAT(page, HasSubstr("hone_tune_queue_length 1\n"));
  EXPECT_THAT(page,
              HasSubstr("hone_tune_running{kind=\"tune\",phase=\"race\"} 1\n"));
  for (const int id : {2, 1}) {
    grpc::ClientContext context;
    v1::CancelTuneRequest request;
    request.set_tune_id(TestId(id));
    v1::CancelTuneResponse response;
    ASSERT_TRUE(daemon.stub().CancelTune(&context, request, &response).ok());
  }
  daemon.Release();
  first.join();
  second.join();
  page = Page(daemon);
  EXPECT_THAT(page, HasSubstr("hone_tune_queue_length 0\n"));
  EXPECT_THAT(page,
              HasSubstr("hone_tune_running{kind=\"tune\",phase=\"race\"} 0\n"));
  EXPECT_THAT(
      page,
      HasSubstr("hone_tunes_total{kind=\"tune\",state=\"cancelled\"} 2\n"));
  // Only one of them ran.
  EXPECT_THAT(page,
              HasSubstr("hone_tune_duration_seconds_count{kind=\"tune\"} 1\n"));
}

// Another class's tables cannot be tuned here, so they must not raise an alert
// for ever.
TEST(DaemonMetrics, CountsTheTablesOfItsOwnClass) {
  const DeviceSpec device = hone::testing::TestDevice();
  DeviceSpec sibling = device;
  sibling.sm_count = 114;
  std::vector<StoredTable> tables(4);
  for (size_t i = 0; i < tables.size(); ++i) {
    const Problem problem =
        hone::testing::TestProblem(1024 * static_cast<int64_t>(i + 1));
    tables[i].table =
        hone::testing::TestTable(problem, i == 3 ? sibling : device);
  }
  const std::string closure = tables[0].table.source_closure;
  tables[1].table.source_closure = std::string(64, 'a');
  // More shared memory than there is.
  tables[2].table.entries[0].config.block_n = 256;
  tables[2].table.entries[0].config.block_k = 128;
  tables[2].table.entries[0].config.stages = 16;
  tables[3].table.source_closure = std::string(64, 'a');
  tables[3].verified = false;
  const LookupIndex index(tables, 5, closure);
  TablesReading reading = ReadTables(index, device);
  EXPECT_EQ(reading.revision, 5);
  EXPECT_EQ(reading.fresh_verified, 1);
  EXPECT_EQ(reading.stale_verified, 2);
  EXPECT_EQ(reading.fresh_unverified, 0);
  EXPECT_EQ(reading.stale_unverified, 0);
  reading = ReadTables(index, std::nullopt);
  EXPECT_EQ(reading.stale_unverified, 1);
}

TEST(DaemonMetrics, ADaemonWithoutADeviceSaysSo) {
  TestDaemon daemon(/*can_tune=*/false);
  const std::string page = Page(daemon);
  EXPECT_THAT(page, HasSubstr("hone_device_can_tune 0\n"));
  EXPECT_THAT(page, HasSubstr("hone_device_quarantined 0\n"));
  EXPECT_THAT(page, Not(HasSubstr("hone_device_info")));
}

}  // namespace
}  // namespace hone
