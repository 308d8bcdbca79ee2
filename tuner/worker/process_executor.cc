#include "tuner/worker/process_executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/config/status_macros.h"
#include "tuner/worker/wire.h"

namespace hone {
namespace {

constexpr int kAttempts = 3;

absl::Status StatusOf(const v1::WorkerResponse& response) {
  return absl::Status(static_cast<absl::StatusCode>(response.code()),
                      response.message());
}

GateResult FailureOf(const absl::Status& status, absl::Duration deadline) {
  GateResult failure;
  if (absl::IsDeadlineExceeded(status)) {
    failure.outcome = Outcome::kTimeout;
    failure.detail =
        absl::StrCat("no result within ", absl::FormatDuration(deadline),
                     "; the worker was killed");
  } else {
    failure.outcome = Outcome::kFault;
    failure.detail = std::string(status.message());
  }
  return failure;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessExecutor>> ProcessExecutor::Create(
    Options options) {
  std::unique_ptr<ProcessExecutor> executor(
      new ProcessExecutor(std::move(options)));
  HONE_RETURN_IF_ERROR(executor->StartWorker());
  return executor;
}

absl::Status ProcessExecutor::StartWorker() {
  HONE_ASSIGN_OR_RETURN(worker_, WorkerProcess::Spawn(options_.command));
  const bool first = workers_started_++ == 0;
  v1::WorkerRequest request;
  request.mutable_device();
  HONE_ASSIGN_OR_RETURN(const v1::WorkerResponse response,
                        Ask(request, options_.start_deadline));
  const DeviceSpec device = FromWire(response.device());
  if (first) {
    device_ = device;
    foreign_processes_.assign(response.device().foreign_processes().begin(),
                              response.device().foreign_processes().end());
    return absl::OkStatus();
  }
  if (device.uuid != device_.uuid) {
    return absl::UnavailableError(
        absl::StrCat("the worker's device changed from ", device_.uuid, " to ",
                     device.uuid));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::WorkerResponse> ProcessExecutor::Ask(
    const v1::WorkerRequest& request, absl::Duration deadline) {
  absl::StatusOr<v1::WorkerResponse> response =
      worker_->Call(request, absl::Now() + deadline);
  if (!response.ok()) {
    worker_ = nullptr;
    return absl::UnavailableError(response.status().message());
  }
  if (response->context_lost()) worker_ = nullptr;
  HONE_RETURN_IF_ERROR(StatusOf(*response));
  return response;
}

absl::Status ProcessExecutor::SendBegin() {
  v1::WorkerRequest request;
  v1::WorkerBeginRequest* begin = request.mutable_begin();
  begin->set_problem(setup_->problem.ToString());
  begin->set_max_m(setup_->max_m);
  begin->set_seed(setup_->seed);
  return Ask(request, options_.setup_deadline).status();
}

absl::Status ProcessExecutor::Replace() {
  HONE_RETURN_IF_ERROR(quarantine_);
  absl::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    worker_ = nullptr;
    prepared_.clear();
    for (Known& known : candidates_) known.remote = -1;
    status = StartWorker();
    if (!status.ok()) continue;
    v1::WorkerRequest sentinel;
    sentinel.mutable_sentinel();
    status = Ask(sentinel, options_.sentinel_deadline).status();
    if (!status.ok()) continue;
    // What belongs to the problem is not the device's fault.
    return setup_.has_value() ? SendBegin() : absl::OkStatus();
  }
  worker_ = nullptr;
  quarantine_ = absl::UnavailableError(absl::StrCat(
      "device ", device_.uuid, " is in quarantine: ", kAttempts,
      " workers in a row did not start or failed the sentinel kernel; the last "
      "one: ",
      status.message()));
  return quarantine_;
}

absl::StatusOr<ProcessExecutor::Exchange> ProcessExecutor::Risk(
    const v1::WorkerRequest& request, absl::Duration deadline) {
  Exchange exchange;
  absl::StatusOr<v1::WorkerResponse> response =
      worker_->Call(request, absl::Now() + deadline);
  if (!response.ok()) {
    exchange.failure = FailureOf(response.status(), deadline);
  } else if (response->context_lost()) {
    exchange.failure =
        FailureOf(absl::AbortedError(response->message()), deadline);
  } else {
    HONE_RETURN_IF_ERROR(StatusOf(*response));
    exchange.response = *std::move(response);
    return exchange;
  }
  HONE_RETURN_IF_ERROR(Replace());
  return exchange;
}

absl::Status ProcessExecutor::Begin(const Problem& problem, int64_t max_m,
                                    uint64_t seed) {
  HONE_RETURN_IF_ERROR(quarantine_);
  candidates_.clear();
  prepared_.clear();
  setup_ = Setup{problem, max_m, seed};
  absl::Status status = worker_ == nullptr ? Replace() : SendBegin();
  // A worker that could not do it is not what the next problem inherits.
  if (!status.ok()) setup_.reset();
  return status;
}

absl::StatusOr<int> ProcessExecutor::Add(const Candidate& candidate) {
  HONE_RETURN_IF_ERROR(quarantine_);
  if (!setup_.has_value()) {
    return absl::FailedPreconditionError("Begin() must come before Add()");
  }
  Known known;
  known.candidate = candidate;
  // Only the worker's side is needed; the PTX may be large.
  known.candidate.ptx.clear();
  candidates_.push_back(std::move(known));
  return static_cast<int>(candidates_.size()) - 1;
}

absl::Status ProcessExecutor::CheckIndex(int candidate) const {
  if (candidate >= 0 && candidate < static_cast<int>(candidates_.size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no candidate ", candidate));
}

absl::Status ProcessExecutor::Ready(int candidate) {
  HONE_RETURN_IF_ERROR(quarantine_);
  if (worker_ == nullptr) HONE_RETURN_IF_ERROR(Replace());
  Known& known = candidates_[static_cast<size_t>(candidate)];
  if (known.remote >= 0) return absl::OkStatus();
  v1::WorkerRequest request;
  request.mutable_add()->set_config(known.candidate.config.ToString());
  request.mutable_add()->set_cubin(known.candidate.cubin);
  HONE_ASSIGN_OR_RETURN(const v1::WorkerResponse response,
                        Ask(request, options_.setup_deadline));
  known.remote = response.candidate();
  return absl::OkStatus();
}

absl::StatusOr<GateResult> ProcessExecutor::Gate(int candidate, int64_t m,
                                                 absl::Duration deadline) {
  HONE_RETURN_IF_ERROR(CheckIndex(candidate));
  Known& known = candidates_[static_cast<size_t>(candidate)];
  if (known.bad.has_value()) return *known.bad;
  HONE_RETURN_IF_ERROR(Ready(candidate));
  if (!prepared_.contains(m)) {
    v1::WorkerRequest prepare;
    prepare.mutable_prepare()->set_m(m);
    HONE_RETURN_IF_ERROR(Ask(prepare, options_.setup_deadline).status());
    prepared_.insert(m);
  }
  v1::WorkerRequest request;
  request.mutable_gate()->set_candidate(known.remote);
  request.mutable_gate()->set_m(m);
  HONE_ASSIGN_OR_RETURN(Exchange exchange, Risk(request, deadline));
  if (!exchange.failure.has_value()) {
    absl::StatusOr<GateResult> result = FromWire(exchange.response.gate());
    if (result.ok()) return result;
    exchange.failure = FailureOf(result.status(), deadline);
    HONE_RETURN_IF_ERROR(Replace());
  }
  known.bad = exchange.failure;
  return *known.bad;
}

absl::StatusOr<ProcessExecutor::Exchange> ProcessExecutor::TryRound(
    const RoundRequest& request, absl::Duration deadline, RoundResult& result) {
  v1::WorkerRequest message;
  v1::WorkerRoundRequest* round = message.mutable_round();
  round->set_m(request.m);
  round->set_round(request.round);
  for (const int candidate : request.order) {
    HONE_RETURN_IF_ERROR(Ready(candidate));
  }
  for (const int candidate : request.order) {
    round->add_order(candidates_[static_cast<size_t>(candidate)].remote);
  }
  HONE_ASSIGN_OR_RETURN(Exchange exchange, Risk(message, deadline));
  if (exchange.failure.has_value()) return exchange;
  absl::StatusOr<RoundResult> parsed =
      FromWire(exchange.response.round(), request.round);
  if (parsed.ok() && parsed->entries.size() == request.order.size()) {
    result = *std::move(parsed);
    return exchange;
  }
  exchange.failure = FailureOf(
      absl::DataLossError("the worker's answer makes no sense"), deadline);
  HONE_RETURN_IF_ERROR(Replace());
  return exchange;
}

absl::StatusOr<RoundResult> ProcessExecutor::Round(const RoundRequest& request,
                                                   absl::Duration deadline) {
  RoundResult result;
  result.entries.resize(request.order.size());
  const auto fail = [&](size_t i, const GateResult& why) {
    result.entries[i].outcome = why.outcome;
    result.entries[i].detail = why.detail;
  };
  RoundRequest alive = request;
  alive.order.clear();
  std::vector<size_t> places;
  for (size_t i = 0; i < request.order.size(); ++i) {
    const int candidate = request.order[i];
    HONE_RETURN_IF_ERROR(CheckIndex(candidate));
    const Known& known = candidates_[static_cast<size_t>(candidate)];
    if (known.bad.has_value()) {
      fail(i, *known.bad);
    } else {
      alive.order.push_back(candidate);
      places.push_back(i);
    }
  }
  if (alive.order.empty()) return result;
  RoundResult timed;
  HONE_ASSIGN_OR_RETURN(const Exchange together,
                        TryRound(alive, deadline, timed));
  if (!together.failure.has_value()) {
    for (size_t j = 0; j < places.size(); ++j) {
      result.entries[places[j]] = std::move(timed.entries[j]);
    }
    result.slowed_down = timed.slowed_down;
    return result;
  }
  // One of them cost the worker; alone, it shows which.
  result.slowed_down = true;
  for (const size_t place : places) {
    RoundRequest alone = request;
    alone.order = {request.order[place]};
    HONE_ASSIGN_OR_RETURN(const Exchange one, TryRound(alone, deadline, timed));
    if (one.failure.has_value()) {
      candidates_[static_cast<size_t>(request.order[place])].bad = one.failure;
      fail(place, *one.failure);
    } else {
      result.entries[place] = std::move(timed.entries[0]);
    }
  }
  return result;
}

}  // namespace hone
