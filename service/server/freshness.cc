#include "service/server/freshness.h"

#include <algorithm>

namespace hone {
namespace {

bool HasEvidence(const DispatchTable& table, int64_t m) {
  const TableEntry* entry = table.Find(m);
  return entry != nullptr &&
         std::any_of(entry->evidence.begin(), entry->evidence.end(),
                     [&](const Evidence& evidence) {
                       return evidence.m == m && evidence.samples > 0;
                     });
}

}  // namespace

bool IsFresh(const StoredTable& stored, const LookupIndex& index,
             absl::Span<const int64_t> ladder, const Protocol* protocol) {
  return stored.verified && !index.IsStale(stored) &&
         (protocol == nullptr || stored.table.protocol == *protocol) &&
         std::all_of(ladder.begin(), ladder.end(),
                     [&](int64_t m) { return HasEvidence(stored.table, m); });
}

}  // namespace hone
