#include "db/table_rows.h"

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "db/fields.h"
#include "db/rows.h"
#include "db/table_json.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

absl::Status InsertEntry(sqlite::Database& database, int64_t table,
                         int64_t position, const TableEntry& entry) {
  HONE_ASSIGN_OR_RETURN(const int64_t config,
                        InternConfig(database, entry.config.ToString()));
  HONE_ASSIGN_OR_RETURN(const int64_t kernel,
                        InternKernel(database, entry.compile));
  NewRow row;
  row("dispatch_table", table);
  row("position", position);
  row("m_lo", entry.m_lo);
  row("m_hi", entry.m_hi);
  row("config", config);
  row("kernel", kernel);
  row("compile_ms", entry.compile.compile_ms);
  HONE_RETURN_IF_ERROR(row.InsertInto(database, "table_entry").status());
  for (const Evidence& evidence : entry.evidence) {
    NewRow evidence_row;
    evidence_row("dispatch_table", table);
    evidence_row("entry", position);
    VisitEvidenceFields(evidence, evidence_row);
    HONE_RETURN_IF_ERROR(
        evidence_row.InsertInto(database, "evidence").status());
    for (size_t i = 0; i < evidence.ties.size(); ++i) {
      HONE_ASSIGN_OR_RETURN(const int64_t tie,
                            InternConfig(database, evidence.ties[i]));
      NewRow tie_row;
      tie_row("dispatch_table", table);
      tie_row("entry", position);
      tie_row("m", evidence.m);
      tie_row("position", static_cast<int64_t>(i));
      tie_row("config", tie);
      HONE_RETURN_IF_ERROR(
          tie_row.InsertInto(database, "evidence_tie").status());
    }
  }
  return absl::OkStatus();
}

absl::Status ReadEntries(sqlite::Database& database, int64_t id,
                         std::vector<TableEntry>& entries) {
  static const auto* sql = new std::string(absl::StrCat(
      "SELECT e.m_lo, e.m_hi, c.text, e.compile_ms, ", KernelColumns(),
      " FROM table_entry e JOIN config c ON c.id = e.config"
      " JOIN kernel k ON k.id = e.kernel"
      " WHERE e.dispatch_table = ? ORDER BY e.position"));
  HONE_ASSIGN_OR_RETURN(sqlite::Statement select, database.Prepare(*sql));
  select.Bind(id);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return absl::OkStatus();
    RowReader row(&select);
    TableEntry& entry = entries.emplace_back();
    entry.m_lo = row.Int();
    entry.m_hi = row.Int();
    absl::StatusOr<TuningConfig> config = TuningConfig::Parse(row.Text());
    HONE_RETURN_IF_ERROR(Unreadable(config.status()));
    entry.config = *config;
    const int64_t compile_ms = row.Int();
    entry.compile = ReadKernel(row);
    entry.compile.compile_ms = compile_ms;
  }
}

// Foreign keys rule it out, unless the file was changed from outside.
absl::Status Misplaced(int64_t id) {
  return absl::DataLossError(
      absl::StrCat("evidence of table ", id, " belongs to no entry"));
}

absl::Status ReadEvidence(sqlite::Database& database, int64_t id,
                          std::vector<TableEntry>& entries) {
  static const auto* sql = [] {
    const Evidence any;
    ColumnNames names("v");
    VisitEvidenceFields(any, names);
    return new std::string(absl::StrCat(
        "SELECT v.entry, ", names.list(),
        " FROM evidence v WHERE v.dispatch_table = ? ORDER BY v.entry, v.m"));
  }();
  std::map<std::pair<int64_t, int64_t>, Evidence*> by_place;
  HONE_ASSIGN_OR_RETURN(sqlite::Statement select, database.Prepare(*sql));
  select.Bind(id);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) break;
    RowReader row(&select);
    Evidence evidence;
    const auto entry = static_cast<size_t>(row.Int());
    if (entry >= entries.size()) return Misplaced(id);
    VisitEvidenceFields(evidence, row);
    entries[entry].evidence.push_back(evidence);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    for (Evidence& evidence : entries[i].evidence) {
      by_place[{static_cast<int64_t>(i), evidence.m}] = &evidence;
    }
  }
  HONE_ASSIGN_OR_RETURN(
      sqlite::Statement ties,
      database.Prepare(
          "SELECT t.entry, t.m, c.text FROM evidence_tie t"
          " JOIN config c ON c.id = t.config WHERE t.dispatch_table = ?"
          " ORDER BY t.entry, t.m, t.position"));
  ties.Bind(id);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, ties.Step());
    if (!found) return absl::OkStatus();
    const auto evidence = by_place.find({ties.Int(0), ties.Int(1)});
    if (evidence == by_place.end()) return Misplaced(id);
    evidence->second->ties.push_back(ties.Text(2));
  }
}

