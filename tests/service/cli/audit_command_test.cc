// hone audit against a TuningService with a scripted report.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/cli/command_fixture.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AuditCommandTest : public CommandTest {
 protected:
  RunResult Audit(const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"audit", "--n=1024", "--k=512"};
    args.insert(args.end(), flags.begin(), flags.end());
    return Run(args);
  }
};

TEST_F(AuditCommandTest, UsageErrorsNameTheFlag) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--tunes=1", "--tunes"},
      {"--kernels=2001", "--kernels"},
      {"--max-kernels=1", "--max-kernels"},
      {"--budget=9s", "--budget"},
      {"--seed=0", "--seed"},
      {"--within=tile=4", "--within: tuning: \"tile=4\""},
      {"--ladder=4,2", "--ladder has '2'"},
      {"--json=", "--json is empty; it must name a file"},
      {"--json=/nowhere/a.json", "--json: cannot write /nowhere/a.json"},
  };
  for (const auto& [flag, message] : cases) {
    const RunResult result = Audit({flag});
    EXPECT_EQ(result.code, 2) << flag;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(AuditCommandTest, AsksForWhatTheFlagsSayAndReports) {
  const auto service = Start();
  const std::string path = Path("audit.json");
  const RunResult result = Audit(
      {"--tunes=3", "--kernels=50", "--max-kernels=16", "--budget=90s",
       "--seed=5", "--within=block_m=16", "--ladder=1,16", "--json=" + path});
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(service->audits().size(), 1u);
  const v1::AuditLayerRequest request = service->audits()[0];
  EXPECT_EQ(request.problem().layer().n(), 1024);
  EXPECT_EQ(request.tunes(), 3);
  EXPECT_EQ(request.kernels(), 50);
  EXPECT_EQ(request.max_kernels(), 16);
  EXPECT_EQ(request.budget().seconds(), 90);
  EXPECT_EQ(request.seed(), 5u);
  EXPECT_EQ(request.within(), "block_m=16");
  EXPECT_THAT(request.ladder(), ElementsAre(1, 16));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("MODELLED"), HasSubstr("published, revision 7"),
                    HasSubstr("50 of 900 legal kernels, from the 40 with "
                              "block_m=16 (all of them)"),
                    HasSubstr("intervals of 95 % each; seed 5"),
                    HasSubstr("The budget ended before"),
                    HasSubstr("median +2.0 %, 95th percentile +2.0 %"),
                    HasSubstr("1 of 1 pairs of tunes differ, 1 M beyond a tie"),
                    HasSubstr("+2.0 (+1.0 to +3.0) %"), HasSubstr("+4.0 %"),
                    HasSubstr("1!"), HasSubstr("not measured")));
  std::ifstream file(path);
  const auto json =
      ParseJson(std::string(std::istreambuf_iterator<char>(file), {}));
  EXPECT_TRUE(json.fields().at("modelled").bool_value());
  EXPECT_EQ(json.fields()
                .at("regret")
                .struct_value()
                .fields()
                .at("median")
                .number_value(),
            1.02);
}

TEST_F(AuditCommandTest, JsonOutputIsTheReport) {
  const auto service = Start();
  const RunResult result = Audit({"-ojson"});
  ASSERT_EQ(result.code, 0) << result.err;
  // The daemon's own defaults.
  EXPECT_EQ(service->audits()[0].tunes(), 0);
  EXPECT_FALSE(service->audits()[0].has_budget());
  const auto json = ParseJson(result.out);
  EXPECT_EQ(json.fields().at("points").list_value().values_size(), 1);
}

TEST_F(AuditCommandTest, AFailedAuditLeavesNoFile) {
  const auto service = Start();
  service->FailWith(
      WithReason(absl::FailedPreconditionError("no GPU"), "NO_DEVICE"));
  const RunResult result = Audit({"--json=" + Path("audit.json")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("no GPU [NO_DEVICE]"));
  EXPECT_FALSE(std::filesystem::exists(Path("audit.json")));
  EXPECT_FALSE(std::filesystem::exists(Path("audit.json.partial")));
}

}  // namespace
}  // namespace hone
