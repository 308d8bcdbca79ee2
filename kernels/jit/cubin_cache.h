// A content-addressed cache of compiles on disk, safe to share between
// processes.
//
// An entry is one file, named by its key, with the SHA-256 of its content
// inside: a damaged, truncated or renamed file is a miss and is replaced. Files
// are written beside their name, synced and renamed. The folder belongs to one
// user (mode 0700); links are never followed. One process compiles a key at a
// time; the others wait and read its entry.
#ifndef HONE_KERNELS_JIT_CUBIN_CACHE_H_
#define HONE_KERNELS_JIT_CUBIN_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/jit/compile_result.h"
#include "kernels/jit/shared_library.h"

namespace hone {

// $XDG_CACHE_HOME/hone, or ~/.cache/hone. FailedPrecondition when neither
// XDG_CACHE_HOME nor HOME is an absolute path.
absl::StatusOr<std::string> DefaultCacheFolder(EnvLookup env);

struct CubinCacheOptions {
  // Created, with its parents, when it is missing.
  std::string folder;
  // Entries used longest ago are removed beyond this size.
  uint64_t max_bytes = uint64_t{2} << 30;
  // How long to wait for another process that compiles the same key before
  // compiling it here as well.
  absl::Duration lock_wait = absl::Minutes(2);
};

// Thread-safe.
class CubinCache {
 public:
  // FailedPrecondition when the folder is a link, belongs to another user or
  // is open to others; Unavailable when it cannot be made or opened.
  static absl::StatusOr<std::unique_ptr<CubinCache>> Open(
      CubinCacheOptions options);

  ~CubinCache();
  CubinCache(const CubinCache&) = delete;
  CubinCache& operator=(const CubinCache&) = delete;

  struct Fetched {
    CompileResult result;
    bool hit = false;
    // Not OK when the result could not be stored (disk full, read-only
    // folder). The result is as good.
    absl::Status stored;
  };

  // `key` is a SourceKey (64 hex digits; InvalidArgument otherwise). On a
  // miss runs `compile`, at most once over all processes while the key is
  // being compiled, and stores its result if it compiled. Errors of `compile`
  // are returned as they are.
  absl::StatusOr<Fetched> GetOrCompile(
      absl::string_view key,
      absl::FunctionRef<absl::StatusOr<CompileResult>()> compile);

  // The entry, or nullopt. A hit counts as a use.
  std::optional<CompileResult> Lookup(absl::string_view key);

  const std::string& folder() const { return options_.folder; }

 private:
  class KeyLock;
  CubinCache(CubinCacheOptions options, int folder_fd);

  absl::Status Store(absl::string_view key, const CompileResult& result);
  void Evict();

  const CubinCacheOptions options_;
  const int folder_fd_;
};

}  // namespace hone

#endif  // HONE_KERNELS_JIT_CUBIN_CACHE_H_
