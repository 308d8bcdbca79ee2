// bench: how long lookups take over a warm channel, and how far a layer's
// table is from the fastest possible.

#include <algorithm>
#include <chrono>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/config/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/format.h"
#include "service/cli/json.h"
#include "service/cli/layer_flags.h"
#include "service/convert/config_convert.h"
#include "service/convert/table_convert.h"

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

Json EvidenceJson(const TableAnswer& answer) {
  std::vector<Json> rows;
  for (const TableEntry& entry : answer.table.entries) {
    for (const Evidence& e : entry.evidence) {
      rows.push_back(
          JsonObject()
              .Add("m", e.m)
              .Add("config", entry.config.ToString())
              .Add("median_ns", e.median_ns)
              .Add("floor_ns", e.floor_ns)
              .Add("default_median_ns", e.default_median_ns)
              .Add("of_floor", e.median_ns > 0
                                   ? static_cast<double>(e.floor_ns) /
                                         static_cast<double>(e.median_ns)
                                   : 0.0)
              .Build());
    }
  }
  return JsonArray(rows);
}

absl::Status RunBench(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  HONE_ASSIGN_OR_RETURN(const Problem problem, ProblemFromFlags(args));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                        args.Int("count", 1, 10'000'000));
  HONE_ASSIGN_OR_RETURN(std::vector<int64_t> ms, LadderFromFlags(args));
  if (ms.empty()) ms = DefaultLadder();

  Connection connection(invocation.addresses[0]);
  HONE_ASSIGN_OR_RETURN(const std::vector<double> times,
                        TimeLookups(invocation, connection, ToProto(problem),
                                    ms, count.value_or(2000)));
  v1::GetTableRequest request;
  *request.mutable_problem() = ToProto(problem);
  HONE_ASSIGN_OR_RETURN(
      const v1::GetTableResponse response,
      connection.Call(&v1::TuningService::Stub::GetTable, request));
  HONE_ASSIGN_OR_RETURN(const TableAnswer answer, AnswerFromProto(response));

  const double p50 = Percentile(times, 50);
  const double p90 = Percentile(times, 90);
  const double p99 = Percentile(times, 99);
  if (invocation.format == Format::kTable) {
    invocation.env.out << absl::StrFormat(
        "%d lookups over a warm channel: p50 %.1f µs, p90 %.1f µs, p99 %.1f "
        "µs, max %.1f µs\n\n",
        times.size(), p50, p90, p99, times.back());
    invocation.env.out << RenderTable(answer);
    return absl::OkStatus();
  }
  const Json latency = JsonObject()
                           .Add("count", static_cast<int64_t>(times.size()))
                           .Add("p50_us", p50)
                           .Add("p90_us", p90)
                           .Add("p99_us", p99)
                           .Add("max_us", times.back())
                           .Build();
  invocation.env.out << JsonObject()
                            .Add("problem", problem.ToString())
                            .Add("device", answer.table.device.name)
                            .Add("lookup", latency)
                            .Add("match", ToString(answer.provenance.match))
                            .Add("modelled", answer.provenance.modelled)
                            .Add("verified", answer.provenance.verified)
                            .Add("revision", answer.provenance.revision)
                            .Add("table", EvidenceJson(answer))
                            .Build()
                            .text
                     << "\n";
  return absl::OkStatus();
}

}  // namespace

Command BenchCommand() {
  Command command;
  command.name = "bench";
  command.summary = "time lookups, and compare a layer's table with the floor";
  command.flags = LayerFlags();
  command.flags.push_back(
      {"ladder", "M,M,...", "the M to look up; the usual ladder unless given"});
  command.flags.push_back({"count", "COUNT", "lookups; 2000 unless given"});
  command.run = RunBench;
  return command;
}

}  // namespace hone
