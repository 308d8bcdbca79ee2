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

ProcessExecutor::~ProcessExecutor() {
  if (worker_ != nullptr) worker_->Kill(options_.reap_deadline);
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

absl::Status ProcessExecutor::Usable() const {
  absl::MutexLock lock(&mutex_);
  return quarantine_;
}

ExecutorHealth ProcessExecutor::health() const {
  return {.workers_started = workers_started_,
          .workers_lost = workers_lost_,
          .sentinel_failures = sentinel_failures_,
          .quarantine = std::string(Usable().message())};
}

void ProcessExecutor::Quarantine(const std::string& why) {
  absl::MutexLock lock(&mutex_);
  quarantine_ = absl::UnavailableError(
      absl::StrCat("device ", device_.uuid, " is in quarantine: ", why,
                   "; restart honed once it works again"));
}

absl::Status ProcessExecutor::Discard() {
  begun_ = false;
  prepared_.clear();
  for (Known& known : candidates_) known.remote = -1;
  if (worker_ == nullptr) return Usable();
  ++workers_lost_;
  if (!worker_->Kill(options_.reap_deadline)) {
    Quarantine(absl::StrCat("its worker, process ", worker_->pid(),
                            ", was killed and has not ended after ",
                            absl::FormatDuration(options_.reap_deadline)));
  }
  worker_ = nullptr;
  return Usable();
}

absl::StatusOr<v1::WorkerResponse> ProcessExecutor::Ask(
    const v1::WorkerRequest& request, absl::Duration deadline) {
  absl::StatusOr<v1::WorkerResponse> response =
      worker_->Call(request, absl::Now() + deadline);
  if (response.ok() && !response->context_lost()) {
    HONE_RETURN_IF_ERROR(StatusOf(*response));
    return response;
  }
  const absl::Status lost = absl::UnavailableError(
      response.ok() ? response->message() : response.status().message());
  HONE_RETURN_IF_ERROR(Discard());
  return lost;
}

absl::Status ProcessExecutor::Replace() {
  HONE_RETURN_IF_ERROR(Discard());
  absl::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    status = StartWorker();
    if (status.ok()) {
      v1::WorkerRequest sentinel;
      sentinel.mutable_sentinel();
      status = Ask(sentinel, options_.sentinel_deadline).status();
      if (status.ok()) return status;
      ++sentinel_failures_;
    }
    HONE_RETURN_IF_ERROR(Discard());
  }
  Quarantine(absl::StrCat(kAttempts,
                          " workers in a row did not start or failed the "
                          "sentinel kernel; the last one: ",
                          status.message()));
  return Usable();
}

absl::Status ProcessExecutor::Supply(absl::Span<const int> candidates,
                                     int64_t prepare_m) {
  if (setup_.has_value() && !begun_) {
    v1::WorkerRequest request;
    v1::WorkerBeginRequest* begin = request.mutable_begin();
    begin->set_problem(setup_->problem.ToString());
    begin->set_max_m(setup_->max_m);
    begin->set_seed(setup_->seed);
    HONE_RETURN_IF_ERROR(Ask(request, options_.setup_deadline).status());
    begun_ = true;
  }
  for (const int index : candidates) {
    Known& known = candidates_[static_cast<size_t>(index)];
    if (known.remote >= 0) continue;
    v1::WorkerRequest request;
    request.mutable_add()->set_config(known.candidate.config.ToString());
    request.mutable_add()->set_cubin(known.candidate.cubin);
    HONE_ASSIGN_OR_RETURN(const v1::WorkerResponse response,
                          Ask(request, options_.setup_deadline));
    known.remote = response.candidate();
  }
  if (prepare_m > 0 && !prepared_.contains(prepare_m)) {
    v1::WorkerRequest request;
    request.mutable_prepare()->set_m(prepare_m);
    HONE_RETURN_IF_ERROR(Ask(request, options_.setup_deadline).status());
    prepared_.insert(prepare_m);
  }
  return absl::OkStatus();
}

absl::Status ProcessExecutor::Ready(absl::Span<const int> candidates,
                                    int64_t prepare_m) {
  absl::Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    HONE_RETURN_IF_ERROR(Usable());
    if (worker_ == nullptr) HONE_RETURN_IF_ERROR(Replace());
    status = Supply(candidates, prepare_m);
    // Either it is done, or the worker answered that it cannot be.
    if (worker_ != nullptr) return status;
    HONE_RETURN_IF_ERROR(Usable());
    interruptions_.push_back(std::string(status.message()));
  }
  return status;
}

