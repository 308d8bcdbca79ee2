// ListTrials, and what ListTunes says of times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/service/support/test_daemon.h"

namespace hone {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::StatusOr<v1::ListTrialsResponse> ListTrials(
    TestDaemon& daemon, const v1::ListTrialsRequest& request) {
  grpc::ClientContext context;
  v1::ListTrialsResponse response;
  const absl::Status status =
      FromGrpcStatus(daemon.stub().ListTrials(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

TEST(ListTrials, PagesHoldEachTrialOnceInTheOrderRecorded) {
  TestDaemon daemon;
  daemon.compiler().outcome = [](const TuningConfig& config) {
    return config.stages % 3 == 0 ? Outcome::kCompileError : Outcome::kMeasured;
  };
  const auto result =
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
  ASSERT_TRUE(result.ok()) << result.status();

  v1::ListTrialsRequest request;
  *request.mutable_problem() = ToProto(SmallProblem());
  request.set_page_size(7);
  std::vector<v1::Trial> trials;
  std::string first_page;
  do {
    const auto page = ListTrials(daemon, request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->protocol().timer(), "cupti");
    ASSERT_LE(page->trials_size(), 7);
    ASSERT_GT(page->trials_size(), 0);
    trials.insert(trials.end(), page->trials().begin(), page->trials().end());
    if (first_page.empty()) first_page = page->SerializeAsString();
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(std::ssize(trials), result->trials_recorded());
  int64_t failed = 0;
  std::set<int64_t> measured_at;
  for (size_t i = 0; i < trials.size(); ++i) {
    const v1::Trial& trial = trials[i];
    EXPECT_EQ(trial.session_id(), TestId(1));
    EXPECT_GT(trial.ended_at().seconds(), 0);
    EXPECT_TRUE(TuningConfig::Parse(trial.config()).ok()) << trial.config();
    if (i > 0) {
      EXPECT_GE(trial.ended_at().seconds(), trials[i - 1].ended_at().seconds());
    }
    if (trial.outcome() == v1::TRIAL_OUTCOME_COMPILE_ERROR) {
      ++failed;
      EXPECT_EQ(trial.median_ns(), 0);
    } else if (trial.outcome() == v1::TRIAL_OUTCOME_MEASURED) {
      measured_at.insert(trial.m());
      EXPECT_GT(trial.median_ns(), 0);
      EXPECT_GT(trial.samples(), 0);
    }
  }
  EXPECT_GT(failed, 0);
  // The ladder, and what was probed between its points.
  for (const int64_t m : {1, 16, 64}) EXPECT_TRUE(measured_at.contains(m)) << m;

  // More trials do not change the pages before them.
  v1::TuneLayerRequest retune =
      daemon.TuneRequestFor(SmallProblem(), TestId(2));
  retune.set_retune(true);
  ASSERT_TRUE(daemon.Tune(retune).ok());
  EXPECT_EQ(ListTrials(daemon, request)->SerializeAsString(), first_page);
}

TEST(ListTrials, NothingMeasuredIsAnEmptyList) {
  TestDaemon daemon;
  v1::ListTrialsRequest request;
  *request.mutable_problem() = ToProto(SmallProblem());
  const auto page = ListTrials(daemon, request);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->trials(), IsEmpty());
  EXPECT_EQ(page->next_page_token(), "");
  EXPECT_FALSE(page->has_protocol());
}

TEST(ListTrials, BadRequestsNameTheField) {
  TestDaemon daemon;
  v1::ListTrialsRequest request;
  EXPECT_EQ(ListTrials(daemon, request).status().code(),
            absl::StatusCode::kInvalidArgument);
  *request.mutable_problem() = ToProto(SmallProblem());
  request.set_page_size(-1);
  EXPECT_EQ(ViolationsOf(ListTrials(daemon, request).status())[0].field,
            "page_size");
  request.set_page_size(0);
  request.set_page_token("dHVuZXM6MDow");  // of the list of tunes: "tunes:0:0"
  EXPECT_EQ(ViolationsOf(ListTrials(daemon, request).status())[0].field,
            "page_token");
  TestDaemon none(/*can_tune=*/false);
  request.clear_page_token();
  EXPECT_EQ(ReasonOf(ListTrials(none, request).status()), "NO_DEVICE");
}

TEST(ListTunes, SaysWhenJobsStartedAndEnded) {
  TestDaemon daemon;
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1))).ok());
  ASSERT_TRUE(
      daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(2))).ok());
  grpc::ClientContext context;
  v1::ListTunesResponse response;
  ASSERT_TRUE(daemon.stub()
                  .ListTunes(&context, v1::ListTunesRequest(), &response)
                  .ok());
  ASSERT_THAT(response.tunes(), SizeIs(2));
  for (const v1::Tune& tune : response.tunes()) {
    const auto us = [](const google::protobuf::Timestamp& time) {
      return time.seconds() * 1'000'000 + time.nanos() / 1000;
    };
    EXPECT_LE(us(tune.submitted_at()), us(tune.started_at()));
    EXPECT_LE(us(tune.started_at()), us(tune.ended_at()));
    EXPECT_EQ(tune.kind(), v1::JOB_KIND_TUNE);
  }
  EXPECT_TRUE(response.tunes(0).already_fresh());
  EXPECT_FALSE(response.tunes(1).already_fresh());
}

}  // namespace
}  // namespace hone
