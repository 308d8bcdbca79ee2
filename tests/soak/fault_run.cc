// hone-fault-run: honed under a thousand faults.
//
//   hone-fault-run --device=fake|gpu:N --out=FOLDER [--faults=1000]
//                  [--seconds=N] [--seed=N] [--worker=FILE] [--compiler=FILE]
//
// Serves a real daemon (gRPC, store, sessions, worker and compile children) in
// this process and tunes one layer after the other, most of whose candidates
// are faulty in one of ten ways (tests/support/faults.h), until every fault has
// been met. All the while another thread looks tables up. Then every fault must
// be stored as what it was, every good candidate as good, no table may hold a
// faulty kernel, every lookup must have been answered, and no process,
// descriptor, file or memory may be left over.
//
// Prints a JSON report; exits with 0 when all of that holds, with 1 when not,
// with 3 when the seconds were over before the faults: called again with the
// same --out, it goes on with the next layer. --device=fake uses children that
// stand in for the GPU's worker and the compiler; everything else is real.
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "db/json.h"
#include "db/store.h"
#include "grpcpp/grpcpp.h"
#include "hone/v1/tuning_service.grpc.pb.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/compile_pool.h"
#include "kernels/launch/device_query.h"
#include "kernels/launch/nvml_library.h"
#include "service/convert/config_convert.h"
#include "service/convert/grpc_status.h"
#include "service/flags/flags.h"
#include "service/paths/paths.h"
#include "service/server/daemon.h"
#include "tests/soak/fault_journal.h"
#include "tests/support/faults.h"

namespace hone {
namespace {

struct Options {
  std::string device = "fake";
  std::string out;
  int64_t faults = 1000;
  int64_t seconds = 3600;
  int64_t seed = 1;
  std::string worker;
  std::string compiler;
  int64_t probe = -1;

  bool fake() const { return device == "fake"; }
  int ordinal() const {
    int value = 0;
    absl::string_view text = device;
    return absl::ConsumePrefix(&text, "gpu:") && absl::SimpleAtoi(text, &value)
               ? value
               : 0;
  }
};

// Per mille of the faults. Those that cost a worker are fewer: on a GPU each
// costs about a second.
constexpr std::pair<FaultKind, int> kMix[] = {
    {FaultKind::kHang, 40},
    {FaultKind::kIllegalAddress, 60},
    {FaultKind::kIllegalInstruction, 60},
    {FaultKind::kWorkerKilled, 60},
    {FaultKind::kWrongAnswer, 150},
    {FaultKind::kNan, 150},
    {FaultKind::kRace, 150},
    {FaultKind::kCompilerCrash, 110},
    {FaultKind::kEndlessCompile, 110},
    {FaultKind::kOutOfMemory, 110}};
// Of the candidates of a layer, so many are faulty.
constexpr double kFaultyShare = 0.7;
constexpr int kCandidates = 128;
const std::vector<int64_t> kLadder = {1, 16, 64};

// What the operating system holds for this process.
struct Holdings {
  int64_t descriptors = 0;  // without the one that each child has
  int64_t children = 0;
  int64_t zombies = 0;
  int64_t threads = 0;
  int64_t resident_kb = 0;
  int64_t heap_kb = 0;  // allocated and not freed
  int64_t files = 0;    // in the temporary folder
  int64_t gpu_memory_bytes = -1;
};

int64_t CountEntries(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator items(folder, error);
  return error ? 0 : std::distance(begin(items), end(items));
}

int64_t StatusField(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, key)) continue;
    std::istringstream rest(line.substr(key.size() + 1));
    int64_t value = 0;
    rest >> value;
    return value;
  }
  return 0;
}

// A GPU's memory in use, told by a child so that this process, like honed,
// never loads the driver. -1: not known.
int64_t GpuMemory(const Options& options) {
  if (options.fake()) return -1;
  const std::string command =
      absl::StrCat("/proc/", getpid(), "/exe --probe=", options.ordinal());
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return -1;
  long long bytes = -1;
  if (fscanf(pipe, "%lld", &bytes) != 1) bytes = -1;
  pclose(pipe);
  return bytes;
}

