#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/browse.h"
#include "db/rows.h"
#include "db/store.h"
#include "db/table_rows.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

using sqlite::Database;
using sqlite::Statement;

// Whether something was measured there.
absl::StatusOr<bool> HasMeasured(Database& database, int64_t problem,
                                 int64_t device_class, int64_t protocol,
                                 int64_t m) {
  HONE_ASSIGN_OR_RETURN(
      Statement find,
      database.Prepare("SELECT 1 FROM trial WHERE problem = ?"
                       " AND device_class = ? AND protocol = ? AND m = ?"
                       " AND outcome = 'measured' LIMIT 1"));
  return find.Bind(problem).Bind(device_class).Bind(protocol).Bind(m).Step();
}

}  // namespace

absl::Status Store::Browse(
    const std::function<absl::Status(const StoreSnapshot&)>& read) const {
  return Read([&](Database& database) {
    const StoreSnapshot snapshot(&database);
    return read(snapshot);
  });
}

absl::StatusOr<std::string> StoreSnapshot::Version() const {
  HONE_ASSIGN_OR_RETURN(
      const int64_t trial,
      database_->QueryInt("SELECT coalesce(max(id), 0) FROM trial"));
  HONE_ASSIGN_OR_RETURN(const int64_t revision,
                        ReadCurrentRevision(*database_));
  HONE_ASSIGN_OR_RETURN(
      const int64_t recheck,
      database_->QueryInt("SELECT coalesce(max(id), 0) FROM recheck"));
  return absl::StrCat(trial, ".", revision, ".", recheck);
}

absl::StatusOr<std::vector<BrowsedClass>> StoreSnapshot::Classes() const {
  // By class; the trials of each device come from an index.
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare(
          "SELECT c.hash, d.id,"
          " (SELECT count(*) FROM trial t WHERE t.device = d.id),"
          " (SELECT count(*) FROM dispatch_table t WHERE t.device = d.id)"
          " FROM device d JOIN device_class c ON c.id = d.device_class"
          " ORDER BY c.id, d.id"));
  std::vector<BrowsedClass> classes;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return classes;
    const absl::string_view hash = select.View(0);
    if (classes.empty() || classes.back().hash != hash)
      classes.emplace_back().hash = std::string(hash);
    HONE_ASSIGN_OR_RETURN(DeviceSpec device,
                          ReadDevice(*database_, select.Int(1)));
    classes.back().devices.push_back(std::move(device));
    classes.back().trials += select.Int(2);
    classes.back().tables += select.Int(3);
  }
}

absl::StatusOr<DeviceSpec> StoreSnapshot::DeviceOf(
    absl::string_view class_hash) const {
  int64_t device = 0;
  {
    HONE_ASSIGN_OR_RETURN(
        Statement find,
        database_->Prepare(
            "SELECT coalesce(max(d.id), 0) FROM device d"
            " JOIN device_class c ON c.id = d.device_class WHERE c.hash = ?"));
    HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(class_hash).Step());
    if (found) device = find.Int(0);
  }
  if (device == 0) {
    return absl::NotFoundError(
        absl::StrCat("there is no device class ", class_hash));
  }
  return ReadDevice(*database_, device);
}

absl::StatusOr<Problem> StoreSnapshot::FindProblem(
    absl::string_view problem_hash) const {
  HONE_ASSIGN_OR_RETURN(const int64_t row,
                        FindRow(*database_, "problem", problem_hash));
  if (row == 0) {
    return absl::NotFoundError(
        absl::StrCat("there is no problem ", problem_hash));
  }
  HONE_ASSIGN_OR_RETURN(const std::string text,
                        ReadText(*database_, "problem", "text", row));
  return ParseProblem(text);
}

