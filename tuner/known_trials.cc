#include "tuner/known_trials.h"

#include <algorithm>

namespace hone {
namespace {

constexpr int32_t kConfirmRound = 1 << 20;
constexpr int32_t kScoutRound = 1 << 21;
constexpr int32_t kRecheckRound = 1 << 22;

int32_t FirstRound(Evidences stage) {
  if (stage == &PoolKernel::scouted) return kScoutRound;
  return stage == &PoolKernel::confirmed ? kConfirmRound : 0;
}

// Where the rounds start of what the trial is of.
int32_t FirstRound(const Trial& trial) {
  const int32_t round = trial.samples.empty() ? 0 : trial.samples.front().round;
  for (const int32_t first : {kRecheckRound, kScoutRound, kConfirmRound}) {
    if (round >= first) return first;
  }
  return 0;
}

bool IsFailure(const Trial& trial) {
  return trial.outcome != Outcome::kMeasured &&
         trial.outcome != Outcome::kScreenedOut;
}

}  // namespace

Evidences StageOf(const Trial& trial) {
  switch (FirstRound(trial)) {
    case kScoutRound:
      return &PoolKernel::scouted;
    case kConfirmRound:
      return &PoolKernel::confirmed;
    default:
      return &PoolKernel::raced;
  }
}

void KnownTrials::Add(Trial trial) {
  NoteRounds(trial);
  if (IsCircumstance(trial.outcome)) return;
  if (trial.compile.kernel_id.empty()) {
    failed_sources_[trial.compile.source_key] = std::move(trial);
  } else {
    by_kernel_[trial.compile.kernel_id].push_back(std::move(trial));
  }
}

const Trial* KnownTrials::FailedSource(const std::string& source_key) const {
  const auto it = failed_sources_.find(source_key);
  return it == failed_sources_.end() ? nullptr : &it->second;
}

const Trial* KnownTrials::FailedKernel(const std::string& kernel_id) const {
  const auto it = by_kernel_.find(kernel_id);
  if (it == by_kernel_.end()) return nullptr;
  const auto failure =
      std::find_if(it->second.begin(), it->second.end(), IsFailure);
  return failure == it->second.end() ? nullptr : &*failure;
}

int64_t KnownTrials::Restore(PoolKernel& kernel) const {
  const auto it = by_kernel_.find(kernel.candidate.compile.kernel_id);
  if (it == by_kernel_.end()) return 0;
  int64_t restored = 0;
  for (const Trial& trial : it->second) {
    if (FirstRound(trial) == kRecheckRound) continue;
    (kernel.*StageOf(trial))[trial.m] = trial;
    ++restored;
  }
  return restored;
}

int32_t KnownTrials::NextRound(int64_t m, Evidences stage) const {
  return NextRound(m, FirstRound(stage));
}

int32_t KnownTrials::NextRecheckRound(int64_t m) const {
  return NextRound(m, kRecheckRound);
}

int32_t KnownTrials::NextRound(int64_t m, int32_t first) const {
  const auto it = next_round_.find({m, first});
  return it == next_round_.end() ? first : it->second;
}

void KnownTrials::NoteRounds(const Trial& trial) {
  if (trial.samples.empty()) return;
  int32_t& next = next_round_[{trial.m, FirstRound(trial)}];
  next = std::max(next, trial.samples.back().round + 1);
}

}  // namespace hone
