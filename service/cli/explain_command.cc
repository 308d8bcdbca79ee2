// explain: why a config is as fast as it is.

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "kernels/config/status_macros.h"
#include "kernels/jit/compiler.h"
#include "kernels/launch/device_query.h"
#include "service/cli/command.h"
#include "service/cli/connection.h"
#include "service/cli/explain_report.h"
#include "service/cli/format.h"
#include "service/cli/layer_flags.h"
#include "service/convert/config_convert.h"
#include "service/convert/errors.h"
#include "service/convert/table_convert.h"
#include "service/paths/paths.h"
#include "tuner/jit_compiler.h"

namespace hone {
namespace {

// As honed's own limit.
constexpr int64_t kMaxM = int64_t{1} << 30;

// The device to explain for, and what honed says of the problem there.
struct Target {
  DeviceSpec device;
  // Nullopt without honed.
  std::optional<ConfigAnswer> answer;
  // Why honed was not asked or did not answer.
  std::string without_honed;
};

absl::StatusOr<DeviceSpec> DeviceFromFlag(const std::string& flag) {
  absl::string_view name = flag;
  if (absl::ConsumePrefix(&name, "model:")) {
    absl::StatusOr<DeviceSpec> device = ModelledDevice(name);
    if (!device.ok())
      return UsageError(absl::StrCat("--device: ", device.status().message()));
    return device;
  }
  int ordinal = 0;
  if (absl::ConsumePrefix(&name, "gpu:") && absl::SimpleAtoi(name, &ordinal) &&
      ordinal >= 0 && absl::StrCat(ordinal) == name) {
    return QueryDevice(ordinal);
  }
  return UsageError(
      absl::StrCat("--device is '", flag,
                   "'; it must be gpu:N with N from 0, or model: with one of ",
                   absl::StrJoin(ModelledDeviceNames(), ", ")));
}

absl::StatusOr<Target> AskHoned(Connection& connection, const Problem& problem,
                                int64_t m) {
  HONE_ASSIGN_OR_RETURN(const v1::GetDeviceResponse device,
                        connection.Call(&v1::TuningService::Stub::GetDevice,
                                        v1::GetDeviceRequest()));
  v1::GetConfigRequest request;
  *request.mutable_problem() = ToProto(problem);
  request.set_m(m);
  HONE_ASSIGN_OR_RETURN(
      const v1::GetConfigResponse response,
      connection.Call(&v1::TuningService::Stub::GetConfig, request));
  Target target;
  FieldErrors errors;
  target.device = FromProto(device.device().spec(), "device.spec", errors);
  HONE_RETURN_IF_ERROR(errors.ToStatus());
  HONE_ASSIGN_OR_RETURN(target.answer, AnswerFromProto(response));
  return target;
}

absl::StatusOr<Target> FindTarget(const Invocation& invocation,
                                  const Problem& problem, int64_t m) {
  if (invocation.args.Has("device")) {
    const std::string flag = invocation.args.Get("device");
    Target target;
    HONE_ASSIGN_OR_RETURN(target.device, DeviceFromFlag(flag));
    target.without_honed = absl::StrCat("--device=", flag, " asks no honed");
    return target;
  }
  Connection connection(invocation.addresses[0]);
  absl::StatusOr<Target> asked = AskHoned(connection, problem, m);
  if (asked.ok()) return asked;
  const std::string models = absl::StrCat(
      "--device=model:", absl::StrJoin(ModelledDeviceNames(), "|"));
  if (ReasonOf(asked.status()) == "NO_DEVICE") {
    return WithReason(
        absl::NotFoundError(absl::StrCat("the honed at ", connection.address(),
                                         " has no device to explain for; ",
                                         models, " needs none")),
        "NO_DEVICE");
  }
  if (ExitOf(asked.status()) != Exit::kUnreachable) return asked;
  // Without honed, this machine's own GPU.
  Target target;
  absl::StatusOr<DeviceSpec> device = QueryDevice(0);
  if (!device.ok()) {
    return WithExit(absl::UnavailableError(
                        absl::StrCat(asked.status().message(), "; ", models,
                                     " needs neither it nor a GPU")),
                    Exit::kUnreachable);
  }
  target.device = *std::move(device);
  target.without_honed =
      absl::StrCat("no honed answers at ", connection.address());
  return target;
}

// The kernel as a client would compile it, from its cache if it is there.
absl::StatusOr<CompileInfo> CompileAsClient(const Problem& problem,
                                            const DeviceSpec& device,
                                            const TuningConfig& config,
                                            EnvLookup env) {
  HONE_ASSIGN_OR_RETURN(std::shared_ptr<const Nvrtc> nvrtc,
                        Nvrtc::Create(LibrarySearchFromEnvironment(env)));
  // The cache only saves time: without one, every run compiles.
  std::shared_ptr<CubinCache> cache;
  if (const absl::StatusOr<std::string> folder = DefaultCacheFolder(env);
      folder.ok()) {
    absl::StatusOr<std::unique_ptr<CubinCache>> opened =
        CubinCache::Open({.folder = CubinFolder(*folder)});
    if (opened.ok()) cache = *std::move(opened);
  }
  JitCompiler compiler(
      std::make_shared<Compiler>(std::move(nvrtc), std::move(cache)));
  HONE_ASSIGN_OR_RETURN(const CompiledCandidate compiled,
                        compiler.Compile(problem, device, config));
  if (compiled.outcome != Outcome::kMeasured) {
    return absl::InternalError(
        absl::StrCat("the kernel does not compile: ", compiled.detail));
  }
  return compiled.candidate.compile;
}

// Registers, spills and shared memory: honed's where it compiled this very
// kernel, else from a compile here, else estimated with a note on why.
KernelFootprint FootprintFor(const Target& target, EnvLookup env,
                             ExplainReport& report) {
  report.footprint_origin = FootprintOrigin::kCompiled;
  if (target.answer.has_value() && target.answer->config == report.config &&
      !target.answer->compile.cubin_hash.empty()) {
    return FootprintOf(target.answer->compile);
  }
  const absl::StatusOr<CompileInfo> compiled =
      CompileAsClient(report.problem, report.device, report.config, env);
  if (compiled.ok()) return FootprintOf(*compiled);
  report.footprint_origin = FootprintOrigin::kEstimated;
  report.notes.push_back(absl::StrCat(
      "Registers are estimated: ", compiled.status().message(), "."));
  return EstimateFootprint(report.problem, report.config);
}

absl::Status RunExplain(const Invocation& invocation) {
  const ParsedArgs& args = invocation.args;
  ExplainReport report;
  HONE_ASSIGN_OR_RETURN(report.problem, ProblemFromFlags(args));
  HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> m,
                        args.Int("m", 1, kMaxM));
  if (!m) return UsageError("--m is missing; it must be an integer from 1");
  report.m = *m;
  std::optional<TuningConfig> given;
  if (args.Has("config")) {
    absl::StatusOr<TuningConfig> config =
        TuningConfig::Parse(args.Get("config"));
    if (!config.ok())
      return UsageError(absl::StrCat("--config: ", config.status().message()));
    given = *std::move(config);
  }

