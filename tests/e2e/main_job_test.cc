// The main job with the programs that users run: a real honed on a modelled
// device, real NVRTC, the emulator as the gate, and the hone command.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "google/protobuf/util/json_util.h"
#include "hone/v1/tuning_service.grpc.pb.h"
#include "kernels/config/device_spec.h"
#include "service/convert/config_convert.h"
#include "service/convert/grpc_status.h"
#include "tests/e2e/honed_process.h"
#include "tests/service/support/http_client.h"
#include "tests/service/support/temp_folder.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kLayer = {"--n", "512",  "--k",     "512",
                                         "--b", "int4", "--group", "128"};

Problem LayerProblem() {
  Problem problem;
  problem.layer.n = 512;
  problem.layer.k = 512;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

std::vector<std::string> DaemonArgs(const std::string& folder,
                                    const std::string& cache) {
  return {"--device=model:h200", "--db=" + folder + "/hone.db",
          "--cache=" + cache, "--compile-jobs=2"};
}

Finished Hone(const HonedProcess& honed, std::vector<std::string> args,
              const std::vector<std::string>& more = {}) {
  args.insert(args.end(), more.begin(), more.end());
  args.push_back("--address=" + honed.socket());
  return RunProgram("hone", args);
}

std::unique_ptr<v1::TuningService::Stub> StubOf(const HonedProcess& honed) {
  // A connection of its own: a shared one remembers that an earlier honed on
  // the socket died.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::TuningService::NewStub(grpc::CreateCustomChannel(
      "unix:" + honed.socket(), grpc::InsecureChannelCredentials(), arguments));
}

v1::TuneLayerRequest TuneRequest(const std::string& id) {
  v1::TuneLayerRequest request;
  request.set_request_id(id);
  *request.mutable_problem() = ToProto(LayerProblem());
  for (const int64_t m : {1, 8, 16, 64, 256}) request.add_ladder(m);
  request.set_max_kernels(12);
  return request;
}

// One cache of cubins for all tests of this program: each compile takes about
// a second.
class MainJobTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cache_ = new TempFolder; }
  static void TearDownTestSuite() { delete cache_; }
  static std::string cache() { return *cache_ / "cache"; }

  TempFolder folder_;

 private:
  static TempFolder* cache_;
};
TempFolder* MainJobTest::cache_ = nullptr;

// How many trials a running honed has stored; 0 while there is no database.
int64_t CountTrials(const std::string& database) {
  const auto store = Store::Open(database, {.read_only = true});
  if (!store.ok()) return 0;
  const auto devices = (*store)->ListDevices();
  return devices.ok() && !devices->empty() ? (*devices)[0].trials : 0;
}

