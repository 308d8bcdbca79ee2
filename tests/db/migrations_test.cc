#include "db/migrations.h"

#include <fstream>

#include "gmock/gmock.h"
#include "tests/db/fixture.h"

namespace hone {
namespace {

using sqlite::Access;
using sqlite::Database;
using ::testing::HasSubstr;

class MigrationsTest : public testing::DbTest {
 protected:
  std::unique_ptr<Database> Open(const std::string& name = "hone.db") const {
    auto database = Database::Open(Path(name), Access::kReadWrite);
    EXPECT_TRUE(database.ok()) << database.status();
    return *std::move(database);
  }
};

// What a later Hone would add.
std::vector<Migration> WithNext(absl::string_view sql) {
  std::vector<Migration> migrations = Migrations();
  migrations.push_back({migrations.back().version + 1, sql});
  return migrations;
}

TEST_F(MigrationsTest, EmbeddedOnesCountFromOne) {
  const std::vector<Migration> migrations = Migrations();
  ASSERT_FALSE(migrations.empty());
  for (size_t i = 0; i < migrations.size(); ++i) {
    EXPECT_EQ(migrations[i].version, static_cast<int64_t>(i) + 1);
  }
}

TEST_F(MigrationsTest, AFreshFileGetsEveryMigrationAndNoBackup) {
  auto database = Open();
  ASSERT_TRUE(Migrate(*database, Migrations()).ok());
  EXPECT_EQ(*database->QueryInt("PRAGMA user_version"),
            Migrations().back().version);
  EXPECT_EQ(*database->QueryInt("PRAGMA application_id"), 0x484F4E45);
  EXPECT_TRUE(QuickCheck(*database).ok());
  EXPECT_FALSE(std::filesystem::exists(BackupPath(Path(), 0)));
  // A second time there is nothing to do.
  EXPECT_TRUE(Migrate(*database, Migrations()).ok());
  EXPECT_TRUE(CheckVersion(*database, Migrations()).ok());
}

TEST_F(MigrationsTest, EveryTableIsStrict) {
  auto database = Open();
  ASSERT_TRUE(Migrate(*database, Migrations()).ok());
  EXPECT_EQ(*database->QueryInt("SELECT count(*) FROM pragma_table_list"
                                " WHERE type = 'table' AND NOT strict"
                                " AND name NOT LIKE 'sqlite_%'"),
            0);
  EXPECT_GT(*database->QueryInt("SELECT count(*) FROM pragma_table_list"
                                " WHERE type = 'table' AND strict"),
            10);
}

TEST_F(MigrationsTest, AnOlderFileIsCopiedThenBroughtForward) {
  // A file as this version left it, with a trial in it.
  {
    ASSERT_TRUE(OpenStore()
                    ->RecordTrial(testing::TestDevice(), Protocol(),
                                  testing::TestTrial())
                    .ok());
  }
  const int64_t version = Migrations().back().version;
  std::ofstream(BackupPath(Path(), version) + ".partial") << "cut short";
  auto database = Open();
  const std::vector<Migration> next =
      WithNext("ALTER TABLE alias ADD COLUMN note TEXT NOT NULL DEFAULT ''");
  EXPECT_EQ(CheckVersion(*database, next).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Migrate(*database, next).ok());
  EXPECT_EQ(*database->QueryInt("PRAGMA user_version"), version + 1);
  EXPECT_EQ(*database->QueryInt("SELECT count(*) FROM trial"), 1);
  EXPECT_TRUE(database->QueryInt("SELECT count(note) FROM alias").ok());

  // The copy is a whole database of the version before.
  EXPECT_FALSE(
      std::filesystem::exists(BackupPath(Path(), version) + ".partial"));
  std::filesystem::rename(BackupPath(Path(), version), Path("old.db"));
  const auto old = OpenStore("old.db");
  EXPECT_EQ(old->KnownTrials(testing::TestProblem(), testing::TestDevice(),
                             Protocol())
                ->size(),
            1u);
}

TEST_F(MigrationsTest, EveryEarlierVersionIsBroughtForward) {
  const std::vector<Migration> migrations = Migrations();
  for (size_t count = 1; count < migrations.size(); ++count) {
    const std::string name = absl::StrCat("version", count, ".db");
    {
      auto database = Open(name);
      ASSERT_TRUE(
          Migrate(*database, absl::MakeSpan(migrations).first(count)).ok());
    }
    ASSERT_NE(OpenStore(name), nullptr);
    EXPECT_TRUE(std::filesystem::exists(
        BackupPath(Path(name), static_cast<int64_t>(count))));
  }
}

TEST_F(MigrationsTest, AFailedMigrationChangesNothing) {
  auto database = Open();
  ASSERT_TRUE(Migrate(*database, Migrations()).ok());
  EXPECT_FALSE(Migrate(*database, WithNext("CREATE TABLE extra (i INTEGER);"
                                           "SELECT broken"))
                   .ok());
  EXPECT_EQ(*database->QueryInt("PRAGMA user_version"),
            Migrations().back().version);
  EXPECT_FALSE(database->QueryInt("SELECT count(*) FROM extra").ok());
  EXPECT_TRUE(Migrate(*database, Migrations()).ok());
}

TEST_F(MigrationsTest, ANewerSchemaIsRefused) {
  const int64_t newest = Migrations().back().version;
  {
    auto database = Open();
    ASSERT_TRUE(Migrate(*database, WithNext("SELECT 1")).ok());
  }
  for (const bool read_only : {false, true}) {
    const auto store = Store::Open(Path(), {.read_only = read_only});
    EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(store.status().message(),
                HasSubstr(absl::StrCat("has schema version ", newest + 1,
                                       "; this Hone knows 1 to ", newest)));
  }
}

TEST_F(MigrationsTest, AnotherApplicationsFileIsRefused) {
  {
    auto database = Open();
    ASSERT_TRUE(database->Execute("CREATE TABLE notes (t TEXT)").ok());
  }
  const auto store = Store::Open(Path());
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(store.status().message(), HasSubstr("another application"));
}

TEST_F(MigrationsTest, DamageIsFoundAtOpen) {
  {
    const auto store = OpenStore();
    std::vector<Trial> trials;
    for (int m = 1; m <= 200; ++m) trials.push_back(testing::TestTrial(m));
    ASSERT_TRUE(
        store->RecordTrials(testing::TestDevice(), Protocol(), trials).ok());
  }
  {
    // Every page but the first.
    const auto size = std::filesystem::file_size(Path());
    ASSERT_GT(size, 3 * 4096u);
    std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
    for (size_t page = 4096; page < size; page += 4096) {
      file.seekp(static_cast<std::streamoff>(page));
      file << std::string(64, '\x55');
    }
  }
  EXPECT_EQ(Store::Open(Path()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Store::Open(Path(), {.read_only = true}).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hone
