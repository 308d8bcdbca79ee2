#include "service/cli/explain_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TuningConfig Decode() {
  TuningConfig config;
  config.block_m = config.warp_m = 8;
  config.block_n = config.warp_n = 64;
  config.block_k = 512;
  config.warp_k = 64;
  config.stages = 4;
  return config;
}

TuningConfig Other() {
  TuningConfig config = Decode();
  config.stages = 3;
  return config;
}

ConfigAnswer Answer() {
  ConfigAnswer answer;
  answer.config = Decode();
  answer.provenance.match = MatchKind::kExact;
  Evidence evidence;
  evidence.m = 1;
  evidence.samples = 21;
  evidence.median_ns = 10000;
  evidence.low_ns = 9900;
  evidence.high_ns = 10200;
  evidence.default_median_ns = 12000;
  answer.evidence.push_back(evidence);
  return answer;
}

ExplainReport Report() {
  ExplainReport report;
  report.problem.layer.n = report.problem.layer.k = 8192;
  report.problem.layer.b_scale = ScaleGranularity::kGroup;
  report.problem.layer.b_group = 128;
  report.device = *ModelledDevice("h200");
  report.m = 1;
  report.config = Decode();
  report.source = "--config";
  report.explanation =
      Explain(report.problem, report.device, report.config, 1, {96, 102416, 0});
  return report;
}

// The line that starts with a label.
std::string Line(const std::string& text, const std::string& label) {
  const size_t begin = text.find("\n  " + label + " ");
  if (begin == std::string::npos) return "";
  return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TEST(TimeOfTest, EvidenceOfTheVeryConfigAndM) {
  const auto time = TimeOf(Answer(), Decode(), Other(), 1);
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->ns, 10000);
  EXPECT_EQ(time->low_ns, 9900);
  EXPECT_EQ(time->high_ns, 10200);
  EXPECT_EQ(time->samples, 21);
  EXPECT_EQ(time->default_ns, 12000);
  EXPECT_FALSE(time->modelled);
  // The config is the default itself.
  EXPECT_EQ(TimeOf(Answer(), Decode(), Decode(), 1)->default_ns, 0);
  EXPECT_FALSE(TimeOf(Answer(), Decode(), Other(), 2).has_value());
}

TEST(TimeOfTest, TheDefaultRanInTheSameRace) {
  const auto time = TimeOf(Answer(), Other(), Other(), 1);
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->ns, 12000);
  EXPECT_EQ(time->low_ns, 0);
  TuningConfig third = Decode();
  third.stages = 2;
  EXPECT_FALSE(TimeOf(Answer(), third, Other(), 1).has_value());
  // A probe between ladder points, which the default was not in.
  ConfigAnswer probe = Answer();
  probe.provenance.match = MatchKind::kBucket;
  probe.evidence[0].default_median_ns = 0;
  EXPECT_FALSE(TimeOf(probe, Other(), Other(), 1).has_value());
  EXPECT_EQ(TimeOf(probe, Decode(), Other(), 1)->ns, 10000);
}

TEST(TimeOfTest, EvidenceOfOthersIsNone) {
  for (const MatchKind match :
       {MatchKind::kNeighbour, MatchKind::kSiblingDevice,
        MatchKind::kHeuristic}) {
    ConfigAnswer answer = Answer();
    answer.provenance.match = match;
    EXPECT_FALSE(TimeOf(answer, Decode(), Other(), 1).has_value());
  }
}

TEST(ExplainReportTest, TimesAreNotClaimedWithoutEvidence) {
  const std::string text = RenderReport(Report());
  EXPECT_THAT(Line(text, "time"), HasSubstr("-  not measured"));
  EXPECT_THAT(Line(text, "model"), HasSubstr("MODELLED"));
  EXPECT_THAT(Line(text, "registers"), HasSubstr("a thread, estimated"));
  EXPECT_THAT(ReportJson(Report()).text, HasSubstr("\"spill_bytes\": null"));
  EXPECT_THAT(ReportJson(Report()).text, HasSubstr("\"time\": null"));
}

