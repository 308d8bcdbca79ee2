// Reports of traffic and counts of misses, over real gRPC and SQLite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "kernels/space/occupancy.h"
#include "service/convert/errors.h"
#include "service/server/traffic_keeper.h"
#include "tests/service/support/test_daemon.h"
#include "tuner/analytic_model.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::ReportTrafficRequest Report(
    int id, const Problem& problem,
    const std::vector<std::pair<int64_t, int64_t>>& calls) {
  v1::ReportTrafficRequest request;
  request.set_report_id(TestId(id));
  v1::ProblemCalls* counts = request.add_problems();
  *counts->mutable_problem() = ToProto(problem);
  for (const auto& [m, count] : calls) {
    v1::CallCount* call = counts->add_calls();
    call->set_m(m);
    call->set_calls(count);
  }
  return request;
}

absl::StatusOr<bool> Send(TestDaemon& daemon,
                          const v1::ReportTrafficRequest& request) {
  grpc::ClientContext context;
  v1::ReportTrafficResponse response;
  const absl::Status status =
      FromGrpcStatus(daemon.stub().ReportTraffic(&context, request, &response));
  if (!status.ok()) return status;
  return response.counted();
}

std::vector<v1::TrafficSummary> List(TestDaemon& daemon, int page_size = 0,
                                     int* pages = nullptr) {
  std::vector<v1::TrafficSummary> all;
  v1::ListTrafficRequest request;
  request.set_page_size(page_size);
  do {
    grpc::ClientContext context;
    v1::ListTrafficResponse response;
    const absl::Status status =
        FromGrpcStatus(daemon.stub().ListTraffic(&context, request, &response));
    EXPECT_TRUE(status.ok()) << status;
    all.insert(all.end(), response.problems().begin(),
               response.problems().end());
    request.set_page_token(response.next_page_token());
    if (pages != nullptr) ++*pages;
  } while (!request.page_token().empty());
  return all;
}

std::vector<std::string> Fields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ViolationsOf(status))
    fields.push_back(violation.field);
  return fields;
}

TEST(TrafficService, ReportsAreCountedOnceAndKept) {
  TestDaemon daemon;
  const auto report = Report(1, SmallProblem(), {{16, 5}, {1, 100}});
  EXPECT_TRUE(*Send(daemon, report));
  EXPECT_FALSE(*Send(daemon, report));
  EXPECT_TRUE(*Send(daemon, Report(2, SmallProblem(), {{16, 2}})));
  daemon.Stop();
  daemon.Start();
  EXPECT_FALSE(*Send(daemon, report));
  const auto traffic = List(daemon);
  ASSERT_THAT(traffic, SizeIs(1));
  ASSERT_THAT(traffic[0].points(), SizeIs(2));
  EXPECT_EQ(traffic[0].points(0).m(), 1);
  EXPECT_NEAR(traffic[0].points(0).weight(), 100, 0.1);
  EXPECT_EQ(traffic[0].points(1).m(), 16);
  EXPECT_NEAR(traffic[0].points(1).weight(), 7, 0.01);
  EXPECT_EQ(*ProblemFromProto(traffic[0].problem()), SmallProblem());
  EXPECT_EQ(traffic[0].device().class_hash(), TestGpu().ClassHash());
  EXPECT_DOUBLE_EQ(traffic[0].time_share(), 1);
  EXPECT_TRUE(traffic[0].has_last_report());
  EXPECT_FALSE(traffic[0].has_last_miss());
  // An id is one report's only.
  const auto reused = Send(daemon, Report(1, SmallProblem(), {{16, 6}}));
  EXPECT_EQ(ReasonOf(reused.status()), "REPORT_ID_REUSED");
  EXPECT_THAT(Fields(reused.status()), ElementsAre("report_id"));
}

