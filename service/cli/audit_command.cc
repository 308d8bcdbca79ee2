// audit: how far a layer's table is from the best, whether tunes agree, and
// whether the stored times hold.

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/subspace.h"
#include "service/cli/audit_report.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/format.h"
#include "service/cli/job_events.h"
#include "service/cli/json.h"
#include "service/cli/layer_flags.h"
#include "service/cli/progress.h"
#include "service/convert/config_convert.h"
#include "service/convert/uuid.h"

namespace hone {
namespace {

absl::StatusOr<v1::AuditLayerRequest> RequestFromFlags(const ParsedArgs& args) {
  v1::AuditLayerRequest request;
  HONE_ASSIGN_OR_RETURN(const Problem problem, ProblemFromFlags(args));
  *request.mutable_problem() = ToProto(problem);
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> ladder,
                        LadderFromFlags(args));
  request.mutable_ladder()->Add(ladder.begin(), ladder.end());
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> tunes,
                        args.Int("tunes", 2, 8));
  request.set_tunes(static_cast<int32_t>(tunes.value_or(0)));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> max_kernels,
                        args.Int("max-kernels", 2, 512));
  request.set_max_kernels(static_cast<int32_t>(max_kernels.value_or(0)));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> kernels,
                        args.Int("kernels", 2, 2000));
  request.set_kernels(static_cast<int32_t>(kernels.value_or(0)));
  request.set_within(args.Get("within"));
  if (const absl::Status status = Subspace::Parse(request.within()).status();
      !status.ok()) {
    return UsageError(absl::StrCat("--within: ", status.message()));
  }
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> seed,
                        args.Int("seed", 1, int64_t{1} << 53));
  request.set_seed(static_cast<uint64_t>(seed.value_or(0)));
  HONE_ASSIGN_OR_RETURN(
      const std::optional<absl::Duration> budget,
      args.Time("budget", absl::Seconds(10), absl::Hours(24)));
  if (budget) {
    const int64_t nanos = absl::ToInt64Nanoseconds(*budget);
    request.mutable_budget()->set_seconds(nanos / 1'000'000'000);
    request.mutable_budget()->set_nanos(
        static_cast<int32_t>(nanos % 1'000'000'000));
  }
  return request;
}

// Opened before the audit, so that a bad name costs no measuring.
absl::StatusOr<std::ofstream> OpenJson(const ParsedArgs& args) {
  const std::string path = args.Get("json");
  if (path.empty()) return UsageError("--json is empty; it must name a file");
  std::ofstream file(path + ".partial", std::ios::binary | std::ios::trunc);
  if (!file) return UsageError(absl::StrCat("--json: cannot write ", path));
  return file;
}

// The file appears whole or not at all.
absl::Status FinishJson(const std::string& path, const v1::AuditReport& report,
                        std::ofstream& file) {
  file << ToJson(report, /*indented=*/true).text << "\n";
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(path + ".partial", path, error);
  if (file && !error) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("--json: cannot write ", path));
}

absl::Status RunAuditCommand(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  HONE_ASSIGN_OR_RETURN(v1::AuditLayerRequest request, RequestFromFlags(args));
  request.set_request_id(NewUuid());
  std::optional<std::ofstream> file;
  if (args.Has("json")) {
    HONE_ASSIGN_OR_RETURN(file, OpenJson(args));
  }
  Connection connection(invocation.addresses[0]);
  auto progress = std::make_unique<Progress>(invocation.env.err,
                                             invocation.env.err_is_terminal);
  const absl::StatusOr<AuditReply> outcome = RunAudit(
      connection, request, invocation.env.interrupts,
      ShowEvents<v1::AuditLayerResponse>(invocation, *progress, "audit"));
  progress.reset();
  if (!outcome.ok()) {
    std::error_code ignored;
    if (file) std::filesystem::remove(args.Get("json") + ".partial", ignored);
    return outcome.status();
  }
  const v1::AuditReport& report = *outcome->result;
  if (file) HONE_RETURN_IF_ERROR(FinishJson(args.Get("json"), report, *file));
  std::ostream& out = invocation.env.out;
  if (invocation.format == Format::kJson) {
    out << ToJson(report, /*indented=*/true).text << "\n";
  } else if (invocation.format == Format::kTable) {
    HONE_ASSIGN_OR_RETURN(const std::string text, RenderAudit(report));
    out << text;
  }
  if (outcome->interrupted)
    return WithExit(absl::CancelledError("interrupted"), Exit::kInterrupted);
  return absl::OkStatus();
}

constexpr char kDetails[] =
    "Tunes the layer several times from nothing, with other seeds, compiles "
    "and times many\nkernels besides, and compiles and times those of the "
    "published table anew. Publishes and\nstores nothing.\n\n"
    "Regret is the table's time over the fastest kernel's; \"below\" bounds it "
    "against all that\nwere near at once. Flips are pairs of tunes that serve "
    "different kernels, with \"!\" where\nit matters, beyond max(1 %, 64 ns). "
    "Replay is the time now over the stored one.\n";

}  // namespace

Command AuditCommand() {
  Command command;
  command.name = "audit";
  command.summary = "measure how good the tuner's answers for a layer are";
  command.details = kDetails;
  command.flags = LayerFlags();
  command.flags.push_back({"ladder", "M,M,...",
                           "the M to audit at; the daemon's own unless given"});
  command.flags.push_back(
      {"budget", "TIME",
       "time for all of it, 10s to 24h; 300s unless given; the tunes get at "
       "most half"});
  command.flags.push_back(
      {"tunes", "COUNT", "independent tunes, 2 to 8; 2 unless given"});
  command.flags.push_back(
      {"max-kernels", "COUNT",
       "distinct kernels of each tune, 2 to 512; 32 unless given"});
  command.flags.push_back(
      {"kernels", "COUNT",
       "kernels to hold the table against, 2 to 2000; 200 unless given"});
  command.flags.push_back(
      {"within", "FIELD=VALUE|VALUE,...",
       "take those kernels only from configs with these values, as "
       "mma=wgmma,block_m=64|128; with as many --kernels as there are, all of "
       "them"});
  command.flags.push_back({"seed", "SEED",
                           "of the audit; its tunes take the following ones; 1 "
                           "unless given"});
  command.flags.push_back(
      {"json", "FILE", "also write the report as JSON into this file"});
  command.run = RunAuditCommand;
  return command;
}

}  // namespace hone
