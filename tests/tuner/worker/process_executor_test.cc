#include "tuner/worker/process_executor.h"

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ProcessExecutorTest : public testing::Test {
 protected:
  ProcessExecutorTest()
      : log_(absl::StrCat(
            testing::TempDir(), "/fake_worker_", getpid(), "_",
            testing::UnitTest::GetInstance()->current_test_info()->name(),
            ".log")) {
    std::remove(log_.c_str());
    problem_.layer.n = 64;
    problem_.layer.k = 64;
  }
  ~ProcessExecutorTest() override {
    std::remove(log_.c_str());
    std::remove(absl::StrCat(log_, ".once").c_str());
  }

  std::unique_ptr<ProcessExecutor> Make(std::vector<std::string> more = {}) {
    ProcessExecutor::Options options;
    options.command = {HONE_FAKE_WORKER, absl::StrCat("--log=", log_)};
    for (std::string& arg : more) options.command.push_back(std::move(arg));
    auto executor = ProcessExecutor::Create(options);
    EXPECT_TRUE(executor.ok()) << executor.status();
    EXPECT_TRUE((*executor)->Begin(problem_, 64, 1).ok());
    return *std::move(executor);
  }

  static int Add(ProcessExecutor& executor, const std::string& kind) {
    Candidate candidate;
    candidate.cubin = kind;
    return *executor.Add(candidate);
  }

  std::vector<std::string> Log() const {
    std::vector<std::string> lines;
    std::ifstream file(log_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  int64_t CountInLog(const std::string& line) const {
    const std::vector<std::string> log = Log();
    return std::count(log.begin(), log.end(), line);
  }

  const std::string log_;
  Problem problem_;
};

constexpr absl::Duration kDeadline = absl::Seconds(20);

TEST_F(ProcessExecutorTest, TellsTheDeviceAndForeignProcesses) {
  const auto executor = Make();
  EXPECT_EQ(executor->device().uuid, "GPU-fake");
  EXPECT_EQ(executor->device().sm_arch, 90);
  EXPECT_THAT(executor->foreign_processes(), ElementsAre(4711));
}

TEST_F(ProcessExecutorTest, AWorkerThatCannotStartIsAnError) {
  ProcessExecutor::Options options;
  options.command = {"/nonexistent/hone-worker"};
  EXPECT_FALSE(ProcessExecutor::Create(options).ok());
  options.command = {HONE_FAKE_WORKER, "--device=missing"};
  const auto executor = ProcessExecutor::Create(options);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(executor.status().message()),
              HasSubstr("no driver here"));
}

TEST_F(ProcessExecutorTest, GatesAndTimes) {
  const auto executor = Make();
  const int good = Add(*executor, "ok");
  const int wrong = Add(*executor, "wrong");
  const auto passed = executor->Gate(good, 16, kDeadline);
  ASSERT_TRUE(passed.ok()) << passed.status();
  EXPECT_EQ(passed->outcome, Outcome::kMeasured);
  EXPECT_EQ(passed->gate, GateKind::kDevice);
  const auto failed = executor->Gate(wrong, 16, kDeadline);
  ASSERT_TRUE(failed.ok());
  EXPECT_EQ(failed->outcome, Outcome::kWrongResult);
  EXPECT_EQ(failed->error.worst_ratio, 7);
  RoundRequest request;
  request.m = 16;
  request.round = 3;
  request.order = {good, good};
  const auto round = executor->Round(request, kDeadline);
  ASSERT_TRUE(round.ok()) << round.status();
  ASSERT_EQ(round->entries.size(), 2u);
  EXPECT_EQ(round->entries[1].sample.duration_ns, 1000);
  EXPECT_EQ(round->entries[1].sample.round, 3);
  EXPECT_FALSE(round->slowed_down || round->unpaired);
  // One worker, one hand-over each, one reference for the M.
  EXPECT_EQ(executor->health().workers_started, 1);
  EXPECT_EQ(CountInLog("add ok"), 1);
  EXPECT_EQ(CountInLog("prepare 16"), 1);
}

TEST_F(ProcessExecutorTest, AHangIsKilledWithinItsDeadline) {
  const auto executor = Make();
  const int good = Add(*executor, "ok");
  const int hang = Add(*executor, "hang");
  const absl::Time start = absl::Now();
  const auto result = executor->Gate(hang, 16, absl::Milliseconds(300));
  const absl::Duration took = absl::Now() - start;
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, Outcome::kTimeout);
  EXPECT_GE(took, absl::Milliseconds(300));
  EXPECT_LT(took, absl::Milliseconds(1300));
  EXPECT_EQ(executor->health().workers_started, 2);
  // The new worker was checked before anybody was blamed; it is told of the
  // problem, and the others go on.
  EXPECT_EQ(CountInLog("sentinel"), 1);
  EXPECT_EQ(executor->Gate(good, 16, kDeadline)->outcome, Outcome::kMeasured);
  EXPECT_EQ(CountInLog("begin 64"), 2);
  // The culprit is remembered and never sent again.
  EXPECT_EQ(executor->Gate(hang, 32, kDeadline)->outcome, Outcome::kTimeout);
  EXPECT_EQ(CountInLog("gate hang"), 1);
  EXPECT_EQ(CountInLog("add hang"), 1);
}

