#include "db/browse.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/db/fixture.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::TestCompile;
using testing::TestDevice;
using testing::TestProblem;
using testing::TestTable;
using ::testing::UnorderedElementsAre;

class BrowseTest : public testing::DbTest {
 protected:
  BrowseTest() : store_(OpenStore()) {}

  // What one question about the store is answered.
  template <typename Question>
  auto Ask(const Question& ask) {
    decltype(ask(std::declval<const StoreSnapshot&>())) answer =
        absl::UnknownError("not asked");
    const absl::Status status =
        store_->Browse([&](const StoreSnapshot& snapshot) {
          answer = ask(snapshot);
          return answer.status();
        });
    EXPECT_EQ(answer.status(), status);
    return answer;
  }

  int64_t Record(const Trial& trial, const DeviceSpec& device = TestDevice(),
                 const Protocol& protocol = {}) {
    const auto id = store_->RecordTrial(device, protocol, trial);
    EXPECT_TRUE(id.ok()) << id.status();
    return *id;
  }

  std::unique_ptr<Store> store_;
};

// A trial of `count` samples start, start + 1, ... in no order, all at one
// clock.
Trial Measured(int64_t m, int64_t start, int64_t count,
               int64_t clock_khz = 1980000) {
  Trial trial = testing::TestTrial(m);
  trial.samples.clear();
  for (int64_t i = 0; i < count; ++i) {
    // 7 has no factor in common with the counts used here.
    trial.samples.push_back(
        {start + i * 7 % count, clock_khz, static_cast<int32_t>(i)});
  }
  trial.median_ns = start + count / 2;
  return trial;
}

Trial Failed(int64_t m, Outcome outcome) {
  Trial trial = testing::TestTrial(m, "why");
  trial.outcome = outcome;
  trial.samples.clear();
  trial.median_ns = 0;
  return trial;
}

DeviceSpec OtherDevice() {
  DeviceSpec device = TestDevice();
  device.sm_count = 114;
  return device;
}

const std::string kClass = TestDevice().ClassHash();
const std::string kProblem = TestProblem().Hash();

TEST_F(BrowseTest, ClassesHoldTheirDevices) {
  DeviceSpec newer = TestDevice();
  newer.driver = "590.1";
  Record(Measured(1, 100, 8));
  Record(Measured(1, 100, 8), newer);
  Record(Measured(1, 100, 8), newer);
  Record(Measured(1, 100, 8), OtherDevice());
  ASSERT_TRUE(store_->PublishTable(TestTable()).ok());
  const auto classes =
      Ask([](const StoreSnapshot& store) { return store.Classes(); });
  ASSERT_TRUE(classes.ok()) << classes.status();
  ASSERT_EQ(classes->size(), 2u);
  EXPECT_EQ((*classes)[0].hash, kClass);
  EXPECT_THAT((*classes)[0].devices, ElementsAre(TestDevice(), newer));
  EXPECT_EQ((*classes)[0].trials, 3);
  EXPECT_EQ((*classes)[0].tables, 1);
  EXPECT_EQ((*classes)[1].trials, 1);
  EXPECT_EQ((*classes)[1].tables, 0);
  const auto device =
      Ask([](const StoreSnapshot& store) { return store.DeviceOf(kClass); });
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(*device, newer);
}

TEST_F(BrowseTest, SaysWhatIsNotThere) {
  EXPECT_TRUE(absl::IsNotFound(
      Ask([](const StoreSnapshot& s) { return s.DeviceOf("x"); }).status()));
  EXPECT_TRUE(absl::IsNotFound(
      Ask([](const StoreSnapshot& s) { return s.FindProblem("x"); }).status()));
  EXPECT_TRUE(absl::IsNotFound(
      Ask([](const StoreSnapshot& s) { return s.TrialById(1); }).status()));
  EXPECT_THAT(*Ask([](const StoreSnapshot& s) { return s.Problems("x"); }),
              IsEmpty());
  EXPECT_THAT(
      Ask([](const StoreSnapshot& s) { return s.Trials("x", "y", 1000); })->id,
      IsEmpty());
  EXPECT_THAT(
      *Ask([](const StoreSnapshot& s) { return s.Repeats("x", 10, 10); }),
      IsEmpty());
  const auto tables =
      Ask([](const StoreSnapshot& s) { return s.Tables("x", "", 5); });
  EXPECT_TRUE(absl::IsOutOfRange(tables.status()));
  EXPECT_THAT(tables.status().message(), HasSubstr("0 to 0"));
}

