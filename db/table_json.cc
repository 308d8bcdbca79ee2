#include "db/table_json.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/fields.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

// ---- checks ----

// A visitor that keeps the first error.
class FieldCheck {
 public:
  explicit FieldCheck(absl::string_view path) : path_(path) {}

  void operator()(absl::string_view key, bool) {}
  void operator()(absl::string_view key, int64_t value) {
    if (value < 0) Fail(key, absl::StrCat(value), "at least 0");
  }
  void operator()(absl::string_view key, double value) {
    if (!std::isfinite(value)) Fail(key, absl::StrCat(value), "finite");
  }
  void operator()(absl::string_view key, const std::string& value) {
    if (!IsUtf8(value)) Fail(key, "a text", "UTF-8");
  }
  void Hash(absl::string_view key, absl::string_view value) {
    const bool hex = value.find_first_not_of("0123456789abcdef") == value.npos;
    if (value.empty() || (value.size() == 64 && hex)) return;
    Fail(key, absl::StrCat("\"", value, "\""),
         "empty or 64 lower-case hex digits");
  }
  const absl::Status& status() const { return status_; }

 private:
  void Fail(absl::string_view key, absl::string_view value,
            absl::string_view legal) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(path_, key, " is ", value, "; it must be ", legal));
  }
  const std::string path_;
  absl::Status status_;
};

