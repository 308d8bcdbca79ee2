#include "service/server/lookup.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

// log2 of the largest distance to a neighbour.
constexpr double kMaxDistance = 2.0;

std::string OwnKey(const Problem& problem, const DeviceSpec& device) {
  return absl::StrCat(problem.ToString(), "|", device.ClassText());
}

std::string TypesKey(Problem problem) {
  problem.layer.n = 0;
  problem.layer.k = 0;
  return problem.ToString();
}

double Distance(const LayerConfig& a, const LayerConfig& b) {
  const double n = std::log2(static_cast<double>(a.n) / b.n);
  const double k = std::log2(static_cast<double>(a.k) / b.k);
  return std::sqrt(n * n + k * k);
}

bool AllLegal(const DispatchTable& table, const Problem& problem,
              const DeviceSpec& device) {
  if (table.entries.empty()) return false;
  return std::all_of(table.entries.begin(), table.entries.end(),
                     [&](const TableEntry& entry) {
                       return !CheckConfig(problem, device, entry.config);
                     });
}

// "driver 580.65 here, 570.12 measured", one a field.
std::vector<std::string> SoftDifferences(const DeviceSpec& here,
                                         const DeviceSpec& measured) {
  std::vector<std::string> differences;
  const std::vector<std::string> a = absl::StrSplit(here.SoftText(), ',');
  const std::vector<std::string> b = absl::StrSplit(measured.SoftText(), ',');
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) continue;
    const std::pair<std::string, std::string> ours =
        absl::StrSplit(a[i], absl::MaxSplits('=', 1));
    const std::pair<std::string, std::string> theirs =
        absl::StrSplit(b[i], absl::MaxSplits('=', 1));
    differences.push_back(absl::StrCat(ours.first, " ", ours.second, " here, ",
                                       theirs.second, " measured"));
  }
  return differences;
}

}  // namespace

absl::Status CheckHasKernel(const Problem& problem, const DeviceSpec& device) {
  const absl::Status status = CheckProblem(problem, device);
  if (absl::IsInvalidArgument(status))
    return AsFieldViolation(status, "problem.");
  if (status.ok() || HasActivation(problem.layer.a, device))
    return WithReason(status, "NO_KERNEL");
  const absl::StatusOr<Fallback> next = NextComputable(problem, device);
  return WithReason(
      status, "NO_KERNEL",
      next.ok()
          ? std::map<std::string, std::string>{{"field", "problem.layer.a"},
                                               {"next_problem",
                                                next->problem.ToString()}}
          : std::map<std::string, std::string>{});
}

LookupIndex::LookupIndex(std::vector<StoredTable> tables, int64_t revision,
                         std::string source_closure)
    : tables_(std::move(tables)),
      revision_(revision),
      source_closure_(std::move(source_closure)) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    const DispatchTable& table = tables_[i].table;
    own_.emplace(OwnKey(table.problem, table.device), i);
    same_problem_[table.problem.ToString()].push_back(i);
    same_types_[TypesKey(table.problem)].push_back(i);
  }
}

bool LookupIndex::IsStale(const StoredTable& stored) const {
  return stored.table.source_closure != source_closure_;
}

const StoredTable* LookupIndex::FindNeighbour(const Problem& problem,
                                              const DeviceSpec& device) const {
  const auto candidates = same_types_.find(TypesKey(problem));
  if (candidates == same_types_.end()) return nullptr;
  const std::string device_class = device.ClassText();
  const StoredTable* best = nullptr;
  double best_distance = kMaxDistance;
  for (const size_t i : candidates->second) {
    const DispatchTable& table = tables_[i].table;
    const double distance = Distance(table.problem.layer, problem.layer);
    if (distance > best_distance || (best && distance == best_distance) ||
        table.device.ClassText() != device_class ||
        !AllLegal(table, problem, device)) {
      continue;
    }
    best = &tables_[i];
    best_distance = distance;
  }
  return best;
}

