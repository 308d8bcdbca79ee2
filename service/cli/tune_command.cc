#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "kernels/config/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/format.h"
#include "service/cli/job_events.h"
#include "service/cli/json.h"
#include "service/cli/layer_flags.h"
#include "service/cli/progress.h"
#include "service/cli/traffic_list.h"
#include "service/cli/tune_request.h"
#include "service/convert/config_convert.h"
#include "service/convert/table_convert.h"
#include "service/convert/uuid.h"

namespace hone {
namespace {

absl::StatusOr<TableAnswer> AnswerOf(const v1::TuneResult& result) {
  v1::GetTableResponse response;
  *response.mutable_table() = result.table();
  *response.mutable_provenance() = result.provenance();
  *response.mutable_trade_off() = result.trade_off();
  return AnswerFromProto(response);
}

std::string Outcome(const v1::TuneResult& result) {
  if (result.already_fresh())
    return "A fresh table was there; nothing was measured.\n";
  const absl::Duration elapsed = absl::Seconds(result.elapsed().seconds()) +
                                 absl::Nanoseconds(result.elapsed().nanos());
  std::string out = absl::StrCat("Tuned in ", FormatTime(elapsed), ": ",
                                 result.trials_recorded(), " trials measured, ",
                                 result.trials_reused(), " known before.\n");
  if (!result.complete()) {
    out +=
        "The job ended before all was measured: some M have less evidence. "
        "Run again to go on.\n";
  }
  return out;
}

absl::Status ListTunes(const Invocation& invocation, Connection& connection) {
  TextTable table({{"tune id"},
                   {"kind"},
                   {"state"},
                   {"layer"},
                   {"steps", true},
                   {"callers", true},
                   {"error"}});
  std::vector<Json> items;
  v1::ListTunesRequest request;
  do {
    HONE_ASSIGN_OR_RETURN(
        const v1::ListTunesResponse page,
        connection.Call(&v1::TuningService::Stub::ListTunes, request));
    for (const v1::Tune& tune : page.tunes()) {
      items.push_back(ToJson(tune, /*indented=*/false));
      std::string layer = "all tables";
      if (tune.has_problem()) {
        HONE_ASSIGN_OR_RETURN(const Problem problem,
                              ProblemFromProto(tune.problem()));
        layer = DescribeProblem(problem);
      }
      table.AddRow(
          {tune.tune_id(),
           absl::AsciiStrToLower(
               absl::StripPrefix(v1::JobKind_Name(tune.kind()), "JOB_KIND_")),
           absl::AsciiStrToLower(absl::StripPrefix(
               v1::TuneState_Name(tune.state()), "TUNE_STATE_")),
           layer,
           absl::StrCat(tune.progress().done(), "/", tune.progress().total()),
           absl::StrCat(tune.callers(), tune.detached() ? " (detached)"
                                        : tune.idle()   ? " (idle)"
                                                        : ""),
           tune.error()});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  std::ostream& out = invocation.env.out;
  switch (invocation.format) {
    case Format::kTable:
      out << table.Render();
      break;
    case Format::kJson:
      out << JsonObject().Add("tunes", JsonArray(items)).Build().text << "\n";
      break;
    case Format::kJsonLines:
      for (const Json& item : items) out << item.text << "\n";
      break;
  }
  return absl::OkStatus();
}

absl::Status CancelTune(const Invocation& invocation, Connection& connection) {
  v1::CancelTuneRequest request;
  request.set_tune_id(invocation.args.Get("cancel"));
  HONE_ASSIGN_OR_RETURN(
      const v1::CancelTuneResponse response,
      connection.Call(&v1::TuningService::Stub::CancelTune, request));
  if (invocation.format != Format::kTable) {
    invocation.env.out << ToJson(response, false).text << "\n";
  } else {
    invocation.env.out << (response.cancelled()
                               ? "Cancelled; what was measured is kept.\n"
                               : "The job had already ended.\n");
  }
  return absl::OkStatus();
}

absl::Status PrintOutcome(const Invocation& invocation,
                          const TuneReply& outcome) {
  std::ostream& out = invocation.env.out;
  if (!outcome.result.has_value()) {
    if (invocation.format == Format::kTable) {
      out << "Tuning goes on in the daemon as " << outcome.accepted.tune_id()
          << ".\n";
    } else if (invocation.format == Format::kJson) {
      out << ToJson(outcome.accepted, /*indented=*/true).text << "\n";
    }
    return absl::OkStatus();
  }
  if (invocation.format == Format::kJson) {
    out << ToJson(*outcome.result, /*indented=*/true).text << "\n";
  } else if (invocation.format == Format::kTable) {
    HONE_ASSIGN_OR_RETURN(const TableAnswer answer, AnswerOf(*outcome.result));
    out << RenderTable(answer) << "\n"
        << Outcome(*outcome.result) << RenderTradeOff(answer.table);
  }
  return absl::OkStatus();
}

absl::Status RunTuneCommand(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  Connection connection(invocation.addresses[0]);
  if (args.Has("list")) return ListTunes(invocation, connection);
  if (args.Has("cancel")) return CancelTune(invocation, connection);
  if (args.Has("from-traffic")) return TuneFromTraffic(invocation, connection);

  HONE_ASSIGN_OR_RETURN(v1::TuneLayerRequest request,
                        TuneRequestFromFlags(args));
  HONE_ASSIGN_OR_RETURN(const Problem problem, ProblemFromFlags(args));
  *request.mutable_problem() = ToProto(problem);
  request.set_request_id(NewUuid());
  request.set_detached(args.Has("detach"));

  auto progress = std::make_unique<Progress>(invocation.env.err,
                                             invocation.env.err_is_terminal);
  const absl::StatusOr<TuneReply> outcome = RunTune(
      connection, request, invocation.env.interrupts,
      ShowEvents<v1::TuneLayerResponse>(invocation, *progress, "request"));
  const bool interrupted = outcome.ok()
                               ? outcome->interrupted
                               : ExitOf(outcome.status()) == Exit::kInterrupted;
  if (interrupted) {
    progress->Say(
        "Interrupted. What was measured is kept; run again to go on.");
  }
  progress.reset();
  HONE_RETURN_IF_ERROR(outcome.status());
  HONE_RETURN_IF_ERROR(PrintOutcome(invocation, *outcome));
  if (interrupted)
    return WithExit(absl::CancelledError("interrupted"), Exit::kInterrupted);
  return absl::OkStatus();
}

}  // namespace

std::vector<Flag> TuneFlags() {
  return {
      {"ladder", "M,M,...", "the M to tune at; the daemon's own unless given"},
      {"budget", "TIME", "time for one layer, 1s to 24h; 120s unless given"},
      {"max-kernels", "COUNT",
       "distinct kernels to try, 2 to 512; 32 unless "
       "given"},
      {"table-kernels", "COUNT",
       "at most so many kernels in the table, 1 to 512, even where that is "
       "slower"},
      {"retune", "", "tune even where a fresh table is there"},
  };
}

absl::StatusOr<v1::TuneLayerRequest> TuneRequestFromFlags(
    const ParsedArgs& args) {
  v1::TuneLayerRequest request;
  HONE_ASSIGN_OR_RETURN(const std::vector<int64_t> ladder,
                        LadderFromFlags(args));
  request.mutable_ladder()->Add(ladder.begin(), ladder.end());
  HONE_ASSIGN_OR_RETURN(const std::optional<absl::Duration> budget,
                        args.Time("budget", absl::Seconds(1), absl::Hours(24)));
  if (budget) {
    const int64_t nanos = absl::ToInt64Nanoseconds(*budget);
    request.mutable_budget()->set_seconds(nanos / 1'000'000'000);
    request.mutable_budget()->set_nanos(
        static_cast<int32_t>(nanos % 1'000'000'000));
  }
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> max_kernels,
                        args.Int("max-kernels", 2, 512));
  request.set_max_kernels(static_cast<int32_t>(max_kernels.value_or(0)));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> table_kernels,
                        args.Int("table-kernels", 1, 512));
  request.set_max_table_kernels(
      static_cast<int32_t>(table_kernels.value_or(0)));
  request.set_retune(args.Has("retune"));
  return request;
}

Command TuneCommand() {
  Command command;
  command.name = "tune";
  command.summary = "find the fastest kernels for a layer";
  command.details =
      "Prints the table that was found. Ctrl-C cancels the job; what was "
      "measured is kept\nand used by the next run. A job that others asked for "
      "too goes on for them.\n";
  command.flags = LayerFlags();
  for (Flag& flag : TuneFlags()) command.flags.push_back(std::move(flag));
  command.flags.push_back(
      {"detach", "", "leave the job to the daemon and return at once"});
  command.flags.push_back(
      {"from-traffic", "",
       "tune what takes the time instead of a layer, in the order of what it "
       "should save; --budget is for all of it"});
  command.flags.push_back({"list", "", "list the daemon's jobs instead"});
  command.flags.push_back({"cancel", "ID", "cancel a job instead"});
  command.run = RunTuneCommand;
  return command;
}

}  // namespace hone
