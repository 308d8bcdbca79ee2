#include "db/rows.h"

#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#include "db/fields.h"
#include "db/table_json.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

// The row of `table` with this hash; inserted with `fill`'s columns if new.
absl::StatusOr<int64_t> Intern(sqlite::Database& database,
                               absl::string_view table, const std::string& hash,
                               const std::function<void(NewRow&)>& fill) {
  {
    HONE_ASSIGN_OR_RETURN(sqlite::Statement find,
                          database.Prepare(absl::StrCat(
                              "SELECT id FROM ", table, " WHERE hash = ?")));
    HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(hash).Step());
    if (found) return find.Int(0);
  }
  NewRow row;
  row("hash", hash);
  fill(row);
  return row.InsertInto(database, table);
}

// Little-endian, as every machine that Hone runs on.
template <typename T>
void AppendBytes(T value, std::string& out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// SELECT list of the trial table under the alias t with its config as c and its
// kernel as k, for ReadFields().
std::string TrialFields() {
  return absl::StrCat(
      "t.m, c.text, t.outcome, t.detail, t.gate, t.relative_norm,"
      " t.worst_ratio, t.median_ns, t.session_id, t.unix_us, t.samples,"
      " t.compile_ms, ",
      KernelColumns());
}

absl::StatusOr<Trial> ReadFields(const sqlite::Statement& statement,
                                 const Problem& problem) {
  RowReader row(&statement);
  Trial trial;
  trial.problem = problem;
  trial.m = row.Int();
  absl::StatusOr<TuningConfig> config = TuningConfig::Parse(row.Text());
  HONE_RETURN_IF_ERROR(Unreadable(config.status()));
  trial.config = *config;
  absl::StatusOr<Outcome> outcome = ParseOutcome(row.Text());
  HONE_RETURN_IF_ERROR(Unreadable(outcome.status()));
  trial.outcome = *outcome;
  trial.detail = row.Text();
  absl::StatusOr<GateKind> gate = ParseGateKind(row.Text());
  HONE_RETURN_IF_ERROR(Unreadable(gate.status()));
  trial.gate = *gate;
  trial.error.relative_norm = row.Real();
  trial.error.worst_ratio = row.Real();
  trial.median_ns = row.Int();
  trial.session_id = row.Text();
  trial.unix_us = row.Int();
  trial.samples = UnpackSamples(row.Blob());
  const int64_t compile_ms = row.Int();
  trial.compile = ReadKernel(row);
  trial.compile.compile_ms = compile_ms;
  return trial;
}

}  // namespace

std::string PackSamples(const std::vector<Sample>& samples) {
  std::string bytes;
  bytes.reserve(samples.size() * kSampleBytes);
  for (const Sample& sample : samples) {
    AppendBytes(sample.duration_ns, bytes);
    AppendBytes(sample.sm_clock_khz, bytes);
    AppendBytes(sample.round, bytes);
  }
  return bytes;
}

std::vector<Sample> UnpackSamples(const std::string& bytes) {
  std::vector<Sample> samples(bytes.size() / kSampleBytes);
  const char* at = bytes.data();
  for (Sample& sample : samples) {
    std::memcpy(&sample.duration_ns, at, 8);
    std::memcpy(&sample.sm_clock_khz, at + 8, 8);
    std::memcpy(&sample.round, at + 16, 4);
    at += kSampleBytes;
  }
  return samples;
}

absl::StatusOr<int64_t> NewRow::InsertInto(sqlite::Database& database,
                                           absl::string_view table) const {
  std::string names;
  std::string marks;
  for (const auto& [column, value] : columns_) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", column);
    absl::StrAppend(&marks, marks.empty() ? "?" : ", ?");
  }
  HONE_ASSIGN_OR_RETURN(
      sqlite::Statement insert,
      database.Prepare(absl::StrCat("INSERT INTO ", table, " (", names,
                                    ") VALUES (", marks, ")")));
  for (const auto& [column, value] : columns_) {
    std::visit(
        [&insert](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, Bytes>) {
            insert.BindBlob(v.bytes);
          } else {
            insert.Bind(v);
          }
        },
        value);
  }
  HONE_RETURN_IF_ERROR(insert.Run());
  return database.last_insert_id();
}

double RowReader::Real() {
  const int column = column_++;
  return statement_->IsNull(column) ? std::numeric_limits<double>::quiet_NaN()
                                    : statement_->Real(column);
}

absl::Status Unreadable(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::DataLossError(
      absl::StrCat("a stored value does not read back: ", status.message()));
}

