#include "db/migrations.h"

#include <cstdio>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "db/files.h"
#include "kernels/config/status_macros.h"

namespace hone {

// Generated from db/migrations/.
const std::vector<std::pair<absl::string_view, absl::string_view>>&
MigrationFiles();

namespace {

// 0 for an empty file. FailedPrecondition: not a database of ours, or newer.
absl::StatusOr<int64_t> Version(sqlite::Database& database,
                                absl::Span<const Migration> migrations) {
  HONE_ASSIGN_OR_RETURN(const int64_t application,
                        database.QueryInt("PRAGMA application_id"));
  HONE_ASSIGN_OR_RETURN(const int64_t version,
                        database.QueryInt("PRAGMA user_version"));
  HONE_ASSIGN_OR_RETURN(
      const int64_t objects,
      database.QueryInt("SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && version == 0 && objects == 0) return 0;
  if (application != kApplicationId) {
    return absl::FailedPreconditionError(absl::StrCat(
        database.path(), " is a database of another application (id ",
        application, ", not ", kApplicationId, ")"));
  }
  const int64_t newest = migrations.back().version;
  if (version < 1 || version > newest) {
    return absl::FailedPreconditionError(absl::StrCat(
        database.path(), " has schema version ", version,
        "; this Hone knows 1 to ", newest, ". Use the Hone that wrote it"));
  }
  return version;
}

absl::Status BackUp(sqlite::Database& database, int64_t version) {
  const std::string path = BackupPath(database.path(), version);
  const std::string partial = path + ".partial";
  // Left by a copy that was cut short; VACUUM INTO refuses to overwrite.
  std::remove(partial.c_str());
  HONE_ASSIGN_OR_RETURN(sqlite::Statement copy,
                        database.Prepare("VACUUM INTO ?"));
  HONE_RETURN_IF_ERROR(copy.Bind(partial).Run());
  return SyncAndRename(partial, path);
}

}  // namespace

std::vector<Migration> Migrations() {
  std::vector<Migration> migrations;
  for (const auto& [path, sql] : MigrationFiles()) {
    Migration migration;
    const absl::string_view name = path.substr(path.rfind('/') + 1);
    // The build embeds NNNN_name.sql files only, in order of their names.
    if (absl::SimpleAtoi(name.substr(0, 4), &migration.version)) {
      migration.sql = sql;
      migrations.push_back(migration);
    }
  }
  return migrations;
}

absl::Status Migrate(sqlite::Database& database,
                     absl::Span<const Migration> migrations) {
  HONE_ASSIGN_OR_RETURN(const int64_t version, Version(database, migrations));
  const int64_t newest = migrations.back().version;
  if (version == newest) return absl::OkStatus();
  if (version > 0) HONE_RETURN_IF_ERROR(BackUp(database, version));
  HONE_ASSIGN_OR_RETURN(
      sqlite::Transaction transaction,
      sqlite::Transaction::Begin(&database, sqlite::Access::kReadWrite));
  for (const Migration& migration : migrations) {
    if (migration.version <= version) continue;
    HONE_RETURN_IF_ERROR(database.Execute(std::string(migration.sql)));
  }
  HONE_RETURN_IF_ERROR(
      database.Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                    "; PRAGMA user_version = ", newest)));
  return transaction.Commit();
}

absl::Status CheckVersion(sqlite::Database& database,
                          absl::Span<const Migration> migrations) {
  HONE_ASSIGN_OR_RETURN(const int64_t version, Version(database, migrations));
  const int64_t newest = migrations.back().version;
  if (version == newest) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(database.path(), " has schema version ", version,
                   "; open it for writing once, which brings it to ", newest));
}

std::string BackupPath(const std::string& path, int64_t version) {
  return absl::StrCat(path, ".v", version, ".bak");
}

absl::Status QuickCheck(sqlite::Database& database) {
  HONE_ASSIGN_OR_RETURN(sqlite::Statement check,
                        database.Prepare("PRAGMA quick_check(5)"));
  std::vector<std::string> findings;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool row, check.Step());
    if (!row) break;
    findings.push_back(check.Text(0));
  }
  if (findings == std::vector<std::string>{"ok"}) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      database.path(), " is damaged: ", absl::StrJoin(findings, "; ")));
}

}  // namespace hone