TEST_F(ProcessExecutorTest, CrashesAndNonsenseAreOutcomes) {
  const auto executor = Make();
  const struct {
    const char* kind;
    const char* detail;
  } cases[] = {{"crash", "signal 6"},           {"exit", "status 3"},
               {"garbage", "no frame"},         {"stale", "makes no sense"},
               {"partial", "no result within"}, {"fault", "illegal address"}};
  for (const auto& c : cases) {
    const int index = Add(*executor, c.kind);
    const auto result = executor->Gate(index, 16, absl::Seconds(1));
    ASSERT_TRUE(result.ok()) << c.kind << ": " << result.status();
    EXPECT_EQ(result->outcome, std::string(c.kind) == "partial"
                                   ? Outcome::kTimeout
                                   : Outcome::kFault)
        << c.kind;
    EXPECT_THAT(result->interruptions, IsEmpty());
    EXPECT_THAT(result->detail, HasSubstr(c.detail)) << c.kind;
  }
  EXPECT_EQ(executor->health().workers_started, 7);
  EXPECT_EQ(executor->Gate(Add(*executor, "ok"), 16, kDeadline)->outcome,
            Outcome::kMeasured);
}

TEST_F(ProcessExecutorTest, ARoundFindsItsCulprit) {
  const auto executor = Make();
  RoundRequest request;
  request.m = 16;
  for (const char* kind : {"ok", "crash_in_round", "ok", "hang_in_round"}) {
    request.order.push_back(Add(*executor, kind));
    ASSERT_EQ(executor->Gate(request.order.back(), 16, kDeadline)->outcome,
              Outcome::kMeasured);
  }
  const auto first = executor->Round(request, absl::Milliseconds(300));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->unpaired);
  EXPECT_EQ(first->entries[0].outcome, Outcome::kMeasured);
  EXPECT_EQ(first->entries[1].outcome, Outcome::kFault);
  EXPECT_EQ(first->entries[2].outcome, Outcome::kMeasured);
  EXPECT_EQ(first->entries[3].outcome, Outcome::kTimeout);
  const int64_t workers = executor->health().workers_started;
  const auto second = executor->Round(request, kDeadline);
  ASSERT_TRUE(second.ok());
  EXPECT_FALSE(second->unpaired);
  EXPECT_EQ(second->entries[0].outcome, Outcome::kMeasured);
  EXPECT_EQ(second->entries[1].outcome, Outcome::kFault);
  EXPECT_EQ(second->entries[3].outcome, Outcome::kTimeout);
  EXPECT_EQ(executor->health().workers_started, workers);
}

