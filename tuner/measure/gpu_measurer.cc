#include "tuner/measure/gpu_measurer.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "kernels/launch/device_query.h"
#include "tuner/measure/device/generator.cuh"

namespace hone {
namespace {

// Flushes before a round's first call: they bring the clocks up.
constexpr size_t kWarmUpFlushes = 2;
// Large products leave the clock low for a while: an H200 that was at M = 8192
// ran M = 1 at 1.4 to 1.7 of its 1.98 GHz, 15 to 30 % slower than by itself. A
// round at fewer tokens than the last waits until flushes alone run at this
// share of the highest clock, or so often.
constexpr double kSettledClock = 0.97;
constexpr int kSettleAttempts = 40;
constexpr absl::Duration kSettlePause = absl::Milliseconds(50);

constexpr uint32_t kSentinelThreads = 256;

// How often NVML is asked who else computes on the device.
constexpr absl::Duration kForeignPeriod = absl::Milliseconds(100);

}  // namespace

GpuMeasurer::GpuMeasurer(const Options& options, DeviceSpec device,
                         Context context)
    : options_(options),
      device_(std::move(device)),
      context_(std::move(context)) {}

GpuMeasurer::~GpuMeasurer() = default;

absl::StatusOr<std::unique_ptr<GpuMeasurer>> GpuMeasurer::Create(
    const Options& options, const CompileFunction& compile) {
  HONE_ASSIGN_OR_RETURN(DeviceSpec device, QueryDevice(options.device));
  // CUPTI first: it sees contexts that are made after it.
  std::unique_ptr<CuptiTimer> timer;
  if (options.timing) {
    HONE_ASSIGN_OR_RETURN(timer, CuptiTimer::Create(options.libraries));
  }
  HONE_ASSIGN_OR_RETURN(const std::string cubin,
                        compile(HelperSource(), device.NvrtcArch()));
  HONE_ASSIGN_OR_RETURN(Context context, Context::Retain(options.device));
  std::unique_ptr<GpuMeasurer> m(
      new GpuMeasurer(options, std::move(device), std::move(context)));
  m->timer_ = std::move(timer);
  if (const absl::StatusOr<std::string> bus_id = PciBusId(options.device);
      bus_id.ok()) {
    m->nvml_ = NvmlDevice::Open(*bus_id);
  }
  HONE_ASSIGN_OR_RETURN(m->stream_, Stream::Create());
  HONE_ASSIGN_OR_RETURN(m->helpers_, HelperKernels::Load(cubin));
  if (options.timing) {
    HONE_ASSIGN_OR_RETURN(L2Flush flush,
                          L2Flush::Create(m->helpers_, m->device_,
                                          options.protocol.flush_l2_multiple,
                                          m->stream_.handle()));
    m->flush_.emplace(std::move(flush));
  }
  HONE_RETURN_IF_ERROR(m->Sentinel());
  return m;
}

absl::Status GpuMeasurer::Begin(const Problem& problem, int64_t max_m,
                                uint64_t seed) {
  if (max_m < 1) return absl::InvalidArgumentError("max_m must be at least 1");
  const StreamHandle stream = stream_.handle();
  HONE_RETURN_IF_ERROR(Synchronize(stream));
  // First free what the last problem held: two may not fit.
  session_ = nullptr;
  auto session = std::make_unique<Session>();
  session->problem = problem;
  session->max_m = max_m;
  HONE_ASSIGN_OR_RETURN(
      session->operands,
      Operands::Create(helpers_, problem, max_m, seed, stream));
  session->reference = std::make_unique<DeviceReference>(
      helpers_, problem, session->operands, max_m, seed);
  HONE_ASSIGN_OR_RETURN(hone::Gate gate,
                        hone::Gate::Create(helpers_, problem, session->operands,
                                           *session->reference, max_m, stream));
  session->gate.emplace(std::move(gate));
  HONE_RETURN_IF_ERROR(Synchronize(stream));
  session_ = std::move(session);
  return absl::OkStatus();
}

absl::StatusOr<int> GpuMeasurer::Add(const TuningConfig& config,
                                     std::string cubin) {
  if (session_ == nullptr) {
    return absl::FailedPreconditionError("Begin() must come before Add()");
  }
  Loaded loaded;
  loaded.config = config;
  loaded.cubin = std::move(cubin);
  session_->candidates.push_back(std::move(loaded));
  return static_cast<int>(session_->candidates.size()) - 1;
}

absl::StatusOr<std::pair<GpuMeasurer::Loaded*, const LaunchPlan*>>
GpuMeasurer::Prepare(int candidate, int64_t m) {
  Loaded& loaded = session_->candidates[static_cast<size_t>(candidate)];
  auto plan = loaded.plans.find(m);
  if (plan == loaded.plans.end()) {
    plan = loaded.plans
               .emplace(m, PlanLaunch(session_->problem, loaded.config, m,
                                      device().sm_count))
               .first;
  }
  if (!loaded.module.has_value()) {
    HONE_ASSIGN_OR_RETURN(Module module, Module::Load(loaded.cubin));
    loaded.module.emplace(std::move(module));
  }
  const int64_t smem = plan->second.smem_bytes;
  if (smem > loaded.prepared_smem) {
    HONE_ASSIGN_OR_RETURN(loaded.function, loaded.module->Function(
                                               plan->second.kernel_name, smem));
    loaded.prepared_smem = smem;
  }
  return std::make_pair(&loaded, static_cast<const LaunchPlan*>(&plan->second));
}

absl::Status GpuMeasurer::PrepareGate(int64_t m) {
  if (session_ == nullptr || m < 1 || m > session_->max_m) {
    return absl::FailedPreconditionError(
        absl::StrCat("M = ", m, " is not one that Begin() prepared"));
  }
  return session_->reference->RowsFor(m, stream_.handle()).status();
}

absl::StatusOr<GateResult> GpuMeasurer::Gate(int candidate, int64_t m) {
  if (session_ == nullptr) {
    return absl::FailedPreconditionError("Begin() must come before Gate()");
  }
  if (candidate < 0 ||
      candidate >= static_cast<int>(session_->candidates.size()) || m < 1 ||
      m > session_->max_m) {
    return absl::InvalidArgumentError(
        absl::StrCat("gate of candidate ", candidate, " at M = ", m,
                     ": there are ", session_->candidates.size(),
                     " candidates and M goes to ", session_->max_m));
  }
  const auto prepared = Prepare(candidate, m);
  if (!prepared.ok()) {
    if (IsContextLost(prepared.status())) return prepared.status();
    GateResult refused;
    refused.outcome = RefusalOf(prepared.status());
    refused.detail = std::string(prepared.status().message());
    return refused;
  }
  return session_->gate->Check(prepared->first->function, *prepared->second,
                               prepared->first->config.mma, m);
}

absl::StatusOr<RoundResult> GpuMeasurer::Round(const RoundRequest& request) {
  if (timer_ == nullptr) {
    return absl::FailedPreconditionError("gate-only mode cannot time kernels");
  }
  if (session_ == nullptr) {
    return absl::FailedPreconditionError("Begin() must come before Round()");
  }
  for (const int candidate : request.order) {
    if (candidate < 0 ||
        candidate >= static_cast<int>(session_->candidates.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("round: there is no candidate ", candidate));
    }
  }
  const StreamHandle stream = stream_.handle();
  const size_t count = request.order.size();
  if (request.m < session_->last_m) HONE_RETURN_IF_ERROR(Settle());
  session_->last_m = request.m;
  HONE_RETURN_IF_ERROR(flush_->Reserve(count + kWarmUpFlushes));

  RoundResult result;
  result.entries.resize(count);
  // Loading and growing the workspace wait for the device: not in the round.
  std::vector<std::pair<Loaded*, const LaunchPlan*>> calls(count);
  const auto refuse = [&](size_t i, const absl::Status& status) {
    result.entries[i].outcome = RefusalOf(status);
    result.entries[i].detail = std::string(status.message());
  };
  for (size_t i = 0; i < count; ++i) {
    const auto prepared = Prepare(request.order[i], request.m);
    if (!prepared.ok()) {
      if (IsContextLost(prepared.status())) return prepared.status();
      refuse(i, prepared.status());
      continue;
    }
    if (const auto buffers =
            session_->gate->Bindings(*prepared->second, request.m);
        !buffers.ok()) {
      if (IsContextLost(buffers.status())) return buffers.status();
      refuse(i, buffers.status());
      continue;
    }
    calls[i] = *prepared;
  }

  timer_->Start();
  for (size_t i = 0; i < kWarmUpFlushes; ++i) {
    HONE_RETURN_IF_ERROR(flush_->Queue(i));
  }
  std::vector<uint32_t> launches;
  std::vector<size_t> launched;
  for (size_t i = 0; i < count; ++i) {
    const auto& [loaded, plan] = calls[i];
    if (loaded == nullptr) continue;
    HONE_ASSIGN_OR_RETURN(const BufferBindings buffers,
                          session_->gate->Bindings(*plan, request.m));
    // Candidates share the workspace and divide it differently; each finds its
    // counters zero, as its owner would have left them. Before the flush, so
    // that these lines are cold and clean too.
    HONE_RETURN_IF_ERROR(Fill(buffers.Get(BufferRole::kWorkspace), 0,
                              plan->workspace_zeroed_bytes, stream));
    HONE_RETURN_IF_ERROR(flush_->Queue(kWarmUpFlushes + i));
    const uint32_t before = timer_->LastLaunch();
    if (absl::Status status = Launch(loaded->function, *plan, buffers, stream);
        !status.ok()) {
      if (IsContextLost(status)) return status;
      refuse(i, status);
      continue;
    }
    const uint32_t id = timer_->LastLaunch();
    if (id == before) {
      return absl::InternalError("CUPTI did not report a launch");
    }
    launches.push_back(id);
    launched.push_back(i);
  }
  HONE_RETURN_IF_ERROR(Synchronize(stream));
  last_clock_events_ =
      nvml_ == nullptr ? std::nullopt : nvml_->CurrentClockEvents();
  result.slowed_down =
      last_clock_events_.has_value() && last_clock_events_->slowdown;
  result.foreign_processes = ForeignProcesses();
  HONE_ASSIGN_OR_RETURN(const std::vector<KernelTime> times,
                        timer_->Collect(launches));
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> clocks,
                        flush_->ClocksKhz(count + kWarmUpFlushes));
  for (size_t j = 0; j < launched.size(); ++j) {
    Sample& sample = result.entries[launched[j]].sample;
    sample.duration_ns =
        static_cast<int64_t>(times[j].end_ns - times[j].start_ns);
    sample.sm_clock_khz = clocks[kWarmUpFlushes + launched[j]];
    sample.round = request.round;
  }
  return result;
}