TEST_F(MainJobTest, AKilledTuneResumesWithWhatItRecorded) {
  const std::string database = folder_ / "hone.db";
  int64_t recorded = 0;
  {
    HonedProcess honed(folder_.path(), DaemonArgs(folder_.path(), cache()));
    ASSERT_TRUE(honed.WaitUntilServing()) << honed.log();
    const auto stub = StubOf(honed);
    grpc::ClientContext context;
    const auto reader = stub->TuneLayer(
        &context, TuneRequest("00000000-0000-4000-8000-000000000001"));
    // Kill it as soon as some trials are stored.
    for (int i = 0; i < 20'000 && recorded < 3; ++i) {
      absl::SleepFor(absl::Milliseconds(2));
      recorded = CountTrials(database);
    }
    EXPECT_EQ(honed.Stop(SIGKILL), 128 + SIGKILL);
    context.TryCancel();
    reader->Finish();
  }
  ASSERT_GE(recorded, 3) << "nothing was stored";
  std::vector<Trial> before;
  Protocol protocol;
  {
    const auto store = Store::Open(database, {.read_only = true});
    ASSERT_TRUE(store.ok()) << store.status();
    const auto sessions = (*store)->Sessions(10);
    ASSERT_TRUE(sessions.ok()) << sessions.status();
    ASSERT_EQ(sessions->size(), 1u);
    // Read-only, so the dead session is still as its process left it.
    ASSERT_EQ((*sessions)[0].status, SessionStatus::kRunning)
        << "the tune ended before its kill";
    protocol = (*sessions)[0].protocol;
    const auto trials = (*store)->KnownTrials(
        LayerProblem(), *ModelledDevice("h200"), protocol);
    ASSERT_TRUE(trials.ok()) << trials.status();
    before = *trials;
  }
  // What was seen on disk is still there.
  EXPECT_GE(static_cast<int64_t>(before.size()), recorded);

  HonedProcess honed(folder_.path(), DaemonArgs(folder_.path(), cache()));
  ASSERT_TRUE(honed.WaitUntilServing()) << honed.log();
  const auto stub = StubOf(honed);
  grpc::ClientContext context;
  const auto reader = stub->TuneLayer(
      &context, TuneRequest("00000000-0000-4000-8000-000000000002"));
  v1::TuneLayerResponse message;
  v1::TuneResult result;
  while (reader->Read(&message)) {
    if (message.has_result()) result = message.result();
  }
  const absl::Status status = FromGrpcStatus(reader->Finish());
  ASSERT_TRUE(status.ok()) << status << honed.log();
  EXPECT_GT(result.trials_reused(), 0);
  EXPECT_EQ(result.provenance().match(), v1::MATCH_KIND_EXACT);
  EXPECT_TRUE(result.provenance().modelled());
  EXPECT_EQ(result.provenance().gate(), v1::GATE_KIND_EMULATED);
  EXPECT_EQ(honed.Stop(SIGTERM), 0) << honed.log();

  const auto store = Store::Open(database, {.read_only = true});
  ASSERT_TRUE(store.ok()) << store.status();
  const auto after =
      (*store)->KnownTrials(LayerProblem(), *ModelledDevice("h200"), protocol);
  ASSERT_TRUE(after.ok()) << after.status();
  ASSERT_GE(after->size(), before.size());
  // The evidence of the killed tune is still there, and none of its races was
  // run again: each kernel is scouted, raced and confirmed at most once at each
  // M.
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ((*after)[i], before[i]);
  std::map<std::pair<std::string, int64_t>, int> trials;
  for (const Trial& trial : *after) {
    if (trial.compile.kernel_id.empty()) continue;
    EXPECT_LE((++trials[{trial.compile.kernel_id, trial.m}]), 3)
        << trial.config.ToString() << " at M = " << trial.m;
  }
}

TEST_F(MainJobTest, TuneTableGetExportImport) {
  HonedProcess honed(folder_.path(), DaemonArgs(folder_.path(), cache()));
  ASSERT_TRUE(honed.WaitUntilServing()) << honed.log();

  std::vector<std::string> tune = {"tune", "--ladder", "1,16", "--max-kernels",
                                   "4"};
  const Finished tuned = Hone(honed, tune, kLayer);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err << honed.log();
  EXPECT_THAT(tuned.out, HasSubstr("MODELLED"));

  const Finished get = Hone(honed, {"get", "--m", "16", "-o", "json"}, kLayer);
  ASSERT_EQ(get.exit_code, 0) << get.err;
  EXPECT_THAT(get.out, HasSubstr("EXACT"));
  const Finished table = Hone(honed, {"table"}, kLayer);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("MODELLED"));

  const std::string bundle = folder_ / "tables.jsonl";
  const Finished exported = Hone(honed, {"export", "--out", bundle});
  ASSERT_EQ(exported.exit_code, 0) << exported.err;

  const std::string roofline = folder_ / "roofline.svg";
  const Finished bench =
      Hone(honed, {"bench", "--count", "200", "--plot", "--roofline", roofline},
           kLayer);
  ASSERT_EQ(bench.exit_code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("M a=1 b=16"));
  EXPECT_TRUE(std::filesystem::exists(roofline));
  const Finished explain = Hone(honed, {"explain", "--m", "16"}, kLayer);
  ASSERT_EQ(explain.exit_code, 0) << explain.err;
  EXPECT_THAT(explain.out, HasSubstr("µs  MODELLED, median of "));
  EXPECT_THAT(explain.out, HasSubstr("a thread, compiled, "));

  TempFolder other;
  HonedProcess empty(other.path(), DaemonArgs(other.path(), cache()));
  ASSERT_TRUE(empty.WaitUntilServing()) << empty.log();
  const Finished imported = Hone(empty, {"import", bundle});
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  v1::GetConfigRequest request;
  *request.mutable_problem() = ToProto(LayerProblem());
  request.set_m(16);
  v1::GetConfigResponse answer;
  grpc::ClientContext context;
  ASSERT_TRUE(StubOf(empty)->GetConfig(&context, request, &answer).ok());
  EXPECT_EQ(answer.provenance().match(), v1::MATCH_KIND_EXACT);
  EXPECT_FALSE(answer.provenance().verified());
  const std::string again = other / "tables.jsonl";
  ASSERT_EQ(Hone(empty, {"export", "--out", again}).exit_code, 0);
  std::ifstream a(bundle), b(again);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(a), {}),
            std::string(std::istreambuf_iterator<char>(b), {}));
}

