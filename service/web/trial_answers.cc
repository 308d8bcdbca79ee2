// The trials of a problem, one of them whole, and the source of a config.
#include <algorithm>
#include <limits>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "service/server/lookup.h"
#include "service/web/answers.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

// As the evidence of tables.
constexpr double kIntervalAlpha = 0.05;

// What serves one M, or would.
struct Best {
  std::string config;
  bool from_table = false;
  int64_t median_ns = 0;
};

// The trials that say how fast a config is at one M: the newest measured one
// with an interval, as on the page (dashboards/web/src/trials.ts).
std::vector<size_t> Speaking(const TrialColumns& trials) {
  const auto measured =
      std::find(trials.outcomes.begin(), trials.outcomes.end(), "measured") -
      trials.outcomes.begin();
  absl::flat_hash_map<std::pair<int64_t, int64_t>, size_t> speaking;
  // From the newest.
  for (size_t i = trials.id.size(); i-- > 0;) {
    if (trials.outcome[i] != measured || trials.median_ns[i] <= 0 ||
        trials.low_ns[i] <= 0) {
      continue;
    }
    speaking.try_emplace({trials.m[i], trials.config[i]}, i);
  }
  std::vector<size_t> list;
  for (const auto& [subject, i] : speaking) list.push_back(i);
  std::sort(list.begin(), list.end());
  return list;
}

// By M with trials: the answering table's where it is legal and has evidence of
// this M by the same protocol, else the fastest that was measured.
std::map<int64_t, Best> BestByM(const TrialColumns& trials,
                                const std::vector<StoredTable>& tables) {
  std::map<int64_t, Best> best;
  for (const int64_t m : trials.m) best[m];
  for (const size_t i : Speaking(trials)) {
    Best& at_m = best[trials.m[i]];
    if (at_m.median_ns > 0 && at_m.median_ns <= trials.median_ns[i]) continue;
    at_m.config = trials.configs[static_cast<size_t>(trials.config[i])];
    at_m.median_ns = trials.median_ns[i];
  }
  for (const StoredTable& stored : tables) {
    const DispatchTable& table = stored.table;
    if (!(table.protocol == trials.protocol) ||
        !AllLegal(table, table.problem, table.device)) {
      continue;
    }
    for (const TableEntry& entry : table.entries) {
      for (const Evidence& evidence : entry.evidence) {
        const auto at_m = best.find(evidence.m);
        if (at_m == best.end() || evidence.samples == 0) continue;
        at_m->second.config = entry.config.ToString();
        at_m->second.from_table = true;
      }
    }
  }
  return best;
}

void WriteTrials(JsonWriter& json, const TrialColumns& trials) {
  std::vector<int64_t> clock_mhz;
  clock_mhz.reserve(trials.clock_khz.size());
  for (const int64_t khz : trials.clock_khz)
    clock_mhz.push_back((khz + 500) / 1000);
  json.Key("trials")
      .BeginObject()
      .Column("id", trials.id)
      .Column("config", trials.config)
      .Column("m", trials.m)
      .Column("outcome", trials.outcome)
      .ColumnOrNull("median_ns", trials.median_ns)
      .ColumnOrNull("low_ns", trials.low_ns)
      .ColumnOrNull("high_ns", trials.high_ns)
      .Column("samples", trials.samples)
      .Column("session", trials.session)
      .Column("device", trials.device)
      .Column("kernel", trials.kernel)
      .Column("unix_us", trials.unix_us)
      .Column("clock_mhz", clock_mhz)
      .EndObject();
}

void WritePoint(JsonWriter& json, int64_t m, const Floors& floors) {
  json.BeginObject()
      .Field("m", m)
      .Field("bytes", floors.bytes)
      .Field("operations", floors.operations)
      .Field("bytes_floor_ns", floors.bytes_ns())
      .Field("mma_floor_ns", floors.mma_ns())
      .EndObject();
}

}  // namespace

absl::StatusOr<HttpResponse> TrialsAnswer(const WebParts& parts,
                                          const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(const QueryFields fields,
                        QueryFields::Of(request, {"problem", "class"}));
  HONE_ASSIGN_OR_RETURN(const std::string class_hash, fields.Hash("class"));
  HONE_ASSIGN_OR_RETURN(const std::string problem_hash, fields.Hash("problem"));
  HttpResponse unchanged;
  Problem problem;
  DeviceSpec device;
  TrialColumns trials;
  std::vector<StoredTable> tables;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        HONE_ASSIGN_OR_RETURN(unchanged.etag, EtagOf(parts, store));
        if (EtagMatches(request.if_none_match, unchanged.etag)) {
          unchanged.status = 304;
          return absl::OkStatus();
        }
        HONE_ASSIGN_OR_RETURN(device, DeviceOfClass(parts, store, class_hash));
        HONE_ASSIGN_OR_RETURN(problem, ProblemOf(store, problem_hash));
        HONE_ASSIGN_OR_RETURN(
            trials, store.Trials(problem_hash, class_hash, kMostTrials));
        HONE_ASSIGN_OR_RETURN(tables, store.Tables(class_hash, problem_hash));
        return absl::OkStatus();
      }));
  if (unchanged.status == 304) return unchanged;

  const std::map<int64_t, Best> best = BestByM(trials, tables);
  absl::flat_hash_map<std::string, int64_t> index;
  for (size_t i = 0; i < trials.configs.size(); ++i)
    index.emplace(trials.configs[i], static_cast<int64_t>(i));
  // A table may serve what another store measured.
  for (const auto& [m, at_m] : best) {
    if (at_m.config.empty()) continue;
    if (index.emplace(at_m.config, std::ssize(trials.configs)).second)
      trials.configs.push_back(at_m.config);
  }
  JsonWriter json;
  json.BeginObject()
      .Field("problem", problem_hash)
      .Field("label", ProblemLabel(problem))
      .Field("class", class_hash)
      .Field("protocol", trials.protocol.ToString())
      .Field("other_protocols", trials.others)
      .Field("older_trials", trials.older)
      .Field("modelled", device.modelled())
      .Column("configs", trials.configs)
      .Column("outcomes", trials.outcomes)
      .Column("sessions", trials.sessions)
      .Column("kernels", trials.kernels)
      .Key("devices")
      .BeginArray();
  for (const DeviceSpec& state : trials.devices) WriteState(json, state);
  json.EndArray();
  WriteTrials(json, trials);
  json.Key("points").BeginArray();
  for (const auto& [m, at_m] : best)
    WritePoint(json, m, FloorsOf(problem, device, m));
  json.EndArray().Key("best").BeginArray();
  for (const auto& [m, at_m] : best) {
    json.BeginObject().Field("m", m).Key("config");
    if (at_m.config.empty()) {
      json.Null();
    } else {
      json.Value(index.at(at_m.config));
    }
    json.Field("from", at_m.from_table ? "table" : "trials").EndObject();
  }
  json.EndArray().EndObject();
  HttpResponse response = JsonAnswer(std::move(json));
  response.etag = unchanged.etag;
  return response;
}

