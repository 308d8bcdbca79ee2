// bench: a layer's times over M against the fastest possible, as a table and
// as a roofline; and how long lookups take over a warm channel.

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/format.h"
#include "service/cli/json.h"
#include "service/cli/layer_flags.h"
#include "service/cli/layer_times.h"
#include "service/cli/output_file.h"
#include "service/cli/roofline.h"
#include "service/convert/config_convert.h"
#include "service/convert/table_convert.h"
#include "tuner/explain.h"

namespace hone {
namespace {

constexpr int64_t kWarmUp = 100;

// Microseconds of `count` lookups, sorted.
absl::StatusOr<std::vector<double>> TimeLookups(const Invocation& invocation,
                                                Connection& connection,
                                                const v1::Problem& problem,
                                                const std::vector<int64_t>& ms,
                                                int64_t count) {
  std::vector<double> times;
  times.reserve(count);
  v1::GetConfigRequest request;
  *request.mutable_problem() = problem;
  for (int64_t i = -kWarmUp; i < count; ++i) {
    request.set_m(ms[static_cast<size_t>(i + kWarmUp) % ms.size()]);
    const auto start = std::chrono::steady_clock::now();
    HONE_RETURN_IF_ERROR(
        connection.Call(&v1::TuningService::Stub::GetConfig, request).status());
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - start;
    if (i >= 0) times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  return times;
}

// The nearest-rank percentile of sorted values.
double Percentile(const std::vector<double>& sorted, double percent) {
  const auto rank = static_cast<size_t>(percent / 100 * sorted.size());
  return sorted[std::min(rank, sorted.size() - 1)];
}

std::string RenderRows(const Problem& problem,
                       const std::vector<LayerTime>& rows) {
  TextTable table({{"M", true},
                   {"time µs", true},
                   {"floor µs", true},
                   {"of floor", true},
                   {RateUnit(problem), true},
                   {"TB/s", true},
                   {"binds"},
                   {"kernel"}});
  for (const LayerTime& row : rows) {
    const bool timed = row.evidence != nullptr;
    const int64_t ns = timed ? row.evidence->median_ns : 0;
    table.AddRow(
        {absl::StrCat(row.m), FormatUs(ns), FormatUs(row.floor_ns()),
         FormatFraction(row.floor_ns(), ns),
         timed ? absl::StrFormat("%.1f", row.achieved().tflops) : "-",
         timed ? absl::StrFormat("%.2f", row.achieved().tb_per_s) : "-",
         row.floors.memory_binds() ? "memory" : "MMA",
         ShortConfig(row.config)});
  }
  return table.Render();
}

Json RowsJson(const std::vector<LayerTime>& rows) {
  const Json null{"null"};
  std::vector<Json> out;
  for (const LayerTime& row : rows) {
    JsonObject object;
    object.Add("m", row.m)
        .Add("config", row.config.ToString())
        .Add("floor_ns", row.floor_ns())
        .Add("binds", row.floors.memory_binds() ? "memory" : "mma")
        .Add("operations_per_byte", row.floors.intensity());
    if (row.evidence != nullptr) {
      const Evidence& e = *row.evidence;
      object.Add("median_ns", e.median_ns)
          .Add("default_median_ns", e.default_median_ns)
          .Add("of_floor", static_cast<double>(e.floor_ns) /
                               static_cast<double>(e.median_ns))
          .Add("tflops", row.achieved().tflops)
          .Add("tb_per_s", row.achieved().tb_per_s);
    } else {
      for (const char* name : {"median_ns", "default_median_ns", "of_floor",
                               "tflops", "tb_per_s"}) {
        object.Add(name, null);
      }
    }
    out.push_back(object.Build());
  }
  return JsonArray(out);
}

absl::Status RunBench(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  const bool text = invocation.format == Format::kTable;
  HONE_ASSIGN_OR_RETURN(const Problem problem, ProblemFromFlags(args));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                        args.Int("count", 1, 10'000'000));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> ms, LadderFromFlags(args, "m"));
  if (args.Has("roofline") && args.Get("roofline").empty())
    return UsageError("--roofline is empty; it must name a file");
  if (args.Has("plot") && !text)
    return UsageError("--plot needs --output=table, which it is part of");