  HONE_ASSIGN_OR_RETURN(const Target target,
                        FindTarget(invocation, report.problem, report.m));
  report.device = target.device;
  if (absl::Status has = CheckProblem(report.problem, report.device); !has.ok())
    return WithReason(std::move(has), "NO_KERNEL");
  const TuningConfig heuristic =
      HeuristicDefault(report.problem, report.device, report.m);
  if (given.has_value()) {
    report.config = *given;
    report.source = "--config";
  } else if (target.answer.has_value()) {
    report.config = target.answer->config;
    report.source = absl::StrCat("honed: ", Marks(target.answer->provenance));
    for (const std::string& note : target.answer->provenance.notes)
      report.notes.push_back(note);
  } else {
    report.config = heuristic;
    report.source =
        absl::StrCat("the heuristic default: ", target.without_honed);
  }

  std::ostream& out = invocation.env.out;
  const bool text = invocation.format == Format::kTable;
  const std::vector<Refusal> refusals =
      AllRefusals(report.problem, report.device, report.config);
  if (!refusals.empty()) {
    out << (text ? RenderRefusals(report, refusals)
                 : RefusalsJson(report, refusals).text + "\n");
    return UsageError(absl::StrCat("the config breaks ", refusals.size(),
                                   refusals.size() == 1 ? " rule" : " rules"));
  }
  if (target.answer.has_value()) {
    report.time = TimeOf(*target.answer, report.config, heuristic, report.m);
  }
  const KernelFootprint footprint =
      FootprintFor(target, invocation.env.getenv, report);
  report.explanation = Explain(report.problem, report.device, report.config,
                               report.m, footprint);
  out << (text ? RenderReport(report) : ReportJson(report).text + "\n");
  return absl::OkStatus();
}

constexpr char kDetails[] =
    "Explains the config that honed answers with, --config, or, with --device "
    "or without a\nhoned, the heuristic default. The time is honed's evidence "
    "at exactly this M; the floor\nis the larger of the time for every byte "
    "once and the time for the arithmetic. Registers\nand spills are from "
    "compiling the kernel, as a client does, where NVRTC is there.\n\n"
    "\"In flight\" is what is on its way to an SM while it computes: all "
    "stages but one. It must\ncover the memory's rate times its latency. What "
    "the analytic model says is MODELLED on\nevery device. A config that is "
    "not legal gets the list of the rules it breaks.\n";

}  // namespace

Command ExplainCommand() {
  Command command;
  command.name = "explain";
  command.summary = "say what a config does with the device at one M, and why";
  command.details = kDetails;
  command.flags = LayerFlags();
  command.flags.push_back({"m", "M", "rows of the activations, from 1"});
  command.flags.push_back(
      {"config", "TEXT",
       "a Tuning Config in canonical text, as 'hone get' prints it; keys left "
       "out have their defaults"});
  command.flags.push_back(
      {"device", "DEVICE",
       absl::StrCat(
           "gpu:N or model:", absl::StrJoin(ModelledDeviceNames(), "|"),
           ", without asking a honed; its device unless given")});
  command.run = RunExplain;
  return command;
}

}  // namespace hone
