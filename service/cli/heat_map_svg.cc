#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "service/cli/format.h"
#include "service/cli/heat_map.h"
#include "service/cli/svg.h"

namespace hone {
namespace {

using Cell = HeatMap::Cell;

constexpr double kCellWidth = 46, kCellHeight = 20, kGap = 1;
constexpr double kMargin = 24, kHead = 96, kFoot = 104;
// Of the row labels, in a font whose characters are all as wide.
constexpr double kCharacter = 6.7;

std::string Style() {
  std::string style =
      "text{font-family:system-ui,sans-serif;font-size:11px;fill:#111}\n"
      ".paper{fill:#fff}\n"
      ".head{font-size:16px;font-weight:600}\n"
      ".quiet{fill:#555}\n"
      ".model{fill:#a3121f;font-weight:700;font-size:14px}\n"
      ".config{font-family:ui-monospace,monospace}\n"
      ".light{fill:#fff}\n"
      ".served{fill:none;stroke:#000;stroke-width:2.5}\n"
      ".tie{fill:#000;stroke:#fff;stroke-width:1}\n"
      ".failed{fill:#fff;stroke:#999;stroke-width:.75}\n"
      ".cross{stroke:#999;stroke-width:.75}\n"
      ".letter{font-weight:700}\n";
  const auto colours = HeatColours();
  for (int i = 0; i < kHeatShades; ++i) {
    const HeatColour& c = colours[static_cast<size_t>(i)];
    absl::StrAppendFormat(&style, ".h%d{fill:#%02x%02x%02x}\n", i, c.red,
                          c.green, c.blue);
  }
  return style;
}

// Black or white, whichever contrasts more.
std::string InkOn(int shade) {
  return HeatColours()[static_cast<size_t>(shade)].Luminance() < 0.18 ? "light"
                                                                      : "";
}

std::string OutcomeText(v1::TrialOutcome outcome) {
  return absl::StrReplaceAll(
      absl::AsciiStrToLower(
          absl::StripPrefix(v1::TrialOutcome_Name(outcome), "TRIAL_OUTCOME_")),
      {{"_", " "}});
}

class Picture {
 public:
  explicit Picture(const HeatMap& map)
      : map_(map),
        left_(LabelWidth(map)),
        width_(std::max(
            left_ + static_cast<double>(map.ms.size()) * (kCellWidth + kGap) +
                kMargin,
            760.0)),
        bottom_(kHead +
                static_cast<double>(map.rows.size()) * (kCellHeight + kGap)),
        svg_(width_, bottom_ + kFoot,
             absl::StrCat(map.title, map.modelled ? ", MODELLED" : ""),
             Style()) {}

  std::string Draw() {
    svg_.Rectangle({0, 0}, width_, bottom_ + kFoot, "paper");
    svg_.Text({kMargin, 28}, map_.title, "head");
    svg_.Text({kMargin, 48}, map_.subtitle, "quiet");
    if (map_.modelled) {
      svg_.Text({width_ - kMargin, 28}, "MODELLED, not measured", "model",
                Svg::Anchor::kEnd);
    }
    svg_.Text({kMargin, kHead - 10}, "config", "quiet");
    svg_.Text({left_ - 10, kHead - 10}, "M", "quiet", Svg::Anchor::kEnd);
    for (size_t column = 0; column < map_.ms.size(); ++column) {
      svg_.Text({X(column) + kCellWidth / 2, kHead - 10},
                absl::StrCat(map_.ms[column]), "", Svg::Anchor::kMiddle);
    }
    for (size_t i = 0; i < map_.rows.size(); ++i) DrawRow(i);
    // Frames lie over the cells beside them.
    for (size_t i = 0; i < map_.rows.size(); ++i) {
      for (size_t column = 0; column < map_.ms.size(); ++column) {
        if (map_.rows[i].cells[column].served)
          svg_.Rectangle({X(column), Y(i)}, kCellWidth, kCellHeight, "served");
      }
    }
    DrawLegend();
    return svg_.Build();
  }

 private:
  static double LabelWidth(const HeatMap& map) {
    size_t longest = 0;
    for (const HeatMap::Row& row : map.rows)
      longest = std::max(longest, ShortConfig(row.config).size());
    return kMargin + kCharacter * static_cast<double>(longest) + 16;
  }
  double X(size_t column) const {
    return left_ + static_cast<double>(column) * (kCellWidth + kGap);
  }
  double Y(size_t row) const {
    return kHead + static_cast<double>(row) * (kCellHeight + kGap);
  }

