#include "service/client/client.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/bundle.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/status_macros.h"
#include "kernels/launch/device_query.h"
#include "kernels/space/space.h"
#include "service/paths/paths.h"

namespace hone {
namespace {

// An answer that comes after the deadline still serves later lookups.
constexpr absl::Duration kAskTimeout = absl::Seconds(5);
constexpr absl::Duration kAskAgain = absl::Seconds(1);
constexpr absl::Duration kReportTimeout = absl::Seconds(5);

absl::StatusOr<LookupIndex> ReadBundle(const std::string& path) {
  std::vector<StoredTable> tables;
  if (!path.empty()) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
      return absl::NotFoundError(
          absl::StrCat("bundle ", path, " cannot be read"));
    }
    absl::StatusOr<Bundle> bundle = ParseBundle(text.str());
    if (!bundle.ok()) {
      return absl::Status(
          bundle.status().code(),
          absl::StrCat("bundle ", path, ": ", bundle.status().message()));
    }
    for (DispatchTable& table : bundle->tables) {
      StoredTable stored;
      stored.table = std::move(table);
      stored.origin = Origin::kImported;
      stored.imported_from = bundle->sha256;
      stored.verified = false;
      tables.push_back(std::move(stored));
    }
  }
  return LookupIndex(std::move(tables), /*revision=*/0, SourceClosureHash());
}

bool IsOwnTable(const TableAnswer& answer) {
  return answer.provenance.match == MatchKind::kExact ||
         answer.provenance.match == MatchKind::kBucket;
}

std::shared_ptr<const TableAnswer> WithNote(TableAnswer answer,
                                            std::string note) {
  answer.provenance.notes.push_back(std::move(note));
  return std::make_shared<const TableAnswer>(std::move(answer));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  if (options.deadline <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ClientOptions.deadline is ", absl::FormatDuration(options.deadline),
        "; it must be above 0"));
  }
  if (options.revision < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("ClientOptions.revision is ", options.revision,
                     "; it must be 0 (the newest) or a revision"));
  }
  if (options.report_interval != absl::ZeroDuration() &&
      options.report_interval < absl::Seconds(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ClientOptions.report_interval is ",
                     absl::FormatDuration(options.report_interval),
                     "; it must be 0 (no reports) or at least 1s"));
  }
  if (options.address.empty()) {
    const char* given = std::getenv("HONE_ADDRESS");
    options.address = given != nullptr && given[0] != '\0'
                          ? std::string(given)
                          : DefaultAddress(std::getenv);
  }
  if (options.cache_dir.empty()) {
    HONE_ASSIGN_OR_RETURN(options.cache_dir, DefaultCacheFolder(std::getenv));
  }
  if (!options.device.has_value()) {
    absl::StatusOr<DeviceSpec> device = QueryDevice(options.device_ordinal);
    if (!device.ok()) {
      return absl::Status(
          device.status().code(),
          absl::StrCat("ClientOptions.device is not set and CUDA device ",
                       options.device_ordinal,
                       " cannot be asked: ", device.status().message()));
    }
    options.device = *std::move(device);
  }
  const DeviceSpec device = *options.device;
  HONE_RETURN_IF_ERROR(MakePrivateFolder(options.cache_dir));
  HONE_ASSIGN_OR_RETURN(TableFiles files,
                        TableFiles::Open(TableFolder(options.cache_dir)));
  HONE_ASSIGN_OR_RETURN(LookupIndex bundle, ReadBundle(options.bundle));
  CubinCacheOptions cache;
  cache.folder = CubinFolder(options.cache_dir);
  HONE_ASSIGN_OR_RETURN(std::shared_ptr<CubinCache> cubins,
                        CubinCache::Open(std::move(cache)));
  auto kernels = std::make_unique<KernelSet>(device, std::move(cubins),
                                             Nvrtc::Create(options.libraries));
  return std::unique_ptr<Client>(new Client(std::move(options), device,
                                            std::move(files), std::move(bundle),
                                            std::move(kernels)));
}

Client::Client(ClientOptions options, DeviceSpec device, TableFiles files,
               LookupIndex bundle, std::unique_ptr<KernelSet> kernels)
    : options_(std::move(options)),
      device_(std::move(device)),
      files_(std::move(files)),
      bundle_(std::move(bundle)),
      kernels_(std::move(kernels)),
      remote_(options_.address) {
  if (options_.report_interval == absl::ZeroDuration()) return;
  reporter_ = std::make_unique<TrafficReporter>(
      &traffic_,
      [this](const TrafficReport& report, TrafficReporter::Done done) {
        remote_.ReportTraffic(report, device_, kReportTimeout, std::move(done));
      },
      TrafficReporter::Options{.interval = options_.report_interval});
}

Client::~Client() = default;