int Probe(int ordinal) {
  const absl::StatusOr<std::string> bus_id = PciBusId(ordinal);
  const auto nvml = bus_id.ok() ? NvmlDevice::Open(*bus_id) : nullptr;
  std::printf("%lld\n",
              static_cast<long long>(
                  nvml == nullptr ? -1 : nvml->UsedMemory().value_or(-1)));
  return 0;
}

Holdings Measure(const Options& options) {
  Holdings held;
  held.gpu_memory_bytes = GpuMemory(options);
  held.files = CountEntries("/tmp");
  // What is free and only not given back is no leak.
  malloc_trim(0);
  const struct mallinfo2 heap = mallinfo2();
  held.heap_kb = static_cast<int64_t>((heap.uordblks + heap.hblkhd) / 1024);
  held.resident_kb = StatusField("RssAnon:");
  held.threads = StatusField("Threads:");
  for (const auto& item : std::filesystem::directory_iterator("/proc")) {
    int64_t pid = 0;
    if (!absl::SimpleAtoi(item.path().filename().string(), &pid)) continue;
    std::ifstream file(item.path() / "stat");
    std::string line;
    std::getline(file, line);
    // pid (name) state parent ...
    const size_t name = line.rfind(')');
    if (name == std::string::npos) continue;
    const std::vector<std::string> fields =
        absl::StrSplit(line.substr(name + 2), ' ');
    if (fields.size() < 2 || fields[1] != absl::StrCat(getpid())) continue;
    ++held.children;
    held.zombies += fields[0] == "Z";
  }
  held.descriptors = CountEntries("/proc/self/fd") - held.children;
  return held;
}

Json ToJson(const Holdings& held) {
  return Json(JsonObject{{"descriptors", Json(held.descriptors)},
                         {"children", Json(held.children)},
                         {"zombies", Json(held.zombies)},
                         {"threads", Json(held.threads)},
                         {"resident_kb", Json(held.resident_kb)},
                         {"heap_kb", Json(held.heap_kb)},
                         {"files", Json(held.files)},
                         {"gpu_memory_bytes", Json(held.gpu_memory_bytes)}});
}

