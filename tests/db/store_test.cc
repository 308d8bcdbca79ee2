#include "db/store.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "absl/strings/str_replace.h"
#include "db/sqlite.h"
#include "gmock/gmock.h"
#include "tests/db/fixture.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TestCompile;
using testing::TestDevice;
using testing::TestProblem;
using testing::TestTable;
using testing::TestTrial;
using StoreTest = testing::DbTest;

RecheckRecord TestRecheck(RecheckVerdict verdict = RecheckVerdict::kVerified) {
  RecheckRecord record;
  record.session_id = "recheck";
  record.device = TestDevice();
  record.unix_us = 5;
  record.keys = 3;
  record.median_regret = 0.004;
  record.regret_limit = 0.01;
  record.tables = {
      {.table_id = 1, .keys = 3, .median_regret = 0.004, .verdict = verdict}};
  return record;
}

absl::StatusCode CodeOf(const absl::Status& status) { return status.code(); }

// ---- opening ----

TEST_F(StoreTest, ASecondWriterIsRefusedAndReadersAreNot) {
  auto store = OpenStore();
  const auto second = Store::Open(Path());
  EXPECT_EQ(CodeOf(second.status()), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.status().message(),
              HasSubstr(absl::StrCat("held by process ", getpid())));
  const auto reader = OpenStore("hone.db", {.read_only = true});
  ASSERT_TRUE(store->PublishTable(TestTable()).ok());
  EXPECT_EQ(*reader->CurrentRevision(), 1);
  EXPECT_EQ(CodeOf(reader->PublishTable(TestTable()).status()),
            absl::StatusCode::kFailedPrecondition);
  store.reset();
  EXPECT_NE(OpenStore(), nullptr);
}

TEST_F(StoreTest, AMissingFileIsCreatedOnlyForWriting) {
  EXPECT_EQ(CodeOf(Store::Open(Path(), {.read_only = true}).status()),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Store::Open(Path("none/hone.db")).status()),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Store::Open(Path(), {.readers = 0}).status()),
            absl::StatusCode::kInvalidArgument);
  EXPECT_NE(OpenStore(), nullptr);
}

// ---- trials ----

TEST_F(StoreTest, EveryFieldOfATrialReadsBack) {
  Trial failed = TestTrial(1, "line 7: error\n\"quoted\" \xFF");
  failed.outcome = Outcome::kCompileError;
  failed.gate = GateKind::kNone;
  failed.error = {std::numeric_limits<double>::infinity(), 0};
  failed.compile = CompileInfo();
  failed.compile.source_key = "key";
  failed.samples.clear();
  failed.median_ns = 0;
  const Trial measured = TestTrial();
  {
    const auto store = OpenStore();
    EXPECT_EQ(*store->RecordTrial(TestDevice(), Protocol(), measured), 1);
    EXPECT_THAT(
        *store->RecordTrials(TestDevice(), Protocol(), {failed, measured}),
        ElementsAre(2, 3));
  }
  const auto store = OpenStore();
  EXPECT_THAT(*store->KnownTrials(TestProblem(), TestDevice(), Protocol()),
              ElementsAre(measured, failed, measured));
}

TEST_F(StoreTest, AnErrorThatIsNotANumberStaysOne) {
  const auto store = OpenStore();
  Trial trial = TestTrial();
  trial.error.worst_ratio = std::nan("");
  ASSERT_TRUE(store->RecordTrial(TestDevice(), Protocol(), trial).ok());
  const auto trials =
      store->KnownTrials(TestProblem(), TestDevice(), Protocol());
  EXPECT_TRUE(std::isnan(trials->at(0).error.worst_ratio));
  EXPECT_EQ(trials->at(0).error.relative_norm, trial.error.relative_norm);
}

