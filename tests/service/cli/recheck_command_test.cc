// hone recheck against a TuningService with a scripted report.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/cli/command_fixture.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using RecheckCommandTest = CommandTest;

TEST_F(RecheckCommandTest, UsageErrorsNameTheFlag) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--keys=0", "--keys"},
      {"--keys=10001", "--keys"},
      {"--budget=9s", "--budget"},
      {"--seed=0", "--seed"},
      {"--n=8", "--k"},
      {"--what", "--what"},
  };
  for (const auto& [flag, message] : cases) {
    const RunResult result = Run({"recheck", flag});
    EXPECT_EQ(result.code, 2) << flag;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(RecheckCommandTest, AsksForAllTablesAndReports) {
  const auto service = Start();
  const RunResult result =
      Run({"recheck", "--keys=7", "--budget=90s", "--seed=5", "--report-only"});
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_THAT(service->rechecks(), SizeIs(1));
  const v1::RecheckTablesRequest request = service->rechecks()[0];
  EXPECT_FALSE(request.has_problem());
  EXPECT_EQ(request.keys(), 7);
  EXPECT_EQ(request.budget().seconds(), 90);
  EXPECT_EQ(request.seed(), 5u);
  EXPECT_TRUE(request.report_only());
  EXPECT_FALSE(request.detached());
  EXPECT_THAT(result.err, HasSubstr("recheck 0/2"));
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("MODELLED"), HasSubstr("median 3.1 %, largest 5.0 %"),
            HasSubstr("2 M measured, at 1 the served kernel failed"),
            HasSubstr("not passed: the limit of the median is 1.0 %"),
            HasSubstr("The budget ended"), HasSubstr("Only reported"),
            HasSubstr("driver 590.1 here, 580.65 measured"),
            HasSubstr("retune, queued as the-retune"), HasSubstr("kept"),
            HasSubstr("fault: illegal address"),
            HasSubstr("+5.0 (+4.0 to +6.0) %")));
}

TEST_F(RecheckCommandTest, OneLayerAsJson) {
  const auto service = Start();
  const RunResult result = Run({"recheck", "--n=1024", "--k=512", "-ojson"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(service->rechecks()[0].problem().layer().n(), 1024);
  EXPECT_EQ(service->rechecks()[0].keys(), 0);
  const auto json = ParseJson(result.out);
  EXPECT_EQ(json.fields().at("tables").list_value().values_size(), 2);
  EXPECT_NEAR(json.fields().at("median_regret").number_value(), 0.031, 1e-9);
}

TEST_F(RecheckCommandTest, CanBeLeftToTheDaemon) {
  const auto service = Start();
  const RunResult result = Run({"recheck", "--detach"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(service->rechecks()[0].detached());
  EXPECT_THAT(result.out, HasSubstr("goes on in the daemon as " +
                                    service->rechecks()[0].request_id()));
}

TEST_F(RecheckCommandTest, ErrorsAreTheDaemons) {
  const auto service = Start();
  service->FailWith(
      WithReason(absl::FailedPreconditionError("no table"), "TABLE_NOT_FOUND"));
  const RunResult result = Run({"recheck"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("no table [TABLE_NOT_FOUND]"));
}

}  // namespace
}  // namespace hone