  Connection connection(invocation.addresses[0]);
  v1::GetTableRequest request;
  *request.mutable_problem() = ToProto(problem);
  HONE_ASSIGN_OR_RETURN(
      const v1::GetTableResponse response,
      connection.Call(&v1::TuningService::Stub::GetTable, request));
  HONE_ASSIGN_OR_RETURN(const TableAnswer answer, AnswerFromProto(response));
  if (ms.empty()) ms = answer.table.ladder;
  if (ms.empty()) ms = DefaultLadder();
  HONE_ASSIGN_OR_RETURN(const std::vector<double> times,
                        TimeLookups(invocation, connection, ToProto(problem),
                                    ms, count.value_or(2000)));
  const std::vector<LayerTime> rows = LayerTimesOf(answer, ms);

  const double p50 = Percentile(times, 50);
  const double p90 = Percentile(times, 90);
  const double p99 = Percentile(times, 99);
  std::ostream& out = invocation.env.out;
  if (text) {
    out << RenderTableHead(answer) << "\n" << RenderRows(problem, rows) << "\n";
    out << absl::StrFormat(
        "%d lookups over a warm channel: p50 %.1f µs, p90 %.1f µs, p99 %.1f "
        "µs, max %.1f µs\n",
        times.size(), p50, p90, p99, times.back());
  } else {
    const Json latency = JsonObject()
                             .Add("count", static_cast<int64_t>(times.size()))
                             .Add("p50_us", p50)
                             .Add("p90_us", p90)
                             .Add("p99_us", p99)
                             .Add("max_us", times.back())
                             .Build();
    out << JsonObject()
               .Add("problem", problem.ToString())
               .Add("device", answer.table.device.name)
               .Add("lookup", latency)
               .Add("match", ToString(answer.provenance.match))
               .Add("modelled", answer.provenance.modelled)
               .Add("verified", answer.provenance.verified)
               .Add("revision", answer.provenance.revision)
               .Add("memory_gbps", rows[0].floors.memory_gbps)
               .Add("peak_tflops", rows[0].floors.tflops)
               .Add("table", RowsJson(rows))
               .Build()
               .text
        << "\n";
  }
  if (!args.Has("plot") && !args.Has("roofline")) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const Roofline roofline, RooflineOf(answer, rows));
  if (args.Has("plot")) out << "\n" << RooflinePlot(roofline);
  if (args.Has("roofline")) {
    const std::string path = args.Get("roofline");
    HONE_RETURN_IF_ERROR(WriteFile("roofline", path, RooflineSvg(roofline)));
    if (text) out << "\nWrote the roofline to " << path << ".\n";
  }
  return absl::OkStatus();
}

constexpr char kDetails[] =
    "The times are honed's evidence at each M; what was not measured has none. "
    "The floor is\nthe larger of the time for every byte once and the time for "
    "the arithmetic, and \"binds\"\nsays which. TB/s counts the bytes that "
    "must move at least. Configs read as in\n'hone help table'.\n\n"
    "The roofline has operations per byte across and TFLOP/s upwards, both "
    "logarithmic, a\npoint for each M that was measured, and the ceilings of "
    "the device's memory and MMA.\n";

}  // namespace

Command BenchCommand() {
  Command command;
  command.name = "bench";
  command.summary = "compare a layer's times over M with the fastest possible";
  command.details = kDetails;
  command.flags = LayerFlags();
  command.flags.push_back(
      {"m", "M,M,...", "the M to show; the table's ladder unless given"});
  command.flags.push_back(
      {"roofline", "FILE", "draw the roofline into this SVG file"});
  command.flags.push_back(
      {"plot", "", "draw the roofline in plain characters"});
  command.flags.push_back(
      {"count", "COUNT", "lookups to time; 2000 unless given"});
  command.run = RunBench;
  return command;
}

}  // namespace hone
