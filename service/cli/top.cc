#include "service/cli/top.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "service/cli/format.h"
#include "service/convert/config_convert.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

using Style = ScreenLine::Style;

constexpr int kBarWidth = 30;

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

std::string LayerOf(const v1::Tune& tune) {
  const char* kind = tune.kind() == v1::JOB_KIND_AUDIT     ? "audit of "
                     : tune.kind() == v1::JOB_KIND_RECHECK ? "recheck of "
                                                           : "";
  if (!tune.has_problem()) return absl::StrCat(kind, "the tables");
  const absl::StatusOr<Problem> problem = ProblemFromProto(tune.problem());
  return absl::StrCat(kind, problem.ok()
                                ? DescribeProblem(*problem)
                                : "a layer that this hone does not know");
}

std::string StateOf(const v1::Tune& tune) {
  if (tune.already_fresh()) return "fresh";
  return absl::AsciiStrToLower(
      absl::StripPrefix(v1::TuneState_Name(tune.state()), "TUNE_STATE_"));
}

// "[#########---------------------]  31 %".
std::string Bar(int64_t done, int64_t total) {
  const double share =
      total > 0
          ? std::clamp(static_cast<double>(done) / static_cast<double>(total),
                       0.0, 1.0)
          : 0;
  const auto full = static_cast<size_t>(std::floor(share * kBarWidth));
  return absl::StrFormat("[%s%s] %3d %%", std::string(full, '#'),
                         std::string(kBarWidth - full, '-'),
                         static_cast<int>(std::floor(share * 100)));
}

std::string Trials(const v1::TuneProgress& progress) {
  std::string out = absl::StrCat(progress.trials(), " trials");
  if (progress.reused() > 0)
    absl::StrAppend(&out, " (", progress.reused(), " more known before)");
  return out;
}

std::string Kernels(const v1::TuneProgress& progress) {
  std::string out = absl::StrCat(progress.compiled(), " kernels");
  if (progress.failed() > 0)
    absl::StrAppend(&out, ", ", progress.failed(), " failed");
  return out;
}

void AddDevice(const v1::Device& device, std::vector<ScreenLine>& lines) {
  FieldErrors errors;
  const DeviceSpec spec = FromProto(device.spec(), "device", errors);
  lines.push_back({absl::StrCat("  ", DescribeDevice(spec), "  ", spec.uuid,
                                device.can_tune() ? "" : "  cannot tune"),
                   device.can_tune() ? Style::kPlain : Style::kBad});
  // The quarantine is among the reasons, and named as such.
  if (!device.can_tune())
    lines.push_back({absl::StrCat("    ", device.unavailable()), Style::kBad});
}

std::string WhoAsked(const v1::Tune& tune) {
  if (tune.idle()) return "while idle, by honed itself";
  return absl::StrCat(tune.callers(),
                      tune.callers() == 1 ? " caller" : " callers",
                      tune.detached() ? " (detached)" : "");
}

void AddRunning(const v1::Tune& tune, std::vector<ScreenLine>& lines) {
  const v1::TuneProgress& progress = tune.progress();
  lines.push_back({absl::StrCat("  running    ", LayerOf(tune)), Style::kHead});
  std::string text = absl::StrCat(
      "             ",
      absl::StrFormat(
          "%-8s", absl::AsciiStrToLower(absl::StripPrefix(
                      v1::TunePhase_Name(progress.phase()), "TUNE_PHASE_"))),
      Bar(progress.done(), progress.total()), "  ", progress.done(), "/",
      progress.total(), ", ", FormatTime(ToDuration(progress.elapsed())));
  if (progress.has_eta())
    absl::StrAppend(&text, ", ETA ", FormatTime(ToDuration(progress.eta())));
  lines.push_back({text});
  lines.push_back({absl::StrCat("             ", Kernels(progress), "; ",
                                Trials(progress), "; ", WhoAsked(tune))});
}

// How it went: times and trials, or why there is nothing.
std::string ResultOf(const v1::Tune& tune) {
  if (tune.already_fresh() || !tune.has_started_at()) return "";
  return absl::StrCat(
      ", ", FormatTime(ToTime(tune.ended_at()) - ToTime(tune.started_at())),
      ", ", Trials(tune.progress()));
}

void AddEnded(const v1::Tune& tune, absl::Time now,
              std::vector<ScreenLine>& lines) {
  const bool failed = tune.state() == v1::TUNE_STATE_FAILED;
  lines.push_back(
      {absl::StrCat("  ", absl::StrFormat("%-11s", StateOf(tune)),
                    LayerOf(tune), ResultOf(tune), ", ",
                    FormatTime(std::max(absl::ZeroDuration(),
                                        now - ToTime(tune.ended_at()))),
                    " ago"),
       failed ? Style::kBad : Style::kQuiet});
  if (failed && !tune.error().empty())
    lines.push_back({absl::StrCat("             ", tune.error()), Style::kBad});
}

void AddTunes(const std::vector<v1::Tune>& tunes, absl::Time now, size_t ended,
              std::vector<ScreenLine>& lines) {
  for (const v1::Tune& tune : tunes) {
    if (tune.state() == v1::TUNE_STATE_RUNNING) AddRunning(tune, lines);
  }
  // The next one first.
  int position = 0;
  for (auto tune = tunes.rbegin(); tune != tunes.rend(); ++tune) {
    if (tune->state() != v1::TUNE_STATE_QUEUED) continue;
    lines.push_back({absl::StrCat(
        "  queued ", absl::StrFormat("%-4d", ++position), LayerOf(*tune),
        ", waits for ",
        FormatTime(std::max(absl::ZeroDuration(),
                            now - ToTime(tune->submitted_at()))))});
  }
  size_t shown = 0, left = 0;
  for (const v1::Tune& tune : tunes) {
    if (tune.state() == v1::TUNE_STATE_RUNNING ||
        tune.state() == v1::TUNE_STATE_QUEUED)
      continue;
    if (shown < ended) {
      AddEnded(tune, now, lines);
      ++shown;
    } else {
      ++left;
    }
  }
  if (left > 0) {
    lines.push_back(
        {absl::StrCat("  and ", left, " that ended before"), Style::kQuiet});
  }
  if (tunes.empty())
    lines.push_back({"  no job since honed started", Style::kQuiet});
}

}  // namespace

std::vector<ScreenLine> RenderTop(const std::vector<TopNode>& nodes,
                                  absl::Time now, size_t ended) {
  std::vector<ScreenLine> lines;
  for (const TopNode& node : nodes) {
    if (!lines.empty()) lines.push_back({});
    lines.push_back({node.address, Style::kHead});
    if (!node.status.ok()) {
      lines.push_back({absl::StrCat("  ", node.status.message()), Style::kBad});
      continue;
    }
    for (const v1::Device& device : node.devices) AddDevice(device, lines);
    if (node.devices.empty())
      lines.push_back({"  no device; lookups only", Style::kBad});
    AddTunes(node.tunes, now, ended, lines);
  }
  return lines;
}

Json TopNodeJson(const TopNode& node) {
  std::vector<Json> devices;
  for (const v1::Device& device : node.devices)
    devices.push_back(ToJson(device, /*indented=*/false));
  std::vector<Json> tunes;
  for (const v1::Tune& tune : node.tunes)
    tunes.push_back(ToJson(tune, /*indented=*/false));
  return JsonObject()
      .Add("address", node.address)
      .Add("error", std::string(node.status.message()))
      .Add("devices", JsonArray(devices))
      .Add("tunes", JsonArray(tunes))
      .Build();
}

}  // namespace hone
