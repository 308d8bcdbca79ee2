#include <cmath>

#include "absl/strings/str_cat.h"
#include "db/store.h"
#include "gmock/gmock.h"
#include "tests/db/fixture.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TestDevice;
using testing::TestProblem;
using StoreTrafficTest = testing::DbTest;

constexpr int64_t kNow = 1'764'650'000'000'000;
constexpr int64_t kHourUs = int64_t{3600} * 1'000'000;
constexpr int64_t kWeekUs = 7 * 24 * kHourUs;

TrafficCount Calls(std::vector<MWeight> calls, int64_t n = 8192) {
  return {TestProblem(n), TestDevice(), std::move(calls), 0};
}
TrafficCount Misses(double misses, int64_t n = 8192) {
  return {TestProblem(n), TestDevice(), {}, misses};
}

double SumOf(const StoredTraffic& traffic) {
  double sum = 0;
  for (const MWeight& at : traffic.calls) sum += at.weight;
  return sum;
}

TEST_F(StoreTrafficTest, CallsAddUpAndDecay) {
  {
    auto store = OpenStore();
    EXPECT_TRUE(*store->RecordTraffic("a", {Calls({{1, 100}, {16, 8}})}, kNow));
    EXPECT_TRUE(*store->RecordTraffic("b", {Calls({{16, 2}, {64, 1}})},
                                      kNow + kWeekUs));
  }
  // Kept as it is over a restart.
  const auto traffic = OpenStore()->Traffic(kNow + 2 * kWeekUs);
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  ASSERT_THAT(*traffic, SizeIs(1));
  const StoredTraffic& stored = traffic->front();
  EXPECT_EQ(stored.problem, TestProblem());
  EXPECT_EQ(stored.device, TestDevice());
  EXPECT_THAT(stored.calls,
              ElementsAre(MWeight{1, 25}, MWeight{16, 3}, MWeight{64, 0.5}));
  EXPECT_EQ(stored.reported_us, kNow + kWeekUs);
  EXPECT_EQ(stored.missed_us, 0);
  EXPECT_EQ(stored.misses, 0);
}

