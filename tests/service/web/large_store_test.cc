// 100,000 trials of one problem: what the pages are made for.
#include <cstdio>
#include <random>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "service/web/web_routes.h"
#include "tests/db/fixture.h"
#include "tests/service/support/http_client.h"

namespace hone {
namespace {

using testing::TestDevice;
using testing::TestProblem;

constexpr int kTrials = 100'000;

// Trials as a few hundred tunes make them: 23 M, some thousand configs, most
// of them screened out after three rounds, some measured in thirty.
std::vector<Trial> SyntheticTrials() {
  std::mt19937_64 random(1);
  std::vector<int64_t> ladder = DefaultLadder();
  std::vector<Trial> trials;
  trials.reserve(kTrials);
  for (int i = 0; i < kTrials; ++i) {
    Trial trial = testing::TestTrial(ladder[random() % ladder.size()]);
    trial.config.stages = 2 + static_cast<int64_t>(random() % 8);
    trial.config.block_m = 16 << (random() % 5);
    trial.config.block_n = 64 << (random() % 3);
    trial.config.split_k = 1 + static_cast<int64_t>(random() % 16);
    const bool screened = random() % 4 != 0;
    const int samples = screened ? 3 : 30;
    const auto base = static_cast<int64_t>(10'000 + random() % 90'000);
    trial.samples.clear();
    for (int32_t round = 0; round < samples; ++round) {
      trial.samples.push_back(
          {base + static_cast<int64_t>(random() % 500),
           1'500'000 + static_cast<int64_t>(random() % 400) * 1000, round});
    }
    trial.outcome = screened ? Outcome::kScreenedOut : Outcome::kMeasured;
    trial.median_ns = base + 250;
    trial.session_id = absl::StrCat("session-", i / 300);
    trial.unix_us += i;
    trials.push_back(std::move(trial));
  }
  return trials;
}

class LargeStoreTest : public testing::DbTest {};

TEST_F(LargeStoreTest, AnswersAHundredThousandTrialsAtOnce) {
  const auto store = OpenStore();
  ASSERT_TRUE(
      store->RecordTrials(TestDevice(), Protocol(), SyntheticTrials()).ok());
  WebParts parts;
  parts.store = store.get();
  parts.can_tune = [] { return absl::OkStatus(); };
  parts.jobs = [] { return std::vector<TuneSnapshot>(); };
  const auto server =
      HttpServer::Start("127.0.0.1:0", false, WebRoutes(std::move(parts)));
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string device_class = TestDevice().ClassHash();
  const struct {
    std::string target;
    double limit_s;
  } questions[] = {
      {"trials?problem=" + TestProblem().Hash() + "&class=" + device_class, 3},
      {"problems?class=" + device_class, 2},
      {"sessions?class=" + device_class, 2},
      {"noise?class=" + device_class, 3},
      {"classes", 1}};
  for (const auto& [target, limit_s] : questions) {
    const absl::Time start = absl::Now();
    const HttpReply reply = HttpGet((*server)->address(), "/api/v1/" + target,
                                    "Accept-Encoding: gzip\r\n");
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const size_t whole = reply.headers.count("content-encoding")
                             ? Gunzip(reply.body).size()
                             : reply.body.size();
    std::printf("%-8s %.3f s, %zu bytes of JSON, %zu sent\n",
                target.substr(0, target.find('?')).c_str(), seconds, whole,
                reply.body.size());
    // Several times what two busy cores take.
    EXPECT_LT(seconds, limit_s) << target;
  }
}

}  // namespace
}  // namespace hone
