// The tables that ship with Hone: they import into an empty store, come out
// byte for byte, and name legal configs of the kernels of today.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "db/bundle.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"
#include "tests/db/fixture.h"

namespace hone {
namespace {

class ShippedTablesTest : public testing::DbTest {};

TEST_F(ShippedTablesTest, ImportAnswerAndExportAgain) {
  int bundles = 0;
  for (const auto& file : std::filesystem::directory_iterator(HONE_TABLES)) {
    if (file.path().extension() != ".jsonl") continue;
    SCOPED_TRACE(file.path().filename().string());
    ++bundles;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const auto store = OpenStore(file.path().filename().string() + ".db");
    const auto imported = ImportBundle(*store, text, {.unix_us = 1});
    ASSERT_TRUE(imported.ok()) << imported.status();
    EXPECT_GT(imported->tables_added, 0);
    EXPECT_EQ(*ExportBundle(*store), text);
    const Bundle bundle = *ParseBundle(text);
    for (const DispatchTable& table : bundle.tables) {
      // Measured, on the device, against the default.
      EXPECT_EQ(table.device.kind, DeviceKind::kMeasured);
      EXPECT_EQ(table.gate, GateKind::kDevice);
      for (const TableEntry& entry : table.entries) {
        const auto refusal =
            CheckConfig(table.problem, table.device, entry.config);
        EXPECT_FALSE(refusal.has_value()) << refusal->reason;
        EXPECT_FALSE(entry.evidence.empty());
      }
      for (const int64_t m : {1, 13, 64, 777, 100000}) {
        EXPECT_NE(table.Find(m), nullptr) << m;
      }
      const auto stored = store->GetTable(table.problem, table.device);
      ASSERT_TRUE(stored.ok()) << stored.status();
      EXPECT_FALSE(stored->verified);
    }
  }
  EXPECT_GE(bundles, 1);
}

// A time as the README prints it.
std::string Microseconds(int64_t ns) {
  const double us = static_cast<double>(ns) * 1e-3;
  return absl::StrFormat(us < 100 ? "%.1f" : "%.0f", us);
}

TEST_F(ShippedTablesTest, TheReadmeShowsTheirTimes) {
  const auto read = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  const std::string readme = read(HONE_README);
  const absl::StatusOr<Bundle> bundle =
      ParseBundle(read(absl::StrCat(HONE_TABLES, "/h200.jsonl")));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  for (const DispatchTable& table : bundle->tables) {
    std::set<std::string> kernels;
    std::map<int64_t, Evidence> evidence;
    for (const TableEntry& entry : table.entries) {
      kernels.insert(entry.config.ToString());
      for (const Evidence& e : entry.evidence) evidence[e.m] = e;
    }
    std::string tuned =
        absl::StrCat("| ", kernels.size(), " kernels | **tuned** |");
    std::string standard = "| | default |";
    for (const int64_t m : {1, 8, 16, 32, 64, 128, 256, 1024, 8192}) {
      absl::StrAppend(&tuned, " **", Microseconds(evidence[m].median_ns),
                      "** |");
      absl::StrAppend(&standard, " ",
                      Microseconds(evidence[m].default_median_ns), " |");
    }
    EXPECT_NE(readme.find(tuned + "\n" + standard + "\n"), std::string::npos)
        << table.problem.ToString() << "\n"
        << tuned << "\n"
        << standard;
  }
}

}  // namespace
}  // namespace hone
