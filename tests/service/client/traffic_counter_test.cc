#include "service/client/traffic_counter.h"

#include <atomic>
#include <iostream>
#include <map>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

std::map<int64_t, int64_t> Taken(CallCounter& counter) {
  std::map<int64_t, int64_t> out;
  for (const CallCounter::Calls& at : counter.Take()) out[at.m] += at.calls;
  return out;
}

TEST(CallCounterTest, CountsEachMOnceAndStartsAgain) {
  CallCounter counter;
  for (int i = 0; i < 5; ++i) counter.Count(16);
  counter.Count(1, 3);
  counter.Count(int64_t{1} << 30);
  const std::map<int64_t, int64_t> expected = {
      {1, 3}, {16, 5}, {int64_t{1} << 30, 1}};
  EXPECT_EQ(Taken(counter), expected);
  EXPECT_THAT(counter.Take(), IsEmpty());
  counter.Count(16);
  EXPECT_THAT(counter.Take(), SizeIs(1));
}

TEST(CallCounterTest, WhatIsNoCallIsNotCounted) {
  CallCounter counter;
  counter.Count(0);
  counter.Count(-3);
  counter.Count((int64_t{1} << 30) + 1);
  counter.Count(4, 0);
  counter.Count(4, -1);
  EXPECT_THAT(counter.Take(), IsEmpty());
}

TEST(CallCounterTest, ManyMAreCountedAtMostAnEighthAboveTheirOwn) {
  CallCounter counter;
  int64_t sum = 0;
  double rows = 0;
  for (int64_t m = 1; m <= 20'000; ++m) {
    counter.Count(m);
    ++sum;
    rows += static_cast<double>(m);
  }
  const auto taken = Taken(counter);
  // What one report may hold.
  EXPECT_LE(taken.size(), 1024u);
  int64_t calls = 0;
  double rows_taken = 0;
  for (const auto& [m, count] : taken) {
    calls += count;
    rows_taken += static_cast<double>(m) * static_cast<double>(count);
  }
  EXPECT_EQ(calls, sum);
  EXPECT_GE(rows_taken, rows);
  EXPECT_LE(rows_taken, rows * 1.125);
}

TEST(CallCounterTest, EachMBeyondTheFirstGoesToTheNextStepUp) {
  for (const int64_t m :
       {int64_t{1}, int64_t{8}, int64_t{9}, int64_t{17}, int64_t{1000},
        int64_t{1} << 20, int64_t{99'999'999}, int64_t{1} << 30}) {
    CallCounter counter;
    for (int64_t other = 1; other <= 5000; ++other) {
      counter.Count(1'000'000'000 + other);
    }
    counter.Take();
    counter.Count(m);
    const auto taken = counter.Take();
    ASSERT_THAT(taken, SizeIs(1)) << m;
    EXPECT_GE(taken[0].m, m);
    EXPECT_LE(taken[0].m, m + m / 8);
  }
}

TEST(CallCounterTest, NoCallOfManyThreadsIsLostOrTakenTwice) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 100'000;
  CallCounter counter;
  std::atomic<bool> counting = true;
  std::map<int64_t, int64_t> taken;
  std::thread taker([&] {
    while (counting) {
      for (const auto& [m, calls] : Taken(counter)) taken[m] += calls;
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&counter, t] {
      for (int i = 0; i < kCalls; ++i) {
        // One M that all share, and others that come and go.
        counter.Count(i % 2 == 0 ? 16 : 1 + (i * 7 + t) % 300);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  counting = false;
  taker.join();
  for (const auto& [m, calls] : Taken(counter)) taken[m] += calls;
  std::map<int64_t, int64_t> expected;
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kCalls; ++i) {
      ++expected[i % 2 == 0 ? 16 : 1 + (i * 7 + t) % 300];
    }
  }
  int64_t sum = 0;
  for (const auto& [m, calls] : taken) sum += calls;
  EXPECT_EQ(sum, int64_t{kThreads} * kCalls);
  EXPECT_EQ(taken[16], expected[16]);
}

TEST(CallCounterTest, CostsLittle) {
  constexpr int kCalls = 2'000'000;
  CallCounter counter;
  const absl::Time start = absl::Now();
  for (int i = 0; i < kCalls; ++i) counter.Count(1 + i % 64);
  const double ns = absl::ToDoubleNanoseconds(absl::Now() - start) / kCalls;
  std::cerr << ns << " ns a call\n";
  // Generous, for sanitizers and busy machines.
  EXPECT_LT(ns, 500);
}

Problem WithN(int64_t n) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = 64;
  return problem;
}

TEST(TrafficCounterTest, ProblemsHaveCountersOfTheirOwn) {
  TrafficCounter counter;
  CallCounter& first = counter.Of(WithN(64));
  CallCounter& second = counter.Of(WithN(128));
  EXPECT_NE(&first, &second);
  EXPECT_EQ(&first, &counter.Of(WithN(64)));
  first.Count(4);
  second.Count(4, 2);
  const auto taken = counter.Take();
  ASSERT_THAT(taken, SizeIs(2));
  for (const auto& [problem, calls] : taken) {
    ASSERT_THAT(calls, SizeIs(1));
    EXPECT_EQ(calls[0].calls, problem == WithN(64) ? 1 : 2);
  }
  EXPECT_THAT(counter.Take(), IsEmpty());
}

}  // namespace
}  // namespace hone
