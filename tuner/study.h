// Study: tuning kernels that are not Hone's, with its search and its races.
//
// A caller declares a space (tuner/study_space.h), measures what it is asked to
// and reports. A study goes through the steps of a session (tuner/session.h) at
// one point: batches of configs are scouted in short races (tuner/race.h), the
// surrogate (tuner/surrogate.h) predicts the rest and the next batch is chosen
// by it (tuner/choose.h) with a few drawn at random; then those near the best
// are raced to a decision, judged as a dispatch table's kernels are
// (tuner/cover.h). The baseline is in every race.
#ifndef HONE_TUNER_STUDY_H_
#define HONE_TUNER_STUDY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tuner/race.h"
#include "tuner/study_space.h"
#include "tuner/trial.h"

namespace hone {

struct StudySpec {
  // What is tuned, in the caller's words, and on what: failures are remembered
  // by both. 1 to 256 bytes of printable ASCII each.
  std::string problem;
  std::string device;
  std::vector<StudyParameter> parameters;
  std::vector<StudyExclusion> exclusions;
  // In every race; wins ties. A config of the space.
  StudySettings baseline;
  // Configs to measure at most, 2 to 512, and how many are scouted at once
  // besides the baseline, 1 to 64.
  int64_t max_configs = 64;
  int64_t batch_size = 8;
  // Of the random draws.
  uint64_t seed = 1;
  friend bool operator==(const StudySpec&, const StudySpec&) = default;
};

enum class StudyPhase : uint8_t {
  kScout,    // few samples of many configs
  kRace,     // many of the best
  kDecided,  // nothing is left to measure
};

// How the answer was found.
enum class StudyDecision : uint8_t {
  // Not yet: it is the best so far.
  kUndecided,
  // More rounds would hardly tell more.
  kRaceSettled,
  // The race came to its last round.
  kRoundLimit,
  // No config but the best works.
  kOnlyOne,
  // No config works.
  kNoneWorks,
};

// Rounds to measure: each config of `order` once, in that order.
struct StudyRound {
  int32_t round = 0;
  std::vector<size_t> order;
};

// One report of one config: samples of rounds asked for, or that it failed.
struct StudyResult {
  size_t config = 0;
  // kMeasured or a failure, for which there are no samples.
  Outcome outcome = Outcome::kMeasured;
  std::string detail;
  // By rising round.
  std::vector<Sample> samples;
};

struct StudyAnswer {
  StudyDecision decision = StudyDecision::kUndecided;
  // Empty while nothing was measured, and when nothing works.
  std::optional<size_t> best;
  // Of the best; m, floor_ns and ties are not used. default_* are the
  // baseline's.
  Evidence evidence;
  // Configs within the tie bound of the fastest, the best left out, rising.
  std::vector<size_t> ties;
};

// A value that advances with what is reported; the same spec and results in
// the same order make the same study. Not thread-safe.
class Study {
 public:
  // InvalidArgument's message starts with the field that is wrong.
  static absl::StatusOr<Study> Create(StudySpec spec);

  // Takes one result. False when all of it was known already. Samples may come
  // in any portions; a failure of any config, whenever it is found. A study
  // moves on when every config of the rounds that are asked for has all
  // samples or failed. InvalidArgument's message starts with the field,
  // "samples", "outcome" or "detail"; then nothing has changed.
  absl::StatusOr<bool> Report(const StudyResult& result);

  // What to measure now; empty when decided.
  const std::vector<StudyRound>& rounds() const { return rounds_; }

  const StudySpec& spec() const { return spec_; }
  const StudySpace& space() const { return *space_; }
  size_t baseline() const { return baseline_; }
  StudyPhase phase() const { return phase_; }
  StudyAnswer Answer() const;

  // What is known of every config that was asked for or failed.
  struct Known {
    // kMeasured without samples: asked for.
    Outcome outcome = Outcome::kMeasured;
    std::string detail;
    // By round.
    std::map<int32_t, Sample> samples;
    // Median of the paired ratios to the baseline while scouting, times the
    // baseline's median; 0 when there is none.
    double scouted_ns = 0;
  };
  const std::map<size_t, Known>& known() const { return known_; }

 private:
  Study() = default;

  bool Works(size_t config) const;
  // Whether `config` is to be measured in the round.
  bool IsAsked(size_t config, int32_t round) const;
  absl::Status Advance();
  absl::Status FeedRace();
  void TakeScouted();
  void StartRace(const std::vector<size_t>& entrants);
  void AskRounds();
  std::vector<size_t> ChooseScouts();
  std::vector<size_t> ChooseRacers() const;

  StudySpec spec_;
  std::shared_ptr<const StudySpace> space_;
  RaceOptions options_;
  size_t baseline_ = 0;
  StudyPhase phase_ = StudyPhase::kScout;
  std::mt19937_64 random_;
  std::map<size_t, Known> known_;
  // Distinct configs asked for so far.
  int64_t asked_ = 0;
  std::vector<StudyRound> rounds_;
  int32_t next_round_ = 0;
  std::optional<Race> race_;
  // The config of each of the race's entrants.
  std::vector<size_t> entrants_;
};

}  // namespace hone

#endif  // HONE_TUNER_STUDY_H_