TEST_F(ProcessExecutorTest, AKilledWorkerIsNotTheCandidatesFault) {
  const auto executor = Make({absl::StrCat("--once=", log_, ".once")});
  const int victim = Add(*executor, "killed_once");
  const auto gated = executor->Gate(victim, 16, kDeadline);
  ASSERT_TRUE(gated.ok()) << gated.status();
  EXPECT_EQ(gated->outcome, Outcome::kMeasured) << gated->detail;
  EXPECT_THAT(gated->interruptions, ElementsAre(HasSubstr("signal 9")));
  // Between two calls.
  const int good = Add(*executor, "ok");
  ASSERT_EQ(kill(executor->worker_pid(), SIGKILL), 0);
  const auto after = executor->Gate(good, 16, kDeadline);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->outcome, Outcome::kMeasured);
  EXPECT_THAT(after->interruptions, ElementsAre(HasSubstr("signal 9")));
  // Before the next problem, which tells of it with its first result.
  ASSERT_EQ(kill(executor->worker_pid(), SIGKILL), 0);
  EXPECT_TRUE(executor->Begin(problem_, 32, 1).ok());
  const auto next = executor->Gate(Add(*executor, "ok"), 16, kDeadline);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->interruptions, SizeIs(1));
  EXPECT_EQ(executor->health().workers_started, 4);
}

TEST_F(ProcessExecutorTest, AKilledWorkerInARoundIsNobodysFault) {
  const auto executor = Make({absl::StrCat("--once=", log_, ".once")});
  RoundRequest request;
  request.m = 16;
  for (const char* kind : {"ok", "killed_once_in_round"}) {
    request.order.push_back(Add(*executor, kind));
  }
  const auto first = executor->Round(request, kDeadline);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->unpaired);
  EXPECT_EQ(first->entries[1].outcome, Outcome::kMeasured);
  EXPECT_THAT(first->interruptions, ElementsAre(HasSubstr("signal 9")));
  const auto second = executor->Round(request, kDeadline);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->unpaired);
  EXPECT_EQ(second->entries[1].sample.duration_ns, 1001);
}

TEST_F(ProcessExecutorTest, AFailureOfTheDeviceIsNotTheCandidatesFault) {
  const auto executor = Make({absl::StrCat("--once=", log_, ".once")});
  const auto gated = executor->Gate(Add(*executor, "spoilt"), 16, kDeadline);
  ASSERT_TRUE(gated.ok()) << gated.status();
  EXPECT_EQ(gated->outcome, Outcome::kMeasured) << gated->detail;
  EXPECT_THAT(gated->interruptions, ElementsAre(HasSubstr("ECC")));
  EXPECT_EQ(executor->health().workers_started, 2);
}

TEST_F(ProcessExecutorTest, ACandidateThatIsInterruptedAgainAndAgainIsLeft) {
  const auto executor = Make();
  const auto killed = executor->Gate(Add(*executor, "killed"), 16, kDeadline);
  ASSERT_TRUE(killed.ok()) << killed.status();
  EXPECT_EQ(killed->outcome, Outcome::kInterrupted);
  EXPECT_TRUE(IsCircumstance(killed->outcome));
  EXPECT_THAT(killed->interruptions, SizeIs(2));
  EXPECT_EQ(executor->health().workers_started, 4);
  EXPECT_EQ(executor->Gate(Add(*executor, "ok"), 16, kDeadline)->outcome,
            Outcome::kMeasured);
}

TEST_F(ProcessExecutorTest, ForeignProcessesInARoundAreTold) {
  const auto executor = Make();
  RoundRequest request;
  request.m = 16;
  request.order = {Add(*executor, "foreign_in_round")};
  const auto round = executor->Round(request, kDeadline);
  ASSERT_TRUE(round.ok()) << round.status();
  EXPECT_THAT(round->foreign_processes, ElementsAre(4712));
}