TEST_F(StoreTrafficTest, ARepeatedReportCountsOnce) {
  auto store = OpenStore();
  const std::vector<TrafficCount> report = {Calls({{4, 10}})};
  EXPECT_TRUE(*store->RecordTraffic("a", report, kNow));
  EXPECT_FALSE(*store->RecordTraffic("a", report, kNow + 10));
  EXPECT_FALSE(*store->RecordTraffic("a", report, kNow + kHourUs));
  EXPECT_EQ(SumOf(store->Traffic(kNow)->front()), 10);
  // The id with something else is a mistake, and counts nothing.
  EXPECT_EQ(store->RecordTraffic("a", {Calls({{4, 11}})}, kNow).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(SumOf(store->Traffic(kNow)->front()), 10);
  // After the window it is forgotten.
  EXPECT_TRUE(*store->RecordTraffic("a", report, kNow + kHourUs + 11));
  EXPECT_EQ(SumOf(store->Traffic(kNow)->front()),
            10 * std::exp2(-(kHourUs + 11.0) / kWeekUs) + 10);
}

TEST_F(StoreTrafficTest, FewReportsAreRemembered) {
  StoreOptions options;
  options.traffic.max_known = 3;
  auto store = OpenStore("hone.db", options);
  const std::vector<TrafficCount> report = {Calls({{4, 1}})};
  for (const char* id : {"a", "b", "c", "d"}) {
    EXPECT_TRUE(*store->RecordTraffic(id, report, kNow));
  }
  EXPECT_FALSE(*store->RecordTraffic("b", report, kNow));
  EXPECT_TRUE(*store->RecordTraffic("a", report, kNow));
}

TEST_F(StoreTrafficTest, MissesStandBesideCalls) {
  auto store = OpenStore();
  ASSERT_TRUE(store->AddTraffic({Misses(3), Misses(1, 1024)}, kNow).ok());
  ASSERT_TRUE(store->RecordTraffic("a", {Calls({{4, 1}})}, kNow + 1).ok());
  ASSERT_TRUE(store->AddTraffic({Misses(2)}, kNow + kWeekUs).ok());
  ASSERT_TRUE(store->AddTraffic({}, kNow + kWeekUs).ok());
  const auto traffic = store->Traffic(kNow + kWeekUs);
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  ASSERT_THAT(*traffic, SizeIs(2));
  EXPECT_DOUBLE_EQ(traffic->at(0).misses, 3.5);
  EXPECT_EQ(traffic->at(0).missed_us, kNow + kWeekUs);
  EXPECT_EQ(traffic->at(0).reported_us, kNow + 1);
  EXPECT_DOUBLE_EQ(traffic->at(1).misses, 0.5);
  EXPECT_THAT(traffic->at(1).calls, IsEmpty());
  EXPECT_EQ(traffic->at(1).reported_us, 0);
}

TEST_F(StoreTrafficTest, DeviceClassesAreKeptApart) {
  auto store = OpenStore();
  TrafficCount other = Calls({{4, 5}});
  other.device.sm_count = 78;
  // Another driver is the same class: the last one stands.
  TrafficCount soft = Calls({{4, 2}});
  soft.device.driver = "999.1";
  ASSERT_TRUE(
      store->RecordTraffic("a", {Calls({{4, 1}}), other, soft}, kNow).ok());
  const auto traffic = store->Traffic(kNow);
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  ASSERT_THAT(*traffic, SizeIs(2));
  EXPECT_EQ(traffic->at(0).device.driver, "999.1");
  EXPECT_EQ(SumOf(traffic->at(0)), 3);
  EXPECT_EQ(traffic->at(1).device.sm_count, 78);
  EXPECT_EQ(SumOf(traffic->at(1)), 5);
}

TEST_F(StoreTrafficTest, ManyMAreMergedAndNoCallIsLost) {
  auto store = OpenStore();
  double sum = 0;
  int64_t m = 1;
  for (int report = 0; report < 8; ++report) {
    std::vector<MWeight> calls;
    for (int i = 0; i < 256; ++i, ++m) {
      calls.push_back({m, 1.0 + static_cast<double>(m % 7)});
      sum += calls.back().weight;
    }
    ASSERT_TRUE(
        store->RecordTraffic(absl::StrCat(report), {Calls(calls)}, kNow).ok());
  }
  const auto traffic = store->Traffic(kNow);
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  EXPECT_LE(traffic->front().calls.size(), 512);
  EXPECT_GE(traffic->front().calls.size(), 400);
  EXPECT_EQ(traffic->front().calls.back().m, 2048);
  EXPECT_NEAR(SumOf(traffic->front()), sum, 1e-6);
}

TEST_F(StoreTrafficTest, TheLightestProblemsAreDropped) {
  StoreOptions options;
  options.traffic.max_problems = 8;
  auto store = OpenStore("hone.db", options);
  // Heavy once, long ago.
  ASSERT_TRUE(
      store->RecordTraffic("old", {Calls({{1, 64}}, 64)}, kNow - 8 * kWeekUs)
          .ok());
  for (int i = 1; i <= 7; ++i) {
    ASSERT_TRUE(store
                    ->RecordTraffic(absl::StrCat(i),
                                    {Calls({{1, 10.0 * i}}, 64 * (i + 1))},
                                    kNow)
                    .ok());
  }
  ASSERT_THAT(*store->Traffic(kNow), SizeIs(8));
  ASSERT_TRUE(store->AddTraffic({Misses(50, 6400)}, kNow).ok());
  std::vector<int64_t> left;
  const auto traffic = store->Traffic(kNow);
  for (const StoredTraffic& stored : *traffic) {
    left.push_back(stored.problem.layer.n);
  }
  // Of nine, seven stay: not the old one, and not the lightest of the new.
  EXPECT_THAT(left, ElementsAre(192, 256, 320, 384, 448, 512, 6400));
  EXPECT_EQ(SumOf(traffic->front()), 20);
}

TEST_F(StoreTrafficTest, WhatMakesNoSenseIsRefusedWhole) {
  auto store = OpenStore();
  TrafficCount bad = Calls({{4, 1}});
  bad.device.memory_gbps = std::nan("");
  EXPECT_EQ(
      store->RecordTraffic("a", {Calls({{4, 1}}), bad}, kNow).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->RecordTraffic("a", {Calls({{0, 1}})}, kNow).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store->AddTraffic({Calls({{4, -1}})}, kNow).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(*store->Traffic(kNow), IsEmpty());
  EXPECT_TRUE(*store->RecordTraffic("a", {Calls({{4, 1}})}, kNow));
}

TEST_F(StoreTrafficTest, AReadOnlyStoreReadsThem) {
  auto store = OpenStore();
  ASSERT_TRUE(store->RecordTraffic("a", {Calls({{4, 1}})}, kNow).ok());
  const auto reader = OpenStore("hone.db", {.read_only = true});
  EXPECT_THAT(*reader->Traffic(kNow), SizeIs(1));
  EXPECT_EQ(reader->AddTraffic({Misses(1)}, kNow).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace hone
