// Which layers the store knows, their tables, and how far they cover models.
#include <cmath>
#include <limits>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "kernels/config/status_macros.h"
#include "service/models/layer_file.h"
#include "service/web/answers.h"

namespace hone {
namespace {

bool IsStale(const WebParts& parts, const StoredTable& stored) {
  return stored.table.source_closure != parts.source_closure;
}

int64_t KernelCount(const DispatchTable& table) {
  std::set<std::string> kernels;
  for (const TableEntry& entry : table.entries)
    kernels.insert(entry.config.ToString());
  return std::ssize(kernels);
}

// Of default over winner, geometric mean over all M with evidence of both; NaN
// without any.
double MeanSpeedup(const DispatchTable& table) {
  double sum = 0;
  int64_t count = 0;
  for (const TableEntry& entry : table.entries) {
    for (const Evidence& evidence : entry.evidence) {
      if (evidence.median_ns <= 0 || evidence.default_median_ns <= 0) continue;
      sum += std::log(static_cast<double>(evidence.default_median_ns) /
                      static_cast<double>(evidence.median_ns));
      ++count;
    }
  }
  return count == 0 ? std::nan("") : std::exp(sum / static_cast<double>(count));
}

// "revision", "origin", "verified", "stale", "gate" and "tuned_us".
void WriteStanding(JsonWriter& json, const WebParts& parts,
                   const StoredTable& stored) {
  json.Field("revision", stored.revision)
      .Field("origin", ToString(stored.origin))
      .Field("verified", stored.verified)
      .Field("stale", IsStale(parts, stored))
      .Field("gate", ToString(stored.table.gate))
      .Field("tuned_us", stored.table.unix_us);
}

void WriteEvidence(JsonWriter& json, const Evidence& evidence) {
  json.BeginObject()
      .Field("m", evidence.m)
      .Field("samples", evidence.samples)
      .FieldOrNull("median_ns", evidence.median_ns)
      .FieldOrNull("low_ns", evidence.low_ns)
      .FieldOrNull("high_ns", evidence.high_ns)
      .FieldOrNull("default_median_ns", evidence.default_median_ns)
      .Field("margin", evidence.margin)
      .Field("floor_ns", evidence.floor_ns)
      .Column("ties", evidence.ties)
      .EndObject();
}

void WriteEntry(JsonWriter& json, const TableEntry& entry) {
  const CompileInfo& compile = entry.compile;
  json.BeginObject()
      .Field("m_lo", entry.m_lo)
      .Field("m_hi", entry.m_hi)
      .Field("config", entry.config.ToString())
      .Field("kernel_id", compile.kernel_id)
      .Field("registers", compile.registers)
      .Field("spill_bytes", compile.spill_bytes)
      .Field("smem_bytes", compile.smem_bytes)
      .Field("compile_ms", compile.compile_ms)
      .Field("nvrtc", compile.nvrtc_version)
      .Key("evidence")
      .BeginArray();
  for (const Evidence& evidence : entry.evidence) WriteEvidence(json, evidence);
  json.EndArray().EndObject();
}

// The tables that answer on a class, by their problem's hash.
using TablesByProblem = absl::flat_hash_map<std::string, StoredTable>;
absl::StatusOr<TablesByProblem> TablesOn(const StoreSnapshot& store,
                                         absl::string_view class_hash) {
  HONE_ASSIGN_OR_RETURN(std::vector<StoredTable> tables,
                        store.Tables(class_hash));
  TablesByProblem by_problem;
  for (StoredTable& stored : tables) {
    std::string hash = stored.table.problem.Hash();
    by_problem.emplace(std::move(hash), std::move(stored));
  }
  return by_problem;
}

}  // namespace

absl::StatusOr<HttpResponse> ProblemsAnswer(const WebParts& parts,
                                            const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(const QueryFields fields,
                        QueryFields::Of(request, {"class"}));
  HONE_ASSIGN_OR_RETURN(const std::string class_hash, fields.Hash("class"));
  std::vector<BrowsedProblem> problems;
  TablesByProblem tables;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        HONE_RETURN_IF_ERROR(DeviceOfClass(parts, store, class_hash).status());
        HONE_ASSIGN_OR_RETURN(problems, store.Problems(class_hash));
        HONE_ASSIGN_OR_RETURN(tables, TablesOn(store, class_hash));
        return absl::OkStatus();
      }));
  JsonWriter json;
  json.BeginArray();
  for (const BrowsedProblem& browsed : problems) {
    const LayerConfig& layer = browsed.problem.layer;
    json.BeginObject();
    WriteProblem(json, browsed.problem);
    json.Field("n", layer.n)
        .Field("k", layer.k)
        .Field("a", layer.a.ToString())
        .Field("b", layer.b.ToString())
        .Field("scale", ToString(layer.b_scale))
        .Field("group", layer.b_group)
        .Field("trials", browsed.trials)
        .Column("measured_m", browsed.measured_m);
    json.Key("table");
    if (const auto found = tables.find(browsed.hash); found != tables.end()) {
      json.BeginObject();
      WriteStanding(json, parts, found->second);
      json.Field("kernels", KernelCount(found->second.table))
          .Field("geo_mean_speedup", MeanSpeedup(found->second.table))
          .EndObject();
    } else {
      json.Null();
    }
    json.EndObject();
  }
  json.EndArray();
  return JsonAnswer(std::move(json));
}

