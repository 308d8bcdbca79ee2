#include "service/server/own_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/convert/errors.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TuneRequest Request(int64_t n) {
  TuneRequest request;
  request.request_id = absl::StrCat("id-", n);
  request.problem.layer.n = n;
  request.problem.layer.k = 64;
  request.ladder = {1};
  return request;
}

// Jobs that wait until they are let go, or are cancelled.
class OwnJobsTest : public ::testing::Test {
 protected:
  OwnJobsTest()
      : jobs_(
            [this](const TuneRequest& request, const auto&,
                   const auto& is_cancelled) -> absl::StatusOr<TuneOutcome> {
              {
                absl::MutexLock lock(&mutex_);
                started_.push_back(request);
              }
              if (disturbed_ > 0) {
                --disturbed_;
                return WithReason(absl::UnavailableError("in use"),
                                  "DEVICE_DISTURBED");
              }
              while (!go_) {
                if (is_cancelled()) return absl::CancelledError("by request");
                absl::SleepFor(absl::Milliseconds(1));
              }
              return TuneOutcome();
            },
            {.max_queued = 2}),
        log_([](absl::string_view) {}),
        own_(&jobs_, &log_,
             {.after = absl::Milliseconds(20),
              .first_pause = absl::Milliseconds(20)}) {}
  ~OwnJobsTest() override { go_ = true; }

  void WaitFor(const std::function<bool()>& condition) {
    for (int i = 0; i < 5000 && !condition(); ++i)
      absl::SleepFor(absl::Milliseconds(1));
    ASSERT_TRUE(condition());
  }
  // The N of those that started, and their ids.
  std::vector<int64_t> Started() {
    absl::MutexLock lock(&mutex_);
    std::vector<int64_t> started;
    for (const TuneRequest& request : started_)
      started.push_back(request.problem.layer.n);
    return started;
  }
  std::set<std::string> Ids() {
    absl::MutexLock lock(&mutex_);
    std::set<std::string> ids;
    for (const TuneRequest& request : started_) ids.insert(request.request_id);
    return ids;
  }

  std::atomic<int> disturbed_ = 0;
  std::atomic<bool> go_ = false;
  absl::Mutex mutex_;
  std::vector<TuneRequest> started_ ABSL_GUARDED_BY(mutex_);
  TuneJobs jobs_;
  Logger log_;
  OwnJobs own_;
};

TEST_F(OwnJobsTest, IdleJobsRunOneByOneMakeWayAndGoOn) {
  // More than the queue takes.
  for (const int64_t n : {64, 128, 192, 256}) own_.RunIdle(Request(n));
  EXPECT_EQ(own_.idle_left(), 4u);
  WaitFor([&] { return Started().size() == 1; });
  EXPECT_EQ(jobs_.State().queued, 0u);
  EXPECT_TRUE(jobs_.List().front().idle);
  auto user = jobs_.Submit(Request(512));
  ASSERT_TRUE(user.ok()) << user.status();
  WaitFor([&] { return Started().size() == 2; });
  go_ = true;
  WaitFor([&] { return own_.idle_left() == 0; });
  EXPECT_TRUE((*user)->Outcome().ok());
  EXPECT_THAT(Started(), ElementsAre(64, 512, 64, 128, 192, 256));
  // Run again under another id.
  EXPECT_THAT(Ids(), SizeIs(6));
}

TEST_F(OwnJobsTest, WhatFindsTheDeviceInUseIsTriedAgain) {
  go_ = true;
  disturbed_ = 2;
  EXPECT_TRUE(own_.Run(Request(64)).ok());
  WaitFor([&] { return Started().size() == 3; });
  WaitFor([&] { return jobs_.List().front().state == TuneState::kSucceeded; });
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_THAT(Started(), ElementsAre(64, 64, 64));
  EXPECT_THAT(Ids(), SizeIs(3));
  disturbed_ = 1;
  own_.RunIdle(Request(128));
  WaitFor([&] { return own_.idle_left() == 0; });
  EXPECT_THAT(Started(), ElementsAre(64, 64, 64, 128, 128));
}

TEST_F(OwnJobsTest, WhatSomebodyCancelsIsNotTriedAgain) {
  own_.RunIdle(Request(64));
  WaitFor([&] { return Started().size() == 1; });
  EXPECT_TRUE(*jobs_.Cancel("id-64"));
  WaitFor([&] { return own_.idle_left() == 0; });
  EXPECT_THAT(Started(), SizeIs(1));
}

TEST_F(OwnJobsTest, StoppingEndsItsIdleJob) {
  own_.RunIdle(Request(64));
  own_.RunIdle(Request(128));
  WaitFor([&] { return Started().size() == 1; });
  own_.Stop();
  WaitFor([&] { return jobs_.List().front().state == TuneState::kCancelled; });
  own_.RunIdle(Request(192));
  EXPECT_EQ(own_.idle_left(), 0u);
  EXPECT_THAT(Started(), SizeIs(1));
}

}  // namespace
}  // namespace hone
