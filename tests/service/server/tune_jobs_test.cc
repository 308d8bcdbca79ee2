#include "service/server/tune_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

using ::testing::SizeIs;

TuneRequest Request(int id, int64_t n = 64) {
  TuneRequest request;
  request.request_id = absl::StrCat("id-", id);
  request.problem.layer.n = n;
  request.problem.layer.k = 64;
  request.ladder = {1};
  return request;
}

// Jobs that wait until they are let go, or are cancelled.
class TuneJobsTest : public ::testing::Test {
 protected:
  TuneJobsTest()
      : jobs_(
            [this](const TuneRequest& request, const auto& progress,
                   const auto& is_cancelled) -> absl::StatusOr<TuneOutcome> {
              ++runs_;
              SessionProgress now;
              now.done = request.problem.layer.n;
              progress(now);
              while (!go_) {
                if (is_cancelled()) return absl::CancelledError("by request");
                absl::SleepFor(absl::Milliseconds(1));
              }
              TuneOutcome outcome;
              outcome.trials_recorded = request.problem.layer.n;
              return outcome;
            },
            {.max_queued = 2, .max_ended = 3}) {}
  ~TuneJobsTest() override { go_ = true; }

  void WaitFor(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000 && !condition(); ++i)
      absl::SleepFor(absl::Milliseconds(1));
    ASSERT_TRUE(condition());
  }
  absl::StatusOr<TuneOutcome> End(TuneJobs::Caller& caller) {
    WaitFor([&] { return caller.ended(); });
    return caller.Outcome();
  }

  std::atomic<int> runs_ = 0;
  std::atomic<bool> go_ = false;
  TuneJobs jobs_;
};

TEST_F(TuneJobsTest, EqualRequestsRunOnceAndOthersWaitInLine) {
  auto first = jobs_.Submit(Request(1));
  ASSERT_TRUE(first.ok());
  WaitFor([&] { return runs_ == 1; });
  auto same = jobs_.Submit(Request(2));
  auto other = jobs_.Submit(Request(3, 128));
  auto third = jobs_.Submit(Request(4, 256));
  EXPECT_FALSE((*first)->joined());
  EXPECT_TRUE((*same)->joined());
  EXPECT_EQ((*same)->Snapshot().tune_id, "id-1");
  EXPECT_EQ((*same)->Snapshot().callers, 2);
  EXPECT_EQ((*other)->Snapshot().position, 1);
  EXPECT_EQ((*third)->Snapshot().position, 2);
  const auto full = jobs_.Submit(Request(5, 512));
  EXPECT_EQ(ReasonOf(full.status()), "QUEUE_FULL");
  EXPECT_GT(RetryDelayOf(full.status()), absl::ZeroDuration());
  // Joining needs no room in the queue.
  EXPECT_TRUE(jobs_.Submit(Request(6, 256)).ok());
  const std::vector<TuneSnapshot> list = jobs_.List();
  ASSERT_THAT(list, SizeIs(3));
  EXPECT_EQ(list[0].tune_id, "id-4");
  EXPECT_EQ(list[2].state, TuneState::kRunning);
  go_ = true;
  EXPECT_EQ(End(**third)->trials_recorded, 256);
  EXPECT_EQ(End(**same)->trials_recorded, 64);
  EXPECT_EQ(runs_, 3);
}

TEST_F(TuneJobsTest, ProgressWakesItsCallers) {
  auto caller = jobs_.Submit(Request(1));
  WaitFor([&] { return (*caller)->Snapshot().progress.done == 64; });
  EXPECT_TRUE((*caller)->WaitForChange(absl::Seconds(5)));
  EXPECT_FALSE((*caller)->WaitForChange(absl::Milliseconds(20)));
  go_ = true;
  EXPECT_TRUE((*caller)->WaitForChange(absl::Seconds(5)));
}

