// hone.v1.TuningService over the store, the table cache and the tune queue.
#ifndef HONE_SERVICE_SERVER_TUNING_SERVICE_H_
#define HONE_SERVICE_SERVER_TUNING_SERVICE_H_

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "hone/v1/tuning_service.grpc.pb.h"
#include "kernels/config/device_spec.h"
#include "service/metrics/event_metrics.h"
#include "service/server/log.h"
#include "service/server/table_cache.h"
#include "service/server/traffic_keeper.h"
#include "service/server/tune_jobs.h"

namespace hone {

// Thread-safe. Handlers of lookups touch only memory.
class TuningServiceImpl final : public v1::TuningService::Service {
 public:
  struct Parts {
    Store* store = nullptr;
    TableCache* tables = nullptr;
    TuneJobs* jobs = nullptr;
    TrafficKeeper* traffic = nullptr;
    Logger* log = nullptr;
    EventMetrics* metrics = nullptr;
    std::optional<DeviceSpec> device;
    // Whether tunes can run now. Thread-safe.
    std::function<absl::Status()> can_tune;
    std::string source_closure;
    std::string version;
    // When given, imported bundles must be signed by this key (PEM).
    std::string import_key_pem;
    std::function<absl::Time()> now = absl::Now;
    // Callers of TuneLayer at once; more are ResourceExhausted.
    int max_tune_callers = 64;
  };

  // What `parts` points to must outlive the service.
  explicit TuningServiceImpl(Parts parts) : parts_(std::move(parts)) {}

  grpc::Status GetConfig(grpc::ServerContext* context,
                         const v1::GetConfigRequest* request,
                         v1::GetConfigResponse* response) override;
  grpc::Status GetTable(grpc::ServerContext* context,
                        const v1::GetTableRequest* request,
                        v1::GetTableResponse* response) override;
  grpc::Status ListTables(grpc::ServerContext* context,
                          const v1::ListTablesRequest* request,
                          v1::ListTablesResponse* response) override;
  grpc::Status TuneLayer(
      grpc::ServerContext* context, const v1::TuneLayerRequest* request,
      grpc::ServerWriter<v1::TuneLayerResponse>* writer) override;
  grpc::Status AuditLayer(
      grpc::ServerContext* context, const v1::AuditLayerRequest* request,
      grpc::ServerWriter<v1::AuditLayerResponse>* writer) override;
  grpc::Status RecheckTables(
      grpc::ServerContext* context, const v1::RecheckTablesRequest* request,
      grpc::ServerWriter<v1::RecheckTablesResponse>* writer) override;
  grpc::Status CancelTune(grpc::ServerContext* context,
                          const v1::CancelTuneRequest* request,
                          v1::CancelTuneResponse* response) override;
  grpc::Status ListTunes(grpc::ServerContext* context,
                         const v1::ListTunesRequest* request,
                         v1::ListTunesResponse* response) override;
  grpc::Status ListTrials(grpc::ServerContext* context,
                          const v1::ListTrialsRequest* request,
                          v1::ListTrialsResponse* response) override;
  grpc::Status Export(grpc::ServerContext* context,
                      const v1::ExportRequest* request,
                      grpc::ServerWriter<v1::ExportResponse>* writer) override;
  grpc::Status Import(grpc::ServerContext* context,
                      grpc::ServerReader<v1::ImportRequest>* reader,
                      v1::ImportResponse* response) override;
  grpc::Status ReportTraffic(grpc::ServerContext* context,
                             const v1::ReportTrafficRequest* request,
                             v1::ReportTrafficResponse* response) override;
  grpc::Status ListTraffic(grpc::ServerContext* context,
                           const v1::ListTrafficRequest* request,
                           v1::ListTrafficResponse* response) override;
  grpc::Status ListDevices(grpc::ServerContext* context,
                           const v1::ListDevicesRequest* request,
                           v1::ListDevicesResponse* response) override;
  grpc::Status GetDevice(grpc::ServerContext* context,
                         const v1::GetDeviceRequest* request,
                         v1::GetDeviceResponse* response) override;

 private:
  absl::StatusOr<DeviceSpec> DeviceOf(bool given,
                                      const v1::DeviceSpec& device) const;
  // Runs a tune, audit or recheck as a job and streams how it goes. The last
  // event, with the result, is left to the caller.
  template <typename Response>
  absl::StatusOr<TuneOutcome> Follow(grpc::ServerContext* context,
                                     const absl::StatusOr<TuneRequest>& request,
                                     grpc::ServerWriter<Response>* writer);
  absl::Status List(const v1::ListTablesRequest& request,
                    v1::ListTablesResponse* response) const;
  absl::Status ReadBundle(grpc::ServerReader<v1::ImportRequest>* reader,
                          v1::ImportResponse* response);
  v1::Device DeviceMessage() const;

  const Parts parts_;
  std::atomic<int> tune_callers_{0};
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_TUNING_SERVICE_H_