TEST(TrafficService, TimesAreModelledUntilThereIsEvidence) {
  TestDaemon daemon;
  ASSERT_TRUE(
      Send(daemon, Report(1, SmallProblem(), {{16, 10}, {40, 1}})).ok());
  ASSERT_TRUE(Send(daemon, Report(2, SmallProblem(2048), {{64, 10}})).ok());
  auto traffic = List(daemon);
  ASSERT_THAT(traffic, SizeIs(2));
  EXPECT_TRUE(traffic[0].times_modelled());
  EXPECT_EQ(traffic[0].table(), v1::TABLE_STATE_MISSING);
  const TuningConfig config = HeuristicDefault(SmallProblem(), TestGpu(), 16);
  EXPECT_DOUBLE_EQ(traffic[0].points(0).call_ns(),
                   Predict(SmallProblem(), TestGpu(), config, 16,
                           EstimateFootprint(SmallProblem(), config))
                       .total_ns);
  EXPECT_NEAR(traffic[0].time_share() + traffic[1].time_share(), 1, 1e-12);

  const auto tuned =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  traffic = List(daemon);
  EXPECT_FALSE(traffic[0].times_modelled());
  EXPECT_EQ(traffic[0].table(), v1::TABLE_STATE_FRESH);
  EXPECT_EQ(traffic[1].table(), v1::TABLE_STATE_MISSING);
  const auto exact = daemon.GetConfig(SmallProblem(), 16);
  ASSERT_TRUE(exact.ok());
  const double at_16 = static_cast<double>(exact->evidence(0).median_ns());
  EXPECT_DOUBLE_EQ(traffic[0].points(0).call_ns(), at_16);
  // Between ladder points, in between.
  EXPECT_GT(traffic[0].points(1).call_ns(), at_16);
  const double time = 10 * at_16 + traffic[0].points(1).call_ns() *
                                       traffic[0].points(1).weight();
  EXPECT_NEAR(traffic[0].time_share() / traffic[1].time_share(),
              time / (10 * traffic[1].points(0).call_ns()), 0.01);
}

TEST(TrafficService, BadReportsNameTheirFieldsAndCountNothing) {
  TestDaemon daemon;
  auto request = Report(1, SmallProblem(), {{16, 5}, {0, 1}, {16, 0}});
  request.set_report_id("x");
  *request.add_problems() = request.problems(0);
  request.mutable_problems(1)->mutable_calls()->Clear();
  v1::ProblemCalls* bad = request.add_problems();
  *bad->mutable_problem() = ToProto(SmallProblem());
  bad->mutable_problem()->mutable_layer()->set_n(-1);
  bad->add_calls()->set_m(1);
  bad->mutable_calls(0)->set_calls(int64_t{1} << 50);
  const auto refused = Send(daemon, request);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      Fields(refused.status()),
      ElementsAre("report_id", "problems[0].calls[1].m",
                  "problems[0].calls[2].calls", "problems[0].calls[2].m",
                  "problems[1].problem", "problems[1].calls",
                  "problems[2].problem.layer.n", "problems[2].calls[0].calls"));
  request = v1::ReportTrafficRequest();
  request.set_report_id(TestId(1));
  EXPECT_THAT(Fields(Send(daemon, request).status()), ElementsAre("problems"));
  request = Report(1, SmallProblem(), {{16, 5}});
  request.mutable_device()->set_sm_arch(3);
  EXPECT_THAT(Fields(Send(daemon, request).status()),
              testing::Contains("device.sm_arch"));
  EXPECT_THAT(List(daemon), IsEmpty());
}

TEST(TrafficService, AProblemWithoutAKernelIsNamed) {
  TestDaemon daemon;
  Problem problem = SmallProblem();
  problem.compute.gemm = GemmType::kIndexed;
  problem.layer.experts = 8;
  const auto refused = Send(daemon, Report(1, problem, {{16, 5}}));
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument)
      << refused.status();
  EXPECT_THAT(Fields(refused.status()),
              ElementsAre(testing::StartsWith("problems[0].problem")));
}

TEST(TrafficService, OfOtherDevicesTrafficIsKeptApart) {
  TestDaemon daemon;
  auto other = Report(1, SmallProblem(), {{16, 5}});
  *other.mutable_device() = ToProto(*ModelledDevice("a100"));
  EXPECT_TRUE(*Send(daemon, other));
  EXPECT_TRUE(*Send(daemon, Report(2, SmallProblem(), {{1, 3}})));
  const auto traffic = List(daemon);
  ASSERT_THAT(traffic, SizeIs(2));
  EXPECT_NE(traffic[0].device().class_hash(), traffic[1].device().class_hash());
  // Each is all of its own class's time.
  EXPECT_DOUBLE_EQ(traffic[0].time_share(), 1);
  EXPECT_DOUBLE_EQ(traffic[1].time_share(), 1);
}

TEST(TrafficService, ListsInPagesThatFitTogether) {
  TestDaemon daemon;
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(
        Send(daemon, Report(i, SmallProblem(1024 * i), {{1, 10}})).ok());
  }
  int pages = 0;
  const auto traffic = List(daemon, 2, &pages);
  EXPECT_EQ(pages, 3);
  ASSERT_THAT(traffic, SizeIs(5));
  double share = 0;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(traffic[static_cast<size_t>(i)].problem().layer().n(),
              1024 * (i + 1));
    share += traffic[static_cast<size_t>(i)].time_share();
  }
  EXPECT_NEAR(share, 1, 1e-9);
  v1::ListTrafficRequest request;
  request.set_page_token("nonsense");
  grpc::ClientContext context;
  v1::ListTrafficResponse response;
  EXPECT_THAT(Fields(FromGrpcStatus(
                  daemon.stub().ListTraffic(&context, request, &response))),
              ElementsAre("page_token"));
}

