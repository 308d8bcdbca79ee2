// hone traffic and hone tune --from-traffic.
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "service/cli/traffic_file.h"
#include "tests/service/cli/command_fixture.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class TrafficCommandTest : public CommandTest {
 protected:
  std::string WriteFile(const std::string& text) {
    const std::string path = Path("traffic.json");
    std::ofstream(path) << text;
    return path;
  }
};

constexpr char kFile[] = R"({
  "report_id": "00000000-0000-4000-8000-000000000001",
  "problems": [
    {"problem": "n=8192,k=4096,b=int4,b_scale=group,b_group=128",
     "calls": {"16": 300, "1": 120000}},
    {"problem": "n=64,k=64", "calls": {"2048": 1}}]})";

TEST_F(TrafficCommandTest, PrintsWhereTimeIsSpent) {
  const auto service = Start();
  const RunResult result = Run({"traffic"});
  ASSERT_EQ(result.code, 0) << result.err;
  // The most time first; another device's own 100 % stands by itself.
  const size_t much = result.out.find("2048x512");
  const size_t little = result.out.find("1024x512");
  const size_t missed = result.out.find("3072x512");
  ASSERT_NE(much, std::string::npos) << result.out;
  ASSERT_NE(little, std::string::npos) << result.out;
  ASSERT_NE(missed, std::string::npos) << result.out;
  EXPECT_LT(much, little);
  EXPECT_LT(little, missed);
  EXPECT_THAT(result.out, HasSubstr("60.0 %"));
  EXPECT_THAT(result.out, HasSubstr("100 (75 %), 16 (25 %)"));
  EXPECT_THAT(result.out, HasSubstr("missing, time MODELLED"));
  EXPECT_THAT(result.out, HasSubstr("7.0"));
  EXPECT_THAT(result.out, Not(HasSubstr("a call")));
  const RunResult whole = Run({"traffic", "--histogram"});
  EXPECT_THAT(whole.out, HasSubstr("a call"));
  EXPECT_THAT(whole.out, HasSubstr("75.0 %"));
}

TEST_F(TrafficCommandTest, PrintsJson) {
  const auto service = Start();
  const RunResult result = Run({"traffic", "-o", "json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = ParseJson(result.out);
  const auto& problems = json.fields().at("problems").list_value();
  ASSERT_EQ(problems.values_size(), 5);
  const auto& second = problems.values(1).struct_value().fields();
  EXPECT_EQ(second.at("table").string_value(), "TABLE_STATE_MISSING");
  EXPECT_EQ(second.at("time_share").number_value(), 0.6);
  EXPECT_EQ(second.at("points").list_value().values_size(), 2);
  const RunResult lines = Run({"traffic", "-o", "jsonl"});
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 5);
}

TEST_F(TrafficCommandTest, ReportsAFile) {
  const auto service = Start();
  const std::string path = WriteFile(kFile);
  const RunResult result = Run({"traffic", "--report", path});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "Counted the calls of 2 problems.\n");
  ASSERT_THAT(service->reports(), SizeIs(1));
  const v1::ReportTrafficRequest report = service->reports()[0];
  EXPECT_EQ(report.report_id(), "00000000-0000-4000-8000-000000000001");
  ASSERT_EQ(report.problems_size(), 2);
  EXPECT_EQ(report.problems(0).problem().layer().n(), 8192);
  EXPECT_EQ(report.problems(0).problem().layer().b_group(), 128);
  ASSERT_EQ(report.problems(0).calls_size(), 2);
  EXPECT_EQ(report.problems(0).calls(0).m(), 1);
  EXPECT_EQ(report.problems(0).calls(0).calls(), 120000);
  EXPECT_EQ(report.problems(0).calls(1).m(), 16);
  // Again: the same id, which the daemon knows.
  EXPECT_EQ(Run({"traffic", "--report", path}).out,
            "Counted before; nothing was added.\n");
  const RunResult json = Run({"traffic", "--report", path, "-o", "json"});
  EXPECT_THAT(json.out, HasSubstr("\"counted\":false"));
}

