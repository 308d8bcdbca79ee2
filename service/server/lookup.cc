#include "service/server/lookup.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

// log2 of the largest distance to a neighbour.
constexpr double kMaxDistance = 2.0;
// Bounds of neighbours are of classes of distance, so wide each.
constexpr double kDistanceClass = 0.25;
// A table that is left out is answered by so many others, at most.
constexpr size_t kPairsOfATable = 4;

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

size_t DistanceClass(double distance) {
  return static_cast<size_t>(distance / kDistanceClass);
}

std::string NeighbourKey(const DispatchTable& table) {
  return absl::StrCat(TypesKey(table.problem), "|", table.device.ClassText());
}

std::string SiblingKey(const DeviceSpec& device) {
  return absl::StrCat(device.modelled(), "|", device.sm_arch);
}

RegretBound ToRegretBound(const TransferBound& bound,
                          absl::string_view differs) {
  return {
      bound.regret, bound.pairs,
      absl::StrCat("leaving tuned tables out in turn: ",
                   static_cast<int>(100 * kTransferQuantile), " % of ",
                   bound.keys, " M where kernels tuned for another ", differs,
                   " were measured, in ", bound.pairs, " pairs of tables; at ",
                   bound.unmeasured, " M they were not")};
}

}  // namespace

bool AllLegal(const DispatchTable& table, const Problem& problem,
              const DeviceSpec& device) {
  if (table.entries.empty()) return false;
  return std::all_of(table.entries.begin(), table.entries.end(),
                     [&](const TableEntry& entry) {
                       return !CheckConfig(problem, device, entry.config);
                     });
}

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
                         std::string source_closure,
                         std::vector<TrialTimes> times)
    : tables_(std::move(tables)),
      revision_(revision),
      source_closure_(std::move(source_closure)) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    const DispatchTable& table = tables_[i].table;
    own_.emplace(OwnKey(table.problem, table.device), i);
    same_problem_[table.problem.ToString()].push_back(i);
    same_types_[TypesKey(table.problem)].push_back(i);
  }
  times.resize(tables_.size());
  FindBounds(times);
}

void LookupIndex::FindBounds(const std::vector<TrialTimes>& times) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    // Times of older sources bound nothing of today's kernels.
    bucket_bounds_.push_back(IsStale(tables_[i])
                                 ? std::vector<BucketBound>()
                                 : BucketBounds(tables_[i].table, times[i]));
  }
  // By class of distance.
  using Classes = std::map<size_t, std::vector<Transfer>>;
  absl::flat_hash_map<std::string, Classes> neighbours;
  absl::flat_hash_map<std::string, Classes> siblings;
  // Each tuned table is left out in turn, and answered by the nearest others;
  // stale ones neither way.
  using Others = std::vector<std::pair<double, const DispatchTable*>>;
  const auto leave_out = [&](size_t out, Others others, Classes& classes) {
    const DispatchTable& own = tables_[out].table;
    std::stable_sort(
        others.begin(), others.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<const DispatchTable*> answering;
    std::vector<size_t> of_class;
    for (const auto& [distance, other] : others) {
      if (answering.size() == kPairsOfATable) break;
      if (other->protocol == own.protocol &&
          AllLegal(*other, own.problem, own.device)) {
        answering.push_back(other);
        of_class.push_back(DistanceClass(distance));
      }
    }
    std::vector<Transfer> transfers = TransfersOf(own, times[out], answering);
    for (size_t i = 0; i < transfers.size(); ++i)
      classes[of_class[i]].push_back(std::move(transfers[i]));
  };
  for (const auto& [types, members] : same_types_) {
    for (const size_t out : members) {
      if (IsStale(tables_[out])) continue;
      const DispatchTable& own = tables_[out].table;
      const std::string device = own.device.ClassText();
      Others others;
      for (const size_t by : members) {
        const DispatchTable& other = tables_[by].table;
        const double distance =
            Distance(own.problem.layer, other.problem.layer);
        if (by != out && !IsStale(tables_[by]) && distance <= kMaxDistance &&
            other.device.ClassText() == device) {
          others.emplace_back(distance, &other);
        }
      }
      leave_out(out, std::move(others), neighbours[NeighbourKey(own)]);
    }
  }
  for (const auto& [problem, members] : same_problem_) {
    for (const size_t out : members) {
      if (IsStale(tables_[out])) continue;
      const DeviceSpec& device = tables_[out].table.device;
      const std::string key = SiblingKey(device);
      Others others;
      for (const size_t by : members) {
        const DeviceSpec& other = tables_[by].table.device;
        if (by != out && !IsStale(tables_[by]) && key == SiblingKey(other)) {
          others.emplace_back(std::abs(other.sm_count - device.sm_count),
                              &tables_[by].table);
        }
      }
      leave_out(out, std::move(others), siblings[key]);
    }
  }
  // The farther apart, the less a kernel suits: of an answer's bound are the
  // pairs of its class and of those beyond.
  for (auto& [key, classes] : neighbours) {
    std::vector<Transfer> transfers;
    std::vector<std::optional<TransferBound>>& bounds = neighbour_bounds_[key];
    bounds.resize(DistanceClass(kMaxDistance) + 1);
    for (size_t i = bounds.size(); i-- > 0;) {
      for (Transfer& transfer : classes[i])
        transfers.push_back(std::move(transfer));
      bounds[i] = BoundOf(transfers);
    }
  }
  for (auto& [key, classes] : siblings) {
    std::vector<Transfer> transfers;
    for (auto& [distance, of_class] : classes) {
      for (Transfer& transfer : of_class)
        transfers.push_back(std::move(transfer));
    }
    if (const auto bound = BoundOf(transfers)) sibling_bounds_[key] = *bound;
  }
}