absl::StatusOr<ProcessExecutor::Exchange> ProcessExecutor::Risk(
    const v1::WorkerRequest& request, absl::Duration deadline) {
  Exchange exchange;
  absl::StatusOr<v1::WorkerResponse> response =
      worker_->Call(request, absl::Now() + deadline);
  if (response.ok() && !response->context_lost()) {
    HONE_RETURN_IF_ERROR(StatusOf(*response));
    exchange.response = *std::move(response);
    return exchange;
  }
  const absl::Status lost =
      response.ok() ? StatusOf(*response) : response.status();
  if (absl::IsCancelled(lost) || (response.ok() && absl::IsDataLoss(lost))) {
    exchange.interruption = std::string(lost.message());
  } else {
    exchange.failure = FailureOf(lost, deadline);
  }
  // Before anybody is blamed: the device must still work.
  HONE_RETURN_IF_ERROR(Replace());
  return exchange;
}

absl::Status ProcessExecutor::Begin(const Problem& problem, int64_t max_m,
                                    uint64_t seed) {
  candidates_.clear();
  prepared_.clear();
  begun_ = false;
  setup_ = Setup{problem, max_m, seed};
  absl::Status status = Ready({}, 0);
  // A worker that could not do it is not what the next problem inherits.
  if (!status.ok()) setup_.reset();
  return status;
}

absl::StatusOr<int> ProcessExecutor::Add(const Candidate& candidate) {
  HONE_RETURN_IF_ERROR(Usable());
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

absl::StatusOr<GateResult> ProcessExecutor::Gate(int candidate, int64_t m,
                                                 absl::Duration deadline) {
  HONE_RETURN_IF_ERROR(CheckIndex(candidate));
  Known& known = candidates_[static_cast<size_t>(candidate)];
  if (known.bad.has_value()) return *known.bad;
  for (int attempt = 1;; ++attempt) {
    HONE_RETURN_IF_ERROR(Ready({candidate}, m));
    v1::WorkerRequest request;
    request.mutable_gate()->set_candidate(known.remote);
    request.mutable_gate()->set_m(m);
    HONE_ASSIGN_OR_RETURN(Exchange exchange, Risk(request, deadline));
    GateResult result;
    if (exchange.interruption.has_value()) {
      if (attempt < kAttempts) {
        interruptions_.push_back(*exchange.interruption);
        continue;
      }
      result.outcome = Outcome::kInterrupted;
      result.detail = *exchange.interruption;
    } else if (exchange.failure.has_value()) {
      known.bad = result = *exchange.failure;
    } else if (absl::StatusOr<GateResult> said =
                   FromWire(exchange.response.gate());
               said.ok()) {
      result = *std::move(said);
    } else {
      HONE_RETURN_IF_ERROR(Replace());
      known.bad = result = FailureOf(said.status(), deadline);
    }
    result.interruptions = TakeInterruptions();
    return result;
  }
}

absl::StatusOr<ProcessExecutor::Exchange> ProcessExecutor::TryRound(
    const RoundRequest& request, absl::Duration deadline, RoundResult& result) {
  HONE_RETURN_IF_ERROR(Ready(request.order, 0));
  v1::WorkerRequest message;
  v1::WorkerRoundRequest* round = message.mutable_round();
  round->set_m(request.m);
  round->set_round(request.round);
  for (const int candidate : request.order) {
    round->add_order(candidates_[static_cast<size_t>(candidate)].remote);
  }
  HONE_ASSIGN_OR_RETURN(Exchange exchange, Risk(message, deadline));
  if (exchange.failure.has_value() || exchange.interruption.has_value()) {
    return exchange;
  }
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
  if (together.interruption.has_value()) {
    // Nobody is to blame: the caller repeats the round.
    interruptions_.push_back(*together.interruption);
    result.unpaired = true;
  } else if (!together.failure.has_value()) {
    for (size_t j = 0; j < places.size(); ++j) {
      result.entries[places[j]] = std::move(timed.entries[j]);
    }
    result.slowed_down = timed.slowed_down;
    result.foreign_processes = std::move(timed.foreign_processes);
  } else {
    // One of them cost the worker; alone, it shows which.
    result.unpaired = true;
    for (const size_t place : places) {
      RoundRequest alone = request;
      alone.order = {request.order[place]};
      HONE_ASSIGN_OR_RETURN(const Exchange one,
                            TryRound(alone, deadline, timed));
      if (one.interruption.has_value()) {
        interruptions_.push_back(*one.interruption);
      } else if (one.failure.has_value()) {
        candidates_[static_cast<size_t>(request.order[place])].bad =
            one.failure;
        fail(place, *one.failure);
      } else {
        result.entries[place] = std::move(timed.entries[0]);
      }
    }
  }
  result.interruptions = TakeInterruptions();
  return result;
}

}  // namespace hone
