#include "kernels/jit/cubin_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/codec.h"

namespace hone {
namespace {

// <magic><SHA-256 of key and payload, 64 hex digits><payload>. The digit is
// the format's version.
constexpr absl::string_view kMagic = "HONECUB1";
constexpr size_t kHeaderBytes = kMagic.size() + 64;
// A cubin has some 100 KB. Beyond this a file is none of ours.
constexpr int64_t kMaxEntryBytes = 256 << 20;
constexpr absl::string_view kLockSuffix = ".lock";
constexpr absl::string_view kTemporarySuffix = ".tmp";
// Temporary files this old belong to a process that died.
constexpr int64_t kTemporaryLifeSeconds = 3600;
constexpr absl::Duration kLockPoll = absl::Milliseconds(5);

bool IsKey(absl::string_view key) {
  return key.size() == 64 &&
         key.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

absl::Status Errno(absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

// mkdir -p, each new folder private.
absl::Status MakeFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::UnavailableError(
          Errno("the cubin cache cannot make its folder", part).message());
    }
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

absl::Status WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Errno("cannot write", "a cache entry");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

// The whole of a regular file of ours; nullopt when it cannot be had.
std::optional<std::string> ReadAll(int fd) {
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
      st.st_size > kMaxEntryBytes) {
    return std::nullopt;
  }
  std::string bytes(static_cast<size_t>(st.st_size), '\0');
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t n = read(fd, bytes.data() + have, bytes.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    have += static_cast<size_t>(n);
  }
  return bytes;
}

// The key is part of what is hashed: a renamed entry is a damaged one.
std::string Digest(absl::string_view key, absl::string_view payload) {
  return Sha256Hex(absl::StrCat(key, payload));
}

}  // namespace

absl::StatusOr<std::string> DefaultCacheFolder(EnvLookup env) {
  const char* cache = env("XDG_CACHE_HOME");
  // The XDG specification has relative paths ignored.
  if (cache != nullptr && cache[0] == '/') return absl::StrCat(cache, "/hone");
  const char* home = env("HOME");
  if (home != nullptr && home[0] == '/') {
    return absl::StrCat(home, "/.cache/hone");
  }
  return absl::FailedPreconditionError(
      "no folder for the cubin cache: set XDG_CACHE_HOME or HOME to an "
      "absolute path");
}

// The lock of one key, held by at most one CubinCache call of all processes
// and threads: flock belongs to the open file, and dies with its process. Its
// file goes when it is released.
class CubinCache::KeyLock {
 public:
  KeyLock(int folder_fd, absl::string_view key)
      : folder_fd_(folder_fd), name_(absl::StrCat(key, kLockSuffix)) {}
  ~KeyLock() {
    if (fd_ < 0) return;
    // Removed while locked: whoever waits for it finds that the name has gone
    // and starts anew.
    unlinkat(folder_fd_, name_.c_str(), 0);
    close(fd_);
  }
  KeyLock(const KeyLock&) = delete;
  KeyLock& operator=(const KeyLock&) = delete;

  // True: locked. False: somebody holds it. An error when there can be no lock
  // (read-only folder).
  absl::StatusOr<bool> Try() {
    Fd fd(openat(folder_fd_, name_.c_str(),
                 O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.ok()) return Errno("cannot open", name_);
    if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK || errno == EINTR) return false;
      return Errno("cannot lock", name_);
    }
    struct stat locked;
    struct stat named;
    if (fstat(fd.get(), &locked) != 0 ||
        fstatat(folder_fd_, name_.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
        locked.st_ino != named.st_ino || locked.st_dev != named.st_dev) {
      return false;  // its last owner removed it in between
    }
    fd_ = fd.Release();
    return true;
  }

 private:
  const int folder_fd_;
  const std::string name_;
  int fd_ = -1;
};

CubinCache::CubinCache(CubinCacheOptions options, int folder_fd)
    : options_(std::move(options)), folder_fd_(folder_fd) {}

CubinCache::~CubinCache() { close(folder_fd_); }

absl::StatusOr<std::unique_ptr<CubinCache>> CubinCache::Open(
    CubinCacheOptions options) {
  while (options.folder.size() > 1 && options.folder.back() == '/') {
    options.folder.pop_back();
  }
  if (!absl::StartsWith(options.folder, "/")) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cubin cache's folder must be an absolute path, not '",
                     options.folder, "'"));
  }
  HONE_RETURN_IF_ERROR(MakeFolders(options.folder));
  const int fd = open(options.folder.c_str(),
                      O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ELOOP || errno == ENOTDIR) {
      return absl::FailedPreconditionError(
          absl::StrCat("the cubin cache's folder ", options.folder,
                       " is a link or a file; it must be a folder"));
    }
    return absl::UnavailableError(
        Errno("the cubin cache cannot open", options.folder).message());
  }
  std::unique_ptr<CubinCache> cache(new CubinCache(std::move(options), fd));
  struct stat st;
  if (fstat(fd, &st) != 0) {
    return absl::UnavailableError(
        Errno("the cubin cache cannot stat", cache->folder()).message());
  }
  if (st.st_uid != geteuid()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the cubin cache's folder ", cache->folder(), " belongs to user ",
        st.st_uid, ", not to this process's user ", geteuid(),
        ": its kernels cannot be trusted"));
  }
  if ((st.st_mode & 0077) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the cubin cache's folder %s is open to other users (mode %04o): its "
        "kernels cannot be trusted. chmod 0700 it, or remove it",
        cache->folder(), st.st_mode & 07777));
  }
  return cache;
}

