#include "service/paths/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

// The variable when it is an absolute path, else empty.
std::string AbsoluteFrom(EnvLookup env, const char* name) {
  const char* value = env(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string InFolder(absl::string_view folder, const char* name) {
  return fs::absolute(fs::path(std::string(folder)) / name)
      .lexically_normal()
      .string();
}

}  // namespace

std::string DefaultAddress(EnvLookup env) {
  const std::string runtime = AbsoluteFrom(env, "XDG_RUNTIME_DIR");
  return runtime.empty()
             ? absl::StrCat("unix:/tmp/hone-", getuid(), "/honed.sock")
             : absl::StrCat("unix:", runtime, "/hone/honed.sock");
}

absl::StatusOr<std::string> DefaultDatabasePath(EnvLookup env) {
  const std::string state = AbsoluteFrom(env, "XDG_STATE_HOME");
  if (!state.empty()) return absl::StrCat(state, "/hone/hone.db");
  const std::string home = AbsoluteFrom(env, "HOME");
  if (!home.empty()) return absl::StrCat(home, "/.local/state/hone/hone.db");
  return absl::FailedPreconditionError(
      "no place for the database: neither XDG_STATE_HOME nor HOME is an "
      "absolute path; give --db");
}

std::string CubinFolder(absl::string_view cache_folder) {
  return InFolder(cache_folder, "cubins");
}
std::string TableFolder(absl::string_view cache_folder) {
  return InFolder(cache_folder, "tables");
}

absl::Status MakePrivateFolder(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::path(folder).lexically_normal();
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (mkdir(folder.c_str(), 0700) == 0) return absl::OkStatus();
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("folder ", folder));
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("folder ", folder,
                     " must be a folder of this user with mode 0700, and no "
                     "link"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SiblingExecutable(absl::string_view name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const std::string path = absl::StrCat(self.parent_path().string(), "/", name);
  if (error || access(path.c_str(), X_OK) != 0)
    return absl::NotFoundError(absl::StrCat("there is no executable ", path));
  return path;
}

}  // namespace hone
