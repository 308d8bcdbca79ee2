// hone bench against a TuningService with scripted answers: 10 µs at M = 1 with
// a floor of 8 µs, once tuned.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"
#include "service/cli/roofline.h"
#include "tests/service/cli/command_fixture.h"
#include "tests/service/cli/xml_reader.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BenchCommandTest : public CommandTest {
 protected:
  RunResult Bench(const std::vector<std::string>& flags) {
    std::vector<std::string> args = {"bench", "--n=1024", "--k=512",
                                     "--count=5"};
    args.insert(args.end(), flags.begin(), flags.end());
    return Run(args);
  }
  void Tune() { ASSERT_EQ(Run({"tune", "--n=1024", "--k=512"}).code, 0); }

  static Floors FloorsAt(int64_t m) {
    Problem problem;
    problem.layer.n = 1024;
    problem.layer.k = 512;
    return FloorsOf(problem, *ModelledDevice("h200"), m);
  }
};

double Number(const google::protobuf::Struct& json, const std::string& name) {
  return json.fields().at(name).number_value();
}

TEST_F(BenchCommandTest, UsageErrorsNameTheFlag) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--m=4,2"}, "--m has '2'; it must be a rising list of at most 256"},
      {{"--roofline="}, "--roofline is empty; it must name a file"},
      {{"--plot", "-ojson"}, "--plot needs --output=table"},
  };
  for (const auto& [flags, message] : cases) {
    const RunResult result = Bench(flags);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(BenchCommandTest, ReportsPercentilesInOrder) {
  const auto service = Start();
  const RunResult result =
      Run({"bench", "--n=1024", "--k=512", "--count=50", "-o", "json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = ParseJson(result.out);
  const auto& lookup = json.fields().at("lookup").struct_value();
  EXPECT_EQ(Number(lookup, "count"), 50);
  EXPECT_GT(Number(lookup, "p50_us"), 0);
  EXPECT_LE(Number(lookup, "p50_us"), Number(lookup, "p90_us"));
  EXPECT_LE(Number(lookup, "p90_us"), Number(lookup, "p99_us"));
  EXPECT_LE(Number(lookup, "p99_us"), Number(lookup, "max_us"));
}

TEST_F(BenchCommandTest, NumbersAreTheDaemonsEvidence) {
  const auto service = Start();
  Tune();
  RunResult result = Bench({"--m=1,4096", "-ojson"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = ParseJson(result.out);
  EXPECT_EQ(Number(json, "memory_gbps"), 4300);
  EXPECT_EQ(Number(json, "peak_tflops"), 883);
  const auto& rows = json.fields().at("table").list_value();
  ASSERT_EQ(rows.values_size(), 2);
  const auto& measured = rows.values(0).struct_value();
  EXPECT_EQ(Number(measured, "m"), 1);
  EXPECT_EQ(Number(measured, "median_ns"), 10000);
  EXPECT_EQ(Number(measured, "floor_ns"), 8000);
  EXPECT_EQ(Number(measured, "of_floor"), 0.8);
  EXPECT_EQ(Number(measured, "default_median_ns"), 12000);
  EXPECT_EQ(measured.fields().at("binds").string_value(), "memory");
  // 2 * 1024 * 512 operations in 10 µs.
  EXPECT_NEAR(Number(measured, "tflops"), 0.1048576, 1e-6);
  EXPECT_NEAR(Number(measured, "tb_per_s"), FloorsAt(1).bytes / 1e4 * 1e-3,
              1e-6);
  // The same config answers, but nobody measured it there.
  const auto& unknown = rows.values(1).struct_value();
  EXPECT_TRUE(unknown.fields().at("median_ns").has_null_value());
  EXPECT_TRUE(unknown.fields().at("tflops").has_null_value());
  EXPECT_NEAR(Number(unknown, "floor_ns"), FloorsAt(4096).ns(), 1);
  EXPECT_EQ(unknown.fields().at("binds").string_value(), "mma");

  result = Bench({"--m=1,4096"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("answer  EXACT, gate EMULATED, revision 4, MODELLED"),
            HasSubstr("   1    10.00      8.00      80 %      0.1  0.03  memory"
                      "  16x64x64"),
            HasSubstr("4096        -      4.86         -        -     -  MMA"),
            HasSubstr("5 lookups over a warm channel")));
}

TEST_F(BenchCommandTest, DrawsTheRoofline) {
  const auto service = Start();
  Tune();
  const std::string path = Path("roofline.svg");
  const RunResult result = Bench({"--plot", "--roofline=" + path});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("M a=1\n"),
                                HasSubstr("Wrote the roofline to " + path)));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  const auto svg = XmlReader::Read(text.str());
  ASSERT_TRUE(svg.has_value());
  EXPECT_THAT(
      svg->All("title")[0]->text,
      HasSubstr("1024x512 int4 channel, float16 activations, MODELLED"));
  EXPECT_THAT(text.str(), HasSubstr("NVIDIA H200 (MODELLED)"));
  const auto circles = svg->All("circle");
  ASSERT_EQ(circles.size(), 1u);
  Roofline roofline;
  roofline.memory_gbps = 4300;
  roofline.tflops = 883;
  roofline.points = {{1, FloorsAt(1).intensity(), 0.1048576}};
  const RooflineAxes axes = AxesOf(roofline);
  const RooflineFrame frame;
  EXPECT_NEAR(std::stod(circles[0]->attributes.at("cx")),
              frame.left + (frame.right - frame.left) *
                               axes.intensity.Share(FloorsAt(1).intensity()),
              0.01);
  EXPECT_NEAR(
      std::stod(circles[0]->attributes.at("cy")),
      frame.bottom - (frame.bottom - frame.top) * axes.tflops.Share(0.1048576),
      0.01);
}

TEST_F(BenchCommandTest, WithoutTimesThereIsNothingToDraw) {
  const auto service = Start();
  RunResult result = Bench({"--m=1,2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("answer  HEURISTIC"));
  result = Bench({"--m=1,2", "--plot"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("none of these M was measured"));
  Tune();
  result = Bench({"--roofline=/nowhere/r.svg"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--roofline: cannot write /nowhere/r.svg"));
}

}  // namespace
}  // namespace hone
