#include "kernels/jit/compile_pool.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/jit/codec.h"
#include "kernels/jit/compiler_process.h"
#include "tests/kernels/jit/test_sources.h"

namespace hone {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::Duration kLong = absl::Seconds(60);

std::unique_ptr<CompilePool> MustCreate(CompilePoolOptions options = {}) {
  options.executable = HONE_COMPILER_PATH;
  options.search = TestSearch();
  if (options.processes == 0) options.processes = 2;
  auto pool = CompilePool::Create(options);
  EXPECT_TRUE(pool.ok()) << pool.status();
  return *std::move(pool);
}

CompileRequest Request(std::string source) {
  return {.source = std::move(source), .arch = "sm_90a"};
}

struct Child {
  pid_t pid;
  char state;
};

// This process's children, zombies included, that are hone-compiler.
std::vector<Child> Children() {
  std::vector<Child> children;
  DIR* proc = opendir("/proc");
  while (const dirent* item = readdir(proc)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(item->d_name, &pid)) continue;
    std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
    std::string line;
    std::getline(in, line);
    // pid (name) state parent ...
    const size_t name = line.rfind(')');
    if (name == std::string::npos) continue;
    if (line.find("(hone-compiler)") == std::string::npos) continue;
    const std::vector<std::string> fields =
        absl::StrSplit(line.substr(name + 2), ' ');
    if (fields[1] == absl::StrCat(getpid())) {
      children.push_back({pid, fields[0][0]});
    }
  }
  closedir(proc);
  return children;
}

size_t OpenFiles() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// CPU time of a process, in clock ticks.
int64_t CpuTicks(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(in, line);
  const size_t name = line.rfind(')');
  if (name == std::string::npos) return 0;
  const std::vector<std::string> fields =
      absl::StrSplit(line.substr(name + 2), ' ');
  int64_t ticks = 0;
  return fields.size() > 11 && absl::SimpleAtoi(fields[11], &ticks) ? ticks : 0;
}

