// Whole commands against a TuningService with scripted answers.
#include "service/cli/command.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/cli/command_fixture.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(CommandTest, UsageErrorsExitWithTwo) {
  const std::map<std::string, std::vector<std::string>> cases = {
      {"a command is missing", {}},
      {"unknown command 'tun'; the commands are serve, tune", {"tun"}},
      {"hone get: --m is missing", {"get", "--n=8", "--k=8"}},
      {"hone get: --output is 'xml'; it must be table, json or jsonl",
       {"get", "-oxml"}},
      {"hone tune: --max-kernels is '1'; it must be an integer from 2 to 512",
       {"tune", "--n=8", "--k=8", "--max-kernels=1"}},
      {"hone sweep: a layer file is missing", {"sweep"}},
      {"hone sweep: cannot read the layer file /nowhere",
       {"sweep", "/nowhere"}},
      {"hone import: cannot read the bundle /nowhere", {"import", "/nowhere"}},
      {"--address is empty", {"devices", "--address="}},
  };
  for (const auto& [message, args] : cases) {
    const RunResult result = Run(args);
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(CommandTest, HelpGoesToStandardOutput) {
  EXPECT_THAT(Run({"--help"}).out,
              AllOf(HasSubstr("Exit codes:"), HasSubstr("  130  ")));
  const RunResult help = Run({"help", "tune"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("--budget=TIME"));
  EXPECT_EQ(Run({"tune", "--help"}).out, help.out);
}

TEST_F(CommandTest, SaysHowToStartADaemonThatIsAway) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"devices"},
                                             {"tune", "--n=8", "--k=8"},
                                             {"export"},
                                             {"sweep", WriteLayers()}}) {
    const RunResult result = Run(args);
    EXPECT_EQ(result.code, 3) << args[0];
    EXPECT_THAT(result.err, AllOf(HasSubstr(Path("a")),
                                  HasSubstr("start it with 'hone serve'")));
  }
}

