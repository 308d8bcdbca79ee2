#include "service/cli/roofline.h"

#include <cmath>
#include <cstdlib>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/cli/svg.h"
#include "tests/service/cli/xml_reader.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Ceilings of 1000 GB/s and 100 TFLOP/s, which meet at 100 operations a byte.
Roofline Simple() {
  Roofline roofline;
  roofline.title = "64x64 <int4> & \"more\"";
  roofline.subtitle = "a device";
  roofline.memory_gbps = 1000;
  roofline.tflops = 100;
  roofline.points = {{1, 2, 1.6}, {16, 20, 10}, {4096, 900, 90}};
  return roofline;
}

double Number(const XmlElement& element, const std::string& name) {
  return std::atof(element.attributes.at(name).c_str());
}

XmlElement Parsed(const std::string& svg) {
  const std::optional<XmlElement> root = XmlReader::Read(svg);
  EXPECT_TRUE(root.has_value()) << svg;
  return root.value_or(XmlElement());
}

TEST(XmlReaderTest, RefusesWhatIsNotWellFormed) {
  for (const char* bad :
       {"", "<a>", "<a></b>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a>&</a>",
        "<a>&unknown;</a>", "<a/><b/>", "<a b=\"<\"/>", "<a>\x01</a>"}) {
    EXPECT_FALSE(XmlReader::Read(bad).has_value()) << bad;
  }
}

TEST(SvgTest, EscapesTextAndDropsControlCharacters) {
  EXPECT_EQ(XmlEscape("a<b> & \"c\" 'd'\n"),
            "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;\n");
  EXPECT_EQ(XmlEscape("x\x1b[0m"), "x\xEF\xBF\xBD[0m");
  Svg svg(10, 20, "<t>", "");
  svg.Text({1, 2}, "</text>\x02", "a\"b");
  svg.Circle({3, 4}, 5, "c", "id", "&");
  const XmlElement root = Parsed(svg.Build());
  EXPECT_EQ(root.All("title")[0]->text, "<t>");
  EXPECT_EQ(root.All("text")[0]->text, "</text>\xEF\xBF\xBD");
  EXPECT_EQ(root.All("text")[0]->attributes.at("class"), "a\"b");
  EXPECT_EQ(root.All("circle")[0]->children[0].text, "&");
}

TEST(LogAxisTest, EndsOnTheSeriesWithRoom) {
  const LogAxis axis = LogAxis::Around(1.6, 100);
  EXPECT_DOUBLE_EQ(axis.low, 1);
  EXPECT_DOUBLE_EQ(axis.high, 200);
  std::vector<double> ticks = axis.Ticks();
  for (double& tick : ticks) tick = std::round(tick * 1e6) / 1e6;
  EXPECT_THAT(ticks, ElementsAre(1, 2, 5, 10, 20, 50, 100, 200));
  EXPECT_DOUBLE_EQ(axis.Share(1), 0);
  EXPECT_DOUBLE_EQ(axis.Share(200), 1);
  EXPECT_DOUBLE_EQ(LogAxis::Around(0.03, 0.04).low, 0.02);
  EXPECT_NEAR(LogAxis::Around(0.03, 0.04).high, 0.05, 1e-12);
}

TEST(RooflineTest, CeilingsMeetAtTheRidge) {
  const Roofline roofline = Simple();
  EXPECT_DOUBLE_EQ(roofline.Ridge(), 100);
  EXPECT_DOUBLE_EQ(roofline.Ceiling(20), 20);
  EXPECT_DOUBLE_EQ(roofline.Ceiling(100), 100);
  EXPECT_DOUBLE_EQ(roofline.Ceiling(900), 100);
}

TEST(RooflineTest, PointsLieWhereTheNumbersSay) {
  const Roofline roofline = Simple();
  const XmlElement root = Parsed(RooflineSvg(roofline));
  const auto circles = root.All("circle");
  ASSERT_EQ(circles.size(), 3u);
  // 1 to 1000 operations per byte over 860 pixels, 1 to 200 TFLOP/s over 468.
  const RooflineFrame frame;
  const struct {
    std::string id;
    double x, y;
  } expected[] = {
      {"m1", std::log10(2) / 3, std::log10(1.6) / std::log10(200)},
      {"m16", std::log10(20) / 3, std::log10(10) / std::log10(200)},
      {"m4096", std::log10(900) / 3, std::log10(90) / std::log10(200)},
  };
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(circles[i]->attributes.at("id"), expected[i].id);
    EXPECT_NEAR(Number(*circles[i], "cx"), frame.left + 860 * expected[i].x,
                0.01);
    EXPECT_NEAR(Number(*circles[i], "cy"), frame.bottom - 468 * expected[i].y,
                0.01);
  }
  EXPECT_THAT(circles[1]->children[0].text,
              HasSubstr("M 16: 20 operations per byte, 10 TFLOP/s, 50.0 % of"));
}