const StoredTable* LookupIndex::FindSibling(const Problem& problem,
                                            const DeviceSpec& device) const {
  const auto candidates = same_problem_.find(problem.ToString());
  if (candidates == same_problem_.end()) return nullptr;
  const StoredTable* best = nullptr;
  int64_t best_distance = 0;
  for (const size_t i : candidates->second) {
    const DeviceSpec& other = tables_[i].table.device;
    const int64_t distance = std::abs(other.sm_count - device.sm_count);
    if (other.kind != device.kind || other.sm_arch != device.sm_arch ||
        (best != nullptr && distance >= best_distance) ||
        !AllLegal(tables_[i].table, problem, device)) {
      continue;
    }
    best = &tables_[i];
    best_distance = distance;
  }
  return best;
}

const StoredTable* LookupIndex::Own(const Problem& problem,
                                    const DeviceSpec& device) const {
  const auto own = own_.find(OwnKey(problem, device));
  if (own == own_.end()) return nullptr;
  const StoredTable& stored = tables_[own->second];
  return AllLegal(stored.table, problem, device) ? &stored : nullptr;
}

absl::StatusOr<LookupIndex::Found> LookupIndex::Find(
    const Problem& problem, const DeviceSpec& device) const {
  HONE_RETURN_IF_ERROR(CheckHasKernel(problem, device));
  Found found;
  if (const auto own = own_.find(OwnKey(problem, device)); own != own_.end()) {
    const StoredTable& stored = tables_[own->second];
    if (AllLegal(stored.table, problem, device)) {
      found.stored = &stored;
      found.match = IsStale(stored) ? MatchKind::kBucket : MatchKind::kExact;
      if (found.match == MatchKind::kBucket) {
        found.notes.push_back(
            "the kernels' sources changed since this table was tuned; tune "
            "again");
      }
      for (std::string& difference :
           SoftDifferences(device, stored.table.device)) {
        found.notes.push_back(std::move(difference));
      }
      return found;
    }
    found.notes.push_back(
        "the problem's own table holds a config that is no longer legal; tune "
        "again");
  }
  if ((found.stored = FindNeighbour(problem, device)) != nullptr) {
    found.match = MatchKind::kNeighbour;
    return found;
  }
  if ((found.stored = FindSibling(problem, device)) != nullptr) {
    found.match = MatchKind::kSiblingDevice;
    const auto field =
        DeviceSpec::MismatchedField(device, found.stored->table.device);
    if (field)
      found.notes.push_back(absl::StrCat("the device differs: ", *field));
    return found;
  }
  found.notes.push_back("nothing was tuned for this problem; tune it");
  return found;
}

Provenance LookupIndex::Describe(const Found& found,
                                 const DeviceSpec& device) const {
  Provenance provenance;
  provenance.match = found.match;
  provenance.revision = revision_;
  provenance.modelled = device.modelled();
  provenance.notes = found.notes;
  if (found.stored == nullptr) return provenance;
  const DispatchTable& table = found.stored->table;
  const bool own =
      found.match == MatchKind::kExact || found.match == MatchKind::kBucket;
  provenance.verified = own && found.stored->verified;
  provenance.stale = IsStale(*found.stored);
  // A neighbour's kernels are specialised on another N and K: those of this
  // problem were never checked.
  provenance.gate =
      found.match == MatchKind::kNeighbour ? GateKind::kNone : table.gate;
  provenance.matched_problem = table.problem.ToString();
  provenance.matched_device = table.device.name;
  if (found.stored->origin == Origin::kImported && !found.stored->verified)
    provenance.notes.push_back("imported and not verified on this device");
  return provenance;
}

