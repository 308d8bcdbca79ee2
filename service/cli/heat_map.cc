#include "service/cli/heat_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "service/cli/format.h"

namespace hone {
namespace {

using Cell = HeatMap::Cell;

// The newest of the trials with the most samples speaks for a config at an M;
// failures only where nothing was timed.
bool Better(const v1::Trial& a, const v1::Trial& b) {
  const auto key = [](const v1::Trial& trial) {
    return std::make_tuple(trial.median_ns() > 0, trial.samples(),
                           trial.ended_at().seconds(),
                           trial.ended_at().nanos());
  };
  return key(a) > key(b);
}

// Mean of the logarithms of a row's ratios; infinite without any.
double MeanOf(const HeatMap::Row& row) {
  double sum = 0;
  int count = 0;
  for (const Cell& cell : row.cells) {
    if (cell.kind != Cell::Kind::kTimed) continue;
    sum += std::log(cell.ratio);
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::infinity() : sum / count;
}

// The first column where the row is served; past the last one where it never
// is.
size_t FirstServed(const HeatMap::Row& row) {
  return static_cast<size_t>(
      std::find_if(row.cells.begin(), row.cells.end(),
                   [](const Cell& cell) { return cell.served; }) -
      row.cells.begin());
}

// Marks what the table serves, or where there is none the fastest.
void MarkServed(const TableAnswer& answer, HeatMap& map) {
  const bool own = answer.provenance.match == MatchKind::kExact;
  for (size_t column = 0; column < map.ms.size(); ++column) {
    std::string served;
    std::set<std::string> ties;
    if (own) {
      const TableEntry& entry = *answer.table.Find(map.ms[column]);
      served = entry.config.ToString();
      for (const Evidence& evidence : entry.evidence) {
        if (evidence.m == map.ms[column])
          ties.insert(evidence.ties.begin(), evidence.ties.end());
      }
    }
    for (HeatMap::Row& row : map.rows) {
      Cell& cell = row.cells[column];
      if (cell.kind != Cell::Kind::kTimed) continue;
      cell.served = own ? row.config == served : cell.ratio == 1;
      cell.tie = !cell.served && ties.contains(row.config);
    }
  }
}

}  // namespace

HeatMap HeatMapOf(const TableAnswer& answer,
                  const std::vector<v1::Trial>& trials, size_t max_rows) {
  HeatMap map;
  map.title = DescribeProblem(answer.table.problem);
  map.subtitle = DescribeDevice(answer.table.device);
  map.modelled = answer.table.device.modelled();
  std::map<std::string, std::map<int64_t, const v1::Trial*>> best;
  std::map<int64_t, int64_t> fastest;
  for (const v1::Trial& trial : trials) {
    const v1::Trial*& known = best[trial.config()][trial.m()];
    if (known == nullptr || Better(trial, *known)) known = &trial;
    fastest.try_emplace(trial.m(), 0);
  }
  for (const auto& [config, by_m] : best) {
    for (const auto& [m, trial] : by_m) {
      int64_t& least = fastest[m];
      if (trial->outcome() == v1::TRIAL_OUTCOME_MEASURED &&
          (least == 0 || trial->median_ns() < least))
        least = trial->median_ns();
    }
  }
  for (const auto& [m, least] : fastest) map.ms.push_back(m);
  for (const auto& [config, by_m] : best) {
    HeatMap::Row row;
    row.config = config;
    for (const auto& [m, least] : fastest) {
      Cell& cell = row.cells.emplace_back();
      const auto found = by_m.find(m);
      if (found == by_m.end()) continue;
      const v1::Trial& trial = *found->second;
      if (trial.median_ns() > 0 && least > 0) {
        cell.kind = Cell::Kind::kTimed;
        cell.median_ns = trial.median_ns();
        cell.ratio =
            static_cast<double>(trial.median_ns()) / static_cast<double>(least);
        cell.screened_out = trial.outcome() == v1::TRIAL_OUTCOME_SCREENED_OUT;
      } else {
        cell.kind = Cell::Kind::kFailed;
        cell.outcome = trial.outcome();
      }
    }
    map.rows.push_back(std::move(row));
  }
  MarkServed(answer, map);
  std::stable_sort(map.rows.begin(), map.rows.end(),
                   [](const HeatMap::Row& a, const HeatMap::Row& b) {
                     return std::make_pair(FirstServed(a), MeanOf(a)) <
                            std::make_pair(FirstServed(b), MeanOf(b));
                   });
  if (map.rows.size() > max_rows) {
    map.hidden = static_cast<int64_t>(map.rows.size() - max_rows);
    map.rows.resize(max_rows);
  }
  return map;
}

double HeatColour::Luminance() const {
  const auto linear = [](int channel) {
    const double c = channel / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

std::array<HeatColour, kHeatShades> HeatColours() {
  // Pale yellow, a grey that leans to blue, dark blue.
  constexpr HeatColour kLight{255, 240, 150}, kMiddle{126, 138, 150},
      kDark{14, 24, 74};
  std::array<HeatColour, kHeatShades> colours;
  for (int i = 0; i < kHeatShades; ++i) {
    const double t = 2.0 * i / (kHeatShades - 1);
    const HeatColour& from = t < 1 ? kLight : kMiddle;
    const HeatColour& to = t < 1 ? kMiddle : kDark;
    const double share = t < 1 ? t : t - 1;
    const auto mix = [&](int a, int b) {
      return static_cast<int>(std::lround(a + share * (b - a)));
    };
    colours[static_cast<size_t>(i)] = {mix(from.red, to.red),
                                       mix(from.green, to.green),
                                       mix(from.blue, to.blue)};
  }
  return colours;
}

int HeatShade(double ratio) {
  const double share = std::clamp(std::log2(std::max(ratio, 1.0)), 0.0, 1.0);
  return static_cast<int>(std::lround(share * (kHeatShades - 1)));
}

char FailureLetter(v1::TrialOutcome outcome) {
  switch (outcome) {
    case v1::TRIAL_OUTCOME_COMPILE_ERROR:
      return 'C';
    case v1::TRIAL_OUTCOME_COMPILE_TIMEOUT:
      return 'D';
    case v1::TRIAL_OUTCOME_COMPILER_CRASH:
      return 'X';
    case v1::TRIAL_OUTCOME_LAUNCH_ERROR:
      return 'L';
    case v1::TRIAL_OUTCOME_WRONG_RESULT:
      return 'W';
    case v1::TRIAL_OUTCOME_GUARD_OVERWRITTEN:
      return 'G';
    case v1::TRIAL_OUTCOME_NOT_REPEATABLE:
      return 'N';
    case v1::TRIAL_OUTCOME_FAULT:
      return 'F';
    case v1::TRIAL_OUTCOME_TIMEOUT:
      return 'T';
    case v1::TRIAL_OUTCOME_OUT_OF_MEMORY:
      return 'M';
    case v1::TRIAL_OUTCOME_INTERRUPTED:
      return 'I';
    default:
      return '?';
  }
}

}  // namespace hone
