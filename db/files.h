// Files around the database: the writers' lock, durable renames, and the check
// that the folder is on a local disk.
#ifndef HONE_DB_FILES_H_
#define HONE_DB_FILES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// An exclusive lock on `path`, held until destroyed or until the process ends,
// however it ends. The file holds the pid of its holder and stays.
class LockFile {
 public:
  // FailedPrecondition names the holder's pid.
  static absl::StatusOr<std::unique_ptr<LockFile>> Acquire(
      const std::string& path);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  explicit LockFile(int fd) : fd_(fd) {}
  const int fd_;
};

// The name of a filesystem that spans machines ("NFS", "Lustre", ...), by
// statfs's f_type; empty for all others. SQLite's WAL needs memory shared by
// all its users, and locks that such filesystems do not keep reliably.
absl::string_view NetworkFilesystemName(int64_t f_type);

// FailedPrecondition when the folder of `path` is on such a filesystem.
absl::Status CheckLocalFilesystem(const std::string& path);

// Moves a finished file over `to` so that a crash leaves either the old or the
// whole new one.
absl::Status SyncAndRename(const std::string& from, const std::string& to);

}  // namespace hone

#endif  // HONE_DB_FILES_H_