std::optional<CompileResult> CubinCache::Lookup(absl::string_view key) {
  if (!IsKey(key)) return std::nullopt;
  const Fd fd(openat(folder_fd_, std::string(key).c_str(),
                     O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok()) return std::nullopt;
  const std::optional<std::string> bytes = ReadAll(fd.get());
  if (!bytes.has_value() || bytes->size() < kHeaderBytes) return std::nullopt;
  const absl::string_view entry = *bytes;
  const absl::string_view payload = entry.substr(kHeaderBytes);
  if (!absl::StartsWith(entry, kMagic) ||
      entry.substr(kMagic.size(), 64) != Digest(key, payload)) {
    return std::nullopt;
  }
  absl::StatusOr<CompileResult> result = DecodeResult(payload);
  if (!result.ok() || !result->ok()) return std::nullopt;
  // Eviction goes by this time. A failure (read-only folder) costs only that.
  futimens(fd.get(), nullptr);
  return *std::move(result);
}

absl::StatusOr<CubinCache::Fetched> CubinCache::GetOrCompile(
    absl::string_view key,
    absl::FunctionRef<absl::StatusOr<CompileResult>()> compile) {
  if (!IsKey(key)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cache key '", key, "' is not 64 lower-case hex digits"));
  }
  if (std::optional<CompileResult> result = Lookup(key)) {
    return Fetched{.result = *std::move(result), .hit = true};
  }
  KeyLock lock(folder_fd_, key);
  const absl::Time give_up = absl::Now() + options_.lock_wait;
  while (true) {
    const absl::StatusOr<bool> locked = lock.Try();
    // Again: whoever held the lock until now may have stored the entry.
    if (std::optional<CompileResult> result = Lookup(key)) {
      return Fetched{.result = *std::move(result), .hit = true};
    }
    if (!locked.ok() || *locked || absl::Now() >= give_up) break;
    absl::SleepFor(kLockPoll);
  }
  Fetched fetched;
  HONE_ASSIGN_OR_RETURN(fetched.result, compile());
  if (fetched.result.ok()) fetched.stored = Store(key, fetched.result);
  return fetched;
}

absl::Status CubinCache::Store(absl::string_view key,
                               const CompileResult& result) {
  const std::string payload = EncodeResult(result);
  const std::string entry = absl::StrCat(kMagic, Digest(key, payload), payload);
  uint64_t unique = 0;
  if (getrandom(&unique, sizeof unique, 0) != sizeof unique) {
    return Errno("no random bytes for", "a temporary name");
  }
  const std::string temporary =
      absl::StrCat(key, ".", absl::Hex(unique), kTemporarySuffix);
  absl::Status status = [&]() -> absl::Status {
    const Fd fd(openat(folder_fd_, temporary.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                       0600));
    if (!fd.ok()) return Errno("cannot make", temporary);
    HONE_RETURN_IF_ERROR(WriteAll(fd.get(), entry));
    if (fsync(fd.get()) != 0) return Errno("cannot sync", temporary);
    if (renameat(folder_fd_, temporary.c_str(), folder_fd_,
                 std::string(key).c_str()) != 0) {
      return Errno("cannot rename", temporary);
    }
    if (fsync(folder_fd_) != 0) return Errno("cannot sync", options_.folder);
    return absl::OkStatus();
  }();
  if (!status.ok()) {
    unlinkat(folder_fd_, temporary.c_str(), 0);
    return absl::Status(status.code(),
                        absl::StrCat("the cubin cache ", options_.folder, ": ",
                                     status.message()));
  }
  Evict();
  return absl::OkStatus();
}

void CubinCache::Evict() {
  struct Entry {
    timespec used;
    uint64_t bytes;
    std::string name;
  };
  // Its own descriptor, since the position is part of it.
  const int fd = openat(folder_fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  DIR* folder = fdopendir(fd);
  if (folder == nullptr) {
    close(fd);
    return;
  }
  std::vector<Entry> entries;
  uint64_t total = 0;
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  while (const dirent* item = readdir(folder)) {
    const absl::string_view name = item->d_name;
    struct stat st;
    if (fstatat(folder_fd_, item->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (IsKey(name)) {
      const auto bytes = static_cast<uint64_t>(st.st_size);
      entries.push_back({st.st_mtim, bytes, std::string(name)});
      total += bytes;
    } else if (absl::EndsWith(name, kTemporarySuffix) &&
               IsKey(name.substr(0, 64)) &&
               now - st.st_mtim.tv_sec > kTemporaryLifeSeconds) {
      unlinkat(folder_fd_, item->d_name, 0);
    }
  }
  closedir(folder);
  if (total <= options_.max_bytes) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) <
           std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  // The newest stays, however large: it is what was just stored. A reader that
  // has an entry open keeps it.
  entries.pop_back();
  for (const Entry& entry : entries) {
    if (total <= options_.max_bytes) break;
    if (unlinkat(folder_fd_, entry.name.c_str(), 0) == 0) total -= entry.bytes;
  }
}

}  // namespace hone
