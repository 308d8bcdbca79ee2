#include "service/server/traffic_keeper.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/occupancy.h"
#include "kernels/space/space.h"
#include "service/server/lookup.h"
#include "tuner/analytic_model.h"

namespace hone {
namespace {

std::string KeyOf(const Problem& problem, const DeviceSpec& device) {
  return absl::StrCat(problem.ToString(), "|", device.ClassText());
}

// By rising M, of what was measured for the table.
TimeCurve TimesOf(const DispatchTable& table) {
  std::vector<TimeCurve::Point> points;
  for (const TableEntry& entry : table.entries) {
    for (const Evidence& evidence : entry.evidence) {
      if (evidence.median_ns <= 0) continue;
      points.push_back({evidence.m, static_cast<double>(evidence.median_ns)});
    }
  }
  return TimeCurve(std::move(points));
}

}  // namespace

TrafficKeeper::TrafficKeeper(Store* store, TableCache* tables, Logger* log,
                             Options options)
    : store_(store),
      tables_(tables),
      log_(log),
      options_(std::move(options)),
      thread_([this] { Work(); }) {}

TrafficKeeper::~TrafficKeeper() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void TrafficKeeper::Work() {
  bool stopping = false;
  while (!stopping) {
    {
      absl::MutexLock lock(&mutex_);
      stopping = mutex_.AwaitWithTimeout(absl::Condition(&stopping_),
                                         options_.flush_period);
    }
    if (const absl::Status status = Flush(); !status.ok()) {
      log_->Warn("misses_not_stored", {{"detail", LogText(status.message())}});
    }
  }
}

void TrafficKeeper::CountLookup(const Problem& problem,
                                const DeviceSpec& device,
                                const Provenance& provenance) {
  const bool own = provenance.match == MatchKind::kExact ||
                   provenance.match == MatchKind::kBucket;
  if (own && !provenance.stale) return;
  std::string key = KeyOf(problem, device);
  absl::MutexLock lock(&mutex_);
  auto found = misses_.find(key);
  if (found == misses_.end()) {
    if (misses_.size() >= options_.max_pending) {
      ++uncounted_;
      return;
    }
    found =
        misses_.emplace(std::move(key), TrafficCount{problem, device, {}, 0})
            .first;
  }
  found->second.misses += 1;
}

absl::StatusOr<bool> TrafficKeeper::Report(
    absl::string_view report_id, absl::Span<const TrafficCount> counts) {
  return store_->RecordTraffic(report_id, counts, NowUs());
}

absl::Status TrafficKeeper::Flush() {
  absl::MutexLock flushing(&flush_mutex_);
  std::vector<TrafficCount> counts;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [key, count] : misses_) counts.push_back(count);
    misses_.clear();
  }
  const absl::Status status = store_->AddTraffic(counts, NowUs());
  if (status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  for (TrafficCount& count : counts) {
    std::string key = KeyOf(count.problem, count.device);
    const double misses = count.misses;
    const auto [found, added] =
        misses_.try_emplace(std::move(key), std::move(count));
    if (!added) found->second.misses += misses;
  }
  return status;
}

TimeCurve TrafficKeeper::ModelTimes(const Problem& problem,
                                    const DeviceSpec& device) {
  constexpr size_t kMost = 4096;
  const std::string key = KeyOf(problem, device);
  {
    absl::MutexLock lock(&curves_mutex_);
    const auto found = curves_.find(key);
    if (found != curves_.end()) return found->second;
  }
  std::vector<TimeCurve::Point> points;
  if (CheckProblem(problem, device).ok()) {
    const DispatchTable table = HeuristicTable(problem, device);
    for (const int64_t m : table.ladder) {
      const TuningConfig& config = table.Find(m)->config;
      points.push_back({m, Predict(problem, device, config, m,
                                   EstimateFootprint(problem, config))
                               .total_ns});
    }
  }
  const TimeCurve curve(std::move(points));
  absl::MutexLock lock(&curves_mutex_);
  if (curves_.size() >= kMost) curves_.clear();
  curves_.emplace(key, curve);
  return curve;
}

absl::StatusOr<std::vector<TrafficView>> TrafficKeeper::View() {
  HONE_RETURN_IF_ERROR(Flush());
  HONE_ASSIGN_OR_RETURN(std::vector<StoredTraffic> all,
                        store_->Traffic(NowUs()));
  const auto index = tables_->Newest();
  std::vector<TrafficView> views;
  std::map<std::string, double> class_time;
  for (StoredTraffic& stored : all) {
    TrafficView& view = views.emplace_back();
    const StoredTable* own = index->Own(stored.problem, stored.device);
    ProblemTraffic& traffic = view.traffic;
    traffic.state = own == nullptr         ? TableState::kMissing
                    : index->IsStale(*own) ? TableState::kStale
                    : own->verified        ? TableState::kFresh
                                           : TableState::kUnverified;
    if (own != nullptr) traffic.times = TimesOf(own->table);
    view.times_modelled = traffic.times.empty();
    if (view.times_modelled)
      traffic.times = ModelTimes(stored.problem, stored.device);
    traffic.calls = stored.calls;
    traffic.misses = stored.misses;
    class_time[stored.device.ClassHash()] += TimeOf(traffic);
    view.stored = std::move(stored);
  }
  for (TrafficView& view : views) {
    const double time = class_time[view.stored.device.ClassHash()];
    if (time > 0) view.time_share = TimeOf(view.traffic) / time;
  }
  return views;
}

int64_t TrafficKeeper::uncounted() const {
  absl::MutexLock lock(&mutex_);
  return uncounted_;
}

}  // namespace hone
