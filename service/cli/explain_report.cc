#include "service/cli/explain_report.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "service/cli/format.h"

namespace hone {
namespace {

std::string Us(double ns) { return absl::StrFormat("%.2f µs", ns / 1000); }
std::string Kb(double bytes) {
  return absl::StrFormat("%.1f KB", bytes / 1024);
}
std::string Percent(double share) {
  return absl::StrFormat("%.1f %%", 100 * share);
}

absl::string_view Plural(int64_t count) { return count == 1 ? "" : "s"; }

// Layer, M, device and config: what the rest is about.
std::string Head(const ExplainReport& report) {
  return absl::StrCat(
      "layer   ", DescribeProblem(report.problem), "\n", "M       ", report.m,
      "\n", "device  ", DescribeDevice(report.device), "\n", "config  ",
      report.config.ToString(), "\n", "        ", ShortConfig(report.config),
      "\n", "from    ", report.source, "\n");
}

JsonObject HeadJson(const ExplainReport& report) {
  return JsonObject()
      .Add("problem", report.problem.ToString())
      .Add("m", report.m)
      .Add("device", report.device.name)
      .Add("modelled_device", report.device.modelled())
      .Add("config", report.config.ToString())
      .Add("source", report.source);
}

// Sections of label, value and remark in one table, so that all align.
class Sheet {
 public:
  explicit Sheet(absl::string_view first)
      : table_({{std::string(first)}, {"", true}, {""}}) {}
  void Section(absl::string_view title) {
    table_.AddRow({});
    table_.AddRow({std::string(title)});
  }
  void Row(absl::string_view label, std::string value, std::string remark) {
    table_.AddRow(
        {absl::StrCat("  ", label), std::move(value), std::move(remark)});
  }
  std::string Render() const { return table_.Render(); }