absl::StatusOr<HttpResponse> TableAnswerOf(const WebParts& parts,
                                           const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(
      const QueryFields fields,
      QueryFields::Of(request, {"problem", "class", "revision"}));
  HONE_ASSIGN_OR_RETURN(const std::string class_hash, fields.Hash("class"));
  HONE_ASSIGN_OR_RETURN(const std::string problem_hash, fields.Hash("problem"));
  HONE_ASSIGN_OR_RETURN(
      const std::optional<int64_t> revision,
      fields.Int("revision", 0, std::numeric_limits<int64_t>::max()));
  std::vector<StoredTable> tables;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        HONE_RETURN_IF_ERROR(DeviceOfClass(parts, store, class_hash).status());
        HONE_RETURN_IF_ERROR(ProblemOf(store, problem_hash).status());
        absl::StatusOr<std::vector<StoredTable>> found =
            store.Tables(class_hash, problem_hash, revision);
        if (absl::IsOutOfRange(found.status()))
          return FieldError("revision", found.status().message());
        HONE_RETURN_IF_ERROR(found.status());
        tables = *std::move(found);
        return absl::OkStatus();
      }));
  if (tables.empty()) {
    return FieldNotFound(
        "problem", revision ? "has no table on this class at that revision"
                            : "has no table on this class");
  }
  const StoredTable& stored = tables.front();
  const DispatchTable& table = stored.table;
  JsonWriter json;
  json.BeginObject();
  WriteProblem(json, table.problem);
  json.Field("class", class_hash);
  WriteDevice(json, "device", table.device);
  json.Field("modelled", table.device.modelled());
  WriteStanding(json, parts, stored);
  json.Field("protocol", table.protocol.ToString())
      .Field("source_closure", table.source_closure)
      .Field("session", table.session_id)
      .Column("ladder", table.ladder)
      .Key("entries")
      .BeginArray();
  for (const TableEntry& entry : table.entries) WriteEntry(json, entry);
  json.EndArray().Key("trade_off").BeginArray();
  for (const TradeOffPoint& point : table.trade_off) {
    json.BeginObject()
        .Field("kernels", point.kernels)
        .Field("worst_regret", point.worst_regret)
        .Field("mean_regret", point.mean_regret)
        .Field("compile_ms", point.compile_ms)
        .Field("proven", point.proven)
        .EndObject();
  }
  json.EndArray().EndObject();
  return JsonAnswer(std::move(json));
}

absl::StatusOr<HttpResponse> CoverageAnswer(const WebParts& parts,
                                            const HttpRequest& request) {
  HONE_ASSIGN_OR_RETURN(const QueryFields fields,
                        QueryFields::Of(request, {"class", "tp"}));
  HONE_ASSIGN_OR_RETURN(const std::string class_hash, fields.Hash("class"));
  LayerFileOptions options;
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> ranks,
                        fields.Int("tp", 1, 1024));
  options.tensor_parallel = ranks.value_or(1);
  TablesByProblem tables;
  HONE_RETURN_IF_ERROR(
      parts.store->Browse([&](const StoreSnapshot& store) -> absl::Status {
        HONE_RETURN_IF_ERROR(DeviceOfClass(parts, store, class_hash).status());
        HONE_ASSIGN_OR_RETURN(tables, TablesOn(store, class_hash));
        return absl::OkStatus();
      }));
  JsonWriter json;
  json.BeginArray();
  for (const auto& [name, text] : ShippedLayerFiles()) {
    const absl::StatusOr<std::vector<ModelLayer>> layers =
        ParseLayerFile(name, text, options);
    if (!layers.ok()) return FieldError("tp", layers.status().message());
    json.BeginObject()
        .Field("model", layers->front().model)
        .Key("layers")
        .BeginArray();
    for (const ModelLayer& layer : *layers) {
      const auto found = tables.find(layer.problem.Hash());
      const StoredTable* stored =
          found == tables.end() ? nullptr : &found->second;
      json.BeginObject().Field("name", layer.name);
      WriteProblem(json, layer.problem);
      json.Field("count", layer.count)
          .Field("state", stored == nullptr         ? "missing"
                          : IsStale(parts, *stored) ? "stale"
                                                    : "exact")
          .Key("revision");
      if (stored == nullptr) {
        json.Null();
      } else {
        json.Value(stored->revision);
      }
      json.Field("kernels",
                 stored == nullptr ? int64_t{0} : KernelCount(stored->table))
          .EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray();
  return JsonAnswer(std::move(json));
}

}  // namespace hone
