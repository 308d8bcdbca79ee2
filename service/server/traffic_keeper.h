// Traffic as honed knows it: reports of calls, lookups that missed, and where
// time is spent by what the tables say of it.
#ifndef HONE_SERVICE_SERVER_TRAFFIC_KEEPER_H_
#define HONE_SERVICE_SERVER_TRAFFIC_KEEPER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "service/convert/answer.h"
#include "service/server/log.h"
#include "service/server/table_cache.h"
#include "tuner/traffic.h"

namespace hone {

// One problem on one device class, and what serves it now.
struct TrafficView {
  StoredTraffic stored;
  ProblemTraffic traffic;
  // Of all time on its device class.
  double time_share = 0;
  // The times are the analytic model's.
  bool times_modelled = false;
};

// Thread-safe.
class TrafficKeeper {
 public:
  struct Options {
    // How long a miss may stay in memory only. honed loses those of this time
    // when it is killed.
    absl::Duration flush_period = absl::Seconds(30);
    // Problems in memory at once; misses of more are only counted together.
    size_t max_pending = 4096;
    std::function<absl::Time()> now = absl::Now;
  };

  // What is pointed to must outlive the keeper.
  TrafficKeeper(Store* store, TableCache* tables, Logger* log, Options options);
  // Stores what is in memory.
  ~TrafficKeeper();
  TrafficKeeper(const TrafficKeeper&) = delete;
  TrafficKeeper& operator=(const TrafficKeeper&) = delete;

  // Counts an answer at the newest revision if it is a miss: not of the
  // problem's own table, or of a stale one. Touches only memory.
  void CountLookup(const Problem& problem, const DeviceSpec& device,
                   const Provenance& provenance);

  // As Store::RecordTraffic().
  absl::StatusOr<bool> Report(absl::string_view report_id,
                              absl::Span<const TrafficCount> counts);

  // Writes the misses to the store. What cannot be written stays in memory.
  absl::Status Flush();

  // Everything as of now, in the order first seen. Flushes first.
  absl::StatusOr<std::vector<TrafficView>> View();

  // Misses of problems that found no place in memory, since the start.
  int64_t uncounted() const;

 private:
  void Work();
  // Times by the model of how a problem runs untuned; empty when there is no
  // kernel for it. Remembered.
  TimeCurve ModelTimes(const Problem& problem, const DeviceSpec& device);
  int64_t NowUs() const { return absl::ToUnixMicros(options_.now()); }

  Store* const store_;
  TableCache* const tables_;
  Logger* const log_;
  const Options options_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // By problem and device class.
  absl::flat_hash_map<std::string, TrafficCount> misses_
      ABSL_GUARDED_BY(mutex_);
  int64_t uncounted_ ABSL_GUARDED_BY(mutex_) = 0;
  // One flush at a time.
  absl::Mutex flush_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);

  absl::Mutex curves_mutex_;
  absl::flat_hash_map<std::string, TimeCurve> curves_
      ABSL_GUARDED_BY(curves_mutex_);
  std::thread thread_;
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_TRAFFIC_KEEPER_H_
