#include "tuner/table_builder.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "kernels/space/space.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

const Trial* Find(const PoolKernel& kernel, const ChosenPoint& point) {
  const auto it = (kernel.*point.evidences).find(point.m);
  return it == (kernel.*point.evidences).end() || it->second.samples.empty()
             ? nullptr
             : &it->second;
}

// Configs within the tie bound of `kernel` at one M. The wide field of the
// first race says so as well as the confirmation.
std::vector<std::string> TiesOf(const PoolKernel& kernel, int64_t m,
                                const RaceOptions& options,
                                absl::Span<const PoolKernel> kernels) {
  std::vector<std::string> ties;
  for (const Evidences evidences :
       {&PoolKernel::raced, &PoolKernel::confirmed}) {
    const auto own = (kernel.*evidences).find(m);
    if (own == (kernel.*evidences).end() || own->second.median_ns == 0) {
      continue;
    }
    const auto own_ns = static_cast<double>(own->second.median_ns);
    const double tie = std::max(
        options.tie, static_cast<double>(options.tie_floor_ns) / own_ns);
    for (const Measured& other : MeasuredAt(kernels, m, evidences)) {
      const TuningConfig& config = other.trial->config;
      const double ratio = static_cast<double>(other.trial->median_ns) / own_ns;
      if (config != kernel.config && std::abs(ratio - 1) < tie) {
        ties.push_back(config.ToString());
      }
    }
  }
  std::sort(ties.begin(), ties.end());
  ties.erase(std::unique(ties.begin(), ties.end()), ties.end());
  return ties;
}

std::optional<Evidence> EvidenceAt(const Problem& problem,
                                   const DeviceSpec& device,
                                   const RaceOptions& options,
                                   absl::Span<const PoolKernel> kernels,
                                   const ChosenPoint& point) {
  const PoolKernel& kernel = kernels[static_cast<size_t>(point.kernel)];
  const Trial* trial = Find(kernel, point);
  if (trial == nullptr) return std::nullopt;
  const Trial* standard = nullptr;
  if (point.standard >= 0) {
    const PoolKernel& kernel = kernels[static_cast<size_t>(point.standard)];
    if (kernel.state == PoolKernel::State::kReady) {
      standard = Find(kernel, point);
    }
  }
  Evidence evidence = EvidenceOf(*trial, standard);
  evidence.m = point.m;
  evidence.floor_ns = std::llround(FloorNs(problem, device, point.m));
  evidence.ties = TiesOf(kernel, point.m, options, kernels);
  return evidence;
}

}  // namespace

std::vector<Measured> MeasuredAt(absl::Span<const PoolKernel> kernels,
                                 int64_t m, Evidences evidences) {
  std::vector<Measured> measured;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto it = (kernels[i].*evidences).find(m);
    if (kernels[i].state == PoolKernel::State::kReady &&
        it != (kernels[i].*evidences).end() &&
        it->second.outcome == Outcome::kMeasured &&
        !it->second.samples.empty()) {
      measured.push_back({static_cast<int>(i), &it->second});
    }
  }
  return measured;
}

std::vector<TimesAtM> TimesOf(absl::Span<const PoolKernel> kernels,
                              absl::Span<const int64_t> ladder, bool predict) {
  std::vector<TimesAtM> points;
  for (size_t p = 0; p < ladder.size(); ++p) {
    TimesAtM point;
    point.m = ladder[p];
    point.ns.assign(kernels.size(), 0);
    if (predict) {
      for (size_t i = 0; i < kernels.size(); ++i) {
        if (kernels[i].state == PoolKernel::State::kReady) {
          point.ns[i] = kernels[i].predicted_ns[p];
        }
      }
    }
    for (const Evidences evidences :
         {&PoolKernel::scouted, &PoolKernel::raced, &PoolKernel::confirmed}) {
      for (size_t i = 0; i < kernels.size(); ++i) {
        const auto trial = (kernels[i].*evidences).find(point.m);
        if (kernels[i].state == PoolKernel::State::kReady &&
            trial != (kernels[i].*evidences).end() &&
            !trial->second.samples.empty()) {
          point.ns[i] = static_cast<double>(trial->second.median_ns);
        }
      }
    }
    points.push_back(std::move(point));
  }
  return points;
}

std::vector<int64_t> CompileTimesOf(absl::Span<const PoolKernel> kernels) {
  std::vector<int64_t> times;
  for (const PoolKernel& kernel : kernels) {
    // Zero now if the cubin was in the cache; a trial of an earlier session
    // has the time of the compile.
    int64_t most = kernel.candidate.compile.compile_ms;
    for (const Evidences evidences :
         {&PoolKernel::scouted, &PoolKernel::raced, &PoolKernel::confirmed}) {
      for (const auto& [m, trial] : kernel.*evidences) {
        most = std::max(most, trial.compile.compile_ms);
      }
    }
    times.push_back(most);
  }
  return times;
}

CoverPoint PointAt(absl::Span<const PoolKernel> kernels, int64_t m,
                   int standard, Evidences evidences,
                   const RaceOptions& options) {
  return PointOf(
      JudgePoint(MeasuredAt(kernels, m, evidences), standard, options),
      standard);
}

DispatchTable BuildTable(const Problem& problem, const DeviceSpec& device,
                         const RaceOptions& options,
                         absl::Span<const PoolKernel> kernels,
                         absl::Span<const ChosenPoint> points) {
  DispatchTable table;
  table.problem = problem;
  table.device = device;
  std::vector<TablePoint> table_points;
  for (const ChosenPoint& point : points) {
    const PoolKernel& kernel = kernels[static_cast<size_t>(point.kernel)];
    const Trial* trial = Find(kernel, point);
    table_points.push_back({point.m, point.kernel, kernel.config.block_m,
                            trial == nullptr ? 0 : trial->median_ns});
    table.gate = kernel.gate;
  }
  for (const TableRange& range : BuildRanges(table_points)) {
    const PoolKernel& kernel = kernels[static_cast<size_t>(range.kernel)];
    TableEntry entry;
    entry.m_lo = range.m_lo;
    entry.m_hi = range.m_hi;
    entry.config = kernel.config;
    entry.compile = kernel.candidate.compile;
    for (const ChosenPoint& point : points) {
      if (point.m < range.m_lo || (range.m_hi > 0 && point.m > range.m_hi)) {
        continue;
      }
      if (std::optional<Evidence> evidence =
              EvidenceAt(problem, device, options, kernels, point)) {
        entry.evidence.push_back(*std::move(evidence));
      }
    }
    table.entries.push_back(std::move(entry));
  }
  return table;
}

}  // namespace hone
