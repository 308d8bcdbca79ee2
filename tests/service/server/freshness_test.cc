#include "service/server/freshness.h"

#include <gtest/gtest.h>

#include <vector>

namespace hone {
namespace {

StoredTable Table() {
  StoredTable stored;
  stored.verified = true;
  stored.table.source_closure = "today";
  stored.table.protocol.timer = "events";
  stored.table.ladder = {1, 16};
  TableEntry entry;
  entry.m_lo = 1;
  entry.m_hi = 0;
  for (const int64_t m : {1, 16}) {
    Evidence evidence;
    evidence.m = m;
    evidence.samples = 25;
    entry.evidence.push_back(evidence);
  }
  stored.table.entries.push_back(entry);
  return stored;
}

TEST(Freshness, IsOfTodaysKernelsThisProtocolAndEvidenceEverywhere) {
  const LookupIndex index({}, 1, "today");
  const StoredTable good = Table();
  const Protocol& protocol = good.table.protocol;
  EXPECT_TRUE(IsFresh(good, index, good.table.ladder, &protocol));
  EXPECT_TRUE(IsFresh(good, index, good.table.ladder, nullptr));
  EXPECT_TRUE(IsFresh(good, index, std::vector<int64_t>{16}, nullptr));
  EXPECT_FALSE(IsFresh(good, index, std::vector<int64_t>{1, 8, 16}, nullptr));
  EXPECT_FALSE(
      IsFresh(good, LookupIndex({}, 1, "other"), good.table.ladder, &protocol));

  StoredTable partial = Table();
  partial.table.entries[0].evidence[1].samples = 0;
  EXPECT_FALSE(IsFresh(partial, index, partial.table.ladder, &protocol));
  EXPECT_TRUE(IsFresh(partial, index, std::vector<int64_t>{1}, &protocol));

  Protocol other = protocol;
  other.timer = "another";
  EXPECT_FALSE(IsFresh(good, index, good.table.ladder, &other));
  StoredTable imported = Table();
  imported.verified = false;
  EXPECT_FALSE(IsFresh(imported, index, imported.table.ladder, &protocol));
}

}  // namespace
}  // namespace hone
