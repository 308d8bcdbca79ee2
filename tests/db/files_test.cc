#include "db/files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "tests/db/fixture.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using FilesTest = testing::DbTest;

TEST_F(FilesTest, OneHolderAtATimeAndItsPidIsNamed) {
  auto lock = LockFile::Acquire(Path("lock"));
  ASSERT_TRUE(lock.ok()) << lock.status();
  const auto second = LockFile::Acquire(Path("lock"));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(),
              HasSubstr(absl::StrCat("held by process ", getpid(), ";")));
  lock->reset();
  EXPECT_TRUE(LockFile::Acquire(Path("lock")).ok());
}

TEST_F(FilesTest, TheLockDiesWithItsProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = LockFile::Acquire(Path("lock"));
    const char ok = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &ok, 1) == 1) pause();
    _exit(1);
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 'y');
  EXPECT_THAT(LockFile::Acquire(Path("lock")).status().message(),
              HasSubstr(absl::StrCat("held by process ", child, ";")));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(LockFile::Acquire(Path("lock")).ok());
  close(ready[0]);
  close(ready[1]);
}

TEST_F(FilesTest, ALinkIsNotFollowed) {
  ASSERT_EQ(symlink(Path("victim").c_str(), Path("lock").c_str()), 0);
  EXPECT_FALSE(LockFile::Acquire(Path("lock")).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("victim")));
}

TEST(NetworkFilesystemTest, NamesThoseThatSpanMachines) {
  EXPECT_EQ(NetworkFilesystemName(0x6969), "NFS");
  EXPECT_EQ(NetworkFilesystemName(0xFF534D42), "CIFS");
  // Sign-extended from a 32-bit word.
  EXPECT_EQ(NetworkFilesystemName(static_cast<int32_t>(0xFF534D42)), "CIFS");
  EXPECT_EQ(NetworkFilesystemName(0x0BD00BD0), "Lustre");
  EXPECT_EQ(NetworkFilesystemName(0xEF53), "");      // ext4
  EXPECT_EQ(NetworkFilesystemName(0x01021994), "");  // tmpfs
}

TEST_F(FilesTest, LocalFoldersPassAndMissingOnesAreNamed) {
  EXPECT_TRUE(CheckLocalFilesystem(Path()).ok());
  const absl::Status missing = CheckLocalFilesystem(Path("none/hone.db"));
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("none"));
}

TEST_F(FilesTest, SyncAndRenameReplaces) {
  std::ofstream(Path("old")) << "old";
  std::ofstream(Path("new")) << "new";
  ASSERT_TRUE(SyncAndRename(Path("new"), Path("old")).ok());
  std::stringstream text;
  text << std::ifstream(Path("old")).rdbuf();
  EXPECT_EQ(text.str(), "new");
  EXPECT_FALSE(std::filesystem::exists(Path("new")));
  EXPECT_EQ(SyncAndRename(Path("new"), Path("old")).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hone
