#include "tuner/known_trials.h"

#include <algorithm>

namespace hone {
namespace {

constexpr int32_t kConfirmRound = 1 << 20;
constexpr int32_t kScoutRound = 1 << 21;

int32_t FirstRound(Evidences stage) {
  if (stage == &PoolKernel::scouted) return kScoutRound;
  return stage == &PoolKernel::confirmed ? kConfirmRound : 0;
}

bool IsFailure(const Trial& trial) {
  return trial.outcome != Outcome::kMeasured &&
         trial.outcome != Outcome::kScreenedOut;
}

}  // namespace

Evidences StageOf(const Trial& trial) {
  const int32_t round = trial.samples.empty() ? 0 : trial.samples.front().round;
  if (round >= kScoutRound) return &PoolKernel::scouted;
  return round >= kConfirmRound ? &PoolKernel::confirmed : &PoolKernel::raced;
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
  for (const Trial& trial : it->second) {
    (kernel.*StageOf(trial))[trial.m] = trial;
  }
  return std::ssize(it->second);
}

int32_t KnownTrials::NextRound(int64_t m, Evidences stage) const {
  const int32_t first = FirstRound(stage);
  const auto it = next_round_.find({m, first});
  return it == next_round_.end() ? first : it->second;
}

void KnownTrials::NoteRounds(const Trial& trial) {
  if (trial.samples.empty()) return;
  int32_t& next = next_round_[{trial.m, FirstRound(StageOf(trial))}];
  next = std::max(next, trial.samples.back().round + 1);
}

}  // namespace hone