// The pages of a real honed on a modelled device, whose times must say so.
TEST_F(MainJobTest, ThePagesShowWhatWasTuned) {
  HonedProcess honed(folder_.path(), DaemonArgs(folder_.path(), cache()));
  ASSERT_TRUE(honed.WaitUntilServing()) << honed.log();
  const std::string device_class = ModelledDevice("h200")->ClassHash();
  EXPECT_THAT(HttpGet(honed.http(), "/").body, HasSubstr("app.js"));
  EXPECT_EQ(
      HttpGet(honed.http(), "/api/v1/problems?class=" + device_class).body,
      "[]");
  const Finished tuned =
      Hone(honed, {"tune", "--ladder=1,16", "--max-kernels=4"}, kLayer);
  ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
  const std::string subject =
      "problem=" + LayerProblem().Hash() + "&class=" + device_class;
  for (const char* answer : {"trials", "table"}) {
    const HttpReply reply =
        HttpGet(honed.http(), absl::StrCat("/api/v1/", answer, "?", subject));
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_THAT(reply.body, HasSubstr("\"modelled\":true"));
    EXPECT_THAT(reply.body, HasSubstr("\"protocol\":\""));
  }
  EXPECT_THAT(HttpGet(honed.http(), "/api/v1/status").body,
              HasSubstr("\"state\":\"succeeded\""));
}

TEST_F(MainJobTest, TheHttpFlagIsCheckedAndCanBeOff) {
  for (const auto& [value, complaint] :
       {std::pair("0.0.0.0:8686", "--insecure"), std::pair("8686", "host:port"),
        std::pair("localhost:99999", "0 to 65535")}) {
    const Finished refused =
        RunProgram("honed", {absl::StrCat("--http=", value)});
    EXPECT_EQ(refused.exit_code, 2) << value;
    EXPECT_THAT(refused.err, AllOf(HasSubstr("--http"), HasSubstr(complaint)));
  }
  std::vector<std::string> args = DaemonArgs(folder_.path(), cache());
  args.push_back("--http=off");
  HonedProcess honed(folder_.path(), args);
  ASSERT_TRUE(honed.WaitUntilServing()) << honed.log();
  EXPECT_EQ(honed.http(), "");
}

