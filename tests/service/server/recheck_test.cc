// Rechecks over real gRPC and SQLite, on a simulated GPU whose driver and times
// change while honed is down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/service/support/test_daemon.h"

namespace hone {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

DeviceSpec NewerDriver() {
  DeviceSpec device = TestGpu();
  device.driver = "590.1";
  return device;
}

v1::RecheckTablesRequest RequestFor(int id) {
  v1::RecheckTablesRequest request;
  request.set_request_id(TestId(id));
  return request;
}

absl::StatusOr<v1::RecheckReport> Recheck(
    TestDaemon& daemon, const v1::RecheckTablesRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  const auto reader = daemon.stub().RecheckTables(&context, request);
  v1::RecheckTablesResponse message;
  absl::StatusOr<v1::RecheckReport> report =
      absl::InternalError("the stream had no result");
  while (reader->Read(&message)) {
    if (message.has_progress()) {
      EXPECT_LE(message.progress().done(), message.progress().total());
    }
    if (message.has_result()) report = message.result();
  }
  const absl::Status status = FromGrpcStatus(reader->Finish());
  if (!status.ok()) return status;
  return report;
}

v1::ListTunesResponse Jobs(TestDaemon& daemon) {
  grpc::ClientContext context;
  v1::ListTunesResponse jobs;
  EXPECT_TRUE(
      daemon.stub().ListTunes(&context, v1::ListTunesRequest(), &jobs).ok());
  return jobs;
}

// Waits until no job is queued or runs.
v1::ListTunesResponse WaitForJobs(TestDaemon& daemon) {
  v1::ListTunesResponse jobs;
  for (int i = 0; i < 2000; ++i) {
    jobs = Jobs(daemon);
    bool busy = false;
    for (const v1::Tune& job : jobs.tunes()) {
      busy |= job.state() == v1::TUNE_STATE_QUEUED ||
              job.state() == v1::TUNE_STATE_RUNNING;
    }
    if (!busy) return jobs;
    absl::SleepFor(absl::Milliseconds(10));
  }
  ADD_FAILURE() << "jobs go on";
  return jobs;
}

// What the daemon serves at its ladder.
std::set<std::string> Served(TestDaemon& daemon, const Problem& problem) {
  std::set<std::string> configs;
  for (const int64_t m : {1, 16, 64}) {
    configs.insert(daemon.GetConfig(problem, m)->config().text());
  }
  return configs;
}

void MustTune(TestDaemon& daemon, const Problem& problem, int id) {
  const auto result = daemon.Tune(daemon.TuneRequestFor(problem, TestId(id)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->trade_off().empty());
}

TEST(Recheck, OnTheSameDeviceEveryTableIsKept) {
  TestDaemon daemon;
  MustTune(daemon, SmallProblem(), 1);
  MustTune(daemon, SmallProblem(2048), 2);
  const auto report = Recheck(daemon, RequestFor(3));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->passed());
  EXPECT_TRUE(report->complete());
  EXPECT_LT(report->median_regret(), 0.01);
  EXPECT_EQ(report->keys(), 6);
  EXPECT_EQ(report->failed(), 0);
  EXPECT_EQ(report->device().driver(), "580.65");
  ASSERT_THAT(report->tables(), SizeIs(2));
  for (const v1::RecheckedTable& table : report->tables()) {
    EXPECT_EQ(table.verdict(), v1::RECHECK_VERDICT_KEPT);
    EXPECT_EQ(table.planned(), 3);
    EXPECT_THAT(table.points(), SizeIs(3));
    EXPECT_THAT(table.soft_differences(), IsEmpty());
    EXPECT_THAT(table.retune_id(), IsEmpty());
    for (const v1::RecheckPoint& point : table.points()) {
      EXPECT_GT(point.kernels(), 2);
      EXPECT_EQ(point.regret().rounds(), 25);
      EXPECT_GT(point.default_ns(), 0);
    }
  }
  // The job has no problem of its own; one of one table has.
  EXPECT_FALSE(Jobs(daemon).tunes(0).has_problem());
  EXPECT_EQ(Jobs(daemon).tunes(0).kind(), v1::JOB_KIND_RECHECK);
  v1::RecheckTablesRequest one = RequestFor(4);
  *one.mutable_problem() = ToProto(SmallProblem(2048));
  one.set_keys(2);
  const auto second = Recheck(daemon, one);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_THAT(second->tables(), SizeIs(1));
  EXPECT_EQ(second->tables(0).problem().layer().n(), 2048);
  EXPECT_THAT(second->tables(0).points(), SizeIs(2));
  EXPECT_EQ(Jobs(daemon).tunes(0).problem().layer().n(), 2048);
}

TEST(Recheck, HonedDoesItByItselfOnceTheDriverHasChanged) {
  TestDaemon daemon;
  MustTune(daemon, SmallProblem(), 1);
  EXPECT_THAT(daemon.GetConfig(SmallProblem(), 16)->provenance().notes(),
              IsEmpty());
  daemon.Stop();
  daemon.gpu = NewerDriver();
  daemon.Start();
  const v1::ListTunesResponse jobs = WaitForJobs(daemon);
  ASSERT_THAT(jobs.tunes(), SizeIs(1));  // and no tune
  EXPECT_EQ(jobs.tunes(0).state(), v1::TUNE_STATE_SUCCEEDED)
      << jobs.tunes(0).error();
  EXPECT_EQ(jobs.tunes(0).progress().phase(), v1::TUNE_PHASE_RECHECK);
  EXPECT_EQ(jobs.tunes(0).progress().done(), 3);
  EXPECT_THAT(daemon.log_lines(),
              Contains(testing::AllOf(
                  HasSubstr("recheck_queued"),
                  HasSubstr("driver 590.1 here, 580.65 measured"))));
  // The table stays, and says no more that the driver differs.
  const auto answer = daemon.GetConfig(SmallProblem(), 16);
  EXPECT_EQ(answer->provenance().match(), v1::MATCH_KIND_EXACT);
  EXPECT_EQ(answer->provenance().revision(), 1);
  EXPECT_THAT(answer->provenance().notes(), IsEmpty());
  // Once is enough.
  daemon.Stop();
  daemon.Start();
  EXPECT_THAT(Jobs(daemon).tunes(), IsEmpty());
}

TEST(Recheck, WithoutItTheChangeIsOnlyFlagged) {
  TestDaemon daemon;
  MustTune(daemon, SmallProblem(), 1);
  daemon.Stop();
  daemon.gpu = NewerDriver();
  daemon.recheck = false;
  daemon.Start();
  EXPECT_THAT(Jobs(daemon).tunes(), IsEmpty());
  EXPECT_THAT(daemon.GetConfig(SmallProblem(), 16)->provenance().notes(),
              Contains(HasSubstr("driver 590.1 here")));
  // Nor is it kept by a recheck that only reports.
  v1::RecheckTablesRequest request = RequestFor(2);
  request.set_report_only(true);
  const auto report = Recheck(daemon, request);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->report_only());
  EXPECT_TRUE(report->passed());
  EXPECT_THAT(daemon.GetConfig(SmallProblem(), 16)->provenance().notes(),
              Contains(HasSubstr("driver 590.1 here")));
}