TEST_F(TuneJobsTest, TheLastCallerToLeaveEndsTheJobUnlessDetached) {
  auto first = jobs_.Submit(Request(1));
  auto second = jobs_.Submit(Request(2));
  WaitFor([&] { return runs_ == 1; });
  *first = nullptr;
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE((*second)->ended());
  *second = nullptr;
  WaitFor([&] { return jobs_.List()[0].state == TuneState::kCancelled; });

  TuneRequest detached = Request(3, 128);
  detached.detached = true;
  auto third = jobs_.Submit(detached);
  WaitFor([&] { return runs_ == 2; });
  *third = nullptr;
  absl::SleepFor(absl::Milliseconds(20));
  go_ = true;
  WaitFor([&] { return jobs_.List()[0].state == TuneState::kSucceeded; });
}

TEST_F(TuneJobsTest, ACancelledJobIsNotJoined) {
  auto first = jobs_.Submit(Request(1));
  WaitFor([&] { return runs_ == 1; });
  EXPECT_TRUE(*jobs_.Cancel("id-1"));
  auto again = jobs_.Submit(Request(2));
  EXPECT_FALSE((*again)->joined());
  EXPECT_EQ(ReasonOf(End(**first).status()), "TUNE_CANCELLED");
  EXPECT_FALSE(*jobs_.Cancel("id-1"));
  EXPECT_EQ(ReasonOf(jobs_.Cancel("nobody").status()), "TUNE_NOT_FOUND");
  go_ = true;
  EXPECT_TRUE(End(**again).ok());
}

TEST_F(TuneJobsTest, AQueuedJobIsCancelledAtOnce) {
  auto running = jobs_.Submit(Request(1));
  WaitFor([&] { return runs_ == 1; });
  auto queued = jobs_.Submit(Request(2, 128));
  EXPECT_TRUE(*jobs_.Cancel("id-2"));
  EXPECT_TRUE((*queued)->ended());
  go_ = true;
  EXPECT_TRUE(End(**running).ok());
  EXPECT_EQ(runs_, 1);
}

TEST_F(TuneJobsTest, RequestIdsAreRememberedForTheLastJobs) {
  go_ = true;
  for (int i = 0; i < 5; ++i) {
    auto caller = jobs_.Submit(Request(i, 64 + i));
    ASSERT_TRUE(End(**caller).ok());
  }
  EXPECT_EQ(runs_, 5);
  EXPECT_TRUE(End(**jobs_.Submit(Request(4, 68))).ok());
  EXPECT_EQ(runs_, 5);
  EXPECT_EQ(ReasonOf(jobs_.Submit(Request(4, 99)).status()),
            "REQUEST_ID_REUSED");
  // The oldest is forgotten and runs again.
  EXPECT_TRUE(End(**jobs_.Submit(Request(0, 64))).ok());
  EXPECT_EQ(runs_, 6);
}

TEST_F(TuneJobsTest, DrainingEndsEverythingAndRefusesMore) {
  auto running = jobs_.Submit(Request(1));
  auto queued = jobs_.Submit(Request(2, 128));
  WaitFor([&] { return runs_ == 1; });
  jobs_.Drain();
  EXPECT_EQ(ReasonOf((*running)->Outcome().status()), "SHUTTING_DOWN");
  EXPECT_EQ(ReasonOf((*queued)->Outcome().status()), "SHUTTING_DOWN");
  EXPECT_EQ(ReasonOf(jobs_.Submit(Request(3)).status()), "SHUTTING_DOWN");
}

