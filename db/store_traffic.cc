// How often problems are called and lookups miss, in the store.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/rows.h"
#include "db/store.h"
#include "db/table_json.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

using sqlite::Database;
using sqlite::Statement;

// What makes two reports the same.
std::string ContentOf(absl::Span<const TrafficCount> counts) {
  std::string text;
  for (const TrafficCount& count : counts) {
    absl::StrAppend(&text, count.problem.ToString(), "|",
                    count.device.ClassHash());
    for (const MWeight& at : count.calls) {
      absl::StrAppend(&text, "|", at.m, ":", at.weight);
    }
    absl::StrAppend(&text, "\n");
  }
  return Sha256Hex(text);
}

// False when the report is known; else it is from now on.
absl::StatusOr<bool> NoteReport(Database& database, absl::string_view report_id,
                                const std::string& content, int64_t unix_us,
                                const TrafficLimits& limits) {
  {
    HONE_ASSIGN_OR_RETURN(
        Statement forget,
        database.Prepare("DELETE FROM traffic_report WHERE unix_us < ?"));
    HONE_RETURN_IF_ERROR(
        forget.Bind(unix_us - absl::ToInt64Microseconds(limits.known_for))
            .Run());
  }
  {
    HONE_ASSIGN_OR_RETURN(
        Statement find,
        database.Prepare(
            "SELECT content FROM traffic_report WHERE report_id = ?"));
    HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(report_id).Step());
    if (found && find.Text(0) == content) return false;
    if (found) {
      return absl::AlreadyExistsError(
          absl::StrCat("report ", report_id, " said something else"));
    }
  }
  NewRow row;
  row("report_id", report_id);
  row("content", content);
  row("unix_us", unix_us);
  HONE_ASSIGN_OR_RETURN(const int64_t id,
                        row.InsertInto(database, "traffic_report"));
  HONE_ASSIGN_OR_RETURN(
      Statement forget,
      database.Prepare("DELETE FROM traffic_report WHERE id <= ?"));
  HONE_RETURN_IF_ERROR(forget.Bind(id - limits.max_known).Run());
  return true;
}

// The row of a problem on a device class, made if there is none; with the
// misses and the times of what is added to it.
absl::StatusOr<int64_t> TouchProblem(Database& database,
                                     const TrafficCount& count,
                                     int64_t unix_us) {
  const std::string problem = count.problem.ToString();
  const std::string class_hash = count.device.ClassHash();
  int64_t id = 0;
  DecayedCount misses;
  int64_t reported_us = 0;
  {
    HONE_ASSIGN_OR_RETURN(
        Statement find,
        database.Prepare("SELECT id, misses, missed_us, reported_us"
                         " FROM traffic WHERE problem = ? AND class_hash = ?"));
    HONE_ASSIGN_OR_RETURN(const bool found,
                          find.Bind(problem).Bind(class_hash).Step());
    if (found) {
      RowReader row(&find);
      id = row.Int();
      misses.weight = row.Real();
      misses.unix_us = row.Int();
      reported_us = row.Int();
    }
  }
  if (count.misses > 0) misses.Add(count.misses, unix_us);
  if (!count.calls.empty()) reported_us = std::max(reported_us, unix_us);
  if (id == 0) {
    NewRow row;
    row("problem", problem);
    row("class_hash", class_hash);
    row("device", DeviceLine(count.device));
    row("misses", misses.weight);
    row("missed_us", misses.unix_us);
    row("reported_us", reported_us);
    return row.InsertInto(database, "traffic");
  }
  HONE_ASSIGN_OR_RETURN(
      Statement update,
      database.Prepare("UPDATE traffic SET device = ?, misses = ?,"
                       " missed_us = ?, reported_us = ? WHERE id = ?"));
  HONE_RETURN_IF_ERROR(update.Bind(DeviceLine(count.device))
                           .Bind(misses.weight)
                           .Bind(misses.unix_us)
                           .Bind(reported_us)
                           .Bind(id)
                           .Run());
  return id;
}

using Histogram = std::map<int64_t, DecayedCount>;

absl::StatusOr<Histogram> ReadCalls(Database& database, int64_t id) {
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database.Prepare("SELECT m, weight, unix_us FROM traffic_calls"
                       " WHERE traffic = ?"));
  select.Bind(id);
  Histogram calls;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return calls;
    RowReader row(&select);
    DecayedCount& count = calls[row.Int()];
    count.weight = row.Real();
    count.unix_us = row.Int();
  }
}

std::vector<MWeight> WeightsAt(const Histogram& calls, int64_t unix_us) {
  std::vector<MWeight> weights;
  for (const auto& [m, count] : calls) {
    weights.push_back({m, count.At(unix_us)});
  }
  return weights;
}

absl::Status PutCalls(Database& database, int64_t id, int64_t m,
                      const DecayedCount& count) {
  HONE_ASSIGN_OR_RETURN(
      Statement put,
      database.Prepare("INSERT INTO traffic_calls (traffic, m, weight, unix_us)"
                       " VALUES (?, ?, ?, ?) ON CONFLICT (traffic, m) DO UPDATE"
                       " SET weight = excluded.weight,"
                       " unix_us = excluded.unix_us"));
  return put.Bind(id).Bind(m).Bind(count.weight).Bind(count.unix_us).Run();
}