absl::Status Client::CheckAnswer(const Problem& problem,
                                 const TableAnswer& answer) const {
  const DispatchTable& table = answer.table;
  HONE_RETURN_IF_ERROR(table.Validate());
  if (!(table.problem == problem))
    return absl::InvalidArgumentError("the table is of another problem");
  if (!device_.modelled() &&
      (answer.provenance.modelled || table.device.modelled() ||
       table.protocol.timer == "model")) {
    return absl::FailedPreconditionError(
        "the table is MODELLED and this device is real");
  }
  // honed gives its answers for other devices this device's spec, and says so
  // in their provenance.
  const auto field = DeviceSpec::MismatchedField(device_, table.device);
  if (field.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the table is of another device class: ", *field));
  }
  if (options_.revision != 0 &&
      answer.provenance.revision != options_.revision) {
    return absl::FailedPreconditionError(
        absl::StrCat("the table is of revision ", answer.provenance.revision,
                     " and ", options_.revision, " is pinned"));
  }
  for (const TableEntry& entry : table.entries) {
    if (const auto refusal = CheckConfig(problem, device_, entry.config)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the table's config for M from ", entry.m_lo,
                       " is not legal on this device: ", refusal->reason));
    }
  }
  return absl::OkStatus();
}

TableAnswer Client::Fallback(const Problem& problem) const {
  // The bundle's index always answers, with the heuristic default if need be;
  // the problem was checked before.
  TableAnswer best = *bundle_.GetTable(problem, device_);
  if (best.provenance.match != MatchKind::kHeuristic)
    best.provenance.notes.push_back("from the pinned bundle");
  absl::StatusOr<TableAnswer> cached =
      files_.Load(problem, device_, options_.revision);
  if (absl::IsNotFound(cached.status())) return best;
  absl::Status usable = cached.status();
  if (usable.ok()) usable = CheckAnswer(problem, *cached);
  if (!usable.ok()) {
    best.provenance.notes.push_back(
        absl::StrCat("local cache: ", usable.message()));
  } else if (cached->provenance.match <= best.provenance.match) {
    best = *std::move(cached);
    best.provenance.stale = best.table.source_closure != SourceClosureHash();
    best.provenance.notes.push_back("from the local cache");
  }
  return best;
}

void Client::Ask(const Problem& problem) {
  remote_.GetTable(problem, device_, options_.revision, kAskTimeout,
                   [this, problem](absl::StatusOr<TableAnswer> answer) {
                     Answered(problem, std::move(answer));
                   });
}

void Client::Answered(const Problem& problem,
                      absl::StatusOr<TableAnswer> answer) {
  absl::Status status = answer.status();
  if (status.ok()) status = CheckAnswer(problem, *answer);
  bool settled = false;
  std::shared_ptr<const TableAnswer> result;
  if (status.ok()) {
    settled = IsOwnTable(*answer);
    if (!settled) {
      // There may be something better here.
      TableAnswer fallback = Fallback(problem);
      if (fallback.provenance.match < answer->provenance.match)
        answer = std::move(fallback);
    }
    result = std::make_shared<const TableAnswer>(*std::move(answer));
  }
  {
    absl::MutexLock lock(&mu_);
    Slot& slot = slots_[problem];
    slot.asking = false;
    slot.settled = settled;
    slot.error = status;
    slot.ask_again = absl::Now() + kAskAgain;
    if (result != nullptr) slot.answer = result;
    answered_.SignalAll();
  }
  // A cache that cannot be written costs a later start, not this one.
  if (settled)
    files_.Save(problem, device_, options_.revision, *result).IgnoreError();
}

absl::StatusOr<std::shared_ptr<const TableAnswer>> Client::LookupTable(
    const Problem& problem) {
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto found = slots_.find(problem);
    if (found != slots_.end() && found->second.settled)
      return found->second.answer;
  }
  return UnsettledLookup(problem);
}

absl::StatusOr<std::shared_ptr<const TableAnswer>> Client::UnsettledLookup(
    const Problem& problem) {
  const absl::Time start = absl::Now();
  bool ask = false;
  {
    absl::MutexLock lock(&mu_);
    auto found = slots_.find(problem);
    if (found == slots_.end()) {
      HONE_RETURN_IF_ERROR(CheckProblem(problem, device_));
      found = slots_.try_emplace(problem).first;
    }
    Slot& slot = found->second;
    ask = !slot.settled && !slot.asking && start >= slot.ask_again;
    if (ask) {
      slot.asking = true;
      slot.asked = start;
    }
    if (slot.answer != nullptr && !ask) return slot.answer;
  }
  if (ask) Ask(problem);
  std::shared_ptr<const TableAnswer> answer;
  {
    absl::ReaderMutexLock lock(&mu_);
    answer = slots_.find(problem)->second.answer;
  }
  if (answer != nullptr) return answer;

  // Read while honed answers, so that it costs no time after the deadline.
  TableAnswer fallback = Fallback(problem);
  absl::MutexLock lock(&mu_);
  // Who comes while a question is long in flight does not wait for it again.
  const absl::Time until =
      std::min(start, slots_.find(problem)->second.asked) + options_.deadline;
  while (slots_.find(problem)->second.asking) {
    const absl::Duration left = until - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    answered_.WaitWithTimeout(&mu_, left);
  }
  Slot& slot = slots_.find(problem)->second;
  if (slot.answer == nullptr) {
    slot.answer = WithNote(
        std::move(fallback),
        slot.asking ? absl::StrCat("honed at ", options_.address,
                                   " did not answer within ",
                                   absl::FormatDuration(options_.deadline))
                    : absl::StrCat("honed at ", options_.address, ": ",
                                   slot.error.message()));
  }
  return slot.answer;
}