absl::Status Within(absl::string_view path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

absl::Status CheckEntry(const TableEntry& entry, const std::string& path) {
  HONE_RETURN_IF_ERROR(
      Within(absl::StrCat(path, "config"), entry.config.Validate()));
  FieldCheck check(absl::StrCat(path, "compile."));
  VisitKernelFields(entry.compile, check);
  check("compile_ms", entry.compile.compile_ms);
  check.Hash("cubin_hash", entry.compile.cubin_hash);
  check.Hash("kernel_id", entry.compile.kernel_id);
  check.Hash("source_key", entry.compile.source_key);
  HONE_RETURN_IF_ERROR(check.status());
  for (size_t i = 0; i < entry.evidence.size(); ++i) {
    const Evidence& evidence = entry.evidence[i];
    const std::string at = absl::StrCat(path, "evidence[", i, "].");
    FieldCheck fields(at);
    VisitEvidenceFields(evidence, fields);
    HONE_RETURN_IF_ERROR(fields.status());
    for (const std::string& tie : evidence.ties) {
      const absl::StatusOr<TuningConfig> config = TuningConfig::Parse(tie);
      HONE_RETURN_IF_ERROR(Within(absl::StrCat(at, "ties"), config.status()));
      HONE_RETURN_IF_ERROR(
          Within(absl::StrCat(at, "ties"), config->Validate()));
      if (config->ToString() != tie) {
        return absl::InvalidArgumentError(absl::StrCat(
            at, "ties: \"", tie, "\" is not a config's canonical text"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTradeOff(const std::vector<TradeOffPoint>& points) {
  int64_t last = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const TradeOffPoint& point = points[i];
    const std::string at = absl::StrCat("table.trade_off[", i, "].");
    FieldCheck fields(at);
    VisitTradeOffFields(point, fields);
    HONE_RETURN_IF_ERROR(fields.status());
    if (point.kernels <= last) {
      return absl::InvalidArgumentError(
          absl::StrCat(at, "kernels must rise from 1; it is ", point.kernels,
                       " after ", last));
    }
    last = point.kernels;
    if (point.mean_regret < 0 || point.worst_regret < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          at, point.mean_regret < 0 ? "mean_regret" : "worst_regret",
          " must be at least 0"));
    }
  }
  return absl::OkStatus();
}

// ---- writing ----

// A visitor that adds each field to an object.
class FieldWriter {
 public:
  explicit FieldWriter(JsonObject* object) : object_(object) {}
  template <typename T>
  void operator()(absl::string_view key, const T& value) {
    object_->emplace_back(std::string(key), Json(value));
  }

 private:
  JsonObject* const object_;
};

absl::string_view KindText(DeviceKind kind) {
  return kind == DeviceKind::kModelled ? "modelled" : "measured";
}

JsonObject DeviceObject(const DeviceSpec& device) {
  JsonObject object;
  FieldWriter write(&object);
  write("kind", std::string(KindText(device.kind)));
  VisitHardFields(device, write);
  VisitSoftFields(device, write);
  VisitOtherFields(device, write);
  return object;
}

JsonObject EvidenceObject(const Evidence& evidence) {
  JsonObject object;
  FieldWriter write(&object);
  VisitEvidenceFields(evidence, write);
  JsonArray ties;
  for (const std::string& tie : evidence.ties) ties.push_back(Json(tie));
  write("ties", ties);
  return object;
}

JsonObject EntryObject(const TableEntry& entry) {
  JsonObject compile;
  FieldWriter write_compile(&compile);
  VisitKernelFields(entry.compile, write_compile);
  write_compile("compile_ms", entry.compile.compile_ms);
  JsonArray evidence;
  for (const Evidence& e : entry.evidence) {
    evidence.push_back(Json(EvidenceObject(e)));
  }
  JsonObject object;
  FieldWriter write(&object);
  write("m_lo", entry.m_lo);
  write("m_hi", entry.m_hi);
  write("config", entry.config.ToString());
  write("compile", compile);
  write("evidence", evidence);
  return object;
}

// ---- reading ----

// A visitor that takes each field out of an object and keeps the first error.
class FieldReader {
 public:
  explicit FieldReader(JsonFields* fields) : fields_(fields) {}
  template <typename T>
  void operator()(absl::string_view key, T& value) {
    if (status_.ok()) status_ = fields_->Get(key, value);
  }
  const absl::Status& status() const { return status_; }

 private:
  JsonFields* const fields_;
  absl::Status status_;
};

absl::StatusOr<DeviceSpec> ReadDevice(const Json& json) {
  HONE_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, "device."));
  DeviceSpec device;
  std::string kind;
  FieldReader read(&fields);
  read("kind", kind);
  VisitHardFields(device, read);
  VisitSoftFields(device, read);
  VisitOtherFields(device, read);
  HONE_RETURN_IF_ERROR(read.status());
  if (kind != "measured" && kind != "modelled") {
    return absl::InvalidArgumentError(absl::StrCat(
        "device.kind is \"", kind, "\"; it must be measured or modelled"));
  }
  if (kind == "modelled") device.kind = DeviceKind::kModelled;
  HONE_RETURN_IF_ERROR(fields.Finish());
  return device;
}

// The integers or texts of an array.
template <typename T>
absl::StatusOr<std::vector<T>> ReadList(JsonFields& fields,
                                        absl::string_view key,
                                        absl::string_view type) {
  HONE_ASSIGN_OR_RETURN(const JsonArray* array, fields.Array(key));
  std::vector<T> list;
  for (const Json& json : *array) {
    const T* value = std::get_if<T>(&json.value);
    if (value == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          fields.PathOf(key), "[", list.size(), "] must be ", type));
    }
    list.push_back(*value);
  }
  return list;
}

absl::StatusOr<Evidence> ReadEvidence(const Json& json, std::string path) {
  HONE_ASSIGN_OR_RETURN(JsonFields fields,
                        JsonFields::Of(json, std::move(path)));
  Evidence evidence;
  FieldReader read(&fields);
  VisitEvidenceFields(evidence, read);
  HONE_RETURN_IF_ERROR(read.status());
  HONE_ASSIGN_OR_RETURN(evidence.ties,
                        ReadList<std::string>(fields, "ties", "a string"));
  HONE_RETURN_IF_ERROR(fields.Finish());
  return evidence;
}

