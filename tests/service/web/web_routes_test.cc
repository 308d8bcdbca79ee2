// Every answer, over HTTP on loopback, from a store in SQLite.
#include "service/web/web_routes.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"
#include "service/models/layer_file.h"
#include "service/server/lookup.h"
#include "tests/db/fixture.h"
#include "tests/service/support/http_client.h"
#include "tests/service/web/json_value.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TestDevice;
using testing::TestProblem;
using testing::TestTable;

const std::string kClass = TestDevice().ClassHash();
const std::string kProblem = TestProblem().Hash();
const std::string kNowhere(64, '0');

class WebRoutesTest : public testing::DbTest {
 protected:
  WebRoutesTest() : store_(OpenStore()) {
    WebParts parts;
    parts.store = store_.get();
    parts.device = TestDevice();
    parts.can_tune = [this] { return can_tune_; };
    parts.health = [] { return ExecutorHealth{9, 3, 2, ""}; };
    parts.jobs = [this] { return jobs_; };
    parts.source_closure = TestTable().source_closure;
    parts.version = "1.2.3";
    parts.now = [] { return absl::FromUnixMicros(1'764'700'000'000'000); };
    Serve(std::move(parts));
  }

  void Serve(WebParts parts) {
    auto server =
        HttpServer::Start("127.0.0.1:0", false, WebRoutes(std::move(parts)));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  HttpReply Get(const std::string& target, const std::string& headers = "") {
    return HttpGet(server_->address(), target, headers);
  }
  JsonValue Json(const std::string& target) {
    const HttpReply reply = Get("/api/v1/" + target);
    EXPECT_EQ(reply.status, 200) << target << "\n" << reply.body;
    return JsonValue::Parse(reply.body);
  }
  // "status field: message".
  std::string Error(const std::string& target) {
    const HttpReply reply = Get("/api/v1/" + target);
    EXPECT_NE(reply.status, 200) << target;
    const JsonValue error = JsonValue::Parse(reply.body)["error"];
    return absl::StrCat(reply.status, " ", error["field"].text(), ": ",
                        error["message"].text());
  }
  std::string Subject() { return "problem=" + kProblem + "&class=" + kClass; }

  // A measured trial of five samples around `ns`, recorded.
  int64_t Record(int64_t m, int64_t ns,
                 const std::function<void(Trial&)>& change = {},
                 const DeviceSpec& device = TestDevice()) {
    Trial trial = testing::TestTrial(m);
    trial.samples.clear();
    for (int32_t i = 0; i < 7; ++i)
      trial.samples.push_back({ns - 3 + i, 1'700'400, i});
    trial.median_ns = ns;
    if (change) change(trial);
    const auto id = store_->RecordTrial(device, Protocol(), trial);
    EXPECT_TRUE(id.ok()) << id.status();
    return *id;
  }
  void Publish(DispatchTable table) {
    const auto revision = store_->PublishTable(table);
    ASSERT_TRUE(revision.ok()) << revision.status();
  }

  std::unique_ptr<Store> store_;
  absl::Status can_tune_;
  std::vector<TuneSnapshot> jobs_;
  std::unique_ptr<HttpServer> server_;
};

// Valid, but with more shared memory than there is.
TuningConfig TooLarge() {
  TuningConfig config;
  config.block_n = 256;
  config.block_k = 128;
  config.stages = 16;
  return config;
}

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_F(WebRoutesTest, ServesThePagesAsTheyWereBuilt) {
  const struct {
    const char* path;
    const char* file;
    const char* type;
  } files[] = {{"/", "/index.html", "text/html; charset=utf-8"},
               {"/app.js", "/app.js", "text/javascript; charset=utf-8"},
               {"/app.css", "/app.css", "text/css; charset=utf-8"}};
  for (const auto& file : files) {
    const std::string expected =
        FileText(std::string(HONE_WEB_DIST) + file.file);
    ASSERT_THAT(expected, Not(IsEmpty()));
    HttpReply reply = Get(file.path);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.headers["content-type"], file.type);
    EXPECT_TRUE(reply.body == expected) << file.path << " differs";
    HttpReply zipped = Get(file.path, "Accept-Encoding: gzip\r\n");
    EXPECT_EQ(zipped.headers["content-encoding"], "gzip");
    EXPECT_TRUE(Gunzip(zipped.body) == expected) << file.path << " differs";
    EXPECT_EQ(Get(file.path, "If-None-Match: " + reply.headers["etag"] +
                                 "\r\nAccept-Encoding: gzip\r\n")
                  .status,
              304);
  }
}

TEST_F(WebRoutesTest, StatusSaysWhatHonedDoes) {
  TuneSnapshot job;
  job.tune_id = "id-1";
  job.problem = TestProblem();
  job.state = TuneState::kRunning;
  job.progress.phase = SessionPhase::kRace;
  job.progress.done = 3;
  job.progress.total = 9;
  job.progress.elapsed = absl::Milliseconds(1500);
  job.progress.eta = absl::Seconds(2);
  job.progress.trials = 40;
  job.progress.failed = 2;
  job.progress.m = 16;
  job.progress.best_config = "block_m=16";
  job.progress.best_ns = 12000;
  job.progress.default_ns = 15000;
  job.submitted = absl::FromUnixMicros(77);
  TuneSnapshot ended;
  ended.tune_id = "id-2";
  ended.problem = TestProblem(1024, 512);
  ended.kind = JobKind::kAudit;
  ended.state = TuneState::kFailed;
  ended.error = absl::UnavailableError("shared");
  jobs_ = {job, ended};
  Publish(TestTable());
  const JsonValue status = Json("status");
  EXPECT_EQ(status["version"].text(), "1.2.3");
  EXPECT_EQ(status["source_closure"].text(), TestTable().source_closure);
  EXPECT_EQ(status["revision"].number(), 1);
  EXPECT_EQ(status["now_us"].number(), 1'764'700'000'000'000);
  EXPECT_TRUE(status["unavailable"].is_null());
  EXPECT_EQ(status["health"]["state"].text(), "ok");
  EXPECT_EQ(status["health"]["workers_started"].number(), 9);
  EXPECT_EQ(status["health"]["workers_lost"].number(), 3);
  EXPECT_EQ(status["health"]["sentinel_failures"].number(), 2);
  EXPECT_EQ(status["device"]["class"].text(), kClass);
  EXPECT_EQ(status["device"]["uuid"].text(), TestDevice().uuid);
  EXPECT_FALSE(status["device"]["modelled"].truth());
  EXPECT_EQ(status["device"]["power_limit_w"].number(), 700);
  EXPECT_EQ(status["device"]["memory_gbps"].number(), 4301.0625);
  EXPECT_TRUE(status["device"]["ecc"].truth());
  ASSERT_EQ(status["jobs"].size(), 2);
  const JsonValue first = status["jobs"][0];
  EXPECT_EQ(first["id"].text(), "id-1");
  EXPECT_EQ(first["kind"].text(), "tune");
  EXPECT_EQ(first["problem"].text(), kProblem);
  EXPECT_EQ(first["label"].text(), "8192×8192 float16 × int4 group 128");
  EXPECT_EQ(first["state"].text(), "running");
  EXPECT_FALSE(first["modelled"].truth());
  EXPECT_EQ(first["phase"].text(), "race");
  EXPECT_EQ(first["done"].number(), 3);
  EXPECT_EQ(first["total"].number(), 9);
  EXPECT_EQ(first["elapsed_ns"].number(), 1.5e9);
  EXPECT_EQ(first["eta_ns"].number(), 2e9);
  EXPECT_EQ(first["m"].number(), 16);
  EXPECT_EQ(first["best_ns"].number(), 12000);
  EXPECT_EQ(first["submitted_us"].number(), 77);
  const JsonValue second = status["jobs"][1];
  EXPECT_EQ(second["kind"].text(), "audit");
  EXPECT_EQ(second["state"].text(), "failed");
  EXPECT_EQ(second["error"].text(), "shared");
  EXPECT_TRUE(second["best_ns"].is_null());
}

TEST_F(WebRoutesTest, StatusSaysWhyTunesCannotRun) {
  can_tune_ = absl::UnavailableError("three sentinels failed");
  JsonValue status = Json("status");
  EXPECT_EQ(status["unavailable"].text(), "three sentinels failed");
  EXPECT_EQ(status["health"]["state"].text(), "quarantined");
  can_tune_ = absl::FailedPreconditionError("no NVRTC");
  status = Json("status");
  EXPECT_EQ(status["unavailable"].text(), "no NVRTC");
  EXPECT_EQ(status["health"]["state"].text(), "cannot tune");
  server_ = nullptr;
  WebParts parts;
  parts.store = store_.get();
  parts.can_tune = [] { return absl::FailedPreconditionError("no driver"); };
  parts.jobs = [] { return std::vector<TuneSnapshot>(); };
  Serve(std::move(parts));
  status = Json("status");
  EXPECT_TRUE(status["device"].is_null());
  EXPECT_EQ(status["health"]["state"].text(), "no device");
}

TEST_F(WebRoutesTest, JobsOfAModelledDeviceSaySo) {
  server_ = nullptr;
  WebParts parts;
  parts.store = store_.get();
  parts.device = *ModelledDevice("h200");
  parts.can_tune = [] { return absl::OkStatus(); };
  parts.jobs = [] { return std::vector<TuneSnapshot>(1); };
  Serve(std::move(parts));
  EXPECT_TRUE(Json("status")["jobs"][0]["modelled"].truth());
}

TEST_F(WebRoutesTest, ClassesHoldDevicesThatWereSeenAndOurOwn) {
  JsonValue classes = Json("classes");
  ASSERT_EQ(classes.size(), 1);
  EXPECT_EQ(classes[0]["class"].text(), kClass);
  EXPECT_EQ(classes[0]["trials"].number(), 0);
  DeviceSpec modelled = *ModelledDevice("a100");
  DeviceSpec newer = TestDevice();
  newer.driver = "590.1";
  Record(1, 100, {}, modelled);
  Record(1, 100);
  Record(1, 100, {}, newer);
  Publish(TestTable());
  classes = Json("classes");
  ASSERT_EQ(classes.size(), 2);
  EXPECT_TRUE(classes[0]["modelled"].truth());
  EXPECT_TRUE(classes[0]["devices"][0]["power_limit_w"].is_null());
  EXPECT_EQ(classes[0]["sm_arch"].number(), 80);
  EXPECT_FALSE(classes[1]["modelled"].truth());
  EXPECT_EQ(classes[1]["trials"].number(), 2);
  EXPECT_EQ(classes[1]["tables"].number(), 1);
  ASSERT_EQ(classes[1]["devices"].size(), 2);
  EXPECT_EQ(classes[1]["devices"][1]["driver"].text(), "590.1");
}

TEST_F(WebRoutesTest, ProblemsSayWhereTheirTablesStand) {
  Record(16, 100);
  Record(1, 100);
  Publish(TestTable());
  DispatchTable stale = TestTable(TestProblem(1024, 512));
  stale.source_closure = std::string(64, 'a');
  ASSERT_TRUE(store_->ImportTables({stale}, "bundle", 1).ok());
  const JsonValue problems = Json("problems?class=" + kClass);
  ASSERT_EQ(problems.size(), 2);
  const JsonValue imported = problems[0];
  EXPECT_EQ(imported["n"].number(), 1024);
  EXPECT_EQ(imported["k"].number(), 512);
  EXPECT_EQ(imported["trials"].number(), 0);
  EXPECT_EQ(imported["table"]["origin"].text(), "imported");
  EXPECT_TRUE(imported["table"]["stale"].truth());
  EXPECT_FALSE(imported["table"]["verified"].truth());
  const JsonValue own = problems[1];
  EXPECT_EQ(own["problem"].text(), kProblem);
  EXPECT_EQ(own["text"].text(), TestProblem().ToString());
  EXPECT_EQ(own["label"].text(), "8192×8192 float16 × int4 group 128");
  EXPECT_EQ(own["a"].text(), "float16");
  EXPECT_EQ(own["b"].text(), "int4");
  EXPECT_EQ(own["scale"].text(), "group");
  EXPECT_EQ(own["group"].number(), 128);
  EXPECT_EQ(own["trials"].number(), 2);
  EXPECT_THAT(own["measured_m"].numbers(), ElementsAre(1, 16));
  EXPECT_EQ(own["table"]["revision"].number(), 1);
  EXPECT_FALSE(own["table"]["stale"].truth());
  EXPECT_TRUE(own["table"]["legal"].truth());
  EXPECT_EQ(own["table"]["soft_differences"].size(), 0);
  EXPECT_TRUE(own["table"]["verified"].truth());
  EXPECT_EQ(own["table"]["gate"].text(), "emulated");
  EXPECT_EQ(own["table"]["kernels"].number(), 2);
  // All three evidences say 11904 / 10880.
  EXPECT_NEAR(own["table"]["geo_mean_speedup"].number(), 11904.0 / 10880, 1e-9);
}

// As lookups do: they pass such a table over.
TEST_F(WebRoutesTest, ATableAgainstTodaysRulesIsNotFresh) {
  DispatchTable table = TestTable();
  table.entries[0].config = TooLarge();
  ASSERT_FALSE(AllLegal(table, table.problem, table.device));
  Publish(table);
  const JsonValue standing = Json("problems?class=" + kClass)[0]["table"];
  EXPECT_FALSE(standing["legal"].truth());
  EXPECT_TRUE(standing["stale"].truth());
}

TEST_F(WebRoutesTest, ATableSaysHowTheGpuDiffersNow) {
  DeviceSpec before = TestDevice();
  before.driver = "570.1";
  Publish(TestTable(TestProblem(), before));
  EXPECT_THAT(
      Json("table?" + Subject())["soft_differences"].texts(),
      ElementsAre("driver " + TestDevice().driver + " here, 570.1 measured"));
  // Of another GPU nothing is known here.
  DeviceSpec other = before;
  other.sm_count = 114;
  Publish(TestTable(TestProblem(), other));
  EXPECT_EQ(Json("table?problem=" + kProblem +
                 "&class=" + other.ClassHash())["soft_differences"]
                .size(),
            0);
}

TEST_F(WebRoutesTest, AProblemWithoutTableSaysSo) {
  Record(16, 100);
  EXPECT_TRUE(Json("problems?class=" + kClass)[0]["table"].is_null());
  EXPECT_EQ(Error("table?" + Subject()),
            "404 problem: has no table on this class");
}

TEST_F(WebRoutesTest, TableHasItsEvidence) {
  Publish(TestTable());
  DispatchTable later = TestTable();
  later.session_id = "later";
  later.entries[0].evidence[0].default_median_ns = 0;
  Publish(later);
  const JsonValue table = Json("table?" + Subject());
  EXPECT_EQ(table["session"].text(), "later");
  EXPECT_EQ(table["revision"].number(), 2);
  EXPECT_EQ(table["problem"].text(), kProblem);
  EXPECT_EQ(table["class"].text(), kClass);
  EXPECT_EQ(table["device"]["name"].text(), "NVIDIA H200");
  EXPECT_FALSE(table["modelled"].truth());
  EXPECT_EQ(table["protocol"].text(), later.protocol.ToString());
  EXPECT_EQ(table["tuned_us"].number(), 1'764'650'000'654'321);
  EXPECT_THAT(table["ladder"].numbers(), ElementsAre(1, 16, 64));
  ASSERT_EQ(table["trade_off"].size(), std::ssize(later.trade_off));
  ASSERT_GT(later.trade_off.size(), 0u);
  EXPECT_EQ(table["trade_off"][0]["kernels"].number(),
            later.trade_off[0].kernels);
  EXPECT_EQ(table["trade_off"][0]["worst_regret"].number(),
            later.trade_off[0].worst_regret);
  EXPECT_EQ(table["trade_off"][0]["compile_ms"].number(),
            later.trade_off[0].compile_ms);
  EXPECT_EQ(table["trade_off"][0]["proven"].truth(), later.trade_off[0].proven);
  ASSERT_EQ(table["entries"].size(), 2);
  const JsonValue entry = table["entries"][0];
  EXPECT_EQ(entry["m_lo"].number(), 1);
  EXPECT_EQ(entry["m_hi"].number(), 16);
  EXPECT_EQ(entry["config"].text(), later.entries[0].config.ToString());
  EXPECT_EQ(entry["kernel_id"].text(), later.entries[0].compile.kernel_id);
  EXPECT_EQ(entry["registers"].number(), 168);
  EXPECT_EQ(entry["nvrtc"].text(), "13.0");
  EXPECT_EQ(table["entries"][1]["m_hi"].number(), 0);
  ASSERT_EQ(entry["evidence"].size(), 2);
  const JsonValue evidence = entry["evidence"][0];
  EXPECT_EQ(evidence["median_ns"].number(), 10880);
  EXPECT_EQ(evidence["low_ns"].number(), 10848);
  EXPECT_EQ(evidence["margin"].number(), 0.0941176470588235);
  EXPECT_TRUE(evidence["default_median_ns"].is_null());
  EXPECT_THAT(evidence["ties"].texts(),
              ElementsAre(later.entries[0].evidence[0].ties[0],
                          later.entries[0].evidence[0].ties[1]));
  EXPECT_EQ(Json("table?" + Subject() + "&revision=1")["session"].text(),
            TestTable().session_id);
  EXPECT_EQ(Error("table?" + Subject() + "&revision=0"),
            "404 problem: has no table on this class at that revision");
  EXPECT_EQ(Error("table?" + Subject() + "&revision=3"),
            "400 revision: must be a revision from 0 to 2");
}

TEST_F(WebRoutesTest, TrialsComeAsColumns) {
  const int64_t slow = Record(16, 12000);
  const int64_t fast = Record(16, 11000, [](Trial& trial) {
    trial.config.stages = 6;
    trial.session_id = "session-2";
  });
  const int64_t failed = Record(1, 0, [](Trial& trial) {
    trial.outcome = Outcome::kTimeout;
    trial.samples.clear();
  });
  const JsonValue answer = Json("trials?" + Subject());
  EXPECT_EQ(answer["problem"].text(), kProblem);
  EXPECT_FALSE(answer["modelled"].truth());
  EXPECT_EQ(answer["protocol"].text(), Protocol().ToString());
  EXPECT_EQ(answer["other_protocols"].number(), 0);
  EXPECT_EQ(answer["older_trials"].number(), 0);
  EXPECT_THAT(answer["outcomes"].texts(), ElementsAre("measured", "timeout"));
  EXPECT_THAT(answer["sessions"].texts(),
              ElementsAre("session-1", "session-2"));
  ASSERT_EQ(answer["configs"].size(), 2);
  const JsonValue trials = answer["trials"];
  EXPECT_THAT(trials["id"].numbers(), ElementsAre(slow, fast, failed));
  EXPECT_THAT(trials["m"].numbers(), ElementsAre(16, 16, 1));
  EXPECT_THAT(trials["config"].numbers(), ElementsAre(0, 1, 0));
  EXPECT_THAT(trials["outcome"].numbers(), ElementsAre(0, 0, 1));
  EXPECT_THAT(trials["session"].numbers(), ElementsAre(0, 1, 0));
  EXPECT_THAT(trials["samples"].numbers(), ElementsAre(7, 7, 0));
  EXPECT_THAT(trials["clock_mhz"].numbers(), ElementsAre(1700, 1700, 0));
  EXPECT_TRUE(trials["median_ns"][2].is_null());
  EXPECT_TRUE(trials["low_ns"][2].is_null());
  EXPECT_EQ(trials["median_ns"][0].number(), 12000);
  // The smallest and largest of 7.
  EXPECT_EQ(trials["low_ns"][0].number(), 11997);
  EXPECT_EQ(trials["high_ns"][0].number(), 12003);
  const JsonValue points = answer["points"];
  ASSERT_EQ(points.size(), 2);
  EXPECT_EQ(points[1]["m"].number(), 16);
  const Floors floors = FloorsOf(TestProblem(), TestDevice(), 16);
  EXPECT_EQ(points[1]["bytes"].number(), floors.bytes);
  EXPECT_EQ(points[1]["operations"].number(), 2.0 * 16 * 8192 * 8192);
  EXPECT_NEAR(points[1]["bytes_floor_ns"].number(), floors.bytes_ns(), 1e-6);
  EXPECT_NEAR(points[1]["mma_floor_ns"].number(), floors.mma_ns(), 1e-6);
  ASSERT_EQ(answer["best"].size(), 2);
  EXPECT_TRUE(answer["best"][0]["config"].is_null());
  EXPECT_EQ(answer["best"][1]["config"].number(), 1);
  EXPECT_EQ(answer["best"][1]["from"].text(), "trials");
  EXPECT_THAT(trials["device"].numbers(), ElementsAre(0, 0, 0));
  EXPECT_THAT(trials["kernel"].numbers(), ElementsAre(0, 0, 0));
  EXPECT_THAT(answer["kernels"].texts(),
              ElementsAre(testing::TestCompile().kernel_id));
  ASSERT_EQ(answer["devices"].size(), 1);
  EXPECT_EQ(answer["devices"][0]["uuid"].text(), TestDevice().uuid);
  EXPECT_EQ(answer["devices"][0]["driver"].text(), TestDevice().driver);
  EXPECT_EQ(answer["devices"][0]["vbios"].text(), TestDevice().vbios);
  EXPECT_EQ(answer["devices"][0]["power_limit_w"].number(), 700);
}

// A screen's three samples bound no median.
TEST_F(WebRoutesTest, BestHasAnInterval) {
  Record(16, 12000);
  Record(16, 9000, [](Trial& trial) {
    trial.config.stages = 6;
    trial.samples.resize(3);
  });
  Record(1, 9000, [](Trial& trial) { trial.samples.resize(3); });
  const JsonValue best = Json("trials?" + Subject())["best"];
  ASSERT_EQ(best.size(), 2);
  EXPECT_TRUE(best[0]["config"].is_null());
  EXPECT_EQ(best[1]["config"].number(), 0);
}

// Times of a kernel that is no more, or of a GPU in another state, are none of
// today's.
TEST_F(WebRoutesTest, TheNewestFullMeasurementSpeaksForAConfig) {
  DeviceSpec before = TestDevice();
  before.power_limit_mw = 500000;
  const auto faster = [](Trial& trial) { trial.config.stages = 6; };
  Record(16, 9000,
         [](Trial& trial) { trial.compile = testing::TestCompile("gone"); });
  Record(16, 9500, {}, before);
  Record(16, 12000);
  Record(16, 11000, faster);
  const JsonValue answer = Json("trials?" + Subject());
  EXPECT_EQ(answer["best"][0]["config"].number(), 1);
  EXPECT_THAT(answer["trials"]["device"].numbers(), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(answer["trials"]["kernel"].numbers(), ElementsAre(0, 1, 1, 1));
  EXPECT_EQ(answer["devices"][1]["power_limit_w"].number(), 500);
}

// What the table serves is best there, whatever one trial said; also where no
// trial of it is here.
TEST_F(WebRoutesTest, TheTableSaysWhatIsBest) {
  Record(16, 12000);
  DispatchTable table = TestTable();
  table.protocol = Protocol();
  Publish(table);
  const JsonValue answer = Json("trials?" + Subject());
  ASSERT_EQ(answer["best"].size(), 1);
  EXPECT_EQ(answer["best"][0]["from"].text(), "table");
  const auto index = static_cast<int>(answer["best"][0]["config"].number());
  EXPECT_EQ(answer["configs"][index].text(),
            table.entries[0].config.ToString());
  EXPECT_EQ(answer["configs"].size(), 2);
}

TEST_F(WebRoutesTest, ModelledTimesSaySo) {
  const DeviceSpec modelled = *ModelledDevice("h200");
  const int64_t id = Record(16, 12000, {}, modelled);
  Publish(TestTable(TestProblem(), modelled));
  const std::string subject =
      "problem=" + kProblem + "&class=" + modelled.ClassHash();
  EXPECT_TRUE(Json("trials?" + subject)["modelled"].truth());
  EXPECT_TRUE(Json("table?" + subject)["modelled"].truth());
  EXPECT_TRUE(Json(absl::StrCat("trial?id=", id))["modelled"].truth());
  EXPECT_TRUE(Json("noise?class=" + modelled.ClassHash())["modelled"].truth());
  EXPECT_TRUE(
      Json("regressions?class=" + modelled.ClassHash())["modelled"].truth());
}

TEST_F(WebRoutesTest, TrialsAreNotMadeAgainWhenNothingChanged) {
  Record(16, 12000);
  HttpReply first = Get("/api/v1/trials?" + Subject());
  const std::string header = "If-None-Match: " + first.headers["etag"] + "\r\n";
  EXPECT_EQ(Get("/api/v1/trials?" + Subject(), header).status, 304);
  Record(16, 12000);
  EXPECT_EQ(Get("/api/v1/trials?" + Subject(), header).status, 200);
}

TEST_F(WebRoutesTest, ProblemsAreNotReadAgainWhenNothingChanged) {
  Record(16, 12000);
  const std::string target = "/api/v1/problems?class=" + kClass;
  HttpReply first = Get(target);
  const std::string header = "If-None-Match: " + first.headers["etag"] + "\r\n";
  EXPECT_EQ(Get(target, header).status, 304);
  Publish(TestTable());
  EXPECT_EQ(Get(target, header).status, 200);
}

TEST_F(WebRoutesTest, OneTrialIsWhole) {
  const int64_t id = Record(16, 12000, [](Trial& trial) {
    trial.detail = "<b>\"why\"</b>";
    trial.error.worst_ratio = std::nan("");
  });
  const JsonValue trial = Json(absl::StrCat("trial?id=", id));
  EXPECT_EQ(trial["id"].number(), id);
  EXPECT_EQ(trial["problem"].text(), kProblem);
  EXPECT_EQ(trial["class"].text(), kClass);
  EXPECT_EQ(trial["m"].number(), 16);
  EXPECT_EQ(trial["config"].text(), testing::TestTrial().config.ToString());
  EXPECT_EQ(trial["outcome"].text(), "measured");
  EXPECT_EQ(trial["detail"].text(), "<b>\"why\"</b>");
  EXPECT_EQ(trial["gate"].text(), "device");
  EXPECT_EQ(trial["relative_norm"].number(), 1.25e-4);
  EXPECT_TRUE(trial["worst_ratio"].is_null());
  EXPECT_EQ(trial["median_ns"].number(), 12000);
  EXPECT_EQ(trial["low_ns"].number(), 11997);
  EXPECT_EQ(trial["high_ns"].number(), 12003);
  EXPECT_EQ(trial["session"].text(), "session-1");
  EXPECT_EQ(trial["unix_us"].number(), 1'764'650'000'123'456);
  EXPECT_EQ(trial["device"]["driver"].text(), TestDevice().driver);
  EXPECT_EQ(trial["protocol"].text(), Protocol().ToString());
  EXPECT_EQ(trial["compile"]["cubin_hash"].text(),
            testing::TestCompile().cubin_hash);
  EXPECT_EQ(trial["compile"]["compile_ms"].number(), 812);
  ASSERT_EQ(trial["samples"].size(), 7);
  EXPECT_THAT(trial["samples"][2].numbers(), ElementsAre(11999, 1700, 2));
  EXPECT_EQ(Error("trial?id=99"), "404 id: there is no trial 99");
  EXPECT_EQ(Error("trial"), "400 id: is missing");
  EXPECT_THAT(Error("trial?id=0"),
              StartsWith("400 id: must be an integer of at least 1"));
  EXPECT_THAT(Error("trial?id=x"), StartsWith("400 id"));
}

TEST_F(WebRoutesTest, SourceIsRenderedFromTheConfig) {
  Record(16, 12000);
  TuningConfig config;
  config.stages = 3;
  const auto escaped = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"=", "%3D"}, {",", "%2C"}});
  };
  const std::string target =
      "source?" + Subject() + "&config=" + escaped(config.ToString());
  HttpReply reply = Get("/api/v1/" + target);
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers["content-type"], "text/plain; charset=utf-8");
  EXPECT_THAT(reply.body, HasSubstr("extern \"C\""));
  EXPECT_THAT(Error("source?" + Subject()), "400 config: is missing");
  EXPECT_THAT(Error("source?" + Subject() + "&config=stages%3Dx"),
              StartsWith("400 config: "));
  config.block_k = 48;
  EXPECT_THAT(
      Error("source?" + Subject() + "&config=" + escaped(config.ToString())),
      StartsWith("400 config: "));
}

TEST_F(WebRoutesTest, CoverageIsOfTheShippedModels) {
  const auto files = ShippedLayerFiles();
  ASSERT_EQ(files.size(), 3u);
  const auto llama = ParseLayerFile(files[0].first, files[0].second, {});
  ASSERT_TRUE(llama.ok());
  Publish(TestTable((*llama)[0].problem));
  DispatchTable stale = TestTable((*llama)[1].problem);
  stale.source_closure = std::string(64, 'a');
  Publish(stale);
  ASSERT_TRUE(
      store_->ImportTables({TestTable((*llama)[2].problem)}, "bundle", 1).ok());
  DispatchTable illegal = TestTable((*llama)[3].problem);
  illegal.entries[0].config = TooLarge();
  Publish(illegal);
  JsonValue models = Json("coverage?class=" + kClass);
  ASSERT_EQ(models.size(), 3);
  EXPECT_EQ(models[0]["model"].text(), (*llama)[0].model);
  const JsonValue layers = models[0]["layers"];
  ASSERT_EQ(layers.size(), static_cast<int>(llama->size()));
  EXPECT_EQ(layers[0]["name"].text(), (*llama)[0].name);
  EXPECT_EQ(layers[0]["problem"].text(), (*llama)[0].problem.Hash());
  EXPECT_EQ(layers[0]["count"].number(), (*llama)[0].count);
  EXPECT_EQ(layers[0]["state"].text(), "exact");
  EXPECT_EQ(layers[0]["revision"].number(), 1);
  EXPECT_EQ(layers[0]["kernels"].number(), 2);
  EXPECT_EQ(layers[1]["state"].text(), "stale");
  EXPECT_EQ(layers[2]["state"].text(), "unverified");
  EXPECT_EQ(layers[3]["state"].text(), "missing");
  EXPECT_TRUE(layers[3]["revision"].is_null());
  EXPECT_EQ(models[1]["layers"][0]["state"].text(), "missing");
  // Ranks that share a layer tune another one.
  models = Json("coverage?tp=8&class=" + kClass);
  EXPECT_EQ(models[0]["layers"][0]["state"].text(), "missing");
  EXPECT_THAT(Error("coverage?tp=0&class=" + kClass),
              "400 tp: must be an integer from 1 to 1024");
  EXPECT_THAT(Error("coverage?tp=7&class=" + kClass),
              HasSubstr("--tp=7 does not divide"));
}

TEST_F(WebRoutesTest, SessionsCountTheirTrials) {
  SessionRecord session;
  session.id = "session-1";
  session.problem = TestProblem();
  session.device = TestDevice();
  session.started_us = 10;
  ASSERT_TRUE(store_->BeginSession(session).ok());
  Record(16, 12000);
  Record(16, 12000,
         [](Trial& trial) { trial.outcome = Outcome::kScreenedOut; });
  Record(1, 0, [](Trial& trial) {
    trial.outcome = Outcome::kTimeout;
    trial.samples.clear();
  });
  JsonValue running = Json("sessions?class=" + kClass)[0];
  EXPECT_EQ(running["status"].text(), "running");
  EXPECT_TRUE(running["finished_us"].is_null());
  ASSERT_TRUE(store_
                  ->FinishSession("session-1", SessionStatus::kFailed,
                                  "the budget ended", 20)
                  .ok());
  const JsonValue ended = Json("sessions?class=" + kClass)[0];
  EXPECT_EQ(ended["id"].text(), "session-1");
  EXPECT_EQ(ended["problem"].text(), kProblem);
  EXPECT_EQ(ended["label"].text(), "8192×8192 float16 × int4 group 128");
  EXPECT_EQ(ended["status"].text(), "failed");
  EXPECT_EQ(ended["detail"].text(), "the budget ended");
  EXPECT_EQ(ended["finished_us"].number(), 20);
  EXPECT_EQ(ended["trials"].number(), 3);
  EXPECT_EQ(ended["measured"].number(), 1);
  EXPECT_EQ(ended["screened_out"].number(), 1);
  EXPECT_EQ(ended["failed"].size(), 1);
  EXPECT_EQ(ended["failed"]["timeout"].number(), 1);
}

TEST_F(WebRoutesTest, NoiseAndRegressionsCompareRepeats) {
  JsonValue noise = Json("noise?class=" + kClass);
  EXPECT_EQ(noise["pairs"].size(), 0);
  EXPECT_TRUE(noise["median_abs_log_ratio"].is_null());
  Record(16, 10000);
  Record(16, 10100);
  DeviceSpec newer = TestDevice();
  newer.driver = "590.1";
  Record(16, 11110, {}, newer);
  noise = Json("noise?class=" + kClass);
  ASSERT_EQ(noise["pairs"].size(), 1);
  const JsonValue pair = noise["pairs"][0];
  EXPECT_EQ(pair["problem"].text(), kProblem);
  EXPECT_EQ(pair["label"].text(), "8192×8192 float16 × int4 group 128");
  EXPECT_EQ(pair["m"].number(), 16);
  EXPECT_EQ(pair["first_ns"].number(), 10000);
  EXPECT_EQ(pair["second_ns"].number(), 10100);
  EXPECT_NEAR(pair["log_ratio"].number(), std::log(1.01), 1e-12);
  EXPECT_THAT(pair["clock_mhz"].numbers(), ElementsAre(1700, 1700));
  EXPECT_NEAR(noise["median_abs_log_ratio"].number(), std::log(1.01), 1e-12);
  const JsonValue regressions = Json("regressions?class=" + kClass);
  ASSERT_EQ(regressions["versions"].size(), 2);
  ASSERT_EQ(regressions["rows"].size(), 1);
  const JsonValue row = regressions["rows"][0];
  EXPECT_EQ(row["before"]["median_ns"].number(), 10100);
  EXPECT_EQ(row["after"]["median_ns"].number(), 11110);
  EXPECT_EQ(row["after"]["low_ns"].number(), 11107);
  EXPECT_EQ(row["after"]["kernel_id"].text(), testing::TestCompile().kernel_id);
  EXPECT_NEAR(row["ratio"].number(), 1.1, 1e-12);
  EXPECT_TRUE(row["beyond_tie"].truth());
  const auto version = [&](const char* side) {
    const auto id = static_cast<int>(row[side]["version"].number());
    EXPECT_EQ(regressions["versions"][id]["id"].number(), id);
    return regressions["versions"][id]["driver"].text();
  };
  EXPECT_EQ(regressions["versions"][0]["vbios"].text(), TestDevice().vbios);
  EXPECT_EQ(regressions["versions"][0]["power_limit_w"].number(), 700);
  EXPECT_EQ(version("after"), "590.1");
  EXPECT_EQ(version("before"), TestDevice().driver);
}

TEST_F(WebRoutesTest, ErrorsNameTheFieldAndWhatIsLegal) {
  Record(16, 12000);
  for (const char* name : {"problems", "table", "trials", "source", "coverage",
                           "sessions", "noise", "regressions"}) {
    EXPECT_THAT(Error(name), StartsWith("400 class: must be 64 hex digits"));
    EXPECT_THAT(Error(absl::StrCat(name, "?class=H200")),
                StartsWith("400 class: must be 64 hex digits"));
    EXPECT_THAT(Error(absl::StrCat(name, "?clas=", kClass)),
                AllOf(StartsWith("400 clas: is unknown"), HasSubstr("class")));
    EXPECT_THAT(Error(absl::StrCat(name, "?class=", kClass, "&class=", kClass)),
                StartsWith("400 class: is given twice"));
  }
  for (const char* name :
       {"problems", "coverage", "sessions", "noise", "regressions"}) {
    EXPECT_THAT(Error(absl::StrCat(name, "?class=", kNowhere)),
                AllOf(StartsWith("404 class: is not known"),
                      HasSubstr(kClass + " (NVIDIA H200)")));
  }
  for (const char* name : {"table", "trials"}) {
    EXPECT_THAT(Error(absl::StrCat(name, "?class=", kClass)),
                StartsWith("400 problem: must be 64 hex digits"));
    EXPECT_THAT(
        Error(absl::StrCat(name, "?class=", kClass, "&problem=", kNowhere)),
        StartsWith("404 problem: is not known"));
    EXPECT_THAT(
        Error(absl::StrCat(name, "?class=", kNowhere, "&problem=", kProblem)),
        StartsWith("404 class: is not known"));
  }
  EXPECT_THAT(Error("status?x=1"), StartsWith("400 x: is unknown"));
  EXPECT_THAT(Error("classes?x=1"), StartsWith("400 x: is unknown"));
  EXPECT_THAT(Error("nothing"),
              AllOf(StartsWith("404 path"), HasSubstr("/api/v1/trials")));
}

// Two problems of a store look different to people.
TEST(ProblemLabelTest, SaysWhatTellsProblemsApart) {
  Problem problem = TestProblem();
  EXPECT_EQ(ProblemLabel(problem), "8192×8192 float16 × int4 group 128");
  problem.layer.b_scale = ScaleGranularity::kChannel;
  problem.layer.b_group = 0;
  EXPECT_EQ(ProblemLabel(problem), "8192×8192 float16 × int4 per channel");
  problem.layer.bias = true;
  problem.compute.batch_invariant = true;
  EXPECT_EQ(ProblemLabel(problem),
            "8192×8192 float16 × int4 per channel, bias, batch-invariant");
  problem = TestProblem();
  ASSERT_TRUE(ApplyPreset("mxfp4", problem.layer).ok());
  EXPECT_EQ(ProblemLabel(problem),
            "8192×8192 float16 × float4e2m1 group 32, float8e8m0 scales");
  problem = TestProblem();
  problem.layer.a = kBfloat16;
  EXPECT_EQ(ProblemLabel(problem),
            "8192×8192 bfloat16 × int4 group 128, float16 scales, "
            "float16 output");
  problem.layer.b_scale_type = problem.layer.c = kBfloat16;
  EXPECT_EQ(ProblemLabel(problem), "8192×8192 bfloat16 × int4 group 128");
  problem = TestProblem();
  problem.layer.a = kInt8;
  EXPECT_EQ(ProblemLabel(problem),
            "8192×8192 int8 × int4 group 128, inputs without scales");
  problem.layer.a_scale = InputScale::kToken;
  EXPECT_EQ(ProblemLabel(problem), "8192×8192 int8 × int4 group 128");
  problem.layer.a_scale = InputScale::kGroup;
  problem.layer.a_group = 64;
  problem.compute.a_scale_layout = InputScaleLayout::kColumnMajor;
  EXPECT_EQ(ProblemLabel(problem),
            "8192×8192 int8 × int4 group 128, inputs scaled per group 64, "
            "column-major input scales");
  problem = TestProblem();
  problem.layer.experts = 8;
  problem.compute.gemm = GemmType::kGroupedMasked;
  problem.compute.top_k = 2;
  EXPECT_EQ(ProblemLabel(problem),
            "8192×8192 float16 × int4 group 128, 8 experts, grouped masked, "
            "top 2");
}

}  // namespace
}  // namespace hone
