#include "db/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

absl::Status FileError(absl::string_view doing, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(doing, " ", path));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::Status Sync(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path);
  const bool synced = fsync(fd) == 0;
  const absl::Status status =
      synced ? absl::OkStatus() : FileError("fsync", path);
  close(fd);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LockFile>> LockFile::Acquire(
    const std::string& path) {
  const int fd =
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return FileError("open the lock file", path);
  std::unique_ptr<LockFile> lock(new LockFile(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError("lock", path);
    char pid[32] = {};
    const ssize_t read = pread(fd, pid, sizeof(pid) - 1, 0);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is held by process ",
                     read > 0 ? absl::StripSuffix(pid, "\n") : "(unknown)",
                     "; only one process writes to a database at a time"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) !=
                                   static_cast<ssize_t>(pid.size())) {
    return FileError("write the lock file", path);
  }
  return lock;
}

LockFile::~LockFile() { close(fd_); }

absl::string_view NetworkFilesystemName(int64_t f_type) {
  // From linux/magic.h and the filesystems' own sources.
  constexpr struct {
    int64_t magic;
    absl::string_view name;
  } kNetworkFilesystems[] = {
      {0x6969, "NFS"},      {0x517B, "SMB"},        {0xFE534D42, "SMB2"},
      {0xFF534D42, "CIFS"}, {0x5346414F, "AFS"},    {0x6B414653, "AFS"},
      {0x73757245, "Coda"}, {0x00C36400, "Ceph"},   {0x0BD00BD0, "Lustre"},
      {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}, {0x7461636F, "OCFS2"},
      {0x01161970, "GFS2"},
  };
  for (const auto& filesystem : kNetworkFilesystems) {
    // f_type is a signed word of varying width.
    if (filesystem.magic == (f_type & 0xFFFFFFFF)) return filesystem.name;
  }
  return "";
}

absl::Status CheckLocalFilesystem(const std::string& path) {
  const std::string folder = FolderOf(path);
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) return FileError("statfs", folder);
  const absl::string_view name =
      NetworkFilesystemName(static_cast<int64_t>(info.f_type));
  if (name.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " is on a network filesystem (", name,
                   "); the database must be on a local disk"));
}

absl::Status SyncAndRename(const std::string& from, const std::string& to) {
  HONE_RETURN_IF_ERROR(Sync(from));
  if (rename(from.c_str(), to.c_str()) != 0) return FileError("rename", from);
  return Sync(FolderOf(to));
}

}  // namespace hone