std::optional<RegretBound> LookupIndex::BoundAt(const Found& found,
                                                int64_t m) const {
  // Nothing is known of today's kernels.
  if (found.stored != nullptr && IsStale(*found.stored)) return std::nullopt;
  switch (found.match) {
    case MatchKind::kExact:
    case MatchKind::kBucket: {
      const BucketBound* bound = FindBound(
          bucket_bounds_[static_cast<size_t>(found.stored - tables_.data())],
          m);
      if (bound == nullptr) return std::nullopt;
      return RegretBound{
          bound->regret, 0,
          bound->below == bound->above
              ? absl::StrCat("measured at this M, against the fastest at the "
                             "ladder point before")
              : absl::StrCat(
                    "if the kernel takes no longer here than at the slower of ",
                    bound->below, " and ", bound->above,
                    ", where it was measured, and no kernel less than the "
                    "fastest at the ladder point before")};
    }
    case MatchKind::kNeighbour: {
      const auto bound =
          neighbour_bounds_.find(NeighbourKey(found.stored->table));
      if (bound == neighbour_bounds_.end()) return std::nullopt;
      const auto& of_class = bound->second[DistanceClass(found.distance)];
      if (!of_class) return std::nullopt;
      return ToRegretBound(*of_class, "N and K, about as far away or farther,");
    }
    case MatchKind::kSiblingDevice: {
      const auto bound =
          sibling_bounds_.find(SiblingKey(found.stored->table.device));
      if (bound == sibling_bounds_.end()) return std::nullopt;
      return ToRegretBound(bound->second, "device");
    }
    case MatchKind::kHeuristic:
      break;
  }
  return std::nullopt;
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
      for (std::string& difference : stored.DifferencesFor(device))
        found.notes.push_back(std::move(difference));
      return found;
    }
    found.notes.push_back(
        "the problem's own table holds a config that is no longer legal; tune "
        "again");
  }
  if ((found.stored = FindNeighbour(problem, device)) != nullptr) {
    found.match = MatchKind::kNeighbour;
    found.distance = Distance(found.stored->table.problem.layer, problem.layer);
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

std::shared_ptr<const DispatchTable> LookupIndex::Defaults(
    const Problem& problem, const DeviceSpec& device) const {
  constexpr size_t kMost = 256;
  const std::string key = absl::StrCat(
      problem.ToString(), "|", device.ClassText(), "|", device.SoftText(), "|",
      device.memory_gbps, "|", device.max_clock_khz, "|", device.name);
  {
    absl::MutexLock lock(&defaults_->mutex);
    const auto known = defaults_->tables.find(key);
    if (known != defaults_->tables.end()) return known->second;
  }
  auto table =
      std::make_shared<const DispatchTable>(HeuristicTable(problem, device));
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
  answer.provenance.regret_bound = BoundAt(found, 0);
  if (found.stored == nullptr) {
    answer.table = *Defaults(problem, device);
    answer.table.device = device;
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
  provenance.regret_bound = BoundAt(found, m);
  std::shared_ptr<const DispatchTable> defaults;
  if (found.stored == nullptr) defaults = Defaults(problem, device);
  const DispatchTable& table =
      defaults != nullptr ? *defaults : found.stored->table;
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
