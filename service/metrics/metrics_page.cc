#include "service/metrics/metrics_page.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "service/metrics/families.h"
#include "service/metrics/process_metrics.h"

namespace hone {
namespace {

using ::prometheus::MetricType;

constexpr SessionPhase kPhases[] = {
    SessionPhase::kPrepare, SessionPhase::kRace, SessionPhase::kConfirm,
    SessionPhase::kAudit, SessionPhase::kRecheck};

// Bytes of the database with its write-ahead log.
double DatabaseBytes(const std::string& path) {
  double bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const auto size =
        std::filesystem::file_size(absl::StrCat(path, suffix), error);
    if (!error) bytes += static_cast<double>(size);
  }
  return bytes;
}

}  // namespace

void MetricsPage::CollectQueue(MetricFamilies& families) const {
  const QueueReading queue = sources_.queue();
  AddGauge(families, "hone_tune_queue_length", "Jobs that wait.",
           static_cast<double>(queue.queued));
  AddGauge(families, "hone_tune_queue_limit",
           "Jobs that may wait; more are refused.",
           static_cast<double>(queue.limit));
  prometheus::MetricFamily& running =
      AddFamily(families, "hone_tune_running",
                "1 for the kind and phase of the job that runs, else 0.",
                MetricType::Gauge);
  for (const JobKind kind : kJobKinds) {
    for (const SessionPhase phase : kPhases) {
      if (kind != JobKind::kAudit && phase == SessionPhase::kAudit) continue;
      if ((kind == JobKind::kRecheck) != (phase == SessionPhase::kRecheck))
        continue;
      const bool now = queue.running && queue.running->kind == kind &&
                       queue.running->progress.phase == phase;
      AddValue(running,
               {{"kind", std::string(ToString(kind))},
                {"phase", std::string(ToString(phase))}},
               now ? 1 : 0);
    }
  }
  const SessionProgress progress =
      queue.running ? queue.running->progress : SessionProgress();
  AddGauge(
      families, "hone_tune_progress_ratio",
      "Steps done of the job that runs, over all its steps; 0 without one.",
      static_cast<double>(progress.done) /
          static_cast<double>(std::max<int64_t>(1, progress.total)));
  AddGauge(families, "hone_tune_elapsed_seconds",
           "Run time of the job that runs; 0 without one.",
           absl::ToDoubleSeconds(progress.elapsed));
  AddGauge(families, "hone_tune_remaining_seconds",
           "Estimated rest of the job that runs; 0 without one.",
           absl::ToDoubleSeconds(progress.eta));
}

void MetricsPage::CollectDevice(MetricFamilies& families) const {
  if (sources_.device.has_value()) {
    const DeviceSpec& device = *sources_.device;
    AddValue(AddFamily(families, "hone_device_info",
                       "1, with what names the device.", MetricType::Gauge),
             {{"name", device.name},
              {"uuid", device.uuid},
              {"kind", device.modelled() ? "modelled" : "measured"}},
             1);
  }
  AddGauge(families, "hone_device_can_tune",
           "1 when tunes can run now, else 0; lookups always can.",
           sources_.can_tune().ok() ? 1 : 0);
  const ExecutorHealth health = sources_.health();
  AddGauge(families, "hone_device_quarantined",
           "1 when the device failed and honed measures nothing on it.",
           health.quarantine.empty() ? 0 : 1);
  AddCounter(families, "hone_worker_starts_total",
             "Worker processes started on the device.",
             static_cast<double>(health.workers_started));
  AddCounter(families, "hone_worker_losses_total",
             "Worker processes that ended or were killed before honed ended.",
             static_cast<double>(health.workers_lost));
  AddCounter(families, "hone_sentinel_failures_total",
             "Fresh workers that failed the sentinel kernel.",
             static_cast<double>(health.sentinel_failures));
}

void MetricsPage::CollectGpu(MetricFamilies& families) const {
  if (sources_.gpu == nullptr) return;
  const std::optional<GpuReading> reading = sources_.gpu->Read();
  AddGauge(families, "hone_gpu_nvml_up",
           "1 when NVML tells of the GPU, else 0 and there is no hone_gpu_*.",
           reading.has_value() ? 1 : 0);
  if (!reading.has_value()) return;
  const auto gauge = [&](const char* name, const char* help,
                         const std::optional<int64_t>& value, double unit) {
    if (value.has_value())
      AddGauge(families, name, help, static_cast<double>(*value) * unit);
  };
  gauge("hone_gpu_sm_clock_hertz", "SM clock.", reading->sm_clock_mhz, 1e6);
  gauge("hone_gpu_power_watts", "Power drawn.", reading->power_mw, 1e-3);
  gauge("hone_gpu_power_limit_watts", "Power limit.", reading->power_limit_mw,
        1e-3);
  gauge("hone_gpu_temperature_celsius", "Temperature of the die.",
        reading->temperature_celsius, 1);
  gauge("hone_gpu_memory_used_bytes", "Device memory in use, by anybody.",
        reading->memory_used_bytes, 1);
  if (!reading->clocks.has_value()) return;
  prometheus::MetricFamily& limited =
      AddFamily(families, "hone_gpu_clocks_limited",
                "1 for each reason that holds the clocks down now, else 0.",
                MetricType::Gauge);
  const ClockEvents& clocks = *reading->clocks;
  const std::pair<const char*, bool> reasons[] = {
      {"power_cap", clocks.power_cap},
      {"hardware", clocks.hardware},
      {"hardware_thermal", clocks.hardware_thermal},
      {"power_brake", clocks.power_brake},
      {"software_thermal", clocks.software_thermal}};
  for (const auto& [reason, now] : reasons)
    AddValue(limited, {{"reason", reason}}, now ? 1 : 0);
}

void MetricsPage::CollectDatabase(MetricFamilies& families) const {
  const TablesReading tables = sources_.tables();
  AddGauge(families, "hone_database_revision",
           "Revision of the published tables; 0 before the first.",
           static_cast<double>(tables.revision));
  AddGauge(families, "hone_database_size_bytes",
           "The database with its write-ahead log.",
           DatabaseBytes(sources_.database));
  prometheus::MetricFamily& family = AddFamily(
      families, "hone_tables",
      "Tables that answer lookups. stale: of other kernel sources than this "
      "honed's. verified: tuned or checked on this device.",
      MetricType::Gauge);
  const struct {
    const char* freshness;
    const char* verified;
    int64_t count;
  } kinds[] = {{"fresh", "true", tables.fresh_verified},
               {"fresh", "false", tables.fresh_unverified},
               {"stale", "true", tables.stale_verified},
               {"stale", "false", tables.stale_unverified}};
  for (const auto& kind : kinds) {
    AddValue(family,
             {{"freshness", kind.freshness}, {"verified", kind.verified}},
             static_cast<double>(kind.count));
  }
}

std::string MetricsPage::Render() const {
  MetricFamilies families;
  AddValue(AddFamily(families, "hone_build_info", "1, with honed's version.",
                     MetricType::Gauge),
           {{"version", sources_.version}}, 1);
  sources_.events->Collect(families);
  CollectQueue(families);
  CollectDevice(families);
  CollectGpu(families);
  CollectDatabase(families);
  CollectProcess(families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace hone
