#include "service/cli/sweep.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/config/status_macros.h"
#include "service/cli/args.h"
#include "service/cli/connection.h"
#include "service/cli/format.h"
#include "service/convert/config_convert.h"
#include "service/convert/errors.h"
#include "service/convert/table_convert.h"
#include "service/convert/uuid.h"

namespace hone {
namespace {

// The daemons of one device class and the layers they share.
class DeviceClass {
 public:
  DeviceClass(std::string hash, std::string device,
              const std::vector<ModelLayer>& layers)
      : hash_(std::move(hash)) {
    for (const ModelLayer& layer : layers) {
      pending_.push_back(results_.size());
      SweepResult result;
      result.layer = layer;
      result.device = device;
      results_.push_back(std::move(result));
    }
  }

  const std::string& hash() const { return hash_; }
  std::vector<std::unique_ptr<Connection>>& daemons() { return daemons_; }

  // The next layer's index.
  std::optional<size_t> Take() {
    absl::MutexLock lock(&mutex_);
    if (pending_.empty()) return std::nullopt;
    const size_t index = pending_.front();
    pending_.pop_front();
    return index;
  }
  // For another daemon, since the one that took it went away.
  void GiveBack(size_t index) {
    absl::MutexLock lock(&mutex_);
    pending_.push_front(index);
  }
  SweepResult Get(size_t index) {
    absl::MutexLock lock(&mutex_);
    return results_[index];
  }
  void Put(size_t index, SweepResult result) {
    absl::MutexLock lock(&mutex_);
    results_[index] = std::move(result);
  }
  std::vector<SweepResult> results() {
    absl::MutexLock lock(&mutex_);
    return results_;
  }

