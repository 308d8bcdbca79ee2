// hone traffic: where time is spent and what was missed.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/config/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/format.h"
#include "service/cli/json.h"
#include "service/cli/traffic_file.h"
#include "service/cli/traffic_list.h"
#include "service/convert/config_convert.h"

namespace hone {
namespace {

// M that are named in a line.
constexpr size_t kShown = 4;

std::string Percent(double share) {
  return absl::StrFormat("%.1f %%", share * 100);
}

// A decayed count.
std::string Count(double weight) {
  return weight < 10 ? absl::StrFormat("%.1f", weight)
                     : absl::StrFormat("%.0f", weight);
}

double TimeAt(const v1::TrafficPoint& point) {
  return point.weight() * point.call_ns();
}

double TimeOf(const v1::TrafficSummary& summary) {
  double time = 0;
  for (const v1::TrafficPoint& point : summary.points()) time += TimeAt(point);
  return time;
}

// "16 (71 %), 2048 (20 %)": the M that take the most time of a problem.
std::string Heaviest(const v1::TrafficSummary& summary) {
  std::vector<const v1::TrafficPoint*> points;
  for (const v1::TrafficPoint& point : summary.points())
    points.push_back(&point);
  std::sort(points.begin(), points.end(), [](const auto* a, const auto* b) {
    return TimeAt(*a) > TimeAt(*b);
  });
  const double time = TimeOf(summary);
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min(points.size(), kShown) && time > 0; ++i) {
    words.push_back(absl::StrCat(points[i]->m(), " (",
                                 std::lround(100 * TimeAt(*points[i]) / time),
                                 " %)"));
  }
  if (points.size() > kShown) words.push_back("...");
  return words.empty() ? "-" : absl::StrJoin(words, ", ");
}

std::string StateOf(const v1::TrafficSummary& summary) {
  return absl::StrCat(ToString(TrafficOf(summary).state),
                      summary.times_modelled() ? ", time MODELLED" : "");
}

absl::StatusOr<std::string> RenderTraffic(
    const std::vector<v1::TrafficSummary>& all, bool histogram) {
  TextTable table({{"layer"},
                   {"device"},
                   {"table"},
                   {"time", true},
                   {"calls", true},
                   {"misses", true},
                   {"M that take the time"}});
  std::string histograms;
  for (const v1::TrafficSummary& summary : all) {
    HONE_ASSIGN_OR_RETURN(const Problem problem,
                          ProblemFromProto(summary.problem()));
    double calls = 0;
    for (const v1::TrafficPoint& point : summary.points())
      calls += point.weight();
    table.AddRow({DescribeProblem(problem), summary.device().name(),
                  StateOf(summary), Percent(summary.time_share()),
                  calls > 0 ? Count(calls) : "-",
                  summary.misses() > 0 ? Count(summary.misses()) : "-",
                  Heaviest(summary)});
    if (!histogram || summary.points().empty()) continue;
    TextTable points({{"M", true},
                      {"calls", true},
                      {"a call (µs)", true},
                      {"of its time", true}});
    for (const v1::TrafficPoint& point : summary.points()) {
      points.AddRow(
          {absl::StrCat(point.m()), Count(point.weight()),
           FormatUs(std::llround(point.call_ns())),
           Percent(TimeAt(point) / std::max(TimeOf(summary), 1e-300))});
    }
    absl::StrAppend(&histograms, "\n", DescribeProblem(problem), "\n",
                    points.Render());
  }
  if (all.empty()) return "No calls were reported and no lookup missed.\n";
  return absl::StrCat(table.Render(), histograms,
                      "\nCounts halve every week. Time is of each device "
                      "class's own.\n");
}

absl::Status Report(const Invocation& invocation, Connection& connection) {
  HONE_ASSIGN_OR_RETURN(const v1::ReportTrafficRequest request,
                        ReadTrafficFile(invocation.args.Get("report")));
  HONE_ASSIGN_OR_RETURN(
      const v1::ReportTrafficResponse response,
      connection.Call(&v1::TuningService::Stub::ReportTraffic, request));
  if (invocation.format != Format::kTable) {
    invocation.env.out << ToJson(response, /*indented=*/false).text << "\n";
  } else {
    invocation.env.out << (response.counted()
                               ? absl::StrCat("Counted the calls of ",
                                              request.problems_size(),
                                              " problems.\n")
                               : "Counted before; nothing was added.\n");
  }
  return absl::OkStatus();
}

absl::Status RunTrafficCommand(const Invocation& invocation) {
  Connection connection(invocation.addresses[0]);
  if (invocation.args.Has("report")) return Report(invocation, connection);
  HONE_ASSIGN_OR_RETURN(std::vector<v1::TrafficSummary> all,
                        FetchTraffic(connection));
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    if (a.time_share() != b.time_share())
      return a.time_share() > b.time_share();
    return a.misses() > b.misses();
  });
  std::ostream& out = invocation.env.out;
  if (invocation.format == Format::kTable) {
    HONE_ASSIGN_OR_RETURN(const std::string text,
                          RenderTraffic(all, invocation.args.Has("histogram")));
    out << text;
    return absl::OkStatus();
  }
  std::vector<Json> items;
  for (const v1::TrafficSummary& summary : all)
    items.push_back(ToJson(summary, /*indented=*/false));
  if (invocation.format == Format::kJson) {
    out << JsonObject().Add("problems", JsonArray(items)).Build().text << "\n";
  } else {
    for (const Json& item : items) out << item.text << "\n";
  }
  return absl::OkStatus();
}

}  // namespace

Command TrafficCommand() {
  Command command;
  command.name = "traffic";
  command.summary = "where time is spent, and lookups that found no table";
  command.details =
      "Clients report how often they called each M; lookups that no fresh "
      "table of the\nproblem's own answered are counted as misses. 'hone tune "
      "--from-traffic' tunes by it.\n\nFor clients that are not Hone's, "
      "--report sends counts from a JSON file:\n"
      "  {\"problems\": [{\"problem\": "
      "\"n=8192,k=8192,b=int4,b_scale=group,b_group=128\",\n"
      "                 \"calls\": {\"1\": 120000, \"16\": 300}}]}\n"
      "A \"report_id\" (a UUID) beside it makes sending it twice within an "
      "hour "
      "harmless.\n";
  command.flags = {
      {"histogram", "", "also print every M of every layer"},
      {"report", "FILE", "send the counts of a file instead"},
  };
  command.run = RunTrafficCommand;
  return command;
}

}  // namespace hone