absl::StatusOr<std::vector<BrowsedProblem>> StoreSnapshot::Problems(
    absl::string_view class_hash) const {
  HONE_ASSIGN_OR_RETURN(const int64_t device_class,
                        FindRow(*database_, "device_class", class_hash));
  std::map<int64_t, BrowsedProblem> problems;
  {
    // Answered by trial_by_key alone.
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database_->Prepare("SELECT problem, protocol, m, count(*) FROM trial"
                           " INDEXED BY trial_by_key WHERE device_class = ?"
                           " GROUP BY problem, protocol, m"));
    select.Bind(device_class);
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) break;
      BrowsedProblem& problem = problems[select.Int(0)];
      problem.trials += select.Int(3);
      HONE_ASSIGN_OR_RETURN(const bool measured,
                            HasMeasured(*database_, select.Int(0), device_class,
                                        select.Int(1), select.Int(2)));
      if (measured) problem.measured_m.push_back(select.Int(2));
    }
  }
  {
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database_->Prepare("SELECT DISTINCT problem FROM dispatch_table"
                           " WHERE device_class = ?"));
    select.Bind(device_class);
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) break;
      problems[select.Int(0)];
    }
  }
  std::vector<std::pair<std::string, BrowsedProblem>> by_text;
  for (auto& [row, browsed] : problems) {
    HONE_ASSIGN_OR_RETURN(browsed.hash,
                          ReadText(*database_, "problem", "hash", row));
    HONE_ASSIGN_OR_RETURN(std::string text,
                          ReadText(*database_, "problem", "text", row));
    HONE_ASSIGN_OR_RETURN(browsed.problem, ParseProblem(text));
    std::vector<int64_t>& ms = browsed.measured_m;
    std::sort(ms.begin(), ms.end());
    ms.erase(std::unique(ms.begin(), ms.end()), ms.end());
    by_text.emplace_back(std::move(text), std::move(browsed));
  }
  std::sort(by_text.begin(), by_text.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<BrowsedProblem> list;
  for (auto& [text, browsed] : by_text) list.push_back(std::move(browsed));
  return list;
}

absl::StatusOr<std::vector<StoredTable>> StoreSnapshot::Tables(
    absl::string_view class_hash, absl::string_view problem_hash,
    std::optional<int64_t> revision) const {
  AnsweringQuery query;
  HONE_ASSIGN_OR_RETURN(query.revision, ReadCurrentRevision(*database_));
  if (revision.has_value()) {
    if (*revision < 0 || *revision > query.revision) {
      return absl::OutOfRangeError(
          absl::StrCat("must be a revision from 0 to ", query.revision));
    }
    query.revision = *revision;
  }
  query.class_hash = std::string(class_hash);
  query.problem_hash = std::string(problem_hash);
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                        AnsweringTables(*database_, query));
  std::vector<StoredTable> tables;
  for (const int64_t id : ids) {
    HONE_ASSIGN_OR_RETURN(tables.emplace_back(), ReadTable(*database_, id));
  }
  return tables;
}

absl::StatusOr<std::vector<BrowsedSession>> StoreSnapshot::Sessions(
    absl::string_view class_hash, int64_t limit) const {
  std::vector<BrowsedSession> sessions;
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare(
          "SELECT s.id, p.hash, p.text, s.status, s.detail, s.started_us,"
          " s.finished_us FROM session s JOIN problem p ON p.id = s.problem"
          " JOIN device d ON d.id = s.device"
          " JOIN device_class c ON c.id = d.device_class"
          " WHERE c.hash = ? ORDER BY s.started_us DESC, s.id LIMIT ?"));
  select.Bind(class_hash).Bind(limit);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return sessions;
    RowReader row(&select);
    BrowsedSession& session = sessions.emplace_back();
    session.id = row.Text();
    session.problem_hash = row.Text();
    HONE_ASSIGN_OR_RETURN(session.problem, ParseProblem(row.Text()));
    HONE_ASSIGN_OR_RETURN(session.status, ParseSessionStatus(row.Text()));
    session.detail = row.Text();
    session.started_us = row.Int();
    session.finished_us = row.Int();
    HONE_ASSIGN_OR_RETURN(
        Statement count,
        database_->Prepare("SELECT outcome, count(*) FROM trial"
                           " WHERE session_id = ? GROUP BY outcome"));
    count.Bind(session.id);
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool more, count.Step());
      if (!more) break;
      session.outcomes[count.Text(0)] = count.Int(1);
      session.trials += count.Int(1);
    }
  }
}

}  // namespace hone