TEST(RooflineTest, TheRoofIsTheCeilings) {
  const XmlElement root = Parsed(RooflineSvg(Simple()));
  std::vector<std::string> corners;
  for (const XmlElement* line : root.All("polyline")) {
    if (line->attributes.at("class") == "roof")
      corners = absl::StrSplit(line->attributes.at("points"), ' ');
  }
  // From 1 TFLOP/s at 1 operation a byte to 100 at 100, and flat to the edge.
  const double top = 540 - 468 * 2 / std::log10(200);
  ASSERT_EQ(corners.size(), 3u);
  EXPECT_EQ(corners[0], "76.00,540.00");
  EXPECT_EQ(corners[1], absl::StrFormat("%.2f,%.2f", 76 + 860 * 2 / 3.0, top));
  EXPECT_EQ(corners[2], absl::StrFormat("936.00,%.2f", top));
}

TEST(RooflineTest, ImageStandsAlone) {
  Roofline roofline = Simple();
  const std::string svg = RooflineSvg(roofline);
  const XmlElement root = Parsed(svg);
  std::set<std::string> texts;
  for (const XmlElement* text : root.All("text")) texts.insert(text->text);
  for (const char* text : {"64x64 <int4> & \"more\"", "a device", "M = 1", "16",
                           "4096", "memory 1000 GB/s", "MMA 100 TFLOP/s",
                           "arithmetic intensity, operations per byte"}) {
    EXPECT_TRUE(texts.count(text)) << text;
  }
  // Light and dark, and nothing from elsewhere.
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  for (const char* foreign : {"href", "url(", "@import", "<script", "<image"})
    EXPECT_THAT(svg, Not(HasSubstr(foreign)));
  EXPECT_THAT(svg, Not(HasSubstr("MODELLED")));
  roofline.modelled = true;
  const XmlElement modelled = Parsed(RooflineSvg(roofline));
  EXPECT_THAT(modelled.All("title")[0]->text, HasSubstr("MODELLED"));
  roofline.unit = "TOP/s";
  EXPECT_THAT(RooflineSvg(roofline), Not(HasSubstr("TFLOP/s")));
}

TEST(RooflineTest, CrowdedPointsAllHaveLabelsThatDoNotTouch) {
  Roofline roofline = Simple();
  roofline.points.clear();
  for (int64_t m = 1; m <= 8192; m = m < 4 ? m + 1 : m + m / 3) {
    const double intensity = 1 / (1.0 / (2.0 * static_cast<double>(m)) + 1e-3);
    roofline.points.push_back({m, intensity, roofline.Ceiling(intensity) / 2});
  }
  const XmlElement root = Parsed(RooflineSvg(roofline));
  std::vector<const XmlElement*> labels;
  for (const XmlElement* text : root.All("text")) {
    if (text->attributes.at("class").empty() &&
        text->text.find('s') == std::string::npos)
      labels.push_back(text);
  }
  ASSERT_EQ(labels.size(), roofline.points.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double dy =
          std::abs(Number(*labels[i], "y") - Number(*labels[j], "y"));
      const double dx =
          std::abs(Number(*labels[i], "x") - Number(*labels[j], "x"));
      EXPECT_TRUE(dy > 12 || dx > 10)
          << labels[i]->text << " and " << labels[j]->text;
    }
  }
}

TEST(RooflinePlotTest, DrawsInPlainCharacters) {
  Roofline roofline = Simple();
  roofline.title = "a layer";
  roofline.points.push_back({8192, 901, 90.1});
  const std::string plot = RooflinePlot(roofline);
  for (const char c : plot) {
    EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << plot;
  }
  const std::vector<std::string> lines = absl::StrSplit(plot, '\n');
  for (const std::string& line : lines) EXPECT_LE(line.size(), 90u) << line;
  EXPECT_EQ(lines[0], "a layer");
  EXPECT_THAT(lines[2], HasSubstr("/ memory 1000 GB/s, - MMA 100 TFLOP/s"));
  EXPECT_THAT(plot, HasSubstr("M a=1 b=16 c=4096 d=8192 *=several\n"));
  // Rows from 200 down to 1 TFLOP/s, columns from 1 to 1000 a byte.
  const auto cell = [&](double intensity, double tflops) {
    const auto row = static_cast<size_t>(
        20 - std::lround(20 * std::log10(tflops) / std::log10(200)));
    const auto column =
        static_cast<size_t>(std::lround(71 * std::log10(intensity) / 3));
    return lines[3 + row].at(8 + column);
  };
  EXPECT_EQ(cell(2, 1.6), 'a');
  EXPECT_EQ(cell(20, 10), 'b');
  EXPECT_EQ(cell(900, 90), '*');
  EXPECT_EQ(cell(10, 10), '/');
  EXPECT_EQ(cell(300, 100), '-');
  EXPECT_THAT(plot, Not(HasSubstr("MODELLED")));
  roofline.modelled = true;
  EXPECT_THAT(RooflinePlot(roofline), HasSubstr("MODELLED, not measured"));
}

}  // namespace
}  // namespace hone
