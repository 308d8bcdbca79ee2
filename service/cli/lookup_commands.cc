// get, table and devices.

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
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

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

Flag RevisionFlag() {
  return {"revision", "R",
          "the tables of this revision; the newest unless "
          "given"};
}

// A message as JSON, in the format asked for.
void PrintJson(const Invocation& invocation,
               const google::protobuf::Message& message) {
  invocation.env.out << ToJson(message, invocation.format == Format::kJson).text
                     << "\n";
}

// Items as a table, as one object under `name`, or one a line.
void PrintList(const Invocation& invocation, absl::string_view name,
               const TextTable& table, const std::vector<Json>& items) {
  std::ostream& out = invocation.env.out;
  switch (invocation.format) {
    case Format::kTable:
      out << table.Render();
      break;
    case Format::kJson:
      out << JsonObject().Add(name, JsonArray(items)).Build().text << "\n";
      break;
    case Format::kJsonLines:
      for (const Json& item : items) out << item.text << "\n";
      break;
  }
}

absl::Status RunGet(const Invocation& invocation) {
  HONE_ASSIGN_OR_RETURN(const Problem problem,
                        ProblemFromFlags(invocation.args));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> m,
                        invocation.args.Int("m", 1, kNoLimit));
  if (!m) return UsageError("--m is missing; it must be an integer from 1");
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> revision,
                        invocation.args.Int("revision", 1, kNoLimit));
  v1::GetConfigRequest request;
  *request.mutable_problem() = ToProto(problem);
  request.set_m(*m);
  request.set_revision(revision.value_or(0));
  Connection connection(invocation.addresses[0]);
  HONE_ASSIGN_OR_RETURN(
      const v1::GetConfigResponse response,
      connection.Call(&v1::TuningService::Stub::GetConfig, request));
  if (invocation.format != Format::kTable) {
    PrintJson(invocation, response);
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(const ConfigAnswer answer, AnswerFromProto(response));
  invocation.env.out << RenderConfig(problem, *m, answer);
  return absl::OkStatus();
}

