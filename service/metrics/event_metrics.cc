#include "service/metrics/event_metrics.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace hone {
namespace {

using absl::Microseconds;
using absl::Milliseconds;
using absl::Minutes;
using absl::Seconds;
using ::prometheus::MetricType;

constexpr const char* kCodeNames[] = {"OK",
                                      "CANCELLED",
                                      "UNKNOWN",
                                      "INVALID_ARGUMENT",
                                      "DEADLINE_EXCEEDED",
                                      "NOT_FOUND",
                                      "ALREADY_EXISTS",
                                      "PERMISSION_DENIED",
                                      "RESOURCE_EXHAUSTED",
                                      "FAILED_PRECONDITION",
                                      "ABORTED",
                                      "OUT_OF_RANGE",
                                      "UNIMPLEMENTED",
                                      "INTERNAL",
                                      "UNAVAILABLE",
                                      "DATA_LOSS",
                                      "UNAUTHENTICATED"};
// OK, UNKNOWN, INTERNAL, DATA_LOSS.
constexpr bool kShownFromTheStart[] = {true,  false, true,  false, false, false,
                                       false, false, false, false, false, false,
                                       false, true,  false, true,  false};
constexpr const char* kEndNames[] = {"succeeded", "fresh", "failed",
                                     "cancelled"};
// What a compile can come to; see CompiledCandidate.
constexpr Outcome kCompileOutcomes[] = {
    Outcome::kMeasured, Outcome::kCompileError, Outcome::kCompileTimeout,
    Outcome::kCompilerCrash, Outcome::kInterrupted};

void Increment(std::atomic<int64_t>& count) {
  count.fetch_add(1, std::memory_order_relaxed);
}

double Value(const std::atomic<int64_t>& count) {
  return static_cast<double>(count.load(std::memory_order_relaxed));
}

void AddHistogram(prometheus::MetricFamily& family, MetricLabels labels,
                  const DurationHistogram& histogram) {
  family.metric.push_back(histogram.Collect());
  family.metric.back().label = std::move(labels);
}

}  // namespace

EventMetrics::Lookup::Lookup()
    : duration({Microseconds(1), Microseconds(2), Microseconds(5),
                Microseconds(10), Microseconds(20), Microseconds(50),
                Microseconds(100), Microseconds(250), Microseconds(500),
                Milliseconds(1), Milliseconds(2.5), Milliseconds(10),
                Milliseconds(100)}) {}

EventMetrics::Method::Method(std::string name)
    : name(std::move(name)),
      duration({Microseconds(50), Microseconds(100), Microseconds(250),
                Microseconds(500), Milliseconds(1), Milliseconds(2.5),
                Milliseconds(5), Milliseconds(10), Milliseconds(50),
                Milliseconds(250), Seconds(1), Seconds(10), Minutes(1),
                Minutes(10)}) {}

EventMetrics::Jobs::Jobs()
    : duration({Seconds(1), Seconds(2.5), Seconds(5), Seconds(10), Seconds(30),
                Minutes(1), Minutes(2), Minutes(5), Minutes(15), Minutes(60)}) {
}

EventMetrics::EventMetrics(std::vector<std::string> methods)
    : compile_duration_({Milliseconds(100), Milliseconds(250),
                         Milliseconds(500), Seconds(1), Seconds(2.5),
                         Seconds(5), Seconds(10), Seconds(30), Minutes(1)}) {
  for (std::string& name : methods) {
    method_of_.emplace(name, methods_.size());
    methods_.push_back(std::make_unique<Method>(std::move(name)));
  }
  methods_.push_back(std::make_unique<Method>("other"));
}

void EventMetrics::OnLookup(MatchKind match, absl::Duration took) {
  lookups_[static_cast<size_t>(match)].duration.Observe(took);
}

size_t EventMetrics::MethodOf(absl::string_view path) const {
  const auto found = method_of_.find(absl::StripPrefix(path, "/"));
  return found == method_of_.end() ? methods_.size() - 1 : found->second;
}

void EventMetrics::OnRpc(size_t method, int code, absl::Duration took) {
  Method& entry = *methods_[method];
  constexpr int kUnknown = 2;
  if (code < 0 || code >= static_cast<int>(kCodes)) code = kUnknown;
  Increment(entry.codes[static_cast<size_t>(code)]);
  entry.duration.Observe(took);
}

void EventMetrics::OnJobEnd(JobKind kind, JobEnd end, absl::Duration ran) {
  Jobs& jobs = jobs_[static_cast<size_t>(kind)];
  Increment(jobs.ends[static_cast<size_t>(end)]);
  if (end != JobEnd::kFresh && ran > absl::ZeroDuration())
    jobs.duration.Observe(ran);
}

void EventMetrics::OnTrial(Outcome outcome) {
  Increment(trials_[static_cast<size_t>(outcome)]);
}

