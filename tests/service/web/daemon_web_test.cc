// honed's pages while it tunes, over its own port.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/support/http_client.h"
#include "tests/service/support/test_daemon.h"
#include "tests/service/web/json_value.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

JsonValue Get(TestDaemon& daemon, const std::string& target) {
  const HttpReply reply =
      HttpGet(daemon.daemon().http_address(), "/api/v1/" + target);
  EXPECT_EQ(reply.status, 200) << target << "\n" << reply.body;
  return JsonValue::Parse(reply.body);
}

TEST(DaemonWebTest, ShowsATuneFromItsStartToItsTable) {
  TestDaemon daemon;
  EXPECT_THAT(HttpGet(daemon.daemon().http_address(), "/").body,
              HasSubstr("<html"));
  const std::string device_class = TestGpu().ClassHash();
  const std::string subject =
      "problem=" + SmallProblem().Hash() + "&class=" + device_class;
  EXPECT_EQ(Get(daemon, "problems?class=" + device_class).size(), 0);

  daemon.Hold(5);
  std::thread tune([&] {
    const auto result =
        daemon.Tune(daemon.TuneRequestFor(SmallProblem(), TestId(1)));
    EXPECT_TRUE(result.ok()) << result.status();
  });
  ASSERT_TRUE(daemon.WaitUntilHeld());
  JsonValue jobs = Get(daemon, "status")["jobs"];
  ASSERT_EQ(jobs.size(), 1);
  EXPECT_EQ(jobs[0]["id"].text(), TestId(1));
  EXPECT_EQ(jobs[0]["state"].text(), "running");
  EXPECT_EQ(jobs[0]["problem"].text(), SmallProblem().Hash());
  EXPECT_EQ(Get(daemon, "sessions?class=" + device_class)[0]["status"].text(),
            "running");
  daemon.Release();
  tune.join();

  const JsonValue status = Get(daemon, "status");
  EXPECT_EQ(status["jobs"][0]["state"].text(), "succeeded");
  EXPECT_EQ(status["revision"].number(), 1);
  EXPECT_EQ(Get(daemon, "sessions?class=" + device_class)[0]["status"].text(),
            "finished");
  const JsonValue problems = Get(daemon, "problems?class=" + device_class);
  ASSERT_EQ(problems.size(), 1);
  EXPECT_FALSE(problems[0]["table"]["stale"].truth());
  const JsonValue trials = Get(daemon, "trials?" + subject);
  EXPECT_EQ(trials["trials"]["id"].size(),
            static_cast<int>(problems[0]["trials"].number()));
  EXPECT_EQ(trials["best"][0]["from"].text(), "table");
  // Every config that was tried renders.
  const std::string config = trials["configs"][0].text();
  const HttpReply source =
      HttpGet(daemon.daemon().http_address(),
              "/api/v1/source?" + subject + "&config=" + config);
  EXPECT_EQ(source.status, 200) << source.body;
  EXPECT_EQ(Get(daemon, "table?" + subject)["entries"][0]["m_lo"].number(), 1);
}

TEST(DaemonWebTest, GoesOnWithoutADevice) {
  TestDaemon daemon(/*can_tune=*/false);
  const JsonValue status = Get(daemon, "status");
  EXPECT_TRUE(status["device"].is_null());
  EXPECT_EQ(status["health"]["state"].text(), "no device");
  EXPECT_THAT(status["unavailable"].text(), HasSubstr("no CUDA driver"));
  EXPECT_EQ(Get(daemon, "classes").size(), 0);
}

// Starts a daemon of its own there, without a device.
absl::StatusOr<std::unique_ptr<Daemon>> StartAt(const TempFolder& folder,
                                                const std::string& http,
                                                bool may_be_taken,
                                                Logger* log) {
  DeviceBackend backend;
  backend.can_tune = absl::FailedPreconditionError("none");
  DaemonOptions options;
  options.listen = "unix:" + (folder / "run/honed.sock");
  options.database = folder / "db/hone.db";
  options.http = http;
  options.http_may_be_taken = may_be_taken;
  return Daemon::Start(options, std::move(backend), log);
}

TEST(DaemonWebTest, ATakenPortIsAnErrorUnlessItIsTheDefault) {
  TestDaemon first;
  const std::string taken = first.daemon().http_address();
  std::vector<std::string> lines;
  Logger log([&](absl::string_view line) { lines.emplace_back(line); });
  TempFolder folder;
  const auto refused = StartAt(folder, taken, false, &log);
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(refused.status().message(), HasSubstr(taken));
  lines.clear();
  const auto second = StartAt(folder, taken, true, &log);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT((*second)->http_address(), IsEmpty());
  ASSERT_THAT(lines, Not(IsEmpty()));
  EXPECT_THAT(lines[0], HasSubstr("\"event\":\"no_http\""));
  EXPECT_THAT(lines[0], HasSubstr(taken));
}

TEST(DaemonWebTest, HasNoPortUnlessAsked) {
  Logger log([](absl::string_view) {});
  TempFolder folder;
  const auto daemon = StartAt(folder, "", false, &log);
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_THAT((*daemon)->http_address(), IsEmpty());
}

}  // namespace
}  // namespace hone