std::vector<int64_t> GpuMeasurer::ForeignProcesses() {
  if (nvml_ == nullptr || absl::Now() - foreign_asked_ < kForeignPeriod) {
    return foreign_;
  }
  foreign_asked_ = absl::Now();
  foreign_ = OthersThan(
      getpid(), nvml_->ComputeProcesses().value_or(std::vector<int64_t>()));
  return foreign_;
}

absl::Status GpuMeasurer::Settle() {
  HONE_RETURN_IF_ERROR(flush_->Reserve(1));
  for (int attempt = 0; attempt < kSettleAttempts; ++attempt) {
    HONE_RETURN_IF_ERROR(flush_->Queue(0));
    HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> clocks,
                          flush_->ClocksKhz(1));
    if (static_cast<double>(clocks[0]) >=
        kSettledClock * static_cast<double>(device_.max_clock_khz)) {
      break;
    }
    absl::SleepFor(kSettlePause);
  }
  return absl::OkStatus();
}

absl::Status GpuMeasurer::Sentinel() {
  constexpr uint64_t kSeed = 0x5e9712e1;
  HONE_ASSIGN_OR_RETURN(
      const DeviceBuffer out,
      DeviceBuffer::Allocate(kSentinelThreads * sizeof(uint64_t)));
  HONE_RETURN_IF_ERROR(LaunchHelper(helpers_.sentinel, Dim3{}, kSentinelThreads,
                                    stream_.handle(), out.ptr(), kSeed));
  std::vector<uint64_t> found(kSentinelThreads);
  HONE_RETURN_IF_ERROR(
      CopyToHost(found.data(), out.ptr(), out.bytes(), stream_.handle()));
  for (uint64_t i = 0; i < kSentinelThreads; ++i) {
    if (found[i] != generator::Hash(kSeed, generator::kActivations,
                                    kSentinelThreads - 1 - i)) {
      return absl::DataLossError("the device computed the sentinel wrongly");
    }
  }
  return absl::OkStatus();
}

}  // namespace hone