// One layer after the other; each is new to the store.
Problem LayerOf(int64_t index) {
  Problem problem;
  problem.layer.n = 1024 + 64 * (index % 64);
  problem.layer.k = 1024 + 128 * (index / 64);
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

std::string RequestId(int64_t seed, int64_t index) {
  std::ostringstream text;
  text << "00000000-0000-4000-8000-" << 100000000000 + seed * 1000000 + index;
  return text.str();
}

// Asks for configs without end and notes how long each answer took.
class Lookups {
 public:
  Lookups(std::shared_ptr<grpc::Channel> channel, Problem tuned)
      : stub_(v1::TuningService::NewStub(std::move(channel))),
        tuned_(std::move(tuned)),
        thread_([this] { Run(); }) {}
  ~Lookups() { Stop(); }

  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int64_t answered() const { return answered_; }
  int64_t failed() const { return failed_; }
  // Of all answers, once stopped.
  double PercentileMs(double share) {
    if (times_ms_.empty()) return 0;
    const auto at = static_cast<ptrdiff_t>(
        share * static_cast<double>(times_ms_.size() - 1));
    std::nth_element(times_ms_.begin(), times_ms_.begin() + at,
                     times_ms_.end());
    return times_ms_[static_cast<size_t>(at)];
  }

 private:
  void Run() {
    for (int64_t i = 0; !stop_; ++i) {
      grpc::ClientContext context;
      context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(5)));
      v1::GetConfigRequest request;
      *request.mutable_problem() = ToProto(tuned_);
      request.set_m(1 + i % 200);
      v1::GetConfigResponse response;
      const absl::Time start = absl::Now();
      const grpc::Status status =
          stub_->GetConfig(&context, request, &response);
      times_ms_.push_back(absl::ToDoubleMilliseconds(absl::Now() - start));
      ++(status.ok() ? answered_ : failed_);
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  const std::unique_ptr<v1::TuningService::Stub> stub_;
  const Problem tuned_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> answered_ = 0;
  std::atomic<int64_t> failed_ = 0;
  std::vector<double> times_ms_;
  std::thread thread_;
};

absl::StatusOr<std::shared_ptr<Compiler>> MakeCompiler(
    const Options& options, absl::Duration deadline, int processes,
    uint64_t address_space, std::shared_ptr<CubinCache> cache) {
  CompilePoolOptions pool;
  pool.executable = options.compiler;
  pool.search = LibrarySearchFromEnvironment(getenv);
  pool.processes = processes;
  pool.address_space_bytes = address_space;
  HONE_ASSIGN_OR_RETURN(std::shared_ptr<CompilePool> made,
                        CompilePool::Create(std::move(pool)));
  return std::make_shared<Compiler>(std::move(made), deadline,
                                    std::move(cache));
}

class FaultRun {
 public:
  FaultRun(Options options, Summary done)
      : options_(std::move(options)),
        sum_(std::move(done)),
        plan_(FaultsLeft(), kFaultyShare,
              static_cast<uint64_t>(options_.seed + sum_.layers)) {}

  absl::Status Start() {
    FaultyCompiler::Compilers compilers;
    HONE_ASSIGN_OR_RETURN(
        std::shared_ptr<CubinCache> cache,
        CubinCache::Open({.folder = options_.out + "/cache/cubins"}));
    HONE_ASSIGN_OR_RETURN(
        compilers.good,
        MakeCompiler(options_, absl::Seconds(60), 0, 0, std::move(cache)));
    // Room to load NVRTC, not to parse the source that crashes it.
    HONE_ASSIGN_OR_RETURN(
        compilers.crashing,
        MakeCompiler(options_, absl::Seconds(60), 0,
                     options_.fake() ? 0 : uint64_t{200} << 20, nullptr));
    HONE_ASSIGN_OR_RETURN(
        compilers.hurried,
        MakeCompiler(options_, absl::Milliseconds(options_.fake() ? 150 : 700),
                     0, 0, nullptr));
    ProcessExecutor::Options worker;
    worker.command = {options_.worker};
    if (!options_.fake()) {
      worker.command.push_back(absl::StrCat("--device=", options_.ordinal()));
      worker.command.push_back(
          absl::StrCat("--cache=", options_.out, "/cache/cubins"));
    }
    HONE_ASSIGN_OR_RETURN(std::unique_ptr<ProcessExecutor> process,
                          ProcessExecutor::Create(std::move(worker)));
    device_ = process->device();
    protocol_ = process->protocol();
    auto executor = std::make_unique<FaultyExecutor>(
        &plan_, std::move(process),
        absl::Milliseconds(options_.fake() ? 600 : 1500),
        absl::Milliseconds(options_.fake() ? 3 : 15));
    executor_ = executor.get();
    DeviceBackend backend;
    backend.device = device_;
    backend.executor = std::move(executor);
    backend.compiler = std::make_unique<FaultyCompiler>(&plan_, compilers);
    backend.uncached = std::make_unique<FaultyCompiler>(&plan_, compilers);
    DaemonOptions daemon;
    daemon.listen = options_.out + "/run/honed.sock";
    daemon.database = options_.out + "/hone.db";
    HONE_ASSIGN_OR_RETURN(daemon_,
                          Daemon::Start(daemon, std::move(backend), &log_));
    channel_ = grpc::CreateChannel(daemon_->address(),
                                   grpc::InsecureChannelCredentials());
    return absl::OkStatus();
  }

  // Returns the exit code.
  int Run() {
    const absl::Time start = absl::Now();
    const auto over = [&] {
      return absl::Now() - start > absl::Seconds(options_.seconds);
    };
    // Without faults: makes a table to look up, and everything that a daemon
    // allocates once.
    int64_t next = NextLayer();
    const Problem first = LayerOf(next);
    Tune(next++);
    const Holdings before = Measure(options_);
    Lookups lookups(channel_, first);
    plan_.Enable(true);
    int64_t answered = 0;
    int64_t failed = 0;
    while (plan_.left() > 0 && !over()) {
      Tune(next++);
      layer_.lookups =
          lookups.answered() - std::exchange(answered, lookups.answered());
      layer_.lookups_failed =
          lookups.failed() - std::exchange(failed, lookups.failed());
      Finish();
    }
    const bool complete = plan_.left() == 0;
    plan_.Enable(false);
    // And without faults again; it also tells of the last kill.
    Tune(next++);
    Finish();
    lookups.Stop();
    const Holdings after = Measure(options_);
    daemon_ = nullptr;
    const Holdings end = Measure(options_);
    CheckHoldings(before, after, end);
    if (sum_.kills != sum_.interruptions) {
      sum_.mismatches.push_back(
          absl::StrCat(sum_.kills, " kills of the worker were stored as ",
                       sum_.interruptions, " interruptions"));
    }
    if (sum_.lookups_failed > 0) {
      sum_.mismatches.push_back(
          absl::StrCat(sum_.lookups_failed, " lookups were not answered"));
    }
    Report(complete, before, after, end, lookups);
    if (!sum_.mismatches.empty()) return 1;
    return complete ? 0 : 3;
  }

 private:
  FaultPlan::Counts FaultsLeft() const {
    FaultPlan::Counts counts;
    for (const auto& [kind, per_mille] : kMix) {
      int64_t left = per_mille * options_.faults / 1000;
      if (kind == FaultKind::kWorkerKilled) {
        left -= sum_.kills;
      } else if (const auto it = sum_.tallies.find(std::string(ToString(kind)));
                 it != sum_.tallies.end()) {
        for (const auto& [outcome, count] : it->second.outcomes) left -= count;
      }
      counts[kind] = static_cast<int>(std::max<int64_t>(0, left));
    }
    return counts;
  }

  // The first layer that no call has begun: one that was cut off is left.
  int64_t NextLayer() const {
    const std::string path = options_.out + "/next";
    int64_t next = 0;
    std::ifstream(path) >> next;
    return next;
  }

  void Mismatch(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::replace(text.begin(), text.end(), '\t', ' ');
    std::cerr << "mismatch: " << text << std::endl;
    layer_.mismatches.push_back(std::move(text));
  }

  // Tunes one layer and compares what is stored with what was planted.
  void Tune(int64_t index) {
    std::ofstream(options_.out + "/next") << index + 1 << std::flush;
    const absl::Time start = absl::Now();
    const Problem problem = LayerOf(index);
    const auto stub = v1::TuningService::NewStub(channel_);
    grpc::ClientContext context;
    v1::TuneLayerRequest request;
    request.set_request_id(RequestId(options_.seed, index));
    *request.mutable_problem() = ToProto(problem);
    for (const int64_t m : kLadder) request.add_ladder(m);
    request.set_max_kernels(kCandidates);
    request.mutable_budget()->set_seconds(600);
    const auto reader = stub->TuneLayer(&context, request);
    v1::TuneLayerResponse message;
    bool answered = false;
    while (reader->Read(&message)) answered |= message.has_result();
    const absl::Status status = FromGrpcStatus(reader->Finish());
    if (!status.ok() || !answered) {
      Mismatch(absl::StrCat("layer ", index, ": ", status.ToString()));
    }
    if (const absl::Status checked = Check(problem); !checked.ok()) {
      Mismatch(absl::StrCat("layer ", index, ": ", checked.ToString()));
    }
    layer_.layers = 1;
    layer_.seconds = absl::ToDoubleSeconds(absl::Now() - start);
    layer_.workers = executor_->health().workers_started -
                     std::exchange(workers_, executor_->health().workers_started);
    layer_.kills = plan_.kills() - std::exchange(kills_, plan_.kills());
    std::cerr << absl::StrCat("layer ", index, ": ", layer_.seconds, " s, ",
                              layer_.workers, " workers, ", plan_.left(),
                              " faults left")
              << std::endl;
  }

  absl::Status Check(const Problem& problem) {
    HONE_ASSIGN_OR_RETURN(
        const std::unique_ptr<Store> store,
        Store::Open(options_.out + "/hone.db", {.read_only = true}));
    HONE_ASSIGN_OR_RETURN(const std::vector<Trial> trials,
                          store->KnownTrials(problem, device_, protocol_));
    const auto faults = plan_.FaultsOf(problem);
    std::set<std::string> met;
    std::set<std::string> good;
    for (const Trial& trial : trials) {
      const std::string config = trial.config.ToString();
      if (trial.outcome == Outcome::kInterrupted) {
        ++layer_.interruptions;
        continue;
      }
      const auto fault = faults.find(trial.config);
      const bool success = trial.outcome == Outcome::kMeasured ||
                           trial.outcome == Outcome::kScreenedOut;
      if (fault == faults.end()) {
        if (success) {
          good.insert(config);
        } else {
          Mismatch(absl::StrCat("a good candidate is stored as ",
                                ToString(trial.outcome), " (", trial.detail,
                                "): ", config));
        }
        continue;
      }
      Tally& tally = layer_.tallies[std::string(ToString(fault->second))];
      ++tally.outcomes[std::string(ToString(trial.outcome))];
      tally.detail = trial.detail;
      std::replace(tally.detail.begin(), tally.detail.end(), '\n', ' ');
      std::replace(tally.detail.begin(), tally.detail.end(), '\t', ' ');
      const bool nan = fault->second == FaultKind::kNan;
      if (!met.insert(config).second ||
          trial.outcome != OutcomeOf(fault->second) ||
          (nan && !absl::StrContains(trial.detail, "NaN"))) {
        Mismatch(absl::StrCat(ToString(fault->second), " is stored as ",
                              ToString(trial.outcome), " (", trial.detail,
                              "): ", config));
      }
    }
    layer_.good = static_cast<int64_t>(good.size());
    for (const auto& [config, kind] : faults) {
      // The session never came to it.
      if (!met.contains(config.ToString())) plan_.Return(kind);
    }
    HONE_ASSIGN_OR_RETURN(const StoredTable stored,
                          store->GetTable(problem, device_));
    for (const TableEntry& entry : stored.table.entries) {
      if (faults.contains(entry.config) ||
          !good.contains(entry.config.ToString())) {
        Mismatch(absl::StrCat("the table has a kernel that is not known good: ",
                              entry.config.ToString()));
      }
    }
    return absl::OkStatus();
  }

  void Finish() {
    WriteJournal(options_.out + "/journal", layer_);
    Add(layer_, sum_);
    layer_ = Summary();
  }

  void CheckHoldings(const Holdings& before, const Holdings& after,
                     const Holdings& end) {
    const auto check = [&](absl::string_view what, int64_t was, int64_t is,
                           int64_t more) {
      if (is > was + more) {
        sum_.mismatches.push_back(absl::StrCat(
            what, ": ", was, " before the faults, ", is, " after"));
      }
    };
    check("descriptors", before.descriptors, after.descriptors, 0);
    check("zombies", 0, after.zombies + end.zombies, 0);
    // gRPC's own threads come and go.
    check("threads", before.threads, after.threads, 24);
    check("children once honed has stopped", 0, end.children, 0);
    // honed remembers ended tunes, and this program its faults.
    check("heap_kb", before.heap_kb, after.heap_kb, 16 << 10);
    // Stacks of ended threads and holes in the heap come on top.
    check("resident_kb", before.resident_kb, after.resident_kb, 128 << 10);
    check("gpu_memory_bytes", before.gpu_memory_bytes, after.gpu_memory_bytes,
          int64_t{64} << 20);
    for (const auto& item : std::filesystem::recursive_directory_iterator(
             options_.out + "/cache")) {
      if (absl::StrContains(item.path().filename().string(), "tmp")) {
        sum_.mismatches.push_back(
            absl::StrCat("a file was left: ", item.path().string()));
      }
    }
  }

  void Report(bool complete, const Holdings& before, const Holdings& after,
              const Holdings& end, Lookups& lookups) {
    JsonObject faults;
    for (const auto& [kind, tally] : sum_.tallies) {
      JsonObject outcomes;
      for (const auto& [outcome, count] : tally.outcomes) {
        outcomes.emplace_back(outcome, Json(count));
      }
      faults.emplace_back(
          kind, Json(JsonObject{{"stored_as", Json(std::move(outcomes))},
                                {"example", LogText(tally.detail)}}));
    }
    faults.emplace_back(
        "worker_killed",
        Json(JsonObject{
            {"kills", Json(sum_.kills)},
            {"stored_as",
             Json(JsonObject{{"interrupted", Json(sum_.interruptions)}})}}));
    JsonArray mismatches;
    for (const std::string& text : sum_.mismatches) {
      mismatches.push_back(LogText(text));
    }
    const JsonObject report = {
        {"device", LogText(device_.name)},
        {"driver", LogText(device_.driver)},
        {"complete", Json(complete)},
        {"faults", Json(std::move(faults))},
        {"faults_stored", Json(sum_.stored())},
        {"good_candidates", Json(sum_.good)},
        {"layers", Json(sum_.layers)},
        {"workers", Json(sum_.workers)},
        {"seconds", Json(sum_.seconds)},
        {"lookups",
         Json(JsonObject{{"answered", Json(sum_.lookups)},
                         {"failed", Json(sum_.lookups_failed)},
                         {"p50_ms", Json(lookups.PercentileMs(0.5))},
                         {"p99_ms", Json(lookups.PercentileMs(0.99))},
                         {"max_ms", Json(lookups.PercentileMs(1))}})},
        {"before", ToJson(before)},
        {"after", ToJson(after)},
        {"stopped", ToJson(end)},
        {"mismatches", Json(std::move(mismatches))}};
    const std::string line = WriteJson(Json(report));
    std::cout << line << std::endl;
    std::ofstream(options_.out + "/report.json") << line << "\n";
  }

  const Options options_;
  Summary sum_;
  Summary layer_;
  FaultPlan plan_;
  std::ofstream log_file_{options_.out + "/honed.log", std::ios::app};
  Logger log_{[this](absl::string_view line) { log_file_ << line << "\n"; }};
  DeviceSpec device_;
  Protocol protocol_;
  FaultyExecutor* executor_ = nullptr;
  std::unique_ptr<Daemon> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
  int64_t workers_ = 0;
  int kills_ = 0;
};

absl::Status FindPrograms(Options& options) {
  const auto find = [&](std::string& path, const char* fake,
                        const char* real) -> absl::Status {
    if (!path.empty()) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(path,
                          SiblingExecutable(options.fake() ? fake : real));
    return absl::OkStatus();
  };
  HONE_RETURN_IF_ERROR(find(options.worker, "hone-fake-worker", "hone-worker"));
  return find(options.compiler, "hone-fake-compiler", "hone-compiler");
}

int Main(int argc, char** argv) {
  Options options;
  FlagSet flags;
  flags.String("device", "DEVICE", "fake or gpu:N (default fake)",
               &options.device);
  flags.String("out", "FOLDER", "database, cache, journal and report.json",
               &options.out);
  flags.Int("faults", "faults to plant (default 1000)", &options.faults, 1,
            100000);
  flags.Int("seconds", "begin no layer after so long (default 3600)",
            &options.seconds, 1, 100000);
  flags.Int("seed", "of the faults (default 1)", &options.seed, 0, 9999);
  flags.String("worker", "FILE", "default: beside this program",
               &options.worker);
  flags.String("compiler", "FILE", "default: beside this program",
               &options.compiler);
  flags.Int("probe", "only tell the memory in use of this GPU", &options.probe,
            0, 255);
  std::vector<std::string> rest;
  absl::Status status = flags.Parse(
      std::vector<std::string>(argv + 1, argv + argc), getenv, &rest);
  if (status.ok() && !rest.empty()) {
    status = absl::InvalidArgumentError(
        absl::StrCat("what is \"", rest.front(), "\"?"));
  }
  if (status.ok() && options.probe >= 0) {
    return Probe(static_cast<int>(options.probe));
  }
  if (status.ok() && options.out.empty()) {
    status = absl::InvalidArgumentError("--out is missing");
  }
  if (status.ok()) status = FindPrograms(options);
  if (status.ok()) {
    std::error_code error;
    options.out = std::filesystem::absolute(options.out).string();
    std::filesystem::create_directories(options.out + "/cache", error);
    FaultRun run(options, ReadJournal(options.out + "/journal"));
    status = run.Start();
    if (status.ok()) return run.Run();
  }
  std::cerr << "hone-fault-run: " << status.message() << "\n" << flags.Help();
  return 2;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::Main(argc, argv); }
