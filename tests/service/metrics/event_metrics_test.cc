#include "service/metrics/event_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "service/metrics/metered_compiler.h"
#include "tests/service/support/test_daemon.h"

namespace hone {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const EventMetrics& metrics) {
  MetricFamilies families;
  metrics.Collect(families);
  return prometheus::TextSerializer().Serialize(families);
}

TEST(DurationHistogram, EachDurationIsInTheFirstBucketThatHoldsIt) {
  DurationHistogram histogram({absl::Milliseconds(1), absl::Seconds(1)});
  histogram.Observe(absl::Milliseconds(1));
  histogram.Observe(absl::Milliseconds(1) + absl::Nanoseconds(1));
  histogram.Observe(absl::Seconds(5));
  histogram.Observe(-absl::Seconds(5));
  const auto collected = histogram.Collect().histogram;
  ASSERT_EQ(collected.bucket.size(), 3u);
  EXPECT_DOUBLE_EQ(collected.bucket[0].upper_bound, 0.001);
  EXPECT_EQ(collected.bucket[0].cumulative_count, 2u);
  EXPECT_EQ(collected.bucket[1].cumulative_count, 3u);
  EXPECT_EQ(collected.bucket[2].upper_bound,
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(collected.bucket[2].cumulative_count, 4u);
  EXPECT_EQ(collected.sample_count, 4u);
  EXPECT_NEAR(collected.sample_sum, 5.002, 1e-8);
}

TEST(DurationHistogram, ThreadsLoseNothing) {
  DurationHistogram histogram({absl::Microseconds(10)});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50'000; ++i)
        histogram.Observe(absl::Microseconds(i % 20));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto collected = histogram.Collect().histogram;
  EXPECT_EQ(collected.sample_count, 200'000u);
  EXPECT_EQ(collected.bucket[0].cumulative_count, 110'000u);
  EXPECT_NEAR(collected.sample_sum, 200'000 * 9.5e-6, 1e-9);
}

TEST(EventMetrics, CountsUnderTheirLabels) {
  EventMetrics metrics({"a.A/B"});
  metrics.OnLookup(MatchKind::kSiblingDevice, absl::Microseconds(3));
  metrics.OnRpc(metrics.MethodOf("/a.A/B"), 5, absl::Milliseconds(2));
  metrics.OnRpc(metrics.MethodOf("/x.Y/Z"), 99, absl::Milliseconds(2));
  metrics.OnJobEnd(JobKind::kTune, JobEnd::kSucceeded, absl::Seconds(3));
  metrics.OnJobEnd(JobKind::kTune, JobEnd::kFresh, absl::Milliseconds(2));
  metrics.OnJobEnd(JobKind::kAudit, JobEnd::kCancelled, absl::ZeroDuration());
  metrics.OnTrial(Outcome::kInterrupted);
  metrics.OnCompile(Outcome::kMeasured, CacheUse::kHit, absl::Seconds(1));
  metrics.OnCompile(Outcome::kCompilerCrash, CacheUse::kMiss, absl::Seconds(1));
  metrics.OnCompile(Outcome::kMeasured, CacheUse::kBypassed, absl::Seconds(1));
  const std::string text = Text(metrics);
  for (const char* line :
       {"hone_lookups_total{match=\"sibling_device\"} 1\n",
        "hone_lookups_total{match=\"exact\"} 0\n",
        "hone_lookup_duration_seconds_bucket{match=\"sibling_device\",le="
        "\"2e-06\"} 0\n",
        "hone_lookup_duration_seconds_bucket{match=\"sibling_device\",le="
        "\"5e-06\"} 1\n",
        "hone_rpcs_total{method=\"a.A/B\",code=\"OK\"} 0\n",
        "hone_rpcs_total{method=\"a.A/B\",code=\"UNKNOWN\"} 0\n",
        "hone_rpcs_total{method=\"a.A/B\",code=\"INTERNAL\"} 0\n",
        "hone_rpcs_total{method=\"a.A/B\",code=\"DATA_LOSS\"} 0\n",
        "hone_rpcs_total{method=\"a.A/B\",code=\"NOT_FOUND\"} 1\n",
        "hone_rpcs_total{method=\"a.A/B\",code=\"DATA_LOSS\"} 0\n",
        "hone_rpcs_total{method=\"other\",code=\"UNKNOWN\"} 1\n",
        "hone_rpc_duration_seconds_count{method=\"a.A/B\"} 1\n",
        "hone_tunes_total{kind=\"tune\",state=\"succeeded\"} 1\n",
        "hone_tunes_total{kind=\"tune\",state=\"fresh\"} 1\n",
        "hone_tunes_total{kind=\"audit\",state=\"cancelled\"} 1\n",
        // Neither what was fresh nor what never ran is a duration.
        "hone_tune_duration_seconds_count{kind=\"tune\"} 1\n",
        "hone_tune_duration_seconds_count{kind=\"audit\"} 0\n",
        "hone_trials_total{outcome=\"interrupted\"} 1\n",
        "hone_compiles_total{outcome=\"compiled\"} 1\n",
        "hone_compiles_total{outcome=\"compiler_crash\"} 1\n",
        "hone_compile_duration_seconds_count 2\n",
        "hone_cubin_cache_hits_total 1\n",
        "hone_cubin_cache_misses_total 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("x.Y/Z")));
  EXPECT_THAT(text, Not(HasSubstr("ABORTED")));
}

TEST(EventMetrics, EveryOutcomeHasItsName) {
  EventMetrics metrics({});
  for (int i = 0; i <= static_cast<int>(Outcome::kInterrupted); ++i)
    metrics.OnTrial(static_cast<Outcome>(i));
  const std::string text = Text(metrics);
  for (int i = 0; i <= static_cast<int>(Outcome::kInterrupted); ++i) {
    EXPECT_THAT(text, HasSubstr("hone_trials_total{outcome=\"" +
                                std::string(ToString(static_cast<Outcome>(i))) +
                                "\"} 1\n"));
  }
}

// What a lookup pays for being counted. The bound is loose, for busy machines;
// the figure is in the test's output.
TEST(EventMetrics, CountingALookupTakesNanoseconds) {
  EventMetrics metrics({"a.A/B"});
  constexpr int kLookups = 200'000;
  double best_ns = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const absl::Time begin = absl::Now();
    for (int i = 0; i < kLookups; ++i) {
      const absl::Time start = absl::Now();
      metrics.OnLookup(MatchKind::kExact, absl::Now() - start);
      const absl::Time rpc = absl::Now();
      metrics.OnRpc(metrics.MethodOf("/a.A/B"), 0, absl::Now() - rpc);
    }
    best_ns = std::min(
        best_ns, absl::ToDoubleNanoseconds(absl::Now() - begin) / kLookups);
  }
  std::cout << "a lookup and its RPC are counted in " << best_ns << " ns\n";
  EXPECT_LT(best_ns, 5000);
}

// A kernel that took no time came from the cache.
class ScriptedCompiler : public FakeCompiler {
 public:
  absl::StatusOr<CompiledCandidate> Compile(
      const Problem& problem, const DeviceSpec& device,
      const TuningConfig& config) override {
    if (!status.ok()) return status;
    auto compiled = FakeCompiler::Compile(problem, device, config);
    compiled->candidate.compile.compile_ms = compile_ms;
    return compiled;
  }
  absl::Status status;
  int64_t compile_ms = 0;
};

TEST(MeteredCompiler, TellsCompilesFromHits) {
  EventMetrics metrics({});
  ScriptedCompiler inner;
  MeteredCompiler cached(&inner, /*cached=*/true, &metrics);
  MeteredCompiler uncached(&inner, /*cached=*/false, &metrics);
  const DeviceSpec device = TestGpu();
  const Problem problem = SmallProblem();
  const TuningConfig config = HeuristicDefault(problem, device, 16);
  EXPECT_EQ(cached.SourceKey(problem, device, config),
            inner.SourceKey(problem, device, config));

  ASSERT_TRUE(cached.Compile(problem, device, config).ok());  // a hit
  ASSERT_TRUE(uncached.Compile(problem, device, config).ok());
  inner.compile_ms = 700;
  const auto compiled = cached.Compile(problem, device, config);
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(compiled->candidate.config, config);
  inner.outcome = [](const TuningConfig&) { return Outcome::kCompileTimeout; };
  ASSERT_TRUE(cached.Compile(problem, device, config).ok());
  inner.status = absl::UnavailableError("no NVRTC");
  EXPECT_EQ(cached.Compile(problem, device, config).status(), inner.status);

  const std::string text = Text(metrics);
  for (const char* line :
       {"hone_compiles_total{outcome=\"compiled\"} 2\n",
        "hone_compiles_total{outcome=\"compile_timeout\"} 1\n",
        "hone_compiles_total{outcome=\"unavailable\"} 1\n",
        "hone_compile_duration_seconds_count 3\n",
        "hone_cubin_cache_hits_total 1\n",
        "hone_cubin_cache_misses_total 2\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace hone
