// hone explain against a TuningService with scripted answers.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"
#include "tests/service/cli/command_fixture.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using ExplainCommandTest = CommandTest;

const google::protobuf::Value& At(const google::protobuf::Struct& json,
                                  const std::string& name) {
  return json.fields().at(name);
}

TEST_F(ExplainCommandTest, UsageErrorsNameTheFlag) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--m is missing; it must be an integer from 1"},
      {{"--m=0"}, "--m is '0'; it must be an integer from 1 to 1073741824"},
      {{"--m=1", "--config=stages"}, "--config: tuning: \"stages\" is not"},
      {{"--m=1", "--device=h200"},
       "--device is 'h200'; it must be gpu:N with N from 0, or model: with "
       "one of h200, a100"},
      {{"--m=1", "--device=model:x"}, "--device: no modelled device \"x\""},
      {{"--m=1", "--device=gpu:-1"}, "--device is 'gpu:-1'"},
  };
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> args = {"explain", "--n=1024", "--k=512"};
    args.insert(args.end(), flags.begin(), flags.end());
    const RunResult result = Run(args);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(ExplainCommandTest, ExplainsTheDefaultWithoutADaemon) {
  const RunResult result = Run({"explain", "--n=8192", "--k=8192", "--m=1",
                                "--device=model:a100", "-o", "json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const google::protobuf::Struct json = ParseJson(result.out);
  EXPECT_EQ(At(json, "source").string_value(),
            "the heuristic default: --device=model:a100 asks no honed");
  Problem problem;
  problem.layer.n = problem.layer.k = 8192;
  const DeviceSpec device = *ModelledDevice("a100");
  const TuningConfig config = HeuristicDefault(problem, device, 1);
  EXPECT_EQ(At(json, "config").string_value(), config.ToString());
  EXPECT_TRUE(At(json, "legal").bool_value());
  EXPECT_TRUE(At(json, "time").has_null_value());
  const auto& floor = At(json, "floor").struct_value();
  EXPECT_EQ(At(floor, "bytes").number_value(), MinimumBytes(problem, 1));
  EXPECT_EQ(At(floor, "binds").string_value(), "memory");
  const auto& sm = At(json, "sm").struct_value();
  EXPECT_EQ(At(sm, "smem_bytes").number_value(), SmemBytes(problem, config));
  // Compiled here, with NVRTC.
  EXPECT_EQ(At(sm, "registers_origin").string_value(), "COMPILED");
  EXPECT_GT(At(sm, "registers").number_value(), 30);
  EXPECT_EQ(At(sm, "spill_bytes").number_value(), 0);
}

TEST_F(ExplainCommandTest, WithoutADaemonTakesThisMachinesGpuOrSaysWhatElse) {
  const RunResult result = Run({"explain", "--n=1024", "--k=512", "--m=1"});
  if (result.code == 0) {
    EXPECT_THAT(result.out, HasSubstr("the heuristic default: no honed"));
    return;
  }
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr(Path("a")), HasSubstr("--device=model:h200|")));
}

TEST_F(ExplainCommandTest, ADaemonWithoutADeviceIsSaidSo) {
  const auto service = Start();
  service->FailWith(
      WithReason(absl::NotFoundError("there is no driver"), "NO_DEVICE"));
  const RunResult result = Run({"explain", "--n=1024", "--k=512", "--m=1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("has no device to explain for"),
                                HasSubstr("--device=model:h200|")));
}

TEST_F(ExplainCommandTest, TakesTheTimeFromTheDaemonsEvidence) {
  const auto service = Start();
  const std::vector<std::string> args = {"explain", "--n=1024", "--k=512",
                                         "--m=1"};
  RunResult result = Run(args);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("from    honed: HEURISTIC"),
                                HasSubstr("not measured")));
  ASSERT_EQ(Run({"tune", "--n=1024", "--k=512"}).code, 0);
  result = Run(args);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("from    honed: EXACT, gate EMULATED"),
                    HasSubstr("10.00 µs  MODELLED, median of 20 samples"),
                    HasSubstr("12.00 µs  the untuned"),
                    Not(HasSubstr("not measured"))));
  // Of other configs nothing is known.
  std::vector<std::string> other = args;
  other.push_back("--config=stages=5");
  result = Run(other);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("from    --config"), HasSubstr("not measured"),
                    HasSubstr("5 stages of")));
}

TEST_F(ExplainCommandTest, ListsEveryRuleThatAConfigBreaks) {
  const std::vector<std::string> args = {
      "explain",
      "--n=1024",
      "--k=512",
      "--m=1",
      "--device=model:h200",
      "--config=stages=1,block_n=96,warp_n=96,mmas_in_flight=2"};
  RunResult result = Run(args);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("the config breaks 4 rules"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("  mmas_in_flight: tuning.mmas_in_flight is 2"),
                    HasSubstr("  warp_n_fragments: "),
                    HasSubstr("  block_n_units: "), HasSubstr("  stages: ")));
  std::vector<std::string> json_args = args;
  json_args.push_back("-ojson");
  result = Run(json_args);
  EXPECT_EQ(result.code, 2);
  const google::protobuf::Struct json = ParseJson(result.out);
  EXPECT_FALSE(At(json, "legal").bool_value());
  EXPECT_EQ(At(json, "refusals").list_value().values_size(), 4);
}

TEST_F(ExplainCommandTest, WhatHasNoKernelIsSaidSo) {
  const RunResult result = Run({"explain", "--n=1024", "--k=512", "--m=1",
                                "--a=float4e2m1", "--device=model:a100"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("no kernel for layer.a"),
                                HasSubstr("[NO_KERNEL]")));
}

}  // namespace
}  // namespace hone
