#include "service/cli/args.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cli/format.h"
#include "service/cli/layer_flags.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Flag> SomeFlags() {
  std::vector<Flag> flags = LayerFlags();
  flags.push_back({"address", "ADDRESS", "", /*repeated=*/true});
  flags.push_back({"output", "FORMAT", ""});
  flags.push_back({"budget", "TIME", ""});
  flags.push_back({"ladder", "M,M,...", ""});
  return flags;
}

absl::StatusOr<ParsedArgs> Parse(const std::vector<std::string>& args) {
  return ParseArgs(SomeFlags(), args, 2);
}

std::string ParseError(const std::vector<std::string>& args) {
  const absl::Status status = Parse(args).status();
  EXPECT_EQ(ExitOf(status), Exit::kUsage);
  return std::string(status.message());
}

std::string ProblemError(const std::vector<std::string>& args) {
  const absl::StatusOr<ParsedArgs> parsed = Parse(args);
  if (!parsed.ok()) return std::string(parsed.status().message());
  const absl::Status status = ProblemFromFlags(*parsed).status();
  EXPECT_EQ(ExitOf(status), Exit::kUsage);
  return std::string(status.message());
}

TEST(ArgsTest, TakesBothWaysOfGivingAValue) {
  const auto parsed =
      Parse({"--n=8", "--k", "16", "--bias", "file", "-o", "json"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->Get("n"), "8");
  EXPECT_EQ(parsed->Get("k"), "16");
  EXPECT_TRUE(parsed->Has("bias"));
  EXPECT_FALSE(parsed->Has("group"));
  EXPECT_EQ(parsed->Get("output"), "json");
  EXPECT_THAT(parsed->positional(), ElementsAre("file"));
}

TEST(ArgsTest, ShortOutputAndRepeatedFlags) {
  EXPECT_EQ(Parse({"-ojson"})->Get("output"), "json");
  EXPECT_EQ(Parse({"-o=jsonl"})->Get("output"), "jsonl");
  EXPECT_THAT(Parse({"--address=a", "--address", "b"})->All("address"),
              ElementsAre("a", "b"));
  EXPECT_THAT(Parse({"--", "--n"})->positional(), ElementsAre("--n"));
}

TEST(ArgsTest, RefusesWhatItDoesNotKnowByName) {
  EXPECT_THAT(ParseError({"--nn=8"}),
              AllOf(HasSubstr("unknown flag --nn"), HasSubstr("--group")));
  EXPECT_THAT(ParseError({"--n"}), HasSubstr("--n needs a value"));
  EXPECT_THAT(ParseError({"--n=1", "--n=2"}), HasSubstr("--n is given twice"));
  EXPECT_THAT(ParseError({"--bias=yes"}), HasSubstr("--bias is a switch"));
  EXPECT_THAT(ParseError({"a", "b", "c"}), HasSubstr("'c'"));
}

TEST(ArgsTest, BoundsAreNamed) {
  const auto parsed = Parse({"--n=0", "--budget=2m", "--k=x"});
  EXPECT_EQ(parsed->Int("n", 1, 9).status().message(),
            "--n is '0'; it must be an integer from 1 to 9");
  EXPECT_FALSE(parsed->Int("k", 1, 9).ok());
  EXPECT_EQ(*parsed->Int("group", 1, 9), std::nullopt);
  EXPECT_EQ(**parsed->Time("budget", absl::Seconds(1), absl::Hours(24)),
            absl::Minutes(2));
  EXPECT_EQ(parsed->Time("budget", absl::Seconds(1), absl::Minutes(1))
                .status()
                .message(),
            "--budget is '2m'; it must be a time from 1s to 1m, such as 90s or "
            "2m");
  EXPECT_EQ(**Parse({"--budget=90"})
                  ->Time("budget", absl::Seconds(1), absl::Hours(24)),
            absl::Seconds(90));
}

TEST(LayerFlagsTest, ScalesAndOutputFollowTheActivations) {
  const auto parsed = Parse({"--n=8192", "--k=4096", "--a=bfloat16", "--b=int8",
                             "--group=128", "--bias"});
  const auto problem = ProblemFromFlags(*parsed);
  ASSERT_TRUE(problem.ok()) << problem.status();
  Problem expected;
  expected.layer.n = 8192;
  expected.layer.k = 4096;
  expected.layer.a = expected.layer.c = expected.layer.b_scale_type = kBfloat16;
  expected.layer.b = kInt8;
  expected.layer.b_scale = ScaleGranularity::kGroup;
  expected.layer.b_group = 128;
  expected.layer.bias = true;
  EXPECT_EQ(*problem, expected);
}

TEST(LayerFlagsTest, BatchInvarianceIsOfTheComputeConfig) {
  const auto problem =
      ProblemFromFlags(*Parse({"--n=64", "--k=128", "--batch-invariant"}));
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_TRUE(problem->compute.batch_invariant);
  EXPECT_THAT(problem->ToString(), HasSubstr("batch_invariant=1"));
  EXPECT_THAT(DescribeProblem(*problem), HasSubstr(", batch-invariant"));
  const auto without = ProblemFromFlags(*Parse({"--n=64", "--k=128"}));
  EXPECT_FALSE(without->compute.batch_invariant);
  EXPECT_THAT(ProblemError({"--problem=n=8,k=8;", "--batch-invariant"}),
              HasSubstr("--batch-invariant cannot stand beside --problem"));
}

TEST(LayerFlagsTest, NarrowActivationsHaveScales) {
  const auto token =
      ProblemFromFlags(*Parse({"--n=64", "--k=128", "--a=float8e4m3"}));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->layer.a_scale, InputScale::kToken);
  EXPECT_EQ(token->layer.c, kFloat16);
  EXPECT_EQ(token->layer.b_scale_type, kFloat16);
  const auto group = ProblemFromFlags(
      *Parse({"--n=64", "--k=128", "--a=int8", "--b=int8", "--c=bfloat16",
              "--a-scale=group", "--a-group=64"}));
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->layer.a_scale, InputScale::kGroup);
  EXPECT_EQ(group->layer.a_group, 64);
  EXPECT_EQ(group->layer.c, kBfloat16);
  EXPECT_THAT(ProblemError({"--n=8", "--k=8", "--a=int8", "--a-scale=row"}),
              HasSubstr("one of none, tensor, token, group"));
  EXPECT_THAT(ProblemError({"--n=8", "--k=8", "--a=int8", "--a-group=32"}),
              HasSubstr("--a-group is 32"));
}