TEST_F(StoreTest, TrialsAreKnownByProblemClassAndProtocol) {
  const auto store = OpenStore();
  ASSERT_TRUE(store->RecordTrial(TestDevice(), Protocol(), TestTrial()).ok());
  // Another driver is the same class, another SM count is not.
  DeviceSpec updated = TestDevice();
  updated.driver = "999";
  EXPECT_EQ(store->KnownTrials(TestProblem(), updated, Protocol())->size(), 1u);
  DeviceSpec smaller = TestDevice();
  smaller.sm_count = 114;
  EXPECT_EQ(store->KnownTrials(TestProblem(), smaller, Protocol())->size(), 0u);
  Protocol warm;
  warm.activations = "warm";
  EXPECT_EQ(store->KnownTrials(TestProblem(), TestDevice(), warm)->size(), 0u);
  EXPECT_EQ(
      store->KnownTrials(TestProblem(64), TestDevice(), Protocol())->size(),
      0u);
  // The soft values are kept with the trial.
  ASSERT_TRUE(store->RecordTrial(updated, Protocol(), TestTrial()).ok());
  const auto devices = store->ListDevices();
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ(devices->at(0).device, TestDevice());
  EXPECT_EQ(devices->at(0).trials, 1);
  EXPECT_EQ(devices->at(1).device, updated);
}

TEST_F(StoreTest, AFailureUnderAnotherDriverIsForgotten) {
  const auto store = OpenStore();
  Trial faulty = TestTrial();
  faulty.outcome = Outcome::kFault;
  faulty.samples.clear();
  Trial uncompiled = faulty;
  uncompiled.outcome = Outcome::kCompileError;
  uncompiled.compile = CompileInfo();
  uncompiled.compile.source_key = "key";
  const Trial measured = TestTrial();
  ASSERT_TRUE(store
                  ->RecordTrials(TestDevice(), Protocol(),
                                 {faulty, uncompiled, measured})
                  .ok());
  EXPECT_EQ(store->KnownTrials(TestProblem(), TestDevice(), Protocol())->size(),
            3u);
  // No driver has a part in a compile, and times stay comparable.
  for (const bool cuda : {false, true}) {
    DeviceSpec updated = TestDevice();
    if (cuda) {
      ++updated.cuda_driver_version;
    } else {
      updated.driver = "999";
    }
    EXPECT_THAT(*store->KnownTrials(TestProblem(), updated, Protocol()),
                ElementsAre(uncompiled, measured));
  }
}

