// hone-worker: the child process that touches the GPU.
//
//   hone-worker --device=N [--cache=FOLDER]
//
// Reads WorkerRequests on standard input and writes WorkerResponses on standard
// output (tuner/worker/wire.h); logs go to standard error. Ends when its parent
// closes the other side or dies, even while a kernel hangs.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/compiler.h"
#include "kernels/jit/cubin_cache.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/launch/device_query.h"
#include "tuner/measure/gpu_measurer.h"
#include "tuner/worker/wire.h"

namespace hone {
namespace {

struct Flags {
  int device = 0;
  // Empty: the helper kernels are compiled at each start.
  std::string cache;
};

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, "--device=")) {
      if (!absl::SimpleAtoi(arg, &flags.device) || flags.device < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("--device must be a CUDA ordinal, not \"", arg, "\""));
      }
    } else if (absl::ConsumePrefix(&arg, "--cache=")) {
      flags.cache = std::string(arg);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown argument ", arg, "; there are --device=N, --cache=FOLDER"));
    }
  }
  return flags;
}

// Ends the process when the other side of `fd` is closed. PR_SET_PDEATHSIG
// would not do: it fires when the parent's *thread* that started us ends.
void WatchParent(int fd) {
  std::thread([fd] {
    while (true) {
      pollfd entry = {fd, POLLRDHUP, 0};
      if (poll(&entry, 1, -1) > 0 &&
          (entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0) {
        // Not exit(): the main thread may be inside the driver.
        _exit(0);
      }
    }
  }).detach();
}

class Worker {
 public:
  explicit Worker(Flags flags) : flags_(std::move(flags)) {}

  v1::WorkerResponse Handle(const v1::WorkerRequest& request) {
    v1::WorkerResponse response;
    response.set_id(request.id());
    const absl::Status status = Dispatch(request, response);
    if (!status.ok()) {
      response.set_code(static_cast<int32_t>(status.code()));
      response.set_message(std::string(status.message()));
      if (IsContextLost(status)) response.set_context_lost(true);
    }
    return response;
  }

 private:
  absl::StatusOr<GpuMeasurer*> Measurer() {
    if (measurer_ != nullptr) return measurer_.get();
    GpuMeasurer::Options options;
    options.device = flags_.device;
    options.libraries = LibrarySearchFromEnvironment(std::getenv);
    HONE_ASSIGN_OR_RETURN(std::shared_ptr<const Nvrtc> nvrtc,
                          Nvrtc::Create(options.libraries));
    std::shared_ptr<CubinCache> cache;
    if (!flags_.cache.empty()) {
      CubinCacheOptions cache_options;
      cache_options.folder = flags_.cache;
      HONE_ASSIGN_OR_RETURN(cache, CubinCache::Open(cache_options));
    }
    Compiler compiler(std::move(nvrtc), std::move(cache));
    HONE_ASSIGN_OR_RETURN(
        measurer_,
        GpuMeasurer::Create(
            options,
            [&compiler](const std::string& source, const std::string& arch)
                -> absl::StatusOr<std::string> {
              HONE_ASSIGN_OR_RETURN(Compiler::Compiled compiled,
                                    compiler.Compile(source, arch));
              if (!compiled.result.ok()) {
                return absl::InternalError(
                    absl::StrCat("the helper kernels do not compile: ",
                                 compiled.result.log));
              }
              return std::move(compiled.result.cubin);
            }));
    return measurer_.get();
  }

  absl::Status Dispatch(const v1::WorkerRequest& request,
                        v1::WorkerResponse& response) {
    switch (request.request_case()) {
      case v1::WorkerRequest::kDevice: {
        HONE_ASSIGN_OR_RETURN(const DeviceSpec spec,
                              QueryDevice(flags_.device));
        *response.mutable_device() = ToWire(spec);
        for (const int64_t pid : ForeignProcesses(flags_.device)) {
          response.mutable_device()->add_foreign_processes(pid);
        }
        return absl::OkStatus();
      }
      case v1::WorkerRequest::kBegin: {
        HONE_ASSIGN_OR_RETURN(GpuMeasurer * measurer, Measurer());
        HONE_ASSIGN_OR_RETURN(const Problem problem,
                              Problem::Parse(request.begin().problem()));
        return measurer->Begin(problem, request.begin().max_m(),
                               request.begin().seed());
      }
      case v1::WorkerRequest::kAdd: {
        HONE_ASSIGN_OR_RETURN(GpuMeasurer * measurer, Measurer());
        HONE_ASSIGN_OR_RETURN(const TuningConfig config,
                              TuningConfig::Parse(request.add().config()));
        HONE_ASSIGN_OR_RETURN(const int index,
                              measurer->Add(config, request.add().cubin()));
        response.set_candidate(index);
        return absl::OkStatus();
      }
      case v1::WorkerRequest::kPrepare: {
        HONE_ASSIGN_OR_RETURN(GpuMeasurer * measurer, Measurer());
        return measurer->PrepareGate(request.prepare().m());
      }
      case v1::WorkerRequest::kGate: {
        HONE_ASSIGN_OR_RETURN(GpuMeasurer * measurer, Measurer());
        HONE_ASSIGN_OR_RETURN(
            const GateResult result,
            measurer->Gate(request.gate().candidate(), request.gate().m()));
        if (result.outcome == Outcome::kFault) {
          return absl::AbortedError(result.detail);
        }
        *response.mutable_gate() = ToWire(result);
        return absl::OkStatus();
      }
      case v1::WorkerRequest::kRound: {
        HONE_ASSIGN_OR_RETURN(GpuMeasurer * measurer, Measurer());
        RoundRequest round;
        round.m = request.round().m();
        round.order.assign(request.round().order().begin(),
                           request.round().order().end());
        round.round = request.round().round();
        HONE_ASSIGN_OR_RETURN(const RoundResult result, measurer->Round(round));
        *response.mutable_round() = ToWire(result);
        return absl::OkStatus();
      }
      case v1::WorkerRequest::kSentinel: {
        HONE_ASSIGN_OR_RETURN(GpuMeasurer * measurer, Measurer());
        return measurer->Sentinel();
      }
      case v1::WorkerRequest::REQUEST_NOT_SET:
        break;
    }
    return absl::UnimplementedError("the request is not known");
  }

  const Flags flags_;
  std::unique_ptr<GpuMeasurer> measurer_;
};

int Main(int argc, char** argv) {
  const absl::StatusOr<Flags> flags = ParseFlags(argc, argv);
  if (!flags.ok()) {
    std::cerr << "hone-worker: " << flags.status().message() << "\n";
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  // Whatever a library prints must not get between the frames.
  const int out = dup(STDOUT_FILENO);
  if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 2;
  WatchParent(STDIN_FILENO);
  Worker worker(*flags);
  while (true) {
    const absl::StatusOr<std::string> frame =
        ReceiveFrame(STDIN_FILENO, absl::InfiniteFuture());
    if (!frame.ok()) return absl::IsUnavailable(frame.status()) ? 0 : 1;
    v1::WorkerRequest request;
    if (!request.ParseFromString(*frame)) {
      std::cerr << "hone-worker: a request makes no sense\n";
      return 1;
    }
    const v1::WorkerResponse response = worker.Handle(request);
    if (!SendFrame(out, response.SerializeAsString(), absl::InfiniteFuture())
             .ok()) {
      return 0;
    }
  }
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::Main(argc, argv); }
