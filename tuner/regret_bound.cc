#include "tuner/regret_bound.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/string_view.h"

namespace hone {
namespace {

struct Ends {
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
};

void Widen(Ends& ends, int64_t low, int64_t high) {
  if (low <= 0 || high <= 0) return;
  ends.low = std::min(ends.low, static_cast<double>(low));
  ends.high = std::max(ends.high, static_cast<double>(high));
}

using ByM = std::map<int64_t, Ends>;

bool OnLadder(const DispatchTable& table, int64_t m) {
  return std::binary_search(table.ladder.begin(), table.ladder.end(), m);
}

}  // namespace

std::vector<BucketBound> BucketBounds(const DispatchTable& table,
                                      const TrialTimes& trials) {
  std::map<std::string, ByM> by_config;
  // The least time at each M, of whichever kernel.
  std::map<int64_t, double> least;
  const auto note = [&](int64_t m, double ns) {
    if (ns <= 0) return;
    const auto [it, added] = least.try_emplace(m, ns);
    it->second = std::min(it->second, ns);
  };
  for (const TableEntry& entry : table.entries) {
    for (const Evidence& evidence : entry.evidence) {
      Widen(by_config[entry.config.ToString()][evidence.m], evidence.low_ns,
            evidence.high_ns);
      note(evidence.m, static_cast<double>(evidence.low_ns));
    }
  }
  for (const TrialTimes::OfConfig& times : trials.configs) {
    const auto own = by_config.find(times.config);
    if (own == by_config.end()) continue;
    for (const TrialTimes::At& at : times.at) {
      Widen(own->second[at.m], at.least_ns, at.largest_ns);
    }
  }
  for (const TrialTimes::Best& best : trials.best) {
    note(best.m, static_cast<double>(best.ns));
  }
  // From each M on.
  double running = std::numeric_limits<double>::infinity();
  for (auto it = least.rbegin(); it != least.rend(); ++it) {
    running = std::min(running, it->second);
    it->second = running;
  }

  std::vector<BucketBound> bounds;
  // Of all M from `from` to `to`, between which there is no ladder point and
  // no measured M of the entry's kernel, save at the ends.
  const auto bound = [&](const ByM& times, int64_t from, int64_t to) {
    const auto above = times.lower_bound(to);
    auto below = times.upper_bound(from);
    // The nearest ladder point that was measured: its race saw all kernels.
    auto best = least.upper_bound(from);
    while (best != least.begin() && !OnLadder(table, std::prev(best)->first)) {
      --best;
    }
    if (above == times.end() || below == times.begin() ||
        best == least.begin()) {
      return;
    }
    --below;
    --best;
    const double worst = std::max(below->second.high, above->second.high);
    bounds.push_back({from, to, std::max(0.0, worst / best->second - 1),
                      below->first, above->first});
  };
  for (const TableEntry& entry : table.entries) {
    const auto found = by_config.find(entry.config.ToString());
    if (found == by_config.end() || found->second.empty()) continue;
    const ByM& times = found->second;
    const int64_t last =
        std::min(entry.m_hi == 0 ? times.rbegin()->first : entry.m_hi,
                 times.rbegin()->first);
    // M that stand alone: measured ones, and ladder points.
    std::set<int64_t> stops;
    for (const auto& [m, ends] : times) {
      if (m >= entry.m_lo && m <= last) stops.insert(m);
    }
    for (const int64_t m : table.ladder) {
      if (m >= entry.m_lo && m <= last) stops.insert(m);
    }
    int64_t next = entry.m_lo;
    for (const int64_t m : stops) {
      if (next < m) bound(times, next, m - 1);
      if (!OnLadder(table, m)) bound(times, m, m);
      next = m + 1;
    }
    if (next <= last) bound(times, next, last);
  }
  return bounds;
}

const BucketBound* FindBound(absl::Span<const BucketBound> bounds, int64_t m) {
  const auto it = std::upper_bound(
      bounds.begin(), bounds.end(), m,
      [](int64_t m, const BucketBound& bound) { return m < bound.m_lo; });
  if (it == bounds.begin() || std::prev(it)->m_hi < m) return nullptr;
  return &*std::prev(it);
}

std::vector<Transfer> TransfersOf(
    const DispatchTable& own, const TrialTimes& trials,
    absl::Span<const DispatchTable* const> others) {
  std::map<absl::string_view, const TrialTimes::OfConfig*> times;
  for (const TrialTimes::OfConfig& of_config : trials.configs) {
    times[of_config.config] = &of_config;
  }
  std::map<int64_t, int64_t> best;
  for (const TrialTimes::Best& at : trials.best) best[at.m] = at.ns;
  // 0 where it was not measured.
  const auto time_of = [&](const TuningConfig& config, int64_t m) -> int64_t {
    const auto found = times.find(config.ToString());
    if (found == times.end()) return 0;
    for (const TrialTimes::At& at : found->second->at) {
      if (at.m == m) return at.least_ns;
    }
    return 0;
  };
  std::vector<Transfer> transfers;
  for (const DispatchTable* other : others) {
    Transfer& transfer = transfers.emplace_back();
    for (const int64_t m : own.ladder) {
      const TableEntry* entry = other->Find(m);
      if (entry == nullptr) continue;
      const auto fastest = best.find(m);
      const int64_t ns = time_of(entry->config, m);
      if (ns <= 0 || fastest == best.end() || fastest->second <= 0) {
        ++transfer.unmeasured;
        continue;
      }
      transfer.regrets.push_back(std::max(
          0.0,
          static_cast<double>(ns) / static_cast<double>(fastest->second) - 1));
    }
  }
  return transfers;
}

std::optional<TransferBound> BoundOf(absl::Span<const Transfer> transfers) {
  TransferBound bound;
  std::vector<double> regrets;
  for (const Transfer& transfer : transfers) {
    if (!transfer.regrets.empty()) ++bound.pairs;
    bound.unmeasured += transfer.unmeasured;
    regrets.insert(regrets.end(), transfer.regrets.begin(),
                   transfer.regrets.end());
  }
  if (bound.pairs < kMinTransferPairs) return std::nullopt;
  bound.keys = std::ssize(regrets);
  std::sort(regrets.begin(), regrets.end());
  // The nearest rank: the smallest that so many do not exceed.
  const double rank =
      std::ceil(kTransferQuantile * static_cast<double>(regrets.size()));
  bound.regret = regrets[static_cast<size_t>(rank) - 1];
  return bound;
}

}  // namespace hone
