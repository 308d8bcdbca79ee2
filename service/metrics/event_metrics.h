// What happened in honed since it started, counted.
#ifndef HONE_SERVICE_METRICS_EVENT_METRICS_H_
#define HONE_SERVICE_METRICS_EVENT_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/convert/answer.h"
#include "service/convert/job_kind.h"
#include "service/metrics/duration_histogram.h"
#include "service/metrics/families.h"
#include "tuner/trial.h"

namespace hone {

// How a job of the tuning queue ended. kFresh: a table that was there answered.
enum class JobEnd : uint8_t { kSucceeded, kFresh, kFailed, kCancelled };

// What the cubin cache had to do with a compile.
enum class CacheUse : uint8_t { kHit, kMiss, kBypassed };

// Thread-safe, and without locks. The values of every label are known when it
// is made, so that no caller can make the page grow.
class EventMetrics {
 public:
  // `methods`: full names, "hone.v1.TuningService/GetConfig". All other RPCs
  // are counted as "other".
  explicit EventMetrics(std::vector<std::string> methods);

  // A lookup that was answered, and how long finding the answer took.
  void OnLookup(MatchKind match, absl::Duration took);

  // The index for OnRpc(); `path` is gRPC's,
  // "/hone.v1.TuningService/GetConfig".
  size_t MethodOf(absl::string_view path) const;
  // `code` is a grpc::StatusCode.
  void OnRpc(size_t method, int code, absl::Duration took);

  // `ran` counts only for jobs that measured: neither fresh ones nor those
  // cancelled while they waited, which give 0.
  void OnJobEnd(JobKind kind, JobEnd end, absl::Duration ran);
  void OnTrial(Outcome outcome);
  // `outcome` as in CompiledCandidate. `took` counts unless it was a hit.
  void OnCompile(Outcome outcome, CacheUse cache, absl::Duration took);
  // A compiler that could not be asked at all.
  void OnCompilerBroken();

  void Collect(MetricFamilies& families) const;

 private:
  static constexpr size_t kMatches = 5;
  static constexpr size_t kCodes = 17;
  static constexpr size_t kKinds = kJobKinds.size();
  static constexpr size_t kEnds = 4;
  static constexpr size_t kOutcomes = 13;
  using Count = std::atomic<int64_t>;

  struct Method {
    explicit Method(std::string name);
    const std::string name;
    std::array<Count, kCodes> codes{};
    DurationHistogram duration;
  };
  struct Lookup {
    Lookup();
    DurationHistogram duration;
  };
  struct Jobs {
    Jobs();
    std::array<Count, kEnds> ends{};
    DurationHistogram duration;
  };

  void CollectRpcs(MetricFamilies& families) const;
  void CollectTuning(MetricFamilies& families) const;

  std::array<Lookup, kMatches> lookups_;
  // The last one is "other".
  std::vector<std::unique_ptr<Method>> methods_;
  absl::flat_hash_map<std::string, size_t> method_of_;
  std::array<Jobs, kKinds> jobs_;
  std::array<Count, kOutcomes> trials_{};
  std::array<Count, kOutcomes> compiles_{};
  Count compiler_broken_{0};
  Count cache_hits_{0};
  Count cache_misses_{0};
  DurationHistogram compile_duration_;
};

}  // namespace hone

#endif  // HONE_SERVICE_METRICS_EVENT_METRICS_H_
