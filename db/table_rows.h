// Dispatch tables as rows, and which of them answers. Internal to db/.
#ifndef HONE_DB_TABLE_ROWS_H_
#define HONE_DB_TABLE_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/sqlite.h"
#include "db/store.h"
#include "tuner/trial.h"

namespace hone {

absl::StatusOr<int64_t> InsertRevision(sqlite::Database& database,
                                       int64_t unix_us,
                                       absl::string_view bundle_sha256);
absl::StatusOr<int64_t> ReadCurrentRevision(sqlite::Database& database);

// `table` must have passed CheckTable().
absl::Status InsertTable(sqlite::Database& database, int64_t revision,
                         Origin origin, const DispatchTable& table);
// Whether a table with exactly this content is stored.
absl::StatusOr<bool> HasTable(sqlite::Database& database,
                              const DispatchTable& table);
absl::StatusOr<StoredTable> ReadTable(sqlite::Database& database, int64_t id);

// The table that answers at a revision, if any.
absl::StatusOr<std::optional<int64_t>> AnsweringTable(
    sqlite::Database& database, const Problem& problem,
    const DeviceSpec& device, int64_t revision);

// All that answer at a revision, by rising id: those after `after`, at
// most `limit`. Problem and device class (hashes) are any when empty.
struct AnsweringQuery {
  int64_t revision = 0;
  std::string problem_hash;
  std::string class_hash;
  int64_t after = 0;
  int64_t limit = -1;
};
absl::StatusOr<std::vector<int64_t>> AnsweringTables(
    sqlite::Database& database, const AnsweringQuery& query);

// NotFound, with what is nearest to an answer that is not there.
absl::Status ExplainMiss(sqlite::Database& database, const Problem& problem,
                         const DeviceSpec& device, int64_t revision);

// The imported table beats the default here. Nothing happens when that is
// known.
absl::Status InsertVerification(sqlite::Database& database, int64_t table,
                                int64_t unix_us);

}  // namespace hone

#endif  // HONE_DB_TABLE_ROWS_H_
