// Answers to lookups as plain values: what the server finds and the client
// gets.
#ifndef HONE_SERVICE_CONVERT_ANSWER_H_
#define HONE_SERVICE_CONVERT_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tuner/trial.h"

namespace hone {

// How an answer was found, best first.
enum class MatchKind : uint8_t {
  kExact,
  kBucket,
  kNeighbour,
  kSiblingDevice,
  kHeuristic,
};
// "EXACT", "BUCKET", "NEIGHBOUR", "SIBLING_DEVICE", "HEURISTIC".
absl::string_view ToString(MatchKind kind);

// How much slower than the fastest an answer may be that was not measured at
// its own M, problem or device; see tuner/regret_bound.h.
struct RegretBound {
  // Time over the fastest's, minus 1.
  double regret = 0;
  // Pairs of tables that it comes from; 0 for kBucket, which needs none.
  int64_t pairs = 0;
  // One sentence: how it was found.
  std::string how;
  friend bool operator==(const RegretBound&, const RegretBound&) = default;
};

struct Provenance {
  MatchKind match = MatchKind::kHeuristic;
  // Of the published tables; 0 when nothing was ever published.
  int64_t revision = 0;
  bool modelled = false;
  bool verified = false;
  // The kernels' sources changed since the table was made.
  bool stale = false;
  GateKind gate = GateKind::kNone;
  // Whose table answered; empty for kHeuristic.
  std::string matched_problem;
  std::string matched_device;
  // One sentence each.
  std::vector<std::string> notes;
  // For kBucket, kNeighbour and kSiblingDevice, where one is known.
  std::optional<RegretBound> regret_bound;
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

struct ConfigAnswer {
  TuningConfig config;
  // Inclusive range of M that the config answers; m_hi 0: without end.
  int64_t m_lo = 1;
  int64_t m_hi = 0;
  std::vector<Evidence> evidence;
  CompileInfo compile;
  Provenance provenance;
  friend bool operator==(const ConfigAnswer&, const ConfigAnswer&) = default;
};

struct TableAnswer {
  DispatchTable table;
  // match is kExact for the problem's own table, never kBucket.
  Provenance provenance;
  friend bool operator==(const TableAnswer&, const TableAnswer&) = default;
};

}  // namespace hone

#endif  // HONE_SERVICE_CONVERT_ANSWER_H_