 private:
  TextTable table_;
};

void AddTimes(const ExplainReport& report, Sheet& sheet) {
  const Explanation& e = report.explanation;
  const Floors& floors = e.floors;
  const bool memory = floors.memory_binds();
  sheet.Row("bytes floor", Us(floors.bytes_ns()),
            absl::StrFormat("%.4g MB, each byte once, at %.0f GB/s%s",
                            floors.bytes / 1e6, floors.memory_gbps,
                            memory ? "; binds" : ""));
  sheet.Row("MMA floor", Us(floors.mma_ns()),
            absl::StrFormat("%.4g G operations at %.0f T/s%s",
                            floors.operations / 1e9, floors.tflops,
                            memory ? "" : "; binds"));
  if (report.time.has_value()) {
    const EvidenceTime& time = *report.time;
    std::string how = absl::StrCat(time.modelled ? "MODELLED" : "measured");
    if (time.samples > 0) {
      absl::StrAppend(&how, ", median of ", time.samples, " sample",
                      Plural(time.samples));
    }
    if (time.low_ns > 0) {
      absl::StrAppend(&how, ", 95 % in ", FormatUs(time.low_ns), " to ",
                      Us(static_cast<double>(time.high_ns)));
    }
    const Achieved achieved = AchievedIn(floors, static_cast<double>(time.ns));
    sheet.Row("time", Us(static_cast<double>(time.ns)), how);
    sheet.Row("of floor", Percent(achieved.fraction),
              absl::StrFormat("%.2f TB/s, %.1f T operations/s",
                              achieved.tb_per_s, achieved.tflops));
    if (time.default_ns > 0) {
      sheet.Row("default", Us(static_cast<double>(time.default_ns)),
                "the untuned heuristic default in the same race");
    }
  } else {
    sheet.Row("time", "-", "not measured");
    sheet.Row("of floor", "-", "");
  }
  const Prediction& model = e.model;
  const Prediction::Stream limit = model.Limit();
  sheet.Row("model", Us(model.total_ns),
            absl::StrFormat(
                "MODELLED, limited by %s (%s); fixed %s%s", limit.name,
                Us(limit.ns), Us(model.fixed_ns),
                model.split_ns > 0
                    ? absl::StrCat(", summing splits ", Us(model.split_ns))
                    : ""));
}

std::string WavesRemark(const ExplainReport& report) {
  const Explanation& e = report.explanation;
  const int64_t sms = report.device.sm_count;
  if (e.waves.full == 0) {
    return absl::StrFormat(
        "one, %s of %d slots full%s", Percent(e.waves.last_fill), e.slots,
        e.pieces < sms
            ? absl::StrCat("; ", sms - e.pieces, " of ", sms, " SMs idle")
            : "");
  }
  if (e.waves.rest == 0)
    return absl::StrCat(e.waves.full, " of ", e.slots, " slots, all full");
  return absl::StrFormat("%d full of %d slots, and the last %s full",
                         e.waves.full, e.slots, Percent(e.waves.last_fill));
}

std::string SplitRemark(const ExplainReport& report) {
  const Explanation& e = report.explanation;
  if (report.config.split_k == 1) return "no workspace";
  if (report.config.workers() > 0) {
    return absl::StrCat(
        "stream-K: workers that share all steps; sums of cut "
        "tiles through a workspace of ",
        Kb(static_cast<double>(e.workspace_bytes)));
  }
  if (e.workspace_bytes == 0) return "summed in the cluster, no workspace";
  return absl::StrCat("summed through a workspace of ",
                      Kb(static_cast<double>(e.workspace_bytes)));
}

void AddWork(const ExplainReport& report, Sheet& sheet) {
  const Explanation& e = report.explanation;
  const TuningConfig& config = report.config;
  const int64_t math_warps = config.math_threads() / 32;
  std::string warps = absl::StrFormat(
      "%s, %d warp%s of %d x %d x %d", e.mma_shape, math_warps,
      Plural(math_warps), config.warp_m, config.warp_n, config.warp_k);
  if (config.warp_specialized) {
    absl::StrAppend(&warps, " and ", e.cta_warps - math_warps, " that load; ",
                    config.mmas_in_flight, " MMA groups in flight");
  }
  sheet.Row("engine", std::string(ToString(config.mma)), warps);
  sheet.Row("tiles", absl::StrFormat("%d x %d", e.m.tiles, e.n.tiles),
            absl::StrFormat("of %d tokens x %d channels, %d step%s of %d "
                            "columns",
                            config.block_m, config.block_n, e.k.tiles,
                            Plural(e.k.tiles), config.block_k));
  std::string ctas = absl::StrCat(config.threads(), " threads each");
  if (e.cluster > 1) absl::StrAppend(&ctas, ", clusters of ", e.cluster);
  if (e.ctas < e.pieces && config.workers() == 0) {
    absl::StrAppend(&ctas, "; take up to ", (e.pieces + e.ctas - 1) / e.ctas,
                    " tiles each");
  }
  sheet.Row("CTAs", absl::StrCat(e.ctas), ctas);
  sheet.Row("waves", absl::StrFormat("%.2f", e.waves.count),
            WavesRemark(report));
  sheet.Row("split", absl::StrCat(config.split_k), SplitRemark(report));
  std::string padding =
      absl::StrFormat("of the MMA: M fills %d of %d, N %d of %d rows",
                      e.m.length, e.m.covered, e.n.length, e.n.covered);
  if (e.k.length < e.k.covered) {
    absl::StrAppend(&padding, ", K ", e.k.length, " of ", e.k.covered,
                    " columns");
  }
  sheet.Row("padding", Percent(e.padding), padding);
}

std::string RegistersRemark(const ExplainReport& report) {
  const Explanation& e = report.explanation;
  std::string out = "a thread, ";
  if (report.footprint_origin == FootprintOrigin::kEstimated) {
    out += "estimated";
  } else {
    absl::StrAppend(
        &out, "compiled, ",
        e.footprint.spill_bytes == 0
            ? "no spills"
            : absl::StrCat(e.footprint.spill_bytes, " bytes spilled"),
        "; estimate ", e.estimated_registers);
  }
  if (e.warpgroups.reassigned) {
    absl::StrAppend(&out, "; setmaxnreg gives math ", e.warpgroups.math,
                    ", loads ", e.warpgroups.producer);
  }
  return out;
}

std::string OccupancyRemark(const Explanation& e) {
  const Occupancy& o = e.occupancy;
  const std::pair<absl::string_view, int64_t> limits[] = {
      {"registers", o.by_registers},
      {"shared memory", o.by_smem},
      {"threads", o.by_threads},
      {"CTA slots", o.by_slots},
      {"launch", o.by_launch}};
  std::vector<std::string> least;
  std::vector<std::string> all;
  for (const auto& [name, ctas] : limits) {
    if (name == "launch" && ctas == 0) continue;
    if (ctas == o.ctas) least.emplace_back(name);
    all.push_back(absl::StrCat(name, " ", ctas));
  }
  return absl::StrCat(o.ctas, o.ctas == 1 ? " fits" : " fit", ", limited by ",
                      absl::StrJoin(least, " and "), " (",
                      absl::StrJoin(all, ", "), ")");
}

absl::string_view InFlightVerdict(const Explanation& e) {
  if (e.in_flight < e.in_flight_least) return "too few for the full rate";
  if (e.in_flight < e.in_flight_wanted) return "just enough";
  return "enough";
}

void AddSm(const ExplainReport& report, Sheet& sheet) {
  const Explanation& e = report.explanation;
  const TuningConfig& config = report.config;
  sheet.Row("CTAs", absl::StrCat(e.running), OccupancyRemark(e));
  sheet.Row("warps", absl::StrFormat("%d of %d", e.running_warps, e.max_warps),
            absl::StrCat(Percent(static_cast<double>(e.running_warps) /
                                 static_cast<double>(e.max_warps)),
                         " occupancy"));
  sheet.Row("registers", absl::StrCat(e.footprint.registers),
            RegistersRemark(report));
  sheet.Row(
      "shared memory", Kb(static_cast<double>(e.footprint.smem_bytes)),
      absl::StrFormat("a CTA, of %s; %d stages of %s",
                      Kb(static_cast<double>(report.device.smem_optin_bytes)),
                      config.stages, Kb(static_cast<double>(e.stage_bytes))));
  sheet.Row(
      "in flight", Kb(e.in_flight),
      absl::StrFormat("%s: %d stage%s x %d CTA%s; %.0f GB/s x %.1f µs ask for "
                      "%s, bursts for %s",
                      InFlightVerdict(e), config.stages - 1,
                      Plural(config.stages - 1), e.running, Plural(e.running),
                      e.floors.memory_gbps, kLoadedLatencyNs / 1000,
                      Kb(e.in_flight_least), Kb(e.in_flight_wanted)));
}

Json TiledJson(const TiledLength& t) {
  return JsonObject()
      .Add("length", t.length)
      .Add("tiles", t.tiles)
      .Add("covered", t.covered)
      .Build();
}

Json TimeJson(const ExplainReport& report) {
  if (!report.time.has_value()) return {"null"};
  const EvidenceTime& time = *report.time;
  const Achieved achieved =
      AchievedIn(report.explanation.floors, static_cast<double>(time.ns));
  return JsonObject()
      .Add("median_ns", time.ns)
      .Add("origin", time.modelled ? "MODELLED" : "MEASURED")
      .Add("samples", time.samples)
      .Add("low_ns", time.low_ns)
      .Add("high_ns", time.high_ns)
      .Add("default_median_ns", time.default_ns)
      .Add("of_floor", achieved.fraction)
      .Add("tflops", achieved.tflops)
      .Add("tb_per_s", achieved.tb_per_s)
      .Build();
}

std::vector<Json> Quoted(const std::vector<std::string>& texts) {
  std::vector<Json> out;
  for (const std::string& text : texts) out.push_back(JsonString(text));
  return out;
}

}  // namespace

std::optional<EvidenceTime> TimeOf(const ConfigAnswer& answer,
                                   const TuningConfig& config,
                                   const TuningConfig& heuristic_default,
                                   int64_t m) {
  // The evidence of other answers is of another problem or device.
  const MatchKind match = answer.provenance.match;
  if (match != MatchKind::kExact && match != MatchKind::kBucket)
    return std::nullopt;
  for (const Evidence& e : answer.evidence) {
    if (e.m != m) continue;
    EvidenceTime time;
    time.samples = e.samples;
    time.modelled = answer.provenance.modelled;
    if (config == answer.config) {
      time.ns = e.median_ns;
      time.low_ns = e.low_ns;
      time.high_ns = e.high_ns;
      if (config != heuristic_default) time.default_ns = e.default_median_ns;
    } else if (config == heuristic_default) {
      time.ns = e.default_median_ns;
    }
    if (time.ns > 0) return time;
  }
  return std::nullopt;
}

std::string RenderReport(const ExplainReport& report) {
  Sheet sheet("Time");
  AddTimes(report, sheet);
  sheet.Section("Work");
  AddWork(report, sheet);
  sheet.Section("On an SM");
  AddSm(report, sheet);
  std::string out = Head(report);
  for (const std::string& note : report.notes)
    absl::StrAppend(&out, "note    ", note, "\n");
  return absl::StrCat(out, "\n", sheet.Render());
}

Json ReportJson(const ExplainReport& report) {
  const Explanation& e = report.explanation;
  const Floors& floors = e.floors;
  const Occupancy& o = e.occupancy;
  const Json floor = JsonObject()
                         .Add("bytes", static_cast<int64_t>(floors.bytes))
                         .Add("memory_gbps", floors.memory_gbps)
                         .Add("bytes_ns", floors.bytes_ns())
                         .Add("operations", floors.operations)
                         .Add("peak_tflops", floors.tflops)
                         .Add("mma_ns", floors.mma_ns())
                         .Add("ns", floors.ns())
                         .Add("binds", floors.memory_binds() ? "memory" : "mma")
                         .Build();
  const Json model = JsonObject()
                         .Add("total_ns", e.model.total_ns)
                         .Add("origin", "MODELLED")
                         .Add("limit", e.model.Limit().name)
                         .Add("limit_ns", e.model.Limit().ns)
                         .Add("fixed_ns", e.model.fixed_ns)
                         .Add("split_ns", e.model.split_ns)
                         .Build();
  const Json work =
      JsonObject()
          .Add("engine", ToString(report.config.mma))
          .Add("mma_shape", e.mma_shape)
          .Add("m", TiledJson(e.m))
          .Add("n", TiledJson(e.n))
          .Add("k", TiledJson(e.k))
          .Add("padding", e.padding)
          .Add("pieces", e.pieces)
          .Add("ctas", e.ctas)
          .Add("threads", report.config.threads())
          .Add("cluster", e.cluster)
          .Add("slots", e.slots)
          .Add("waves", e.waves.count)
          .Add("full_waves", e.waves.full)
          .Add("last_wave_fill", e.waves.last_fill)
          .Add("split_k", report.config.split_k)
          .Add("workspace_bytes", static_cast<int64_t>(e.workspace_bytes))
          .Build();
  const Json limits =
      JsonObject()
          .Add("registers", o.by_registers)
          .Add("shared_memory", o.by_smem)
          .Add("threads", o.by_threads)
          .Add("slots", o.by_slots)
          .Add("launch",
               o.by_launch > 0 ? Json{absl::StrCat(o.by_launch)} : Json{"null"})
          .Build();
  const bool compiled = report.footprint_origin == FootprintOrigin::kCompiled;
  const Json sm =
      JsonObject()
          .Add("ctas", o.ctas)
          .Add("limited_by", ToString(o.limit))
          .Add("limits", limits)
          .Add("running_ctas", e.running)
          .Add("running_warps", e.running_warps)
          .Add("max_warps", e.max_warps)
          .Add("registers", e.footprint.registers)
          .Add("registers_origin", compiled ? "COMPILED" : "ESTIMATED")
          .Add("estimated_registers", e.estimated_registers)
          .Add("spill_bytes", compiled
                                  ? Json{absl::StrCat(e.footprint.spill_bytes)}
                                  : Json{"null"})
          .Add("smem_bytes", e.footprint.smem_bytes)
          .Add("stages", report.config.stages)
          .Add("stage_bytes", e.stage_bytes)
          .Add("in_flight_bytes",
               static_cast<int64_t>(std::llround(e.in_flight)))
          .Add("in_flight_least_bytes",
               static_cast<int64_t>(std::llround(e.in_flight_least)))
          .Add("in_flight_wanted_bytes",
               static_cast<int64_t>(std::llround(e.in_flight_wanted)))
          .Build();
  return HeadJson(report)
      .Add("legal", true)
      .Add("floor", floor)
      .Add("time", TimeJson(report))
      .Add("model", model)
      .Add("work", work)
      .Add("sm", sm)
      .Add("notes", JsonArray(Quoted(report.notes)))
      .Build();
}

std::string RenderRefusals(const ExplainReport& report,
                           const std::vector<Refusal>& refusals) {
  std::string out = absl::StrCat(
      Head(report), "\nThe config is not legal. It breaks ", refusals.size(),
      refusals.size() == 1 ? " rule" : " rules", ":\n");
  for (const Refusal& refusal : refusals)
    absl::StrAppend(&out, "  ", refusal.rule, ": ", refusal.reason, "\n");
  return out;
}

Json RefusalsJson(const ExplainReport& report,
                  const std::vector<Refusal>& refusals) {
  std::vector<Json> rules;
  for (const Refusal& refusal : refusals) {
    rules.push_back(JsonObject()
                        .Add("rule", refusal.rule)
                        .Add("reason", refusal.reason)
                        .Build());
  }
  return HeadJson(report)
      .Add("legal", false)
      .Add("refusals", JsonArray(rules))
      .Build();
}

}  // namespace hone
