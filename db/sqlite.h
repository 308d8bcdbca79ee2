// A thin C++ face of SQLite: the only includer of sqlite3.h.
//
// Every error is an absl::Status chosen by what the caller should do:
//   ResourceExhausted   the disk, quota or memory is full: make room
//   DataLoss            the file is damaged or no database: restore it
//   Unavailable         another process holds a lock: try again
//   FailedPrecondition  a constraint, or a write to a read-only database
//   NotFound            no such file
//   PermissionDenied    the file's rights forbid it
//   Internal            the disk failed, or Hone's own SQL is wrong
#ifndef HONE_DB_SQLITE_H_
#define HONE_DB_SQLITE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace hone::sqlite {

enum class Access : uint8_t { kReadOnly, kReadWrite };

class Database;

// One run of a prepared statement. Parameters are bound from left to right;
// columns are read by number after Step() returned true. Move-only; gives its
// compiled form back to the database's cache, so it must die before it.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  Statement& Bind(int64_t value);
  Statement& Bind(double value);
  Statement& Bind(absl::string_view text);
  Statement& BindBlob(absl::string_view bytes);
  Statement& BindNull();

  // True: a row is there. False: the statement is done. Reports the first
  // error of Bind() too.
  absl::StatusOr<bool> Step();
  // For statements without rows.
  absl::Status Run();

  int64_t Int(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;
  std::string Blob(int column) const;
  // Of a text or blob, without a copy: good until the next Step().
  absl::string_view View(int column) const;
  bool IsNull(int column) const;

 private:
  friend class Database;
  Statement(Database* database, sqlite3_stmt* statement, std::string sql);
  void Check(int code);

  Database* database_;
  sqlite3_stmt* statement_;
  std::string sql_;
  int next_parameter_ = 1;
  int bind_error_ = 0;
};

// One connection. Not thread-safe: one thread at a time.
class Database {
 public:
  // Opens with every setting of db/DESIGN.md. kReadWrite creates the file;
  // kReadOnly needs it. FailedPrecondition on a network filesystem.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        Access access);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }

  // Compiled statements are cached by their text, so `sql` should be constant.
  absl::StatusOr<Statement> Prepare(absl::string_view sql);
  // Runs every statement of a script.
  absl::Status Execute(const std::string& script);
  // The first column of the first row. NotFound without a row.
  absl::StatusOr<int64_t> QueryInt(absl::string_view sql);
  absl::StatusOr<std::string> QueryText(absl::string_view sql);

  // Row id of the last INSERT, rows changed by the last statement.
  int64_t last_insert_id() const;
  int64_t changes() const;

 private:
  friend class Statement;
  Database(std::string path, sqlite3* handle);
  absl::Status Error(int code, absl::string_view doing) const;

  const std::string path_;
  sqlite3* const handle_;
  std::multimap<std::string, sqlite3_stmt*> idle_;
};

// Rolls back unless committed.
class Transaction {
 public:
  // kReadWrite takes the write lock at once (BEGIN IMMEDIATE); kReadOnly sees
  // one snapshot from its first read on.
  static absl::StatusOr<Transaction> Begin(Database* database, Access access);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  // Durable when it returns OK; when not, nothing was written.
  absl::Status Commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace hone::sqlite

#endif  // HONE_DB_SQLITE_H_
