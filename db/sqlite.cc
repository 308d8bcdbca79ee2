#include "db/sqlite.h"

#include <errno.h>
#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "db/files.h"
#include "kernels/config/status_macros.h"

namespace hone::sqlite {
namespace {

// How long a statement waits for another process's lock. Only one process
// writes, so waits are as short as its checkpoints.
constexpr int kBusyTimeoutMs = 5000;

absl::StatusCode CodeOf(int sqlite_code, int system_errno) {
  switch (sqlite_code & 0xFF) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return absl::StatusCode::kUnavailable;
    case SQLITE_CONSTRAINT:
    case SQLITE_READONLY:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::StatusCode::kPermissionDenied;
    case SQLITE_TOOBIG:
      return absl::StatusCode::kInvalidArgument;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
      switch (system_errno) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
        case EMFILE:
        case ENFILE:
          return absl::StatusCode::kResourceExhausted;
        case ENOENT:
          return absl::StatusCode::kNotFound;
        case EACCES:
        case EPERM:
        case EROFS:
          return absl::StatusCode::kPermissionDenied;
        default:
          return absl::StatusCode::kInternal;
      }
    default:
      return absl::StatusCode::kInternal;
  }
}

// The errno behind an I/O error. SQLite keeps it with the file that failed:
// the WAL or, at a checkpoint, the database.
int SystemErrno(sqlite3* handle, int code) {
  if ((code & 0xFF) != SQLITE_IOERR) return sqlite3_system_errno(handle);
  int number = 0;
  sqlite3_file* wal = nullptr;
  sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
  if (wal != nullptr && wal->pMethods != nullptr) {
    wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &number);
  }
  if (number == 0) {
    sqlite3_file_control(handle, "main", SQLITE_FCNTL_LAST_ERRNO, &number);
  }
  return number;
}

}  // namespace

// ---- Statement ----

Statement::Statement(Database* database, sqlite3_stmt* statement,
                     std::string sql)
    : database_(database), statement_(statement), sql_(std::move(sql)) {}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      sql_(std::move(other.sql_)),
      next_parameter_(other.next_parameter_),
      bind_error_(other.bind_error_) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  database_->idle_.emplace(std::move(sql_), statement_);
}

void Statement::Check(int code) {
  if (code != SQLITE_OK && bind_error_ == 0) bind_error_ = code;
}

Statement& Statement::Bind(int64_t value) {
  Check(sqlite3_bind_int64(statement_, next_parameter_++, value));
  return *this;
}
Statement& Statement::Bind(double value) {
  Check(sqlite3_bind_double(statement_, next_parameter_++, value));
  return *this;
}
Statement& Statement::Bind(absl::string_view text) {
  // A null pointer would bind NULL.
  Check(sqlite3_bind_text64(statement_, next_parameter_++,
                            text.empty() ? "" : text.data(), text.size(),
                            SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}
Statement& Statement::BindBlob(absl::string_view bytes) {
  Check(sqlite3_bind_blob64(statement_, next_parameter_++,
                            bytes.empty() ? "" : bytes.data(), bytes.size(),
                            SQLITE_TRANSIENT));
  return *this;
}
Statement& Statement::BindNull() {
  Check(sqlite3_bind_null(statement_, next_parameter_++));
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  if (bind_error_ != 0) {
    return database_->Error(bind_error_, absl::StrCat("bind ", sql_));
  }
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Error(code, absl::StrCat("run ", sql_));
}

absl::Status Statement::Run() {
  HONE_ASSIGN_OR_RETURN(const bool row, Step());
  if (!row) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("rows nobody reads from ", sql_));
}

int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(statement_, column);
}
double Statement::Real(int column) const {
  return sqlite3_column_double(statement_, column);
}
std::string Statement::Text(int column) const {
  const auto* text =
      reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return text == nullptr ? "" : std::string(text, static_cast<size_t>(size));
}
std::string Statement::Blob(int column) const {
  const auto* bytes =
      static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? "" : std::string(bytes, static_cast<size_t>(size));
}
absl::string_view Statement::View(int column) const {
  const auto* bytes =
      static_cast<const char*>(sqlite3_column_blob(statement_, column));
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? absl::string_view()
                          : absl::string_view(bytes, static_cast<size_t>(size));
}
bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