TEST_F(BrowseTest, ProblemsCountTheirTrials) {
  Record(Measured(16, 100, 8));
  Record(Measured(1, 100, 8));
  Record(Failed(1, Outcome::kTimeout));
  Record(Failed(64, Outcome::kTimeout));
  Protocol warm;
  warm.activations = "warm";
  Record(Measured(16, 100, 8), TestDevice(), warm);
  Record(Measured(32, 100, 8), TestDevice(), warm);
  Record(Measured(2, 100, 8), OtherDevice());
  ASSERT_TRUE(store_->PublishTable(TestTable(TestProblem(1024, 512))).ok());
  const auto problems =
      Ask([](const StoreSnapshot& store) { return store.Problems(kClass); });
  ASSERT_TRUE(problems.ok()) << problems.status();
  ASSERT_EQ(problems->size(), 2u);
  // By text: k=512 before k=8192.
  EXPECT_EQ((*problems)[0].problem, TestProblem(1024, 512));
  EXPECT_EQ((*problems)[0].trials, 0);
  EXPECT_THAT((*problems)[0].measured_m, IsEmpty());
  EXPECT_EQ((*problems)[1].problem, TestProblem());
  EXPECT_EQ((*problems)[1].hash, kProblem);
  EXPECT_EQ((*problems)[1].trials, 6);
  EXPECT_THAT((*problems)[1].measured_m, ElementsAre(1, 16, 32));
  EXPECT_EQ(
      *Ask([](const StoreSnapshot& s) { return s.FindProblem(kProblem); }),
      TestProblem());
}

TEST_F(BrowseTest, TrialsAreColumns) {
  Trial other = Measured(16, 500, 5, 0);
  other.config.stages = 6;
  other.session_id = "session-2";
  other.unix_us = 77;
  const int64_t first = Record(Measured(16, 100, 25));
  const int64_t second = Record(other);
  const int64_t third = Record(Failed(1, Outcome::kWrongResult));
  Record(Measured(1, 100, 8), OtherDevice());
  const auto trials = Ask(
      [](const StoreSnapshot& s) { return s.Trials(kProblem, kClass, 1000); });
  ASSERT_TRUE(trials.ok()) << trials.status();
  EXPECT_THAT(trials->id, ElementsAre(first, second, third));
  EXPECT_THAT(trials->m, ElementsAre(16, 16, 1));
  EXPECT_THAT(trials->median_ns, ElementsAre(112, 502, 0));
  EXPECT_THAT(trials->samples, ElementsAre(25, 5, 0));
  // The 8th of 25 from either end; 5 are too few.
  EXPECT_THAT(trials->low_ns, ElementsAre(107, 0, 0));
  EXPECT_THAT(trials->high_ns, ElementsAre(117, 0, 0));
  EXPECT_THAT(trials->clock_khz, ElementsAre(1980000, 0, 0));
  EXPECT_EQ(trials->unix_us[1], 77);
  const auto text = [](const std::vector<std::string>& texts,
                       const std::vector<int64_t>& column) {
    std::vector<std::string> out;
    for (const int64_t i : column) out.push_back(texts.at(i));
    return out;
  };
  EXPECT_THAT(text(trials->outcomes, trials->outcome),
              ElementsAre("measured", "measured", "wrong_result"));
  EXPECT_THAT(text(trials->sessions, trials->session),
              ElementsAre("session-1", "session-2", "session-1"));
  EXPECT_THAT(text(trials->configs, trials->config),
              ElementsAre(testing::TestTrial().config.ToString(),
                          other.config.ToString(),
                          testing::TestTrial().config.ToString()));
  EXPECT_EQ(trials->configs.size(), 2u);
  EXPECT_EQ(trials->protocol, Protocol());
  EXPECT_EQ(trials->others, 0);
}

