#include "service/cli/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "service/cli/svg.h"

namespace hone {
namespace {

constexpr char kStyle[] =
    "text{font-family:system-ui,sans-serif;font-size:12px;fill:#1f2328}\n"
    ".paper{fill:#ffffff}\n"
    ".head{font-size:16px;font-weight:600}\n"
    ".quiet{fill:#59636e}\n"
    ".model{fill:#bc1c2b;font-weight:600}\n"
    ".grid{stroke:#dfe4e9;stroke-width:1}\n"
    ".axis{stroke:#59636e;stroke-width:1}\n"
    ".roof{fill:none;stroke:#bc4c00;stroke-width:2.5}\n"
    ".ceiling{fill:#bc4c00}\n"
    ".trail{fill:none;stroke:#0969da;stroke-width:1;opacity:.4}\n"
    ".point{fill:#0969da}\n"
    ".lead{stroke:#59636e;stroke-width:.75}\n"
    "@media (prefers-color-scheme:dark){\n"
    "text{fill:#f0f3f6}\n"
    ".paper{fill:#0d1117}\n"
    ".quiet{fill:#a3adb8}\n"
    ".model{fill:#ff7b84}\n"
    ".grid{stroke:#2a313a}\n"
    ".axis{stroke:#a3adb8}\n"
    ".roof{stroke:#f0883e}\n"
    ".ceiling{fill:#f0883e}\n"
    ".trail{stroke:#58a6ff}\n"
    ".point{fill:#58a6ff}\n"
    ".lead{stroke:#a3adb8}\n"
    "}\n";

std::string Number(double value) { return absl::StrFormat("%g", value); }

// The largest value of the series 1, 2, 5, 10, ... that is at most `value`.
double AtMost(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {5.0, 2.0}) {
    if (step * decade <= value) return step * decade;
  }
  return decade;
}

double Next(double value) {
  // 2.5 times is past each next one, and short of the one after it.
  return AtMost(value * 2.5 * (1 + 1e-9));
}

std::string ModelledMark(const Roofline& roofline) {
  return roofline.modelled ? "MODELLED, not measured" : "";
}

// What a mark or a text covers.
struct Box {
  double left, top, right, bottom;
  bool Touches(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom &&
           other.top < bottom;
  }
};

// The image in pixels.
class Picture {
 public:
  explicit Picture(const Roofline& roofline)
      : roofline_(roofline),
        axes_(AxesOf(roofline)),
        svg_(frame_.width, frame_.height,
             absl::StrCat(roofline.title, roofline.modelled ? ", " : "",
                          ModelledMark(roofline)),
             kStyle) {}

  std::string Draw() {
    svg_.Rectangle({0, 0}, frame_.width, frame_.height, "paper");
    svg_.Text({frame_.left, 28}, roofline_.title, "head");
    svg_.Text({frame_.left, 50}, roofline_.subtitle, "quiet");
    if (roofline_.modelled) {
      svg_.Text({frame_.right, 50}, ModelledMark(roofline_), "model",
                Svg::Anchor::kEnd);
    }
    DrawAxes();
    DrawCeilings();
    DrawPoints();
    return svg_.Build();
  }

 private:
  Svg::Point At(double intensity, double tflops) const {
    return {frame_.left +
                (frame_.right - frame_.left) * axes_.intensity.Share(intensity),
            frame_.bottom -
                (frame_.bottom - frame_.top) * axes_.tflops.Share(tflops)};
  }

  void DrawAxes() {
    const LogAxis& x = axes_.intensity;
    const LogAxis& y = axes_.tflops;
    for (const double value : x.Ticks()) {
      const Svg::Point low = At(value, y.low);
      svg_.Line(low, At(value, y.high), "grid");
      svg_.Text({low.x, low.y + 18}, Number(value), "quiet",
                Svg::Anchor::kMiddle);
    }
    for (const double value : y.Ticks()) {
      const Svg::Point low = At(x.low, value);
      svg_.Line(low, At(x.high, value), "grid");
      svg_.Text({low.x - 8, low.y + 4}, Number(value), "quiet",
                Svg::Anchor::kEnd);
    }
    svg_.Line(At(x.low, y.low), At(x.high, y.low), "axis");
    svg_.Line(At(x.low, y.low), At(x.low, y.high), "axis");
    svg_.Text({(frame_.left + frame_.right) / 2, frame_.bottom + 42},
              "arithmetic intensity, operations per byte", "",
              Svg::Anchor::kMiddle);
    svg_.Text({24, (frame_.top + frame_.bottom) / 2}, roofline_.unit, "",
              Svg::Anchor::kMiddle, -90);
  }

