#include "service/cli/format.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace hone {
namespace {

// Characters of UTF-8 text.
size_t Width(absl::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (c & 0xc0) != 0x80; });
}

std::string Upper(absl::string_view text) {
  return absl::AsciiStrToUpper(text);
}

std::vector<TextTable::Column> EvidenceColumns() {
  return {{"M range"},          {"M", true},        {"config"},
          {"time µs", true},    {"floor µs", true}, {"of floor", true},
          {"default µs", true}, {"margin", true},   {"samples", true}};
}

// One row per ladder point; range and config stand in the first.
void AddEvidence(const std::string& range, const std::string& config,
                 const std::vector<Evidence>& evidence, TextTable& table) {
  if (evidence.empty())
    table.AddRow({range, "-", config, "-", "-", "-", "-", "-", "-"});
  bool first = true;
  for (const Evidence& e : evidence) {
    table.AddRow({first ? range : "", absl::StrCat(e.m), first ? config : "",
                  FormatUs(e.median_ns), FormatUs(e.floor_ns),
                  FormatFraction(e.floor_ns, e.median_ns),
                  FormatUs(e.default_median_ns),
                  e.default_median_ns > 0 ? FormatMargin(e.margin) : "-",
                  absl::StrCat(e.samples)});
    first = false;
  }
}

std::string Bound(const Provenance& provenance) {
  if (provenance.regret_bound) {
    return absl::StrFormat("regret  at most %.1f %%, %s\n",
                           100 * provenance.regret_bound->regret,
                           provenance.regret_bound->how);
  }
  const bool wanted = provenance.match == MatchKind::kBucket ||
                      provenance.match == MatchKind::kNeighbour ||
                      provenance.match == MatchKind::kSiblingDevice;
  return wanted ? "regret  no bound is known\n" : "";
}

std::string Notes(const Provenance& provenance) {
  std::string out;
  for (const std::string& note : provenance.notes)
    absl::StrAppend(&out, "note    ", note, "\n");
  return out;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns)
    : columns_(std::move(columns)) {}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::Render() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(Width(columns_[c].header));
    for (const auto& row : rows_)
      widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string out;
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string padding(widths[c] - Width(cell), ' ');
      if (c > 0) text += "  ";
      text += columns_[c].right ? padding + cell : cell + padding;
    }
    absl::StripTrailingAsciiWhitespace(&text);
    absl::StrAppend(&out, text, "\n");
  };
  line([&](size_t c) -> const std::string& { return columns_[c].header; });
  for (const auto& row : rows_)
    line([&](size_t c) -> const std::string& { return row[c]; });
  return out;
}

std::string ShortConfig(const TuningConfig& config) {
  std::string out = absl::StrFormat(
      "%dx%dx%d w%dx%dx%d s%d ", config.block_m, config.block_n, config.block_k,
      config.warp_m, config.warp_n, config.warp_k, config.stages);
  if (config.split == Split::kStreamK) {
    absl::StrAppend(&out, "sk", config.split_k);
  } else {
    absl::StrAppend(&out, "k", config.split_k);
  }
  if (config.mma != MmaInstruction::kMmaSync)
    absl::StrAppend(&out, " ", ToString(config.mma), config.mmas_in_flight);
  const std::pair<const char*, Producer> producers[] = {
      {" a:", config.producer_a},
      {" b:", config.producer_b},
      {" scale:", config.producer_scale}};
  for (const auto& [name, producer] : producers) {
    if (producer != Producer::kCpAsync)
      absl::StrAppend(&out, name, ToString(producer));
  }
  if (config.warp_specialized) out += " ws";
  if (config.ctas_per_sm != 1) absl::StrAppend(&out, " c", config.ctas_per_sm);
  if (config.cluster_m != 1 || config.cluster_n != 1)
    absl::StrAppend(&out, " cl", config.cluster_m, "x", config.cluster_n);
  if (config.raster == RasterOrder::kAlongN) out += " rn";
  return out;
}