// A layer's few trials among many others are found by the index, and come in
// the same order.
TEST_F(BrowseTest, FewTrialsAmongManyComeInOrder) {
  std::vector<int64_t> ids = {Record(Measured(64, 100, 8))};
  Trial other = Measured(1, 100, 8);
  other.problem = TestProblem(1024, 512);
  ASSERT_TRUE(store_
                  ->RecordTrials(TestDevice(), Protocol(),
                                 std::vector<Trial>(100, other))
                  .ok());
  ids.push_back(Record(Measured(16, 200, 8)));
  ids.push_back(Record(Measured(64, 300, 8)));
  const auto trials = Ask(
      [](const StoreSnapshot& s) { return s.Trials(kProblem, kClass, 1000); });
  EXPECT_EQ(trials->id, ids);
  EXPECT_THAT(trials->m, ElementsAre(64, 16, 64));
  EXPECT_THAT(trials->median_ns, ElementsAre(104, 204, 304));
}

TEST_F(BrowseTest, TheNewestTrialsAreWithinTheLimit) {
  std::vector<int64_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(Record(Measured(5 - i, 100, 8)));
  const auto newest = [this](int64_t limit) {
    const auto trials = Ask([limit](const StoreSnapshot& s) {
      return s.Trials(kProblem, kClass, limit);
    });
    EXPECT_EQ(trials->older + std::ssize(trials->id), 5);
    return trials->id;
  };
  EXPECT_EQ(newest(5), ids);
  EXPECT_THAT(newest(2), ElementsAre(ids[3], ids[4]));
  EXPECT_THAT(newest(1), ElementsAre(ids[4]));
}

// Times by different methods must not stand side by side.
TEST_F(BrowseTest, TrialsAreOfTheNewestProtocol) {
  Protocol warm;
  warm.activations = "warm";
  Record(Measured(1, 100, 8));
  Record(Measured(2, 100, 8));
  const int64_t newest = Record(Measured(1, 90, 8), TestDevice(), warm);
  const auto trials = Ask(
      [](const StoreSnapshot& s) { return s.Trials(kProblem, kClass, 1000); });
  EXPECT_THAT(trials->id, ElementsAre(newest));
  EXPECT_EQ(trials->protocol, warm);
  EXPECT_EQ(trials->others, 2);
}

// The interval of pages is that of tables.
TEST_F(BrowseTest, IntervalsAreThoseOfFixedSamples) {
  for (const int64_t count : {1, 5, 6, 12, 30, 31, 200}) {
    Record(Measured(count, 1000, count));
  }
  const auto trials = Ask(
      [](const StoreSnapshot& s) { return s.Trials(kProblem, kClass, 1000); });
  ASSERT_EQ(trials->id.size(), 7u);
  for (size_t i = 0; i < trials->id.size(); ++i) {
    std::vector<double> values;
    for (int64_t j = 0; j < trials->samples[i]; ++j)
      values.push_back(1000.0 + static_cast<double>(j));
    const MedianInterval expected = FixedMedianInterval(values, 0.05);
    const bool known = expected.count >= 6;
    EXPECT_EQ(trials->low_ns[i], known ? expected.low : 0);
    EXPECT_EQ(trials->high_ns[i], known ? expected.high : 0);
  }
}

TEST_F(BrowseTest, OneTrialIsWhole) {
  const Trial trial = testing::TestTrial(16, "detail");
  const int64_t id = Record(trial);
  const auto browsed =
      Ask([id](const StoreSnapshot& store) { return store.TrialById(id); });
  ASSERT_TRUE(browsed.ok()) << browsed.status();
  EXPECT_EQ(browsed->trial, trial);
  EXPECT_EQ(browsed->device, TestDevice());
  EXPECT_EQ(browsed->protocol, Protocol());
}