absl::StatusOr<TableEntry> ReadEntry(const Json& json,
                                     const std::string& path) {
  HONE_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, path));
  TableEntry entry;
  std::string config;
  HONE_RETURN_IF_ERROR(fields.Get("m_lo", entry.m_lo));
  HONE_RETURN_IF_ERROR(fields.Get("m_hi", entry.m_hi));
  HONE_RETURN_IF_ERROR(fields.Get("config", config));
  absl::StatusOr<TuningConfig> parsed = TuningConfig::Parse(config);
  HONE_RETURN_IF_ERROR(Within(fields.PathOf("config"), parsed.status()));
  entry.config = *parsed;

  HONE_ASSIGN_OR_RETURN(const Json* compile_json, fields.Any("compile"));
  HONE_ASSIGN_OR_RETURN(
      JsonFields compile,
      JsonFields::Of(*compile_json, absl::StrCat(path, "compile.")));
  FieldReader read(&compile);
  VisitKernelFields(entry.compile, read);
  read("compile_ms", entry.compile.compile_ms);
  HONE_RETURN_IF_ERROR(read.status());
  HONE_RETURN_IF_ERROR(compile.Finish());

  HONE_ASSIGN_OR_RETURN(const JsonArray* list, fields.Array("evidence"));
  for (size_t i = 0; i < list->size(); ++i) {
    HONE_ASSIGN_OR_RETURN(
        Evidence evidence,
        ReadEvidence((*list)[i], absl::StrCat(path, "evidence[", i, "].")));
    entry.evidence.push_back(std::move(evidence));
  }
  HONE_RETURN_IF_ERROR(fields.Finish());
  return entry;
}

}  // namespace

absl::Status CheckDevice(const DeviceSpec& device) {
  FieldCheck check("device.");
  VisitHardFields(device, check);
  VisitSoftFields(device, check);
  VisitOtherFields(device, check);
  return check.status();
}

absl::Status CheckTable(const DispatchTable& table) {
  HONE_RETURN_IF_ERROR(CheckDevice(table.device));
  HONE_RETURN_IF_ERROR(table.problem.Validate());
  HONE_RETURN_IF_ERROR(Protocol::Parse(table.protocol.ToString()).status());
  FieldCheck check("table.");
  check.Hash("source_closure", table.source_closure);
  check("session_id", table.session_id);
  check("unix_us", table.unix_us);
  HONE_RETURN_IF_ERROR(check.status());
  int64_t last = 0;
  for (const int64_t m : table.ladder) {
    if (m <= last) {
      return absl::InvalidArgumentError(absl::StrCat(
          "table.ladder must rise from 1; it has ", m, " after ", last));
    }
    last = m;
  }
  for (size_t i = 0; i < table.entries.size(); ++i) {
    HONE_RETURN_IF_ERROR(
        CheckEntry(table.entries[i], absl::StrCat("table.entries[", i, "].")));
  }
  HONE_RETURN_IF_ERROR(CheckTradeOff(table.trade_off));
  HONE_RETURN_IF_ERROR(table.Validate());
  if (TableLine(table).size() > kMaxLineBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "table is larger than ", kMaxLineBytes, " bytes as a bundle's line"));
  }
  return absl::OkStatus();
}

std::string DeviceKey(const DeviceSpec& device) {
  return Sha256Hex(WriteJson(Json(DeviceObject(device))));
}

std::string DeviceLine(const DeviceSpec& device) {
  JsonObject object;
  FieldWriter write(&object);
  write("device", DeviceObject(device));
  write("key", DeviceKey(device));
  return WriteJson(Json(std::move(object)));
}

