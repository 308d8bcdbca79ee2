#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "db/browse.h"
#include "db/rows.h"
#include "db/sample_summary.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

using sqlite::Database;
using sqlite::Statement;

// Rows are read through in order while at least one in so many is asked for.
constexpr int64_t kSparse = 8;

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

struct TrialRow {
  int64_t id, m, config, outcome, session, unix_us, median_ns;
  SampleSummary summary;
};

void AppendColumns(const std::vector<TrialRow>& rows, TrialColumns& columns) {
  for (std::vector<int64_t>* column :
       {&columns.id, &columns.m, &columns.config, &columns.outcome,
        &columns.session, &columns.unix_us, &columns.samples,
        &columns.median_ns, &columns.low_ns, &columns.high_ns,
        &columns.clock_khz}) {
    column->reserve(rows.size());
  }
  for (const TrialRow& row : rows) {
    columns.id.push_back(row.id);
    columns.m.push_back(row.m);
    columns.config.push_back(row.config);
    columns.outcome.push_back(row.outcome);
    columns.session.push_back(row.session);
    columns.unix_us.push_back(row.unix_us);
    columns.samples.push_back(row.summary.count);
    columns.median_ns.push_back(row.median_ns);
    columns.low_ns.push_back(row.summary.low_ns);
    columns.high_ns.push_back(row.summary.high_ns);
    columns.clock_khz.push_back(row.summary.clock_khz);
  }
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

absl::StatusOr<TrialColumns> StoreSnapshot::Trials(
    absl::string_view problem_hash, absl::string_view class_hash,
    int64_t limit) const {
  TrialColumns columns;
  HONE_ASSIGN_OR_RETURN(const int64_t problem,
                        FindRow(*database_, "problem", problem_hash));
  HONE_ASSIGN_OR_RETURN(const int64_t device_class,
                        FindRow(*database_, "device_class", class_hash));
  int64_t protocol = 0;
  int64_t count = 0;
  int64_t first = 0;
  int64_t last = 0;
  {
    // Answered by trial_by_key alone.
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database_->Prepare(
            "SELECT protocol, count(*), min(id), max(id) FROM trial"
            " WHERE problem = ? AND device_class = ?"
            " GROUP BY protocol ORDER BY max(id)"));
    select.Bind(problem).Bind(device_class);
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) break;
      columns.others += count;
      protocol = select.Int(0);
      count = select.Int(1);
      first = select.Int(2);
      last = select.Int(3);
    }
  }
  if (count == 0) return columns;
  HONE_ASSIGN_OR_RETURN(const std::string text,
                        ReadText(*database_, "protocol", "text", protocol));
  absl::StatusOr<Protocol> parsed = Protocol::Parse(text);
  HONE_RETURN_IF_ERROR(Unreadable(parsed.status()));
  columns.protocol = *parsed;
  if (count > limit) {
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database_->Prepare("SELECT id FROM trial WHERE problem = ?"
                           " AND device_class = ? AND protocol = ?"
                           " ORDER BY id DESC LIMIT 1 OFFSET ?"));
    select.Bind(problem).Bind(device_class).Bind(protocol).Bind(limit - 1);
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return absl::DataLossError("trials are missing");
    first = select.Int(0);
    columns.older = count - limit;
    count = limit;
  }
  TextIndex outcomes(&columns.outcomes);
  TextIndex sessions(&columns.sessions);
  absl::flat_hash_map<int64_t, int64_t> configs;
  SampleSummarizer summarizer;
  std::vector<TrialRow> rows;
  rows.reserve(static_cast<size_t>(count));
  // Rows lie in the order of their ids. Reading on through a few that are not
  // asked for is faster than finding each by the index.
  const bool dense = (last - first + 1) / count < kSparse;
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      database_->Prepare(absl::StrCat(
          "SELECT id, m, config, outcome, session_id, unix_us, median_ns,"
          " samples FROM trial ",
          dense ? "NOT INDEXED" : "INDEXED BY trial_by_key",
          " WHERE problem = ? AND device_class = ? AND protocol = ?"
          " AND id BETWEEN ? AND ?")));
  select.Bind(problem).Bind(device_class).Bind(protocol).Bind(first).Bind(last);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) break;
    TrialRow& row = rows.emplace_back();
    row.id = select.Int(0);
    row.m = select.Int(1);
    const int64_t config = select.Int(2);
    const auto [known, is_new] =
        configs.try_emplace(config, std::ssize(columns.configs));
    row.config = known->second;
    if (is_new) {
      HONE_ASSIGN_OR_RETURN(columns.configs.emplace_back(),
                            ReadText(*database_, "config", "text", config));
    }
    row.outcome = outcomes.Of(select.View(3));
    row.session = sessions.Of(select.View(4));
    row.unix_us = select.Int(5);
    row.median_ns = select.Int(6);
    row.summary = summarizer.Summarize(select.View(7));
  }
  std::sort(rows.begin(), rows.end(),
            [](const TrialRow& a, const TrialRow& b) { return a.id < b.id; });
  AppendColumns(rows, columns);
  return columns;
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
  HONE_ASSIGN_OR_RETURN(const Problem problem, ParseProblem(select.Text(0)));
  absl::StatusOr<Protocol> protocol = Protocol::Parse(select.Text(1));
  HONE_RETURN_IF_ERROR(Unreadable(protocol.status()));
  browsed.protocol = *protocol;
  HONE_ASSIGN_OR_RETURN(browsed.device, ReadDevice(*database_, select.Int(2)));
  HONE_ASSIGN_OR_RETURN(browsed.trial, ReadTrial(*database_, problem, id));
  return browsed;
}

absl::StatusOr<std::vector<RepeatedTrial>> StoreSnapshot::Repeats(
    absl::string_view class_hash, int64_t scan, int64_t limit) const {
  HONE_ASSIGN_OR_RETURN(const int64_t device_class,
                        FindRow(*database_, "device_class", class_hash));
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