 private:
  const std::string hash_;
  std::vector<std::unique_ptr<Connection>> daemons_;
  absl::Mutex mutex_;
  std::deque<size_t> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<SweepResult> results_ ABSL_GUARDED_BY(mutex_);
};

// A fresh table of the class's other daemons. `self` is not asked: its
// TuneLayer says so itself.
bool FindFresh(DeviceClass& device_class, const Connection& self,
               SweepResult& result) {
  for (const auto& daemon : device_class.daemons()) {
    if (daemon.get() == &self) continue;
    v1::GetTableRequest request;
    *request.mutable_problem() = ToProto(result.layer.problem);
    const absl::StatusOr<v1::GetTableResponse> response =
        daemon->Call(&v1::TuningService::Stub::GetTable, request);
    // A daemon that is away has no table to offer.
    if (!response.ok()) continue;
    absl::StatusOr<TableAnswer> answer = AnswerFromProto(*response);
    if (!answer.ok() || answer->provenance.match != MatchKind::kExact ||
        !answer->provenance.verified || answer->provenance.stale)
      continue;
    result.state = SweepState::kFresh;
    result.address = daemon->address();
    result.answer = *std::move(answer);
    return true;
  }
  return false;
}

// Fills `result` from what the daemon said.
void Record(const absl::StatusOr<TuneReply>& outcome, SweepResult& result) {
  if (!outcome.ok()) {
    result.state = SweepState::kFailed;
    result.error = absl::StrCat(outcome.status().message(), " [",
                                ReasonOf(outcome.status()), "]");
    return;
  }
  const v1::TuneResult& tuned = *outcome->result;
  v1::GetTableResponse response;
  *response.mutable_table() = tuned.table();
  *response.mutable_provenance() = tuned.provenance();
  absl::StatusOr<TableAnswer> answer = AnswerFromProto(response);
  if (!answer.ok()) {
    result.state = SweepState::kFailed;
    result.error = std::string(answer.status().message());
    return;
  }
  result.answer = *std::move(answer);
  result.seconds = tuned.elapsed().seconds() + tuned.elapsed().nanos() / 1e9;
  result.state = tuned.already_fresh() ? SweepState::kFresh
                 : tuned.complete()    ? SweepState::kTuned
                                       : SweepState::kPartial;
}

// One daemon's thread. Ends when the work or the daemon does.
void Work(DeviceClass& device_class, Connection& daemon,
          const v1::TuneLayerRequest& settings,
          const std::atomic<int>& interrupts, Progress& progress) {
  while (interrupts.load() == 0) {
    const std::optional<size_t> index = device_class.Take();
    if (!index) return;
    SweepResult result = device_class.Get(*index);
    const std::string job =
        absl::StrCat(result.layer.model, "/", result.layer.name, " on ",
                     result.device, " at ", daemon.address());
    bool gone = false;
    if (settings.retune() || !FindFresh(device_class, daemon, result)) {
      v1::TuneLayerRequest request = settings;
      *request.mutable_problem() = ToProto(result.layer.problem);
      request.set_request_id(NewUuid());
      const absl::StatusOr<TuneReply> outcome = RunTune(
          daemon, request, interrupts, [&](const v1::TuneLayerResponse& event) {
            if (event.has_progress()) {
              progress.Update(job, event.progress().phase(),
                              RenderProgress(event.progress()));
            }
          });
      if (!outcome.ok() && ExitOf(outcome.status()) == Exit::kInterrupted)
        return;
      result.address = daemon.address();
      Record(outcome, result);
      gone = !outcome.ok() && ExitOf(outcome.status()) == Exit::kUnreachable;
    }
    std::string line = absl::StrCat(job, ": ", ToString(result.state));
    if (result.state == SweepState::kTuned)
      absl::StrAppend(&line, " in ", FormatTime(absl::Seconds(result.seconds)));
    if (!result.error.empty()) absl::StrAppend(&line, ": ", result.error);
    progress.Say(line);
    device_class.Put(*index, std::move(result));
    if (gone) {
      device_class.GiveBack(*index);
      return;
    }
  }
}

}  // namespace

absl::string_view ToString(SweepState state) {
  static constexpr absl::string_view kNames[] = {"not run", "fresh", "tuned",
                                                 "partial", "failed"};
  return kNames[static_cast<size_t>(state)];
}

absl::StatusOr<std::vector<SweepResult>> RunSweep(
    const std::vector<std::string>& addresses,
    const std::vector<ModelLayer>& layers, const v1::TuneLayerRequest& request,
    const std::atomic<int>& interrupts, Progress& progress) {
  std::vector<std::unique_ptr<DeviceClass>> classes;
  std::set<std::string> seen;
  for (const std::string& address : addresses) {
    if (!seen.insert(address).second)
      return UsageError(absl::StrCat("--address ", address, " is given twice"));
    auto daemon = std::make_unique<Connection>(address);
    HONE_ASSIGN_OR_RETURN(const v1::GetDeviceResponse response,
                          daemon->Call(&v1::TuningService::Stub::GetDevice,
                                       v1::GetDeviceRequest()));
    if (!response.device().can_tune()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the daemon at ", address,
                       " cannot tune: ", response.device().unavailable()));
    }
    const std::string& hash = response.device().spec().class_hash();
    auto it = std::find_if(
        classes.begin(), classes.end(),
        [&](const auto& candidate) { return candidate->hash() == hash; });
    if (it == classes.end()) {
      classes.push_back(std::make_unique<DeviceClass>(
          hash, response.device().spec().name(), layers));
      it = std::prev(classes.end());
    }
    (*it)->daemons().push_back(std::move(daemon));
  }

  std::vector<std::thread> threads;
  for (const auto& device_class : classes) {
    for (const auto& daemon : device_class->daemons()) {
      threads.emplace_back([&device_class = *device_class, &daemon = *daemon,
                            &request, &interrupts, &progress] {
        Work(device_class, daemon, request, interrupts, progress);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<SweepResult> results;
  for (const auto& device_class : classes) {
    for (SweepResult& result : device_class->results())
      results.push_back(std::move(result));
  }
  return results;
}

}  // namespace hone
