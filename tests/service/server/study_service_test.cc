// StudyService over real gRPC and SQLite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "hone/v1/study_service.grpc.pb.h"
#include "tests/service/support/test_daemon.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::StudySpec Spec() {
  v1::StudySpec spec;
  spec.set_problem("softmax rows=4096");
  spec.set_device("H200");
  v1::Parameter* block = spec.add_parameters();
  block->set_name("block");
  block->mutable_powers_of_two()->set_low(32);
  block->mutable_powers_of_two()->set_high(512);
  v1::Parameter* stages = spec.add_parameters();
  stages->set_name("stages");
  stages->mutable_range()->set_low(1);
  stages->mutable_range()->set_high(4);
  v1::Parameter* order = spec.add_parameters();
  order->set_name("order");
  order->mutable_words()->add_values("row");
  order->mutable_words()->add_values("column");
  v1::Exclusion* exclusion = spec.add_exclusions();
  exclusion->add_terms()->set_parameter("block");
  exclusion->mutable_terms(0)->add_values("512");
  exclusion->add_terms()->set_parameter("stages");
  exclusion->mutable_terms(1)->add_values("4");
  (*spec.mutable_baseline()->mutable_values())["block"] = "32";
  (*spec.mutable_baseline()->mutable_values())["stages"] = "1";
  (*spec.mutable_baseline()->mutable_values())["order"] = "row";
  return spec;
}

std::map<std::string, std::string> MapOf(const v1::ParameterValues& config) {
  return {config.values().begin(), config.values().end()};
}

// Fastest, 10 µs, at block=128, stages=3, order=column, unless it fails.
const std::map<std::string, std::string> kBest = {
    {"block", "128"}, {"order", "column"}, {"stages", "3"}};

int64_t Measure(const v1::ParameterValues& config, int32_t round) {
  const auto& values = config.values();
  const double ns =
      10000 *
      (1 + 0.2 * std::abs(std::log2(std::stod(values.at("block")) / 128)) +
       0.1 * std::abs(std::stod(values.at("stages")) - 3)) *
      (values.at("order") == "column" ? 1 : 1.15);
  // Noise that depends on what is measured alone, so that runs repeat.
  std::seed_seq seed{static_cast<int>(ns), static_cast<int>(round)};
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, 0.005);
  return std::llround(ns * std::exp(noise(random)));
}

class StudyServiceTest : public testing::Test {
 protected:
  StudyServiceTest() : daemon_(/*can_tune=*/false) { Connect(); }
  void Connect() { stub_ = v1::StudyService::NewStub(daemon_.Channel()); }
  void Restart() {
    stub_ = nullptr;
    daemon_.Stop();
    daemon_.Start(/*can_tune=*/false);
    Connect();
  }

