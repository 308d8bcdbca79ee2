#include "tuner/audit_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tuner/statistics.h"

namespace hone {
namespace {

using Samples = absl::Span<const Sample>;

Samples ChoiceOf(const std::vector<Sample>& samples, int choice_rounds) {
  return Samples(samples).subspan(0, static_cast<size_t>(choice_rounds));
}

Samples RestOf(const std::vector<Sample>& samples, int choice_rounds) {
  return samples.size() <= static_cast<size_t>(choice_rounds)
             ? Samples()
             : Samples(samples).subspan(static_cast<size_t>(choice_rounds));
}

AuditRatio FromLogs(const MedianInterval& logs) {
  if (logs.count == 0) return {};
  return {std::exp(logs.median), std::exp(logs.low), std::exp(logs.high),
          logs.count};
}

int64_t MedianNs(Samples samples) {
  return std::llround(Median(Durations(samples)));
}

// Those that did not fail.
std::vector<int> Standing(absl::Span<const int> finalists,
                          absl::Span<const std::vector<Sample>> samples) {
  std::vector<int> standing;
  for (const int i : finalists) {
    if (i >= 0 && !samples[static_cast<size_t>(i)].empty()) {
      standing.push_back(i);
    }
  }
  return standing;
}

}  // namespace

AuditRatio RatioOf(Samples a, Samples b, double alpha) {
  return FromLogs(FixedMedianInterval(PairedLogRatios(a, b), alpha));
}

int FastestFinalist(absl::Span<const std::vector<Sample>> samples,
                    int choice_rounds) {
  int fastest = -1;
  double least = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].empty()) continue;
    const double ns = Median(Durations(ChoiceOf(samples[i], choice_rounds)));
    if (fastest < 0 || ns < least) {
      fastest = static_cast<int>(i);
      least = ns;
    }
  }
  return fastest;
}

AuditPoint JudgeFinalists(absl::Span<const std::vector<Sample>> samples,
                          const FinalistRoles& roles, int choice_rounds,
                          double alpha, const RaceOptions& race) {
  AuditPoint point;
  const auto rest = [&](int i) {
    return RestOf(samples[static_cast<size_t>(i)], choice_rounds);
  };
  const auto stands = [&](int i) {
    return i >= 0 && !samples[static_cast<size_t>(i)].empty();
  };
  std::vector<double> clocks;
  int64_t standing = 0;
  for (const std::vector<Sample>& of_one : samples) {
    if (!of_one.empty()) ++standing;
    for (const Sample& sample : of_one) {
      if (sample.sm_clock_khz > 0) {
        clocks.push_back(static_cast<double>(sample.sm_clock_khz));
      }
    }
  }
  point.finalists = standing;
  point.sm_clock_khz = std::llround(Median(clocks));
  const int best = FastestFinalist(samples, choice_rounds);
  if (best < 0) return point;
  point.best_ns = MedianNs(rest(best));
  if (stands(roles.standard)) point.default_ns = MedianNs(rest(roles.standard));
  if (stands(roles.table)) {
    point.table_ns = MedianNs(rest(roles.table));
    point.regret = RatioOf(rest(roles.table), rest(best), alpha);
    if (stands(roles.standard)) {
      point.over_default =
          RatioOf(rest(roles.table), rest(roles.standard), alpha);
    }
    // One upper bound for each other finalist, which share the error.
    point.regret_bound = 1;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (static_cast<int>(i) == roles.table || samples[i].empty()) continue;
      const AuditRatio ratio =
          RatioOf(rest(roles.table), rest(static_cast<int>(i)),
                  2 * alpha / static_cast<double>(standing - 1));
      point.regret_bound = std::max(point.regret_bound, ratio.high);
    }
    if (!std::isfinite(point.regret_bound)) point.regret_bound = 0;
  }
  for (const int tune : roles.tunes) {
    point.tune_regrets.push_back(
        stands(tune) ? RatioOf(rest(tune), rest(best), alpha) : AuditRatio());
  }
  const std::vector<int> tunes = Standing(roles.tunes, samples);
  if (tunes.size() < 2) return point;
  for (size_t i = 0; i < tunes.size(); ++i) {
    for (size_t j = i + 1; j < tunes.size(); ++j) {
      if (tunes[i] != tunes[j]) ++point.flips;
    }
  }
  const auto chosen_ns = [&](int i) {
    return Median(
        Durations(ChoiceOf(samples[static_cast<size_t>(i)], choice_rounds)));
  };
  const auto [fast, slow] = std::minmax_element(
      tunes.begin(), tunes.end(),
      [&](int a, int b) { return chosen_ns(a) < chosen_ns(b); });
  // Of one and the same kernel when all agree.
  point.tune_spread = RatioOf(rest(*slow), rest(*fast), alpha);
  const double tie =
      std::max(race.tie, static_cast<double>(race.tie_floor_ns) /
                             static_cast<double>(MedianNs(rest(*fast))));
  point.flip_matters = point.tune_spread.low > 1 + tie;
  return point;
}

AuditRatio ReplayOf(Samples fresh, const Evidence& stored, double alpha) {
  if (fresh.empty() || stored.median_ns <= 0 || stored.low_ns <= 0) return {};
  const MedianInterval ns = FixedMedianInterval(Durations(fresh), alpha);
  return {ns.median / static_cast<double>(stored.median_ns),
          std::max(0.0, ns.low) / static_cast<double>(stored.high_ns),
          ns.high / static_cast<double>(stored.low_ns), ns.count};
}

AuditSpread SpreadOf(std::vector<double> ratios) {
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const size_t count = ratios.size();
  // The nearest rank: the smallest that at least 95 % do not exceed.
  const size_t rank = (95 * count + 99) / 100;
  return {static_cast<int64_t>(count), Median(ratios), ratios[rank - 1],
          ratios.back()};
}

void Summarize(AuditReport& report) {
  const auto spread = [&](auto ratio_of) {
    std::vector<double> ratios;
    for (const AuditPoint& point : report.points) {
      const AuditRatio ratio = ratio_of(point);
      if (ratio.rounds > 0) ratios.push_back(ratio.ratio);
    }
    return SpreadOf(std::move(ratios));
  };
  report.regret = spread([](const AuditPoint& p) { return p.regret; });
  report.tune_spread =
      spread([](const AuditPoint& p) { return p.tune_spread; });
  report.replay = spread([](const AuditPoint& p) { return p.replay; });
  for (size_t i = 0; i < report.tunes.size(); ++i) {
    report.tunes[i].regret =
        spread([&](const AuditPoint& p) { return p.tune_regrets[i]; });
  }
  report.flips = report.flip_pairs = report.flips_that_matter = 0;
  for (const AuditPoint& point : report.points) {
    const int64_t standing =
        std::count_if(point.tune_regrets.begin(), point.tune_regrets.end(),
                      [](const AuditRatio& ratio) { return ratio.rounds > 0; });
    report.flips += point.flips;
    report.flip_pairs += standing * (standing - 1) / 2;
    report.flips_that_matter += point.flip_matters ? 1 : 0;
  }
}

}  // namespace hone