TEST_F(MainJobTest, AnAuditOfAModelledDevice) {
  HonedProcess honed(folder_.path(), DaemonArgs(folder_.path(), cache()));
  ASSERT_TRUE(honed.WaitUntilServing()) << honed.log();
  const std::string json = folder_ / "audit.json";
  const Finished audit =
      Hone(honed,
           {"audit", "--ladder", "1,16", "--max-kernels", "3", "--kernels", "5",
            "--budget", "100s", "--json", json},
           kLayer);
  ASSERT_EQ(audit.exit_code, 0) << audit.err << honed.log();
  EXPECT_THAT(audit.out, HasSubstr("MODELLED"));
  EXPECT_THAT(audit.out, HasSubstr("none is published"));
  v1::AuditReport report;
  std::ifstream file(json);
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(
          std::string(std::istreambuf_iterator<char>(file), {}), &report)
          .ok());
  EXPECT_TRUE(report.modelled());
  EXPECT_TRUE(report.complete());
  ASSERT_EQ(report.points_size(), 2);
  for (const v1::AuditPoint& point : report.points()) {
    EXPECT_EQ(point.regret().rounds(), report.ratio_rounds());
    EXPECT_GE(point.regret().ratio(), 0.99);
    EXPECT_EQ(point.sm_clock_khz(), 0);
  }
  // NVRTC gives the same kernel again, and a model the same time.
  EXPECT_GT(report.replayed_kernels(), 0);
  EXPECT_EQ(report.same_kernels(), report.replayed_kernels());
  EXPECT_NEAR(report.replay().largest(), 1, 0.01);
}

TEST_F(MainJobTest, AWarmLookupTakesUnderAMillisecondAtTheMedian) {
  HonedProcess honed(folder_.path(), DaemonArgs(folder_.path(), cache()));
  ASSERT_TRUE(honed.WaitUntilServing()) << honed.log();
  const auto stub = StubOf(honed);
  v1::GetConfigRequest request;
  *request.mutable_problem() = ToProto(LayerProblem());
  request.set_m(16);
  std::vector<double> micros;
  for (int i = 0; i < 300; ++i) {
    v1::GetConfigResponse answer;
    grpc::ClientContext context;
    const absl::Time start = absl::Now();
    ASSERT_TRUE(stub->GetConfig(&context, request, &answer).ok());
    if (i >= 50)
      micros.push_back(absl::ToDoubleMicroseconds(absl::Now() - start));
  }
  std::nth_element(micros.begin(), micros.begin() + micros.size() / 2,
                   micros.end());
  EXPECT_LT(micros[micros.size() / 2], 1000);
  RecordProperty("median_us", static_cast<int>(micros[micros.size() / 2]));
}

TEST_F(MainJobTest, WithoutCudaHonedStartsAndServes) {
  // No driver and no GPU here: "auto" finds nothing to tune on.
  HonedProcess honed(folder_.path(),
                     {"--device=gpu:63", "--db=" + (folder_ / "hone.db"),
                      "--cache=" + cache()},
                     {"HONE_CUDA_LIB_DIR=/nonexistent"});
  ASSERT_TRUE(honed.WaitUntilServing()) << honed.log();
  const auto stub = StubOf(honed);
  grpc::ClientContext context;
  const auto reader = stub->TuneLayer(
      &context, TuneRequest("00000000-0000-4000-8000-000000000003"));
  v1::TuneLayerResponse message;
  while (reader->Read(&message)) {
  }
  const absl::Status status = FromGrpcStatus(reader->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "NO_DEVICE");
  EXPECT_THAT(std::string(status.message()), HasSubstr("lookups"));
  v1::GetTableRequest request;
  *request.mutable_problem() = ToProto(LayerProblem());
  *request.mutable_device() = ToProto(*ModelledDevice("a100"));
  v1::GetTableResponse table;
  grpc::ClientContext lookup;
  EXPECT_TRUE(stub->GetTable(&lookup, request, &table).ok());
  EXPECT_EQ(honed.Stop(SIGTERM), 0);
}

TEST_F(MainJobTest, EveryProgramStartsWithoutCuda) {
  const std::vector<std::string> no_cuda = {"HONE_CUDA_LIB_DIR=/nonexistent"};
  EXPECT_EQ(RunProgram("honed", {"--help"}, no_cuda).exit_code, 0);
  EXPECT_EQ(RunProgram("hone", {"--help"}, no_cuda).exit_code, 0);
  const Finished bad = RunProgram("honed", {"--device=tpu"}, no_cuda);
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("gpu:N"));
  const Finished open =
      RunProgram("honed", {"--listen=0.0.0.0:0", "--device=model:h200"});
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_THAT(open.err, HasSubstr("--insecure"));
  const Finished unknown = RunProgram("honed", {"--nope"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--listen"));
}

}  // namespace
}  // namespace hone