DispatchTable LookupIndex::Defaults(const Problem& problem,
                                    const DeviceSpec& device) const {
  constexpr size_t kMost = 256;
  const std::string key = absl::StrCat(
      problem.ToString(), "|", device.ClassText(), "|", device.SoftText(), "|",
      device.memory_gbps, "|", device.max_clock_khz, "|", device.name);
  {
    absl::MutexLock lock(&defaults_->mutex);
    const auto known = defaults_->tables.find(key);
    if (known != defaults_->tables.end()) {
      DispatchTable table = known->second;
      table.device = device;
      return table;
    }
  }
  DispatchTable table = HeuristicTable(problem, device);
  absl::MutexLock lock(&defaults_->mutex);
  if (defaults_->tables.size() >= kMost) defaults_->tables.clear();
  defaults_->tables.emplace(key, table);
  return table;
}

absl::StatusOr<TableAnswer> LookupIndex::GetTable(
    const Problem& problem, const DeviceSpec& device) const {
  HONE_ASSIGN_OR_RETURN(const Found found, Find(problem, device));
  TableAnswer answer;
  answer.provenance = Describe(found, device);
  if (found.stored == nullptr) {
    answer.table = Defaults(problem, device);
    return answer;
  }
  answer.table = found.stored->table;
  if (found.match == MatchKind::kNeighbour) {
    answer.table.problem = problem;
    answer.table.gate = GateKind::kNone;
    answer.table.trade_off.clear();
    for (TableEntry& entry : answer.table.entries) entry.compile = {};
  } else if (found.match == MatchKind::kSiblingDevice) {
    answer.table.device = device;
    answer.table.trade_off.clear();
  }
  return answer;
}

absl::StatusOr<ConfigAnswer> LookupIndex::GetConfig(const Problem& problem,
                                                    const DeviceSpec& device,
                                                    int64_t m) const {
  HONE_ASSIGN_OR_RETURN(const Found found, Find(problem, device));
  Provenance provenance = Describe(found, device);
  if (found.stored == nullptr) {
    const DispatchTable table = Defaults(problem, device);
    return AnswerAt({table, std::move(provenance)}, m);
  }
  const DispatchTable& table = found.stored->table;
  // One entry's answer does not need a copy of the table.
  TableAnswer slim;
  slim.table.ladder = table.ladder;
  slim.table.entries.push_back(*table.Find(m));
  slim.provenance = std::move(provenance);
  if (found.match == MatchKind::kNeighbour) slim.table.entries[0].compile = {};
  return AnswerAt(slim, m);
}

ConfigAnswer AnswerAt(const TableAnswer& answer, int64_t m) {
  const TableEntry& entry = *answer.table.Find(m);
  ConfigAnswer out;
  out.config = entry.config;
  out.m_lo = entry.m_lo;
  out.m_hi = entry.m_hi;
  out.compile = entry.compile;
  out.provenance = answer.provenance;
  const auto& ladder = answer.table.ladder;
  const bool on_ladder =
      std::find(ladder.begin(), ladder.end(), m) != ladder.end();
  if (out.provenance.match == MatchKind::kExact && !on_ladder)
    out.provenance.match = MatchKind::kBucket;
  // The ladder points that enclose M, as far as they use this config.
  const Evidence* below = nullptr;
  const Evidence* above = nullptr;
  for (const Evidence& evidence : entry.evidence) {
    if (evidence.m <= m) below = &evidence;
    if (evidence.m >= m && above == nullptr) above = &evidence;
  }
  if (below != nullptr) out.evidence.push_back(*below);
  if (above != nullptr && above != below) out.evidence.push_back(*above);
  return out;
}

DispatchTable HeuristicTable(const Problem& problem, const DeviceSpec& device) {
  DispatchTable table;
  table.problem = problem;
  table.device = device;
  table.protocol.timer = "none";
  table.gate = GateKind::kNone;
  table.ladder = DefaultLadder();
  int64_t next = 1;
  for (const int64_t m : table.ladder) {
    const TuningConfig config = HeuristicDefault(problem, device, m);
    if (table.entries.empty() || !(table.entries.back().config == config)) {
      TableEntry entry;
      entry.m_lo = next;
      entry.config = config;
      table.entries.push_back(std::move(entry));
    }
    table.entries.back().m_hi = m;
    next = m + 1;
  }
  table.entries.back().m_hi = 0;
  return table;
}

}  // namespace hone