absl::Status InsertTradeOff(sqlite::Database& database, int64_t table,
                            const std::vector<TradeOffPoint>& points) {
  for (const TradeOffPoint& point : points) {
    NewRow row;
    row("dispatch_table", table);
    VisitTradeOffFields(point, row);
    HONE_RETURN_IF_ERROR(row.InsertInto(database, "trade_off").status());
  }
  return absl::OkStatus();
}

absl::Status ReadTradeOff(sqlite::Database& database, int64_t id,
                          std::vector<TradeOffPoint>& points) {
  static const auto* sql = [] {
    const TradeOffPoint any;
    ColumnNames names("o");
    VisitTradeOffFields(any, names);
    return new std::string(absl::StrCat(
        "SELECT ", names.list(),
        " FROM trade_off o WHERE o.dispatch_table = ? ORDER BY o.kernels"));
  }();
  HONE_ASSIGN_OR_RETURN(sqlite::Statement select, database.Prepare(*sql));
  select.Bind(id);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return absl::OkStatus();
    RowReader row(&select);
    VisitTradeOffFields(points.emplace_back(), row);
  }
}

// The device states in which a recheck kept the table.
absl::Status ReadKept(sqlite::Database& database, int64_t id,
                      std::vector<std::string>& states) {
  HONE_ASSIGN_OR_RETURN(
      sqlite::Statement select,
      database.Prepare("SELECT DISTINCT d.soft FROM recheck_table t"
                       " JOIN recheck r ON r.id = t.recheck"
                       " JOIN device d ON d.id = r.device"
                       " WHERE t.dispatch_table = ?"
                       " AND t.verdict IN ('kept', 'verified')"
                       " ORDER BY d.soft"));
  select.Bind(id);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return absl::OkStatus();
    states.push_back(select.Text(0));
  }
}

absl::Status Miss(const Problem& problem, absl::string_view nearest) {
  return absl::NotFoundError(absl::StrCat("no table for ", problem.ToString(),
                                          " on this device: ", nearest));
}

}  // namespace

absl::StatusOr<int64_t> InsertRevision(sqlite::Database& database,
                                       int64_t unix_us,
                                       absl::string_view bundle_sha256) {
  NewRow row;
  row("unix_us", unix_us);
  row("bundle", bundle_sha256);
  return row.InsertInto(database, "revision");
}

absl::StatusOr<int64_t> ReadCurrentRevision(sqlite::Database& database) {
  return database.QueryInt("SELECT coalesce(max(id), 0) FROM revision");
}

absl::Status InsertTable(sqlite::Database& database, int64_t revision,
                         Origin origin, const DispatchTable& table) {
  HONE_ASSIGN_OR_RETURN(const DeviceIds ids,
                        InternDevice(database, table.device));
  HONE_ASSIGN_OR_RETURN(const int64_t problem,
                        InternProblem(database, table.problem));
  HONE_ASSIGN_OR_RETURN(const int64_t protocol,
                        InternProtocol(database, table.protocol));
  NewRow row;
  row("revision", revision);
  row("origin", ToString(origin));
  row("problem", problem);
  row("device", ids.device);
  row("device_class", ids.device_class);
  row("protocol", protocol);
  row("gate", ToString(table.gate));
  row("source_closure", table.source_closure);
  row("ladder", absl::StrJoin(table.ladder, ","));
  row("session_id", table.session_id);
  row("unix_us", table.unix_us);
  row("content_hash", Sha256Hex(TableLine(table)));
  HONE_ASSIGN_OR_RETURN(const int64_t id,
                        row.InsertInto(database, "dispatch_table"));
  for (size_t i = 0; i < table.entries.size(); ++i) {
    HONE_RETURN_IF_ERROR(
        InsertEntry(database, id, static_cast<int64_t>(i), table.entries[i]));
  }
  return InsertTradeOff(database, id, table.trade_off);
}

