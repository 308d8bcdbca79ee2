// What honed is doing, and which devices the store knows.
#include <algorithm>

#include "kernels/config/status_macros.h"
#include "service/web/answers.h"

namespace hone {
namespace {

absl::string_view StateText(TuneState state) {
  switch (state) {
    case TuneState::kQueued:
      return "queued";
    case TuneState::kRunning:
      return "running";
    case TuneState::kSucceeded:
      return "succeeded";
    case TuneState::kFailed:
      return "failed";
    case TuneState::kCancelled:
      return "cancelled";
  }
  return "";
}

void WriteJob(JsonWriter& json, const TuneSnapshot& job) {
  const SessionProgress& progress = job.progress;
  json.BeginObject()
      .Field("id", job.tune_id)
      .Field("kind", ToString(job.kind))
      // A recheck of all tables is of no one problem.
      .Field("problem", job.problem ? job.problem->Hash() : "")
      .Field("problem_text", job.problem ? job.problem->ToString() : "")
      .Field("label", job.problem ? ProblemLabel(*job.problem) : "all tables")
      .Field("state", StateText(job.state))
      .Field("phase", ToString(progress.phase))
      .Field("done", progress.done)
      .Field("total", progress.total)
      .Field("elapsed_ns", absl::ToInt64Nanoseconds(progress.elapsed))
      .Field("eta_ns", absl::ToInt64Nanoseconds(progress.eta))
      .Field("trials", progress.trials)
      .Field("reused", progress.reused)
      .Field("failed", progress.failed)
      .FieldOrNull("m", progress.m)
      .Field("best_config", progress.best_config)
      .FieldOrNull("best_ns", progress.best_ns)
      .FieldOrNull("default_ns", progress.default_ns)
      .Field("error", job.error.message())
      .Field("submitted_us", absl::ToUnixMicros(job.submitted))
      .EndObject();
}

void WriteClass(JsonWriter& json, const BrowsedClass& browsed) {
  const DeviceSpec& newest = browsed.devices.back();
  json.BeginObject()
      .Field("class", browsed.hash)
      .Field("name", newest.name)
      .Field("modelled", newest.modelled())
      .Field("sm_arch", newest.sm_arch)
      .Field("sm_count", newest.sm_count)
      .Key("devices")
      .BeginArray();
  for (const DeviceSpec& device : browsed.devices) {
    json.BeginObject()
        .Field("uuid", device.uuid)
        .Field("driver", device.driver)
        .Field("vbios", device.vbios)
        .FieldOrNull("power_limit_w",
                     static_cast<double>(device.power_limit_mw) / 1e3)
        .EndObject();
  }
  json.EndArray()
      .Field("trials", browsed.trials)
      .Field("tables", browsed.tables)
      .EndObject();
}

}  // namespace

absl::StatusOr<HttpResponse> StatusAnswer(const WebParts& parts,
                                          const HttpRequest& request) {
  HONE_RETURN_IF_ERROR(QueryFields::Of(request, {}).status());
  HONE_ASSIGN_OR_RETURN(const int64_t revision, parts.store->CurrentRevision());
  const absl::Status can_tune = parts.can_tune();
  JsonWriter json;
  json.BeginObject()
      .Field("version", parts.version)
      .Field("source_closure", parts.source_closure)
      .Field("revision", revision)
      .Field("now_us", absl::ToUnixMicros(parts.now()));
  json.Key("unavailable");
  if (can_tune.ok()) {
    json.Null();
  } else {
    json.Value(can_tune.message());
  }
  if (parts.device) {
    WriteDevice(json, "device", *parts.device);
  } else {
    json.Key("device").Null();
  }
  const bool quarantined = absl::IsUnavailable(can_tune);
  const ExecutorHealth health = parts.health();
  json.Key("health")
      .BeginObject()
      .Field("state", !parts.device ? "no device"
                      : quarantined ? "quarantined"
                                    : "ok")
      .Field("detail", can_tune.message())
      .Field("workers_started", health.workers_started)
      .Field("workers_lost", health.workers_lost)
      .Field("sentinel_failures", health.sentinel_failures)
      .EndObject();
  json.Key("jobs").BeginArray();
  for (const TuneSnapshot& job : parts.jobs()) WriteJob(json, job);
  json.EndArray().EndObject();
  return JsonAnswer(std::move(json));
}

absl::StatusOr<HttpResponse> ClassesAnswer(const WebParts& parts,
                                           const HttpRequest& request) {
  HONE_RETURN_IF_ERROR(QueryFields::Of(request, {}).status());
  std::vector<BrowsedClass> classes;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        HONE_ASSIGN_OR_RETURN(classes, store.Classes());
        return absl::OkStatus();
      }));
  // honed's own is there before anything was recorded on it.
  if (parts.device &&
      std::none_of(classes.begin(), classes.end(),
                   [hash = parts.device->ClassHash()](const BrowsedClass& c) {
                     return c.hash == hash;
                   })) {
    classes.push_back({parts.device->ClassHash(), {*parts.device}, 0, 0});
  }
  JsonWriter json;
  json.BeginArray();
  for (const BrowsedClass& browsed : classes) WriteClass(json, browsed);
  json.EndArray();
  return JsonAnswer(std::move(json));
}

}  // namespace hone
