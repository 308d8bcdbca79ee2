#include "tuner/trial.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

TEST(TrialTest, OutcomesAndGatesReadBack) {
  for (int i = 0; i <= static_cast<int>(Outcome::kScreenedOut); ++i) {
    const auto outcome = static_cast<Outcome>(i);
    EXPECT_EQ(*ParseOutcome(ToString(outcome)), outcome) << ToString(outcome);
  }
  EXPECT_EQ(ToString(Outcome::kMeasured), "measured");
  EXPECT_EQ(ToString(Outcome::kScreenedOut), "screened_out");
  for (int i = 0; i <= static_cast<int>(GateKind::kEmulated); ++i) {
    const auto gate = static_cast<GateKind>(i);
    EXPECT_EQ(*ParseGateKind(ToString(gate)), gate);
  }
  const absl::Status bad = ParseOutcome("ok").status();
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(bad.message(), HasSubstr("measured, compile_error"));
  EXPECT_THAT(ParseGateKind("").status().message(),
              HasSubstr("none, device, emulated"));
}

TEST(ProtocolTest, TextIsCanonicalAndReadsBack) {
  Protocol protocol;
  EXPECT_EQ(protocol.ToString(),
            "activations=cold,flush_l2_multiple=4,timer=cupti,version=1");
  EXPECT_EQ(*Protocol::Parse(protocol.ToString()), protocol);
  const std::string hash = protocol.Hash();
  EXPECT_EQ(hash.size(), 64u);
  protocol.timer = "model";
  protocol.activations = "warm";
  protocol.flush_l2_multiple = 0;
  protocol.version = 7;
  EXPECT_EQ(*Protocol::Parse(protocol.ToString()), protocol);
  EXPECT_NE(protocol.Hash(), hash);
  EXPECT_THAT(Protocol::Parse("timer=stopwatch").status().message(),
              HasSubstr("must be one of cupti, model"));
  EXPECT_FALSE(Protocol::Parse("speed=1").ok());
}

DispatchTable Ranges(std::vector<std::pair<int64_t, int64_t>> ranges) {
  DispatchTable table;
  for (const auto& [lo, hi] : ranges) {
    TableEntry& entry = table.entries.emplace_back();
    entry.m_lo = lo;
    entry.m_hi = hi;
  }
  return table;
}

TEST(DispatchTableTest, FindsTheEntryOfEveryM) {
  const DispatchTable table = Ranges({{1, 1}, {2, 16}, {17, 0}});
  ASSERT_TRUE(table.Validate().ok());
  EXPECT_EQ(table.Find(1), &table.entries[0]);
  EXPECT_EQ(table.Find(2), &table.entries[1]);
  EXPECT_EQ(table.Find(16), &table.entries[1]);
  EXPECT_EQ(table.Find(17), &table.entries[2]);
  EXPECT_EQ(table.Find(int64_t{1} << 40), &table.entries[2]);
  EXPECT_EQ(DispatchTable().Find(1), nullptr);
}

TEST(DispatchTableTest, NamesTheFirstHoleOrOverlap) {
  const struct {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    const char* message;
  } kCases[] = {
      {{}, "no entries"},
      {{{2, 0}}, "entry 0, [2, ∞], must start at M = 1 (hole)"},
      {{{1, 4}, {6, 0}}, "entry 1, [6, ∞], must start at M = 5 (hole)"},
      {{{1, 4}, {4, 0}}, "entry 1, [4, ∞], must start at M = 5 (overlap)"},
      {{{1, 0}, {5, 0}}, "follows one without end"},
      {{{1, 4}, {5, 4}}, "entry 1, [5, 4], ends before it starts"},
      {{{1, 4}}, "ends at M = 4"},
      {{{1, INT64_MAX}, {2, 0}}, "largest M"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = Ranges(c.ranges).Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr(c.message));
  }
}

TEST(DispatchTableTest, EvidenceLiesInItsRangeAndRises) {
  for (const std::vector<int64_t>& points :
       {std::vector<int64_t>{0}, {5}, {2, 2}, {4, 1}}) {
    DispatchTable table = Ranges({{1, 4}, {5, 0}});
    for (const int64_t m : points) {
      table.entries[0].evidence.emplace_back().m = m;
    }
    EXPECT_THAT(table.Validate().message(), HasSubstr("evidence at M"));
  }
}

TEST(LadderTest, IsTheDesigns) {
  const std::vector<int64_t> ladder = DefaultLadder();
  EXPECT_EQ(ladder.size(), 23u);
  EXPECT_EQ(ladder.front(), 1);
  EXPECT_EQ(ladder.back(), 8192);
  EXPECT_TRUE(std::is_sorted(ladder.begin(), ladder.end()));
}

}  // namespace
}  // namespace hone
