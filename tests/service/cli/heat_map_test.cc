#include "service/cli/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "kernels/space/space.h"
#include "tests/service/cli/xml_reader.h"

namespace hone {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

using Cell = HeatMap::Cell;

v1::Trial TrialOf(const std::string& config, int64_t m, int64_t median_ns,
                  int64_t samples = 12,
                  v1::TrialOutcome outcome = v1::TRIAL_OUTCOME_MEASURED) {
  v1::Trial trial;
  trial.set_config(config);
  trial.set_m(m);
  trial.set_median_ns(median_ns);
  trial.set_samples(samples);
  trial.set_outcome(outcome);
  return trial;
}

v1::Trial Failed(const std::string& config, int64_t m,
                 v1::TrialOutcome outcome) {
  return TrialOf(config, m, 0, 0, outcome);
}

// A layer whose table has one config for every M.
class HeatMapTest : public ::testing::Test {
 protected:
  HeatMapTest() {
    answer_.table.problem.layer.n = 1024;
    answer_.table.problem.layer.k = 512;
    answer_.table.device = *ModelledDevice("h200");
    answer_.provenance.match = MatchKind::kExact;
    answer_.table.entries.emplace_back();
    served_ = answer_.table.entries[0].config.ToString();
    Evidence evidence;
    evidence.m = 16;
    evidence.ties = {"tied"};
    answer_.table.entries[0].evidence = {evidence};
  }
  TableAnswer answer_;
  std::string served_;
};

TEST_F(HeatMapTest, RatiosMarksAndOrder) {
  const HeatMap map = HeatMapOf(
      answer_,
      {TrialOf("slow", 1, 3000), TrialOf("slow", 16, 6000),
       TrialOf(served_, 1, 1000), TrialOf(served_, 16, 2020),
       TrialOf("tied", 16, 2000),
       TrialOf("screened", 16, 5000, 3, v1::TRIAL_OUTCOME_SCREENED_OUT),
       Failed("broken", 1, v1::TRIAL_OUTCOME_FAULT)});
  EXPECT_EQ(map.ms, (std::vector<int64_t>{1, 16}));
  EXPECT_TRUE(map.modelled);
  std::vector<std::string> order;
  for (const HeatMap::Row& row : map.rows) order.push_back(row.config);
  EXPECT_EQ(order, (std::vector<std::string>{served_, "tied", "screened",
                                             "slow", "broken"}));
  EXPECT_EQ(map.rows[0].cells[0].ratio, 1.0);
  EXPECT_TRUE(map.rows[0].cells[0].served);
  EXPECT_NEAR(map.rows[0].cells[1].ratio, 1.01, 1e-9);
  EXPECT_TRUE(map.rows[0].cells[1].served);
  EXPECT_FALSE(map.rows[0].cells[1].tie);
  EXPECT_EQ(map.rows[1].cells[0].kind, Cell::Kind::kEmpty);
  EXPECT_TRUE(map.rows[1].cells[1].tie);
  EXPECT_FALSE(map.rows[1].cells[1].served);
  EXPECT_TRUE(map.rows[2].cells[1].screened_out);
  EXPECT_EQ(map.rows[4].cells[0].kind, Cell::Kind::kFailed);
  EXPECT_EQ(map.rows[4].cells[0].outcome, v1::TRIAL_OUTCOME_FAULT);
}

TEST_F(HeatMapTest, TheTrialWithMostSamplesSpeaks) {
  v1::Trial newer = TrialOf("a", 1, 1500);
  newer.mutable_ended_at()->set_seconds(9);
  const HeatMap map = HeatMapOf(
      answer_,
      {TrialOf("a", 1, 9000, 3, v1::TRIAL_OUTCOME_SCREENED_OUT),
       TrialOf("a", 1, 1000), newer, Failed("a", 1, v1::TRIAL_OUTCOME_TIMEOUT),
       TrialOf("b", 1, 1500)});
  EXPECT_EQ(map.rows[0].cells[0].median_ns, 1500);
  EXPECT_FALSE(map.rows[0].cells[0].screened_out);
  EXPECT_EQ(map.rows[0].cells[0].kind, Cell::Kind::kTimed);
}

TEST_F(HeatMapTest, WithoutATableTheFastestIsMarked) {
  answer_.provenance.match = MatchKind::kHeuristic;
  const HeatMap map = HeatMapOf(
      answer_, {TrialOf(served_, 1, 1001), TrialOf("fastest", 1, 1000)});
  EXPECT_EQ(map.rows[0].config, "fastest");
  EXPECT_TRUE(map.rows[0].cells[0].served);
  EXPECT_FALSE(map.rows[1].cells[0].served);
}

TEST_F(HeatMapTest, MoreRowsThanFitAreCounted) {
  std::vector<v1::Trial> trials;
  for (int i = 0; i < 60; ++i)
    trials.push_back(TrialOf(std::to_string(i), 1, 1000 + i));
  const HeatMap map = HeatMapOf(answer_, trials, 10);
  EXPECT_THAT(map.rows, SizeIs(10));
  EXPECT_EQ(map.hidden, 50);
  EXPECT_THAT(HeatMapSvg(map), HasSubstr("50 configs more are not shown"));
}

std::set<std::string> TextsOf(const XmlElement& root) {
  std::set<std::string> texts;
  for (const XmlElement* text : root.All("text")) texts.insert(text->text);
  return texts;
}

int CountClass(const XmlElement& root, const std::string& element,
               const std::string& style) {
  int count = 0;
  for (const XmlElement* e : root.All(element))
    count += e->attributes.at("class") == style ? 1 : 0;
  return count;
}

TEST_F(HeatMapTest, TheImageSaysItAllWithoutColour) {
  const HeatMap map = HeatMapOf(
      answer_,
      {TrialOf(served_, 16, 2000), TrialOf("tied", 16, 2010),
       TrialOf("slow <&>", 16, 3000, 3, v1::TRIAL_OUTCOME_SCREENED_OUT),
       Failed("broken", 16, v1::TRIAL_OUTCOME_WRONG_RESULT),
       Failed("broken", 1, v1::TRIAL_OUTCOME_COMPILE_ERROR)});
  const auto root = XmlReader::Read(HeatMapSvg(map));
  ASSERT_TRUE(root.has_value());
  const std::set<std::string> texts = TextsOf(*root);
  for (const char* text :
       {"MODELLED, not measured", "1.00", "1.50~", "W", "C", "slow <&>", "16",
        "failed: C compile error, W wrong result"}) {
    EXPECT_THAT(texts, Contains(text));
  }
  // One cell and the legend's.
  EXPECT_EQ(CountClass(*root, "rect", "served"), 2);
  EXPECT_EQ(CountClass(*root, "circle", "tie"), 2);
  EXPECT_EQ(CountClass(*root, "rect", "failed"), 2);
  std::set<std::string> ids;
  for (const XmlElement* circle : root->All("circle"))
    EXPECT_TRUE(ids.insert(circle->attributes.at("id")).second);
  // All of it lies on the paper.
  const double width = std::stod(root->attributes.at("width"));
  const double height = std::stod(root->attributes.at("height"));
  for (const XmlElement* rect : root->All("rect")) {
    EXPECT_LE(std::stod(rect->attributes.at("x")) +
                  std::stod(rect->attributes.at("width")),
              width);
    EXPECT_LE(std::stod(rect->attributes.at("y")) +
                  std::stod(rect->attributes.at("height")),
              height);
  }
  answer_.table.device = DeviceSpec();
  EXPECT_THAT(HeatMapSvg(HeatMapOf(answer_, {TrialOf(served_, 1, 5)})),
              Not(HasSubstr("MODELLED")));
}

// Each shade is darker than the one before it by as much as an eye sees in
// black and white, and their order does not rest on red against green.
TEST(HeatColours, FallSteadilyInLightness) {
  const auto colours = HeatColours();
  const auto lightness = [](double luminance) {
    return 116 * std::cbrt(luminance) - 16;
  };
  for (size_t i = 1; i < colours.size(); ++i) {
    EXPECT_GT(lightness(colours[i - 1].Luminance()) -
                  lightness(colours[i].Luminance()),
              4)
        << i;
  }
  EXPECT_GT(colours.front().Luminance(), 0.8);
  EXPECT_LT(colours.back().Luminance(), 0.03);
  for (const HeatColour& colour : colours)
    EXPECT_LT(std::abs(colour.red - colour.green), 20);
}

TEST(HeatColours, EveryNumberCanBeReadOnItsShade) {
  for (const HeatColour& colour : HeatColours()) {
    const double ground = colour.Luminance();
    const double ink = ground < 0.18 ? 1.0 : 0.0056;  // white, or #111
    const double contrast =
        (std::max(ground, ink) + 0.05) / (std::min(ground, ink) + 0.05);
    EXPECT_GT(contrast, 4.4) << colour.red;
  }
}

TEST(HeatShade, GoesFromTheFastestToTwiceItsTime) {
  EXPECT_EQ(HeatShade(1), 0);
  EXPECT_EQ(HeatShade(0.99), 0);
  EXPECT_EQ(HeatShade(std::sqrt(2.0)), (kHeatShades - 1) / 2);
  EXPECT_EQ(HeatShade(2), kHeatShades - 1);
  EXPECT_EQ(HeatShade(50), kHeatShades - 1);
}

TEST(FailureLetter, EveryFailureHasItsOwn) {
  std::set<char> letters;
  int failures = 0;
  for (int i = v1::TrialOutcome_MIN + 1; i <= v1::TrialOutcome_MAX; ++i) {
    const auto outcome = static_cast<v1::TrialOutcome>(i);
    if (outcome == v1::TRIAL_OUTCOME_MEASURED ||
        outcome == v1::TRIAL_OUTCOME_SCREENED_OUT)
      continue;
    ++failures;
    EXPECT_NE(FailureLetter(outcome), '?') << i;
    letters.insert(FailureLetter(outcome));
  }
  EXPECT_EQ(std::ssize(letters), failures);
}

}  // namespace
}  // namespace hone