TEST_F(StoreTest, ABatchIsAllOrNone) {
  const auto store = OpenStore();
  DeviceSpec broken = TestDevice();
  broken.memory_gbps = std::nan("");
  const auto ids =
      store->RecordTrials(broken, Protocol(), {TestTrial(), TestTrial()});
  EXPECT_EQ(CodeOf(ids.status()), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(ids.status().message(), HasSubstr("device.memory_gbps"));
  EXPECT_TRUE(store->ListDevices()->empty());
}

// A space of 4 configs.
Study TestStudy(int64_t batch_size = 8) {
  StudySpec spec;
  spec.problem = "p";
  spec.device = "d";
  spec.parameters = {{"x", {1, 2, 3, 4}, {}}};
  spec.exclusions = {{{"x", {"4"}}}};
  spec.baseline = {{"x", "1"}};
  spec.batch_size = batch_size;
  spec.seed = ~uint64_t{0};
  return *Study::Create(spec);
}

TEST_F(StoreTest, EvidenceCanNeitherBeChangedNorDeleted) {
  {
    const auto store = OpenStore();
    ASSERT_TRUE(store->RecordTrial(TestDevice(), Protocol(), TestTrial()).ok());
    const auto imported =
        store->ImportTables({TestTable()}, std::string(64, 'a'), 1);
    ASSERT_TRUE(imported.ok()) << imported.status();
    ASSERT_TRUE(store->RecordRecheck(TestRecheck()).ok());
    ASSERT_TRUE(store->OpenStudy("s", TestStudy(), false, 1, 3).ok());
    ASSERT_TRUE(
        store->RecordStudyResults("s", {{"x=2", Outcome::kFault, "", {}}}, 4)
            .ok());
  }
  auto database = sqlite::Database::Open(Path(), sqlite::Access::kReadWrite);
  ASSERT_TRUE(database.ok());
  const std::pair<const char*, const char*> kColumns[] = {
      {"trial", "median_ns"},       {"device", "driver"},
      {"device_class", "sm_count"}, {"problem", "n"},
      {"config", "text"},           {"protocol", "text"},
      {"kernel", "registers"},      {"revision", "unix_us"},
      {"dispatch_table", "origin"}, {"table_entry", "m_hi"},
      {"evidence", "median_ns"},    {"evidence_tie", "config"},
      {"trade_off", "mean_regret"}, {"recheck", "keys"},
      {"recheck_table", "verdict"}, {"verification", "unix_us"},
      {"study_result", "outcome"},  {"study", "spec"},
  };
  for (const auto& [table, column] : kColumns) {
    ASSERT_GT(
        *(*database)->QueryInt(absl::StrCat("SELECT count(*) FROM ", table)), 0)
        << table;
    for (const std::string& sql :
         {absl::StrCat("UPDATE ", table, " SET ", column, " = ", column),
          absl::StrCat("DELETE FROM ", table),
          absl::StrCat("REPLACE INTO ", table, " SELECT * FROM ", table)}) {
      const absl::Status status = (*database)->Execute(sql);
      EXPECT_EQ(CodeOf(status), absl::StatusCode::kFailedPrecondition) << sql;
      EXPECT_THAT(status.message(), HasSubstr("is append-only")) << sql;
    }
  }
}

// ---- studies ----

TEST_F(StoreTest, StudiesAreKeptWithTheirResultsInOrder) {
  const std::vector<StoredStudyResult> results = {
      {"x=2", Outcome::kMeasured, "", {{100, 1'500'000, 0}, {101, 0, 1}}},
      {"x=3", Outcome::kWrongResult, "off by \"one\"", {}},
      {"x=1", Outcome::kMeasured, "", {{90, 0, 0}}}};
  {
    const auto store = OpenStore();
    EXPECT_TRUE(*store->OpenStudy("s", TestStudy(), false, 2, 5));
    EXPECT_FALSE(*store->OpenStudy("s", TestStudy(), false, 2, 6));
    EXPECT_EQ(CodeOf(store->OpenStudy("s", TestStudy(7), false, 2, 6).status()),
              absl::StatusCode::kAlreadyExists);
    ASSERT_TRUE(store->RecordStudyResults("s", {results[0]}, 6).ok());
    ASSERT_TRUE(
        store->RecordStudyResults("s", {results[1], results[2]}, 7).ok());
    EXPECT_EQ(CodeOf(store->RecordStudyResults("t", results, 7)),
              absl::StatusCode::kNotFound);
    EXPECT_EQ(CodeOf(store->CloseStudy("t", 7).status()),
              absl::StatusCode::kNotFound);
  }
  const auto store = OpenStore();
  const auto stored = store->GetStudy("s");
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->spec, TestStudy().spec());
  EXPECT_EQ(stored->opened_us, 5);
  EXPECT_EQ(stored->closed_us, 0);
  EXPECT_EQ(stored->results, results);

  // What failed is known to the next one, what was measured is not.
  EXPECT_TRUE(*store->OpenStudy("later", TestStudy(), false, 2, 8));
  EXPECT_EQ(store->GetStudy("later")->results,
            std::vector<StoredStudyResult>{results[1]});
  EXPECT_EQ(CodeOf(store->OpenStudy("more", TestStudy(), false, 2, 8).status()),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(*store->CloseStudy("s", 9));
  EXPECT_FALSE(*store->CloseStudy("s", 10));
  EXPECT_EQ(store->GetStudy("s")->closed_us, 9);
  EXPECT_EQ(CodeOf(store->RecordStudyResults("s", results, 11)),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(*store->OpenStudy("more", TestStudy(), true, 2, 12));
  EXPECT_TRUE(store->GetStudy("more")->results.empty());
  // It may work by now; then it is no failure any more.
  ASSERT_TRUE(
      store
          ->RecordStudyResults(
              "more", {{"x=3", Outcome::kMeasured, "", {{100, 0, 0}}}}, 13)
          .ok());
  EXPECT_TRUE(*store->OpenStudy("last", TestStudy(), false, 3, 14));
  EXPECT_TRUE(store->GetStudy("last")->results.empty());
  EXPECT_EQ(CodeOf(store->GetStudy("none").status()),
            absl::StatusCode::kNotFound);
}

// ---- aliases ----

TEST_F(StoreTest, AliasesAreFoundAndReplaced) {
  const auto store = OpenStore();
  const CompileInfo first = TestCompile();
  EXPECT_EQ(CodeOf(store->GetAlias(first.source_key).status()),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(store->PutAlias(first).ok());
  EXPECT_EQ(*store->GetAlias(first.source_key), first);
  CompileInfo second = first;
  second.cubin_hash = "other";
  second.compile_ms = 3;
  ASSERT_TRUE(store->PutAlias(second).ok());
  EXPECT_EQ(*store->GetAlias(first.source_key), second);
  EXPECT_EQ(CodeOf(store->PutAlias(CompileInfo())),
            absl::StatusCode::kInvalidArgument);
}

// ---- tables ----

TEST_F(StoreTest, EveryFieldOfATableReadsBack) {
  const DispatchTable table = TestTable();
  EXPECT_EQ(*OpenStore()->PublishTable(table), 1);
  const auto store = OpenStore();
  const auto stored = store->GetTable(table.problem, table.device);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->table, table);
  EXPECT_EQ(stored->revision, 1);
  EXPECT_EQ(stored->origin, Origin::kLocal);
  EXPECT_EQ(stored->imported_from, "");
  EXPECT_TRUE(stored->verified);
  EXPECT_TRUE(stored->soft_differences.empty());
}

TEST_F(StoreTest, SoftDifferencesAreNamed) {
  const auto store = OpenStore();
  ASSERT_TRUE(store->PublishTable(TestTable()).ok());
  DeviceSpec device = TestDevice();
  device.driver = "590.1";
  device.ecc = false;
  device.name = "renamed";
  EXPECT_THAT(store->GetTable(TestProblem(), device)->soft_differences,
              ElementsAre("driver 590.1 here, 580.65.06 measured",
                          "ecc 0 here, 1 measured"));
}

TEST_F(StoreTest, ARevisionIsASnapshotOfAllTables) {
  const auto store = OpenStore();
  EXPECT_EQ(*store->CurrentRevision(), 0);
  DispatchTable first = TestTable(TestProblem(64));
  DispatchTable other = TestTable(TestProblem(128));
  DispatchTable second = first;
  second.session_id = "second";
  EXPECT_EQ(*store->PublishTable(first), 1);
  EXPECT_EQ(*store->PublishTable(other), 2);
  EXPECT_EQ(*store->PublishTable(second), 3);
  EXPECT_EQ(*store->CurrentRevision(), 3);

  const auto at = [&](const DispatchTable& table,
                      std::optional<int64_t> revision) {
    return store->GetTable(table.problem, table.device, revision);
  };
  EXPECT_EQ(at(first, std::nullopt)->table, second);
  EXPECT_EQ(at(first, 3)->table, second);
  EXPECT_EQ(at(first, 2)->table, first);
  EXPECT_EQ(at(first, 1)->table, first);
  EXPECT_EQ(at(other, 3)->table, other);
  EXPECT_EQ(at(other, 3)->revision, 2);
  EXPECT_EQ(CodeOf(at(first, 4).status()), absl::StatusCode::kOutOfRange);
  const absl::Status early = at(other, 1).status();
  EXPECT_EQ(CodeOf(early), absl::StatusCode::kNotFound);
  EXPECT_THAT(early.message(),
              HasSubstr("published under revision 2, after revision 1"));
  EXPECT_EQ(store->Tables({.revision = 1})->size(), 1u);
  EXPECT_EQ(store->Tables()->size(), 2u);
}

TEST_F(StoreTest, AMissNamesTheHardFieldOfTheNearestDevice) {
  const auto store = OpenStore();
  EXPECT_THAT(store->GetTable(TestProblem(), TestDevice()).status().message(),
              HasSubstr("it was never tuned"));
  DeviceSpec far = TestDevice();
  far.sm_arch = 80;
  far.sm_count = 108;
  far.name = "NVIDIA A100";
  ASSERT_TRUE(store->PublishTable(TestTable(TestProblem(), far)).ok());
  ASSERT_TRUE(store->PublishTable(TestTable()).ok());
  DeviceSpec device = TestDevice();
  device.sm_count = 114;
  const absl::Status miss = store->GetTable(TestProblem(), device).status();
  EXPECT_EQ(CodeOf(miss), absl::StatusCode::kNotFound);
  EXPECT_THAT(miss.message(),
              HasSubstr("tuned for another device, NVIDIA H200: "
                        "sm_count 132 != 114 here"));
  // A model never answers for real hardware.
  const DeviceSpec model = *ModelledDevice("h200");
  EXPECT_THAT(store->GetTable(TestProblem(), model).status().message(),
              HasSubstr("kind measured != modelled here"));
}

TEST_F(StoreTest, TablesThatAreNotValidAreRefused) {
  const auto store = OpenStore();
  const auto refuse = [&](auto change) {
    DispatchTable table = TestTable();
    change(table);
    const absl::Status status = store->PublishTable(table).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_THAT(refuse([](auto& t) { t.entries[1].m_lo = 20; }),
              HasSubstr("hole"));
  EXPECT_THAT(refuse([](auto& t) { t.entries[1].config.stages = 99; }),
              HasSubstr("table.entries[1].config: tuning.stages"));
  EXPECT_THAT(refuse([](auto& t) { t.problem.layer.n = 0; }),
              HasSubstr("layer.n"));
  EXPECT_THAT(refuse([](auto& t) { t.protocol.timer = "stopwatch"; }),
              HasSubstr("protocol.timer"));
  EXPECT_THAT(refuse([](auto& t) { t.ladder = {4, 4}; }), HasSubstr("ladder"));
  EXPECT_THAT(refuse([](auto& t) { t.session_id = "\xFF"; }),
              HasSubstr("table.session_id"));
  EXPECT_THAT(refuse([](auto& t) {
                t.entries[0].compile.cubin_hash = "../../etc/passwd";
              }),
              HasSubstr("cubin_hash"));
  EXPECT_THAT(
      refuse([](auto& t) { t.entries[0].evidence[0].margin = std::nan(""); }),
      HasSubstr("evidence[0].margin"));
  EXPECT_THAT(refuse([](auto& t) { t.entries[0].evidence[0].median_ns = -1; }),
              HasSubstr("evidence[0].median_ns"));
  EXPECT_THAT(
      refuse([](auto& t) { t.entries[0].evidence[0].ties = {"stages=2"}; }),
      HasSubstr("canonical"));
  EXPECT_THAT(refuse([](auto& t) {
                t.device.peak_tflops = std::numeric_limits<double>::infinity();
              }),
              HasSubstr("device.peak_tflops"));
  EXPECT_THAT(refuse([](auto& t) { t.session_id = std::string(5 << 20, 'x'); }),
              HasSubstr("larger than"));
  EXPECT_EQ(*store->CurrentRevision(), 0);
}

TEST_F(StoreTest, ImportsNeverHideLocalTablesAndTheNewestImportWins) {
  const auto store = OpenStore();
  const std::string bundle(64, 'b');
  DispatchTable early = TestTable();
  early.session_id = "early";
  DispatchTable late = TestTable();
  late.session_id = "late";
  const auto first = store->ImportTables({early}, bundle, 1);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->tables_added, 1);
  EXPECT_EQ(first->revision, 1);
  auto stored = store->GetTable(TestProblem(), TestDevice());
  EXPECT_EQ(stored->origin, Origin::kImported);
  EXPECT_EQ(stored->imported_from, bundle);
  EXPECT_FALSE(stored->verified);

  // Another import of the same problem is kept beside it and answers.
  EXPECT_EQ(store->ImportTables({late}, bundle, 2)->revision, 2);
  EXPECT_EQ(store->GetTable(TestProblem(), TestDevice())->table, late);
  EXPECT_EQ(store->GetTable(TestProblem(), TestDevice(), 1)->table, early);
  // The same content again is known.
  const auto again = store->ImportTables({early, late}, bundle, 3);
  EXPECT_EQ(again->tables_added, 0);
  EXPECT_EQ(again->tables_known, 2);
  EXPECT_EQ(again->revision, 2);

  // A local table answers from its revision on, whatever is imported later.
  DispatchTable local = TestTable();
  local.session_id = "local";
  EXPECT_EQ(*store->PublishTable(local), 3);
  DispatchTable latest = TestTable();
  latest.session_id = "latest";
  EXPECT_EQ(store->ImportTables({latest}, bundle, 4)->revision, 4);
  stored = store->GetTable(TestProblem(), TestDevice());
  EXPECT_EQ(stored->table, local);
  EXPECT_EQ(stored->origin, Origin::kLocal);
  EXPECT_EQ(store->GetTable(TestProblem(), TestDevice(), 2)->table, late);
}

TEST_F(StoreTest, ACheckedImportBecomesVerified) {
  const auto store = OpenStore();
  ASSERT_TRUE(store->ImportTables({TestTable()}, "", 1).ok());
  RecheckRecord record = TestRecheck(RecheckVerdict::kUnverified);
  record.tables[0].table_id = store->GetTable(TestProblem(), TestDevice())->id;
  ASSERT_TRUE(store->RecordRecheck(record).ok());
  EXPECT_FALSE(store->GetTable(TestProblem(), TestDevice())->verified);
  record.tables[0].verdict = RecheckVerdict::kVerified;
  ASSERT_TRUE(store->RecordRecheck(record).ok());
  ASSERT_TRUE(store->RecordRecheck(record).ok());
  EXPECT_TRUE(store->GetTable(TestProblem(), TestDevice())->verified);
  // A table that is not there leaves nothing behind.
  record.tables.push_back({.table_id = 99});
  EXPECT_FALSE(store->RecordRecheck(record).ok());
  auto database = sqlite::Database::Open(Path(), sqlite::Access::kReadOnly);
  EXPECT_EQ(*(*database)->QueryInt("SELECT count(*) FROM recheck"), 3);
}

TEST_F(StoreTest, AKeptTableAnswersItsDeviceWithoutSoftDifferences) {
  const auto store = OpenStore();
  ASSERT_TRUE(store->PublishTable(TestTable()).ok());
  DeviceSpec newer = TestDevice();
  newer.driver = "590.1";
  newer.vbios = "97";
  const auto differences = [&](const DeviceSpec& device) {
    return store->GetTable(TestProblem(), device)->soft_differences.size();
  };
  RecheckRecord record = TestRecheck(RecheckVerdict::kRetune);
  record.device = newer;
  ASSERT_TRUE(store->RecordRecheck(record).ok());
  EXPECT_EQ(differences(newer), 2u);
  record.tables[0].verdict = RecheckVerdict::kKept;
  ASSERT_TRUE(store->RecordRecheck(record).ok());
  EXPECT_EQ(differences(newer), 0u);
  // Another card in the same state is as good; another state is not.
  DeviceSpec other = newer;
  other.uuid = "GPU-other";
  EXPECT_EQ(differences(other), 0u);
  other.driver = "600";
  EXPECT_EQ(differences(other), 2u);
  EXPECT_THAT(store->Tables()->front().kept_in, ElementsAre(newer.SoftText()));
  // A table published later was not checked.
  DispatchTable later = TestTable();
  later.session_id = "later";
  ASSERT_TRUE(store->PublishTable(later).ok());
  EXPECT_EQ(differences(newer), 2u);
}

TEST_F(StoreTest, TrialsOfAnotherDeviceStateCanBeLeftOut) {
  const auto store = OpenStore();
  DeviceSpec newer = TestDevice();
  newer.power_limit_mw = 500000;
  for (const DeviceSpec& device : {TestDevice(), newer}) {
    ASSERT_TRUE(store->RecordTrial(device, Protocol(), TestTrial()).ok());
  }
  DeviceSpec other = newer;
  other.uuid = "GPU-other";
  EXPECT_EQ(store->KnownTrials(TestProblem(), other, Protocol())->size(), 2u);
  EXPECT_EQ(store->KnownTrials(TestProblem(), other, Protocol(),
                               /*this_state_only=*/true)
                ->size(),
            1u);
}

TEST_F(StoreTest, TimesAreOfServedConfigsAndTheBestOfAll) {
  const auto store = OpenStore();
  DispatchTable table = TestTable();
  table.protocol = Protocol();
  ASSERT_TRUE(store->PublishTable(table).ok());
  const auto record = [&](const TuningConfig& config, int64_t m, int64_t ns,
                          Outcome outcome = Outcome::kMeasured) {
    Trial trial = TestTrial(m);
    trial.config = config;
    trial.median_ns = ns;
    trial.outcome = outcome;
    ASSERT_TRUE(store->RecordTrial(TestDevice(), Protocol(), trial).ok());
  };
  const TuningConfig served = table.entries[0].config;
  TuningConfig other;
  other.stages = 7;
  record(served, 16, 300);
  record(served, 16, 310);
  record(other, 16, 250);
  record(served, 1, 100);
  record(other, 64, 5, Outcome::kScreenedOut);
  const auto tables = store->Tables();
  const auto times = store->TimesOf(*tables);
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->size(), 1u);
  EXPECT_EQ((*times)[0].configs,
            (std::vector<TrialTimes::OfConfig>{
                {served.ToString(), {{1, 100, 100}, {16, 300, 310}}}}));
  EXPECT_EQ((*times)[0].best,
            (std::vector<TrialTimes::Best>{{1, 100}, {16, 250}}));
  // Another protocol's times are not compared.
  DispatchTable warm = table;
  warm.protocol.activations = "warm";
  StoredTable stored;
  stored.table = warm;
  EXPECT_EQ(store->TimesOf({&stored, 1})->front(), TrialTimes());
}

TEST_F(StoreTest, PagesHoldEveryTableOnceAtOneRevision) {
  const auto store = OpenStore();
  for (int64_t n = 1; n <= 7; ++n) {
    ASSERT_TRUE(store->PublishTable(TestTable(TestProblem(n * 64))).ok());
  }
  DispatchTable newer = TestTable(TestProblem(64));
  newer.session_id = "newer";
  ASSERT_TRUE(store->PublishTable(newer).ok());

  PageRequest request{.page_size = 3};
  std::multiset<int64_t> seen;
  int pages = 0;
  do {
    const auto page = store->ListTables(request);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->tables.size(), 3u);
    for (const StoredTable& table : page->tables) {
      seen.insert(table.table.problem.layer.n);
      if (table.table.problem.layer.n == 64) {
        EXPECT_EQ(table.table, newer);
      }
    }
    request.page_token = page->next_page_token;
    // What is published meanwhile is of a later revision.
    ASSERT_TRUE(
        store->PublishTable(TestTable(TestProblem(64 * (20 + pages)))).ok());
    ++pages;
  } while (!request.page_token.empty());
  EXPECT_EQ(pages, 3);
  EXPECT_THAT(seen, ElementsAre(64, 128, 192, 256, 320, 384, 448));

  EXPECT_EQ(store->ListTables()->tables.size(), 10u);
  EXPECT_EQ(store->ListTables({.page_size = 100000})->tables.size(), 10u);
  for (const char* token : {"x", "!!!", "dGFibGVz", "dGFibGVzIDEgeA"}) {
    const auto bad = store->ListTables({.page_token = token});
    EXPECT_EQ(CodeOf(bad.status()), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(bad.status().message(), HasSubstr("page_token"));
  }
  EXPECT_EQ(CodeOf(store->ListTables({.page_size = -1}).status()),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(StoreTest, TablesPassTheFilterInOrder) {
  const auto store = OpenStore();
  DeviceSpec other = TestDevice();
  other.sm_count = 114;
  for (const DeviceSpec& device : {other, TestDevice()}) {
    for (const int64_t n : {8192, 64}) {
      ASSERT_TRUE(store->PublishTable(TestTable(TestProblem(n), device)).ok());
    }
  }
  const auto all = store->Tables();
  ASSERT_EQ(all->size(), 4u);
  for (size_t i = 1; i < all->size(); ++i) {
    const auto key = [&](size_t j) {
      const DispatchTable& table = all->at(j).table;
      return std::pair(table.problem.ToString(), table.device.ClassHash());
    };
    EXPECT_LT(key(i - 1), key(i));
  }
  EXPECT_EQ(store->Tables({.problem = TestProblem(64)})->size(), 2u);
  EXPECT_EQ(store->Tables({.device_class = other.ClassHash()})->size(), 2u);
  EXPECT_EQ(store
                ->Tables({.problem = TestProblem(64),
                          .device_class = other.ClassHash(),
                          .revision = 1})
                ->size(),
            0u);
}

// ---- sessions ----

TEST_F(StoreTest, AnInterruptedSessionIsVisibleAndRunsAgain) {
  SessionRecord session;
  session.id = "a";
  session.problem = TestProblem();
  session.device = TestDevice();
  session.protocol.timer = "model";
  session.started_us = 10;
  {
    const auto store = OpenStore();
    ASSERT_TRUE(store->BeginSession(session).ok());
    EXPECT_EQ(CodeOf(store->BeginSession(session)),
              absl::StatusCode::kAlreadyExists);
    SessionRecord other = session;
    other.id = "b";
    other.started_us = 20;
    ASSERT_TRUE(store->BeginSession(other).ok());
    ASSERT_TRUE(
        store->FinishSession("b", SessionStatus::kFailed, "no kernel", 30)
            .ok());
    EXPECT_EQ(
        CodeOf(store->FinishSession("b", SessionStatus::kFinished, "", 31)),
        absl::StatusCode::kNotFound);
    // A reader beside the writer interrupts nothing.
    EXPECT_EQ(
        OpenStore("hone.db", {.read_only = true})->Sessions(9)->at(1).status,
        SessionStatus::kRunning);
  }
  const auto store = OpenStore();
  const auto sessions = store->Sessions(9);
  ASSERT_EQ(sessions->size(), 2u);
  EXPECT_EQ(sessions->at(0).id, "b");
  EXPECT_EQ(sessions->at(0).status, SessionStatus::kFailed);
  EXPECT_EQ(sessions->at(0).detail, "no kernel");
  EXPECT_EQ(sessions->at(0).finished_us, 30);
  EXPECT_EQ(sessions->at(1).id, "a");
  EXPECT_EQ(sessions->at(1).status, SessionStatus::kInterrupted);
  EXPECT_EQ(sessions->at(1).problem, session.problem);
  EXPECT_EQ(sessions->at(1).device, session.device);
  EXPECT_EQ(sessions->at(1).protocol, session.protocol);
  EXPECT_EQ(sessions->at(1).started_us, 10);
  EXPECT_EQ(store->Sessions(1)->size(), 1u);
  ASSERT_TRUE(store->BeginSession(session).ok());
  ASSERT_TRUE(store->FinishSession("a", SessionStatus::kFinished, "", 40).ok());
  EXPECT_EQ(CodeOf(store->BeginSession(session)),
            absl::StatusCode::kAlreadyExists);
}

// ---- threads ----

TEST_F(StoreTest, ReadersSeeWholeRevisionsWhileOneWrites) {
  const auto store = OpenStore("hone.db", {.readers = 2});
  ASSERT_TRUE(store->PublishTable(TestTable()).ok());
  std::atomic<bool> done = false;
  std::atomic<int> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const auto stored = store->GetTable(TestProblem(), TestDevice());
        ASSERT_TRUE(stored.ok()) << stored.status();
        // Each revision says its own number in every entry.
        const int64_t stamp = stored->table.unix_us;
        for (const TableEntry& entry : stored->table.entries) {
          if (stored->revision > 1) {
            EXPECT_EQ(entry.compile.registers, stamp);
          }
        }
        ++reads;
      }
    });
  }
  for (int64_t stamp = 2; stamp <= 60; ++stamp) {
    DispatchTable table = TestTable();
    table.unix_us = stamp;
    for (TableEntry& entry : table.entries) entry.compile.registers = stamp;
    ASSERT_EQ(*store->PublishTable(table), stamp);
    ASSERT_TRUE(store->RecordTrial(TestDevice(), Protocol(), TestTrial()).ok());
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(reads, 10);
  EXPECT_EQ(*store->CurrentRevision(), 60);
}

}  // namespace
}  // namespace hone
