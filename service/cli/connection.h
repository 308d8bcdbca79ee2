// One daemon, called with plain requests.
#ifndef HONE_SERVICE_CLI_CONNECTION_H_
#define HONE_SERVICE_CLI_CONNECTION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "hone/v1/tuning_service.grpc.pb.h"

namespace hone {

// Thread-safe. Connects at the first call.
class Connection {
 public:
  // A Unix socket's path or host:port.
  explicit Connection(std::string address);

  const std::string& address() const { return address_; }
  v1::TuningService::Stub& stub() { return *stub_; }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::TuningService::Stub::*method)(
                                    grpc::ClientContext*, const Request&,
                                    Response*),
                                const Request& request) {
    grpc::ClientContext context;
    SetDeadline(context, absl::Seconds(30));
    Response response;
    const grpc::Status status =
        ((*stub_).*method)(&context, request, &response);
    if (!status.ok()) return ToStatus(status);
    return response;
  }

  static void SetDeadline(grpc::ClientContext& context, absl::Duration time);
  // The server's error with its details, or what to do when there is no
  // server (Exit::kUnreachable).
  absl::Status ToStatus(const grpc::Status& status) const;

 private:
  const std::string address_;
  const std::unique_ptr<v1::TuningService::Stub> stub_;
};

// What came of one job.
template <typename Result>
struct JobReply {
  v1::TuneAccepted accepted;
  // Empty for a detached request, which is left as soon as it is accepted.
  std::optional<Result> result;
  // Ctrl-C came before the result, which then has what was measured by then.
  bool interrupted = false;
};
using TuneReply = JobReply<v1::TuneResult>;
using AuditReply = JobReply<v1::AuditReport>;
using RecheckReply = JobReply<v1::RecheckReport>;

// Runs one TuneLayer and gives every event to `on_event`.
//
// When `interrupts` rises, the job is cancelled, or only left where it was
// joined or is detached, so that others keep theirs. A second rise does not
// wait for the daemon to agree. Without a result, the error exits with
// Exit::kInterrupted.
absl::StatusOr<TuneReply> RunTune(
    Connection& connection, const v1::TuneLayerRequest& request,
    const std::atomic<int>& interrupts,
    const std::function<void(const v1::TuneLayerResponse&)>& on_event);
// The same for an audit, which nobody can leave running.
absl::StatusOr<AuditReply> RunAudit(
    Connection& connection, const v1::AuditLayerRequest& request,
    const std::atomic<int>& interrupts,
    const std::function<void(const v1::AuditLayerResponse&)>& on_event);
// The same for a recheck.
absl::StatusOr<RecheckReply> RunRecheck(
    Connection& connection, const v1::RecheckTablesRequest& request,
    const std::atomic<int>& interrupts,
    const std::function<void(const v1::RecheckTablesResponse&)>& on_event);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_CONNECTION_H_
