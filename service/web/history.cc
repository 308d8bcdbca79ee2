#include "service/web/history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "tuner/race.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

// The group of a trial in Repeats(), on one GPU.
auto SubjectOf(const RepeatedTrial& trial) {
  return std::tie(trial.problem_hash, trial.m, trial.config,
                  trial.protocol_hash, trial.uuid);
}

// Trials of one subject, in the order measured.
std::vector<std::vector<const RepeatedTrial*>> BySubject(
    absl::Span<const RepeatedTrial> repeats) {
  std::map<decltype(SubjectOf(repeats[0])), std::vector<const RepeatedTrial*>>
      groups;
  for (const RepeatedTrial& trial : repeats) {
    if (trial.median_ns > 0) groups[SubjectOf(trial)].push_back(&trial);
  }
  std::vector<std::vector<const RepeatedTrial*>> list;
  for (auto& [subject, trials] : groups) list.push_back(std::move(trials));
  return list;
}

ToolVersion VersionOf(const RepeatedTrial& trial) {
  return {.driver = trial.driver,
          .nvrtc = trial.nvrtc_version,
          .vbios = trial.vbios,
          .power_limit_mw = trial.power_limit_mw,
          .ecc = trial.ecc};
}

auto KeyOf(const ToolVersion& version) {
  return std::tie(version.driver, version.nvrtc, version.vbios,
                  version.power_limit_mw, version.ecc);
}

bool SameState(const RepeatedTrial& a, const RepeatedTrial& b) {
  const ToolVersion of_a = VersionOf(a);
  const ToolVersion of_b = VersionOf(b);
  return a.kernel_id == b.kernel_id && KeyOf(of_a) == KeyOf(of_b);
}

double LogRatio(const RepeatedTrial& before, const RepeatedTrial& after) {
  return std::log(static_cast<double>(after.median_ns) /
                  static_cast<double>(before.median_ns));
}

}  // namespace

Noise NoiseOf(absl::Span<const RepeatedTrial> repeats) {
  Noise noise;
  for (const auto& trials : BySubject(repeats)) {
    // Kernels may take turns, so each is compared with its own last time.
    std::map<std::pair<std::string, int64_t>, const RepeatedTrial*> last;
    for (const RepeatedTrial* trial : trials) {
      const RepeatedTrial*& previous =
          last[{trial->kernel_id, trial->device_row}];
      if (previous != nullptr)
        noise.pairs.push_back({previous, trial, LogRatio(*previous, *trial)});
      previous = trial;
    }
  }
  std::sort(noise.pairs.begin(), noise.pairs.end(),
            [](const NoisePair& a, const NoisePair& b) {
              return a.second->id > b.second->id;
            });
  std::vector<double> sizes;
  for (const NoisePair& pair : noise.pairs)
    sizes.push_back(std::abs(pair.log_ratio));
  if (sizes.empty()) {
    noise.median = noise.percentile_95 =
        std::numeric_limits<double>::quiet_NaN();
    return noise;
  }
  std::sort(sizes.begin(), sizes.end());
  noise.median = Median(sizes);
  noise.percentile_95 = sizes[(sizes.size() * 95 + 99) / 100 - 1];
  return noise;
}

Regressions RegressionsOf(absl::Span<const RepeatedTrial> repeats) {
  const RaceOptions tie;
  Regressions out;
  const auto find = [&out](const RepeatedTrial& trial) {
    const ToolVersion wanted = VersionOf(trial);
    return std::find_if(out.versions.begin(), out.versions.end(),
                        [&wanted](const ToolVersion& version) {
                          return KeyOf(version) == KeyOf(wanted);
                        });
  };
  for (const RepeatedTrial& trial : repeats) {
    auto known = find(trial);
    if (known == out.versions.end()) {
      known = out.versions.insert(known, VersionOf(trial));
      known->from_us = trial.unix_us;
    }
    known->from_us = std::min(known->from_us, trial.unix_us);
  }
  std::sort(out.versions.begin(), out.versions.end(),
            [](const ToolVersion& a, const ToolVersion& b) {
              return std::tuple_cat(std::tie(a.from_us), KeyOf(a)) <
                     std::tuple_cat(std::tie(b.from_us), KeyOf(b));
            });
  const auto version_of = [&](const RepeatedTrial& trial) {
    return find(trial) - out.versions.begin();
  };
  for (const auto& trials : BySubject(repeats)) {
    const RepeatedTrial& after = *trials.back();
    const auto before = std::find_if(
        trials.rbegin(), trials.rend(),
        [&](const RepeatedTrial* trial) { return !SameState(*trial, after); });
    if (before == trials.rend()) continue;
    const double difference =
        std::abs(static_cast<double>(after.median_ns - (*before)->median_ns));
    const double fastest =
        static_cast<double>(std::min(after.median_ns, (*before)->median_ns));
    out.rows.push_back(
        {*before, &after, version_of(**before), version_of(after),
         static_cast<double>(after.median_ns) /
             static_cast<double>((*before)->median_ns),
         difference > std::max(tie.tie * fastest,
                               static_cast<double>(tie.tie_floor_ns))});
  }
  std::sort(out.rows.begin(), out.rows.end(),
            [](const Regression& a, const Regression& b) {
              return std::make_pair(-std::abs(std::log(a.ratio)), a.after->id) <
                     std::make_pair(-std::abs(std::log(b.ratio)), b.after->id);
            });
  return out;
}

}  // namespace hone
