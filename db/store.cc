#include "db/store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "db/migrations.h"
#include "db/rows.h"
#include "db/table_json.h"
#include "db/table_rows.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

using sqlite::Access;
using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

constexpr int64_t kDefaultPageSize = 50;
constexpr int64_t kMaxPageSize = 1000;

constexpr absl::string_view kSessionStatuses[] = {
    "running", "finished", "cancelled", "failed", "interrupted"};

// Where a list goes on: the revision of its first page, and the last table of
// the page before.
struct PagePosition {
  int64_t revision = 0;
  int64_t after = 0;
};

std::string PageToken(const PagePosition& position) {
  return absl::WebSafeBase64Escape(
      absl::StrCat("tables ", position.revision, " ", position.after));
}

absl::StatusOr<PagePosition> ParsePageToken(const std::string& token) {
  PagePosition position;
  std::string text;
  std::vector<absl::string_view> parts;
  if (absl::WebSafeBase64Unescape(token, &text)) {
    parts = absl::StrSplit(text, ' ');
  }
  if (parts.size() != 3 || parts[0] != "tables" ||
      !absl::SimpleAtoi(parts[1], &position.revision) ||
      !absl::SimpleAtoi(parts[2], &position.after)) {
    return absl::InvalidArgumentError(
        "page_token must be empty or the next_page_token of another page");
  }
  return position;
}

// The revision asked for, or the current one.
absl::StatusOr<int64_t> ResolveRevision(Database& database,
                                        std::optional<int64_t> revision) {
  HONE_ASSIGN_OR_RETURN(const int64_t current, ReadCurrentRevision(database));
  if (!revision.has_value()) return current;
  if (*revision < 0 || *revision > current) {
    return absl::OutOfRangeError(absl::StrCat("revision ", *revision,
                                              " is not published here; there ",
                                              "are 0 to ", current));
  }
  return *revision;
}

}  // namespace

absl::string_view ToString(Origin origin) {
  return origin == Origin::kLocal ? "local" : "imported";
}

absl::string_view ToString(SessionStatus status) {
  return kSessionStatuses[static_cast<size_t>(status)];
}

absl::StatusOr<SessionStatus> ParseSessionStatus(absl::string_view text) {
  const auto* const end = std::end(kSessionStatuses);
  const auto* const it = std::find(std::begin(kSessionStatuses), end, text);
  if (it == end) {
    return absl::DataLossError(absl::StrCat("session status ", text));
  }
  return static_cast<SessionStatus>(it - std::begin(kSessionStatuses));
}

// ---- opening, writing, reading ----

Store::Store(std::string path, StoreOptions options)
    : path_(std::move(path)), options_(options) {}

Store::~Store() {
  // Readers first: the writer is the last to close, so that its close does the
  // checkpoint.
  absl::MutexLock lock(&read_mutex_);
  idle_readers_.clear();
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(
    const std::string& path, const StoreOptions& options) {
  if (options.readers < 1) {
    return absl::InvalidArgumentError(absl::StrCat("readers is ",
                                                   options.readers,
                                                   "; it must be at least "
                                                   "1"));
  }
  std::unique_ptr<Store> store(new Store(path, options));
  const std::vector<Migration> migrations = Migrations();
  if (!options.read_only) {
    HONE_RETURN_IF_ERROR(CheckLocalFilesystem(path));
    HONE_ASSIGN_OR_RETURN(store->lock_, LockFile::Acquire(path + ".lock"));
    absl::MutexLock lock(&store->write_mutex_);
    HONE_ASSIGN_OR_RETURN(store->writer_,
                          Database::Open(path, Access::kReadWrite));
    HONE_RETURN_IF_ERROR(QuickCheck(*store->writer_));
    HONE_RETURN_IF_ERROR(Migrate(*store->writer_, migrations));
    // Whoever ran them held the lock before us, so it is gone.
    HONE_ASSIGN_OR_RETURN(
        Statement interrupt,
        store->writer_->Prepare("UPDATE session SET status = 'interrupted'"
                                " WHERE status = 'running'"));
    HONE_RETURN_IF_ERROR(interrupt.Run());
  }
  absl::MutexLock lock(&store->read_mutex_);
  for (int i = 0; i < options.readers; ++i) {
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<Database> reader,
                          Database::Open(path, Access::kReadOnly));
    store->idle_readers_.push_back(std::move(reader));
  }
  if (options.read_only) {
    HONE_RETURN_IF_ERROR(CheckVersion(*store->idle_readers_[0], migrations));
    HONE_RETURN_IF_ERROR(QuickCheck(*store->idle_readers_[0]));
  }
  return store;
}

