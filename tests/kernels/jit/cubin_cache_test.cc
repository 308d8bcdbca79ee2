#include "kernels/jit/cubin_cache.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/config/sha256.h"

namespace hone {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

CompileResult MakeResult(size_t cubin_bytes = 300) {
  CompileResult result;
  result.outcome = CompileOutcome::kCompiled;
  result.log = "a log";
  for (size_t i = 0; i < cubin_bytes; ++i) {
    result.cubin.push_back(static_cast<char>(i * 7));
  }
  result.ptx = ".version 9.0";
  result.resources = {.registers = 96,
                      .static_smem_bytes = 512,
                      .stack_bytes = 48,
                      .spill_store_bytes = 52,
                      .spill_load_bytes = 56};
  result.warnings = {"one", "two"};
  result.compile_ms = 321;
  result.nvrtc_version = "13.0";
  return result;
}

absl::StatusOr<CompileResult> MustNotCompile() {
  ADD_FAILURE() << "compiled although the entry is there";
  return MakeResult();
}

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Runs `body` in a child; its value is the child's exit status.
int InChild(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class CubinCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/hone_cache_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    folder_ = root_ / "hone";
    cache_ = MustOpen();
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<CubinCache> MustOpen(uint64_t max_bytes = 1 << 30) {
    auto cache =
        CubinCache::Open({.folder = folder_.string(), .max_bytes = max_bytes});
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }
  absl::Status OpenStatus() {
    return CubinCache::Open({.folder = folder_.string()}).status();
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(folder_)) {
      names.push_back(item.path().filename());
    }
    return names;
  }

  fs::path root_;
  fs::path folder_;
  std::unique_ptr<CubinCache> cache_;
  const std::string key_ = Sha256Hex("a key");
};

TEST_F(CubinCacheTest, StoresAndReturnsEverything) {
  EXPECT_EQ(cache_->Lookup(key_), std::nullopt);
  const auto miss = cache_->GetOrCompile(
      key_, []() -> absl::StatusOr<CompileResult> { return MakeResult(); });
  ASSERT_TRUE(miss.ok()) << miss.status();
  EXPECT_FALSE(miss->hit);
  EXPECT_TRUE(miss->stored.ok()) << miss->stored;
  const auto hit = cache_->GetOrCompile(key_, MustNotCompile);
  ASSERT_TRUE(hit.ok());
  EXPECT_TRUE(hit->hit);
  EXPECT_EQ(hit->result, MakeResult());
  // Another process would find it too.
  EXPECT_EQ(MustOpen()->Lookup(key_), MakeResult());
  // Nothing but the entry is left, and nobody else can read it.
  EXPECT_THAT(Files(), testing::ElementsAre(key_));
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(folder_ / key_).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(CubinCacheTest, RejectedSourcesAndErrorsAreNotStored) {
  CompileResult rejected;
  rejected.log = "error";
  const auto first = cache_->GetOrCompile(
      key_, [&]() -> absl::StatusOr<CompileResult> { return rejected; });
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->result, rejected);
  const auto second =
      cache_->GetOrCompile(key_, []() -> absl::StatusOr<CompileResult> {
        return absl::UnavailableError("no NVRTC");
      });
  EXPECT_EQ(second.status(), absl::UnavailableError("no NVRTC"));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CubinCacheTest, KeysAreHashesOnly) {
  for (const std::string& key :
       {std::string("../../etc/passwd"), std::string(), std::string(63, 'a'),
        std::string(64, 'A'), std::string(64, '/'), std::string(65, 'a'),
        "../" + std::string(61, 'a'), std::string(64, '\0')}) {
    EXPECT_EQ(cache_->GetOrCompile(key, MustNotCompile).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(cache_->Lookup(key), std::nullopt);
  }
}

TEST_F(CubinCacheTest, AnyBitFlipIsAMissAndIsRepaired) {
  const auto compile = []() -> absl::StatusOr<CompileResult> {
    return MakeResult();
  };
  ASSERT_TRUE(cache_->GetOrCompile(key_, compile).ok());
  const std::string good = ReadFile(folder_ / key_);
  // Every byte of the header and of the first fields, then samples.
  for (size_t at = 0; at < good.size(); at += at < 120 ? 1 : 7) {
    std::string bad = good;
    bad[at] ^= static_cast<char>(1 << at % 8);
    WriteFile(folder_ / key_, bad);
    ASSERT_EQ(cache_->Lookup(key_), std::nullopt) << at;
  }
  const auto again = cache_->GetOrCompile(key_, compile);
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->hit);
  EXPECT_EQ(ReadFile(folder_ / key_), good);
}

