#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/config/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/format.h"
#include "service/cli/json.h"
#include "service/cli/progress.h"
#include "service/cli/sweep.h"
#include "service/cli/tune_request.h"

namespace hone {
namespace {

// Geometric means over a table's ladder points.
struct Means {
  double gain = 0;      // over the default, minus 1
  double of_floor = 0;  // floor / time
};

std::optional<Means> MeansOf(const DispatchTable& table) {
  double gain = 0;
  double of_floor = 0;
  int points = 0;
  for (const TableEntry& entry : table.entries) {
    for (const Evidence& e : entry.evidence) {
      if (e.median_ns <= 0 || e.floor_ns <= 0 || e.margin <= -1) continue;
      gain += std::log1p(e.margin);
      of_floor += std::log(static_cast<double>(e.floor_ns) /
                           static_cast<double>(e.median_ns));
      ++points;
    }
  }
  if (points == 0) return std::nullopt;
  return Means{std::expm1(gain / points), std::exp(of_floor / points)};
}

std::string Marks(const SweepResult& result) {
  std::string out(ToString(result.state));
  if (result.answer.provenance.modelled) out += ", MODELLED";
  return out;
}

std::string RenderSweep(const std::vector<SweepResult>& results) {
  TextTable table({{"model"},
                   {"layer"},
                   {"N", true},
                   {"K", true},
                   {"device"},
                   {"state"},
                   {"kernels", true},
                   {"of floor", true},
                   {"over default", true},
                   {"took", true}});
  std::map<absl::string_view, int> counts;
  for (const SweepResult& result : results) {
    ++counts[ToString(result.state)];
    const std::optional<Means> means = MeansOf(result.answer.table);
    const LayerConfig& layer = result.layer.problem.layer;
    table.AddRow(
        {result.layer.model, result.layer.name, absl::StrCat(layer.n),
         absl::StrCat(layer.k), result.device, Marks(result),
         result.answer.table.entries.empty()
             ? "-"
             : absl::StrCat(CountKernels(result.answer.table)),
         means ? absl::StrCat(std::lround(100 * means->of_floor), " %") : "-",
         means ? FormatMargin(means->gain) : "-",
         result.seconds > 0 ? FormatTime(absl::Seconds(result.seconds)) : "-"});
  }
  std::string out = table.Render();
  absl::StrAppend(&out, "\n", results.size(), " layers: ",
                  absl::StrJoin(counts, ", ",
                                [](std::string* text, const auto& count) {
                                  absl::StrAppend(text, count.second, " ",
                                                  count.first);
                                }),
                  "\n");
  for (const SweepResult& result : results) {
    if (!result.error.empty()) {
      absl::StrAppend(&out, result.layer.model, "/", result.layer.name, ": ",
                      result.error, "\n");
    }
  }
  return out;
}

Json ResultJson(const SweepResult& result) {
  JsonObject json;
  json.Add("model", result.layer.model)
      .Add("layer", result.layer.name)
      .Add("count", result.layer.count)
      .Add("problem", result.layer.problem.ToString())
      .Add("device", result.device)
      .Add("address", result.address)
      .Add("state", ToString(result.state))
      .Add("modelled", result.answer.provenance.modelled)
      .Add("revision", result.answer.provenance.revision)
      .Add("kernels", CountKernels(result.answer.table));
  if (const std::optional<Means> means = MeansOf(result.answer.table)) {
    json.Add("of_floor", means->of_floor).Add("over_default", means->gain);
  }
  json.Add("seconds", result.seconds);
  if (!result.error.empty()) json.Add("error", result.error);
  return json.Build();
}

absl::StatusOr<LayerFileOptions> OptionsFromFlags(const ParsedArgs& args) {
  LayerFileOptions options;
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> ranks,
                        args.Int("tp", 1, 1024));
  options.tensor_parallel = ranks.value_or(1);
  if (args.Has("layers")) {
    options.layers = absl::StrSplit(args.Get("layers"), ',', absl::SkipEmpty());
    if (options.layers.empty())
      return UsageError("--layers is empty; it must be a list such as qkv,o");
  }
  for (const auto& [flag, type] :
       {std::pair<const char*, std::optional<DataType>*>{"a", &options.a},
        {"b", &options.b}}) {
    if (!args.Has(flag)) continue;
    const absl::StatusOr<DataType> parsed = DataType::Parse(args.Get(flag));
    if (!parsed.ok()) {
      return UsageError(
          absl::StrCat("--", flag, ": ", parsed.status().message()));
    }
    *type = *parsed;
  }
  HONE_ASSIGN_OR_RETURN(options.group, args.Int("group", 0, 1 << 20));
  options.batch_invariant = args.Has("batch-invariant");
  return options;
}

absl::Status RunSweepCommand(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  if (args.positional().empty())
    return UsageError("a layer file is missing: hone sweep FILE...");
  HONE_ASSIGN_OR_RETURN(const LayerFileOptions options, OptionsFromFlags(args));
  HONE_ASSIGN_OR_RETURN(const v1::TuneLayerRequest request,
                        TuneRequestFromFlags(args));
  std::vector<ModelLayer> layers;
  for (const std::string& path : args.positional()) {
    absl::StatusOr<std::vector<ModelLayer>> more = ReadLayerFile(path, options);
    if (!more.ok()) return UsageError(more.status().message());
    for (ModelLayer& layer : *more) layers.push_back(std::move(layer));
  }

  auto progress = std::make_unique<Progress>(invocation.env.err,
                                             invocation.env.err_is_terminal);
  absl::StatusOr<std::vector<SweepResult>> results =
      RunSweep(invocation.addresses, layers, request, invocation.env.interrupts,
               *progress);
  HONE_RETURN_IF_ERROR(results.status());
  const bool interrupted = invocation.env.interrupts.load() > 0;
  if (interrupted)
    progress->Say(
        "Interrupted. What was measured is kept; run again to go on.");
  progress.reset();

  std::vector<Json> items;
  int failed = 0;
  for (const SweepResult& result : *results) {
    items.push_back(ResultJson(result));
    // Not run without Ctrl-C: every daemon of its class went away.
    failed += result.state == SweepState::kFailed ||
              (result.state == SweepState::kNotRun && !interrupted);
  }
  std::ostream& out = invocation.env.out;
  switch (invocation.format) {
    case Format::kTable:
      out << RenderSweep(*results);
      break;
    case Format::kJson:
      out << JsonObject()
                 .Add("interrupted", interrupted)
                 .Add("layers", JsonArray(items))
                 .Build()
                 .text
          << "\n";
      break;
    case Format::kJsonLines:
      for (const Json& item : items) out << item.text << "\n";
      break;
  }
  if (interrupted)
    return WithExit(absl::CancelledError("interrupted"), Exit::kInterrupted);
  if (failed > 0) {
    return absl::AbortedError(
        absl::StrCat(failed, " of ", results->size(),
                     " layers failed; run again to try those only"));
  }
  return absl::OkStatus();
}

}  // namespace

Command SweepCommand() {
  Command command;
  command.name = "sweep";
  command.many_addresses = true;
  command.positional = "FILE...";
  command.max_positional = 1000;
  command.summary = "tune every layer of one or more models";
  command.details =
      "Skips what is fresh, so a sweep that was interrupted goes on when it is "
      "run again.\nDaemons with the same device class share the work; each "
      "other class tunes all layers.\nLists of public models ship under "
      "service/models, whose README describes the format.\n";
  command.flags = {
      {"tp", "RANKS", "divide each layer among this many ranks"},
      {"layers", "NAME,...", "only these layers of each file"},
      {"a", "TYPE", "activations, instead of the file's"},
      {"b", "TYPE", "weights, instead of the file's"},
      {"group", "G",
       "weights that share a scale, instead of the file's; 0: "
       "one scale per channel"},
      {"batch-invariant", "",
       "a row of activations gives the same bits of output whatever rows it is "
       "batched with"},
  };
  for (Flag& flag : TuneFlags()) command.flags.push_back(std::move(flag));
  command.run = RunSweepCommand;
  return command;
}

}  // namespace hone