absl::StatusOr<HttpResponse> TrialAnswer(const WebParts& parts,
                                         const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(const QueryFields fields,
                        QueryFields::Of(request, {"id"}));
  HONE_ASSIGN_OR_RETURN(
      const std::optional<int64_t> id,
      fields.Int("id", 1, std::numeric_limits<int64_t>::max()));
  if (!id) return FieldError("id", "is missing");
  BrowsedTrial browsed;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        absl::StatusOr<BrowsedTrial> found = store.TrialById(*id);
        if (absl::IsNotFound(found.status()))
          return FieldNotFound("id", found.status().message());
        HONE_RETURN_IF_ERROR(found.status());
        browsed = *std::move(found);
        return absl::OkStatus();
      }));
  const Trial& trial = browsed.trial;
  const CompileInfo& compile = trial.compile;
  // Its bounds are infinite, and so null, without enough samples.
  const MedianInterval interval =
      FixedMedianInterval(Durations(trial.samples), kIntervalAlpha);
  JsonWriter json;
  json.BeginObject().Field("id", *id);
  WriteProblem(json, trial.problem);
  json.Field("class", browsed.device.ClassHash())
      .Field("modelled", browsed.device.modelled())
      .Field("m", trial.m)
      .Field("config", trial.config.ToString())
      .Field("outcome", ToString(trial.outcome))
      .Field("detail", trial.detail)
      .Field("gate", ToString(trial.gate))
      .Field("relative_norm", trial.error.relative_norm)
      .Field("worst_ratio", trial.error.worst_ratio)
      .FieldOrNull("median_ns", trial.median_ns)
      .Field("low_ns", interval.low)
      .Field("high_ns", interval.high)
      .Field("session", trial.session_id)
      .Field("unix_us", trial.unix_us);
  WriteDevice(json, "device", browsed.device);
  json.Field("protocol", browsed.protocol.ToString())
      .Key("compile")
      .BeginObject()
      .Field("cubin_hash", compile.cubin_hash)
      .Field("kernel_id", compile.kernel_id)
      .Field("nvrtc", compile.nvrtc_version)
      .Field("registers", compile.registers)
      .Field("spill_bytes", compile.spill_bytes)
      .Field("stack_bytes", compile.stack_bytes)
      .Field("smem_bytes", compile.smem_bytes)
      .Field("compile_ms", compile.compile_ms)
      .EndObject()
      .Key("samples")
      .BeginArray();
  for (const Sample& sample : trial.samples) {
    json.BeginArray()
        .Value(sample.duration_ns)
        .Value((sample.sm_clock_khz + 500) / 1000)
        .Value(sample.round)
        .EndArray();
  }
  json.EndArray().EndObject();
  return JsonAnswer(std::move(json));
}

absl::StatusOr<HttpResponse> SourceAnswer(const WebParts& parts,
                                          const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(
      const QueryFields fields,
      QueryFields::Of(request, {"problem", "class", "config"}));
  HONE_ASSIGN_OR_RETURN(const std::string class_hash, fields.Hash("class"));
  HONE_ASSIGN_OR_RETURN(const std::string problem_hash, fields.Hash("problem"));
  HONE_ASSIGN_OR_RETURN(const std::string text, fields.Text("config"));
  const absl::StatusOr<TuningConfig> config = TuningConfig::Parse(text);
  if (!config.ok()) return FieldError("config", config.status().message());
  Problem problem;
  DeviceSpec device;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        HONE_ASSIGN_OR_RETURN(device, DeviceOfClass(parts, store, class_hash));
        HONE_ASSIGN_OR_RETURN(problem, ProblemOf(store, problem_hash));
        return absl::OkStatus();
      }));
  const absl::StatusOr<RenderedKernel> kernel =
      RenderKernel(problem, *config, device);
  if (!kernel.ok()) return FieldError("config", kernel.status().message());
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = kernel->source;
  return response;
}

}  // namespace hone
