// recheck: do the tables still serve the fastest kernels on this device as it
// is now?

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "kernels/config/status_macros.h"
#include "service/cli/audit_report.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/format.h"
#include "service/cli/job_events.h"
#include "service/cli/json.h"
#include "service/cli/layer_flags.h"
#include "service/cli/progress.h"
#include "service/convert/config_convert.h"
#include "service/convert/table_convert.h"
#include "service/convert/uuid.h"

namespace hone {
namespace {

absl::StatusOr<v1::RecheckTablesRequest> RequestFromFlags(
    const ParsedArgs& args) {
  v1::RecheckTablesRequest request;
  if (HasLayerFlags(args)) {
    HONE_ASSIGN_OR_RETURN(const Problem problem, ProblemFromFlags(args));
    *request.mutable_problem() = ToProto(problem);
  }
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> keys,
                        args.Int("keys", 1, 10000));
  request.set_keys(static_cast<int32_t>(keys.value_or(0)));
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
  request.set_report_only(args.Has("report-only"));
  request.set_detached(args.Has("detach"));
  return request;
}

std::string Percent(double regret) {
  return absl::StrFormat("%.1f %%", 100 * regret);
}

std::string Verdict(const v1::RecheckedTable& table) {
  std::string verdict = absl::AsciiStrToLower(absl::StripPrefix(
      v1::RecheckVerdict_Name(table.verdict()), "RECHECK_VERDICT_"));
  if (!table.retune_id().empty())
    absl::StrAppend(&verdict, ", to run when idle as ", table.retune_id());
  return verdict;
}

std::string Summary(const v1::RecheckReport& report) {
  std::string out = absl::StrCat(
      "Regret  of local tables: ",
      report.has_median_regret()
          ? absl::StrCat("median ", Percent(report.median_regret()))
          : "no median",
      ", largest ", Percent(report.largest_regret()), "; ", report.keys(),
      " M measured, at ", report.failed(), " the served kernel failed\n");
  absl::StrAppend(&out, report.passed() ? "passed: " : "not passed: ",
                  "the limit of the median is ", Percent(report.regret_limit()),
                  "\n");
  if (!report.complete())
    out +=
        "The budget ended before all M were measured, or a disturbance kept "
        "kernels from it.\n";
  if (report.report_only())
    out += "Only reported: nothing was kept, verified or queued.\n";
  return out;
}

absl::StatusOr<std::string> RenderRecheck(const v1::RecheckReport& report) {
  FieldErrors errors;
  const DeviceSpec device = FromProto(report.device(), "device", errors);
  if (!errors.ok()) return errors.ToStatus();
  TextTable tables({{"layer"},
                    {"from"},
                    {"M", true},
                    {"median", true},
                    {"device was"},
                    {"verdict"}});
  TextTable points({{"layer"},
                    {"M", true},
                    {"served µs", true},
                    {"best µs", true},
                    {"default µs", true},
                    {"regret", true},
                    {"over default", true},
                    {"served"},
                    {"best"}});
  for (const v1::RecheckedTable& table : report.tables()) {
    HONE_ASSIGN_OR_RETURN(const Problem problem,
                          ProblemFromProto(table.problem()));
    const std::string layer = DescribeProblem(problem);
    tables.AddRow(
        {layer, table.imported() ? "import" : "here",
         absl::StrCat(table.points_size(), "/", table.planned()),
         table.has_median_regret() ? Percent(table.median_regret()) : "-",
         table.soft_differences().empty()
             ? "the same"
             : absl::StrJoin(table.soft_differences(), "; "),
         Verdict(table)});
    for (const v1::RecheckPoint& point : table.points()) {
      const std::string served = ShortConfig(point.served_config());
      const std::string best = ShortConfig(point.best_config());
      points.AddRow({layer, absl::StrCat(point.m()),
                     FormatUs(point.served_ns()), FormatUs(point.best_ns()),
                     FormatUs(point.default_ns()),
                     point.failure().empty() ? WithInterval(point.regret())
                                             : point.failure(),
                     WithInterval(point.over_default()), served,
                     best == served ? "same" : best});
    }
  }
  return absl::StrCat(
      "device  ", DescribeDevice(device),
      device.driver.empty() ? "" : absl::StrCat(", driver ", device.driver),
      "\nmethod  protocol ", FromProto(report.protocol()).ToString(),
      "; intervals of ", absl::StrFormat("%.0f %%", 100 * report.confidence()),
      " each; seed ", report.seed(), "\n", Summary(report), "\n",
      tables.Render(), "\n", points.Render());
}

absl::Status RunRecheckCommand(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  HONE_ASSIGN_OR_RETURN(v1::RecheckTablesRequest request,
                        RequestFromFlags(args));
  request.set_request_id(NewUuid());
  Connection connection(invocation.addresses[0]);
  auto progress = std::make_unique<Progress>(invocation.env.err,
                                             invocation.env.err_is_terminal);
  const absl::StatusOr<RecheckReply> outcome = RunRecheck(
      connection, request, invocation.env.interrupts,
      ShowEvents<v1::RecheckTablesResponse>(invocation, *progress, "recheck"));
  progress.reset();
  HONE_RETURN_IF_ERROR(outcome.status());
  std::ostream& out = invocation.env.out;
  if (!outcome->result.has_value()) {
    if (invocation.format == Format::kTable) {
      out << "The recheck goes on in the daemon as "
          << outcome->accepted.tune_id() << ".\n";
    } else if (invocation.format == Format::kJson) {
      out << ToJson(outcome->accepted, /*indented=*/true).text << "\n";
    }
  } else if (invocation.format == Format::kJson) {
    out << ToJson(*outcome->result, /*indented=*/true).text << "\n";
  } else if (invocation.format == Format::kTable) {
    HONE_ASSIGN_OR_RETURN(const std::string text,
                          RenderRecheck(*outcome->result));
    out << text;
  }
  if (outcome->interrupted)
    return WithExit(absl::CancelledError("interrupted"), Exit::kInterrupted);
  return absl::OkStatus();
}

constexpr char kDetails[] =
    "After a change of driver, VBIOS or power limit, or of an import: times "
    "the "
    "served kernel,\nthe default and the fastest others that are known, at a "
    "sample of M of every table. The\ndaemon does so by itself when it starts "
    "on a device that has changed.\n\n"
    "Regret is the served kernel's time over the fastest's. Local tables are "
    "kept, and answer\nwithout a word of the change, while the median of their "
    "own M is at most 1 %, else tuned\nagain; for those with one slow M or "
    "none the median over all tables decides. Imported\ntables are verified "
    "where they beat or tie the default.\n";

}  // namespace

Command RecheckCommand() {
  Command command;
  command.name = "recheck";
  command.summary = "check a sample of the tables on the device as it is now";
  command.details = absl::StrCat(
      "Without a layer, of all the daemon's tables.\n\n", kDetails);
  command.flags = LayerFlags();
  command.flags.push_back(
      {"keys", "COUNT",
       "M to measure over all tables, 1 to 10000; 60 unless given"});
  command.flags.push_back(
      {"budget", "TIME", "time for all of it, 10s to 24h; 300s unless given"});
  command.flags.push_back({"seed", "SEED", "of the sample; 1 unless given"});
  command.flags.push_back({"report-only", "", "keep, verify and tune nothing"});
  command.flags.push_back(
      {"detach", "", "leave the recheck to the daemon and return at once"});
  command.run = RunRecheckCommand;
  return command;
}

}  // namespace hone