// Waits until `count` children have spent time that only a long compile takes;
// returns one of them, or -1.
pid_t AwaitBusyChildren(int count) {
  for (int i = 0; i < 6000; ++i) {
    int busy = 0;
    for (const Child& child : Children()) {
      if (CpuTicks(child.pid) < 20) continue;
      if (++busy == count) return child.pid;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  return -1;
}

TEST(CompilePoolTest, AgreesWithNvrtcInThisProcess) {
  const auto pool = MustCreate();
  EXPECT_EQ(pool->nvrtc_version(), TestNvrtc().version());
  EXPECT_EQ(pool->processes(), 2);
  auto here = TestNvrtc().Compile(Request(SpillSource()));
  auto there = pool->Compile(Request(SpillSource()), kLong);
  ASSERT_TRUE(here.ok() && there.ok()) << there.status();
  EXPECT_EQ(here->cubin, there->cubin);
  EXPECT_EQ(here->ptx, there->ptx);
  EXPECT_EQ(here->resources, there->resources);
  EXPECT_EQ(here->warnings, there->warnings);
}

TEST(CompilePoolTest, RefusalsAndErrorsComeThrough) {
  const auto pool = MustCreate();
  const auto rejected = pool->Compile(Request("nonsense"), kLong);
  ASSERT_TRUE(rejected.ok()) << rejected.status();
  EXPECT_EQ(rejected->outcome, CompileOutcome::kRejected);
  EXPECT_THAT(rejected->log, HasSubstr("error"));
  CompileRequest request = Request(StoreSource(1));
  request.arch = "sm_1";
  EXPECT_EQ(pool->Compile(request, kLong).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(pool->Compile(Request(StoreSource(1)), kLong)->ok());
}

TEST(CompilePoolTest, PastTheDeadlineTheChildIsKilledAndReplaced) {
  const auto pool = MustCreate({.processes = 1});
  const pid_t first = Children().at(0).pid;
  const absl::Time start = absl::Now();
  const auto slow =
      pool->Compile(Request(SlowSource()), absl::Milliseconds(300));
  const absl::Duration took = absl::Now() - start;
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_EQ(slow->outcome, CompileOutcome::kTimeout);
  EXPECT_THAT(slow->log, HasSubstr("300ms"));
  EXPECT_GE(took, absl::Milliseconds(300));
  EXPECT_LT(took, absl::Milliseconds(1300));
  EXPECT_THAT(Children(), IsEmpty());
  EXPECT_TRUE(pool->Compile(Request(StoreSource(2)), kLong)->ok());
  ASSERT_THAT(Children(), SizeIs(1));
  EXPECT_NE(Children()[0].pid, first);
}

TEST(CompilePoolTest, AChildThatIsStoppedTimesOutToo) {
  const auto pool = MustCreate({.processes = 1});
  ASSERT_EQ(kill(Children().at(0).pid, SIGSTOP), 0);
  // More than a socket buffer, so that sending cannot succeed either.
  const auto result = pool->Compile(Request(std::string(4 << 20, ' ')),
                                    absl::Milliseconds(200));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, CompileOutcome::kTimeout);
  EXPECT_TRUE(pool->Compile(Request(StoreSource(2)), kLong)->ok());
}

TEST(CompilePoolTest, ACrashIsAnOutcome) {
  const auto pool = MustCreate({.processes = 1});
  absl::StatusOr<CompileResult> result;
  absl::Notification done;
  ASSERT_TRUE(pool->Submit(Request(SlowSource()), kLong,
                           [&](absl::StatusOr<CompileResult> r) {
                             result = std::move(r);
                             done.Notify();
                           })
                  .ok());
  const pid_t pid = AwaitBusyChildren(1);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(kill(pid, SIGSEGV), 0);
  done.WaitForNotification();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, CompileOutcome::kCrashed);
  EXPECT_THAT(result->log, HasSubstr("signal 11"));
  EXPECT_TRUE(pool->Compile(Request(StoreSource(2)), kLong)->ok());
}

TEST(CompilePoolTest, AChildThatOthersKillIsNotTheSourcesFault) {
  const auto pool = MustCreate({.processes = 1});
  std::vector<CompileOutcome> outcomes;
  for (const int kills : {1, 2}) {
    absl::StatusOr<CompileResult> result;
    absl::Notification done;
    ASSERT_TRUE(pool->Submit(Request(SlowSource()), kLong,
                             [&](absl::StatusOr<CompileResult> r) {
                               result = std::move(r);
                               done.Notify();
                             })
                    .ok());
    pid_t killed = -1;
    for (int i = 0; i < kills; ++i) {
      pid_t busy = AwaitBusyChildren(1);
      while (busy == killed) busy = AwaitBusyChildren(1);
      killed = busy;
      ASSERT_EQ(kill(killed, SIGKILL), 0);
    }
    done.WaitForNotification();
    ASSERT_TRUE(result.ok()) << result.status();
    outcomes.push_back(result->outcome);
  }
  EXPECT_THAT(outcomes, testing::ElementsAre(CompileOutcome::kCompiled,
                                             CompileOutcome::kKilled));
}

TEST(CompilePoolTest, AChildThatDiesIdleIsReplacedUnnoticed) {
  const auto pool = MustCreate({.processes = 1});
  ASSERT_EQ(kill(Children().at(0).pid, SIGKILL), 0);
  // Dead, though nobody has reaped it.
  while (Children().at(0).state != 'Z') absl::SleepFor(absl::Milliseconds(1));
  const auto result = pool->Compile(Request(StoreSource(2)), kLong);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->ok()) << result->log;
}

TEST(CompilePoolTest, CancelsWaitingAndRunningCompiles) {
  const auto pool = MustCreate({.processes = 1});
  absl::BlockingCounter left(2);
  absl::Status running;
  absl::Status waiting;
  const auto first = pool->Submit(Request(SlowSource()), kLong,
                                  [&](absl::StatusOr<CompileResult> r) {
                                    running = r.status();
                                    left.DecrementCount();
                                  });
  const auto second = pool->Submit(Request(StoreSource(1)), kLong,
                                   [&](absl::StatusOr<CompileResult> r) {
                                     waiting = r.status();
                                     left.DecrementCount();
                                   });
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_GT(AwaitBusyChildren(1), 0);
  pool->Cancel(*second);
  pool->Cancel(*first);
  left.Wait();
  EXPECT_EQ(running.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(waiting.code(), absl::StatusCode::kCancelled);
  // Of tickets that have ended or never were, nothing comes.
  pool->Cancel(*first);
  pool->Cancel(12345);
  EXPECT_TRUE(pool->Compile(Request(StoreSource(2)), kLong)->ok());
}

TEST(CompilePoolTest, AFullQueueRefuses) {
  const auto pool = MustCreate({.processes = 1, .max_queued = 2});
  std::atomic<int> ended = 0;
  const auto submit = [&] {
    return pool->Submit(Request(SlowSource()), kLong,
                        [&](absl::StatusOr<CompileResult>) { ++ended; });
  };
  ASSERT_TRUE(submit().ok());
  ASSERT_GT(AwaitBusyChildren(1), 0);  // it has left the queue
  ASSERT_TRUE(submit().ok());
  const auto last = submit();
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(submit().status().code(), absl::StatusCode::kResourceExhausted);
  pool->Cancel(*last);
  EXPECT_EQ(ended, 1);
  EXPECT_TRUE(submit().ok());
}

TEST(CompilePoolTest, DestructionCancelsKillsAndReaps) {
  const size_t files = OpenFiles();
  std::atomic<int> cancelled = 0;
  {
    const auto pool = MustCreate();
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(pool->Submit(Request(SlowSource()), kLong,
                               [&](absl::StatusOr<CompileResult> r) {
                                 cancelled += absl::IsCancelled(r.status());
                               })
                      .ok());
    }
    ASSERT_GT(AwaitBusyChildren(1), 0);
  }
  EXPECT_EQ(cancelled, 6);
  EXPECT_THAT(Children(), IsEmpty());
  EXPECT_EQ(OpenFiles(), files);
}

