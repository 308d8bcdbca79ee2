#include "service/cli/connection.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "service/cli/args.h"
#include "service/convert/grpc_status.h"

namespace hone {
namespace {

// The address as gRPC names it: what has a slash and no scheme is a path.
std::string GrpcTarget(const std::string& address) {
  if (absl::StrContains(address, "/") && !absl::StartsWith(address, "unix:"))
    return absl::StrCat("unix:", address);
  return address;
}

std::unique_ptr<v1::TuningService::Stub> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A daemon is on this machine or in this cluster, never behind a proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  // Who watches a daemon sees soon that it is back.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  return v1::TuningService::NewStub(grpc::CreateCustomChannel(
      GrpcTarget(address), grpc::InsecureChannelCredentials(), arguments));
}

// Cancels a TuneLayer or AuditLayer when Ctrl-C comes. Polls: a signal handler
// may only count.
class TuneCanceller {
 public:
  TuneCanceller(Connection& connection, grpc::ClientContext& context,
                const std::atomic<int>& interrupts)
      : connection_(connection),
        context_(context),
        interrupts_(interrupts),
        before_(interrupts.load()),
        thread_([this] { Watch(); }) {}

  ~TuneCanceller() {
    {
      absl::MutexLock lock(&mutex_);
      done_ = true;
    }
    thread_.join();
  }

  // The daemon took the request. `tune_id` names the job when it is this call's
  // own, so that Ctrl-C ends it; empty when it belongs to others as well.
  void Accepted(const std::string& tune_id) {
    absl::MutexLock lock(&mutex_);
    accepted_ = true;
    tune_id_ = tune_id;
  }

  bool interrupted() const { return interrupts_.load() > before_; }

 private:
  // Waits for the `count`th interrupt; false when the call ended first.
  bool WaitForInterrupt(int count) {
    absl::MutexLock lock(&mutex_);
    while (interrupts_.load() < before_ + count) {
      if (mutex_.AwaitWithTimeout(absl::Condition(&done_),
                                  absl::Milliseconds(50)))
        return false;
    }
    return !done_;
  }

  void Watch() {
    if (!WaitForInterrupt(1)) return;
    std::string tune_id;
    {
      // Whose job it is may be on its way still; leaving now would cancel by
      // chance what is to be cancelled by name.
      absl::MutexLock lock(&mutex_);
      const auto known = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return done_ || accepted_;
      };
      mutex_.AwaitWithTimeout(absl::Condition(&known), absl::Seconds(1));
      tune_id = tune_id_;
    }
    v1::CancelTuneRequest request;
    request.set_tune_id(tune_id);
    if (!tune_id.empty() &&
        connection_.Call(&v1::TuningService::Stub::CancelTune, request).ok() &&
        !WaitForInterrupt(2))
      return;
    context_.TryCancel();
  }

  Connection& connection_;
  grpc::ClientContext& context_;
  const std::atomic<int>& interrupts_;
  const int before_;
  absl::Mutex mutex_;
  bool accepted_ ABSL_GUARDED_BY(mutex_) = false;
  std::string tune_id_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

Connection::Connection(std::string address)
    : address_(std::move(address)), stub_(Connect(address_)) {}

void Connection::SetDeadline(grpc::ClientContext& context,
                             absl::Duration time) {
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(time));
}

absl::Status Connection::ToStatus(const grpc::Status& status) const {
  // Every error of honed carries details; gRPC's own do not.
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      status.error_details().empty()) {
    return WithExit(
        absl::UnavailableError(absl::StrCat(
            "no honed answers at ", address_, " (", status.error_message(),
            "); start it with 'hone serve', or name another with --address or "
            "HONE_ADDRESS")),
        Exit::kUnreachable);
  }
  return FromGrpcStatus(status);
}

namespace {

// Starts a job with `rpc` and follows it to its end, or leaves a detached one
// once it is accepted. `what` names it in an error.
template <typename Result, typename Request, typename Response>
absl::StatusOr<JobReply<Result>> Follow(
    Connection& connection,
    std::unique_ptr<grpc::ClientReader<Response>> (
        v1::TuningService::Stub::*rpc)(grpc::ClientContext*, const Request&),
    const Request& request, bool detached, absl::string_view what,
    const std::atomic<int>& interrupts,
    const std::function<void(const Response&)>& on_event) {
  grpc::ClientContext context;
  TuneCanceller canceller(connection, context, interrupts);
  const auto reader = (connection.stub().*rpc)(&context, request);
  JobReply<Result> reply;
  Response response;
  bool left = false;
  while (reader->Read(&response)) {
    on_event(response);
    if (response.has_accepted()) {
      reply.accepted = response.accepted();
      if (detached) {
        left = true;
        context.TryCancel();
      }
      canceller.Accepted(
          detached || reply.accepted.joined() ? "" : reply.accepted.tune_id());
    } else if (response.has_result()) {
      reply.result = response.result();
    }
  }
  const grpc::Status status = reader->Finish();
  reply.interrupted = canceller.interrupted();
  if (left || reply.result.has_value()) return reply;
  if (reply.interrupted) {
    return WithExit(absl::CancelledError("interrupted"), Exit::kInterrupted);
  }
  if (status.ok()) {
    return absl::InternalError(
        absl::StrCat("the daemon ended the ", what, " without a result"));
  }
  return connection.ToStatus(status);
}

}  // namespace

absl::StatusOr<TuneReply> RunTune(
    Connection& connection, const v1::TuneLayerRequest& request,
    const std::atomic<int>& interrupts,
    const std::function<void(const v1::TuneLayerResponse&)>& on_event) {
  return Follow<v1::TuneResult>(connection, &v1::TuningService::Stub::TuneLayer,
                                request, request.detached(), "job", interrupts,
                                on_event);
}

absl::StatusOr<AuditReply> RunAudit(
    Connection& connection, const v1::AuditLayerRequest& request,
    const std::atomic<int>& interrupts,
    const std::function<void(const v1::AuditLayerResponse&)>& on_event) {
  return Follow<v1::AuditReport>(
      connection, &v1::TuningService::Stub::AuditLayer, request,
      /*detached=*/false, "audit", interrupts, on_event);
}

absl::StatusOr<RecheckReply> RunRecheck(
    Connection& connection, const v1::RecheckTablesRequest& request,
    const std::atomic<int>& interrupts,
    const std::function<void(const v1::RecheckTablesResponse&)>& on_event) {
  return Follow<v1::RecheckReport>(
      connection, &v1::TuningService::Stub::RecheckTables, request,
      request.detached(), "recheck", interrupts, on_event);
}

}  // namespace hone
