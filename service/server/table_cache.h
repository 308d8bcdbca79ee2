// The published tables in memory, so that a lookup never waits for SQLite.
#ifndef HONE_SERVICE_SERVER_TABLE_CACHE_H_
#define HONE_SERVICE_SERVER_TABLE_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "db/store.h"
#include "service/server/lookup.h"

namespace hone {

// Thread-safe. honed is the only writer of its store, and calls Refresh()
// after everything that changes published tables.
class TableCache {
 public:
  // `store` must outlive the cache.
  static absl::StatusOr<std::unique_ptr<TableCache>> Create(
      const Store* store, std::string source_closure);

  // Reads the newest revision; pinned ones are dropped, since `verified` is as
  // of now.
  absl::Status Refresh();

  std::shared_ptr<const LookupIndex> Newest() const;
  // 0 is the newest. A pinned revision is read from the store once and kept
  // while it is among the last few asked for; its answers have no bounds of
  // regret, which take reading the trials. Does not wait for Refresh().
  // NotFound: no such revision.
  absl::StatusOr<std::shared_ptr<const LookupIndex>> At(int64_t revision);

 private:
  TableCache(const Store* store, std::string source_closure)
      : store_(store), source_closure_(std::move(source_closure)) {}

  // Null when it is not in memory.
  std::shared_ptr<const LookupIndex> FindLocked(int64_t revision)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Store* const store_;
  const std::string source_closure_;
  // Held while reading the store, so that an older read never replaces a newer.
  absl::Mutex refresh_mutex_;
  // Likewise, so that each pinned revision is read once.
  absl::Mutex pinned_mutex_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const LookupIndex> newest_ ABSL_GUARDED_BY(mutex_);
  // How often newest_ changed: what was read before is not kept after.
  int64_t refreshes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Most recently used first.
  std::list<std::shared_ptr<const LookupIndex>> pinned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_TABLE_CACHE_H_