absl::Status Store::Write(const std::function<absl::Status(Database&)>& work) {
  absl::MutexLock lock(&write_mutex_);
  if (writer_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " is open for reading only"));
  }
  HONE_ASSIGN_OR_RETURN(Transaction transaction,
                        Transaction::Begin(writer_.get(), Access::kReadWrite));
  HONE_RETURN_IF_ERROR(work(*writer_));
  return transaction.Commit();
}

absl::Status Store::Read(
    const std::function<absl::Status(Database&)>& work) const {
  std::unique_ptr<Database> reader;
  {
    const auto any_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(read_mutex_) {
      return !idle_readers_.empty();
    };
    absl::MutexLock lock(&read_mutex_, absl::Condition(&any_idle));
    reader = std::move(idle_readers_.back());
    idle_readers_.pop_back();
  }
  const auto run = [&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(Transaction transaction,
                          Transaction::Begin(reader.get(), Access::kReadOnly));
    HONE_RETURN_IF_ERROR(work(*reader));
    return transaction.Commit();
  };
  const absl::Status status = run();
  absl::MutexLock lock(&read_mutex_);
  idle_readers_.push_back(std::move(reader));
  return status;
}

// ---- trials ----

absl::StatusOr<int64_t> Store::RecordTrial(const DeviceSpec& device,
                                           const Protocol& protocol,
                                           const Trial& trial) {
  HONE_ASSIGN_OR_RETURN(
      const std::vector<int64_t> ids,
      RecordTrials(device, protocol, absl::MakeConstSpan(&trial, 1)));
  return ids.front();
}

absl::StatusOr<std::vector<int64_t>> Store::RecordTrials(
    const DeviceSpec& device, const Protocol& protocol,
    absl::Span<const Trial> trials) {
  std::vector<int64_t> ids;
  HONE_RETURN_IF_ERROR(Write([&](Database& database) -> absl::Status {
    for (const Trial& trial : trials) {
      HONE_ASSIGN_OR_RETURN(const int64_t id,
                            InsertTrial(database, device, protocol, trial));
      ids.push_back(id);
    }
    return absl::OkStatus();
  }));
  return ids;
}

absl::StatusOr<std::vector<Trial>> Store::KnownTrials(
    const Problem& problem, const DeviceSpec& device, const Protocol& protocol,
    bool this_state_only) const {
  std::vector<Trial> trials;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(trials, ReadTrials(database, problem, device,
                                             protocol, this_state_only));
    return absl::OkStatus();
  }));
  return trials;
}

// ---- aliases ----

absl::Status Store::PutAlias(const CompileInfo& compile) {
  if (compile.source_key.empty() || compile.cubin_hash.empty()) {
    return absl::InvalidArgumentError(
        "an alias needs a source_key and a cubin_hash");
  }
  return Write([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const int64_t kernel,
                          InternKernel(database, compile));
    HONE_ASSIGN_OR_RETURN(
        Statement put,
        database.Prepare("INSERT INTO alias (source_key, kernel, compile_ms)"
                         " VALUES (?, ?, ?) ON CONFLICT (source_key) DO UPDATE"
                         " SET kernel = excluded.kernel,"
                         " compile_ms = excluded.compile_ms"));
    return put.Bind(compile.source_key)
        .Bind(kernel)
        .Bind(compile.compile_ms)
        .Run();
  });
}

absl::StatusOr<CompileInfo> Store::GetAlias(
    absl::string_view source_key) const {
  static const auto* sql = new std::string(absl::StrCat(
      "SELECT a.compile_ms, ", KernelColumns(),
      " FROM alias a JOIN kernel k ON k.id = a.kernel WHERE a.source_key = ?"));
  CompileInfo compile;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(Statement select, database.Prepare(*sql));
    HONE_ASSIGN_OR_RETURN(const bool found, select.Bind(source_key).Step());
    if (!found) {
      return absl::NotFoundError(
          absl::StrCat("no cubin is known for source key ", source_key));
    }
    RowReader row(&select);
    const int64_t compile_ms = row.Int();
    compile = ReadKernel(row);
    compile.compile_ms = compile_ms;
    return absl::OkStatus();
  }));
  return compile;
}

// ---- tables ----