void EventMetrics::OnCompile(Outcome outcome, CacheUse cache,
                             absl::Duration took) {
  if (cache == CacheUse::kHit) {
    Increment(cache_hits_);
    return;
  }
  if (cache == CacheUse::kMiss) Increment(cache_misses_);
  Increment(compiles_[static_cast<size_t>(outcome)]);
  compile_duration_.Observe(took);
}

void EventMetrics::OnCompilerBroken() { Increment(compiler_broken_); }

void EventMetrics::Collect(MetricFamilies& families) const {
  prometheus::MetricFamily count{
      "hone_lookups_total",
      "Lookups answered (GetConfig and GetTable), by how the answer was found.",
      MetricType::Counter,
      {}};
  prometheus::MetricFamily duration{
      "hone_lookup_duration_seconds",
      "Time to find the answer of a lookup, without gRPC and conversion.",
      MetricType::Histogram,
      {}};
  for (size_t i = 0; i < kMatches; ++i) {
    const MetricLabels labels = {
        {"match", absl::AsciiStrToLower(ToString(static_cast<MatchKind>(i)))}};
    AddHistogram(duration, labels, lookups_[i].duration);
    AddValue(
        count, labels,
        static_cast<double>(duration.metric.back().histogram.sample_count));
  }
  families.push_back(std::move(count));
  families.push_back(std::move(duration));
  CollectRpcs(families);
  CollectTuning(families);
}

void EventMetrics::CollectRpcs(MetricFamilies& families) const {
  prometheus::MetricFamily count{"hone_rpcs_total",
                                 "RPCs that ended, by method and status code.",
                                 MetricType::Counter,
                                 {}};
  prometheus::MetricFamily duration{
      "hone_rpc_duration_seconds",
      "Time from an RPC's arrival to its status; a stream's includes its job.",
      MetricType::Histogram,
      {}};
  for (const std::unique_ptr<Method>& method : methods_) {
    AddHistogram(duration, {{"method", method->name}}, method->duration);
    for (size_t code = 0; code < kCodes; ++code) {
      const double value = Value(method->codes[code]);
      // Of the codes only those that occurred, and those whose first time must
      // be seen in a rate: OK and the ones that are honed's own fault.
      if (value > 0 || kShownFromTheStart[code]) {
        AddValue(count, {{"method", method->name}, {"code", kCodeNames[code]}},
                 value);
      }
    }
  }
  families.push_back(std::move(count));
  families.push_back(std::move(duration));
}

void EventMetrics::CollectTuning(MetricFamilies& families) const {
  prometheus::MetricFamily ends{
      "hone_tunes_total",
      "Jobs that ended; fresh: a table that was there answered.",
      MetricType::Counter,
      {}};
  prometheus::MetricFamily duration{
      "hone_tune_duration_seconds",
      "Run time of jobs that measured, without their wait.",
      MetricType::Histogram,
      {}};
  for (const JobKind kind : kJobKinds) {
    const Jobs& jobs = jobs_[static_cast<size_t>(kind)];
    const std::string name(ToString(kind));
    for (size_t end = 0; end < kEnds; ++end) {
      AddValue(ends, {{"kind", name}, {"state", kEndNames[end]}},
               Value(jobs.ends[end]));
    }
    AddHistogram(duration, {{"kind", name}}, jobs.duration);
  }
  families.push_back(std::move(ends));
  families.push_back(std::move(duration));

  prometheus::MetricFamily& trials =
      AddFamily(families, "hone_trials_total",
                "Trials recorded by tunes, by what became of the candidate.",
                MetricType::Counter);
  for (size_t i = 0; i < kOutcomes; ++i) {
    AddValue(trials,
             {{"outcome", std::string(ToString(static_cast<Outcome>(i)))}},
             Value(trials_[i]));
  }
  prometheus::MetricFamily& compiles = AddFamily(
      families, "hone_compiles_total",
      "Compiles that ran, by their end; unavailable: no compiler ran.",
      MetricType::Counter);
  for (const Outcome outcome : kCompileOutcomes) {
    AddValue(compiles,
             {{"outcome", outcome == Outcome::kMeasured
                              ? "compiled"
                              : std::string(ToString(outcome))}},
             Value(compiles_[static_cast<size_t>(outcome)]));
  }
  AddValue(compiles, {{"outcome", "unavailable"}}, Value(compiler_broken_));
  AddHistogram(AddFamily(families, "hone_compile_duration_seconds",
                         "Time of compiles that ran, failed ones included.",
                         MetricType::Histogram),
               {}, compile_duration_);
  AddCounter(families, "hone_cubin_cache_hits_total",
             "Kernels that the cubin cache had.", Value(cache_hits_));
  AddCounter(families, "hone_cubin_cache_misses_total",
             "Kernels that the cubin cache did not have.",
             Value(cache_misses_));
}

}  // namespace hone
