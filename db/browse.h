// What pages show of a store: everything there is of a device class, a problem
// or a session, read on one snapshot.
//
// Classes and problems are named by their hashes (DeviceSpec::ClassHash(),
// Problem::Hash()). Errors of all functions are those of db/sqlite.h; NotFound
// where it is said.
#ifndef HONE_DB_BROWSE_H_
#define HONE_DB_BROWSE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "db/sqlite.h"
#include "db/store.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/trial.h"

namespace hone {

struct BrowsedClass {
  std::string hash;
  // Its devices in each of their states (driver, power limit, ...), in the
  // order first seen; at least one.
  std::vector<DeviceSpec> devices;
  int64_t trials = 0;
  // Published, superseded ones included.
  int64_t tables = 0;
};

struct BrowsedProblem {
  std::string hash;
  Problem problem;
  int64_t trials = 0;
  // The M at which something was measured, rising.
  std::vector<int64_t> measured_m;
};

// So many trials fit an answer that a page or a command reads whole: some 100 MB
// of memory.
inline constexpr int64_t kMostTrials = 200'000;

// Many trials as columns of the same length.
struct TrialColumns {
  // Results of different protocols are never compared: this is the protocol of
  // the newest trial, and `others` were made by another.
  Protocol protocol;
  int64_t others = 0;
  // By this protocol, but older than the limit let through.
  int64_t older = 0;
  // What the columns below point into.
  std::vector<std::string> configs;
  std::vector<std::string> outcomes;
  std::vector<std::string> sessions;
  // GPUs in one state each (driver, power limit, ...), and CompileInfo's
  // kernel_id: what a time depends on besides the config.
  std::vector<DeviceSpec> devices;
  std::vector<std::string> kernels;

  std::vector<int64_t> id;
  std::vector<int64_t> m;
  std::vector<int64_t> config;
  std::vector<int64_t> outcome;
  std::vector<int64_t> session;
  std::vector<int64_t> device;
  std::vector<int64_t> kernel;
  std::vector<int64_t> unix_us;
  std::vector<int64_t> samples;
  // 0 without samples. The bounds are the distribution-free 95 % interval of
  // the median (FixedMedianInterval), 0 when there are too few samples.
  std::vector<int64_t> median_ns;
  std::vector<int64_t> low_ns;
  std::vector<int64_t> high_ns;
  // Median SM clock; 0 when none was read.
  std::vector<int64_t> clock_khz;
};

struct BrowsedTrial {
  Trial trial;
  DeviceSpec device;
  Protocol protocol;
};

struct BrowsedSession {
  std::string id;
  std::string problem_hash;
  Problem problem;
  SessionStatus status = SessionStatus::kRunning;
  std::string detail;
  int64_t started_us = 0;
  int64_t finished_us = 0;  // 0: not known
  int64_t trials = 0;
  // By outcome's text.
  std::map<std::string, int64_t> outcomes;
};

// One of several measurements of a config at one M by one protocol.
struct RepeatedTrial {
  int64_t id = 0;
  std::string problem_hash;
  int64_t m = 0;
  std::string config;
  std::string protocol_hash;
  std::string kernel_id;
  std::string nvrtc_version;
  // Which GPU it was, and in which state.
  std::string uuid;
  std::string driver;
  std::string vbios;
  int64_t power_limit_mw = 0;
  bool ecc = false;
  int64_t device_row = 0;
  std::string session_id;
  int64_t unix_us = 0;
  int64_t median_ns = 0;
  // As in TrialColumns.
  int64_t low_ns = 0;
  int64_t high_ns = 0;
  int64_t clock_khz = 0;
};

// One snapshot, inside Store::Browse().
class StoreSnapshot {
 public:
  explicit StoreSnapshot(sqlite::Database* database) : database_(database) {}

  // Differs between snapshots whose trials, published tables or rechecks
  // differ.
  absl::StatusOr<std::string> Version() const;

  // In the order first seen.
  absl::StatusOr<std::vector<BrowsedClass>> Classes() const;
  // The class's device as last seen. NotFound.
  absl::StatusOr<DeviceSpec> DeviceOf(absl::string_view class_hash) const;
  // NotFound.
  absl::StatusOr<Problem> FindProblem(absl::string_view problem_hash) const;
  // Those that have trials or tables there, by rising text.
  absl::StatusOr<std::vector<BrowsedProblem>> Problems(
      absl::string_view class_hash) const;

  // Those that answer at the revision (the newest unless given), of all
  // problems when `problem_hash` is empty. OutOfRange: no such revision.
  absl::StatusOr<std::vector<StoredTable>> Tables(
      absl::string_view class_hash, absl::string_view problem_hash = "",
      std::optional<int64_t> revision = std::nullopt) const;

  // The newest `limit` by rising id. Empty when there are none.
  absl::StatusOr<TrialColumns> Trials(absl::string_view problem_hash,
                                      absl::string_view class_hash,
                                      int64_t limit) const;
  // NotFound.
  absl::StatusOr<BrowsedTrial> TrialById(int64_t id) const;

  // Newest first.
  absl::StatusOr<std::vector<BrowsedSession>> Sessions(
      absl::string_view class_hash, int64_t limit) const;

  // Everything that was measured more than once at the same problem, M and
  // config by the same protocol, among the newest `scan` measured trials of the
  // class: group by group, by rising id within each, the groups with the newest
  // trials first, at most `limit` trials.
  absl::StatusOr<std::vector<RepeatedTrial>> Repeats(
      absl::string_view class_hash, int64_t scan, int64_t limit) const;

 private:
  sqlite::Database* const database_;
};

}  // namespace hone

#endif  // HONE_DB_BROWSE_H_