TEST(CompilePoolTest, FiftyKilledChildrenLeaveNothingBehind) {
  const auto pool = MustCreate({.processes = 1});
  ASSERT_TRUE(pool->Compile(Request(StoreSource(1)), kLong)->ok());
  const size_t files = OpenFiles();
  for (int round = 0; round < 50; ++round) {
    const auto result =
        pool->Compile(Request(SlowSource()), absl::Milliseconds(20));
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->outcome, CompileOutcome::kTimeout);
  }
  ASSERT_TRUE(pool->Compile(Request(StoreSource(1)), kLong)->ok());
  EXPECT_THAT(Children(), SizeIs(1));
  EXPECT_EQ(OpenFiles(), files);
}

TEST(CompilePoolTest, ProcessesStartWhenTheQueueAsksForThem) {
  const auto pool = MustCreate({.processes = 8});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool->Compile(Request(StoreSource(i)), kLong)->ok());
  }
  EXPECT_THAT(Children(), SizeIs(1));
}

TEST(CompilePoolTest, CompilesSideBySide) {
  const auto pool = MustCreate({.processes = 2});
  absl::BlockingCounter left(16);
  std::atomic<int> good = 0;
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(pool->Submit(Request(StoreSource(i)), kLong,
                             [&, i](absl::StatusOr<CompileResult> r) {
                               good += r.ok() && r->ok() &&
                                       r->ptx.find(absl::StrCat(
                                           ", ", i, ";")) != std::string::npos;
                               left.DecrementCount();
                             })
                    .ok());
  }
  EXPECT_THAT(Children(), testing::Not(IsEmpty()));
  left.Wait();
  EXPECT_EQ(good, 16);
  EXPECT_THAT(Children(), SizeIs(2));
}

TEST(CompilePoolTest, LongCompilesRunAtTheSameTime) {
  std::atomic<int> ended = 0;
  auto pool = MustCreate({.processes = 2});
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pool->Submit(Request(SlowSource()), kLong,
                             [&](absl::StatusOr<CompileResult>) { ++ended; })
                    .ok());
  }
  EXPECT_GT(AwaitBusyChildren(2), 0);
  EXPECT_EQ(ended, 0);
  pool.reset();
  EXPECT_EQ(ended, 2);
}

TEST(CompilePoolTest, MemoryLimitEndsTheCompileNotThePool) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need terabytes of address space";
#endif
  // Room to load NVRTC, not to compile the large source.
  const auto pool =
      MustCreate({.processes = 1, .address_space_bytes = uint64_t{200} << 20});
  const auto large = pool->Compile(Request(SlowSource()), kLong);
  ASSERT_TRUE(large.ok()) << large.status();
  // Whether it dies or only ptxas gives up.
  EXPECT_EQ(large->outcome, CompileOutcome::kCrashed) << large->log;
  EXPECT_TRUE(pool->Compile(Request(StoreSource(2)), kLong)->ok());
}

TEST(CompilePoolTest, APtxasWithoutMemoryIsNoRefusal) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need terabytes of address space";
#endif
  // Too many operations for ptxas, though not for what comes before it.
  std::string source = "extern \"C\" __global__ void k(int* p) { p[0] = p[1]";
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&source, "+p[", i, "]");
  absl::StrAppend(&source, "; }");
  const auto pool =
      MustCreate({.processes = 1, .address_space_bytes = uint64_t{200} << 20});
  const auto result = pool->Compile(Request(source), kLong);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outcome, CompileOutcome::kCrashed) << result->log;
}