TEST_F(BrowseTest, TablesAnswerAsOfTheirRevision) {
  DispatchTable later = TestTable();
  later.session_id = "later";
  ASSERT_TRUE(store_->PublishTable(TestTable()).ok());
  ASSERT_TRUE(store_->PublishTable(later).ok());
  ASSERT_TRUE(store_->PublishTable(TestTable(TestProblem(1024, 512))).ok());
  const auto sessions = [this](std::optional<int64_t> revision) {
    const auto tables = Ask([&](const StoreSnapshot& store) {
      return store.Tables(kClass, kProblem, revision);
    });
    std::vector<std::string> ids;
    for (const StoredTable& stored : *tables)
      ids.push_back(stored.table.session_id);
    return ids;
  };
  EXPECT_THAT(sessions(std::nullopt), ElementsAre("later"));
  EXPECT_THAT(sessions(1), ElementsAre(TestTable().session_id));
  EXPECT_THAT(sessions(0), IsEmpty());
  EXPECT_EQ(
      Ask([](const StoreSnapshot& s) { return s.Tables(kClass); })->size(), 2u);
}

TEST_F(BrowseTest, SessionsCountTheirOutcomes) {
  SessionRecord session;
  session.id = "session-1";
  session.problem = TestProblem();
  session.device = TestDevice();
  session.started_us = 10;
  ASSERT_TRUE(store_->BeginSession(session).ok());
  ASSERT_TRUE(
      store_->FinishSession("session-1", SessionStatus::kFailed, "no", 20)
          .ok());
  session.id = "session-2";
  session.started_us = 30;
  ASSERT_TRUE(store_->BeginSession(session).ok());
  session.id = "elsewhere";
  session.device = OtherDevice();
  ASSERT_TRUE(store_->BeginSession(session).ok());
  Record(Measured(1, 100, 8));
  Record(Measured(16, 100, 8));
  Record(Failed(1, Outcome::kTimeout));
  const auto sessions = Ask(
      [](const StoreSnapshot& store) { return store.Sessions(kClass, 10); });
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  ASSERT_EQ(sessions->size(), 2u);
  EXPECT_EQ((*sessions)[0].id, "session-2");
  EXPECT_EQ((*sessions)[0].status, SessionStatus::kRunning);
  EXPECT_EQ((*sessions)[0].trials, 0);
  EXPECT_EQ((*sessions)[1].id, "session-1");
  EXPECT_EQ((*sessions)[1].problem_hash, kProblem);
  EXPECT_EQ((*sessions)[1].status, SessionStatus::kFailed);
  EXPECT_EQ((*sessions)[1].detail, "no");
  EXPECT_EQ((*sessions)[1].finished_us, 20);
  EXPECT_EQ((*sessions)[1].trials, 3);
  EXPECT_THAT((*sessions)[1].outcomes,
              UnorderedElementsAre(Pair("measured", 2), Pair("timeout", 1)));
  EXPECT_EQ(
      Ask([](const StoreSnapshot& s) { return s.Sessions(kClass, 1); })->size(),
      1u);
}