  void DrawCeilings() {
    const LogAxis& x = axes_.intensity;
    const LogAxis& y = axes_.tflops;
    // The slope comes in through the left or the lower edge.
    const double start = std::max(x.low, y.low * 1e3 / roofline_.memory_gbps);
    const double ridge = roofline_.Ridge();
    const Svg::Point from = At(start, roofline_.Ceiling(start));
    const Svg::Point corner = At(ridge, roofline_.tflops);
    const Svg::Point to = At(x.high, roofline_.tflops);
    svg_.Polyline({from, corner, to}, "roof");
    const double degrees =
        std::atan2(corner.y - from.y, corner.x - from.x) * 180 / M_PI;
    svg_.Text({(from.x + corner.x) / 2 - 6, (from.y + corner.y) / 2 - 8},
              absl::StrFormat("memory %.0f GB/s", roofline_.memory_gbps),
              "ceiling", Svg::Anchor::kMiddle, degrees);
    svg_.Text({to.x - 4, to.y - 8},
              absl::StrFormat("MMA %.0f %s", roofline_.tflops, roofline_.unit),
              "ceiling", Svg::Anchor::kEnd);
  }

  void DrawPoints() {
    for (const Roofline::Point& p : roofline_.points)
      places_.push_back(At(p.intensity, p.tflops));
    svg_.Polyline(places_, "trail");
    for (size_t i = 0; i < places_.size(); ++i) {
      const Roofline::Point& p = roofline_.points[i];
      svg_.Circle(places_[i], 4, "point", absl::StrCat("m", p.m),
                  absl::StrFormat(
                      "M %d: %.4g operations per byte, %.4g %s, %.1f %% of the "
                      "ceiling",
                      p.m, p.intensity, p.tflops, roofline_.unit,
                      100 * p.tflops / roofline_.Ceiling(p.intensity)));
      const Svg::Point& at = places_[i];
      taken_.push_back({at.x - 4, at.y - 4, at.x + 4, at.y + 4});
    }
    // From the right, so that leaders down to labels on their right pass those
    // that are there.
    for (size_t i = places_.size(); i-- > 0;)
      Label(i, absl::StrCat(i == 0 ? "M = " : "", roofline_.points[i].m));
  }

  // Right below the point where no other is near, since the ceilings are above;
  // else at the foot of a leader, as far down as it takes.
  void Label(size_t i, const std::string& text) {
    constexpr double kCharacter = 7.2, kHeight = 13, kGap = 6, kStep = 4;
    const Svg::Point& at = places_[i];
    const double width = kCharacter * static_cast<double>(text.size());
    const Box centred{at.x - width / 2, at.y + kGap, at.x + width / 2,
                      at.y + kGap + kHeight};
    bool alone = true;
    for (size_t j = 0; j < places_.size(); ++j) {
      alone = alone && (j == i || places_[j].x < centred.left ||
                        places_[j].x > centred.right);
    }
    if (alone && Free(centred)) {
      svg_.Text({at.x, centred.bottom - 3}, text, "", Svg::Anchor::kMiddle);
      taken_.push_back(centred);
      return;
    }
    for (double foot = at.y + 2 * kGap; foot + kHeight < frame_.bottom;
         foot += kStep) {
      const Box leader{at.x - 0.5, at.y + kGap, at.x + 0.5, foot};
      const Box box{at.x + 1, foot - kHeight / 2, at.x + 4 + width,
                    foot + kHeight / 2};
      if (!Free(leader) || !Free(box)) continue;
      svg_.Line({at.x, leader.top}, {at.x, leader.bottom}, "lead");
      svg_.Text({at.x + 3, box.bottom - 3}, text, "");
      taken_.push_back(leader);
      taken_.push_back(box);
      return;
    }
    // No room at all: the tooltip still says it.
  }

  bool Free(const Box& box) const {
    return box.right < frame_.width && box.bottom < frame_.bottom &&
           std::none_of(taken_.begin(), taken_.end(),
                        [&](const Box& other) { return box.Touches(other); });
  }

  const Roofline& roofline_;
  const RooflineFrame frame_;
  const RooflineAxes axes_;
  Svg svg_;
  std::vector<Svg::Point> places_;
  // Points, labels and leaders, where no label may be.
  std::vector<Box> taken_;
};

// The letter of the i-th point.
char Letter(size_t i) {
  if (i < 26) return static_cast<char>('a' + i);
  if (i < 52) return static_cast<char>('A' + (i - 26));
  return '#';
}

}  // namespace

