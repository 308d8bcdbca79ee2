#include "service/client/traffic_reporter.h"

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Problem WithN(int64_t n) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = 64;
  return problem;
}

int64_t CallsOf(const TrafficReport& report) {
  int64_t sum = 0;
  for (const auto& [problem, calls] : report.problems) {
    for (const CallCounter::Calls& at : calls) sum += at.calls;
  }
  return sum;
}

// A honed that answers what the test sets.
class TrafficReporterTest : public ::testing::Test {
 protected:
  std::unique_ptr<TrafficReporter> Make(
      absl::Duration interval = absl::Hours(1)) {
    return std::make_unique<TrafficReporter>(
        &counter_,
        [this](const TrafficReport& report, TrafficReporter::Done done) {
          absl::Status answer;
          {
            absl::MutexLock lock(&mu_);
            sent_.push_back(report);
            if (silent_) {
              kept_.push_back(std::move(done));
              return;
            }
            answer = answer_;
          }
          done(answer);
        },
        TrafficReporter::Options{.interval = interval, .now = [this] {
                                   absl::MutexLock lock(&mu_);
                                   return now_;
                                 }});
  }
  void AnswerWith(absl::Status answer) {
    absl::MutexLock lock(&mu_);
    answer_ = std::move(answer);
  }
  std::vector<TrafficReport> sent() {
    absl::MutexLock lock(&mu_);
    return sent_;
  }

  TrafficCounter counter_;
  absl::Mutex mu_;
  std::vector<TrafficReport> sent_ ABSL_GUARDED_BY(mu_);
  std::vector<TrafficReporter::Done> kept_ ABSL_GUARDED_BY(mu_);
  absl::Status answer_ ABSL_GUARDED_BY(mu_);
  bool silent_ ABSL_GUARDED_BY(mu_) = false;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'000'000);
};

constexpr absl::Duration kSoon = absl::Seconds(10);

TEST_F(TrafficReporterTest, ReportsByItselfAtItsInterval) {
  auto reporter = Make(absl::Milliseconds(20));
  counter_.Of(WithN(64)).Count(16, 5);
  for (int i = 0; i < 500 && reporter->stats().reported < 5; ++i)
    absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(reporter->stats().reported, 5);
  counter_.Of(WithN(64)).Count(1);
  for (int i = 0; i < 500 && reporter->stats().reported < 6; ++i)
    absl::SleepFor(absl::Milliseconds(10));
  // Where nothing was called, nothing is sent.
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_THAT(sent(), SizeIs(2));
  EXPECT_NE(sent()[0].id, sent()[1].id);
  EXPECT_EQ(reporter->stats().dropped, 0);
}