TEST_F(BrowseTest, RepeatsAreOfOneConfigMAndProtocol) {
  DeviceSpec newer = TestDevice();
  newer.driver = "590.1";
  Protocol warm;
  warm.activations = "warm";
  Trial other_config = Measured(16, 300, 8);
  other_config.config.stages = 6;
  Trial rebuilt = Measured(16, 104, 25);
  rebuilt.compile = TestCompile("rebuilt");
  rebuilt.session_id = "session-2";
  const int64_t first = Record(Measured(16, 100, 25));
  Record(Failed(16, Outcome::kTimeout));
  Record(other_config);
  Record(Measured(16, 100, 8), TestDevice(), warm);
  Record(Measured(32, 200, 8));
  const int64_t later_first = Record(Measured(64, 700, 8));
  const int64_t second = Record(rebuilt, newer);
  Record(Measured(16, 100, 8), OtherDevice());
  const int64_t later_second = Record(Measured(64, 710, 8));
  const auto ids = [this](int64_t scan, int64_t limit) {
    const auto repeats = Ask([&](const StoreSnapshot& store) {
      return store.Repeats(kClass, scan, limit);
    });
    std::vector<int64_t> out;
    for (const RepeatedTrial& trial : *repeats) out.push_back(trial.id);
    return out;
  };
  EXPECT_THAT(ids(100, 100),
              ElementsAre(later_first, later_second, first, second));
  EXPECT_THAT(ids(100, 3), ElementsAre(later_first, later_second));
  EXPECT_THAT(ids(3, 100), ElementsAre(later_first, later_second));
  EXPECT_THAT(ids(2, 100), IsEmpty());
  const auto repeats = Ask([](const StoreSnapshot& store) {
    return store.Repeats(kClass, 100, 100);
  });
  const RepeatedTrial& before = (*repeats)[2];
  const RepeatedTrial& after = (*repeats)[3];
  EXPECT_EQ(before.problem_hash, kProblem);
  EXPECT_EQ(before.m, 16);
  EXPECT_EQ(before.config, testing::TestTrial().config.ToString());
  EXPECT_EQ(before.kernel_id, TestCompile().kernel_id);
  EXPECT_EQ(before.nvrtc_version, "13.0");
  EXPECT_EQ(before.driver, TestDevice().driver);
  EXPECT_EQ(before.uuid, TestDevice().uuid);
  EXPECT_EQ(before.median_ns, 112);
  EXPECT_EQ(before.low_ns, 107);
  EXPECT_EQ(before.high_ns, 117);
  EXPECT_EQ(before.clock_khz, 1980000);
  EXPECT_EQ(after.kernel_id, TestCompile("rebuilt").kernel_id);
  EXPECT_EQ(after.driver, "590.1");
  EXPECT_EQ(after.session_id, "session-2");
  EXPECT_NE(after.device_row, before.device_row);
}

TEST_F(BrowseTest, TheVersionFollowsTrialsTablesAndRechecks) {
  std::vector<std::string> versions;
  const auto see = [&] {
    versions.push_back(
        *Ask([](const StoreSnapshot& store) { return store.Version(); }));
  };
  see();
  Record(Measured(1, 100, 8));
  see();
  ASSERT_TRUE(store_->PublishTable(TestTable()).ok());
  see();
  DispatchTable imported = TestTable(TestProblem(1024, 512));
  ASSERT_TRUE(store_->ImportTables({imported}, "bundle", 1).ok());
  see();
  const auto tables = Ask([](const StoreSnapshot& store) {
    return store.Tables(kClass, TestProblem(1024, 512).Hash());
  });
  RecheckRecord recheck;
  recheck.session_id = "recheck";
  recheck.device = TestDevice();
  recheck.unix_us = 2;
  recheck.keys = 1;
  recheck.regret_limit = 0.01;
  recheck.tables = {{.table_id = tables->front().id,
                     .keys = 1,
                     .median_regret = 0,
                     .verdict = RecheckVerdict::kVerified}};
  ASSERT_TRUE(store_->RecordRecheck(recheck).ok());
  see();
  std::sort(versions.begin(), versions.end());
  EXPECT_EQ(std::unique(versions.begin(), versions.end()), versions.end());
  const std::string last =
      *Ask([](const StoreSnapshot& store) { return store.Version(); });
  EXPECT_EQ(*Ask([](const StoreSnapshot& store) { return store.Version(); }),
            last);
}

// What is recorded in between is not seen: an answer is of one moment.
TEST_F(BrowseTest, SeesOneSnapshot) {
  Record(Measured(1, 100, 8));
  const absl::Status status =
      store_->Browse([&](const StoreSnapshot& store) -> absl::Status {
        EXPECT_EQ(store.Trials(kProblem, kClass, 1000)->id.size(), 1u);
        Record(Measured(2, 100, 8));
        EXPECT_EQ(store.Trials(kProblem, kClass, 1000)->id.size(), 1u);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Ask([](const StoreSnapshot& s) {
              return s.Trials(kProblem, kClass, 1000);
            })->id.size(),
            2u);
}

}  // namespace
}  // namespace hone