TEST(ExplainReportTest, SaysWhereNumbersAreFrom) {
  ExplainReport report = Report();
  report.time = TimeOf(Answer(), Decode(), Other(), 1);
  report.footprint_origin = FootprintOrigin::kCompiled;
  std::string text = RenderReport(report);
  // 34635776 bytes at 4300 GB/s are 8054.8 ns; 2^27 operations in 10 µs.
  EXPECT_THAT(Line(text, "bytes floor"),
              AllOf(HasSubstr("8.05 µs"), HasSubstr("34.64 MB"),
                    HasSubstr("4300 GB/s; binds")));
  EXPECT_THAT(Line(text, "MMA floor"), Not(HasSubstr("binds")));
  EXPECT_THAT(Line(text, "time"),
              HasSubstr("10.00 µs  measured, median of 21 samples, 95 % in "
                        "9.90 to 10.20 µs"));
  EXPECT_THAT(Line(text, "of floor"),
              HasSubstr("80.5 %  3.46 TB/s, 13.4 T operations/s"));
  EXPECT_THAT(Line(text, "default"), HasSubstr("12.00 µs"));
  EXPECT_THAT(Line(text, "waves"),
              HasSubstr("0.48  one, 48.5 % of 264 slots full; 4 of 132 SMs "
                        "idle"));
  EXPECT_THAT(text,
              HasSubstr("1  2 fit, limited by registers and shared memory "
                        "(registers 2, shared memory 2, threads 8, CTA "
                        "slots 32)\n"));
  EXPECT_THAT(Line(text, "padding"),
              HasSubstr("87.5 %  of the MMA: M fills 1 of 8"));
  EXPECT_THAT(Line(text, "registers"),
              HasSubstr("96  a thread, compiled, no spills; estimate 72"));
  EXPECT_THAT(Line(text, "shared memory"),
              HasSubstr("100.0 KB  a CTA, of 227.0 KB; 4 stages of 25.0 KB"));
  EXPECT_THAT(Line(text, "in flight"),
              HasSubstr("52.5 KB  enough: 3 stages x 1 CTA"));
  report.time->modelled = true;
  report.explanation.footprint.spill_bytes = 40;
  text = RenderReport(report);
  EXPECT_THAT(Line(text, "time"), HasSubstr("MODELLED, median of 21"));
  EXPECT_THAT(Line(text, "registers"), HasSubstr("40 bytes spilled"));
}

TEST(ExplainReportTest, TooFewBytesInFlightAreSaidSo) {
  ExplainReport report = Report();
  report.config.stages = 2;
  report.explanation =
      Explain(report.problem, report.device, report.config, 1, {96, 51216, 0});
  EXPECT_THAT(Line(RenderReport(report), "in flight"),
              HasSubstr("17.5 KB  too few for the full rate: 1 stage x 1 CTA"));
}

TEST(ExplainReportTest, RaggedKIsShown) {
  ExplainReport report = Report();
  EXPECT_THAT(RenderReport(report), Not(HasSubstr("columns\n\nOn an SM")));
  report.problem.layer.k = 8000;
  report.explanation =
      Explain(report.problem, report.device, report.config, 1, {96, 102416, 0});
  EXPECT_THAT(Line(RenderReport(report), "padding"),
              HasSubstr("N 8192 of 8192 rows, K 8000 of 8192 columns"));
}

TEST(ExplainReportTest, RefusalsNameTheirRules) {
  const ExplainReport report = Report();
  const std::vector<Refusal> refusals = {{"stages", "too few"},
                                         {"smem_fits", "too \"large\""}};
  EXPECT_THAT(RenderRefusals(report, refusals),
              AllOf(HasSubstr("It breaks 2 rules:\n  stages: too few\n"),
                    HasSubstr("  smem_fits: ")));
  EXPECT_THAT(RefusalsJson(report, refusals).text,
              AllOf(HasSubstr("\"legal\": false"),
                    HasSubstr("{\"rule\": \"smem_fits\", \"reason\": \"too "
                              "\\\"large\\\"\"}")));
}

}  // namespace
}  // namespace hone
