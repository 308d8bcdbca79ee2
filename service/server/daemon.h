// honed as a library: everything behind one listening address.
#ifndef HONE_SERVICE_SERVER_DAEMON_H_
#define HONE_SERVICE_SERVER_DAEMON_H_

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "service/http/http_server.h"
#include "service/metrics/event_metrics.h"
#include "service/metrics/gpu_monitor.h"
#include "service/metrics/metered_compiler.h"
#include "service/metrics/metrics_page.h"
#include "service/server/audit_runner.h"
#include "service/server/device_backend.h"
#include "service/server/idle_tuner.h"
#include "service/server/log.h"
#include "service/server/recheck_runner.h"
#include "service/server/study_service.h"
#include "service/server/table_cache.h"
#include "service/server/traffic_keeper.h"
#include "service/server/tune_jobs.h"
#include "service/server/tune_runner.h"
#include "service/server/tuning_service.h"

namespace hone {

struct DaemonOptions {
  // A Unix socket's absolute path, with or without "unix:", "host:port" or
  // "[v6]:port"; port 0 picks one. The socket's folder is made for this user
  // only.
  std::string listen;
  // Allows listening beyond the loopback interface, without encryption or
  // authentication.
  bool insecure = false;
  // The SQLite file; its folder is made when missing.
  std::string database;
  // "host:port" or "[v6]:port" of the read-only pages, loopback unless
  // `insecure`; port 0 picks one. Empty: none.
  std::string http;
  // When `http` is taken, serve without pages instead of failing.
  bool http_may_be_taken = false;
  // See TuningServiceImpl::Parts.
  std::string import_key_pem;
  int max_queued = 64;
  // Whether to recheck the tables at once when the device's driver, VBIOS,
  // power limit or another soft field is not the one that they were measured
  // with.
  bool recheck = true;
  // Tune by traffic and misses once no tune was asked for in `idle_after`.
  bool idle_tune = false;
  absl::Duration idle_after = absl::Seconds(60);
};

// Whether honed may listen there: the address is well formed and, unless
// `insecure`, a Unix socket or a loopback address. InvalidArgument.
absl::Status CheckListenAddress(absl::string_view listen, bool insecure);

// The methods that RPC metrics name.
std::vector<std::string> MeteredMethods();
// Counts a job that ended.
void CountJob(const TuneSnapshot& job, EventMetrics& metrics);

class Daemon {
 public:
  // Opens the store and serves. `log` must outlive the daemon. The errors of
  // Store::Open(), CheckListenAddress() and HttpServer::Start(); Unavailable
  // when the address is taken.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(DaemonOptions options,
                                                       DeviceBackend device,
                                                       Logger* log);
  // Drains.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // What clients connect to, with the port that was picked.
  const std::string& address() const { return address_; }
  // "host:port" of the pages; empty without them.
  std::string http_address() const { return http_ ? http_->address() : ""; }

  // Says NOT_SERVING to health checks, ends the tunes (what they recorded is
  // kept), lets calls in progress finish for up to `grace`, and stops.
  void Drain(absl::Duration grace = absl::Seconds(1));

 private:
  Daemon(DeviceBackend device, Logger* log)
      : device_(std::move(device)), log_(log) {}
  absl::Status ServeHttp(const DaemonOptions& options,
                         std::vector<HttpRoute> routes);

  std::function<absl::Status()> CanTune() const;
  // The page over what honed holds, once that is made.
  void MakeMetricsPage(const std::string& database);

  // Queues a recheck when the tables were measured on another device state.
  void RecheckAfterChange();

  DeviceBackend device_;
  Logger* const log_;
  std::unique_ptr<EventMetrics> metrics_;
  // Null for a modelled device and without one.
  std::unique_ptr<GpuMonitor> gpu_;
  std::string address_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<TableCache> tables_;
  // All null when the device cannot tune.
  std::unique_ptr<MeteredCompiler> compiler_;
  std::unique_ptr<MeteredCompiler> uncached_;
  std::unique_ptr<TuneRunner> runner_;
  std::unique_ptr<AuditRunner> auditor_;
  std::unique_ptr<RecheckRunner> rechecker_;
  std::unique_ptr<TuneJobs> jobs_;
  std::unique_ptr<TrafficKeeper> traffic_;
  // Null unless asked for.
  std::unique_ptr<IdleTuner> idle_;
  std::unique_ptr<TuningServiceImpl> service_;
  std::unique_ptr<StudyServiceImpl> studies_;
  std::unique_ptr<MetricsPage> metrics_page_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_DAEMON_H_