TEST_F(CubinCacheTest, TruncatedExtendedAndRenamedEntriesAreMisses) {
  ASSERT_TRUE(cache_
                  ->GetOrCompile(key_,
                                 []() -> absl::StatusOr<CompileResult> {
                                   return MakeResult();
                                 })
                  .ok());
  const std::string good = ReadFile(folder_ / key_);
  for (size_t size = 0; size < good.size(); size += size < 120 ? 1 : 7) {
    WriteFile(folder_ / key_, good.substr(0, size));
    ASSERT_EQ(cache_->Lookup(key_), std::nullopt) << size;
  }
  WriteFile(folder_ / key_, good + "x");
  EXPECT_EQ(cache_->Lookup(key_), std::nullopt);
  // A valid entry under another's name would be another kernel.
  const std::string other = Sha256Hex("another key");
  WriteFile(folder_ / other, good);
  EXPECT_EQ(cache_->Lookup(other), std::nullopt);
}

TEST_F(CubinCacheTest, LinksAreNotFollowed) {
  const auto compile = []() -> absl::StatusOr<CompileResult> {
    return MakeResult();
  };
  ASSERT_TRUE(cache_->GetOrCompile(key_, compile).ok());
  fs::rename(folder_ / key_, root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", folder_ / key_);
  EXPECT_EQ(cache_->Lookup(key_), std::nullopt);
  // The new entry replaces the link, not what it points to.
  WriteFile(root_ / "elsewhere", "precious");
  const auto again = cache_->GetOrCompile(key_, compile);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->stored.ok()) << again->stored;
  EXPECT_FALSE(fs::is_symlink(folder_ / key_));
  EXPECT_EQ(ReadFile(root_ / "elsewhere"), "precious");
  // A lock that is a link costs the lock, not the compile.
  const std::string other = Sha256Hex("another key");
  fs::create_symlink(root_ / "elsewhere", folder_ / (other + ".lock"));
  EXPECT_TRUE(cache_->GetOrCompile(other, compile).ok());
  EXPECT_EQ(ReadFile(root_ / "elsewhere"), "precious");
}

TEST_F(CubinCacheTest, AFifoInPlaceOfAnEntryDoesNotHang) {
  ASSERT_EQ(mkfifo((folder_ / key_).c_str(), 0600), 0);
  EXPECT_EQ(cache_->Lookup(key_), std::nullopt);
}