absl::StatusOr<int64_t> Store::PublishTable(const DispatchTable& table) {
  HONE_RETURN_IF_ERROR(CheckTable(table));
  int64_t revision = 0;
  HONE_RETURN_IF_ERROR(Write([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(revision,
                          InsertRevision(database, table.unix_us, ""));
    return InsertTable(database, revision, Origin::kLocal, table);
  }));
  return revision;
}

absl::StatusOr<ImportResult> Store::ImportTables(
    absl::Span<const DispatchTable> tables, absl::string_view bundle_sha256,
    int64_t unix_us) {
  for (const DispatchTable& table : tables) {
    HONE_RETURN_IF_ERROR(CheckTable(table));
  }
  ImportResult result;
  HONE_RETURN_IF_ERROR(Write([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(result.revision, ReadCurrentRevision(database));
    for (const DispatchTable& table : tables) {
      HONE_ASSIGN_OR_RETURN(const bool known, HasTable(database, table));
      if (known) {
        ++result.tables_known;
        continue;
      }
      if (result.tables_added++ == 0) {
        HONE_ASSIGN_OR_RETURN(result.revision,
                              InsertRevision(database, unix_us, bundle_sha256));
      }
      HONE_RETURN_IF_ERROR(
          InsertTable(database, result.revision, Origin::kImported, table));
    }
    return absl::OkStatus();
  }));
  return result;
}

absl::StatusOr<StoredTable> Store::GetTable(
    const Problem& problem, const DeviceSpec& device,
    std::optional<int64_t> revision) const {
  StoredTable stored;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const int64_t at,
                          ResolveRevision(database, revision));
    HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> id,
                          AnsweringTable(database, problem, device, at));
    if (!id.has_value()) return ExplainMiss(database, problem, device, at);
    HONE_ASSIGN_OR_RETURN(stored, ReadTable(database, *id));
    return absl::OkStatus();
  }));
  if (std::count(stored.kept_in.begin(), stored.kept_in.end(),
                 device.SoftText()) == 0) {
    stored.soft_differences = SoftDifferences(device, stored.table.device);
  }
  return stored;
}

absl::StatusOr<TablePage> Store::ListTables(const PageRequest& request) const {
  if (request.page_size < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "page_size is ", request.page_size, "; it must be at least 0"));
  }
  const int64_t size = request.page_size == 0
                           ? kDefaultPageSize
                           : std::min(request.page_size, kMaxPageSize);
  std::optional<PagePosition> position;
  if (!request.page_token.empty()) {
    HONE_ASSIGN_OR_RETURN(position, ParsePageToken(request.page_token));
  }
  TablePage page;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    AnsweringQuery query;
    if (position.has_value()) {
      query.revision = position->revision;
      query.after = position->after;
    } else {
      HONE_ASSIGN_OR_RETURN(query.revision, ReadCurrentRevision(database));
    }
    // One more tells whether there is another page.
    query.limit = size + 1;
    HONE_ASSIGN_OR_RETURN(std::vector<int64_t> ids,
                          AnsweringTables(database, query));
    if (static_cast<int64_t>(ids.size()) > size) {
      ids.pop_back();
      page.next_page_token = PageToken({query.revision, ids.back()});
    }
    for (const int64_t id : ids) {
      HONE_ASSIGN_OR_RETURN(StoredTable table, ReadTable(database, id));
      page.tables.push_back(std::move(table));
    }
    return absl::OkStatus();
  }));
  return page;
}

absl::StatusOr<std::vector<StoredTable>> Store::Tables(
    const TableFilter& filter) const {
  std::vector<std::pair<std::pair<std::string, std::string>, StoredTable>>
      keyed;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    AnsweringQuery query;
    HONE_ASSIGN_OR_RETURN(query.revision,
                          ResolveRevision(database, filter.revision));
    if (filter.problem) query.problem_hash = filter.problem->Hash();
    query.class_hash = filter.device_class.value_or("");
    HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                          AnsweringTables(database, query));
    for (const int64_t id : ids) {
      HONE_ASSIGN_OR_RETURN(StoredTable stored, ReadTable(database, id));
      std::pair<std::string, std::string> key = {
          stored.table.problem.ToString(), stored.table.device.ClassHash()};
      keyed.emplace_back(std::move(key), std::move(stored));
    }
    return absl::OkStatus();
  }));
  std::sort(keyed.begin(), keyed.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<StoredTable> tables;
  for (auto& [key, stored] : keyed) tables.push_back(std::move(stored));
  return tables;
}

