#include "db/sqlite.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "gmock/gmock.h"
#include "tests/db/fixture.h"

namespace hone::sqlite {
namespace {

using ::testing::HasSubstr;

class SqliteTest : public hone::testing::DbTest {
 protected:
  SqliteTest() {
    auto database = Database::Open(Path(), Access::kReadWrite);
    EXPECT_TRUE(database.ok()) << database.status();
    database_ = *std::move(database);
    EXPECT_TRUE(database_
                    ->Execute("CREATE TABLE t (id INTEGER PRIMARY KEY,"
                              " i INTEGER, r REAL, s TEXT, b BLOB) STRICT")
                    .ok());
  }
  absl::Status Insert(absl::string_view blob) {
    auto insert = database_->Prepare("INSERT INTO t (b) VALUES (?)");
    return insert->BindBlob(blob).Run();
  }
  std::unique_ptr<Database> database_;
};

TEST_F(SqliteTest, HasTheSettingsOfTheDesign) {
  auto reader = Database::Open(Path(), Access::kReadOnly);
  ASSERT_TRUE(reader.ok()) << reader.status();
  for (Database* database : {database_.get(), reader->get()}) {
    EXPECT_EQ(*database->QueryText("PRAGMA journal_mode"), "wal");
    EXPECT_EQ(*database->QueryInt("PRAGMA synchronous"), 2);
    EXPECT_EQ(*database->QueryInt("PRAGMA foreign_keys"), 1);
    EXPECT_EQ(*database->QueryInt("PRAGMA trusted_schema"), 0);
    EXPECT_EQ(*database->QueryInt("PRAGMA cell_size_check"), 1);
    EXPECT_EQ(*database->QueryInt("PRAGMA busy_timeout"), 5000);
    EXPECT_EQ(*database->QueryInt("PRAGMA recursive_triggers"), 1);
    // Defensive: the schema cannot be written.
    EXPECT_THAT(database
                    ->Execute("PRAGMA writable_schema = ON;"
                              "DELETE FROM sqlite_schema")
                    .message(),
                HasSubstr("may not be modified"));
    EXPECT_THAT(
        database->QueryText("SELECT load_extension('x')").status().message(),
        HasSubstr("not authorized"));
  }
}

TEST_F(SqliteTest, ValuesRoundTrip) {
  const std::string text("a'b\0c", 5);
  {
    auto insert = database_->Prepare(
        "INSERT INTO t (i, r, s, b)"
        " VALUES (?, ?, ?, ?)");
    ASSERT_TRUE(insert.ok());
    ASSERT_TRUE(insert->Bind(std::numeric_limits<int64_t>::min())
                    .Bind(1.0 / 3)
                    .Bind(text)
                    .BindBlob("\xFF")
                    .Run()
                    .ok());
  }
  EXPECT_EQ(database_->last_insert_id(), 1);
  EXPECT_EQ(database_->changes(), 1);
  {
    auto insert = database_->Prepare(
        "INSERT INTO t (i, r, s, b)"
        " VALUES (?, ?, ?, ?)");
    ASSERT_TRUE(
        insert->BindNull().Bind(std::nan("")).Bind("").BindBlob("").Run().ok());
  }
  auto select = database_->Prepare("SELECT i, r, s, b FROM t ORDER BY id");
  ASSERT_TRUE(*select->Step());
  EXPECT_EQ(select->Int(0), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(select->Real(1), 1.0 / 3);
  EXPECT_EQ(select->Text(2), text);
  EXPECT_EQ(select->Blob(3), "\xFF");
  ASSERT_TRUE(*select->Step());
  EXPECT_TRUE(select->IsNull(0));
  EXPECT_TRUE(select->IsNull(1));
  EXPECT_FALSE(select->IsNull(2));
  EXPECT_EQ(select->Text(2), "");
  EXPECT_FALSE(select->IsNull(3));
  EXPECT_FALSE(*select->Step());
}

TEST_F(SqliteTest, ErrorsSayWhatTheCallerShouldDo) {
  EXPECT_EQ(database_->Prepare("SELECT nothing").status().code(),
            absl::StatusCode::kInternal);
  // A parameter too many.
  EXPECT_EQ(
      database_->Prepare("SELECT 1")->Bind(int64_t{1}).Step().status().code(),
      absl::StatusCode::kInternal);
  EXPECT_EQ(database_->Execute("INSERT INTO t (id) VALUES (1), (1)").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(database_->QueryInt("SELECT id FROM t").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Database::Open(Path("none.db"), Access::kReadOnly).status().code(),
            absl::StatusCode::kNotFound);
  auto reader = Database::Open(Path(), Access::kReadOnly);
  const absl::Status write = (*reader)->Execute("DELETE FROM t");
  EXPECT_EQ(write.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(write.message(), HasSubstr("readonly"));

  std::ofstream(Path("text.db")) << std::string(4096, 'x');
  EXPECT_EQ(Database::Open(Path("text.db"), Access::kReadWrite).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(SqliteTest, AFullDatabaseSaysSoAndStaysReadable) {
  const std::string page(4000, 'x');
  ASSERT_TRUE(Insert(page).ok());
  ASSERT_TRUE(
      database_
          ->Execute(absl::StrCat("PRAGMA max_page_count = ",
                                 *database_->QueryInt("PRAGMA page_count") + 3))
          .ok());
  absl::Status status;
  int written = 1;
  for (int i = 0; i < 10; ++i) {
    status = Insert(page);
    if (!status.ok()) break;
    ++written;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(*database_->QueryInt("SELECT count(*) FROM t"), written);
  EXPECT_EQ(*database_->QueryText("PRAGMA integrity_check"), "ok");
}

TEST_F(SqliteTest, TransactionsRollBackUnlessCommitted) {
  {
    auto transaction = Transaction::Begin(database_.get(), Access::kReadWrite);
    ASSERT_TRUE(transaction.ok());
    ASSERT_TRUE(Insert("a").ok());
    EXPECT_EQ(*database_->QueryInt("SELECT count(*) FROM t"), 1);
  }
  EXPECT_EQ(*database_->QueryInt("SELECT count(*) FROM t"), 0);
  {
    auto transaction = Transaction::Begin(database_.get(), Access::kReadWrite);
    ASSERT_TRUE(Insert("a").ok());
    ASSERT_TRUE(transaction->Commit().ok());
  }
  EXPECT_EQ(*database_->QueryInt("SELECT count(*) FROM t"), 1);
}

TEST_F(SqliteTest, AReaderKeepsItsSnapshotWhileTheWriterGoesOn) {
  ASSERT_TRUE(Insert("a").ok());
  auto reader = Database::Open(Path(), Access::kReadOnly);
  auto snapshot = Transaction::Begin(reader->get(), Access::kReadOnly);
  EXPECT_EQ(*(*reader)->QueryInt("SELECT count(*) FROM t"), 1);
  ASSERT_TRUE(Insert("b").ok());
  EXPECT_EQ(*(*reader)->QueryInt("SELECT count(*) FROM t"), 1);
  ASSERT_TRUE(snapshot->Commit().ok());
  EXPECT_EQ(*(*reader)->QueryInt("SELECT count(*) FROM t"), 2);
}

TEST_F(SqliteTest, ANestedUseOfOneStatementGetsItsOwnCopy) {
  ASSERT_TRUE(database_->Execute("INSERT INTO t (id) VALUES (1), (2)").ok());
  constexpr absl::string_view kSql = "SELECT id FROM t ORDER BY id";
  auto outer = database_->Prepare(kSql);
  ASSERT_TRUE(*outer->Step());
  auto inner = database_->Prepare(kSql);
  ASSERT_TRUE(*inner->Step());
  EXPECT_EQ(inner->Int(0), 1);
  ASSERT_TRUE(*outer->Step());
  EXPECT_EQ(outer->Int(0), 2);
}

}  // namespace
}  // namespace hone::sqlite
