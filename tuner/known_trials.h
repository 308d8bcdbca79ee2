// What earlier trials say: those of earlier sessions, which a session reuses
// instead of measuring again, and the rounds that were used up.
//
// A session measures a kernel at one M up to three times: it scouts (a few
// rounds, to correct the model), races, and confirms. Each stage numbers its
// rounds from its own start, which is how a stored trial says what it was.
// Trials of rechecks (tuner/recheck.h) have a start of theirs: their times are
// of few kernels, apart from the others', and no session reuses them.
#ifndef HONE_TUNER_KNOWN_TRIALS_H_
#define HONE_TUNER_KNOWN_TRIALS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tuner/table_builder.h"
#include "tuner/trial.h"

namespace hone {

// The stage's map in PoolKernel that a trial with samples belongs to. Not for
// trials of rechecks.
Evidences StageOf(const Trial& trial);

// One session's; not thread-safe.
class KnownTrials {
 public:
  // Of circumstances (IsCircumstance()) only the rounds are kept: they are no
  // reason to leave a candidate out.
  void Add(Trial trial);

  // The failure of a source that did not compile; null when none is known.
  const Trial* FailedSource(const std::string& source_key) const;
  // A failure of a compiled kernel, at whichever M; null when none is known.
  const Trial* FailedKernel(const std::string& kernel_id) const;
  // Puts the kernel's measured trials into its maps; returns how many.
  int64_t Restore(PoolKernel& kernel) const;

  // Rounds used at an M in a stage are not used again, by whichever session:
  // no old sample may pair with a new one.
  int32_t NextRound(int64_t m, Evidences stage) const;
  int32_t NextRecheckRound(int64_t m) const;
  void NoteRounds(const Trial& trial);

 private:
  int32_t NextRound(int64_t m, int32_t first) const;

  std::map<std::string, Trial> failed_sources_;
  std::map<std::string, std::vector<Trial>> by_kernel_;
  // By M and the stage's first round.
  std::map<std::pair<int64_t, int32_t>, int32_t> next_round_;
};

}  // namespace hone

#endif  // HONE_TUNER_KNOWN_TRIALS_H_
