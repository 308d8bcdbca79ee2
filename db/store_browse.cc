#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "db/browse.h"
#include "db/rows.h"
#include "db/sample_summary.h"
#include "db/store.h"
#include "db/table_rows.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

using sqlite::Database;
using sqlite::Statement;

// Texts in the order first seen, each once.
class TextIndex {
 public:
  explicit TextIndex(std::vector<std::string>* texts) : texts_(texts) {}
  int64_t Of(absl::string_view text) {
    const auto found = by_text_.find(text);
    if (found != by_text_.end()) return found->second;
    const auto index = std::ssize(*texts_);
    texts_->emplace_back(text);
    by_text_.emplace(std::string(text), index);
    return index;
  }

 private:
  std::vector<std::string>* const texts_;
  absl::flat_hash_map<std::string, int64_t> by_text_;
};

// The row of a hash; 0, which no row has, when there is none.
absl::StatusOr<int64_t> RowOf(Database& database, absl::string_view table,
                              absl::string_view hash) {
  HONE_ASSIGN_OR_RETURN(Statement find,
                        database.Prepare(absl::StrCat("SELECT id FROM ", table,
                                                      " WHERE hash = ?")));
  HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(hash).Step());
  return found ? find.Int(0) : 0;
}

absl::StatusOr<Problem> ParsedProblem(const std::string& text) {
  absl::StatusOr<Problem> problem = Problem::Parse(text);
  HONE_RETURN_IF_ERROR(Unreadable(problem.status()));
  return problem;
}

absl::StatusOr<std::string> TextOf(Database& database, absl::string_view table,
                                   absl::string_view column, int64_t id) {
  HONE_ASSIGN_OR_RETURN(
      Statement find, database.Prepare(absl::StrCat("SELECT ", column, " FROM ",
                                                    table, " WHERE id = ?")));
  HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(id).Step());
  if (!found) return absl::DataLossError(absl::StrCat("no ", table, " ", id));
  return find.Text(0);
}

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

// What tells a repeat from another measurement, and where it is.
struct NarrowTrial {
  int64_t problem, protocol, m, config, id;
  auto Key() const { return std::tie(problem, protocol, m, config); }
};

absl::StatusOr<std::vector<NarrowTrial>> MeasuredTrials(Database& database,
                                                        int64_t device_class,
                                                        int64_t scan) {
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database.Prepare("SELECT problem, protocol, m, config, id FROM trial"
                       " WHERE +device_class = ? AND outcome = 'measured'"
                       " ORDER BY id DESC LIMIT ?"));
  select.Bind(device_class).Bind(scan);
  std::vector<NarrowTrial> trials;
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return trials;
    trials.push_back({select.Int(0), select.Int(1), select.Int(2),
                      select.Int(3), select.Int(4)});
  }
}

// The ids of groups of at least two, the newest groups first.
std::vector<int64_t> RepeatedIds(std::vector<NarrowTrial> trials,
                                 int64_t limit) {
  std::sort(trials.begin(), trials.end(),
            [](const NarrowTrial& a, const NarrowTrial& b) {
              return std::tuple_cat(a.Key(), std::tie(a.id)) <
                     std::tuple_cat(b.Key(), std::tie(b.id));
            });
  // The newest id of each group, its first trial and how many follow.
  std::vector<std::tuple<int64_t, size_t, size_t>> groups;
  for (size_t first = 0; first < trials.size();) {
    size_t end = first + 1;
    while (end < trials.size() && trials[end].Key() == trials[first].Key())
      ++end;
    if (end - first > 1) groups.emplace_back(trials[end - 1].id, first, end);
    first = end;
  }
  std::sort(groups.rbegin(), groups.rend());
  std::vector<int64_t> ids;
  for (const auto& [newest, first, end] : groups) {
    if (std::ssize(ids) + static_cast<int64_t>(end - first) > limit) break;
    for (size_t i = first; i < end; ++i) ids.push_back(trials[i].id);
  }
  return ids;
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
      const int64_t verified,
      database_->QueryInt("SELECT count(*) FROM verification"));
  return absl::StrCat(trial, ".", revision, ".", verified);
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
                        RowOf(*database_, "problem", problem_hash));
  if (row == 0) {
    return absl::NotFoundError(
        absl::StrCat("there is no problem ", problem_hash));
  }
  HONE_ASSIGN_OR_RETURN(const std::string text,
                        TextOf(*database_, "problem", "text", row));
  return ParsedProblem(text);
}

absl::StatusOr<std::vector<BrowsedProblem>> StoreSnapshot::Problems(
    absl::string_view class_hash) const {
  HONE_ASSIGN_OR_RETURN(const int64_t device_class,
                        RowOf(*database_, "device_class", class_hash));
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
                          TextOf(*database_, "problem", "hash", row));
    HONE_ASSIGN_OR_RETURN(std::string text,
                          TextOf(*database_, "problem", "text", row));
    HONE_ASSIGN_OR_RETURN(browsed.problem, ParsedProblem(text));
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

