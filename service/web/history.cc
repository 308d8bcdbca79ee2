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

bool SameState(const RepeatedTrial& a, const RepeatedTrial& b) {
  return a.kernel_id == b.kernel_id && a.nvrtc_version == b.nvrtc_version &&
         a.driver == b.driver;
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
  std::map<std::pair<std::string, std::string>, int64_t> first_seen;
  for (const RepeatedTrial& trial : repeats) {
    const auto [known, is_new] = first_seen.try_emplace(
        {trial.driver, trial.nvrtc_version}, trial.unix_us);
    if (!is_new) known->second = std::min(known->second, trial.unix_us);
  }
  for (const auto& [version, from_us] : first_seen)
    out.versions.push_back({version.first, version.second, from_us});
  std::sort(out.versions.begin(), out.versions.end(),
            [](const ToolVersion& a, const ToolVersion& b) {
              return std::tie(a.from_us, a.driver, a.nvrtc) <
                     std::tie(b.from_us, b.driver, b.nvrtc);
            });
  const auto version_of = [&out](const RepeatedTrial& trial) {
    return std::find_if(out.versions.begin(), out.versions.end(),
                        [&](const ToolVersion& version) {
                          return version.driver == trial.driver &&
                                 version.nvrtc == trial.nvrtc_version;
                        }) -
           out.versions.begin();
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
