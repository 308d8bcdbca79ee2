#include "service/paths/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

TEST(PathsTest, FollowXdgAndIgnoreRelativeVariables) {
  const auto env = [](const char* name) -> const char* {
    if (std::strcmp(name, "XDG_RUNTIME_DIR") == 0) return "/run/user/7";
    if (std::strcmp(name, "XDG_STATE_HOME") == 0) return "relative";
    return std::strcmp(name, "HOME") == 0 ? "/home/x" : nullptr;
  };
  const auto none = [](const char*) -> const char* { return nullptr; };
  EXPECT_EQ(DefaultAddress(env), "unix:/run/user/7/hone/honed.sock");
  EXPECT_EQ(DefaultAddress(none),
            absl::StrCat("unix:/tmp/hone-", getuid(), "/honed.sock"));
  EXPECT_EQ(*DefaultDatabasePath(env), "/home/x/.local/state/hone/hone.db");
  EXPECT_EQ(DefaultDatabasePath(none).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(PathsTest, CacheFoldersAreAbsolute) {
  EXPECT_EQ(CubinFolder("/a/b"), "/a/b/cubins");
  EXPECT_EQ(TableFolder("/a/b/"), "/a/b/tables");
  EXPECT_EQ(CubinFolder("build/state/cache"),
            (fs::current_path() / "build/state/cache/cubins").string());
  EXPECT_EQ(CubinFolder("./x"), (fs::current_path() / "x/cubins").string());
}

TEST(PathsTest, PrivateFoldersAreOnesOwn) {
  const fs::path root = fs::path(testing::TempDir()) / "hone_paths_test";
  fs::remove_all(root);
  const std::string folder = (root / "deep" / "private").string();
  ASSERT_TRUE(MakePrivateFolder(folder).ok());
  struct stat info;
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(MakePrivateFolder(folder).ok());
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  EXPECT_EQ(MakePrivateFolder(folder).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  const std::string link = (root / "link").string();
  fs::create_directory_symlink(folder, link);
  EXPECT_EQ(MakePrivateFolder(link).code(),
            absl::StatusCode::kFailedPrecondition);
  fs::remove_all(root);
}

}  // namespace
}  // namespace hone
