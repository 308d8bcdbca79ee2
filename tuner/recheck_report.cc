#include "tuner/recheck_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "tuner/statistics.h"

namespace hone {
namespace {

double RegretOf(const RecheckPoint& point) {
  if (!point.failure.empty()) return std::numeric_limits<double>::infinity();
  return std::max(0.0, point.regret.ratio - 1);
}

std::optional<double> MedianOf(const std::vector<double>& regrets) {
  if (regrets.empty()) return std::nullopt;
  const double median = Median(regrets);
  if (!std::isfinite(median)) return std::nullopt;
  return median;
}

// The ladder points with evidence.
std::vector<int64_t> MeasuredPoints(const DispatchTable& table) {
  std::vector<int64_t> points;
  for (const TableEntry& entry : table.entries) {
    for (const Evidence& evidence : entry.evidence) {
      if (std::binary_search(table.ladder.begin(), table.ladder.end(),
                             evidence.m)) {
        points.push_back(evidence.m);
      }
    }
  }
  std::sort(points.begin(), points.end());
  return points;
}

}  // namespace

absl::string_view ToString(RecheckVerdict verdict) {
  static constexpr absl::string_view kNames[] = {
      "kept", "verified", "unverified", "retune", "unknown"};
  return kNames[static_cast<size_t>(verdict)];
}

std::vector<std::vector<int64_t>> SampleKeys(
    absl::Span<const DispatchTable* const> tables, int64_t keys,
    uint64_t seed) {
  constexpr size_t kStrata = 3;
  std::vector<std::vector<int64_t>> sample(tables.size());
  int64_t all = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    sample[i] = MeasuredPoints(*tables[i]);
    all += std::ssize(sample[i]);
  }
  if (all <= keys) return sample;
  std::mt19937_64 random(seed);
  // What is left of each table's strata, in random order.
  std::vector<std::vector<std::vector<int64_t>>> left(tables.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    left[i].resize(kStrata);
    for (size_t p = 0; p < sample[i].size(); ++p) {
      left[i][p * kStrata / sample[i].size()].push_back(sample[i][p]);
    }
    for (std::vector<int64_t>& stratum : left[i]) {
      std::shuffle(stratum.begin(), stratum.end(), random);
    }
    sample[i].clear();
  }
  std::vector<size_t> order(tables.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  for (size_t turn = 0; keys > 0; ++turn) {
    for (size_t place = 0; place < order.size() && keys > 0; ++place) {
      const size_t i = order[place];
      // Tables start at different strata: with one key each, all are seen.
      for (size_t s = 0; s < kStrata; ++s) {
        std::vector<int64_t>& stratum = left[i][(place + turn + s) % kStrata];
        if (stratum.empty()) continue;
        sample[i].push_back(stratum.back());
        stratum.pop_back();
        --keys;
        break;
      }
    }
  }
  for (std::vector<int64_t>& points : sample) {
    std::sort(points.begin(), points.end());
  }
  return sample;
}

void Judge(RecheckReport& report) {
  std::vector<double> local;
  report.keys = report.failed = 0;
  report.largest_regret = 0;
  for (RecheckedTable& table : report.tables) {
    std::vector<double> own;
    for (const RecheckPoint& point : table.points) {
      ++report.keys;
      own.push_back(RegretOf(point));
      if (!point.failure.empty()) ++report.failed;
      if (std::isfinite(own.back())) {
        report.largest_regret = std::max(report.largest_regret, own.back());
      }
    }
    table.median_regret = MedianOf(own);
    if (!table.imported) local.insert(local.end(), own.begin(), own.end());
  }
  report.median_regret = MedianOf(local);
  const auto within = [&](const std::optional<double>& median) {
    return median.has_value() && *median <= report.regret_limit;
  };
  report.passed = within(report.median_regret);
  for (RecheckedTable& table : report.tables) {
    const bool failed =
        std::any_of(table.points.begin(), table.points.end(),
                    [](const RecheckPoint& p) { return !p.failure.empty(); });
    const bool measured = std::ssize(table.points) == table.planned;
    if (table.imported) {
      const bool slower = std::any_of(
          table.points.begin(), table.points.end(),
          [](const RecheckPoint& p) { return !p.no_slower_than_default; });
      table.verdict = failed || slower ? RecheckVerdict::kUnverified
                      : measured && table.planned > 0
                          ? RecheckVerdict::kVerified
                          : RecheckVerdict::kUnknown;
    } else if (failed) {
      table.verdict = RecheckVerdict::kRetune;
    } else if (local.empty() || (table.points.empty() && table.planned > 0)) {
      table.verdict = RecheckVerdict::kUnknown;
    } else {
      table.verdict = report.passed || within(table.median_regret)
                          ? RecheckVerdict::kKept
                          : RecheckVerdict::kRetune;
    }
  }
}

}  // namespace hone
