// Store: rechecks of tables, and the times that trials of their kernels have.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/rows.h"
#include "db/store.h"
#include "db/table_rows.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

using sqlite::Database;
using sqlite::Statement;

// NewRow stores NaN as NULL.
double OrNull(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

// The texts of all configs that some table serves, by the row's id.
absl::StatusOr<std::map<int64_t, std::string>> ServedConfigs(
    Database& database) {
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database.Prepare("SELECT id, text FROM config"
                       " WHERE id IN (SELECT config FROM table_entry)"));
  std::map<int64_t, std::string> configs;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return configs;
    configs[select.Int(0)] = select.Text(1);
  }
}

absl::StatusOr<TrialTimes> ReadTimes(
    Database& database, const DispatchTable& table,
    const std::map<int64_t, std::string>& served) {
  // All of it comes from the index trial_times.
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database.Prepare(
          "SELECT m, config, min(median_ns), max(median_ns) FROM trial"
          " WHERE problem = (SELECT id FROM problem WHERE hash = ?)"
          " AND device_class = (SELECT id FROM device_class WHERE hash = ?)"
          " AND protocol = (SELECT id FROM protocol WHERE hash = ?)"
          " AND outcome = 'measured' GROUP BY m, config"));
  select.Bind(table.problem.Hash())
      .Bind(table.device.ClassHash())
      .Bind(table.protocol.Hash());
  TrialTimes times;
  std::map<int64_t, size_t> places;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return times;
    const int64_t m = select.Int(0);
    const int64_t least = select.Int(2);
    if (times.best.empty() || times.best.back().m != m) {
      times.best.push_back({m, least});
    }
    times.best.back().ns = std::min(times.best.back().ns, least);
    const auto config = served.find(select.Int(1));
    if (config == served.end()) continue;
    const auto [place, added] =
        places.try_emplace(config->first, times.configs.size());
    if (added) times.configs.push_back({config->second, {}});
    times.configs[place->second].at.push_back({m, least, select.Int(3)});
  }
}

}  // namespace

absl::Status Store::RecordRecheck(const RecheckRecord& record) {
  return Write([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const DeviceIds device,
                          InternDevice(database, record.device));
    NewRow row;
    row("session_id", record.session_id);
    row("device", device.device);
    row("unix_us", record.unix_us);
    row("keys", record.keys);
    row("median_regret", OrNull(record.median_regret));
    row("regret_limit", record.regret_limit);
    HONE_ASSIGN_OR_RETURN(const int64_t id,
                          row.InsertInto(database, "recheck"));
    for (const RecheckRecord::Table& table : record.tables) {
      NewRow table_row;
      table_row("recheck", id);
      table_row("dispatch_table", table.table_id);
      table_row("keys", table.keys);
      table_row("median_regret", OrNull(table.median_regret));
      table_row("verdict", ToString(table.verdict));
      HONE_RETURN_IF_ERROR(
          table_row.InsertInto(database, "recheck_table").status());
      if (table.verdict == RecheckVerdict::kVerified) {
        HONE_RETURN_IF_ERROR(
            InsertVerification(database, table.table_id, record.unix_us));
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<TrialTimes>> Store::TimesOf(
    absl::Span<const StoredTable> tables) const {
  std::vector<TrialTimes> times;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    std::map<int64_t, std::string> served;
    HONE_ASSIGN_OR_RETURN(served, ServedConfigs(database));
    for (const StoredTable& stored : tables) {
      HONE_ASSIGN_OR_RETURN(TrialTimes of_table,
                            ReadTimes(database, stored.table, served));
      times.push_back(std::move(of_table));
    }
    return absl::OkStatus();
  }));
  return times;
}

}  // namespace hone
