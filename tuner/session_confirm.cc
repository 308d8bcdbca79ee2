// Choosing and confirming: from evidence to the points of a table.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "tuner/session_run.h"

namespace hone {
namespace {

// Share of the budget after which no probe starts: ladder points come first.
constexpr double kProbeShare = 0.85;

}  // namespace

absl::Status SessionRun::Choose() {
  traits_.clear();
  for (const PoolKernel& kernel : kernels_) {
    bool incumbent = false;
    if (options_.incumbent) {
      for (const TableEntry& entry : options_.incumbent->entries) {
        incumbent = incumbent || entry.config == kernel.config;
      }
    }
    traits_.push_back(
        {incumbent ? 0 : 1,
         MaxWorkspaceBytes(problem_, kernel.config, options_.ladder.back())});
  }
  std::vector<CoverPoint> points;
  for (size_t p = 0; p < options_.ladder.size(); ++p) {
    points.push_back(PointAt(kernels_, options_.ladder[p], defaults_[p],
                             &PoolKernel::raced, options_.race));
  }
  cover_ = SmallestCover(points, traits_);
  if (!cover_.kernels.empty()) {
    if (limited() && std::ssize(cover_.kernels) > options_.max_table_kernels) {
      cover_.kernels =
          Trade(options_.max_table_kernels, /*predict=*/true).back().kernels;
    }
    return absl::OkStatus();
  }
  const bool any_ready = std::any_of(
      kernels_.begin(), kernels_.end(),
      [](const PoolKernel& k) { return k.state == PoolKernel::State::kReady; });
  if (hooks_.now() >= RaceDeadline() && (any_ready || failed_ == 0)) {
    return absl::DeadlineExceededError(
        "the budget ended before any candidate was measured");
  }
  std::vector<std::string> reasons(
      failures_.begin(),
      failures_.begin() + std::min<ptrdiff_t>(3, std::ssize(failures_)));
  return absl::FailedPreconditionError(
      absl::StrCat("none of ", kernels_.size(),
                   " candidates was correct: ", absl::StrJoin(reasons, "; ")));
}

std::vector<TradeOffStep> SessionRun::Trade(int max_kernels,
                                            bool predict) const {
  TradeOffOptions options;
  options.tie = options_.race.tie;
  options.tie_floor_ns = static_cast<double>(options_.race.tie_floor_ns);
  options.max_kernels = max_kernels;
  return TradeOff(TimesOf(kernels_, options_.ladder, predict),
                  CompileTimesOf(kernels_), options);
}

CoverPoint SessionRun::PointOfTable(int64_t m, Evidences evidences) const {
  std::vector<Measured> own;
  for (const Measured& measured : MeasuredAt(kernels_, m, evidences)) {
    if (std::count(cover_.kernels.begin(), cover_.kernels.end(),
                   measured.kernel) > 0) {
      own.push_back(measured);
    }
  }
  return PointOf(JudgePoint(own, -1, options_.race), -1);
}

absl::Status SessionRun::Confirm() {
  std::vector<int64_t> block_ms;
  for (const int i : cover_.kernels) {
    block_ms.push_back(kernels_[static_cast<size_t>(i)].config.block_m);
  }
  std::sort(block_ms.begin(), block_ms.end());
  block_ms.erase(std::unique(block_ms.begin(), block_ms.end()), block_ms.end());
  const std::vector<int64_t> probes =
      CliffProbes(options_.ladder, block_ms, options_.max_probes);
  total_ = done_ + static_cast<int64_t>(options_.ladder.size() + probes.size());
  points_.clear();
  // Rising, probes included: products of large M heat the device, and what
  // follows them is timed at lower clocks (a probe at M = 9 after M = 8192:
  // 15.3 us at 1.53 GHz instead of 12.9 at 1.87).
  size_t p = 0;
  size_t probe = 0;
  while (p < options_.ladder.size() || probe < probes.size()) {
    if (probe == probes.size() ||
        (p < options_.ladder.size() && options_.ladder[p] < probes[probe])) {
      HONE_RETURN_IF_ERROR(
          ConfirmAt(options_.ladder[p], defaults_[p], /*probe=*/false));
      ++p;
    } else {
      HONE_RETURN_IF_ERROR(ConfirmAt(probes[probe], -1, /*probe=*/true));
      ++probe;
    }
  }
  std::vector<CoverPoint> choices;
  for (const ChosenPoint& point : points_) choices.push_back(point.choice);
  std::vector<int> all(kernels_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  const std::vector<int> assigned =
      AssignPoints(choices, traits_, all, options_.race.tie);
  for (size_t i = 0; i < points_.size(); ++i) {
    points_[i].kernel = assigned[i];
  }
  return FillUnmeasured();
}

absl::Status SessionRun::ConfirmAt(int64_t m, int standard, bool probe) {
  std::vector<size_t> entrants(cover_.kernels.begin(), cover_.kernels.end());
  if (standard >= 0 && std::count(entrants.begin(), entrants.end(),
                                  static_cast<size_t>(standard)) == 0) {
    entrants.push_back(static_cast<size_t>(standard));
  }
  RaceOptions race = options_.race;
  if (limited()) {
    // A kernel far behind the default may be the best that the table has here.
    race.slack = race.screen_ratio = std::numeric_limits<double>::max();
  }
  bool confirmed = false;
  if (hooks_.now() <
      (probe ? start_ + options_.budget * kProbeShare : deadline_)) {
    HONE_ASSIGN_OR_RETURN(
        confirmed,
        RaceAt(m, entrants, standard, &PoolKernel::confirmed, race, deadline_));
    ++done_;
    Report(m, &PoolKernel::confirmed);
  }
  complete_ = complete_ && (confirmed || probe);
  if (probe && !confirmed) return absl::OkStatus();
  ChosenPoint point;
  point.m = m;
  point.standard = standard;
  point.evidences = confirmed ? &PoolKernel::confirmed : &PoolKernel::raced;
  if (limited()) {
    point.choice = PointOfTable(m, point.evidences);
    points_.push_back(std::move(point));
    return absl::OkStatus();
  }
  point.choice = PointAt(kernels_, m, standard, point.evidences, options_.race);
  if (!confirmed) {
    // Only the chosen kernels and the default may be served.
    CoverPoint kept;
    for (size_t i = 0; i < point.choice.kernels.size(); ++i) {
      const auto kernel = static_cast<size_t>(point.choice.kernels[i]);
      if (std::count(entrants.begin(), entrants.end(), kernel) == 0) continue;
      kept.kernels.push_back(point.choice.kernels[i]);
      kept.regrets.push_back(point.choice.regrets[i]);
    }
    point.choice = kept;
  }
  points_.push_back(std::move(point));
  return absl::OkStatus();
}

absl::Status SessionRun::FillUnmeasured() {
  for (ChosenPoint& point : points_) {
    if (point.kernel >= 0 || point.standard < 0) continue;
    complete_ = false;
    if (!limited() && kernels_[static_cast<size_t>(point.standard)].state ==
                          PoolKernel::State::kReady) {
      point.kernel = point.standard;
    }
  }
  const auto fill = [](auto begin, auto end) {
    int last = -1;
    for (auto it = begin; it != end; ++it) {
      if (it->kernel < 0) it->kernel = last;
      last = it->kernel;
    }
  };
  fill(points_.rbegin(), points_.rend());
  fill(points_.begin(), points_.end());
  if (points_.front().kernel >= 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the last kernels failed while they were confirmed");
}

absl::StatusOr<bool> SessionRun::GateAgain() {
  for (const ChosenPoint& point : points_) {
    PoolKernel& kernel = kernels_[static_cast<size_t>(point.kernel)];
    // It may have failed at a later point of the confirmation.
    if (kernel.state == PoolKernel::State::kOut) return false;
    HONE_ASSIGN_OR_RETURN(const bool passed, Gate(kernel, point.m));
    if (!passed) return false;
  }
  return true;
}

}  // namespace hone