std::string ShortConfig(absl::string_view canonical) {
  const absl::StatusOr<TuningConfig> config = TuningConfig::Parse(canonical);
  return config.ok() ? ShortConfig(*config) : std::string(canonical);
}

std::string DescribeProblem(const Problem& problem) {
  const LayerConfig& layer = problem.layer;
  std::string out = absl::StrCat(layer.n, "x", layer.k, " ", layer.b.ToString(),
                                 " ", ToString(layer.b_scale));
  if (layer.b_group != 0) absl::StrAppend(&out, " ", layer.b_group);
  absl::StrAppend(&out, ", ", layer.a.ToString(), " activations");
  if (layer.bias) out += ", bias";
  if (problem.compute.batch_invariant) out += ", batch-invariant";
  if (layer.experts != 1)
    absl::StrAppend(&out, ", ", layer.experts, " experts");
  if (problem.compute.gemm != GemmType::kDense)
    absl::StrAppend(&out, ", ", ToString(problem.compute.gemm));
  return out;
}

std::string DescribeDevice(const DeviceSpec& device) {
  // The names of modelled devices say it themselves.
  const bool unsaid =
      device.modelled() && !absl::StrContains(device.name, "MODELLED");
  return absl::StrCat(device.name, " (sm_", device.sm_arch, ", ",
                      device.sm_count, " SMs)", unsaid ? ", MODELLED" : "");
}

std::string Marks(const Provenance& provenance) {
  std::string out = absl::StrCat(ToString(provenance.match), ", gate ",
                                 Upper(ToString(provenance.gate)),
                                 ", revision ", provenance.revision);
  if (provenance.modelled) out += ", MODELLED";
  if (!provenance.verified) out += ", unverified";
  if (provenance.stale) out += ", stale";
  return out;
}

std::string FormatUs(int64_t ns) {
  return ns <= 0 ? "-" : absl::StrFormat("%.2f", ns / 1000.0);
}

std::string FormatFraction(int64_t part_ns, int64_t whole_ns) {
  if (part_ns <= 0 || whole_ns <= 0) return "-";
  return absl::StrFormat("%.0f %%", 100.0 * part_ns / whole_ns);
}

std::string FormatMargin(double margin) {
  const double percent = std::round(1000 * margin) / 10;
  return absl::StrFormat("%+.1f %%", percent == 0 ? 0.0 : percent);
}

std::string FormatRange(int64_t m_lo, int64_t m_hi) {
  if (m_hi == 0) return absl::StrCat(m_lo, " up");
  return m_lo == m_hi ? absl::StrCat(m_lo) : absl::StrCat(m_lo, "-", m_hi);
}

std::string FormatTime(absl::Duration duration) {
  const int64_t seconds =
      absl::ToInt64Seconds(duration + absl::Milliseconds(500));
  if (seconds < 60) return absl::StrFormat("%d s", seconds);
  if (seconds < 3600)
    return absl::StrFormat("%d min %02d s", seconds / 60, seconds % 60);
  return absl::StrFormat("%d h %02d min", seconds / 3600, seconds / 60 % 60);
}

int64_t CountKernels(const DispatchTable& table) {
  std::set<std::string> kernels;
  for (const TableEntry& entry : table.entries) {
    kernels.insert(entry.compile.kernel_id.empty() ? entry.config.ToString()
                                                   : entry.compile.kernel_id);
  }
  return static_cast<int64_t>(kernels.size());
}

std::string RenderTableHead(const TableAnswer& answer) {
  const DispatchTable& table = answer.table;
  const int64_t kernels = CountKernels(table);
  std::string out = absl::StrCat(
      "layer   ", DescribeProblem(table.problem), "\n", "device  ",
      DescribeDevice(table.device), "\n", "answer  ", Marks(answer.provenance),
      ", ", kernels, kernels == 1 ? " kernel" : " kernels", "\n");
  const Provenance& provenance = answer.provenance;
  if (provenance.match == MatchKind::kNeighbour ||
      provenance.match == MatchKind::kSiblingDevice) {
    absl::StrAppend(&out, "from    ", provenance.matched_problem, " on ",
                    provenance.matched_device, "\n");
  }
  return absl::StrCat(out, Bound(provenance), Notes(provenance));
}