absl::StatusOr<ConfigAnswer> Client::Lookup(const Problem& problem, int64_t m) {
  if (m < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("m is ", m, "; it must be at least 1"));
  }
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const TableAnswer> answer,
                        LookupTable(problem));
  return AnswerAt(*answer, m);
}

absl::StatusOr<CompileSummary> Client::Compile(const Problem& problem) {
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const TableAnswer> answer,
                        LookupTable(problem));
  return kernels_->Compile(*kernels_->MakeTable(answer->table));
}

absl::Status Client::WarmUp(const Problem& problem) {
  // Before a compile of seconds.
  HONE_RETURN_IF_ERROR(CheckContext());
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const TableAnswer> answer,
                        LookupTable(problem));
  std::shared_ptr<const KernelTable> table = kernels_->MakeTable(answer->table);
  HONE_RETURN_IF_ERROR(kernels_->Compile(*table).status());
  for (Kernel* kernel : table->kernels)
    HONE_RETURN_IF_ERROR(kernels_->Load(*kernel).status());
  Ready ready = MakeReady(problem, std::move(table));
  absl::MutexLock lock(&prepared_mu_);
  prepared_[problem] = std::move(ready);
  return absl::OkStatus();
}

Client::Ready Client::MakeReady(const Problem& problem,
                                std::shared_ptr<const KernelTable> table) {
  return {std::move(table),
          reporter_ == nullptr ? nullptr : &traffic_.Of(problem)};
}

absl::StatusOr<Client::Ready> Client::Prepared(const Problem& problem) {
  {
    absl::ReaderMutexLock lock(&prepared_mu_);
    const auto found = prepared_.find(problem);
    if (found != prepared_.end()) return found->second;
  }
  HONE_ASSIGN_OR_RETURN(const std::shared_ptr<const TableAnswer> answer,
                        LookupTable(problem));
  Ready ready = MakeReady(problem, kernels_->MakeTable(answer->table));
  absl::MutexLock lock(&prepared_mu_);
  // Another thread's table may have come first; all use that one.
  return prepared_.try_emplace(problem, std::move(ready)).first->second;
}

absl::StatusOr<uint64_t> Client::WorkspaceBytes(const Problem& problem,
                                                int64_t max_m) {
  if (max_m < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_m is ", max_m, "; it must be at least 1"));
  }
  HONE_ASSIGN_OR_RETURN(const Ready ready, Prepared(problem));
  uint64_t bytes = 0;
  for (const KernelTable::Range& range : ready.table->ranges) {
    if (range.m_lo > max_m) break;
    const int64_t m = range.m_hi == 0 ? max_m : std::min(max_m, range.m_hi);
    bytes =
        std::max(bytes, MaxWorkspaceBytes(problem, range.kernel->config(), m));
  }
  return bytes;
}

absl::Status Client::Gemm(const GemmCall& call) {
  if (call.m < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("m is ", call.m, "; it must be at least 1"));
  }
  HONE_ASSIGN_OR_RETURN(const Ready ready, Prepared(call.problem));
  Kernel& kernel = *ready.table->Find(call.m);
  const LaunchPlan plan =
      PlanLaunch(call.problem, kernel.config(), call.m, device_.sm_count);
  if (call.workspace_bytes < plan.workspace_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "workspace_bytes is ", call.workspace_bytes, "; M = ", call.m,
        " needs ", plan.workspace_bytes, " (see WorkspaceBytes)"));
  }
  HONE_ASSIGN_OR_RETURN(const FunctionHandle function, kernels_->Load(kernel));
  BufferBindings buffers;
  buffers.Bind(BufferRole::kA, call.a)
      .Bind(BufferRole::kAScale, call.a_scale)
      .Bind(BufferRole::kB, call.b)
      .Bind(BufferRole::kBScale, call.b_scale)
      .Bind(BufferRole::kBias, call.bias)
      .Bind(BufferRole::kC, call.c)
      .Bind(BufferRole::kWorkspace, call.workspace);
  HONE_RETURN_IF_ERROR(Launch(function, plan, buffers, call.stream));
  if (ready.calls != nullptr) ready.calls->Count(call.m);
  return absl::OkStatus();
}

TrafficStats Client::traffic_stats() const {
  return reporter_ == nullptr ? TrafficStats() : reporter_->stats();
}

absl::Status Client::FlushTraffic(absl::Duration timeout) {
  if (reporter_ == nullptr) {
    return absl::FailedPreconditionError(
        "ClientOptions.report_interval is 0: nothing is reported");
  }
  return reporter_->Flush(timeout);
}

}  // namespace hone
