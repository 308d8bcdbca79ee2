// hone tune --from-traffic.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/config/status_macros.h"
#include "service/cli/format.h"
#include "service/cli/json.h"
#include "service/cli/layer_flags.h"
#include "service/cli/progress.h"
#include "service/cli/traffic_list.h"
#include "service/cli/tune_request.h"
#include "service/convert/config_convert.h"
#include "service/convert/errors.h"
#include "service/convert/uuid.h"

namespace hone {
namespace {

// Unless a budget is given: what a tune gets by itself.
constexpr absl::Duration kDefaultBudget = absl::Seconds(120);

// One planned tune and what became of it.
struct Row {
  Problem problem;
  TableState before = TableState::kMissing;
  double time_share = 0;
  absl::Duration budget;
  std::vector<int64_t> ladder;
  // "not run", "tuned", "partial", "fresh" or "failed".
  std::string state = "not run";
  std::string error;
  absl::Duration took;

  bool covered() const { return state != "not run" && state != "failed"; }
};

absl::Status CheckFlags(const ParsedArgs& args) {
  if (HasLayerFlags(args)) {
    return UsageError(
        "--from-traffic chooses the layers; it goes with no layer's flags");
  }
  for (const char* flag : {"ladder", "retune", "detach"}) {
    if (args.Has(flag)) {
      return UsageError(
          absl::StrCat("--", flag, " does not go with --from-traffic"));
    }
  }
  return absl::OkStatus();
}

// Of a plan that leaves nothing out.
PlanOptions Unlimited(const std::vector<ProblemTraffic>& traffic) {
  PlanOptions options;
  options.budget = options.least * static_cast<double>(traffic.size() + 1);
  return options;
}

void SetBudget(absl::Duration budget, v1::TuneLayerRequest& request) {
  const int64_t nanos = absl::ToInt64Nanoseconds(
      std::clamp(budget, absl::Seconds(1), absl::Hours(24)));
  request.mutable_budget()->set_seconds(nanos / 1'000'000'000);
  request.mutable_budget()->set_nanos(
      static_cast<int32_t>(nanos % 1'000'000'000));
}

// Runs one tune. Kept apart from `row` when it was interrupted before a result.
absl::Status TuneOne(Connection& connection, v1::TuneLayerRequest request,
                     const std::atomic<int>& interrupts, Progress& progress,
                     Row& row) {
  *request.mutable_problem() = ToProto(row.problem);
  request.set_request_id(NewUuid());
  request.mutable_ladder()->Assign(row.ladder.begin(), row.ladder.end());
  SetBudget(row.budget, request);
  const std::string job = DescribeProblem(row.problem);
  const absl::Time start = absl::Now();
  const absl::StatusOr<TuneReply> outcome = RunTune(
      connection, request, interrupts, [&](const v1::TuneLayerResponse& event) {
        if (!event.has_progress()) return;
        progress.Update(job, event.progress().phase(),
                        RenderProgress(event.progress()));
      });
  row.took = absl::Now() - start;
  if (!outcome.ok()) {
    const Exit exit = ExitOf(outcome.status());
    if (exit == Exit::kInterrupted) return absl::OkStatus();
    row.state = "failed";
    row.error = absl::StrCat(outcome.status().message(), " [",
                             ReasonOf(outcome.status()), "]");
    progress.Say(absl::StrCat(job, ": failed: ", row.error));
    // Without a daemon the others would fail as well.
    return exit == Exit::kUnreachable ? outcome.status() : absl::OkStatus();
  }
  row.state = outcome->result->already_fresh() ? "fresh"
              : outcome->result->complete()    ? "tuned"
                                               : "partial";
  progress.Say(
      absl::StrCat(job, ": ", row.state, " in ", FormatTime(row.took)));
  return absl::OkStatus();
}

std::string Share(double share) {
  return absl::StrFormat("%.1f %%", share * 100);
}

void Print(const Invocation& invocation, const std::vector<Row>& rows,
           double fresh_share, bool interrupted) {
  double covered = 0;
  for (const Row& row : rows) covered += row.covered() ? row.time_share : 0;
  std::vector<Json> items;
  TextTable table({{"layer"},
                   {"had"},
                   {"time", true},
                   {"points", true},
                   {"budget", true},
                   {"state"},
                   {"took", true}});
  for (const Row& row : rows) {
    const bool ran = row.state != "not run";
    table.AddRow({DescribeProblem(row.problem),
                  std::string(ToString(row.before)), Share(row.time_share),
                  absl::StrCat(row.ladder.size()),
                  ran ? FormatTime(row.budget) : "-", row.state,
                  ran ? FormatTime(row.took) : "-"});
    std::vector<Json> ladder;
    for (const int64_t m : row.ladder) ladder.push_back({absl::StrCat(m)});
    JsonObject json;
    json.Add("problem", row.problem.ToString())
        .Add("had", ToString(row.before))
        .Add("time_share", row.time_share)
        .Add("ladder", JsonArray(ladder))
        .Add("budget_seconds", absl::ToDoubleSeconds(row.budget))
        .Add("state", row.state)
        .Add("seconds", absl::ToDoubleSeconds(row.took));
    if (!row.error.empty()) json.Add("error", row.error);
    items.push_back(json.Build());
  }
  std::ostream& out = invocation.env.out;
  switch (invocation.format) {
    case Format::kTable:
      if (rows.empty()) {
        out << "Nothing to tune: all that is called has a fresh table.\n";
        return;
      }
      out << table.Render() << "\nTuned now: " << Share(covered)
          << " of the time that was reported; " << Share(fresh_share)
          << " had a fresh table.\n";
      break;
    case Format::kJson:
      out << JsonObject()
                 .Add("interrupted", interrupted)
                 .Add("time_share_tuned", covered)
                 .Add("time_share_fresh", fresh_share)
                 .Add("tunes", JsonArray(items))
                 .Build()
                 .text
          << "\n";
      break;
    case Format::kJsonLines:
      for (const Json& item : items) out << item.text << "\n";
      break;
  }
}

}  // namespace

absl::StatusOr<std::vector<v1::TrafficSummary>> FetchTraffic(
    Connection& connection) {
  std::vector<v1::TrafficSummary> all;
  v1::ListTrafficRequest request;
  // The daemon reads all of it for every page.
  request.set_page_size(1000);
  do {
    HONE_ASSIGN_OR_RETURN(
        const v1::ListTrafficResponse page,
        connection.Call(&v1::TuningService::Stub::ListTraffic, request));
    all.insert(all.end(), page.problems().begin(), page.problems().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

ProblemTraffic TrafficOf(const v1::TrafficSummary& summary) {
  ProblemTraffic traffic;
  switch (summary.table()) {
    case v1::TABLE_STATE_STALE:
      traffic.state = TableState::kStale;
      break;
    case v1::TABLE_STATE_UNVERIFIED:
      traffic.state = TableState::kUnverified;
      break;
    case v1::TABLE_STATE_FRESH:
      traffic.state = TableState::kFresh;
      break;
    default:
      traffic.state = TableState::kMissing;
  }
  std::vector<TimeCurve::Point> times;
  for (const v1::TrafficPoint& point : summary.points()) {
    traffic.calls.push_back({point.m(), point.weight()});
    times.push_back({point.m(), point.call_ns()});
  }
  traffic.times = TimeCurve(std::move(times));
  traffic.misses = summary.misses();
  return traffic;
}

absl::Status TuneFromTraffic(const Invocation& invocation,
                             Connection& connection) {
  const ParsedArgs& args = invocation.args;
  HONE_RETURN_IF_ERROR(CheckFlags(args));
  HONE_ASSIGN_OR_RETURN(const v1::TuneLayerRequest settings,
                        TuneRequestFromFlags(args));
  HONE_ASSIGN_OR_RETURN(const std::optional<absl::Duration> budget,
                        args.Time("budget", absl::Seconds(1), absl::Hours(24)));
  HONE_ASSIGN_OR_RETURN(const v1::GetDeviceResponse device,
                        connection.Call(&v1::TuningService::Stub::GetDevice,
                                        v1::GetDeviceRequest()));
  HONE_ASSIGN_OR_RETURN(const std::vector<v1::TrafficSummary> all,
                        FetchTraffic(connection));
  std::vector<ProblemTraffic> waiting;
  std::vector<Problem> problems;
  double fresh_share = 0;
  for (const v1::TrafficSummary& summary : all) {
    if (summary.device().class_hash() != device.device().spec().class_hash())
      continue;
    HONE_ASSIGN_OR_RETURN(const Problem problem,
                          ProblemFromProto(summary.problem()));
    problems.push_back(problem);
    waiting.push_back(TrafficOf(summary));
    if (waiting.back().state == TableState::kFresh)
      fresh_share += summary.time_share();
  }
  const absl::Duration whole = budget.value_or(
      kDefaultBudget *
      static_cast<double>(PlanTunes(waiting, Unlimited(waiting)).size()));
  const absl::Time end = absl::Now() + whole;
  const auto row_of = [&](const PlannedTune& tune) {
    Row row;
    row.problem = problems[tune.problem];
    row.before = waiting[tune.problem].state;
    row.time_share = tune.time_share;
    row.budget = tune.budget;
    row.ladder = tune.ladder;
    return row;
  };
  auto progress = std::make_unique<Progress>(invocation.env.err,
                                             invocation.env.err_is_terminal);
  std::vector<Row> rows;
  absl::Status status;
  size_t failed = 0;
  while (status.ok() && invocation.env.interrupts.load() == 0) {
    PlanOptions options;
    options.budget = end - absl::Now();
    // What is left over is too little to begin with.
    if (options.budget < (rows.empty() ? absl::Seconds(1) : options.least))
      break;
    const std::vector<PlannedTune> plan = PlanTunes(waiting, options);
    if (plan.empty()) break;
    Row row = row_of(plan.front());
    status = TuneOne(connection, settings, invocation.env.interrupts, *progress,
                     row);
    if (row.state == "not run") break;  // interrupted
    failed += row.state == "failed";
    rows.push_back(std::move(row));
    // Whatever became of it, it is not planned again.
    waiting[plan.front().problem].state = TableState::kFresh;
  }
  const size_t ran = rows.size();
  for (const PlannedTune& tune : PlanTunes(waiting, Unlimited(waiting))) {
    rows.push_back(row_of(tune));
    rows.back().budget = absl::ZeroDuration();
  }
  const bool interrupted = invocation.env.interrupts.load() > 0;
  if (interrupted)
    progress->Say(
        "Interrupted. What was measured is kept; run again to go on.");
  progress.reset();
  Print(invocation, rows, fresh_share, interrupted);
  HONE_RETURN_IF_ERROR(status);
  if (interrupted)
    return WithExit(absl::CancelledError("interrupted"), Exit::kInterrupted);
  if (failed > 0) {
    return absl::AbortedError(
        absl::StrCat(failed, " of ", ran, " tunes failed"));
  }
  return absl::OkStatus();
}

}  // namespace hone