absl::Status ListTables(const Invocation& invocation) {
  Connection connection(invocation.addresses[0]);
  TextTable table({{"layer"},
                   {"device"},
                   {"kernels", true},
                   {"gate"},
                   {"state"},
                   {"revision", true},
                   {"tuned"}});
  std::vector<Json> items;
  v1::ListTablesRequest request;
  do {
    HONE_ASSIGN_OR_RETURN(
        const v1::ListTablesResponse page,
        connection.Call(&v1::TuningService::Stub::ListTables, request));
    for (const v1::TableSummary& summary : page.tables()) {
      items.push_back(ToJson(summary, /*indented=*/false));
      HONE_ASSIGN_OR_RETURN(const Problem problem,
                            ProblemFromProto(summary.problem()));
      FieldErrors errors;
      const DeviceSpec device = FromProto(summary.device(), "device", errors);
      HONE_RETURN_IF_ERROR(errors.ToStatus());
      const absl::string_view gate = v1::GateKind_Name(summary.gate());
      table.AddRow(
          {DescribeProblem(problem), DescribeDevice(device),
           absl::StrCat(summary.kernels()),
           std::string(gate.substr(absl::string_view("GATE_KIND_").size())),
           absl::StrCat(summary.verified() ? "verified" : "unverified",
                        summary.stale() ? ", stale" : ""),
           absl::StrCat(summary.revision()),
           absl::FormatTime("%Y-%m-%d %H:%M",
                            absl::FromUnixSeconds(summary.tuned_at().seconds()),
                            absl::UTCTimeZone())});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  PrintList(invocation, "tables", table, items);
  return absl::OkStatus();
}

absl::Status RunTable(const Invocation& invocation) {
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> revision,
                        invocation.args.Int("revision", 1, kNoLimit));
  if (!HasLayerFlags(invocation.args)) {
    if (revision)
      return UsageError("--revision needs a layer: --n and --k, or --problem");
    return ListTables(invocation);
  }
  HONE_ASSIGN_OR_RETURN(const Problem problem,
                        ProblemFromFlags(invocation.args));
  v1::GetTableRequest request;
  *request.mutable_problem() = ToProto(problem);
  request.set_revision(revision.value_or(0));
  Connection connection(invocation.addresses[0]);
  HONE_ASSIGN_OR_RETURN(
      const v1::GetTableResponse response,
      connection.Call(&v1::TuningService::Stub::GetTable, request));
  if (invocation.format != Format::kTable) {
    PrintJson(invocation, response);
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(const TableAnswer answer, AnswerFromProto(response));
  invocation.env.out << RenderTable(answer) << RenderTradeOff(answer.table);
  return absl::OkStatus();
}

absl::Status RunDevices(const Invocation& invocation) {
  Connection connection(invocation.addresses[0]);
  TextTable table({{"device"},
                   {"uuid"},
                   {"memory GB", true},
                   {"GB/s", true},
                   {"L2 MB", true},
                   {"driver"},
                   {"tuning"}});
  std::vector<Json> items;
  v1::ListDevicesRequest request;
  do {
    HONE_ASSIGN_OR_RETURN(
        const v1::ListDevicesResponse page,
        connection.Call(&v1::TuningService::Stub::ListDevices, request));
    for (const v1::Device& device : page.devices()) {
      items.push_back(ToJson(device, /*indented=*/false));
      FieldErrors errors;
      const DeviceSpec spec = FromProto(device.spec(), "device.spec", errors);
      HONE_RETURN_IF_ERROR(errors.ToStatus());
      table.AddRow({DescribeDevice(spec), spec.uuid,
                    absl::StrFormat("%.0f", spec.memory_bytes / 1e9),
                    absl::StrFormat("%.0f", spec.memory_gbps),
                    absl::StrFormat("%.0f", spec.l2_bytes / 1048576.0),
                    spec.driver.empty() ? "-" : spec.driver,
                    device.can_tune() ? "yes" : device.unavailable()});
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  PrintList(invocation, "devices", table, items);
  return absl::OkStatus();
}

constexpr char kTableDetails[] =
    "One line per M that was tuned, under the range of M that its config "
    "answers.\n\"of floor\" is the fastest possible time by bytes and "
    "arithmetic over the measured\ntime; \"margin\" is the gain over the "
    "default that needs no tuning.\n\n"
    "Below, what tables of fewer kernels would cost: each kernel is a compile "
    "when a client\nwarms up.\n\n"
    "A config reads \"8x64x512 w8x64x64 s4 k1\": the tile of a block in tokens "
    "x output\nchannels x reduction, the tile of a warp, the stages, and the "
    "blocks that share one\noutput tile (sk: stream-K). Then, where they "
    "differ from cp.async and mma.sync with\none block per SM: the "
    "instruction and how many are in flight, who loads a, b and\nscale, ws "
    "(warp specialized), c2 (blocks per SM), cl2x1 (cluster), rn (raster "
    "along N).\n";

}  // namespace

Command GetCommand() {
  Command command;
  command.name = "get";
  command.summary = "look up the config for a layer at one M";
  command.flags = LayerFlags();
  command.flags.push_back({"m", "M", "rows of the activations, from 1"});
  command.flags.push_back(RevisionFlag());
  command.run = RunGet;
  return command;
}

Command TableCommand() {
  Command command;
  command.name = "table";
  command.summary = "show a layer's dispatch table, or list all tables";
  command.details =
      absl::StrCat("Without a layer, lists the tables that the daemon has.\n\n",
                   kTableDetails);
  command.flags = LayerFlags();
  command.flags.push_back(RevisionFlag());
  command.run = RunTable;
  return command;
}

Command DevicesCommand() {
  Command command;
  command.name = "devices";
  command.summary = "list the daemon's devices";
  command.run = RunDevices;
  return command;
}

}  // namespace hone
