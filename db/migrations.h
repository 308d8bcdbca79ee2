// Schema versions: db/migrations/NNNN_name.sql, embedded at build time.
//
// user_version holds the number of the last migration applied, application_id
// says that the file is Hone's. Versions only go forward.
#ifndef HONE_DB_MIGRATIONS_H_
#define HONE_DB_MIGRATIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/sqlite.h"

namespace hone {

// "HONE" in ASCII.
inline constexpr int64_t kApplicationId = 0x484F4E45;

struct Migration {
  int64_t version = 0;
  absl::string_view sql;
};

// Those of this build, by rising version from 1 without gaps.
std::vector<Migration> Migrations();

// Brings the database to the last version, in one transaction. A database that
// holds something is first copied to BackupPath(). FailedPrecondition: it is
// of a newer version or another application's.
absl::Status Migrate(sqlite::Database& database,
                     absl::Span<const Migration> migrations);

// OK when the database is at the last version already; else FailedPrecondition.
absl::Status CheckVersion(sqlite::Database& database,
                          absl::Span<const Migration> migrations);

// Where Migrate() puts the copy of version `version`: "<path>.v<version>.bak".
std::string BackupPath(const std::string& path, int64_t version);

// DataLoss, with SQLite's findings, when the file is damaged.
absl::Status QuickCheck(sqlite::Database& database);

}  // namespace hone

#endif  // HONE_DB_MIGRATIONS_H_