TEST(TrafficFileTest, MistakesAreNamed) {
  const auto error = [](const std::string& text) {
    const auto parsed = ParseTrafficFile("f", text);
    EXPECT_FALSE(parsed.ok()) << text;
    return std::string(parsed.status().message());
  };
  const auto calls = [&](const std::string& text) {
    return error(R"({"problems":[{"problem":"n=64,k=64","calls":)" + text +
                 "}]}");
  };
  EXPECT_THAT(error("["), HasSubstr("f is not a JSON object"));
  EXPECT_THAT(error("{}"), HasSubstr("\"problems\" must be a list"));
  EXPECT_THAT(error(R"({"problems":[]})"), HasSubstr("at least one problem"));
  EXPECT_THAT(error(R"({"problem":[]})"), HasSubstr("\"problem\" is unknown"));
  EXPECT_THAT(error(R"({"report_id":3,"problems":[]})"), HasSubstr("UUID"));
  EXPECT_THAT(error(R"({"problems":[3]})"), HasSubstr("f: problem 1 must be"));
  EXPECT_THAT(error(R"({"problems":[{"calls":{"1":1}}]})"),
              HasSubstr("\"problem\" must be a problem's canonical text"));
  EXPECT_THAT(error(R"({"problems":[{"problem":"n=0,k=64","calls":{"1":1}}]})"),
              HasSubstr("n is 0"));
  EXPECT_THAT(error(R"({"problems":[{"problem":"x","calls":{"1":1}}]})"),
              HasSubstr("f: problem 1: \"problem\""));
  EXPECT_THAT(calls("{}"), HasSubstr("counts by M"));
  EXPECT_THAT(calls(R"({"0":1})"), HasSubstr("M must be 1 to"));
  EXPECT_THAT(calls(R"({"x":1})"), HasSubstr("has \"x\""));
  EXPECT_THAT(calls(R"({"4":0})"), HasSubstr("at M = 4"));
  EXPECT_THAT(calls(R"({"4":1.5})"), HasSubstr("integer"));
  EXPECT_THAT(calls(R"({"4":"1"})"), HasSubstr("integer"));
  EXPECT_TRUE(ParseTrafficFile("f", kFile).ok());
}

TEST_F(TrafficCommandTest, AMissingFileIsAUsageError) {
  const RunResult result = Run({"traffic", "--report", Path("none")});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("cannot read the traffic file"));
}

std::vector<int64_t> LayersOf(const std::vector<v1::TuneLayerRequest>& tuned) {
  std::vector<int64_t> layers;
  for (const v1::TuneLayerRequest& request : tuned)
    layers.push_back(request.problem().layer().n());
  return layers;
}

TEST_F(TrafficCommandTest, TunesInTheOrderOfWhatIsSaved) {
  const auto service = Start();
  const RunResult result =
      Run({"tune", "--from-traffic", "--budget", "80s", "--max-kernels", "5"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto tuned = service->tuned();
  // Not the fresh one, and not the other device's.
  EXPECT_THAT(LayersOf(tuned), ElementsAre(2048, 1024, 3072));
  EXPECT_EQ(tuned[0].max_kernels(), 5);
  EXPECT_THAT(tuned[0].ladder(), ElementsAre(1, 16, 64, 100, 256, 1024, 4096));
  EXPECT_EQ(tuned[2].ladder_size(), 23);
  // In proportion, but for the least of what only missed; nothing took any
  // time.
  EXPECT_NEAR(static_cast<double>(tuned[0].budget().seconds()), 60, 1);
  EXPECT_NEAR(static_cast<double>(tuned[1].budget().seconds()), 70, 1);
  EXPECT_THAT(result.out,
              HasSubstr("Tuned now: 70.0 % of the time that was reported; "
                        "30.0 % had a fresh table."));
}

TEST_F(TrafficCommandTest, FromTrafficAsJson) {
  const auto service = Start();
  service->FailAtN(1024);
  const RunResult result = Run({"tune", "--from-traffic", "-o", "json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("1 of 3 tunes failed"));
  const auto json = ParseJson(result.out);
  EXPECT_NEAR(json.fields().at("time_share_tuned").number_value(), 0.6, 1e-6);
  EXPECT_NEAR(json.fields().at("time_share_fresh").number_value(), 0.3, 1e-6);
  const auto& tunes = json.fields().at("tunes").list_value();
  ASSERT_EQ(tunes.values_size(), 3);
  EXPECT_EQ(tunes.values(1).struct_value().fields().at("state").string_value(),
            "failed");
  EXPECT_THAT(
      tunes.values(1).struct_value().fields().at("error").string_value(),
      HasSubstr("WORKER_LOST"));
}

TEST_F(TrafficCommandTest, AnInterruptLeavesTheRest) {
  const auto service = Start();
  service->Hold([&] { ++interrupts_; });
  const RunResult result = Run({"tune", "--from-traffic"});
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(LayersOf(service->tuned()), ElementsAre(2048));
  EXPECT_THAT(result.out, HasSubstr("not run"));
  EXPECT_THAT(result.out, HasSubstr("Tuned now: 0.0 %"));
}

TEST_F(TrafficCommandTest, FromTrafficGoesWithNoLayer) {
  const auto service = Start();
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--n", "64"},
        {"--ladder", "1,2"},
        {"--retune"},
        {"--detach"}}) {
    std::vector<std::string> args = {"tune", "--from-traffic"};
    args.insert(args.end(), more.begin(), more.end());
    const RunResult result = Run(args);
    EXPECT_EQ(result.code, 2) << more[0];
    EXPECT_THAT(result.err, HasSubstr("--from-traffic"));
  }
  EXPECT_THAT(service->tuned(), IsEmpty());
}

}  // namespace
}  // namespace hone