absl::StatusOr<DeviceIds> InternDevice(sqlite::Database& database,
                                       const DeviceSpec& device) {
  HONE_RETURN_IF_ERROR(CheckDevice(device));
  DeviceIds ids;
  HONE_ASSIGN_OR_RETURN(
      ids.device_class,
      Intern(database, "device_class", device.ClassHash(), [&](NewRow& row) {
        row("text", device.ClassText());
        row("kind", device.modelled() ? "modelled" : "measured");
        row("model", device.modelled() ? device.uuid : "");
        VisitHardFields(device, row);
      }));
  HONE_ASSIGN_OR_RETURN(
      ids.device,
      Intern(database, "device", DeviceKey(device), [&](NewRow& row) {
        row("device_class", ids.device_class);
        row("soft", device.SoftText());
        VisitSoftFields(device, row);
        VisitOtherFields(device, row);
      }));
  return ids;
}

absl::StatusOr<int64_t> InternProblem(sqlite::Database& database,
                                      const Problem& problem) {
  return Intern(database, "problem", problem.Hash(), [&](NewRow& row) {
    const LayerConfig& layer = problem.layer;
    row("text", problem.ToString());
    row("n", layer.n);
    row("k", layer.k);
    row("experts", layer.experts);
    row("a", layer.a.ToString());
    row("b", layer.b.ToString());
    row("c", layer.c.ToString());
    row("b_scale", ToString(layer.b_scale));
    row("b_group", layer.b_group);
    row("gemm", ToString(problem.compute.gemm));
  });
}

absl::StatusOr<int64_t> InternProtocol(sqlite::Database& database,
                                       const Protocol& protocol) {
  return Intern(database, "protocol", protocol.Hash(),
                [&](NewRow& row) { row("text", protocol.ToString()); });
}

absl::StatusOr<int64_t> InternConfig(sqlite::Database& database,
                                     absl::string_view text) {
  return Intern(database, "config", Sha256Hex(text),
                [&](NewRow& row) { row("text", text); });
}

absl::StatusOr<int64_t> InternKernel(sqlite::Database& database,
                                     const CompileInfo& compile) {
  JsonObject fields;
  VisitKernelFields(compile, [&](absl::string_view name, const auto& value) {
    fields.emplace_back(std::string(name), Json(value));
  });
  return Intern(database, "kernel",
                Sha256Hex(WriteJson(Json(std::move(fields)))),
                [&](NewRow& row) { VisitKernelFields(compile, row); });
}

absl::StatusOr<DeviceSpec> ReadDevice(sqlite::Database& database, int64_t id) {
  static const auto* sql = [] {
    const DeviceSpec any;
    ColumnNames hard("c");
    ColumnNames own("d");
    VisitHardFields(any, hard);
    VisitSoftFields(any, own);
    VisitOtherFields(any, own);
    return new std::string(absl::StrCat(
        "SELECT c.kind, ", hard.list(), ", ", own.list(),
        " FROM device d JOIN device_class c ON c.id = d.device_class"
        " WHERE d.id = ?"));
  }();
  HONE_ASSIGN_OR_RETURN(sqlite::Statement select, database.Prepare(*sql));
  HONE_ASSIGN_OR_RETURN(const bool found, select.Bind(id).Step());
  if (!found) return absl::DataLossError(absl::StrCat("no device ", id));
  DeviceSpec device;
  RowReader row(&select);
  device.kind =
      row.Text() == "modelled" ? DeviceKind::kModelled : DeviceKind::kMeasured;
  VisitHardFields(device, row);
  VisitSoftFields(device, row);
  VisitOtherFields(device, row);
  return device;
}

absl::StatusOr<int64_t> FindRow(sqlite::Database& database,
                                absl::string_view table,
                                absl::string_view hash) {
  HONE_ASSIGN_OR_RETURN(sqlite::Statement find,
                        database.Prepare(absl::StrCat("SELECT id FROM ", table,
                                                      " WHERE hash = ?")));
  HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(hash).Step());
  return found ? find.Int(0) : 0;
}

absl::StatusOr<std::string> ReadText(sqlite::Database& database,
                                     absl::string_view table,
                                     absl::string_view column, int64_t id) {
  HONE_ASSIGN_OR_RETURN(sqlite::Statement find, database.Prepare(absl::StrCat(
                                                    "SELECT ", column, " FROM ",
                                                    table, " WHERE id = ?")));
  HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(id).Step());
  if (!found) return absl::DataLossError(absl::StrCat("no ", table, " ", id));
  return find.Text(0);
}