TEST(TrafficService, LookupsThatMissAreCounted) {
  TestDaemon daemon;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(daemon.GetConfig(SmallProblem(), 16).ok());
  auto traffic = List(daemon);
  ASSERT_THAT(traffic, SizeIs(1));
  EXPECT_NEAR(traffic[0].misses(), 3, 0.01);
  EXPECT_TRUE(traffic[0].has_last_miss());
  EXPECT_EQ(traffic[0].time_share(), 0);
  EXPECT_THAT(traffic[0].points(), IsEmpty());

  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(), 16).ok());
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(), 17).ok());
  // A neighbour's answer is a miss, and so is one for a whole table.
  const auto neighbour = daemon.GetConfig(SmallProblem(2048), 16);
  ASSERT_TRUE(neighbour.ok());
  EXPECT_EQ(neighbour->provenance().match(), v1::MATCH_KIND_NEIGHBOUR);
  grpc::ClientContext context;
  v1::GetTableRequest table;
  *table.mutable_problem() = ToProto(SmallProblem(2048));
  v1::GetTableResponse response;
  ASSERT_TRUE(daemon.stub().GetTable(&context, table, &response).ok());
  // What a pinned revision lacks is no miss.
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(4096), 16, 1).ok());
  traffic = List(daemon);
  ASSERT_THAT(traffic, SizeIs(2));
  EXPECT_NEAR(traffic[0].misses(), 3, 0.01);
  EXPECT_NEAR(traffic[1].misses(), 2, 0.01);
  // They outlive the daemon.
  ASSERT_TRUE(daemon.GetConfig(SmallProblem(2048), 1).ok());
  daemon.Stop();
  daemon.Start();
  EXPECT_NEAR(List(daemon)[1].misses(), 3, 0.01);
}

TEST(TrafficService, LookupsDoNotWaitForTheStore) {
  // While a write holds the database, misses go to memory.
  TempFolder folder;
  auto store = Store::Open(folder / "hone.db");
  ASSERT_TRUE(store.ok());
  auto tables = TableCache::Create(store->get(), "closure");
  Logger log([](absl::string_view) {});
  TrafficKeeper keeper(store->get(), tables->get(), &log, {});
  auto blocker =
      sqlite::Database::Open(folder / "hone.db", sqlite::Access::kReadWrite);
  ASSERT_TRUE(blocker.ok());
  Provenance miss;
  absl::Status flushed;
  std::thread flush;
  {
    auto transaction =
        sqlite::Transaction::Begin(blocker->get(), sqlite::Access::kReadWrite);
    ASSERT_TRUE(transaction.ok());
    keeper.CountLookup(SmallProblem(2048), TestGpu(), miss);
    flush = std::thread([&] { flushed = keeper.Flush(); });
    absl::SleepFor(absl::Milliseconds(50));
    const absl::Time start = absl::Now();
    for (int i = 0; i < 1000; ++i)
      keeper.CountLookup(SmallProblem(), TestGpu(), miss);
    EXPECT_LT(absl::Now() - start, absl::Milliseconds(500));
  }
  flush.join();
  EXPECT_TRUE(flushed.ok()) << flushed;
  const auto views = keeper.View();
  ASSERT_TRUE(views.ok()) << views.status();
  ASSERT_THAT(*views, SizeIs(2));
  EXPECT_NEAR(views->at(0).traffic.misses, 1, 1e-3);
  EXPECT_NEAR(views->at(1).traffic.misses, 1000, 1);
}

TEST(TrafficService, MemoryOfMissesIsBoundedAndSaysWhatItLeftOut) {
  TempFolder folder;
  auto store = Store::Open(folder / "hone.db");
  ASSERT_TRUE(store.ok());
  auto tables = TableCache::Create(store->get(), "closure");
  Logger log([](absl::string_view) {});
  TrafficKeeper keeper(store->get(), tables->get(), &log, {.max_pending = 3});
  for (int i = 1; i <= 5; ++i)
    keeper.CountLookup(SmallProblem(64 * i), TestGpu(), Provenance());
  keeper.CountLookup(SmallProblem(64), TestGpu(), Provenance());
  EXPECT_EQ(keeper.uncounted(), 2);
  EXPECT_THAT(*keeper.View(), SizeIs(3));
}

}  // namespace
}  // namespace hone
