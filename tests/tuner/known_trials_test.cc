#include "tuner/known_trials.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

Trial MeasuredTrial(const std::string& kernel_id, int64_t m, int32_t round) {
  Trial trial;
  trial.compile.kernel_id = kernel_id;
  trial.m = m;
  trial.samples = {{1000, 1, round}, {1000, 1, round + 1}};
  trial.median_ns = 1000;
  return trial;
}

TEST(KnownTrialsTest, EachStageHasItsRounds) {
  KnownTrials known;
  int32_t next = 0;
  for (const Evidences stage :
       {&PoolKernel::raced, &PoolKernel::confirmed, &PoolKernel::scouted}) {
    const int32_t first = known.NextRound(16, stage);
    EXPECT_GE(first, next);
    next = first + 1000;
    const Trial trial = MeasuredTrial("a", 16, first);
    EXPECT_TRUE(StageOf(trial) == stage);
    known.Add(trial);
    EXPECT_EQ(known.NextRound(16, stage), first + 2);
    // Of another M, none.
    EXPECT_EQ(known.NextRound(17, stage), first);
  }
  PoolKernel kernel;
  kernel.candidate.compile.kernel_id = "a";
  EXPECT_EQ(known.Restore(kernel), 3);
  EXPECT_EQ(kernel.raced.size(), 1u);
  EXPECT_EQ(kernel.confirmed.size(), 1u);
  EXPECT_EQ(kernel.scouted.size(), 1u);
  kernel.candidate.compile.kernel_id = "b";
  EXPECT_EQ(known.Restore(kernel), 0);
}

TEST(KnownTrialsTest, CircumstancesAreNoFailures) {
  KnownTrials known;
  for (const Outcome outcome : {Outcome::kInterrupted, Outcome::kOutOfMemory}) {
    Trial trial = MeasuredTrial("a", 16, 4);
    trial.outcome = outcome;
    known.Add(trial);
    trial.samples.clear();
    trial.compile = CompileInfo();
    trial.compile.source_key = "key";
    known.Add(trial);
  }
  EXPECT_EQ(known.FailedKernel("a"), nullptr);
  EXPECT_EQ(known.FailedSource("key"), nullptr);
  PoolKernel kernel;
  kernel.candidate.compile.kernel_id = "a";
  EXPECT_EQ(known.Restore(kernel), 0);
  // Its rounds are used up all the same.
  EXPECT_GT(known.NextRound(16, &PoolKernel::raced), 4);
}

TEST(KnownTrialsTest, RemembersFailures) {
  KnownTrials known;
  known.Add(MeasuredTrial("a", 1, 0));
  EXPECT_EQ(known.FailedKernel("a"), nullptr);
  Trial wrong = MeasuredTrial("a", 16, 0);
  wrong.outcome = Outcome::kWrongResult;
  wrong.samples.clear();
  known.Add(wrong);
  ASSERT_NE(known.FailedKernel("a"), nullptr);
  EXPECT_EQ(known.FailedKernel("a")->m, 16);
  Trial uncompiled;
  uncompiled.compile.source_key = "key";
  uncompiled.outcome = Outcome::kCompileError;
  known.Add(uncompiled);
  EXPECT_NE(known.FailedSource("key"), nullptr);
  EXPECT_EQ(known.FailedSource("other"), nullptr);
  Trial slow = MeasuredTrial("b", 1, 0);
  slow.outcome = Outcome::kScreenedOut;
  known.Add(slow);
  EXPECT_EQ(known.FailedKernel("b"), nullptr);
}

}  // namespace
}  // namespace hone
