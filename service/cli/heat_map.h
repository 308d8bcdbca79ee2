// A heat map of what was measured of a layer: a row per config, a column per M,
// and in each cell the time over that of the fastest config at that M. Pure
// functions.
//
// The colours go from light (fastest) to dark with steadily falling lightness
// along yellow and blue, so that they are told apart in black and white and
// without red or green; every cell also says its number, and marks are shapes.
#ifndef HONE_SERVICE_CLI_HEAT_MAP_H_
#define HONE_SERVICE_CLI_HEAT_MAP_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "hone/v1/tuning_service.pb.h"
#include "service/convert/answer.h"

namespace hone {

struct HeatMap {
  struct Cell {
    enum class Kind : uint8_t { kEmpty, kTimed, kFailed };
    Kind kind = Kind::kEmpty;
    // Of kTimed: over the fastest at this M, and the median.
    double ratio = 0;
    int64_t median_ns = 0;
    // Seen to be far behind, and not measured to the end.
    bool screened_out = false;
    // The published table uses it at this M, or is within its tie bound there.
    bool served = false;
    bool tie = false;
    // Of kFailed: the trial's outcome.
    v1::TrialOutcome outcome = v1::TRIAL_OUTCOME_UNSPECIFIED;
  };
  struct Row {
    // Canonical text.
    std::string config;
    std::vector<Cell> cells;  // parallel to `ms`
  };

  std::string title;
  std::string subtitle;
  bool modelled = false;
  std::vector<int64_t> ms;  // rising
  // Those that the table uses first, then by rising mean of their ratios, those
  // that only failed last.
  std::vector<Row> rows;
  // Rows left out at the end.
  int64_t hidden = 0;
};

// What trials and the table of one problem give. `answer` marks what is served
// where its match is EXACT; else the fastest at each M counts as served. At
// most `max_rows` rows. Of several trials of a config at one M the one with the
// most samples counts, then the newest.
HeatMap HeatMapOf(const TableAnswer& answer,
                  const std::vector<v1::Trial>& trials, size_t max_rows = 48);

// An SVG image, for paper and for screens.
std::string HeatMapSvg(const HeatMap& map);

// The shades, from the fastest to twice its time and more.
inline constexpr int kHeatShades = 11;
struct HeatColour {
  int red = 0, green = 0, blue = 0;
  // Relative luminance, 0 to 1, as WCAG 2 defines it.
  double Luminance() const;
};
std::array<HeatColour, kHeatShades> HeatColours();
// The shade of a ratio, 0 to kHeatShades - 1.
int HeatShade(double ratio);
// One letter for an outcome that is a failure: "C" for COMPILE_ERROR, ...
char FailureLetter(v1::TrialOutcome outcome);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_HEAT_MAP_H_