TEST_F(TrafficReporterTest, WhatFailsIsSentAgainUnderItsId) {
  auto reporter = Make();
  AnswerWith(absl::UnavailableError("away"));
  counter_.Of(WithN(64)).Count(16, 5);
  EXPECT_EQ(reporter->Flush(kSoon).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(reporter->stats().pending, 5);
  // Later calls wait for it, in the counter.
  counter_.Of(WithN(64)).Count(16, 2);
  EXPECT_FALSE(reporter->Flush(kSoon).ok());
  EXPECT_EQ(reporter->stats().pending, 5);
  AnswerWith(absl::OkStatus());
  EXPECT_TRUE(reporter->Flush(kSoon).ok());
  const auto all = sent();
  ASSERT_THAT(all, SizeIs(4));
  EXPECT_EQ(all[0].id, all[1].id);
  EXPECT_EQ(all[1].id, all[2].id);
  EXPECT_EQ(CallsOf(all[2]), 5);
  EXPECT_NE(all[3].id, all[2].id);
  EXPECT_EQ(CallsOf(all[3]), 2);
  EXPECT_EQ(reporter->stats().reported, 7);
  EXPECT_EQ(reporter->stats().pending, 0);
  EXPECT_EQ(reporter->stats().dropped, 0);
}

TEST_F(TrafficReporterTest, WhatIsNeverConfirmedIsDroppedInTheOpen) {
  auto reporter = Make();
  AnswerWith(absl::DeadlineExceededError("slow"));
  counter_.Of(WithN(64)).Count(16, 5);
  EXPECT_FALSE(reporter->Flush(kSoon).ok());
  {
    absl::MutexLock lock(&mu_);
    now_ += absl::Minutes(9);
  }
  counter_.Of(WithN(64)).Count(16, 1);
  EXPECT_FALSE(reporter->Flush(kSoon).ok());
  EXPECT_EQ(reporter->stats().dropped, 0);
  {
    absl::MutexLock lock(&mu_);
    now_ += absl::Minutes(2);
  }
  EXPECT_FALSE(reporter->Flush(kSoon).ok());
  EXPECT_EQ(reporter->stats().dropped, 5);
  // What was called meanwhile is a report of its own.
  AnswerWith(absl::OkStatus());
  EXPECT_TRUE(reporter->Flush(kSoon).ok());
  EXPECT_EQ(reporter->stats().reported, 1);
  EXPECT_TRUE(reporter->stats().error.ok());
}

TEST_F(TrafficReporterTest, WhatIsRefusedIsDroppedAtOnce) {
  auto reporter = Make();
  AnswerWith(absl::InvalidArgumentError("problems[0].problem is odd"));
  counter_.Of(WithN(64)).Count(16, 5);
  EXPECT_EQ(reporter->Flush(kSoon).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reporter->stats().dropped, 5);
  EXPECT_EQ(reporter->stats().pending, 0);
  EXPECT_THAT(std::string(reporter->stats().error.message()),
              ::testing::HasSubstr("odd"));
}

TEST_F(TrafficReporterTest, ManyProblemsGoInSeveralReports) {
  auto reporter = Make();
  for (int64_t n = 1; n <= 600; ++n) counter_.Of(WithN(n)).Count(1);
  EXPECT_TRUE(reporter->Flush(kSoon).ok());
  std::set<std::string> ids;
  size_t problems = 0;
  for (const TrafficReport& report : sent()) {
    EXPECT_LE(report.problems.size(), 256u);
    problems += report.problems.size();
    ids.insert(report.id);
  }
  EXPECT_EQ(problems, 600u);
  EXPECT_THAT(ids, SizeIs(3));
  EXPECT_EQ(reporter->stats().reported, 600);
}

TEST_F(TrafficReporterTest, ManyMGoInSeveralReports) {
  auto reporter = Make();
  for (int64_t n = 1; n <= 60; ++n) {
    CallCounter& calls = counter_.Of(WithN(n));
    for (int64_t m = 1; m <= 2000; ++m) calls.Count(m);
  }
  EXPECT_TRUE(reporter->Flush(kSoon).ok());
  EXPECT_EQ(reporter->stats().reported, 120'000);
  for (const TrafficReport& report : sent()) {
    size_t counts = 0;
    for (const auto& [problem, calls] : report.problems) counts += calls.size();
    EXPECT_LE(counts, 20'000u);
  }
  EXPECT_GE(sent().size(), 2u);
}

TEST_F(TrafficReporterTest, NeverWaitsForASilentDaemonAtItsEnd) {
  {
    absl::MutexLock lock(&mu_);
    silent_ = true;
  }
  auto reporter = Make();
  counter_.Of(WithN(64)).Count(16, 5);
  EXPECT_EQ(reporter->Flush(absl::Milliseconds(50)).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(reporter->stats().pending, 5);
  // Counting goes on meanwhile.
  counter_.Of(WithN(64)).Count(16);
  const absl::Time start = absl::Now();
  reporter.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
  // An answer after the end hurts nobody.
  std::vector<TrafficReporter::Done> kept;
  {
    absl::MutexLock lock(&mu_);
    kept = std::move(kept_);
  }
  ASSERT_THAT(kept, SizeIs(1));
  kept[0](absl::OkStatus());
}

}  // namespace
}  // namespace hone