TEST(LayerFlagsTest, PresetsAndZeroPoints) {
  const auto mxfp4 =
      ProblemFromFlags(*Parse({"--n=64", "--k=128", "--b=mxfp4"}));
  ASSERT_TRUE(mxfp4.ok()) << mxfp4.status();
  EXPECT_EQ(mxfp4->layer.b, kFloat4e2m1);
  EXPECT_EQ(mxfp4->layer.b_scale_type, kFloat8e8m0);
  EXPECT_EQ(mxfp4->layer.b_group, 32);
  const auto awq =
      ProblemFromFlags(*Parse({"--n=64", "--k=128", "--b=uint4", "--group=128",
                               "--zero-point=integer"}));
  ASSERT_TRUE(awq.ok()) << awq.status();
  EXPECT_EQ(awq->layer.zero_point, ZeroPoint::kInteger);
  EXPECT_THAT(ProblemError({"--n=8", "--k=8", "--b=nvfp4", "--group=16"}),
              HasSubstr("--group cannot stand beside --b=nvfp4"));
  EXPECT_THAT(ProblemError({"--n=8", "--k=8", "--b=uint4", "--zero-point=7"}),
              HasSubstr("one of none, integer, float"));
}

TEST(LayerFlagsTest, CanonicalTextIsTheSameProblem) {
  const auto flags = ProblemFromFlags(*Parse({"--n=64", "--k=128"}));
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->layer.b_scale, ScaleGranularity::kChannel);
  const auto text = ProblemFromFlags(*Parse({"--problem", flags->ToString()}));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, *flags);
}

TEST(LayerFlagsTest, ErrorsNameTheFlag) {
  EXPECT_THAT(ProblemError({"--k=8"}), HasSubstr("--n is missing"));
  EXPECT_THAT(ProblemError({"--n=8"}), HasSubstr("--k is missing"));
  EXPECT_THAT(ProblemError({"--n=8", "--k=8", "--b=int99"}), HasSubstr("--b"));
  EXPECT_THAT(ProblemError({"--n=8", "--k=8", "--a=float32"}),
              AllOf(HasSubstr("--a"), HasSubstr("bfloat16")));
  EXPECT_THAT(ProblemError({"--n=8", "--k=8", "--problem=x"}),
              HasSubstr("cannot stand beside --problem"));
  EXPECT_THAT(ProblemError({"--problem=x"}), HasSubstr("--problem: "));
}

TEST(LayerFlagsTest, LaddersRise) {
  EXPECT_THAT(*LadderFromFlags(*Parse({"--ladder=1,2,16"})),
              ElementsAre(1, 2, 16));
  EXPECT_THAT(*LadderFromFlags(*Parse({})), ElementsAre());
  for (const char* bad : {"2,1", "0", "1,1", "", "1,,2", "x"}) {
    const auto parsed = Parse({"--ladder", bad});
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(ExitOf(LadderFromFlags(*parsed).status()), Exit::kUsage) << bad;
  }
}

TEST(ExitTest, CodesTravelWithTheStatus) {
  EXPECT_EQ(ExitOf(absl::OkStatus()), Exit::kOk);
  EXPECT_EQ(ExitOf(absl::InternalError("x")), Exit::kFailed);
  EXPECT_EQ(ExitOf(WithExit(absl::CancelledError("x"), Exit::kInterrupted)),
            Exit::kInterrupted);
}

}  // namespace
}  // namespace hone