absl::StatusOr<bool> HasTable(sqlite::Database& database,
                              const DispatchTable& table) {
  HONE_ASSIGN_OR_RETURN(
      sqlite::Statement find,
      database.Prepare("SELECT 1 FROM dispatch_table WHERE content_hash = ?"));
  return find.Bind(Sha256Hex(TableLine(table))).Step();
}

absl::StatusOr<StoredTable> ReadTable(sqlite::Database& database, int64_t id) {
  StoredTable stored;
  stored.id = id;
  DispatchTable& table = stored.table;
  int64_t device = 0;
  {
    HONE_ASSIGN_OR_RETURN(
        sqlite::Statement select,
        database.Prepare(
            "SELECT t.revision, t.origin, r.bundle,"
            " v.dispatch_table IS NOT NULL, p.text, t.device, q.text, t.gate,"
            " t.source_closure, t.ladder, t.session_id, t.unix_us"
            " FROM dispatch_table t JOIN revision r ON r.id = t.revision"
            " JOIN problem p ON p.id = t.problem"
            " JOIN protocol q ON q.id = t.protocol"
            " LEFT JOIN verification v ON v.dispatch_table = t.id"
            " WHERE t.id = ?"));
    HONE_ASSIGN_OR_RETURN(const bool found, select.Bind(id).Step());
    if (!found) return absl::NotFoundError(absl::StrCat("no table ", id));
    RowReader row(&select);
    stored.revision = row.Int();
    stored.origin =
        row.Text() == "imported" ? Origin::kImported : Origin::kLocal;
    stored.imported_from = row.Text();
    stored.verified = row.Int() != 0 || stored.origin == Origin::kLocal;
    absl::StatusOr<Problem> problem = Problem::Parse(row.Text());
    HONE_RETURN_IF_ERROR(Unreadable(problem.status()));
    table.problem = *problem;
    device = row.Int();
    absl::StatusOr<Protocol> protocol = Protocol::Parse(row.Text());
    HONE_RETURN_IF_ERROR(Unreadable(protocol.status()));
    table.protocol = *protocol;
    absl::StatusOr<GateKind> gate = ParseGateKind(row.Text());
    HONE_RETURN_IF_ERROR(Unreadable(gate.status()));
    table.gate = *gate;
    table.source_closure = row.Text();
    const std::string ladder = row.Text();
    for (const absl::string_view part :
         absl::StrSplit(ladder, ',', absl::SkipEmpty())) {
      int64_t m = 0;
      if (!absl::SimpleAtoi(part, &m)) {
        return absl::DataLossError(absl::StrCat("ladder of table ", id));
      }
      table.ladder.push_back(m);
    }
    table.session_id = row.Text();
    table.unix_us = row.Int();
  }
  HONE_ASSIGN_OR_RETURN(table.device, ReadDevice(database, device));
  HONE_RETURN_IF_ERROR(ReadEntries(database, id, table.entries));
  HONE_RETURN_IF_ERROR(ReadEvidence(database, id, table.entries));
  HONE_RETURN_IF_ERROR(ReadTradeOff(database, id, table.trade_off));
  HONE_RETURN_IF_ERROR(ReadKept(database, id, stored.kept_in));
  return stored;
}

absl::StatusOr<std::optional<int64_t>> AnsweringTable(
    sqlite::Database& database, const Problem& problem,
    const DeviceSpec& device, int64_t revision) {
  HONE_ASSIGN_OR_RETURN(
      sqlite::Statement select,
      database.Prepare(
          "SELECT id FROM dispatch_table"
          " WHERE problem = (SELECT id FROM problem WHERE hash = ?)"
          " AND device_class = (SELECT id FROM device_class WHERE hash = ?)"
          " AND revision <= ? ORDER BY origin DESC, revision DESC LIMIT 1"));
  select.Bind(problem.Hash()).Bind(device.ClassHash()).Bind(revision);
  HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (!found) return std::nullopt;
  return select.Int(0);
}

