// Whether a stored table answers instead of a tune.
#ifndef HONE_SERVICE_SERVER_FRESHNESS_H_
#define HONE_SERVICE_SERVER_FRESHNESS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "db/store.h"
#include "service/server/lookup.h"
#include "tuner/trial.h"

namespace hone {

// The table was tuned or checked here, with today's kernels as `index` knows
// them and by `protocol` (null: by any), and has evidence at each M of
// `ladder`. One whose budget ended early lacks it at some.
bool IsFresh(const StoredTable& stored, const LookupIndex& index,
             absl::Span<const int64_t> ladder, const Protocol* protocol);

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_FRESHNESS_H_