// ---- Database ----

Database::Database(std::string path, sqlite3* handle)
    : path_(std::move(path)), handle_(handle) {}

Database::~Database() {
  for (const auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

absl::Status Database::Error(int code, absl::string_view doing) const {
  const int number = SystemErrno(handle_, code);
  return absl::Status(
      CodeOf(code, number),
      absl::StrCat(path_, ": ", sqlite3_errmsg(handle_),
                   number == 0 ? "" : absl::StrCat(", errno ", number), " (",
                   doing, ")"));
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(
    const std::string& path, Access access) {
  HONE_RETURN_IF_ERROR(CheckLocalFilesystem(path));
  const bool writes = access == Access::kReadWrite;
  sqlite3* handle = nullptr;
  // NOMUTEX: one thread at a time is this class's contract.
  const int code =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                          (writes ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                  : SQLITE_OPEN_READONLY),
                      nullptr);
  if (handle == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": out of memory"));
  }
  std::unique_ptr<Database> database(new Database(path, handle));
  if (code != SQLITE_OK) return database->Error(code, "open");
  if (writes && sqlite3_db_readonly(handle, "main") == 1) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": the file may only be read"));
  }
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  HONE_RETURN_IF_ERROR(
      database->Execute("PRAGMA trusted_schema = OFF;"
                        "PRAGMA cell_size_check = ON;"
                        "PRAGMA foreign_keys = ON;"
                        // Lets the append-only triggers see REPLACE.
                        "PRAGMA recursive_triggers = ON;"));
  if (writes) {
    HONE_ASSIGN_OR_RETURN(const std::string mode,
                          database->QueryText("PRAGMA journal_mode = WAL"));
    if (mode != "wal") {
      return absl::FailedPreconditionError(absl::StrCat(
          path, ": the filesystem cannot hold a WAL (journal mode ", mode,
          ")"));
    }
    HONE_RETURN_IF_ERROR(database->Execute("PRAGMA synchronous = FULL"));
  }
  return database;
}

absl::StatusOr<Statement> Database::Prepare(absl::string_view sql) {
  std::string text(sql);
  if (const auto it = idle_.find(text); it != idle_.end()) {
    sqlite3_stmt* const statement = it->second;
    idle_.erase(it);
    return Statement(this, statement, std::move(text));
  }
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(handle_, text.c_str(), static_cast<int>(text.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code, absl::StrCat("compile ", text));
  return Statement(this, statement, std::move(text));
}

absl::Status Database::Execute(const std::string& script) {
  const int code =
      sqlite3_exec(handle_, script.c_str(), nullptr, nullptr, nullptr);
  if (code == SQLITE_OK) return absl::OkStatus();
  return Error(code, "run a script");
}

absl::StatusOr<int64_t> Database::QueryInt(absl::string_view sql) {
  HONE_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  HONE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::NotFoundError(absl::StrCat("no row: ", sql));
  return statement.Int(0);
}

absl::StatusOr<std::string> Database::QueryText(absl::string_view sql) {
  HONE_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  HONE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::NotFoundError(absl::StrCat("no row: ", sql));
  return statement.Text(0);
}

int64_t Database::last_insert_id() const {
  return sqlite3_last_insert_rowid(handle_);
}
int64_t Database::changes() const { return sqlite3_changes64(handle_); }

// ---- Transaction ----

absl::StatusOr<Transaction> Transaction::Begin(Database* database,
                                               Access access) {
  HONE_ASSIGN_OR_RETURN(
      Statement begin,
      database->Prepare(access == Access::kReadWrite ? "BEGIN IMMEDIATE"
                                                     : "BEGIN"));
  HONE_RETURN_IF_ERROR(begin.Run());
  return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
  // Fails only where SQLite has rolled back by itself already.
  if (database_ != nullptr) database_->Execute("ROLLBACK").IgnoreError();
}

absl::Status Transaction::Commit() {
  HONE_ASSIGN_OR_RETURN(Statement commit, database_->Prepare("COMMIT"));
  HONE_RETURN_IF_ERROR(commit.Run());
  database_ = nullptr;
  return absl::OkStatus();
}

}  // namespace hone::sqlite