absl::StatusOr<std::vector<int64_t>> AnsweringTables(
    sqlite::Database& database, const AnsweringQuery& query) {
  HONE_ASSIGN_OR_RETURN(
      sqlite::Statement select,
      database.Prepare(
          "SELECT t.id FROM dispatch_table t"
          " WHERE t.revision <= ?1 AND t.id > ?2"
          " AND (?3 = '' OR"
          "  t.problem = (SELECT id FROM problem WHERE hash = ?3))"
          " AND (?4 = '' OR"
          "  t.device_class = (SELECT id FROM device_class WHERE hash = ?4))"
          " AND t.id = ("
          "  SELECT u.id FROM dispatch_table u WHERE u.problem = t.problem"
          "  AND u.device_class = t.device_class AND u.revision <= ?1"
          "  ORDER BY u.origin DESC, u.revision DESC LIMIT 1)"
          " ORDER BY t.id LIMIT ?5"));
  select.Bind(query.revision)
      .Bind(query.after)
      .Bind(query.problem_hash)
      .Bind(query.class_hash)
      .Bind(query.limit);
  std::vector<int64_t> ids;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return ids;
    ids.push_back(select.Int(0));
  }
}

absl::Status ExplainMiss(sqlite::Database& database, const Problem& problem,
                         const DeviceSpec& device, int64_t revision) {
  {
    HONE_ASSIGN_OR_RETURN(
        sqlite::Statement later,
        database.Prepare("SELECT min(t.revision) FROM dispatch_table t"
                         " JOIN problem p ON p.id = t.problem"
                         " JOIN device_class c ON c.id = t.device_class"
                         " WHERE p.hash = ? AND c.hash = ?"));
    HONE_ASSIGN_OR_RETURN(
        const bool found,
        later.Bind(problem.Hash()).Bind(device.ClassHash()).Step());
    if (found && !later.IsNull(0)) {
      return Miss(problem,
                  absl::StrCat("it was first published under revision ",
                               later.Int(0), ", after revision ", revision));
    }
  }
  std::optional<int64_t> nearest;
  {
    // The device with the fewest differing hard fields.
    HONE_ASSIGN_OR_RETURN(
        sqlite::Statement select,
        database.Prepare(
            "SELECT t.device FROM dispatch_table t"
            " JOIN problem p ON p.id = t.problem"
            " JOIN device_class c ON c.id = t.device_class"
            " WHERE p.hash = ? AND t.revision <= ?"
            " ORDER BY (c.kind <> ?) + (c.sm_arch <> ?)"
            " + (c.pci_device_id <> ?) + (c.sm_count <> ?) + (c.l2_bytes <> ?)"
            " + (c.smem_optin_bytes <> ?) + (c.mig_profile <> ?), t.id"
            " LIMIT 1"));
    select.Bind(problem.Hash()).Bind(revision);
    select.Bind(device.modelled() ? "modelled" : "measured");
    VisitHardFields(device, [&select](absl::string_view, const auto& value) {
      select.Bind(value);
    });
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (found) nearest = select.Int(0);
  }
  if (!nearest.has_value()) return Miss(problem, "it was never tuned");
  HONE_ASSIGN_OR_RETURN(const DeviceSpec other, ReadDevice(database, *nearest));
  return Miss(problem,
              absl::StrCat("tuned for another device, ", other.name, ": ",
                           DeviceSpec::MismatchedField(other, device)
                               .value_or("its class differs"),
                           " here"));
}

absl::Status InsertVerification(sqlite::Database& database, int64_t table,
                                int64_t unix_us) {
  HONE_ASSIGN_OR_RETURN(const StoredTable stored, ReadTable(database, table));
  if (stored.verified) return absl::OkStatus();
  NewRow row;
  row("dispatch_table", table);
  row("unix_us", unix_us);
  return row.InsertInto(database, "verification").status();
}

std::vector<std::string> SoftDifferences(const DeviceSpec& here,
                                         const DeviceSpec& measured) {
  std::vector<std::pair<std::string, std::string>> ours;
  VisitSoftFields(here, [&ours](absl::string_view name, const auto& value) {
    ours.emplace_back(std::string(name), absl::StrCat(value));
  });
  std::vector<std::string> differences;
  size_t i = 0;
  VisitSoftFields(measured, [&](absl::string_view name, const auto& value) {
    const std::string& own = ours[i++].second;
    if (own == absl::StrCat(value)) return;
    differences.push_back(
        absl::StrCat(name, " ", own, " here, ", value, " measured"));
  });
  return differences;
}

}  // namespace hone