TEST_F(CommandTest, ServeNamesTheDaemonThatIsMissing) {
  const RunResult result = Run({"serve", "--device=model:h200"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr(Path("bin/honed")));
}

TEST_F(CommandTest, ErrorsOfTheDaemonComeWithTheirFields) {
  const auto service = Start();
  FieldErrors errors;
  errors.Add("problem.layer.b_group", "is 16; it must be one of 32, 64, 128");
  service->FailWith(WithRetry(errors.ToStatus(), absl::Seconds(5)));
  RunResult result = Run({"get", "--n=96", "--k=96", "--group=16", "--m=1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err,
            "hone get: the request was refused [INVALID_FIELD]\n"
            "  problem.layer.b_group is 16; it must be one of 32, 64, 128\n"
            "  try again in 5s\n");
  // Unavailable with details comes from a daemon that is there.
  service->FailWith(
      WithReason(absl::UnavailableError("the GPU is gone"), "DEVICE_LOST"));
  result = Run({"devices"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "hone devices: the GPU is gone [DEVICE_LOST]\n");
}

TEST_F(CommandTest, TuneShowsProgressAndTheTable) {
  const auto service = Start();
  const RunResult result =
      Run({"tune", "--n=1024", "--k=512", "--group", "128", "--ladder=1,2",
           "--budget=90s", "--max-kernels=7", "--table-kernels=3", "--retune"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("race 1/2"));
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("layer   1024x512 int4 group 128"),
            HasSubstr("EXACT, gate EMULATED, revision 4, MODELLED, 1 "
                      "kernel\n"),
            HasSubstr("10.00      8.00      80 %       12.00  +20.0 %"),
            HasSubstr("Tuned in 4 s: 9 trials measured"),
            HasSubstr("    1 *              6.1 %    25.0 %        0.4 s"),
            HasSubstr("      2              0.0 %     0.0 %        0.8 s")));
  // The same curve is stored with the table.
  const RunResult table = Run({"table", "--n=1024", "--k=512", "--group=128"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("    1 *              6.1 %    25.0 %"));
  ASSERT_THAT(service->tuned(), SizeIs(1));
  const v1::TuneLayerRequest request = service->tuned()[0];
  EXPECT_THAT(request.ladder(), ElementsAre(1, 2));
  EXPECT_EQ(request.budget().seconds(), 90);
  EXPECT_EQ(request.max_kernels(), 7);
  EXPECT_EQ(request.max_table_kernels(), 3);
  EXPECT_TRUE(request.retune());
  EXPECT_FALSE(request.detached());
  EXPECT_THAT(request.request_id(),
              testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-"
                                    "[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
}

TEST_F(CommandTest, TuneStreamsEventsAsJsonLines) {
  const auto service = Start();
  const RunResult result = Run({"tune", "--n=1024", "--k=512", "-o", "jsonl"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  std::vector<std::string> kinds;
  for (std::string line; std::getline(lines, line);)
    kinds.push_back(ParseJson(line).fields().begin()->first);
  EXPECT_THAT(kinds, ElementsAre("accepted", "progress", "result"));
}

TEST_F(CommandTest, DetachedTuneReturnsAtOnce) {
  const auto service = Start();
  service->Hold([] {});
  const RunResult result = Run({"tune", "--n=1024", "--k=512", "--detach"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(service->tuned()[0].request_id()));
  EXPECT_TRUE(service->tuned()[0].detached());
  EXPECT_THAT(service->cancelled(), IsEmpty());
}

TEST_F(CommandTest, InterruptedTuneIsCancelledAndKept) {
  const auto service = Start();
  service->Hold([&] { ++interrupts_; });
  const RunResult result = Run({"tune", "--n=1024", "--k=512"});
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.err, HasSubstr("What was measured is kept"));
  EXPECT_THAT(service->cancelled(),
              ElementsAre(service->tuned()[0].request_id()));
}

TEST_F(CommandTest, InterruptedTuneLeavesAJoinedJobToTheOthers) {
  const auto service = Start();
  service->JoinJobs();
  service->Hold([&] { ++interrupts_; });
  EXPECT_EQ(Run({"tune", "--n=1024", "--k=512"}).code, 130);
  EXPECT_THAT(service->cancelled(), IsEmpty());
}

TEST_F(CommandTest, GetAndTable) {
  const auto service = Start();
  const std::vector<std::string> layer = {"--n=1024", "--k=512"};
  RunResult result = Run({"get", layer[0], layer[1], "--m=5"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("HEURISTIC, gate NONE, revision 0"));
  ASSERT_EQ(Run({"tune", layer[0], layer[1]}).code, 0);
  result = Run({"get", layer[0], layer[1], "--m=5", "-o", "json"});
  const google::protobuf::Struct json = ParseJson(result.out);
  EXPECT_EQ(json.fields()
                .at("provenance")
                .struct_value()
                .fields()
                .at("match")
                .string_value(),
            "MATCH_KIND_EXACT");
  EXPECT_EQ(json.fields()
                .at("evidence")
                .list_value()
                .values(0)
                .struct_value()
                .fields()
                .at("median_ns")
                .string_value(),
            "10000");
  result = Run({"table", layer[0], layer[1]});
  EXPECT_THAT(result.out, AllOf(HasSubstr("1 up"), HasSubstr("10.00")));
}

TEST_F(CommandTest, TableWithoutALayerListsAllPages) {
  const auto service = Start();
  EXPECT_THAT(Run({"table"}).out, AllOf(HasSubstr("1024x512 int4 channel"),
                                        HasSubstr("2048x512 int4 channel")));
  const google::protobuf::Struct json = ParseJson(Run({"table", "-ojson"}).out);
  EXPECT_EQ(json.fields().at("tables").list_value().values_size(), 2);
}

TEST_F(CommandTest, Devices) {
  const auto service = Start();
  EXPECT_THAT(
      Run({"devices"}).out,
      AllOf(HasSubstr("(MODELLED) (sm_90, 132 SMs)"), HasSubstr("yes")));
}

TEST_F(CommandTest, ExportWritesAWholeFileOrNone) {
  const auto service = Start();
  const std::string path = Path("bundle.jsonl");
  RunResult result = Run({"export", "--out", path});
  EXPECT_EQ(result.code, 0) << result.err;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_TRUE(text.str() == service->Bundle());
  EXPECT_TRUE(Run({"export"}).out == service->Bundle());

  service->FailWith(absl::InternalError("disk"));
  const std::string other = Path("other.jsonl");
  EXPECT_EQ(Run({"export", "--out", other}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_FALSE(std::filesystem::exists(other + ".partial"));
}

TEST_F(CommandTest, ImportSendsTheFileInChunks) {
  const auto service = Start();
  const std::string path = Path("bundle.jsonl");
  std::ofstream(path) << service->Bundle();
  const RunResult result = Run({"import", path});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(service->imported() == service->Bundle());
  EXPECT_THAT(result.out, AllOf(HasSubstr("Imported 2 tables; 1 were"),
                                HasSubstr("unverified")));
}

TEST_F(CommandTest, SweepTunesThenSkipsWhatIsFresh) {
  const auto service = Start();
  const std::string file = WriteLayers();
  RunResult result = Run({"sweep", file, "--tp=2", "--layers=qkv,o"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 layers: 1 fresh, 1 tuned"));
  std::set<std::pair<int64_t, int64_t>> shapes;
  for (const v1::TuneLayerRequest& request : service->tuned()) {
    shapes.insert(
        {request.problem().layer().n(), request.problem().layer().k()});
  }
  EXPECT_THAT(shapes, ElementsAre(std::pair<int64_t, int64_t>(512, 512)));

  result = Run({"sweep", file, "-o", "json"});
  const google::protobuf::Struct json = ParseJson(result.out);
  ASSERT_EQ(json.fields().at("layers").list_value().values_size(), 4);
  EXPECT_THAT(Run({"sweep", file}).out, HasSubstr("4 layers: 4 fresh"));
}

TEST_F(CommandTest, SweepSharesWorkWithinADeviceClass) {
  const auto a = Start("a", "h200");
  const auto b = Start("b", "h200");
  const auto c = Start("c", "a100");
  const std::vector<std::string> args = {
      "sweep",     WriteLayers(), "--address", Path("a"),
      "--address", Path("b"),     "--address", Path("c")};
  RunResult result = Run(args);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(a->tuned().size() + b->tuned().size(), 4u);
  EXPECT_EQ(c->tuned().size(), 4u);
  EXPECT_THAT(result.out, HasSubstr("8 layers: 8 tuned"));
  // Whichever daemon takes a layer now, its table is found where it is.
  EXPECT_THAT(Run(args).out, HasSubstr("8 layers: 8 fresh"));
}

TEST_F(CommandTest, SweepGoesOnAfterALayerThatFails) {
  const auto service = Start();
  service->FailAtN(2048);
  const RunResult result = Run({"sweep", WriteLayers()});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("1 failed, 3 tuned"),
                    HasSubstr("Tiny/up: the worker kept dying [WORKER_LOST]")));
}

TEST_F(CommandTest, InterruptedSweepPrintsWhatItHas) {
  const auto service = Start();
  service->Hold([&] { ++interrupts_; });
  const RunResult result = Run({"sweep", WriteLayers()});
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.out, HasSubstr("4 layers: 4 not run"));
  EXPECT_THAT(service->cancelled(), SizeIs(1));
}

}  // namespace
}  // namespace hone