absl::Status AddCalls(Database& database, int64_t id,
                      const std::vector<MWeight>& calls, int64_t unix_us,
                      size_t max_points) {
  HONE_ASSIGN_OR_RETURN(Histogram known, ReadCalls(database, id));
  for (const MWeight& at : calls) {
    DecayedCount& count = known[at.m];
    count.Add(at.weight, unix_us);
    HONE_RETURN_IF_ERROR(PutCalls(database, id, at.m, count));
  }
  if (known.size() <= max_points) return absl::OkStatus();
  // Some more than there must be, so that not every report does this.
  const std::vector<MWeight> merged =
      MergeRare(WeightsAt(known, unix_us),
                std::max<size_t>(1, max_points - max_points / 8));
  HONE_ASSIGN_OR_RETURN(
      Statement forget,
      database.Prepare("DELETE FROM traffic_calls WHERE traffic = ?"));
  HONE_RETURN_IF_ERROR(forget.Bind(id).Run());
  for (const MWeight& at : merged) {
    HONE_RETURN_IF_ERROR(PutCalls(database, id, at.m, {at.weight, unix_us}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredTraffic>> ReadTraffic(Database& database,
                                                       int64_t unix_us) {
  std::vector<StoredTraffic> all;
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database.Prepare("SELECT id, problem, device, misses, missed_us,"
                       " reported_us FROM traffic ORDER BY id"));
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return all;
    RowReader row(&select);
    StoredTraffic& stored = all.emplace_back();
    stored.id = row.Int();
    absl::StatusOr<Problem> problem = Problem::Parse(row.Text());
    HONE_RETURN_IF_ERROR(Unreadable(problem.status()));
    stored.problem = *problem;
    absl::StatusOr<DeviceSpec> device = ReadDeviceLine(row.Text());
    HONE_RETURN_IF_ERROR(Unreadable(device.status()));
    stored.device = *std::move(device);
    const double misses = row.Real();
    stored.missed_us = row.Int();
    stored.misses = DecayedCount{misses, stored.missed_us}.At(unix_us);
    stored.reported_us = row.Int();
    HONE_ASSIGN_OR_RETURN(const Histogram calls,
                          ReadCalls(database, stored.id));
    stored.calls = WeightsAt(calls, unix_us);
  }
}

// Drops the lightest, which are the oldest where they weighed the same.
absl::Status DropLightest(Database& database, int64_t unix_us,
                          size_t max_problems) {
  HONE_ASSIGN_OR_RETURN(const int64_t rows,
                        database.QueryInt("SELECT count(*) FROM traffic"));
  if (rows <= static_cast<int64_t>(max_problems)) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const std::vector<StoredTraffic> all,
                        ReadTraffic(database, unix_us));
  std::vector<std::pair<double, int64_t>> order;
  for (const StoredTraffic& stored : all) {
    double weight = stored.misses;
    for (const MWeight& at : stored.calls) weight += at.weight;
    order.emplace_back(weight, stored.id);
  }
  std::sort(order.begin(), order.end());
  const size_t keep = std::max<size_t>(1, max_problems - max_problems / 8);
  order.resize(order.size() - keep);
  for (const auto& [weight, id] : order) {
    HONE_ASSIGN_OR_RETURN(Statement forget,
                          database.Prepare("DELETE FROM traffic WHERE id = ?"));
    HONE_RETURN_IF_ERROR(forget.Bind(id).Run());
  }
  return absl::OkStatus();
}

absl::Status Add(Database& database, absl::Span<const TrafficCount> counts,
                 int64_t unix_us, const TrafficLimits& limits) {
  for (const TrafficCount& count : counts) {
    HONE_ASSIGN_OR_RETURN(const int64_t id,
                          TouchProblem(database, count, unix_us));
    if (count.calls.empty()) continue;
    HONE_RETURN_IF_ERROR(
        AddCalls(database, id, count.calls, unix_us, limits.max_points));
  }
  return DropLightest(database, unix_us, limits.max_problems);
}

absl::Status Check(absl::Span<const TrafficCount> counts) {
  for (const TrafficCount& count : counts) {
    HONE_RETURN_IF_ERROR(CheckDevice(count.device));
    for (const MWeight& at : count.calls) {
      if (at.m < 1 || !(at.weight > 0)) {
        return absl::InvalidArgumentError(
            absl::StrCat("calls has ", at.weight, " at M = ", at.m,
                         "; both must be above 0"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> Store::RecordTraffic(absl::string_view report_id,
                                          absl::Span<const TrafficCount> counts,
                                          int64_t unix_us) {
  HONE_RETURN_IF_ERROR(Check(counts));
  const std::string content = ContentOf(counts);
  bool counted = false;
  HONE_RETURN_IF_ERROR(Write([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(counted, NoteReport(database, report_id, content,
                                              unix_us, options_.traffic));
    if (!counted) return absl::OkStatus();
    return Add(database, counts, unix_us, options_.traffic);
  }));
  return counted;
}

absl::Status Store::AddTraffic(absl::Span<const TrafficCount> counts,
                               int64_t unix_us) {
  if (counts.empty()) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(Check(counts));
  return Write([&](Database& database) {
    return Add(database, counts, unix_us, options_.traffic);
  });
}

absl::StatusOr<std::vector<StoredTraffic>> Store::Traffic(
    int64_t unix_us) const {
  std::vector<StoredTraffic> all;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(all, ReadTraffic(database, unix_us));
    return absl::OkStatus();
  }));
  return all;
}

}  // namespace hone
