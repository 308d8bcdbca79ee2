// Store: what was learned, in one SQLite file. See db/DESIGN.md.
//
// Trials are append-only evidence. Dispatch tables are derived from them and
// published under revisions: a revision is an immutable snapshot of all
// published tables.
#ifndef HONE_DB_STORE_H_
#define HONE_DB_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "db/files.h"
#include "db/sqlite.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/recheck_report.h"
#include "tuner/regret_bound.h"
#include "tuner/study.h"
#include "tuner/traffic.h"
#include "tuner/trial.h"

namespace hone {

// How much of traffic is kept.
struct TrafficLimits {
  // Problems, each on one device class: where one more comes, the eighth that
  // weighs least is dropped.
  size_t max_problems = 2048;
  // M of a problem; rare ones are merged into the next above (MergeRare()).
  size_t max_points = 512;
  // How long a report is known by its id, and how many are at most.
  absl::Duration known_for = absl::Hours(1);
  int64_t max_known = 100'000;
};

struct StoreOptions {
  // Reads only: takes no lock, so it may run beside honed; writing is
  // FailedPrecondition.
  bool read_only = false;
  // Connections that read at the same time; more callers wait.
  int readers = 4;
  TrafficLimits traffic = {};
};

enum class Origin : uint8_t {
  kLocal,     // measured or modelled by this store's own sessions
  kImported,  // came in a bundle
};
absl::string_view ToString(Origin origin);

// "driver 580.65 here, 570.12 measured" for each soft field that differs.
std::vector<std::string> SoftDifferences(const DeviceSpec& here,
                                         const DeviceSpec& measured);

// A published table as a lookup finds it.
struct StoredTable {
  // Names the table in this store, for RecordRecheck().
  int64_t id = 0;
  DispatchTable table;
  // The revision it was published under.
  int64_t revision = 0;
  Origin origin = Origin::kLocal;
  // SHA-256 of the bundle it came in; empty for local tables.
  std::string imported_from;
  // Local tables always are; imported ones once their winner has beaten the
  // default here. Not part of the revision's snapshot: it is as of now.
  bool verified = true;
  // States of a device (DeviceSpec::SoftText()) in which a recheck has found
  // the table as good as it was. As of now, too.
  std::vector<std::string> kept_in;
  // How the device that asked differs in soft fields from the one measured,
  // e.g. "driver 580.65 here, 570.12 measured". None where a recheck kept the
  // table. Empty from ListTables().
  std::vector<std::string> soft_differences;
};

// A recheck as it is stored; see tuner/recheck_report.h.
struct RecheckRecord {
  struct Table {
    int64_t table_id = 0;  // StoredTable::id
    int64_t keys = 0;
    std::optional<double> median_regret;
    RecheckVerdict verdict = RecheckVerdict::kUnknown;
  };
  // Of its trials.
  std::string session_id;
  DeviceSpec device;
  int64_t unix_us = 0;
  int64_t keys = 0;
  // Of the local tables' keys; none when there was no such key.
  std::optional<double> median_regret;
  double regret_limit = 0;
  std::vector<Table> tables;
};

// A list is read in pages that all see the revision of the first one.
struct PageRequest {
  // 0 means 50; more than 1000 means 1000.
  int64_t page_size = 0;
  // Empty, or the previous page's next_page_token.
  std::string page_token;
};
// Which of the answering tables; all of them unless given.
struct TableFilter {
  std::optional<Problem> problem;
  // Hash of a device class: DeviceSpec::ClassHash().
  std::optional<std::string> device_class;
  // As of this revision instead of the current one.
  std::optional<int64_t> revision;
};
struct TablePage {
  std::vector<StoredTable> tables;
  // Empty on the last page.
  std::string next_page_token;
};

struct StoredDevice {
  DeviceSpec device;
  int64_t trials = 0;
  // Tables published, superseded ones included.
  int64_t tables = 0;
};

enum class SessionStatus : uint8_t {
  kRunning,
  kFinished,
  kCancelled,
  kFailed,
  // Its process ended before it did.
  kInterrupted,
};
absl::string_view ToString(SessionStatus status);
// DataLoss: the text is none of theirs.
absl::StatusOr<SessionStatus> ParseSessionStatus(absl::string_view text);

struct SessionRecord {
  std::string id;
  Problem problem;
  DeviceSpec device;
  Protocol protocol;
  SessionStatus status = SessionStatus::kRunning;
  // One line for people: why it failed.
  std::string detail;
  int64_t started_us = 0;
  // 0 while running, and when interrupted.
  int64_t finished_us = 0;
};

// One report of a study, as Study::Report() takes it.
struct StoredStudyResult {
  std::string config;  // StudySpace::Text()
  Outcome outcome = Outcome::kMeasured;
  std::string detail;
  std::vector<Sample> samples;
  friend bool operator==(const StoredStudyResult&,
                         const StoredStudyResult&) = default;
};

struct StoredStudy {
  std::string id;
  StudySpec spec;
  int64_t opened_us = 0;
  int64_t closed_us = 0;  // 0 while open
  // In the order taken.
  std::vector<StoredStudyResult> results;
};

// Calls of one problem since its last report, by M; or, without calls, lookups
// that missed.
struct TrafficCount {
  Problem problem;
  DeviceSpec device;
  std::vector<MWeight> calls;
  double misses = 0;
};

// Counts decayed to the moment they were read.
struct StoredTraffic {
  int64_t id = 0;
  Problem problem;
  // The last of its class that was named.
  DeviceSpec device;
  // By rising M.
  std::vector<MWeight> calls;
  double misses = 0;
  // 0: never.
  int64_t reported_us = 0;
  int64_t missed_us = 0;
};

struct ImportResult {
  int64_t tables_added = 0;
  // Already here, with exactly this content.
  int64_t tables_known = 0;
  // The revision that published the added ones, or the current one.
  int64_t revision = 0;
};

class StoreSnapshot;

// Thread-safe. Writes are serialized on one connection; each returns only when
// its transaction is durable, and leaves nothing behind when it fails. Errors
// of the database are those of db/sqlite.h.
class Store {
 public:
  // Opens, creates or migrates (after a backup). FailedPrecondition: another
  // process writes here (its pid is named), the file is of a newer Hone or not
  // of Hone at all, or lies on a network filesystem. DataLoss: it is damaged.
  // Sessions left running by a process that died become interrupted.
  static absl::StatusOr<std::unique_ptr<Store>> Open(
      const std::string& path, const StoreOptions& options = {});
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // ---- trials ----

