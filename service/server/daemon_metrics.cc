// What the metrics page reads of honed's parts.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hone/v1/study_service.grpc.pb.h"
#include "hone/v1/tuning_service.grpc.pb.h"
#include "service/metrics/rpc_meter.h"
#include "service/server/daemon.h"

namespace hone {
namespace {

JobEnd EndOf(const TuneSnapshot& job) {
  switch (job.state) {
    case TuneState::kSucceeded:
      return job.already_fresh ? JobEnd::kFresh : JobEnd::kSucceeded;
    case TuneState::kCancelled:
      return JobEnd::kCancelled;
    default:
      return JobEnd::kFailed;
  }
}

TablesReading ReadTables(const LookupIndex& index) {
  TablesReading out;
  out.revision = index.revision();
  for (const StoredTable& stored : index.tables()) {
    if (index.IsStale(stored)) {
      ++(stored.verified ? out.stale_verified : out.stale_unverified);
    } else {
      ++(stored.verified ? out.fresh_verified : out.fresh_unverified);
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> MeteredMethods() {
  std::vector<std::string> methods =
      MethodsOf(v1::TuningService::service_full_name());
  for (std::string& method : MethodsOf(v1::StudyService::service_full_name()))
    methods.push_back(std::move(method));
  return methods;
}

void CountJob(const TuneSnapshot& job, EventMetrics& metrics) {
  // Honed's own tune that made way or found the device in use failed nobody.
  if (job.idle && !job.error.ok()) return;
  metrics.OnJobEnd(job.kind, EndOf(job),
                   job.started == absl::InfinitePast()
                       ? absl::ZeroDuration()
                       : job.ended - job.started);
}

void Daemon::MakeMetricsPage(const std::string& database) {
  if (device_.device.has_value() && !device_.device->modelled())
    gpu_ = std::make_unique<GpuMonitor>(NvmlReader(device_.device->uuid));
  MetricsPage::Sources sources;
  sources.events = metrics_.get();
  sources.queue = [jobs = jobs_.get()] {
    const TuneQueueState state = jobs->State();
    QueueReading out;
    out.queued = static_cast<int64_t>(state.queued);
    out.limit = static_cast<int64_t>(state.max_queued);
    if (state.running)
      out.running = {state.running->kind, state.running->progress};
    return out;
  };
  sources.tables = [tables = tables_.get()] {
    return ReadTables(*tables->Newest());
  };
  sources.health = [executor = device_.executor.get()] {
    return executor == nullptr ? ExecutorHealth() : executor->health();
  };
  sources.can_tune = CanTune();
  sources.device = device_.device;
  sources.gpu = gpu_.get();
  sources.database = database;
  sources.version = HONE_VERSION;
  metrics_page_ = std::make_unique<MetricsPage>(std::move(sources));
}

}  // namespace hone