std::string TableLine(const DispatchTable& table) {
  JsonArray entries;
  for (const TableEntry& entry : table.entries) {
    entries.push_back(Json(EntryObject(entry)));
  }
  JsonArray ladder;
  for (const int64_t m : table.ladder) ladder.push_back(Json(m));
  JsonObject object;
  FieldWriter write(&object);
  write("device", DeviceKey(table.device));
  write("problem", table.problem.ToString());
  write("protocol", table.protocol.ToString());
  write("gate", std::string(ToString(table.gate)));
  write("source_closure", table.source_closure);
  write("session_id", table.session_id);
  write("unix_us", table.unix_us);
  write("ladder", ladder);
  write("entries", entries);
  // Left out when empty, so that tables without one keep their text and hash.
  if (!table.trade_off.empty()) {
    JsonArray trade_off;
    for (const TradeOffPoint& point : table.trade_off) {
      JsonObject step;
      FieldWriter write_step(&step);
      VisitTradeOffFields(point, write_step);
      trade_off.push_back(Json(std::move(step)));
    }
    write("trade_off", trade_off);
  }
  return WriteJson(Json(std::move(object)));
}

absl::StatusOr<DeviceSpec> ReadDeviceLine(absl::string_view line) {
  HONE_ASSIGN_OR_RETURN(const Json json, ReadJson(line));
  HONE_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, ""));
  std::string key;
  HONE_RETURN_IF_ERROR(fields.Get("key", key));
  HONE_ASSIGN_OR_RETURN(const Json* spec, fields.Any("device"));
  HONE_ASSIGN_OR_RETURN(DeviceSpec device, ReadDevice(*spec));
  HONE_RETURN_IF_ERROR(fields.Finish());
  if (key != DeviceKey(device)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key is \"", key, "\"; it must be the device's, ", DeviceKey(device)));
  }
  return device;
}

absl::StatusOr<DispatchTable> ReadTableLine(
    absl::string_view line,
    const std::map<std::string, DeviceSpec>& devices_by_key) {
  HONE_ASSIGN_OR_RETURN(const Json json, ReadJson(line));
  HONE_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, ""));
  DispatchTable table;
  std::string device;
  std::string problem;
  std::string protocol;
  std::string gate;
  FieldReader read(&fields);
  read("device", device);
  read("problem", problem);
  read("protocol", protocol);
  read("gate", gate);
  read("source_closure", table.source_closure);
  read("session_id", table.session_id);
  read("unix_us", table.unix_us);
  HONE_RETURN_IF_ERROR(read.status());
  const auto found = devices_by_key.find(device);
  if (found == devices_by_key.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device is \"", device, "\"; it must be the key of a device line"));
  }
  table.device = found->second;
  HONE_ASSIGN_OR_RETURN(table.problem, Problem::Parse(problem));
  HONE_ASSIGN_OR_RETURN(table.protocol, Protocol::Parse(protocol));
  HONE_ASSIGN_OR_RETURN(table.gate, ParseGateKind(gate));
  HONE_ASSIGN_OR_RETURN(table.ladder,
                        ReadList<int64_t>(fields, "ladder", "an integer"));
  HONE_ASSIGN_OR_RETURN(const JsonArray* entries, fields.Array("entries"));
  for (size_t i = 0; i < entries->size(); ++i) {
    HONE_ASSIGN_OR_RETURN(
        TableEntry entry,
        ReadEntry((*entries)[i], absl::StrCat("entries[", i, "].")));
    table.entries.push_back(std::move(entry));
  }
  if (fields.Has("trade_off")) {
    HONE_ASSIGN_OR_RETURN(const JsonArray* steps, fields.Array("trade_off"));
    for (size_t i = 0; i < steps->size(); ++i) {
      HONE_ASSIGN_OR_RETURN(
          JsonFields step,
          JsonFields::Of((*steps)[i], absl::StrCat("trade_off[", i, "].")));
      FieldReader read_step(&step);
      VisitTradeOffFields(table.trade_off.emplace_back(), read_step);
      HONE_RETURN_IF_ERROR(read_step.status());
      HONE_RETURN_IF_ERROR(step.Finish());
    }
  }
  HONE_RETURN_IF_ERROR(fields.Finish());
  return table;
}

}  // namespace hone