absl::StatusOr<TrialColumns> StoreSnapshot::Trials(
    absl::string_view problem_hash, absl::string_view class_hash) const {
  TrialColumns columns;
  HONE_ASSIGN_OR_RETURN(const int64_t problem,
                        RowOf(*database_, "problem", problem_hash));
  HONE_ASSIGN_OR_RETURN(const int64_t device_class,
                        RowOf(*database_, "device_class", class_hash));
  int64_t protocol = 0;
  int64_t count = 0;
  {
    // Answered by trial_by_key alone.
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database_->Prepare("SELECT protocol, count(*), max(id) FROM trial"
                           " WHERE problem = ? AND device_class = ?"
                           " GROUP BY protocol ORDER BY max(id)"));
    select.Bind(problem).Bind(device_class);
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) break;
      columns.others += count;
      protocol = select.Int(0);
      count = select.Int(1);
    }
  }
  if (count == 0) return columns;
  HONE_ASSIGN_OR_RETURN(const std::string text,
                        TextOf(*database_, "protocol", "text", protocol));
  absl::StatusOr<Protocol> parsed = Protocol::Parse(text);
  HONE_RETURN_IF_ERROR(Unreadable(parsed.status()));
  columns.protocol = *parsed;
  for (std::vector<int64_t>* column :
       {&columns.id, &columns.m, &columns.config, &columns.outcome,
        &columns.session, &columns.unix_us, &columns.samples,
        &columns.median_ns, &columns.low_ns, &columns.high_ns,
        &columns.clock_khz}) {
    column->reserve(static_cast<size_t>(count));
  }
  TextIndex outcomes(&columns.outcomes);
  TextIndex sessions(&columns.sessions);
  absl::flat_hash_map<int64_t, int64_t> configs;
  SampleSummarizer summarizer;
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare(
          "SELECT id, m, config, outcome, session_id, unix_us, median_ns,"
          " samples FROM trial WHERE problem = ? AND device_class = ?"
          " AND protocol = ?"));
  select.Bind(problem).Bind(device_class).Bind(protocol);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return columns;
    columns.id.push_back(select.Int(0));
    columns.m.push_back(select.Int(1));
    const int64_t config = select.Int(2);
    const auto [known, is_new] =
        configs.try_emplace(config, std::ssize(columns.configs));
    columns.config.push_back(known->second);
    if (is_new) {
      HONE_ASSIGN_OR_RETURN(columns.configs.emplace_back(),
                            TextOf(*database_, "config", "text", config));
    }
    columns.outcome.push_back(outcomes.Of(select.View(3)));
    columns.session.push_back(sessions.Of(select.View(4)));
    columns.unix_us.push_back(select.Int(5));
    columns.median_ns.push_back(select.Int(6));
    const SampleSummary summary = summarizer.Summarize(select.View(7));
    columns.samples.push_back(summary.count);
    columns.low_ns.push_back(summary.low_ns);
    columns.high_ns.push_back(summary.high_ns);
    columns.clock_khz.push_back(summary.clock_khz);
  }
}

absl::StatusOr<BrowsedTrial> StoreSnapshot::TrialById(int64_t id) const {
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare("SELECT p.text, q.text, t.device FROM trial t"
                         " JOIN problem p ON p.id = t.problem"
                         " JOIN protocol q ON q.id = t.protocol"
                         " WHERE t.id = ?"));
  HONE_ASSIGN_OR_RETURN(const bool found, select.Bind(id).Step());
  if (!found)
    return absl::NotFoundError(absl::StrCat("there is no trial ", id));
  BrowsedTrial browsed;
  HONE_ASSIGN_OR_RETURN(const Problem problem, ParsedProblem(select.Text(0)));
  absl::StatusOr<Protocol> protocol = Protocol::Parse(select.Text(1));
  HONE_RETURN_IF_ERROR(Unreadable(protocol.status()));
  browsed.protocol = *protocol;
  HONE_ASSIGN_OR_RETURN(browsed.device, ReadDevice(*database_, select.Int(2)));
  HONE_ASSIGN_OR_RETURN(browsed.trial, ReadTrial(*database_, problem, id));
  return browsed;
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
    HONE_ASSIGN_OR_RETURN(session.problem, ParsedProblem(row.Text()));
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

absl::StatusOr<std::vector<RepeatedTrial>> StoreSnapshot::Repeats(
    absl::string_view class_hash, int64_t scan, int64_t limit) const {
  HONE_ASSIGN_OR_RETURN(const int64_t device_class,
                        RowOf(*database_, "device_class", class_hash));
  HONE_ASSIGN_OR_RETURN(std::vector<NarrowTrial> measured,
                        MeasuredTrials(*database_, device_class, scan));
  std::vector<RepeatedTrial> repeats;
  SampleSummarizer summarizer;
  for (const int64_t id : RepeatedIds(std::move(measured), limit)) {
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database_->Prepare(
            "SELECT p.hash, t.m, c.text, q.hash, k.kernel_id, k.nvrtc_version,"
            " d.uuid, d.driver, d.id, t.session_id, t.unix_us, t.median_ns,"
            " t.samples FROM trial t JOIN problem p ON p.id = t.problem"
            " JOIN config c ON c.id = t.config"
            " JOIN protocol q ON q.id = t.protocol"
            " JOIN kernel k ON k.id = t.kernel JOIN device d ON d.id = t.device"
            " WHERE t.id = ?"));
    HONE_ASSIGN_OR_RETURN(const bool found, select.Bind(id).Step());
    if (!found) return absl::DataLossError(absl::StrCat("no trial ", id));
    RowReader row(&select);
    RepeatedTrial& trial = repeats.emplace_back();
    trial.id = id;
    trial.problem_hash = row.Text();
    trial.m = row.Int();
    trial.config = row.Text();
    trial.protocol_hash = row.Text();
    trial.kernel_id = row.Text();
    trial.nvrtc_version = row.Text();
    trial.uuid = row.Text();
    trial.driver = row.Text();
    trial.device_row = row.Int();
    trial.session_id = row.Text();
    trial.unix_us = row.Int();
    trial.median_ns = row.Int();
    const SampleSummary summary = summarizer.Summarize(select.View(12));
    trial.low_ns = summary.low_ns;
    trial.high_ns = summary.high_ns;
    trial.clock_khz = summary.clock_khz;
  }
  return repeats;
}

}  // namespace hone