TEST_F(TuneJobsTest, AnIdleJobMakesWayForAnyOther) {
  auto idle = jobs_.SubmitIdle(Request(1, 64));
  ASSERT_TRUE(idle.ok()) << idle.status();
  WaitFor([&] { return runs_ == 1; });
  EXPECT_TRUE(jobs_.List().front().idle);
  EXPECT_EQ(jobs_.List().front().callers, 0);
  auto caller = jobs_.Submit(Request(2, 128));
  ASSERT_TRUE(caller.ok());
  EXPECT_FALSE((*caller)->joined());
  // Nothing is ahead of it.
  EXPECT_EQ((*caller)->Snapshot().position, 0);
  EXPECT_EQ(ReasonOf(End(**idle).status()), "TUNE_YIELDED");
  WaitFor([&] { return runs_ == 2; });
  go_ = true;
  EXPECT_TRUE(End(**caller).ok());
  EXPECT_FALSE(jobs_.List().front().idle);
  EXPECT_TRUE(jobs_.List().back().idle);
}

TEST_F(TuneJobsTest, AnIdleJobNeedsAnIdleDevice) {
  auto caller = jobs_.Submit(Request(1));
  EXPECT_EQ(jobs_.SubmitIdle(Request(2)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(jobs_.IdleTime(), absl::ZeroDuration());
  go_ = true;
  ASSERT_TRUE(End(**caller).ok());
  EXPECT_TRUE(jobs_.SubmitIdle(Request(2)).ok());
}

TEST_F(TuneJobsTest, IdleTimeIsSinceTheLastJobOfOthers) {
  WaitFor([&] { return jobs_.IdleTime() > absl::Milliseconds(5); });
  auto idle = jobs_.SubmitIdle(Request(1));
  ASSERT_TRUE(idle.ok());
  EXPECT_GT(jobs_.IdleTime(), absl::Milliseconds(5));
  go_ = true;
  ASSERT_TRUE(End(**idle).ok());
  EXPECT_GT(jobs_.IdleTime(), absl::Milliseconds(5));
  go_ = false;
  auto caller = jobs_.Submit(Request(2, 128));
  EXPECT_EQ(jobs_.IdleTime(), absl::ZeroDuration());
  go_ = true;
  ASSERT_TRUE(End(**caller).ok());
  EXPECT_LT(jobs_.IdleTime(), absl::Seconds(5));
}

TEST_F(TuneJobsTest, AnIdleJobThatARequestJoinedIsThatRequests) {
  auto idle = jobs_.SubmitIdle(Request(1));
  ASSERT_TRUE(idle.ok());
  WaitFor([&] { return runs_ == 1; });
  auto joined = jobs_.Submit(Request(2));
  ASSERT_TRUE(joined.ok());
  EXPECT_TRUE((*joined)->joined());
  EXPECT_FALSE((*joined)->Snapshot().idle);
  EXPECT_EQ((*joined)->Snapshot().callers, 1);
  auto other = jobs_.Submit(Request(3, 128));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE((*joined)->ended());
  EXPECT_EQ((*other)->Snapshot().position, 1);
  // Left again, it makes way for those who came meanwhile.
  joined->reset();
  EXPECT_EQ(ReasonOf(End(**idle).status()), "TUNE_YIELDED");
  go_ = true;
  EXPECT_TRUE(End(**other).ok());
}

TEST_F(TuneJobsTest, AnIdleJobMakesWayForWhoeverUsesTheDevice) {
  WaitFor([&] { return jobs_.IdleTime() > absl::Milliseconds(50); });
  auto idle = jobs_.SubmitIdle(Request(1));
  ASSERT_TRUE(idle.ok());
  WaitFor([&] { return runs_ == 1; });
  jobs_.MakeWay();
  EXPECT_LT(jobs_.IdleTime(), absl::Milliseconds(50));
  EXPECT_EQ(ReasonOf(End(**idle).status()), "TUNE_YIELDED");
}

TEST_F(TuneJobsTest, AnIdleJobCanBeCancelledByItsId) {
  auto idle = jobs_.SubmitIdle(Request(1));
  ASSERT_TRUE(idle.ok());
  WaitFor([&] { return runs_ == 1; });
  EXPECT_TRUE(*jobs_.Cancel("id-1"));
  EXPECT_EQ(ReasonOf(End(**idle).status()), "TUNE_CANCELLED");
}

}  // namespace
}  // namespace hone
