#include "service/client/remote.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "hone/v1/tuning_service.grpc.pb.h"
#include "service/convert/config_convert.h"
#include "service/convert/grpc_status.h"
#include "service/convert/table_convert.h"

namespace hone {
namespace {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  // gRPC would wait up to two minutes before it tries a daemon again that was
  // away; a local connect costs nothing.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A proxy is never on the way to a node's own daemon.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // gRPC takes a path for a host's name.
  const std::string target =
      absl::StartsWith(address, "/") ? "unix:" + address : address;
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

struct Remote::State {
  // What is in flight.
  struct Call {
    virtual ~Call() = default;
    grpc::ClientContext context;
  };
  struct Question : Call {
    v1::GetTableRequest request;
    v1::GetTableResponse response;
    Done done;
  };
  struct Report : Call {
    v1::ReportTrafficRequest request;
    v1::ReportTrafficResponse response;
    std::function<void(absl::Status)> done;
  };

  explicit State(const std::string& address)
      : stub(v1::TuningService::NewStub(MakeChannel(address))) {}

  void Begin(Call* call, absl::Duration timeout) {
    // Not wait_for_ready: a daemon that is away fails the call at once.
    call->context.set_wait_for_ready(false);
    call->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    absl::MutexLock lock(&mu);
    calls.insert(call);
  }
  void End(Call* call) {
    absl::MutexLock lock(&mu);
    calls.erase(call);
    delete call;
  }

  const std::unique_ptr<v1::TuningService::Stub> stub;
  absl::Mutex mu;
  // Each owned by its completion.
  absl::flat_hash_set<Call*> calls ABSL_GUARDED_BY(mu);
};

Remote::Remote(const std::string& address)
    : state_(std::make_unique<State>(address)) {}

Remote::~Remote() {
  absl::MutexLock lock(&state_->mu);
  for (State::Call* call : state_->calls) call->context.TryCancel();
  State* const state = state_.get();
  const auto idle = [state]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mu) {
    return state->calls.empty();
  };
  state_->mu.Await(absl::Condition(&idle));
}

void Remote::GetTable(const Problem& problem, const DeviceSpec& device,
                      int64_t revision, absl::Duration timeout, Done done) {
  auto* const call = new State::Question;
  call->done = std::move(done);
  *call->request.mutable_problem() = ToProto(problem);
  *call->request.mutable_device() = ToProto(device);
  call->request.set_revision(revision);
  State* const state = state_.get();
  state->Begin(call, timeout);
  state->stub->async()->GetTable(
      &call->context, &call->request, &call->response,
      [state, call](grpc::Status status) {
        if (status.ok()) {
          call->done(AnswerFromProto(call->response));
        } else {
          call->done(FromGrpcStatus(status));
        }
        state->End(call);
      });
}

void Remote::ReportTraffic(const TrafficReport& report,
                           const DeviceSpec& device, absl::Duration timeout,
                           std::function<void(absl::Status)> done) {
  auto* const call = new State::Report;
  call->done = std::move(done);
  call->request.set_report_id(report.id);
  *call->request.mutable_device() = ToProto(device);
  for (const auto& [problem, calls] : report.problems) {
    v1::ProblemCalls* counts = call->request.add_problems();
    *counts->mutable_problem() = ToProto(problem);
    for (const CallCounter::Calls& at : calls) {
      v1::CallCount* count = counts->add_calls();
      count->set_m(at.m);
      count->set_calls(at.calls);
    }
  }
  State* const state = state_.get();
  state->Begin(call, timeout);
  state->stub->async()->ReportTraffic(&call->context, &call->request,
                                      &call->response,
                                      [state, call](grpc::Status status) {
                                        call->done(FromGrpcStatus(status));
                                        state->End(call);
                                      });
}

}  // namespace hone