absl::StatusOr<int64_t> Store::CurrentRevision() const {
  int64_t revision = 0;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(revision, ReadCurrentRevision(database));
    return absl::OkStatus();
  }));
  return revision;
}

absl::StatusOr<std::vector<StoredDevice>> Store::ListDevices() const {
  std::vector<StoredDevice> devices;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database.Prepare(
            "SELECT d.id,"
            " (SELECT count(*) FROM trial t WHERE t.device = d.id),"
            " (SELECT count(*) FROM dispatch_table t WHERE t.device = d.id)"
            " FROM device d ORDER BY d.id"));
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) return absl::OkStatus();
      StoredDevice& stored = devices.emplace_back();
      HONE_ASSIGN_OR_RETURN(stored.device, ReadDevice(database, select.Int(0)));
      stored.trials = select.Int(1);
      stored.tables = select.Int(2);
    }
  }));
  return devices;
}

// ---- sessions ----

absl::Status Store::BeginSession(const SessionRecord& session) {
  if (session.id.empty()) {
    return absl::InvalidArgumentError("session.id must not be empty");
  }
  return Write([&](Database& database) -> absl::Status {
    {
      HONE_ASSIGN_OR_RETURN(
          Statement find,
          database.Prepare("SELECT status FROM session WHERE id = ?"));
      HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(session.id).Step());
      const std::string status = found ? find.Text(0) : "";
      if (status == "running" || status == "finished") {
        return absl::AlreadyExistsError(
            absl::StrCat("session ", session.id, " is ", status, " already"));
      }
    }
    HONE_ASSIGN_OR_RETURN(Statement forget,
                          database.Prepare("DELETE FROM session WHERE id = ?"));
    HONE_RETURN_IF_ERROR(forget.Bind(session.id).Run());
    HONE_ASSIGN_OR_RETURN(const DeviceIds device,
                          InternDevice(database, session.device));
    HONE_ASSIGN_OR_RETURN(const int64_t problem,
                          InternProblem(database, session.problem));
    HONE_ASSIGN_OR_RETURN(const int64_t protocol,
                          InternProtocol(database, session.protocol));
    NewRow row;
    row("id", session.id);
    row("problem", problem);
    row("device", device.device);
    row("protocol", protocol);
    row("status", ToString(SessionStatus::kRunning));
    row("detail", "");
    row("started_us", session.started_us);
    row("finished_us", int64_t{0});
    return row.InsertInto(database, "session").status();
  });
}

absl::Status Store::FinishSession(absl::string_view id, SessionStatus status,
                                  absl::string_view detail, int64_t unix_us) {
  return Write([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(
        Statement finish,
        database.Prepare("UPDATE session SET status = ?, detail = ?,"
                         " finished_us = ? WHERE id = ?"
                         " AND status = 'running'"));
    HONE_RETURN_IF_ERROR(finish.Bind(ToString(status))
                             .Bind(detail)
                             .Bind(unix_us)
                             .Bind(id)
                             .Run());
    if (database.changes() == 1) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("no session ", id, " is running"));
  });
}

absl::StatusOr<std::vector<SessionRecord>> Store::Sessions(
    int64_t limit) const {
  std::vector<SessionRecord> sessions;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database.Prepare(
            "SELECT s.id, p.text, s.device, q.text, s.status, s.detail,"
            " s.started_us, s.finished_us FROM session s"
            " JOIN problem p ON p.id = s.problem"
            " JOIN protocol q ON q.id = s.protocol"
            " ORDER BY s.started_us DESC, s.id LIMIT ?"));
    select.Bind(std::max<int64_t>(limit, 0));
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) return absl::OkStatus();
      RowReader row(&select);
      SessionRecord& session = sessions.emplace_back();
      session.id = row.Text();
      absl::StatusOr<Problem> problem = Problem::Parse(row.Text());
      HONE_RETURN_IF_ERROR(Unreadable(problem.status()));
      session.problem = *problem;
      HONE_ASSIGN_OR_RETURN(session.device, ReadDevice(database, row.Int()));
      absl::StatusOr<Protocol> protocol = Protocol::Parse(row.Text());
      HONE_RETURN_IF_ERROR(Unreadable(protocol.status()));
      session.protocol = *protocol;
      HONE_ASSIGN_OR_RETURN(session.status, ParseSessionStatus(row.Text()));
      session.detail = row.Text();
      session.started_us = row.Int();
      session.finished_us = row.Int();
    }
  }));
  return sessions;
}

}  // namespace hone
