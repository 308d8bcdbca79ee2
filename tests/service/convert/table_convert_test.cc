#include "service/convert/table_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/convert/enum_convert.h"
#include "tests/service/convert/sample_values.h"

namespace hone {
namespace {

using ::testing::IsEmpty;

TEST(TableConvert, EveryFieldOfATableAnswerMakesTheRoundTrip) {
  const TableAnswer answer{SampleTable(), SampleProvenance()};
  const v1::GetTableResponse message = ToProto(answer);
  EXPECT_THAT(UnsetFields(message), IsEmpty());
  EXPECT_THAT(UnsetFields(message.table()), IsEmpty());
  EXPECT_THAT(UnsetFields(message.trade_off(0)), IsEmpty());
  EXPECT_THAT(UnsetFields(message.table().protocol()), IsEmpty());
  EXPECT_THAT(UnsetFields(message.table().entries(0)), IsEmpty());
  EXPECT_THAT(UnsetFields(message.table().entries(0).compile()), IsEmpty());
  EXPECT_THAT(UnsetFields(message.table().entries(0).evidence(0)), IsEmpty());
  EXPECT_THAT(UnsetFields(message.provenance()), IsEmpty());
  EXPECT_THAT(UnsetFields(message.provenance().regret_bound()), IsEmpty());
  const auto back = AnswerFromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, answer);
}

TEST(TableConvert, EveryFieldOfAConfigAnswerMakesTheRoundTrip) {
  const ConfigAnswer answer{.config = SampleTuning(),
                            .m_lo = 3,
                            .m_hi = 16,
                            .evidence = {SampleEvidence(16)},
                            .compile = SampleCompile(),
                            .provenance = SampleProvenance()};
  const v1::GetConfigResponse message = ToProto(answer);
  EXPECT_THAT(UnsetFields(message), IsEmpty());
  const auto back = AnswerFromProto(message);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, answer);
}

TEST(TableConvert, MatchAndGateKindsKeepTheirNames) {
  for (int i = 1; i <= v1::MatchKind_MAX; ++i) {
    FieldErrors errors;
    const auto kind = EnumFromProto<MatchKind>(static_cast<v1::MatchKind>(i),
                                               {}, "match", errors);
    EXPECT_EQ("MATCH_KIND_" + std::string(ToString(kind)),
              v1::MatchKind_Name(i));
  }
  for (int i = 1; i <= v1::GateKind_MAX; ++i) {
    FieldErrors errors;
    const auto gate = EnumFromProto<GateKind>(static_cast<v1::GateKind>(i), {},
                                              "gate", errors);
    EXPECT_EQ(EnumToProto<v1::GateKind>(gate), i);
    EXPECT_TRUE(errors.ok());
  }
  EXPECT_EQ(EnumToProto<v1::GateKind>(GateKind::kEmulated),
            v1::GATE_KIND_EMULATED);
}

TEST(TableConvert, ATableWithAHoleIsRefused) {
  TableAnswer answer{SampleTable(), SampleProvenance()};
  answer.table.entries[1].m_lo = 20;
  const auto back = AnswerFromProto(ToProto(answer));
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(ViolationsOf(back.status())[0].field, "table.entries");
}

TEST(TableConvert, ABadEntryIsNamedByItsIndex) {
  v1::GetTableResponse message = ToProto(TableAnswer{SampleTable(), {}});
  message.mutable_table()->mutable_entries(1)->mutable_config()->clear_mma();
  const auto back = AnswerFromProto(message);
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(ViolationsOf(back.status())[0].field,
            "table.entries[1].config.mma");
}

}  // namespace
}  // namespace hone