absl::StatusOr<Problem> ParseProblem(const std::string& text) {
  absl::StatusOr<Problem> problem = Problem::Parse(text);
  HONE_RETURN_IF_ERROR(Unreadable(problem.status()));
  return problem;
}

const std::string& KernelColumns() {
  static const auto* list = [] {
    const CompileInfo any;
    ColumnNames names("k");
    VisitKernelFields(any, names);
    return new std::string(names.list());
  }();
  return *list;
}

CompileInfo ReadKernel(RowReader& row) {
  CompileInfo compile;
  VisitKernelFields(compile, row);
  return compile;
}

absl::StatusOr<int64_t> InsertTrial(sqlite::Database& database,
                                    const DeviceSpec& device,
                                    const Protocol& protocol,
                                    const Trial& trial) {
  HONE_ASSIGN_OR_RETURN(const DeviceIds ids, InternDevice(database, device));
  HONE_ASSIGN_OR_RETURN(const int64_t problem,
                        InternProblem(database, trial.problem));
  HONE_ASSIGN_OR_RETURN(const int64_t protocol_id,
                        InternProtocol(database, protocol));
  HONE_ASSIGN_OR_RETURN(const int64_t config,
                        InternConfig(database, trial.config.ToString()));
  HONE_ASSIGN_OR_RETURN(const int64_t kernel,
                        InternKernel(database, trial.compile));
  NewRow row;
  row("problem", problem);
  row("device", ids.device);
  row("device_class", ids.device_class);
  row("protocol", protocol_id);
  row("m", trial.m);
  row("config", config);
  row("kernel", kernel);
  row("compile_ms", trial.compile.compile_ms);
  row("outcome", ToString(trial.outcome));
  row("detail", trial.detail);
  row("gate", ToString(trial.gate));
  row("relative_norm", trial.error.relative_norm);
  row("worst_ratio", trial.error.worst_ratio);
  row("median_ns", trial.median_ns);
  row("session_id", trial.session_id);
  row("unix_us", trial.unix_us);
  row.Blob("samples", PackSamples(trial.samples));
  return row.InsertInto(database, "trial");
}

absl::StatusOr<std::vector<Trial>> ReadTrials(sqlite::Database& database,
                                              const Problem& problem,
                                              const DeviceSpec& device,
                                              const Protocol& protocol,
                                              bool this_state_only) {
  static const auto* sql = new std::string(absl::StrCat(
      "SELECT ", TrialFields(),
      " FROM trial t JOIN config c ON c.id = t.config"
      " JOIN kernel k ON k.id = t.kernel"
      " JOIN device d ON d.id = t.device"
      " WHERE t.problem = (SELECT id FROM problem WHERE hash = ?)"
      " AND t.device_class = (SELECT id FROM device_class WHERE hash = ?)"
      " AND t.protocol = (SELECT id FROM protocol WHERE hash = ?)"
      " AND (t.outcome IN ('measured', 'screened_out') OR k.cubin_hash = ''"
      " OR (d.driver = ? AND d.cuda_driver_version = ?))"
      " AND (? = '' OR d.soft = ?)"
      " ORDER BY t.id"));
  HONE_ASSIGN_OR_RETURN(sqlite::Statement select, database.Prepare(*sql));
  select.Bind(problem.Hash())
      .Bind(device.ClassHash())
      .Bind(protocol.Hash())
      .Bind(device.driver)
      .Bind(device.cuda_driver_version);
  const std::string state = this_state_only ? device.SoftText() : "";
  select.Bind(state).Bind(state);
  std::vector<Trial> trials;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return trials;
    HONE_ASSIGN_OR_RETURN(trials.emplace_back(), ReadFields(select, problem));
  }
}

absl::StatusOr<Trial> ReadTrial(sqlite::Database& database,
                                const Problem& problem, int64_t id) {
  static const auto* sql = new std::string(
      absl::StrCat("SELECT ", TrialFields(),
                   " FROM trial t JOIN config c ON c.id = t.config"
                   " JOIN kernel k ON k.id = t.kernel WHERE t.id = ?"));
  HONE_ASSIGN_OR_RETURN(sqlite::Statement select, database.Prepare(*sql));
  HONE_ASSIGN_OR_RETURN(const bool found, select.Bind(id).Step());
  if (!found) return absl::NotFoundError(absl::StrCat("no trial ", id));
  return ReadFields(select, problem);
}

}  // namespace hone
