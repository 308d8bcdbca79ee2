// Race: which of several candidates is fastest at one M, and which cannot be.
//
// Candidates run in shuffled, interleaved rounds, so that drift hits all alike,
// and are compared by the log-ratios of samples of the same round. A candidate
// leaves when the anytime-valid lower bound of the median log-ratio to the
// leader exceeds the slack (tuner/statistics.h derives the bound and the error
// budget). The first rounds are a screen: a candidate whose best sample is far
// behind the leader's median leaves at once.
//
// Race is pure decision logic: it says what to time next and is told what came
// of it. RunRace() drives one through an Executor.
#ifndef HONE_TUNER_RACE_H_
#define HONE_TUNER_RACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/config/device_spec.h"
#include "tuner/executor.h"
#include "tuner/trial.h"

namespace hone {

struct RaceOptions {
  // A candidate may be this much slower than the best and still stay.
  double slack = 0.02;
  // Differences under max(tie · best, tie_floor_ns) are ties.
  double tie = 0.01;
  int64_t tie_floor_ns = 64;
  // Chance, per race, that the truly fastest candidate is dropped.
  double alpha = 0.01;
  // Chance that one upper bound misses by which a kernel is admitted to a
  // table (tuner/cover.h). Races go on until these bounds have decided.
  double admission_alpha = 0.05;
  // Rounds of the screen, and how far behind leaves in it.
  int32_t screen_rounds = 3;
  double screen_ratio = 1.5;
  // Rounds before the race may stop while several candidates live, and at
  // most.
  int32_t min_rounds = 12;
  int32_t max_rounds = 30;
  // Intervals of the median log-ratio narrower than ± this are good enough.
  double narrow = 0.004;
  // A round is repeated when its SM clock is off the race's median by more than
  // this share, at most max_repeats times a race, and when it was disturbed: a
  // slowdown, another process on the device, a worker lost. A race whose rounds
  // are disturbed more often than max_disturbed ends as Unavailable: nothing is
  // made of such samples.
  double clock_tolerance = 0.10;
  int32_t max_repeats = 10;
  int32_t max_disturbed = 10;
};

// How one entrant stands.
struct EntrantState {
  enum class Status : uint8_t {
    kLive,
    kDropped,      // slower than the leader beyond the slack
    kScreenedOut,  // far behind in the screen
    kFailed,       // did not run to the end of its call
  };
  Status status = Status::kLive;
  // Why, when kFailed.
  Outcome failure = Outcome::kMeasured;
  std::string detail;
  std::vector<Sample> samples;
};

class Race {
 public:
  // `protected_entrant` (the heuristic default) is timed in every round,
  // whatever it costs; -1 for none. `first_round` numbers the samples' rounds.
  Race(int entrants, int protected_entrant, const RaceOptions& options,
       int32_t first_round);

  // Entrants to time in the next round, shuffled; empty when the race is over.
  std::vector<int> NextOrder(std::mt19937_64& random);
  int32_t round() const { return round_; }

  // Takes the round's result. Returns the entrants that left with it. Internal
  // when the result does not fit the order. Unavailable: see
  // RaceOptions::max_repeats.
  absl::StatusOr<std::vector<int>> Report(const std::vector<int>& order,
                                          const RoundResult& result);

  // Takes an entrant out that failed outside of a round, for a caller that
  // measures on its own: the others' samples stay. Nothing happens unless it
  // is live.
  void Fail(int entrant, Outcome failure, const std::string& detail);

  bool over() const { return over_; }
  // Whether more rounds would hardly tell more: every live entrant's ratio to
  // the leader and to the protected entrant is known well enough. False before
  // min_rounds.
  bool Settled() const;
  // The live entrant with the lowest median; -1 when none lives.
  int leader() const;
  const std::vector<EntrantState>& entrants() const { return entrants_; }
  int32_t repeats() const { return repeats_; }
  int32_t disturbed() const { return disturbed_; }

 private:
  bool ClockIsOff(const RoundResult& result) const;
  std::vector<int> Screen();
  std::vector<int> DropSlow();
  // log(1 + share), where the share is at least the tie floor.
  double Bound(double share, double reference_ns) const;
  double PairAlpha() const;

  RaceOptions options_;
  int protected_entrant_;
  std::vector<EntrantState> entrants_;
  std::vector<double> round_clocks_;
  int32_t round_;
  int32_t admitted_ = 0;
  int32_t repeats_ = 0;
  // Rounds that were disturbed.
  int32_t disturbed_ = 0;
  // Candidates that share the error budget; fixed when the screen ends.
  int contenders_ = 0;
  bool over_ = false;
};

// Runs a race at one M to its end, or until `stop` says so (asked between
// rounds). `candidates[i]` is the executor's index of entrant i. `left` is
// called once for each entrant as it leaves, live ones at the end with the
// protected one last.
struct RaceRun {
  int64_t m = 0;
  std::vector<int> candidates;
  int protected_entrant = -1;
  int32_t first_round = 0;
  absl::Duration round_deadline = absl::Seconds(10);
  std::function<bool()> stop;
  std::function<absl::Status(int entrant, const EntrantState& state)> left;
  // Called for each interruption of a round that `entrant` was in; may be
  // empty.
  std::function<absl::Status(int entrant, const std::string& how)> interrupted;
  // How a race waits for a disturbance to pass.
  std::function<void(absl::Duration)> wait = absl::SleepFor;
};
// Deadlines far above what any correct candidate takes; a hang costs this long.
// Of one round, flushes included: `expected_ns` is the sum over the candidates.
absl::Duration RoundDeadline(size_t candidates, double expected_ns);
// Of one gate: `expected_ns` is that of a launch. The emulator, which stands in
// for a modelled device, takes seconds whatever the kernel.
absl::Duration GateDeadline(const DeviceSpec& device, double expected_ns);

// True when the race ended by itself, false when it was stopped. A stopped
// race reports nothing for entrants that were live: their evidence is partial.
absl::StatusOr<bool> RunRace(Executor& executor, const RaceRun& run,
                             const RaceOptions& options,
                             std::mt19937_64& random);

}  // namespace hone

#endif  // HONE_TUNER_RACE_H_
