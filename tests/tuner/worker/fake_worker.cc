// A worker without a GPU, for the tests of ProcessExecutor. What a candidate
// does is its "cubin":
//
//   ok            passes the gate and takes 1000 ns
//   wrong         fails the gate
//   fault         reports that the context is lost
//   hang, crash, exit, garbage, stale    at the gate
//   hang_in_round, crash_in_round        passes the gate, then in a round
//
//   fake_worker --log=FILE [--sentinel=fail] [--device=missing]
//
// Each request is a line of the log.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "tuner/worker/wire.h"

namespace hone {
namespace {

void Hang() {
  while (true) pause();
}

// What a candidate may do to its worker instead of answering.
void Misbehave(const std::string& kind, uint64_t id) {
  if (kind == "hang") Hang();
  if (kind == "crash") abort();
  if (kind == "exit") _exit(3);
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
  bool sentinel_fails = false;
  bool no_device = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view arg = argv[i];
    if (absl::ConsumePrefix(&arg, "--log=")) {
      log.open(std::string(arg), std::ios::app);
    } else if (arg == "--sentinel=fail") {
      sentinel_fails = true;
    } else if (arg == "--device=missing") {
      no_device = true;
    }
  }
  log << "start" << std::endl;
  std::vector<std::string> candidates;
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
          response.mutable_device()->set_uuid("GPU-fake");
          response.mutable_device()->set_sm_arch(90);
          response.mutable_device()->add_foreign_processes(4711);
        }
        break;
      case v1::WorkerRequest::kBegin:
        log << "begin " << request.begin().max_m() << std::endl;
        candidates.clear();
        break;
      case v1::WorkerRequest::kAdd:
        log << "add " << request.add().cubin() << std::endl;
        response.set_candidate(static_cast<int32_t>(candidates.size()));
        candidates.push_back(request.add().cubin());
        break;
      case v1::WorkerRequest::kPrepare:
        log << "prepare " << request.prepare().m() << std::endl;
        break;
      case v1::WorkerRequest::kGate: {
        const std::string kind =
            candidates.at(static_cast<size_t>(request.gate().candidate()));
        log << "gate " << kind << std::endl;
        Misbehave(kind, request.id());
        if (kind == "fault") {
          refuse(absl::StatusCode::kAborted, "illegal address");
          response.set_context_lost(true);
          break;
        }
        GateResult result;
        result.gate = GateKind::kDevice;
        if (kind == "wrong") {
          result.outcome = Outcome::kWrongResult;
          result.detail = "C[0][0]";
          result.error.worst_ratio = 7;
        }
        *response.mutable_gate() = ToWire(result);
        break;
      }
      case v1::WorkerRequest::kRound: {
        RoundResult result;
        log << "round";
        for (const int32_t index : request.round().order()) {
          const std::string kind = candidates.at(static_cast<size_t>(index));
          log << " " << kind << std::flush;
          if (absl::EndsWith(kind, "_in_round")) {
            Misbehave(kind.substr(0, kind.find('_')), request.id());
          }
          RoundResult::Entry entry;
          entry.sample.duration_ns = 1000 + index;
          result.entries.push_back(entry);
        }
        log << std::endl;
        *response.mutable_round() = ToWire(result);
        break;
      }
      case v1::WorkerRequest::kSentinel:
        log << "sentinel" << std::endl;
        if (sentinel_fails) refuse(absl::StatusCode::kDataLoss, "wrong sum");
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
