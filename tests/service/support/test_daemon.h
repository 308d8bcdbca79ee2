// A daemon in this process on a Unix socket, whose GPU is simulated.
#ifndef HONE_TESTS_SERVICE_SUPPORT_TEST_DAEMON_H_
#define HONE_TESTS_SERVICE_SUPPORT_TEST_DAEMON_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "hone/v1/tuning_service.grpc.pb.h"
#include "kernels/space/space.h"
#include "service/convert/config_convert.h"
#include "service/convert/grpc_status.h"
#include "service/server/daemon.h"
#include "tests/service/support/temp_folder.h"
#include "tests/tuner/simulated_executor.h"

namespace hone {

// A real-looking H200 that is measured, not modelled.
inline DeviceSpec TestGpu() {
  DeviceSpec device = *ModelledDevice("h200");
  device.kind = DeviceKind::kMeasured;
  device.pci_device_id = 0x2335;
  device.name = "test GPU";
  device.uuid = "GPU-test";
  device.driver = "580.65";
  return device;
}

inline Problem SmallProblem(int64_t n = 1024, int64_t k = 1024) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

// Times that depend on the config, so that there is something to choose.
inline double SimulatedTime(const TuningConfig& config, int64_t m) {
  const double tiles = static_cast<double>((m + config.block_m - 1) /
                                           config.block_m * config.block_m);
  return 8000 + 40 * tiles + 200.0 * static_cast<double>(config.stages % 3) +
         3.0 * static_cast<double>(config.block_n);
}

class TestDaemon {
 public:
  explicit TestDaemon(bool can_tune = true, int max_queued = 64)
      : log_([this](absl::string_view line) {
          absl::MutexLock lock(&mutex_);
          lines_.push_back(std::string(line));
        }) {
    Start(can_tune, max_queued);
  }
  // With a device of the test's own.
  explicit TestDaemon(DeviceBackend backend)
      : log_([](absl::string_view) {}), device_(backend.device) {
    Serve(std::move(backend), 64);
  }

  // With other options than a daemon's usual ones.
  using Configure = std::function<void(DaemonOptions&)>;
  TestDaemon(DeviceBackend backend, Configure configure)
      : log_([](absl::string_view) {}),
        configure_(std::move(configure)),
        device_(backend.device) {
    Serve(std::move(backend), 64);
  }
  explicit TestDaemon(Configure configure)
      : log_([](absl::string_view) {}), configure_(std::move(configure)) {
    Start();
  }

  void Start(bool can_tune = true, int max_queued = 64) {
    DeviceBackend backend;
    backend.device = gpu;
    auto executor = std::make_unique<SimulatedExecutor>(gpu, time, Noise{}, 1);
    auto compiler = std::make_unique<FakeCompiler>();
    executor->after_call = [this] { AfterCall(); };
    executor_ = executor.get();
    compiler_ = compiler.get();
    backend.executor = std::move(executor);
    backend.compiler = std::move(compiler);
    backend.uncached = std::make_unique<FakeCompiler>();
    if (!can_tune) {
      backend = DeviceBackend();
      backend.can_tune = WithReason(
          absl::FailedPreconditionError("no CUDA driver"), "NO_DEVICE");
    }
    Serve(std::move(backend), max_queued);
  }
  void Serve(DeviceBackend backend, int max_queued) {
    DaemonOptions options;
    options.listen = "unix:" + (folder_ / "run/honed.sock");
    options.database = folder_ / "db/hone.db";
    options.http = "127.0.0.1:0";
    options.max_queued = max_queued;
    options.recheck = recheck;
    if (configure_) configure_(options);
    auto daemon = Daemon::Start(options, std::move(backend), &log_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    stub_ = v1::TuningService::NewStub(Channel());
  }
  void Stop() { daemon_ = nullptr; }
  ~TestDaemon() {
    Release();
    Stop();
  }

  std::shared_ptr<grpc::Channel> Channel() const {
    return grpc::CreateChannel(daemon_->address(),
                               grpc::InsecureChannelCredentials());
  }
  v1::TuningService::Stub& stub() { return *stub_; }
  Daemon& daemon() { return *daemon_; }
  SimulatedExecutor& executor() { return *executor_; }
  FakeCompiler& compiler() { return *compiler_; }
  const TempFolder& folder() const { return folder_; }
  const std::optional<DeviceSpec>& device() const { return device_; }

  // What the next Start() takes: the GPU, its times, DaemonOptions::recheck.
  DeviceSpec gpu = TestGpu();
  SimulatedExecutor::TrueTime time = SimulatedTime;
  bool recheck = true;

  // Holds the simulated GPU at its next call, or after some more, until
  // Release().
  void Hold(int calls = 0) {
    absl::MutexLock lock(&mutex_);
    held_ = true;
    calls_before_ = calls;
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    held_ = false;
  }
  // Waits until the GPU is held in a call.
  bool WaitUntilHeld() {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&waiting_),
                                   absl::Seconds(20));
  }
  std::vector<std::string> log_lines() {
    absl::MutexLock lock(&mutex_);
    return lines_;
  }

  v1::TuneLayerRequest TuneRequestFor(const Problem& problem,
                                      const std::string& request_id) const {
    v1::TuneLayerRequest request;
    request.set_request_id(request_id);
    *request.mutable_problem() = ToProto(problem);
    for (const int64_t m : {1, 16, 64}) request.add_ladder(m);
    request.set_max_kernels(6);
    return request;
  }

  // Runs a tune to its end.
  absl::StatusOr<v1::TuneResult> Tune(const v1::TuneLayerRequest& request,
                                      int* progress = nullptr,
                                      bool* joined = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    const auto reader = stub_->TuneLayer(&context, request);
    v1::TuneLayerResponse message;
    absl::StatusOr<v1::TuneResult> result =
        absl::InternalError("the stream had no result");
    while (reader->Read(&message)) {
      if (message.has_accepted() && joined != nullptr)
        *joined = message.accepted().joined();
      if (message.has_progress() && progress != nullptr) ++*progress;
      if (message.has_result()) result = message.result();
    }
    const absl::Status status = FromGrpcStatus(reader->Finish());
    if (!status.ok()) return status;
    return result;
  }

  absl::StatusOr<v1::GetConfigResponse> GetConfig(const Problem& problem,
                                                  int64_t m,
                                                  int64_t revision = 0) {
    grpc::ClientContext context;
    v1::GetConfigRequest request;
    *request.mutable_problem() = ToProto(problem);
    request.set_m(m);
    request.set_revision(revision);
    v1::GetConfigResponse response;
    const absl::Status status =
        FromGrpcStatus(stub_->GetConfig(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }

 private:
  void AfterCall() {
    absl::MutexLock lock(&mutex_);
    if (!held_ || calls_before_-- > 0) return;
    waiting_ = true;
    const auto released = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !held_;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&released), absl::Seconds(30));
    waiting_ = false;
  }

  TempFolder folder_;
  absl::Mutex mutex_;
  bool held_ = false;
  int calls_before_ = 0;
  bool waiting_ = false;
  std::vector<std::string> lines_;
  Logger log_;
  Configure configure_;
  std::optional<DeviceSpec> device_;
  SimulatedExecutor* executor_ = nullptr;
  FakeCompiler* compiler_ = nullptr;
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<v1::TuningService::Stub> stub_;
};

// A UUID for tests.
inline std::string TestId(int i) {
  return "00000000-0000-4000-8000-" + std::to_string(100000000000 + i);
}

}  // namespace hone

#endif  // HONE_TESTS_SERVICE_SUPPORT_TEST_DAEMON_H_