  void DrawRow(size_t i) {
    const HeatMap::Row& row = map_.rows[i];
    svg_.Text({kMargin, Y(i) + 14}, ShortConfig(row.config), "config");
    for (size_t column = 0; column < map_.ms.size(); ++column) {
      DrawCell({X(column), Y(i)}, row.cells[column],
               absl::StrCat("tie-", i, "-m", map_.ms[column]));
    }
  }

  void DrawCell(Svg::Point corner, const Cell& cell, const std::string& name) {
    const Svg::Point middle{corner.x + kCellWidth / 2, corner.y + 14};
    if (cell.kind == Cell::Kind::kTimed) {
      const int shade = HeatShade(cell.ratio);
      svg_.Rectangle(corner, kCellWidth, kCellHeight, absl::StrCat("h", shade));
      const std::string number =
          absl::StrFormat(cell.ratio < 9.95 ? "%.2f%s" : "%.0f%s", cell.ratio,
                          cell.screened_out ? "~" : "");
      svg_.Text(middle, number, InkOn(shade), Svg::Anchor::kMiddle);
      if (cell.tie)
        svg_.Circle({corner.x + 6, corner.y + 6}, 3.2, "tie", name, "tie");
    } else if (cell.kind == Cell::Kind::kFailed) {
      DrawFailure(corner, FailureLetter(cell.outcome));
      failures_.insert(cell.outcome);
    }
  }

  void DrawFailure(Svg::Point corner, char letter) {
    svg_.Rectangle(corner, kCellWidth, kCellHeight, "failed");
    svg_.Line({corner.x + 2, corner.y + kCellHeight - 2},
              {corner.x + 14, corner.y + 2}, "cross");
    svg_.Line({corner.x + kCellWidth - 14, corner.y + kCellHeight - 2},
              {corner.x + kCellWidth - 2, corner.y + 2}, "cross");
    svg_.Text({corner.x + kCellWidth / 2, corner.y + 14},
              std::string(1, letter), "letter", Svg::Anchor::kMiddle);
  }

  void DrawLegend() {
    double y = bottom_ + 22;
    svg_.Text({kMargin, y + 10}, "time over the fastest at that M", "quiet");
    double x = kMargin + 190;
    for (int shade = 0; shade < kHeatShades; ++shade) {
      svg_.Rectangle({x, y - 4}, 30, kCellHeight, absl::StrCat("h", shade));
      if (shade % 2 == 0) {
        svg_.Text(
            {x + 15, y + 10},
            shade == kHeatShades - 1
                ? "2+"
                : absl::StrFormat("%.2f", std::exp2(static_cast<double>(shade) /
                                                    (kHeatShades - 1))),
            InkOn(shade), Svg::Anchor::kMiddle);
      }
      x += 30;
    }
    y += 30;
    svg_.Rectangle({kMargin, y - 4}, 30, kCellHeight, "served");
    svg_.Text({kMargin + 38, y + 10}, "in the table at that M", "");
    svg_.Circle({kMargin + 190, y + 6}, 3.2, "tie", "tie", "tie");
    svg_.Text({kMargin + 200, y + 10}, "within the tie bound", "");
    svg_.Text({kMargin + 330, y + 10},
              "~ screened out: few samples; blank: not measured", "");
    y += 24;
    std::vector<std::string> words;
    for (const int outcome : failures_) {
      const auto value = static_cast<v1::TrialOutcome>(outcome);
      words.push_back(absl::StrCat(std::string(1, FailureLetter(value)), " ",
                                   OutcomeText(value)));
    }
    if (!words.empty()) {
      svg_.Text({kMargin, y + 10},
                absl::StrCat("failed: ", absl::StrJoin(words, ", ")), "");
    }
    if (map_.hidden > 0) {
      svg_.Text({width_ - kMargin, y + 10},
                absl::StrCat(map_.hidden, " configs more are not shown"),
                "quiet", Svg::Anchor::kEnd);
    }
  }

  const HeatMap& map_;
  const double left_;
  const double width_;
  const double bottom_;
  Svg svg_;
  std::set<int> failures_;
};

}  // namespace

std::string HeatMapSvg(const HeatMap& map) { return Picture(map).Draw(); }

}  // namespace hone
