// A worker without a GPU: the process that ProcessExecutor starts in tests. It
// really hangs, dies and talks nonsense. What a candidate does is its "cubin",
// or the fault named in it (tests/support/faults.h):
//
//   ok            passes the gate and takes 1000 ns
//   wrong, nan, race, out_of_memory      fails the gate with that
//   fault, illegal_address, illegal_instruction   reports a lost context
//   spoilt        reports that the device failed, at its first gate
//   hang, crash, exit, garbage, partial, stale    at the gate
//   killed        SIGKILL, as by somebody else, at each gate
//   killed_once   the same, but only while --once=FILE is missing
//   hang_in_round, crash_in_round, killed_once_in_round, foreign_in_round
//                 passes the gate, then in a round
//   good ...      passes the gate and takes a time that its config decides
//
//   fake_worker [--log=FILE] [--once=FILE] [--sentinel=fail]
//               [--sentinel-fails=FILE] [--device=missing] [--unreapable]
//
// Each request is a line of the log. The sentinel fails while the file of
// --sentinel-fails is there. --unreapable: once killed, it cannot be reaped for
// a while.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "tests/support/faults.h"
#include "tuner/worker/wire.h"

namespace hone {
namespace {

void Hang() {
  while (true) pause();
}

// A process that another one traces is the tracer's to reap first.
void BeUnreapable() {
  const pid_t worker = getpid();
  const pid_t tracer = fork();
  if (tracer == 0) {
    setsid();
    for (int fd = 0; fd < 3; ++fd) close(fd);
    if (ptrace(PTRACE_SEIZE, worker, nullptr, nullptr) != 0) _exit(1);
    sleep(2);
    _exit(0);
  }
  prctl(PR_SET_PTRACER, tracer);
  usleep(200'000);
}

// Between 8 and 20 us at small M, as the config has it.
int64_t DurationNs(const std::string& config, int64_t m) {
  return 8000 + static_cast<int64_t>(std::hash<std::string>()(config) % 12000) +
         m * 40;
}

bool Exists(const std::string& file) {
  return !file.empty() && access(file.c_str(), F_OK) == 0;
}

struct Known {
  std::string kind;
  std::string config;
};

// What a candidate may do to its worker instead of answering.
void Misbehave(const std::string& kind, uint64_t id) {
  if (kind == "hang") Hang();
  if (kind == "crash") abort();
  if (kind == "exit") _exit(3);
  if (kind == "killed") raise(SIGKILL);
  if (kind == "partial") {
    // The beginning of a frame, then nothing.
    if (write(STDOUT_FILENO, "\x40\0\0\0abc", 7) < 0) _exit(4);
    Hang();
  }
  if (kind == "garbage") {
    // A length beyond any frame.
    const std::string garbage(64, '\xff');
    if (write(STDOUT_FILENO, garbage.data(), garbage.size()) < 0) _exit(4);
    Hang();
  }
  if (kind == "stale") {
    v1::WorkerResponse response;
    response.set_id(id + 1000);
    SendFrame(STDOUT_FILENO, response.SerializeAsString(),
              absl::InfiniteFuture())
        .IgnoreError();
    Hang();
  }
}

int Main(int argc, char** argv) {
  std::ofstream log;
  std::string once;
  std::string sentinel_fails;
  bool no_device = false;
  bool unreapable = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, "--log=")) {
      log.open(std::string(arg), std::ios::app);
    } else if (absl::ConsumePrefix(&arg, "--once=")) {
      once = std::string(arg);
    } else if (arg == "--sentinel=fail") {
      sentinel_fails = "/";
    } else if (absl::ConsumePrefix(&arg, "--sentinel-fails=")) {
      sentinel_fails = std::string(arg);
    } else if (arg == "--unreapable") {
      unreapable = true;
    } else if (arg == "--device=missing") {
      no_device = true;
    }
  }
  log << "start" << std::endl;
  if (unreapable) BeUnreapable();
  // True once, over all workers.
  const auto first_time = [&] {
    return !Exists(once) && std::ofstream(once).good();
  };
  std::vector<Known> candidates;
  while (true) {
    const absl::StatusOr<std::string> frame =
        ReceiveFrame(STDIN_FILENO, absl::InfiniteFuture());
    if (!frame.ok()) return 0;
    v1::WorkerRequest request;
    if (!request.ParseFromString(*frame)) return 1;
    v1::WorkerResponse response;
    response.set_id(request.id());
    const auto refuse = [&](absl::StatusCode code, const std::string& message) {
      response.set_code(static_cast<int32_t>(code));
      response.set_message(message);
    };
    switch (request.request_case()) {
      case v1::WorkerRequest::kDevice:
        log << "device" << std::endl;
        if (no_device) {
          refuse(absl::StatusCode::kUnavailable, "no driver here");
        } else {
          DeviceSpec device = *ModelledDevice("h200");
          device.pci_device_id = 0x2335;
          device.uuid = "GPU-fake";
          device.name = "fake GPU";
          device.driver = "580.65";
          *response.mutable_device() = ToWire(device);
          response.mutable_device()->add_foreign_processes(4711);
        }
        break;
      case v1::WorkerRequest::kBegin:
        log << "begin " << request.begin().max_m() << std::endl;
        candidates.clear();
        break;
      case v1::WorkerRequest::kAdd: {
        const std::string& cubin = request.add().cubin();
        const absl::string_view fault = FaultNamedIn(cubin);
        candidates.push_back({fault.empty() ? cubin : std::string(fault),
                              request.add().config()});
        log << "add " << candidates.back().kind << std::endl;
        response.set_candidate(static_cast<int32_t>(candidates.size()) - 1);
        break;
      }
      case v1::WorkerRequest::kPrepare:
        log << "prepare " << request.prepare().m() << std::endl;
        break;
      case v1::WorkerRequest::kGate: {
        const std::string kind =
            candidates.at(static_cast<size_t>(request.gate().candidate())).kind;
        log << "gate " << kind << std::endl;
        Misbehave(kind, request.id());
        if (kind == "killed_once" && first_time()) raise(SIGKILL);
        if (kind == "fault" || absl::StartsWith(kind, "illegal_")) {
          refuse(absl::StatusCode::kAborted, "illegal address");
          response.set_context_lost(true);
          break;
        }
        if (kind == "spoilt" && first_time()) {
          refuse(absl::StatusCode::kDataLoss, "uncorrectable ECC error");
          response.set_context_lost(true);
          break;
        }
        GateResult result;
        result.gate = GateKind::kDevice;
        if (absl::StartsWith(kind, "wrong")) {
          result.outcome = Outcome::kWrongResult;
          result.detail = "C[0][0]";
          result.error.worst_ratio = 7;
        } else if (kind == "nan") {
          result.outcome = Outcome::kWrongResult;
          result.detail = "64 of 64 outputs are NaN or were not written";
        } else if (kind == "race") {
          result.outcome = Outcome::kNotRepeatable;
          result.detail = "two runs differ";
        } else if (kind == "out_of_memory") {
          result.gate = GateKind::kNone;
          result.outcome = Outcome::kOutOfMemory;
          result.detail = "cuModuleLoadData: CUDA_ERROR_OUT_OF_MEMORY";
        }
        *response.mutable_gate() = ToWire(result);
        break;
      }
      case v1::WorkerRequest::kRound: {
        RoundResult result;
        log << "round";
        for (const int32_t index : request.round().order()) {
          const auto& [kind, config] =
              candidates.at(static_cast<size_t>(index));
          log << " " << kind.substr(0, kind.find(' ')) << std::flush;
          if (kind == "killed_once_in_round") {
            if (first_time()) raise(SIGKILL);
          } else if (kind == "foreign_in_round") {
            result.foreign_processes = {4712};
          } else if (absl::EndsWith(kind, "_in_round")) {
            Misbehave(kind.substr(0, kind.find('_')), request.id());
          }
          RoundResult::Entry entry;
          entry.sample.duration_ns =
              absl::StartsWith(kind, "good")
                  ? DurationNs(config, request.round().m())
                  : 1000 + index;
          entry.sample.sm_clock_khz = 1980000;
          result.entries.push_back(entry);
        }
        log << std::endl;
        *response.mutable_round() = ToWire(result);
        break;
      }
      case v1::WorkerRequest::kSentinel:
        log << "sentinel" << std::endl;
        if (Exists(sentinel_fails))
          refuse(absl::StatusCode::kDataLoss, "wrong sum");
        break;
      case v1::WorkerRequest::REQUEST_NOT_SET:
        refuse(absl::StatusCode::kUnimplemented, "unknown");
        break;
    }
    if (!SendFrame(STDOUT_FILENO, response.SerializeAsString(),
                   absl::InfiniteFuture())
             .ok()) {
      return 0;
    }
  }
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::Main(argc, argv); }
