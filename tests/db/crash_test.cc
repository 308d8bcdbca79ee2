// What was acknowledged survives: SIGKILL at any moment, and a full disk.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <set>

#include "db/sqlite.h"
#include "gmock/gmock.h"
#include "tests/db/fixture.h"

namespace hone {
namespace {

using testing::TestDevice;
using testing::TestProblem;
using testing::TestTable;
using testing::TestTrial;
using CrashTest = testing::DbTest;

// Records trials named by rising numbers from `next` on, and tells each number
// once its call has returned. Runs in a child and ends only by a signal.
[[noreturn]] void RecordForever(const std::string& path, int64_t next,
                                int acknowledge) {
  auto store = Store::Open(path);
  if (!store.ok()) _exit(2);
  for (;; ++next) {
    const auto id = (*store)->RecordTrial(TestDevice(), Protocol(),
                                          TestTrial(16, absl::StrCat(next)));
    if (!id.ok()) _exit(3);
    if (next % 7 == 0 && !(*store)->PublishTable(TestTable()).ok()) _exit(4);
    if (write(acknowledge, &next, sizeof(next)) != sizeof(next)) _exit(5);
  }
}

TEST_F(CrashTest, NoAcknowledgedTrialIsLostToSigkill) {
  // Opened in a child only: a fork must not carry SQLite connections over.
  std::mt19937 random(20261202);
  std::set<std::string> acknowledged;
  int64_t next = 1;
  for (int kill_number = 0; kill_number < 40; ++kill_number) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(pipe_ends[0]);
      RecordForever(Path(), next, pipe_ends[1]);
    }
    close(pipe_ends[1]);
    int64_t number = 0;
    // Every fourth kill may hit the opening, the others wait for an answer.
    if (kill_number % 4 != 0) {
      ASSERT_EQ(read(pipe_ends[0], &number, sizeof(number)), 8);
      acknowledged.insert(absl::StrCat(number));
      next = number + 1;
    }
    usleep(std::uniform_int_distribution<useconds_t>(0, 60000)(random));
    kill(child, SIGKILL);
    while (read(pipe_ends[0], &number, sizeof(number)) == sizeof(number)) {
      acknowledged.insert(absl::StrCat(number));
      next = number + 1;
    }
    close(pipe_ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
    // A trial may be stored though its number was not told any more.
    next += 1;
  }
  const auto store = OpenStore();
  const auto trials =
      store->KnownTrials(TestProblem(), TestDevice(), Protocol());
  ASSERT_TRUE(trials.ok()) << trials.status();
  std::set<std::string> stored;
  for (const Trial& trial : *trials) {
    EXPECT_TRUE(stored.insert(trial.detail).second);
    EXPECT_EQ(trial, TestTrial(16, trial.detail));
  }
  EXPECT_GE(acknowledged.size(), 30u);
  int lost = 0;
  for (const std::string& number : acknowledged) lost += !stored.count(number);
  EXPECT_EQ(lost, 0);
  EXPECT_LE(stored.size(), acknowledged.size() + 40);
  // Every published revision is whole.
  EXPECT_EQ(store->GetTable(TestProblem(), TestDevice())->table, TestTable());

  auto database = sqlite::Database::Open(Path(), sqlite::Access::kReadOnly);
  ASSERT_TRUE(database.ok());
  EXPECT_EQ(*(*database)->QueryText("PRAGMA integrity_check"), "ok");
  EXPECT_FALSE((*database)->QueryInt("PRAGMA foreign_key_check").ok());
}

// Writes until the file-size limit stops it; then reads must still work, and
// writes once there is room again. Returns what failed, or 0.
int FillTheDisk(const std::string& path) {
  signal(SIGXFSZ, SIG_IGN);
  auto store = Store::Open(path);
  if (!store.ok()) return 2;
  int64_t recorded = 0;
  if (!(*store)->RecordTrial(TestDevice(), Protocol(), TestTrial()).ok()) {
    return 3;
  }
  ++recorded;
  const rlimit tight = {1 << 20, RLIM_INFINITY};
  if (setrlimit(RLIMIT_FSIZE, &tight) != 0) return 4;
  absl::Status status;
  while (recorded < 10000) {
    Trial trial = TestTrial();
    trial.samples.resize(200);
    status = (*store)->RecordTrial(TestDevice(), Protocol(), trial).status();
    if (!status.ok()) break;
    ++recorded;
  }
  if (status.code() != absl::StatusCode::kResourceExhausted) return 5;
  // Again: the error leaves no transaction open.
  status = (*store)->PublishTable(TestTable()).status();
  if (status.code() != absl::StatusCode::kResourceExhausted) return 6;
  const auto known =
      (*store)->KnownTrials(TestProblem(), TestDevice(), Protocol());
  if (!known.ok()) return 7;
  if (static_cast<int64_t>(known->size()) != recorded) return 8;
  const rlimit loose = {RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_FSIZE, &loose) != 0) return 9;
  if (!(*store)->PublishTable(TestTable()).ok()) return 10;
  return recorded > 10 ? 0 : 11;
}

TEST_F(CrashTest, AFullDiskIsAnErrorAndTheStoreGoesOn) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(FillTheDisk(Path()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the step of FillTheDisk that failed";
  const auto store = OpenStore();
  EXPECT_EQ(store->GetTable(TestProblem(), TestDevice())->table, TestTable());
}

}  // namespace
}  // namespace hone