std::string RenderTable(const TableAnswer& answer) {
  TextTable text(EvidenceColumns());
  for (const TableEntry& entry : answer.table.entries) {
    AddEvidence(FormatRange(entry.m_lo, entry.m_hi), ShortConfig(entry.config),
                entry.evidence, text);
  }
  return absl::StrCat(RenderTableHead(answer), "\n", text.Render());
}

std::string RenderTradeOff(const DispatchTable& table) {
  if (table.trade_off.size() < 2) return "";
  const int64_t kernels = CountKernels(table);
  TextTable text({{"kernels", true},
                  {"slower on average", true},
                  {"at worst", true},
                  {"compiled in", true}});
  for (const TradeOffPoint& point : table.trade_off) {
    text.AddRow(
        {absl::StrCat(point.kernels, point.kernels == kernels ? " *" : ""),
         absl::StrFormat("%.1f %%", point.mean_regret * 100),
         absl::StrFormat("%.1f %%", point.worst_regret * 100),
         point.compile_ms > 0
             ? absl::StrFormat("%.1f s",
                               static_cast<double>(point.compile_ms) / 1000)
             : "-"});
  }
  return absl::StrCat(
      "\nTables of fewer kernels (hone tune --table-kernels), against the "
      "fastest measured\nat each M; * as many as this table has:\n",
      text.Render());
}

std::string RenderConfig(const Problem& problem, int64_t m,
                         const ConfigAnswer& answer) {
  std::string out =
      absl::StrCat("layer   ", DescribeProblem(problem), "\n", "M       ", m,
                   "\n", "config  ", answer.config.ToString(), "\n", "answer  ",
                   Marks(answer.provenance), "\n");
  if (!answer.provenance.matched_device.empty()) {
    absl::StrAppend(&out, "from    ", answer.provenance.matched_problem, " on ",
                    answer.provenance.matched_device, "\n");
  }
  if (!answer.compile.cubin_hash.empty()) {
    absl::StrAppend(&out, "kernel  ", answer.compile.registers, " registers, ",
                    answer.compile.spill_bytes, " bytes spilled, ",
                    answer.compile.smem_bytes, " bytes of shared memory\n");
  }
  absl::StrAppend(&out, Bound(answer.provenance), Notes(answer.provenance),
                  "\n");
  TextTable text(EvidenceColumns());
  AddEvidence(FormatRange(answer.m_lo, answer.m_hi), ShortConfig(answer.config),
              answer.evidence, text);
  return out + text.Render();
}

std::string RenderProgress(const v1::TuneProgress& progress) {
  const auto duration = [](const google::protobuf::Duration& value) {
    return absl::Seconds(value.seconds()) + absl::Nanoseconds(value.nanos());
  };
  const std::string phase = absl::AsciiStrToLower(
      absl::StripPrefix(v1::TunePhase_Name(progress.phase()), "TUNE_PHASE_"));
  std::string out =
      absl::StrCat(phase, " ", progress.done(), "/", progress.total(), ", ",
                   progress.compiled(), " kernels");
  if (progress.failed() > 0)
    absl::StrAppend(&out, " (", progress.failed(), " failed)");
  if (progress.m() > 0) {
    absl::StrAppend(&out, ", M=", progress.m(), " ",
                    ShortConfig(progress.best_config()), " ",
                    FormatUs(progress.best_ns()), " µs (default ",
                    FormatUs(progress.default_ns()), ")");
  }
  absl::StrAppend(&out, ", ", FormatTime(duration(progress.elapsed())));
  if (progress.has_eta())
    absl::StrAppend(&out, ", ETA ", FormatTime(duration(progress.eta())));
  return out;
}

}  // namespace hone
