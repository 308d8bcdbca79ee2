#include "service/server/table_cache.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

constexpr size_t kPinnedRevisions = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<TableCache>> TableCache::Create(
    const Store* store, std::string source_closure) {
  auto cache =
      absl::WrapUnique(new TableCache(store, std::move(source_closure)));
  HONE_RETURN_IF_ERROR(cache->Refresh());
  return cache;
}

absl::Status TableCache::Refresh() {
  absl::MutexLock refreshing(&refresh_mutex_);
  HONE_ASSIGN_OR_RETURN(const int64_t revision, store_->CurrentRevision());
  std::vector<StoredTable> tables;
  if (revision > 0) {
    HONE_ASSIGN_OR_RETURN(tables, store_->Tables({.revision = revision}));
  }
  HONE_ASSIGN_OR_RETURN(std::vector<TrialTimes> times, store_->TimesOf(tables));
  auto index = std::make_shared<const LookupIndex>(
      std::move(tables), revision, source_closure_, std::move(times));
  absl::MutexLock lock(&mutex_);
  newest_ = std::move(index);
  pinned_.clear();
  return absl::OkStatus();
}

std::shared_ptr<const LookupIndex> TableCache::Newest() const {
  absl::MutexLock lock(&mutex_);
  return newest_;
}

absl::StatusOr<std::shared_ptr<const LookupIndex>> TableCache::At(
    int64_t revision) {
  {
    absl::MutexLock lock(&mutex_);
    if (revision == 0 || revision == newest_->revision()) return newest_;
    for (auto it = pinned_.begin(); it != pinned_.end(); ++it) {
      if ((*it)->revision() != revision) continue;
      pinned_.splice(pinned_.begin(), pinned_, it);
      return pinned_.front();
    }
  }
  absl::MutexLock refreshing(&refresh_mutex_);
  auto tables = store_->Tables({.revision = revision});
  if (absl::IsOutOfRange(tables.status())) {
    return WithReason(absl::NotFoundError(absl::StrCat(
                          "there is no revision ", revision, "; the newest is ",
                          Newest()->revision())),
                      "REVISION_NOT_FOUND");
  }
  if (!tables.ok()) return tables.status();
  HONE_ASSIGN_OR_RETURN(std::vector<TrialTimes> times,
                        store_->TimesOf(*tables));
  auto index = std::make_shared<const LookupIndex>(
      *std::move(tables), revision, source_closure_, std::move(times));
  absl::MutexLock lock(&mutex_);
  pinned_.push_front(index);
  if (pinned_.size() > kPinnedRevisions) pinned_.pop_back();
  return index;
}

}  // namespace hone