  // Returns the trial's id in this store.
  absl::StatusOr<int64_t> RecordTrial(const DeviceSpec& device,
                                      const Protocol& protocol,
                                      const Trial& trial);
  // All or none, in one transaction.
  absl::StatusOr<std::vector<int64_t>> RecordTrials(
      const DeviceSpec& device, const Protocol& protocol,
      absl::Span<const Trial> trials);
  // Every trial of the problem on devices of this class by this protocol, in
  // the order recorded. What a session resumes from. Without the failures of
  // compiled kernels under another driver than the device's: it may have been
  // the driver. With `this_state_only`, without any trial of a device whose
  // soft fields differ.
  absl::StatusOr<std::vector<Trial>> KnownTrials(
      const Problem& problem, const DeviceSpec& device,
      const Protocol& protocol, bool this_state_only = false) const;

  // ---- rendered source → cubin ----

  // InvalidArgument unless source_key and cubin_hash are given. A later alias
  // of the same key replaces the earlier.
  absl::Status PutAlias(const CompileInfo& compile);
  absl::StatusOr<CompileInfo> GetAlias(absl::string_view source_key) const;

  // ---- tables ----

  // Returns the new revision. Refuses what CheckTable() of db/table_json.h
  // refuses, with its error.
  absl::StatusOr<int64_t> PublishTable(const DispatchTable& table);

  // Publishes a bundle's tables under one revision, unverified. A table whose
  // content is here already, local or imported, is left out. For db/bundle.h,
  // which validates first.
  absl::StatusOr<ImportResult> ImportTables(
      absl::Span<const DispatchTable> tables, absl::string_view bundle_sha256,
      int64_t unix_us);

  // The table that answers for the problem on devices of this class: a local
  // one before an imported one, then the newest; as of `revision` when given.
  // NotFound says what is nearest: the hard field in which another device
  // differs, or a later revision. OutOfRange: no such revision.
  absl::StatusOr<StoredTable> GetTable(
      const Problem& problem, const DeviceSpec& device,
      std::optional<int64_t> revision = std::nullopt) const;