TEST_F(ProcessExecutorTest, AWorkerThatDoesNotEndIsAQuarantine) {
  ProcessExecutor::Options options;
  options.command = {HONE_FAKE_WORKER, absl::StrCat("--log=", log_),
                     "--unreapable"};
  options.reap_deadline = absl::Milliseconds(300);
  auto executor = ProcessExecutor::Create(options);
  ASSERT_TRUE(executor.ok()) << executor.status();
  ASSERT_TRUE((*executor)->Begin(problem_, 64, 1).ok());
  EXPECT_TRUE((*executor)->Usable().ok());
  const pid_t worker = (*executor)->worker_pid();
  const int index = Add(**executor, "hang");
  const absl::Time start = absl::Now();
  const auto result = (*executor)->Gate(index, 16, absl::Milliseconds(100));
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("has not ended"));
  EXPECT_EQ((*executor)->Usable(), result.status());
  EXPECT_EQ((*executor)->Begin(problem_, 64, 1), result.status());
  const ExecutorHealth health = (*executor)->health();
  EXPECT_EQ(health.workers_lost, 1);
  EXPECT_EQ(health.sentinel_failures, 0);
  EXPECT_EQ(health.quarantine, result.status().message());
  // It is reaped once it can be.
  executor->reset();
  for (int i = 0; i < 500 && kill(worker, 0) == 0; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_NE(kill(worker, 0), 0);
}

TEST_F(ProcessExecutorTest, ThreeFailedSentinelsAreAQuarantine) {
  const auto executor = Make({"--sentinel=fail"});
  const auto result = executor->Gate(Add(*executor, "crash"), 16, kDeadline);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("quarantine"));
  EXPECT_EQ(CountInLog("sentinel"), 3);
  const ExecutorHealth health = executor->health();
  EXPECT_EQ(health.workers_started, 4);
  EXPECT_EQ(health.workers_lost, 4);
  EXPECT_EQ(health.sentinel_failures, 3);
  EXPECT_EQ(health.quarantine, result.status().message());
  EXPECT_EQ(executor->Usable(), result.status());
  EXPECT_EQ(executor->Begin(problem_, 8, 1).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(CountInLog("sentinel"), 3);
}

// The real worker: on a machine without a GPU it starts, and says what is
// missing; with one it tells the device.
TEST_F(ProcessExecutorTest, TheRealWorkerAnswersWithAndWithoutAGpu) {
  ProcessExecutor::Options options;
  options.command = {HONE_WORKER, "--device=0"};
  const auto executor = ProcessExecutor::Create(options);
  if (executor.ok()) {
    EXPECT_GT((*executor)->device().sm_count, 0);
  } else {
    EXPECT_EQ(executor.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(executor.status().message()),
                testing::ContainsRegex("CUDA|device"));
  }
}

TEST_F(ProcessExecutorTest, TheRealWorkerEndsWithItsParentsSide) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    dup2(sockets[1], STDIN_FILENO);
    dup2(sockets[1], STDOUT_FILENO);
    execl(HONE_WORKER, HONE_WORKER, "--device=0", nullptr);
    _exit(127);
  }
  close(sockets[1]);
  // It waits for requests, and ends once there is nobody to make any.
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0);
  close(sockets[0]);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

int OpenDescriptors(const std::string& process = "self") {
  int count = 0;
  DIR* folder = opendir(absl::StrCat("/proc/", process, "/fd").c_str());
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

TEST_F(ProcessExecutorTest, AWorkerHoldsNothingOfItsParent) {
  // Not close-on-exec, as some library may leave it.
  const int ours = dup(STDERR_FILENO);
  const auto executor = Make();
  // ".", "..", 0, 1, 2 and its log.
  EXPECT_EQ(OpenDescriptors(absl::StrCat(executor->worker_pid())), 6);
  close(ours);
}

TEST_F(ProcessExecutorTest, ThirtyLostWorkersLeaveNothingBehind) {
  int before = 0;
  {
    const auto executor = Make();
    before = OpenDescriptors();
    for (int i = 0; i < 30; ++i) {
      const int index = Add(*executor, i % 2 == 0 ? "crash" : "hang");
      ASSERT_TRUE(executor->Gate(index, 16, absl::Milliseconds(50)).ok());
    }
    EXPECT_EQ(executor->health().workers_started, 31);
    EXPECT_EQ(executor->health().workers_lost, 30);
    EXPECT_EQ(executor->health().quarantine, "");
    EXPECT_EQ(OpenDescriptors(), before);
  }
  EXPECT_EQ(OpenDescriptors(), before - 1);
  // No child is left, dead or alive.
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace hone
