// The tables that ship with Hone: they import into an empty store, come out
// byte for byte, and name legal configs of the kernels of today.
#include <algorithm>
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
#include "tuner/regret_bound.h"

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

// What tuner/regret_bound.h says of its assumptions.
TEST_F(ShippedTablesTest, BoundsOfRegretRestOnAssumptionsThatNearlyHold) {
  std::ifstream in(absl::StrCat(HONE_TABLES, "/h200.jsonl"), std::ios::binary);
  const absl::StatusOr<Bundle> bundle =
      ParseBundle(std::string((std::istreambuf_iterator<char>(in)), {}));
  ASSERT_TRUE(bundle.ok()) << bundle.status();
  // How often a claim breaks beyond both intervals, and by how much at most.
  struct Count {
    int points = 0;
    int broken = 0;
    double worst = 1;
    void Claim(int64_t low, int64_t high) {
      ++points;
      const double ratio = static_cast<double>(low) / static_cast<double>(high);
      if (ratio > 1) ++broken;
      worst = std::max(worst, ratio);
    }
  };
  Count padding;  // time(c, M) <= time(c, next)
  Count hump;     // time(c, M) <= the slower of its neighbours
  Count best;     // best(M) >= the fastest from the ladder point before on
  int bounded = 0;
  int buckets = 0;
  for (const DispatchTable& table : bundle->tables) {
    std::map<int64_t, Evidence> by_m;
    for (const TableEntry& entry : table.entries) {
      const std::vector<Evidence>& at = entry.evidence;
      for (size_t i = 0; i < at.size(); ++i) {
        by_m[at[i].m] = at[i];
        if (i + 1 < at.size()) padding.Claim(at[i].low_ns, at[i + 1].high_ns);
        if (i == 0 || i + 1 == at.size()) continue;
        hump.Claim(at[i].low_ns,
                   std::max(at[i - 1].high_ns, at[i + 1].high_ns));
      }
    }
    for (const auto& [m, evidence] : by_m) {
      // Without what was measured at this M itself.
      int64_t fastest = 0;
      const auto ladder =
          std::lower_bound(table.ladder.begin(), table.ladder.end(), m);
      if (ladder == table.ladder.begin()) continue;
      for (auto it = by_m.lower_bound(*std::prev(ladder)); it != by_m.end();
           ++it) {
        if (it->first == m) continue;
        if (fastest == 0 || it->second.low_ns < fastest) {
          fastest = it->second.low_ns;
        }
      }
      best.Claim(fastest, evidence.high_ns);
    }
    const std::vector<BucketBound> bounds = BucketBounds(table, {});
    for (int64_t m = 1; m <= table.ladder.back(); ++m) {
      if (std::count(table.ladder.begin(), table.ladder.end(), m) > 0) continue;
      ++buckets;
      bounded += FindBound(bounds, m) != nullptr ? 1 : 0;
    }
  }
  EXPECT_EQ(padding.points, 263);
  EXPECT_EQ(padding.broken, 38);
  EXPECT_NEAR(padding.worst, 1.275, 0.005);
  EXPECT_EQ(hump.points, 184);
  EXPECT_EQ(hump.broken, 2);
  EXPECT_NEAR(hump.worst, 1.017, 0.005);
  EXPECT_EQ(best.points, 418);
  EXPECT_EQ(best.broken, 2);
  EXPECT_NEAR(best.worst, 1.007, 0.005);
  // From the tables' own evidence alone.
  EXPECT_GE(bounded, buckets / 2);
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