  // The answering table of every problem and device class. InvalidArgument: a
  // page size or token that is not valid.
  absl::StatusOr<TablePage> ListTables(const PageRequest& request = {}) const;
  // Those that pass the filter, whole, by rising problem text, then class hash.
  // OutOfRange: no such revision.
  absl::StatusOr<std::vector<StoredTable>> Tables(
      const TableFilter& filter = {}) const;

  // Stores a recheck. Imported tables that it says are verified are so from
  // now on. NotFound: no such table.
  absl::Status RecordRecheck(const RecheckRecord& record);
  // What trials say of the times of every config that a table serves, for each
  // of the tables in turn: by its problem, device class and protocol.
  absl::StatusOr<std::vector<TrialTimes>> TimesOf(
      absl::Span<const StoredTable> tables) const;

  // 0 before anything was published.
  absl::StatusOr<int64_t> CurrentRevision() const;

  // Every device that trials or tables are of, in the order first seen.
  absl::StatusOr<std::vector<StoredDevice>> ListDevices() const;

  // ---- studies of declared spaces (store_studies.cc) ----

  // Opens a study, unless there is one with this id and spec. Unless
  // `retry_failures`, what failed last in earlier studies of the same problem
  // and device and is of this space becomes its first results. AlreadyExists:
  // the id has another spec. ResourceExhausted: `max_open` are open.
  // InvalidArgument: the baseline is known to fail.
  absl::StatusOr<bool> OpenStudy(absl::string_view id, const Study& study,
                                 bool retry_failures, int64_t max_open,
                                 int64_t unix_us);
  // All or none. FailedPrecondition: the study is closed. NotFound: there is
  // none.
  absl::Status RecordStudyResults(absl::string_view id,
                                  absl::Span<const StoredStudyResult> results,
                                  int64_t unix_us);
  // False when it was closed. NotFound: there is none.
  absl::StatusOr<bool> CloseStudy(absl::string_view id, int64_t unix_us);
  absl::StatusOr<StoredStudy> GetStudy(absl::string_view id) const;

  // ---- traffic (store_traffic.cc) ----

  // Adds a report's calls, all or none. False when a report of this id was
  // counted before. AlreadyExists: one that said something else was.
  absl::StatusOr<bool> RecordTraffic(absl::string_view report_id,
                                     absl::Span<const TrafficCount> counts,
                                     int64_t unix_us);
  // Adds calls and misses that are nobody's report.
  absl::Status AddTraffic(absl::Span<const TrafficCount> counts,
                          int64_t unix_us);
  // In the order first seen.
  absl::StatusOr<std::vector<StoredTraffic>> Traffic(int64_t unix_us) const;

  // ---- everything else, for people (db/browse.h) ----

  // Runs `read` on one snapshot, which is of no use afterwards. Returns its
  // error.
  absl::Status Browse(
      const std::function<absl::Status(const StoreSnapshot&)>& read) const;

  // ---- sessions ----

  // Records a running session. An id that was interrupted, cancelled or failed
  // runs again; AlreadyExists when it is running or finished.
  absl::Status BeginSession(const SessionRecord& session);
  // NotFound: no such session is running.
  absl::Status FinishSession(absl::string_view id, SessionStatus status,
                             absl::string_view detail, int64_t unix_us);
  // Newest first, at most `limit`.
  absl::StatusOr<std::vector<SessionRecord>> Sessions(int64_t limit) const;

 private:
  Store(std::string path, StoreOptions options);

  // Runs `work` in one transaction of the writing connection.
  absl::Status Write(
      const std::function<absl::Status(sqlite::Database&)>& work);
  // Runs `work` on one snapshot.
  absl::Status Read(
      const std::function<absl::Status(sqlite::Database&)>& work) const;

  const std::string path_;
  const StoreOptions options_;
  std::unique_ptr<LockFile> lock_;

  absl::Mutex write_mutex_;
  std::unique_ptr<sqlite::Database> writer_ ABSL_GUARDED_BY(write_mutex_);

  mutable absl::Mutex read_mutex_;
  mutable std::vector<std::unique_ptr<sqlite::Database>> idle_readers_
      ABSL_GUARDED_BY(read_mutex_);
};

}  // namespace hone

#endif  // HONE_DB_STORE_H_