double Roofline::Ceiling(double intensity) const {
  return std::min(tflops, intensity * memory_gbps * 1e-3);
}

LogAxis LogAxis::Around(double least, double most) {
  // A third below, for labels.
  LogAxis axis;
  axis.low = AtMost(least * 0.67);
  for (axis.high = Next(axis.low); axis.high < most * 1.05;) {
    axis.high = Next(axis.high);
  }
  return axis;
}

double LogAxis::Share(double value) const {
  return std::log(value / low) / std::log(high / low);
}

std::vector<double> LogAxis::Ticks() const {
  std::vector<double> ticks;
  for (double value = low; value <= high * (1 + 1e-9); value = Next(value))
    ticks.push_back(value);
  return ticks;
}

RooflineAxes AxesOf(const Roofline& roofline) {
  double least = roofline.Ridge(), most = roofline.Ridge();
  double slowest = roofline.tflops, fastest = roofline.tflops;
  for (const Roofline::Point& p : roofline.points) {
    least = std::min(least, p.intensity);
    most = std::max(most, p.intensity);
    slowest = std::min(slowest, p.tflops);
    fastest = std::max(fastest, p.tflops);
  }
  return {LogAxis::Around(least, most), LogAxis::Around(slowest, fastest)};
}

std::string RooflineSvg(const Roofline& roofline) {
  return Picture(roofline).Draw();
}

std::string RooflinePlot(const Roofline& roofline) {
  constexpr int kColumns = 72, kRows = 21, kMargin = 8;
  const RooflineAxes axes = AxesOf(roofline);
  const auto column = [&](double intensity) {
    return static_cast<int>(
        std::lround(axes.intensity.Share(intensity) * (kColumns - 1)));
  };
  // Row 0 is the uppermost.
  const auto row = [&](double tflops) {
    return kRows - 1 -
           static_cast<int>(
               std::lround(axes.tflops.Share(tflops) * (kRows - 1)));
  };
  std::vector<std::string> grid(kRows, std::string(kColumns, ' '));
  const double ridge = roofline.Ridge();
  for (int c = 0; c < kColumns; ++c) {
    const double share = static_cast<double>(c) / (kColumns - 1);
    const double intensity =
        axes.intensity.low *
        std::pow(axes.intensity.high / axes.intensity.low, share);
    const int r = row(roofline.Ceiling(intensity));
    if (r >= 0 && r < kRows) grid[r][c] = intensity < ridge ? '/' : '-';
  }
  // Which letter is which M, in lines of the plot's width.
  std::string key = "M";
  size_t key_line = 0;
  bool several = false;
  for (size_t i = 0; i < roofline.points.size(); ++i) {
    const Roofline::Point& p = roofline.points[i];
    char& cell = grid[row(p.tflops)][column(p.intensity)];
    const bool taken = cell != ' ' && cell != '/' && cell != '-';
    several = several || taken;
    cell = taken ? '*' : Letter(i);
    const std::string entry =
        absl::StrCat(" ", std::string(1, Letter(i)), "=", p.m);
    if (key.size() + entry.size() - key_line > kMargin + kColumns) {
      key_line = key.size() + 1;
      key += "\n ";
    }
    key += entry;
  }
  std::vector<std::string> labels(kRows);
  for (const double tick : axes.tflops.Ticks())
    labels[row(tick)] = Number(tick);
  std::string out = absl::StrFormat(
      "%s\n%s%s%s\n%s over operations per byte; / memory %.0f GB/s, - MMA %.0f "
      "%s\n",
      roofline.title, roofline.subtitle, roofline.modelled ? "; " : "",
      ModelledMark(roofline), roofline.unit, roofline.memory_gbps,
      roofline.tflops, roofline.unit);
  for (int r = 0; r < kRows; ++r) {
    std::string line =
        absl::StrCat(std::string(kMargin - 2 - labels[r].size(), ' '),
                     labels[r], labels[r].empty() ? " |" : " +", grid[r]);
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&out, line, "\n");
  }
  std::string axis(kColumns, '-');
  std::string numbers(kMargin + kColumns + 8, ' ');
  for (const double tick : axes.intensity.Ticks()) {
    const int c = column(tick);
    if (c > 0) axis[c] = '+';
    const std::string text = Number(tick);
    numbers.replace(kMargin + c - text.size() / 2, text.size(), text);
  }
  absl::StripTrailingAsciiWhitespace(&numbers);
  absl::StrAppend(&out, std::string(kMargin - 1, ' '), "+", axis, "\n", numbers,
                  "\n", key, several ? " *=several" : "", "\n");
  return out;
}

}  // namespace hone