TEST(Recheck, TablesThatTheChangeMadeSlowAreTunedAgain) {
  TestDaemon daemon;
  MustTune(daemon, SmallProblem(), 1);
  const std::set<std::string> before = Served(daemon, SmallProblem());
  daemon.Stop();
  // Under the new driver what was served takes a fifth longer.
  daemon.gpu = NewerDriver();
  daemon.time = [before](const TuningConfig& config, int64_t m) {
    return SimulatedTime(config, m) *
           (before.contains(config.ToString()) ? 1.2 : 1.0);
  };
  daemon.Start();
  v1::ListTunesResponse jobs;
  for (int i = 0; i < 2000 && jobs.tunes_size() < 2; ++i) {
    jobs = WaitForJobs(daemon);
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_THAT(jobs.tunes(), SizeIs(2));
  const v1::Tune& tune = jobs.tunes(0);  // the newest
  EXPECT_EQ(tune.state(), v1::TUNE_STATE_SUCCEEDED) << tune.error();
  EXPECT_EQ(tune.problem().layer().n(), 1024);
  // In time that nobody needs.
  EXPECT_TRUE(tune.idle());
  // By what is measured under the new driver alone.
  EXPECT_EQ(tune.progress().reused(), 0);
  EXPECT_THAT(daemon.log_lines(),
              Contains(testing::AllOf(HasSubstr("recheck_retune"),
                                      HasSubstr(tune.tune_id()))));
  const auto answer = daemon.GetConfig(SmallProblem(), 16);
  EXPECT_EQ(answer->provenance().revision(), 2);
  EXPECT_THAT(answer->provenance().notes(), IsEmpty());
  EXPECT_FALSE(before.contains(answer->config().text()));
}

TEST(Recheck, ATuneReusesWhatAnotherDriverMeasuredOnlyWhereItWasKept) {
  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept);
    TestDaemon daemon;
    MustTune(daemon, SmallProblem(), 1);
    daemon.Stop();
    daemon.gpu = NewerDriver();
    daemon.recheck = kept;
    daemon.Start();
    WaitForJobs(daemon);
    v1::TuneLayerRequest request =
        daemon.TuneRequestFor(SmallProblem(), TestId(2));
    request.set_retune(true);
    const auto tuned = daemon.Tune(request);
    ASSERT_TRUE(tuned.ok()) << tuned.status();
    EXPECT_EQ(tuned->trials_reused() > 0, kept);
  }
}