  template <typename Request, typename Response>
  absl::Status Call(grpc::Status (v1::StudyService::Stub::*method)(
                        grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    return FromGrpcStatus(((*stub_).*method)(&context, request, response));
  }
  absl::Status Open(int id, const v1::StudySpec& spec = Spec(),
                    bool retry = false) {
    v1::OpenStudyRequest request;
    request.set_study_id(TestId(id));
    *request.mutable_spec() = spec;
    request.set_retry_failures(retry);
    opened_.Clear();
    return Call(&v1::StudyService::Stub::OpenStudy, request, &opened_);
  }
  absl::Status Suggest(int id, v1::SuggestResponse* response) {
    v1::SuggestRequest request;
    request.set_study_id(TestId(id));
    response->Clear();
    return Call(&v1::StudyService::Stub::Suggest, request, response);
  }
  absl::Status Report(const v1::ReportRequest& request) {
    reported_.Clear();
    return Call(&v1::StudyService::Stub::Report, request, &reported_);
  }
  v1::GetStudyResponse Get(int id) {
    v1::GetStudyRequest request;
    request.set_study_id(TestId(id));
    v1::GetStudyResponse response;
    const absl::Status status =
        Call(&v1::StudyService::Stub::GetStudy, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }
  bool Close(int id) {
    v1::CloseStudyRequest request;
    request.set_study_id(TestId(id));
    v1::CloseStudyResponse response;
    const absl::Status status =
        Call(&v1::StudyService::Stub::CloseStudy, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    return response.closed();
  }
  std::string Export(int id) {
    v1::ExportStudyRequest request;
    request.set_study_id(TestId(id));
    grpc::ClientContext context;
    const auto reader = stub_->ExportStudy(&context, request);
    v1::ExportStudyResponse message;
    std::string text;
    while (reader->Read(&message)) text += message.chunk();
    EXPECT_TRUE(reader->Finish().ok());
    return text;
  }

  // All results of a suggestion. Notes configs that fail in `failed_`, and
  // that none of those is suggested again.
  v1::ReportRequest Results(int id, const v1::SuggestResponse& suggested) {
    v1::ReportRequest request;
    request.set_study_id(TestId(id));
    std::vector<v1::StudyResult> results(
        static_cast<size_t>(suggested.configs_size()));
    for (const v1::StudyRound& round : suggested.rounds()) {
      for (const int index : round.order()) {
        v1::StudySample& sample = *results[static_cast<size_t>(index)]
                                       .mutable_samples()
                                       ->add_samples();
        sample.set_round(round.round());
        sample.set_duration_ns(
            Measure(suggested.configs(index), round.round()));
      }
    }
    for (int i = 0; i < suggested.configs_size(); ++i) {
      v1::StudyResult& result = results[static_cast<size_t>(i)];
      *result.mutable_config() = suggested.configs(i);
      const auto config = MapOf(suggested.configs(i));
      EXPECT_FALSE(failed_.contains(config));
      if (fails_(config)) {
        failed_.insert(config);
        result.mutable_failure()->set_outcome(v1::STUDY_OUTCOME_FAULT);
        result.mutable_failure()->set_detail("illegal address");
      }
      *request.add_results() = result;
    }
    return request;
  }
  // True while something was suggested.
  bool Step(int id) {
    v1::SuggestResponse suggested;
    const absl::Status status = Suggest(id, &suggested);
    EXPECT_TRUE(status.ok()) << status;
    if (suggested.rounds().empty()) return false;
    const absl::Status taken = Report(Results(id, suggested));
    EXPECT_TRUE(taken.ok()) << taken;
    EXPECT_EQ(reported_.taken(), suggested.configs_size());
    return taken.ok();
  }
  void Run(int id) {
    while (Step(id)) {
    }
  }

  TestDaemon daemon_;
  std::unique_ptr<v1::StudyService::Stub> stub_;
  v1::OpenStudyResponse opened_;
  v1::ReportResponse reported_;
  std::function<bool(const std::map<std::string, std::string>&)> fails_ =
      [](const auto&) { return false; };
  std::set<std::map<std::string, std::string>> failed_;
};

TEST_F(StudyServiceTest, TheFastestConfigWinsWithItsEvidence) {
  ASSERT_TRUE(Open(1).ok());
  EXPECT_TRUE(opened_.opened());
  EXPECT_EQ(opened_.configs(), 38);
  EXPECT_EQ(opened_.known_failures(), 0);
  EXPECT_EQ(Get(1).answer().decision(), v1::STUDY_DECISION_UNDECIDED);
  EXPECT_FALSE(Get(1).answer().has_best());
  Run(1);
  const v1::GetStudyResponse study = Get(1);
  EXPECT_EQ(study.phase(), v1::STUDY_PHASE_DECIDED);
  EXPECT_FALSE(study.closed());
  EXPECT_EQ(study.measured(), 38);
  EXPECT_EQ(study.failed(), 0);
  EXPECT_GT(study.opened_at().seconds(), 0);
  EXPECT_EQ(study.spec().parameters(0).integers().values_size(), 5);
  const v1::StudyAnswer& answer = study.answer();
  EXPECT_EQ(MapOf(answer.best()), kBest);
  EXPECT_EQ(answer.decision(), v1::STUDY_DECISION_RACE_SETTLED);
  EXPECT_GE(answer.samples(), 12);
  EXPECT_NEAR(static_cast<double>(answer.median_ns()), 10000, 100);
  EXPECT_LE(answer.low_ns(), answer.median_ns());
  EXPECT_GE(answer.high_ns(), answer.median_ns());
  // 1.15 · (1 + 0.4 + 0.2) of the best.
  EXPECT_NEAR(answer.margin(), 0.84, 0.03);
  EXPECT_THAT(answer.ties(), IsEmpty());

  EXPECT_TRUE(Close(1));
  EXPECT_FALSE(Close(1));
  EXPECT_TRUE(Get(1).closed());
  EXPECT_EQ(MapOf(Get(1).answer().best()), kBest);
}

TEST_F(StudyServiceTest, ARestartedDaemonGoesOnWhereItWas) {
  fails_ = [](const auto& config) {
    return config.at("block") == "64" && config.at("order") == "row";
  };
  ASSERT_TRUE(Open(1).ok());
  ASSERT_TRUE(Step(1));
  // Half of a batch, too.
  v1::SuggestResponse before;
  ASSERT_TRUE(Suggest(1, &before).ok());
  v1::ReportRequest all = Results(1, before);
  v1::ReportRequest half = all;
  half.mutable_results()->DeleteSubrange(0, all.results_size() / 2);
  ASSERT_TRUE(Report(half).ok());
  v1::SuggestResponse asked;
  ASSERT_TRUE(Suggest(1, &asked).ok());
  Restart();
  v1::SuggestResponse again;
  ASSERT_TRUE(Suggest(1, &again).ok());
  EXPECT_EQ(again.SerializeAsString().size(), asked.SerializeAsString().size());
  EXPECT_EQ(again.rounds(0).round(), before.rounds(0).round());
  // What was reported before is passed over.
  ASSERT_TRUE(Report(all).ok());
  EXPECT_EQ(reported_.taken(), all.results_size() - half.results_size());
  while (Step(1)) Restart();
  EXPECT_FALSE(failed_.empty());
  EXPECT_EQ(Get(1).failed(), static_cast<int64_t>(failed_.size()));
  EXPECT_EQ(MapOf(Get(1).answer().best()), kBest);
  ASSERT_TRUE(Open(1).ok());
  EXPECT_FALSE(opened_.opened());
}

TEST_F(StudyServiceTest, LaterStudiesKnowWhatFailed) {
  fails_ = [](const auto& config) {
    return config == kBest || config.at("stages") == "2";
  };
  ASSERT_TRUE(Open(1).ok());
  Run(1);
  EXPECT_NE(MapOf(Get(1).answer().best()), kBest);
  ASSERT_TRUE(Close(1));
  // Another space of the same problem: Results() sees that nothing that failed
  // is suggested.
  v1::StudySpec wider = Spec();
  wider.mutable_parameters(1)->mutable_range()->set_high(5);
  ASSERT_TRUE(Open(2, wider).ok());
  EXPECT_EQ(opened_.known_failures(), static_cast<int64_t>(failed_.size()));
  EXPECT_EQ(opened_.known_failures(), 11);
  Run(2);
  // Another device knows nothing of them, nor who asks for another try.
  v1::StudySpec other = Spec();
  other.set_device("A100");
  ASSERT_TRUE(Open(3, other).ok());
  EXPECT_EQ(opened_.known_failures(), 0);
  ASSERT_TRUE(Open(4, Spec(), /*retry=*/true).ok());
  EXPECT_EQ(opened_.known_failures(), 0);
  v1::StudySpec failing = Spec();
  failing.set_seed(9);
  (*failing.mutable_baseline()->mutable_values())["stages"] = "2";
  fails_ = [](const auto&) { return true; };
  v1::ReportRequest failure;
  failure.set_study_id(TestId(4));
  *failure.add_results()->mutable_config() = failing.baseline();
  failure.mutable_results(0)->mutable_failure()->set_outcome(
      v1::STUDY_OUTCOME_TIMEOUT);
  ASSERT_TRUE(Report(failure).ok());
  EXPECT_EQ(reported_.taken(), 1);
  const absl::Status status = Open(5, failing);
  ASSERT_EQ(ViolationsOf(status).size(), 1u) << status;
  EXPECT_EQ(ViolationsOf(status)[0].field, "spec.baseline");
}

TEST_F(StudyServiceTest, ErrorsNameTheFieldAndWhatIsLegal) {
  const auto field_of = [](const absl::Status& status) {
    const auto violations = ViolationsOf(status);
    return violations.empty()
               ? "none: " + status.ToString()
               : violations[0].field + ": " + violations[0].description;
  };
  v1::StudySpec spec = Spec();
  spec.mutable_parameters(1)->mutable_range()->set_step(-1);
  EXPECT_THAT(field_of(Open(1, spec)),
              HasSubstr("spec.parameters[1].range.step: is -1; it must be 0"));
  spec = Spec();
  spec.mutable_parameters(0)->mutable_powers_of_two()->set_low(3);
  EXPECT_THAT(field_of(Open(1, spec)),
              HasSubstr("spec.parameters[0].powers_of_two: is 3 to 512"));
  spec = Spec();
  spec.mutable_parameters(2)->clear_kind();
  EXPECT_THAT(field_of(Open(1, spec)), HasSubstr("spec.parameters[2]: has no"));
  spec = Spec();
  spec.mutable_baseline()->mutable_values()->erase("order");
  EXPECT_THAT(field_of(Open(1, spec)),
              HasSubstr("spec.baseline.order: is missing; it must be one of "
                        "row, column"));
  v1::OpenStudyRequest open;
  open.set_study_id("mine");
  EXPECT_THAT(
      field_of(Call(&v1::StudyService::Stub::OpenStudy, open, &opened_)),
      HasSubstr("study_id: must be a UUID"));

  ASSERT_TRUE(Open(1).ok());
  spec = Spec();
  spec.set_seed(7);
  const absl::Status reused = Open(1, spec);
  EXPECT_EQ(ReasonOf(reused), "STUDY_ID_REUSED");
  EXPECT_THAT(field_of(reused), HasSubstr("study_id: was used"));
  v1::SuggestResponse suggested;
  EXPECT_EQ(ReasonOf(Suggest(2, &suggested)), "STUDY_NOT_FOUND");
  ASSERT_TRUE(Suggest(1, &suggested).ok());
  const v1::ReportRequest good = Results(1, suggested);

  v1::ReportRequest bad = good;
  bad.mutable_results(1)->mutable_samples()->mutable_samples(2)->set_round(9);
  EXPECT_THAT(field_of(Report(bad)),
              HasSubstr("results[1].samples.samples[2].round: is 9; it must "));
  bad = good;
  (*bad.mutable_results(2)->mutable_config()->mutable_values())["stages"] = "9";
  EXPECT_THAT(field_of(Report(bad)),
              HasSubstr("results[2].config.stages: is \"9\"; it must be one"));
  bad = good;
  bad.mutable_results(0)->mutable_failure()->set_outcome(
      v1::STUDY_OUTCOME_MEASURED);
  EXPECT_THAT(field_of(Report(bad)),
              HasSubstr("results[0].failure.outcome: must be a known outcome"));
  bad = good;
  bad.mutable_results(0)->clear_kind();
  EXPECT_THAT(field_of(Report(bad)), HasSubstr("results[0]: has no kind"));
  bad = good;
  for (int i = 0; i < 70; ++i)
    bad.mutable_results(0)->mutable_samples()->add_samples();
  EXPECT_THAT(field_of(Report(bad)),
              HasSubstr("results[0].samples.samples: has 73 entries"));
  bad = good;
  bad.clear_results();
  EXPECT_THAT(field_of(Report(bad)), HasSubstr("results: has 0 entries"));
  // Nothing of a refused report was taken.
  EXPECT_EQ(Get(1).measured(), 0);
  ASSERT_TRUE(Report(good).ok());
  EXPECT_EQ(reported_.taken(), good.results_size());

  ASSERT_TRUE(Close(1));
  EXPECT_EQ(ReasonOf(Suggest(1, &suggested)), "STUDY_CLOSED");
  EXPECT_EQ(ReasonOf(Report(good)), "STUDY_CLOSED");
}

TEST_F(StudyServiceTest, OnlySoManyAreOpenAtOnce) {
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(Open(i).ok());
  EXPECT_EQ(ReasonOf(Open(64)), "TOO_MANY_STUDIES");
  ASSERT_TRUE(Close(3));
  EXPECT_TRUE(Open(64).ok());
}

TEST_F(StudyServiceTest, ManyCallersOfOneStudyAndOfSeveral) {
  ASSERT_TRUE(Open(1).ok());
  ASSERT_TRUE(Open(2).ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, id = 1 + i % 2] {
      for (int batch = 0; batch < 200; ++batch) {
        v1::SuggestRequest suggest;
        suggest.set_study_id(TestId(id));
        v1::SuggestResponse suggested;
        ASSERT_TRUE(
            Call(&v1::StudyService::Stub::Suggest, suggest, &suggested).ok());
        if (suggested.rounds().empty()) return;
        v1::ReportResponse response;
        // The same values from both: whoever is late reports what is known.
        const absl::Status status = Call(&v1::StudyService::Stub::Report,
                                         Results(id, suggested), &response);
        ASSERT_TRUE(status.ok()) << status;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int id : {1, 2}) {
    EXPECT_EQ(MapOf(Get(id).answer().best()), kBest);
  }
}

TEST_F(StudyServiceTest, AnExportHoldsEveryResultAndSurvivesARestart) {
  fails_ = [](const auto& config) { return config.at("block") == "256"; };
  ASSERT_TRUE(Open(1).ok());
  Run(1);
  const std::string text = Export(1);
  EXPECT_THAT(text, HasSubstr("{\"format\":\"hone-study\",\"results\":"));
  EXPECT_THAT(text, HasSubstr("\"best\":\"block=128,order=column,stages=3\","
                              "\"decision\":\"race_settled\""));
  EXPECT_THAT(text, HasSubstr("\"detail\":\"illegal address\",\"outcome\":"
                              "\"fault\",\"samples\":[]"));
  Restart();
  EXPECT_EQ(Export(1), text);
}

}  // namespace
}  // namespace hone
