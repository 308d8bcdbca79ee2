// plot: images of what was measured of a layer, for reports.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/heat_map.h"
#include "service/cli/json.h"
#include "service/cli/layer_flags.h"
#include "service/cli/layer_times.h"
#include "service/cli/output_file.h"
#include "service/convert/config_convert.h"
#include "service/convert/table_convert.h"

namespace hone {
namespace {

constexpr int kPageSize = 1000;

absl::StatusOr<std::vector<v1::Trial>> ReadTrials(Connection& connection,
                                                  const Problem& problem) {
  std::vector<v1::Trial> trials;
  v1::ListTrialsRequest request;
  *request.mutable_problem() = ToProto(problem);
  request.set_page_size(kPageSize);
  do {
    HONE_ASSIGN_OR_RETURN(
        const v1::ListTrialsResponse page,
        connection.Call(&v1::TuningService::Stub::ListTrials, request));
    trials.insert(trials.end(), page.trials().begin(), page.trials().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (trials.empty()) {
    return absl::FailedPreconditionError(
        "nothing was measured of this layer, so there is no heat map to draw; "
        "'hone tune' measures it");
  }
  return trials;
}

absl::Status RunPlot(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  HONE_ASSIGN_OR_RETURN(const Problem problem, ProblemFromFlags(args));
  const std::string kind = args.Get("kind");
  if (kind != "roofline" && kind != "heat") {
    return UsageError(
        absl::StrCat("--kind is '", kind, "'; it must be roofline or heat"));
  }
  const std::string path = args.Get("out");
  if (path.empty())
    return UsageError("--out is missing; it must name an .svg or .png file");
  Connection connection(invocation.addresses[0]);
  v1::GetTableRequest request;
  *request.mutable_problem() = ToProto(problem);
  HONE_ASSIGN_OR_RETURN(
      const v1::GetTableResponse response,
      connection.Call(&v1::TuningService::Stub::GetTable, request));
  HONE_ASSIGN_OR_RETURN(const TableAnswer answer, AnswerFromProto(response));
  std::string svg;
  if (kind == "roofline") {
    HONE_ASSIGN_OR_RETURN(
        const Roofline roofline,
        RooflineOf(answer, LayerTimesOf(answer, answer.table.ladder)));
    svg = RooflineSvg(roofline);
  } else {
    HONE_ASSIGN_OR_RETURN(const std::vector<v1::Trial> trials,
                          ReadTrials(connection, problem));
    svg = HeatMapSvg(HeatMapOf(answer, trials));
  }
  HONE_RETURN_IF_ERROR(WriteImage("out", path, svg, invocation.env.getenv));
  if (invocation.format == Format::kTable) {
    invocation.env.out << "Wrote " << path << ".\n";
  } else {
    invocation.env.out << JsonObject().Add("file", path).Build().text << "\n";
  }
  return absl::OkStatus();
}

constexpr char kDetails[] =
    "roofline: operations a second against operations per byte, a point for "
    "each M of the\nladder, under the ceilings of memory and MMA.\n\n"
    "heat: every config that was tried (the 48 best) and every M: its time "
    "over the fastest\nat that M, framed where the table uses it, with a dot "
    "where it ties, with a letter where\nit failed. It can be told in black "
    "and white and without red and green.\n\n"
    "A .png is made by rsvg-convert (Debian: librsvg2-bin).\n";

}  // namespace

Command PlotCommand() {
  Command command;
  command.name = "plot";
  command.summary = "draw a layer's roofline or heat map into a file";
  command.details = kDetails;
  command.flags = LayerFlags();
  command.flags.push_back({"kind", "KIND", "roofline or heat"});
  command.flags.push_back({"out", "FILE", "the image, .svg or .png"});
  command.run = RunPlot;
  return command;
}

}  // namespace hone