TEST(CompilePoolTest, ChildrenAreConfined) {
  setenv("HONE_TEST_SECRET", "1", 1);
  const auto pool = MustCreate({.processes = 1, .nice = 3});
  const pid_t pid = Children().at(0).pid;
  unsetenv("HONE_TEST_SECRET");
  EXPECT_EQ(getpgid(pid), pid);
  const auto read = [pid](const char* file) {
    std::ifstream in(absl::StrCat("/proc/", pid, "/", file));
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_THAT(read("environ"), testing::Not(HasSubstr("HONE_TEST_SECRET")));
  EXPECT_THAT(read("limits"),
              testing::ContainsRegex("Max core file size +0 +0"));
  EXPECT_THAT(read("limits"), testing::ContainsRegex("Max file size +0 +0"));
  const std::vector<std::string> fields =
      absl::StrSplit(read("stat").substr(read("stat").rfind(')') + 2), ' ');
  EXPECT_EQ(fields[16], absl::StrCat(getpriority(PRIO_PROCESS, 0) + 3));
  // 0, 1 and 2, the socket, and "." and "..".
  size_t files = 0;
  DIR* folder = opendir(absl::StrCat("/proc/", pid, "/fd").c_str());
  while (readdir(folder) != nullptr) ++files;
  closedir(folder);
  // One more: what its standard error is read from.
  EXPECT_LE(files, 7u);
}

TEST(CompilePoolTest, ChildrenEndWithTheirParent) {
  int out[2];
  ASSERT_EQ(pipe(out), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    auto process =
        CompilerProcess::Start(HONE_COMPILER_PATH, {.search = TestSearch()});
    if (!process.ok() || !(*process)->AwaitGreeting(absl::Now() + kLong).ok()) {
      _exit(1);
    }
    const pid_t pid = (*process)->pid();
    // Busy: it does not watch its socket.
    const auto ignored =
        (*process)->Call(EncodeRequest(Request(SlowSource())),
                         absl::Now() + absl::Milliseconds(100));
    if (write(out[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    while (true) pause();
  }
  pid_t child = -1;
  ASSERT_EQ(read(out[0], &child, sizeof child), ssize_t{sizeof child});
  close(out[0]);
  close(out[1]);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  bool gone = false;
  for (int i = 0; i < 300 && !gone; ++i) {
    std::ifstream in(absl::StrCat("/proc/", child, "/stat"));
    std::string line;
    // Whoever inherits it need not reap it.
    gone = !std::getline(in, line) || line.find(") Z ") != std::string::npos;
    if (!gone) absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(gone);
}

TEST(CompilePoolTest, MissingExecutableOrNvrtcIsUnavailable) {
  const auto no_file = CompilePool::Create(
      {.executable = "/no/such/hone-compiler", .search = TestSearch()});
  EXPECT_EQ(no_file.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(no_file.status().message()),
              HasSubstr("/no/such/hone-compiler"));
  const auto no_compiler =
      CompilePool::Create({.executable = "/bin/true", .search = TestSearch()});
  EXPECT_EQ(no_compiler.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(no_compiler.status().message()),
              HasSubstr("exit status 0"));
  EXPECT_THAT(Children(), IsEmpty());
  if (!Nvrtc::Create(LibrarySearch{}).ok()) {
    const auto no_nvrtc =
        CompilePool::Create({.executable = HONE_COMPILER_PATH});
    EXPECT_EQ(no_nvrtc.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(no_nvrtc.status().message()),
                HasSubstr("NVRTC is missing"));
  }
}

TEST(CompilerArgumentsTest, RoundTrip) {
  const CompilerProcessOptions options{
      .search = {.first = {"/a", "/b c"}, .then = {"/d"}},
      .nice = 5,
      .address_space_bytes = uint64_t{1} << 40,
      .parent = 77};
  const auto parsed = ParseCompilerArguments(CompilerArguments(options));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->search, options.search);
  EXPECT_EQ(parsed->nice, 5);
  EXPECT_EQ(parsed->address_space_bytes, uint64_t{1} << 40);
  EXPECT_EQ(parsed->parent, 77);
  EXPECT_FALSE(ParseCompilerArguments({"--nice=x"}).ok());
  EXPECT_FALSE(ParseCompilerArguments({"--help"}).ok());
}

TEST(CodecTest, RoundTripsAndRefusesEverythingElse) {
  const CompileRequest request{.name = "n",
                               .source = std::string("a\0b", 3),
                               .arch = "sm_80",
                               .options = {"-x", ""}};
  const std::string bytes = EncodeRequest(request);
  const auto decoded = DecodeRequest(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->source, request.source);
  EXPECT_EQ(decoded->options, request.options);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeRequest(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeRequest(bytes + "x").ok());
  const auto error =
      DecodeStatusOrResult(EncodeStatusOrResult(absl::NotFoundError("gone")));
  EXPECT_EQ(error.status(), absl::NotFoundError("gone"));
  EXPECT_EQ(*DecodeStatusOrResult(EncodeStatusOrResult(CompileResult())),
            CompileResult());
  // Counts and lengths that no memory holds.
  EXPECT_FALSE(DecodeResult(std::string(200, '\xff')).ok());
}

}  // namespace
}  // namespace hone