TEST_F(CubinCacheTest, UnsafeFoldersAreRefused) {
  fs::permissions(folder_, fs::perms(0750));
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(OpenStatus().message()), HasSubstr("mode 0750"));
  fs::permissions(folder_, fs::perms(0700));
  EXPECT_TRUE(OpenStatus().ok());

  fs::rename(folder_, root_ / "real");
  fs::create_symlink(root_ / "real", folder_);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kFailedPrecondition);
  fs::remove(folder_);
  WriteFile(folder_, "a file");
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CubinCache::Open({.folder = "relative"}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CubinCache::Open({.folder = "/proc/hone"}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(CubinCacheTest, FoldersOfOthersAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(OpenStatus().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(OpenStatus().message()),
              HasSubstr("belongs to user 12345"));
}

TEST_F(CubinCacheTest, ReadOnlyFolderStillServesAndCompiles) {
  ASSERT_TRUE(cache_
                  ->GetOrCompile(key_,
                                 []() -> absl::StatusOr<CompileResult> {
                                   return MakeResult();
                                 })
                  .ok());
  cache_.reset();
  const uid_t user = geteuid() == 0 ? 12345 : geteuid();
  if (geteuid() == 0) {  // whom no mode stops
    fs::permissions(root_, fs::perms(0755));
    ASSERT_EQ(chown(folder_.c_str(), user, user), 0);
    ASSERT_EQ(chown((folder_ / key_).c_str(), user, user), 0);
  }
  fs::permissions(folder_, fs::perms(0500));
  EXPECT_EQ(
      0, InChild([&] {
        if (geteuid() == 0 &&
            (setgroups(0, nullptr) != 0 || setuid(user) != 0)) {
          return 1;
        }
        auto cache = CubinCache::Open({.folder = folder_.string()});
        if (!cache.ok()) return 2;
        if ((*cache)->Lookup(key_) != MakeResult()) return 3;
        const auto fetched = (*cache)->GetOrCompile(
            Sha256Hex("another key"),
            []() -> absl::StatusOr<CompileResult> { return MakeResult(); });
        if (!fetched.ok() || fetched->hit) return 4;
        if (fetched->result != MakeResult()) return 5;
        return fetched->stored.ok() ? 6 : 0;
      }));
  fs::permissions(folder_, fs::perms(0700));
}

TEST_F(CubinCacheTest, AFullDiskKeepsTheResultAndLeavesNothingBehind) {
  // A limit on file sizes fails writes as a full disk does.
  EXPECT_EQ(0, InChild([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit = {.rlim_cur = 100, .rlim_max = 100};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              const auto fetched = cache_->GetOrCompile(
                  key_, []() -> absl::StatusOr<CompileResult> {
                    return MakeResult();
                  });
              if (!fetched.ok()) return 2;
              if (fetched->result != MakeResult()) return 3;
              return fetched->stored.ok() ? 4 : 0;
            }));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(CubinCacheTest, RacingProcessesCompileAKeyOnce) {
  const fs::path count = root_ / "count";
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      auto cache = CubinCache::Open({.folder = folder_.string()});
      if (!cache.ok()) _exit(1);
      const auto fetched =
          (*cache)->GetOrCompile(key_, [&]() -> absl::StatusOr<CompileResult> {
            const int fd =
                open(count.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
            if (write(fd, "x", 1) != 1) _exit(2);
            close(fd);
            absl::SleepFor(absl::Milliseconds(200));
            return MakeResult();
          });
      _exit(fetched.ok() && fetched->result == MakeResult() ? 0 : 3);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(ReadFile(count), "x");
  EXPECT_THAT(Files(), testing::ElementsAre(key_));
}

TEST_F(CubinCacheTest, RacingThreadsCompileEachKeyOnce) {
  std::atomic<int> compiles = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        const auto fetched = cache_->GetOrCompile(
            Sha256Hex(absl::StrCat(k)), [&]() -> absl::StatusOr<CompileResult> {
              ++compiles;
              absl::SleepFor(absl::Milliseconds(5));
              return MakeResult();
            });
        EXPECT_TRUE(fetched.ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiles, 10);
  EXPECT_EQ(Files().size(), 10u);
}

TEST_F(CubinCacheTest, ACrashedCompilerReleasesItsKey) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    (void)cache_->GetOrCompile(key_, [&]() -> absl::StatusOr<CompileResult> {
      if (write(ready[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    });
    _exit(1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  std::thread killer([&] {
    absl::SleepFor(absl::Milliseconds(100));
    kill(pid, SIGKILL);
  });
  const absl::Time start = absl::Now();
  const auto fetched = cache_->GetOrCompile(
      key_, []() -> absl::StatusOr<CompileResult> { return MakeResult(); });
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(80));
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  killer.join();
  waitpid(pid, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  ASSERT_TRUE(fetched.ok());
  EXPECT_FALSE(fetched->hit);
  EXPECT_TRUE(fetched->stored.ok());
}

TEST_F(CubinCacheTest, AHungCompilerIsNotWaitedForForever) {
  auto cache = CubinCache::Open(
      {.folder = folder_.string(), .lock_wait = absl::Milliseconds(50)});
  ASSERT_TRUE(cache.ok());
  const auto outer =
      cache_->GetOrCompile(key_, [&]() -> absl::StatusOr<CompileResult> {
        // Meanwhile, by somebody else:
        const auto inner = (*cache)->GetOrCompile(
            key_,
            []() -> absl::StatusOr<CompileResult> { return MakeResult(); });
        EXPECT_TRUE(inner.ok());
        return MakeResult();
      });
  EXPECT_TRUE(outer.ok());
  EXPECT_EQ(cache_->Lookup(key_), MakeResult());
}

TEST_F(CubinCacheTest, TheLeastRecentlyUsedGoFirst) {
  const auto key = [](int i) { return Sha256Hex(absl::StrCat(i)); };
  const auto store = [&](CubinCache& cache, int i) {
    ASSERT_TRUE(cache
                    .GetOrCompile(key(i),
                                  []() -> absl::StatusOr<CompileResult> {
                                    return MakeResult(10000);
                                  })
                    .ok());
  };
  for (int i = 0; i < 4; ++i) {
    store(*cache_, i);
    // Ages that no clock's resolution blurs.
    fs::last_write_time(folder_ / key(i), fs::file_time_type::clock::now() -
                                              std::chrono::hours(10 - i));
  }
  ASSERT_NE(cache_->Lookup(key(0)), std::nullopt);  // now the newest
  const auto small = MustOpen(/*max_bytes=*/35000);
  store(*small, 4);
  EXPECT_EQ(small->Lookup(key(1)), std::nullopt);
  EXPECT_EQ(small->Lookup(key(2)), std::nullopt);
  EXPECT_NE(small->Lookup(key(0)), std::nullopt);
  EXPECT_NE(small->Lookup(key(3)), std::nullopt);
  EXPECT_NE(small->Lookup(key(4)), std::nullopt);
  // An entry beyond the whole limit is still stored, alone.
  const auto tiny = MustOpen(/*max_bytes=*/100);
  store(*tiny, 5);
  EXPECT_THAT(Files(), testing::ElementsAre(key(5)));
}

TEST_F(CubinCacheTest, LeftoversOfDeadProcessesAreRemovedWhenOld) {
  const fs::path old = folder_ / (key_ + ".abc.tmp");
  const fs::path fresh = folder_ / (key_ + ".def.tmp");
  const fs::path foreign = folder_ / "notes.tmp";
  for (const fs::path& path : {old, fresh, foreign}) WriteFile(path, "x");
  for (const fs::path& path : {old, foreign}) {
    fs::last_write_time(
        path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
  ASSERT_TRUE(cache_
                  ->GetOrCompile(key_,
                                 []() -> absl::StatusOr<CompileResult> {
                                   return MakeResult();
                                 })
                  .ok());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(foreign));
}

TEST(DefaultCacheFolderTest, FollowsXdg) {
  const auto folder = [](const char* cache, const char* home) {
    return DefaultCacheFolder([=](const char* name) {
      return std::string(name) == "HOME" ? home : cache;
    });
  };
  EXPECT_EQ(*folder("/c", "/h"), "/c/hone");
  EXPECT_EQ(*folder(nullptr, "/h"), "/h/.cache/hone");
  EXPECT_EQ(*folder("relative", "/h"), "/h/.cache/hone");
  EXPECT_EQ(*folder("", "/h"), "/h/.cache/hone");
  EXPECT_EQ(folder(nullptr, nullptr).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace hone
