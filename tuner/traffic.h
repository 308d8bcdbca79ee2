// How often problems are called at each M, and where tuning pays: the order of
// problems, each one's time and each one's ladder. Pure functions and values.
#ifndef HONE_TUNER_TRAFFIC_H_
#define HONE_TUNER_TRAFFIC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace hone {

// After this long a call counts half.
inline constexpr absl::Duration kTrafficHalfLife = absl::Hours(7 * 24);

// A count that halves every kTrafficHalfLife. It is kept as of its last change,
// so that nothing has to be rewritten as time goes by.
struct DecayedCount {
  double weight = 0;
  // Of the weight, microseconds since 1970.
  int64_t unix_us = 0;

  // As of another moment. Before its own it is what it is: a clock that was set
  // back makes nothing heavier.
  double At(int64_t now_us) const;
  // Counts something that happened at a moment. What is older than the last
  // change counts as much less as it is older.
  void Add(double count, int64_t when_us);
  friend bool operator==(const DecayedCount&, const DecayedCount&) = default;
};

// Calls at one M.
struct MWeight {
  int64_t m = 0;
  double weight = 0;
  friend bool operator==(const MWeight&, const MWeight&) = default;
};

// At most `keep` ≥ 1 of a histogram's M, which rise. What an M weighs goes to
// the nearest kept M above, so that the sum stays; those go first that are rare
// and have one close above, so that little time is misplaced.
std::vector<MWeight> MergeRare(const std::vector<MWeight>& histogram,
                               size_t keep);

// Time of one call over M, nanoseconds: linear between known points, as the
// first below it, and in proportion to M beyond the last.
class TimeCurve {
 public:
  struct Point {
    int64_t m = 0;
    double ns = 0;
  };
  // Rising M, each at least 1. Without points every time is 0.
  explicit TimeCurve(std::vector<Point> points = {})
      : points_(std::move(points)) {}
  double At(int64_t m) const;
  bool empty() const { return points_.empty(); }

 private:
  std::vector<Point> points_;
};

// What a problem has for a table.
enum class TableState : uint8_t {
  kMissing,
  // The kernels' sources changed since.
  kStale,
  // Imported, and not tuned here.
  kUnverified,
  kFresh,
};
// "missing", "stale", "unverified", "fresh".
absl::string_view ToString(TableState state);

// One problem on one device class.
struct ProblemTraffic {
  TableState state = TableState::kMissing;
  // By rising M.
  std::vector<MWeight> calls;
  // Of what serves it now.
  TimeCurve times;
  // Lookups that no fresh table of the problem's own answered.
  double misses = 0;
};

// Σ weight × time, nanoseconds.
double TimeOf(const ProblemTraffic& traffic);

// The share of its time that a tune is expected to save. A prior, since nobody
// knows before the tune; 0 for a fresh table.
double ExpectedGain(TableState state);

struct PlanOptions {
  // For all tunes together, above 0.
  absl::Duration budget = absl::Minutes(10);
  // No tune is planned with less, unless the budget is.
  absl::Duration least = absl::Seconds(10);
  absl::Duration most = absl::Hours(24);
  // Ladder points of a tune, at least 8.
  size_t max_points = 24;
};

struct PlannedTune {
  // Index into what was planned for.
  size_t problem = 0;
  // Of all the time in it.
  double time_share = 0;
  // Of all the time too: time_share × ExpectedGain().
  double saving_share = 0;
  absl::Duration budget;
  std::vector<int64_t> ladder;
};

// The tunes that are worth their time, by what they are expected to save;
// equal ones, those that nobody reported calls of among them, by their misses.
// Budgets are in proportion to the saving, but at least `least`: when there is
// not enough for all, the last are left out.
std::vector<PlannedTune> PlanTunes(absl::Span<const ProblemTraffic> traffic,
                                   const PlanOptions& options = {});

// A rising ladder of at most `max_points` ≥ 8 that has its points where the
// time is spent: few points spread over all M, so that none is served badly,
// M that take much of the time by themselves, and those of the default ladder,
// and beyond its end, around which time is spent. The default ladder when no
// time is.
std::vector<int64_t> TrafficLadder(absl::Span<const MWeight> calls,
                                   const TimeCurve& times, size_t max_points);

}  // namespace hone

#endif  // HONE_TUNER_TRAFFIC_H_