TEST(Recheck, ImportedTablesAreVerifiedWhereTheyBeatOrTieTheDefault) {
  // On the first device the defaults are slow, so that others are served.
  std::set<std::string> defaults;
  for (const int64_t m : DefaultLadder()) {
    defaults.insert(HeuristicDefault(SmallProblem(), TestGpu(), m).ToString());
  }
  const auto slow_defaults = [&](const TuningConfig& config, int64_t m) {
    return SimulatedTime(config, m) *
           (defaults.contains(config.ToString()) ? 1.5 : 1.0);
  };
  std::string bundle;
  std::set<std::string> served;
  {
    TestDaemon there;
    there.Stop();
    there.time = slow_defaults;
    there.Start();
    MustTune(there, SmallProblem(), 1);
    served = Served(there, SmallProblem());
    grpc::ClientContext context;
    const auto reader = there.stub().Export(&context, v1::ExportRequest());
    v1::ExportResponse message;
    while (reader->Read(&message)) bundle += message.chunk();
    ASSERT_TRUE(reader->Finish().ok());
  }
  for (const std::string& config : served) {
    ASSERT_FALSE(defaults.contains(config)) << config;
  }
  for (const bool slow : {false, true}) {
    SCOPED_TRACE(slow);
    TestDaemon here;
    here.Stop();
    here.time = slow_defaults;
    if (slow) {
      here.time = [&](const TuningConfig& config, int64_t m) {
        return SimulatedTime(config, m) *
               (served.contains(config.ToString()) ? 1.5 : 1.0);
      };
    }
    here.Start();
    {
      grpc::ClientContext context;
      v1::ImportResponse response;
      const auto writer = here.stub().Import(&context, &response);
      v1::ImportRequest message;
      message.set_chunk(bundle);
      writer->Write(message);
      writer->WritesDone();
      ASSERT_TRUE(writer->Finish().ok());
    }
    EXPECT_FALSE(here.GetConfig(SmallProblem(), 16)->provenance().verified());
    const auto report = Recheck(here, RequestFor(2));
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_THAT(report->tables(), SizeIs(1));
    EXPECT_TRUE(report->tables(0).imported());
    EXPECT_EQ(report->tables(0).verdict(), slow ? v1::RECHECK_VERDICT_UNVERIFIED
                                                : v1::RECHECK_VERDICT_VERIFIED);
    EXPECT_FALSE(report->has_median_regret());  // no local table
    EXPECT_EQ(here.GetConfig(SmallProblem(), 16)->provenance().verified(),
              !slow);
    EXPECT_THAT(WaitForJobs(here).tunes(), SizeIs(1));
    // Once verified it is rechecked after a change like any other; before, a
    // change is no reason to.
    here.Stop();
    here.gpu = NewerDriver();
    here.Start();
    EXPECT_THAT(WaitForJobs(here).tunes(), SizeIs(slow ? 0 : 1));
    const auto answer = here.GetConfig(SmallProblem(), 16);
    EXPECT_EQ(answer->provenance().verified(), !slow);
    EXPECT_EQ(answer->provenance().notes().empty(), !slow);
  }
}

TEST(Recheck, RefusesWhatItCannotDo) {
  TestDaemon daemon;
  const auto nothing = Recheck(daemon, RequestFor(1));
  EXPECT_EQ(nothing.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(nothing.status()), "TABLE_NOT_FOUND");
  v1::RecheckTablesRequest request;
  request.set_request_id("x");
  request.set_keys(-1);
  request.mutable_budget()->set_seconds(9);
  request.mutable_problem();
  const auto bad = Recheck(daemon, request);
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  std::set<std::string> fields;
  for (const FieldViolation& violation : ViolationsOf(bad.status()))
    fields.insert(violation.field);
  for (const std::string field : {"request_id", "keys", "budget"})
    EXPECT_TRUE(fields.contains(field)) << field;
  EXPECT_GT(fields.size(), 3u);  // the problem's
  TestDaemon idle(/*can_tune=*/false);
  EXPECT_EQ(ReasonOf(Recheck(idle, RequestFor(1)).status()), "NO_DEVICE");
}

}  // namespace
}  // namespace hone
