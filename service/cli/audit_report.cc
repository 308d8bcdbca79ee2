#include "service/cli/audit_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "kernels/config/status_macros.h"
#include "service/cli/format.h"
#include "service/convert/config_convert.h"
#include "service/convert/table_convert.h"

namespace hone {
namespace {

// "+1.3 %": how far a ratio is from 1.
std::string Percent(double ratio) {
  return absl::StrFormat("%+.1f %%", 100 * (ratio - 1));
}

std::string Spread(const v1::AuditSpread& spread) {
  if (spread.points() == 0) return "not measured";
  return absl::StrCat("median ", Percent(spread.median()), ", 95th percentile ",
                      Percent(spread.percentile_95()), ", largest ",
                      Percent(spread.largest()), "; ", spread.points(), " M");
}

std::string Tunes(const v1::AuditReport& report) {
  std::string out;
  for (const v1::AuditTune& tune : report.tunes()) {
    const absl::Duration elapsed = absl::Seconds(tune.elapsed().seconds()) +
                                   absl::Nanoseconds(tune.elapsed().nanos());
    absl::StrAppend(&out, "tune    seed ", tune.seed(), ": ",
                    tune.distinct_kernels(), " kernels, ", tune.trials(),
                    " trials, ", FormatTime(elapsed),
                    tune.complete() ? "" : ", budget ended first",
                    "; over the best: ", Spread(tune.regret()), "\n");
  }
  return out;
}

// Of which part of the space, and whether all of that.
std::string Within(const v1::AuditReport& report) {
  std::string out;
  if (!report.within().empty()) {
    absl::StrAppend(&out, ", from the ", report.within_configs(), " with ",
                    report.within());
  }
  if (report.exhaustive()) absl::StrAppend(&out, " (all of them)");
  return out;
}

}  // namespace

std::string WithInterval(const v1::AuditRatio& ratio) {
  if (ratio.rounds() == 0) return "-";
  return absl::StrFormat("%+.1f (%+.1f to %+.1f) %%", 100 * (ratio.ratio() - 1),
                         100 * (ratio.low() - 1), 100 * (ratio.high() - 1));
}

absl::StatusOr<std::string> RenderAudit(const v1::AuditReport& report) {
  FieldErrors errors;
  const Problem problem = FromProto(report.problem(), "problem", errors);
  const DeviceSpec device = FromProto(report.device(), "device", errors);
  if (!errors.ok()) return errors.ToStatus();
  std::string out = absl::StrCat(
      "layer   ", DescribeProblem(problem), "\ndevice  ",
      DescribeDevice(device),
      device.driver.empty() ? "" : absl::StrCat(", driver ", device.driver),
      "\nmethod  protocol ", FromProto(report.protocol()).ToString(),
      "\n        ", report.kernels(), " of ", report.space(), " legal kernels",
      Within(report), ", ", report.failed(), " failed; ",
      report.screen_rounds(), " rounds screen, ", report.choice_rounds(),
      " choose, ", report.ratio_rounds(), " state ratios; intervals of ",
      absl::StrFormat("%.0f %%", 100 * report.confidence()), " each; seed ",
      report.seed(), "\ntable   ",
      report.revision() > 0
          ? absl::StrCat("published, revision ", report.revision())
          : "none is published; the first tune's stands in",
      report.source_closure() == report.table_source_closure()
          ? ""
          : ", made from other kernel sources",
      "\n", Tunes(report), "\n");
  absl::StrAppend(
      &out, "Regret  the table over the best kernel: ", Spread(report.regret()),
      "\nFlips   ", report.flips(), " of ", report.flip_pairs(),
      " pairs of tunes differ, ", report.flips_that_matter(),
      " M beyond a tie; the slowest tune's kernel over the fastest: ",
      Spread(report.tune_spread()), "\nReplay  ", report.same_kernels(), " of ",
      report.replayed_kernels(), " kernels compiled to the same, ",
      report.failed_kernels(),
      " failed; time over the stored one: ", Spread(report.replay()), "\n");
  if (!report.complete()) {
    absl::StrAppend(&out,
                    "The budget ended before all kernels and M were measured; "
                    "what is missing counts nowhere.\n");
  }
  TextTable table({{"M", true},
                   {"table µs", true},
                   {"best µs", true},
                   {"default µs", true},
                   {"regret", true},
                   {"below", true},
                   {"flips", true},
                   {"tunes apart", true},
                   {"replay", true},
                   {"MHz", true},
                   {"table"},
                   {"best"}});
  for (const v1::AuditPoint& point : report.points()) {
    const std::string serves = ShortConfig(point.table_config());
    const std::string best = ShortConfig(point.best_config());
    table.AddRow(
        {absl::StrCat(point.m()), FormatUs(point.table_ns()),
         FormatUs(point.best_ns()), FormatUs(point.default_ns()),
         WithInterval(point.regret()),
         point.regret_bound() > 0 ? Percent(point.regret_bound()) : "-",
         absl::StrCat(point.flips(), point.flip_matters() ? "!" : ""),
         WithInterval(point.tune_spread()), WithInterval(point.replay()),
         point.sm_clock_khz() > 0 ? absl::StrCat(point.sm_clock_khz() / 1000)
                                  : "-",
         serves, best == serves ? "same" : best});
  }
  return absl::StrCat(out, "\n", table.Render());
}

}  // namespace hone
