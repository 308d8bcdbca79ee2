// Counts GEMM calls by problem and M, cheaply enough for every call.
#ifndef HONE_SERVICE_CLIENT_TRAFFIC_COUNTER_H_
#define HONE_SERVICE_CLIENT_TRAFFIC_COUNTER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "kernels/config/problem.h"
#include "service/client/problem_hash.h"

namespace hone {

// Calls of one problem. Thread-safe; Count() takes no lock, allocates nothing
// and costs 4 to 5 ns, where eight threads count one M as well (two cores of an
// EPYC). Holds 40 KB.
class CallCounter {
 public:
  CallCounter() = default;
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;

  // M from 1 to 2^30; others are not counted. The first few hundred different M
  // are counted by themselves, others at an M above, at most an eighth larger.
  void Count(int64_t m, int64_t calls = 1);

  struct Calls {
    int64_t m = 0;
    int64_t calls = 0;
  };
  // What was counted since the last Take(), by rising M. No call is lost or
  // taken twice.
  std::vector<Calls> Take();

 private:
  static constexpr size_t kSlots = 512;
  static constexpr size_t kShards = 8;
  // Eighths of octaves up to 2^30.
  static constexpr size_t kCoarse = 8 * 31;
  using Counts = std::array<std::atomic<int64_t>, kSlots>;

  // By hash of M; 0: free. Once taken, a slot keeps its M.
  std::array<std::atomic<int64_t>, kSlots> keys_{};
  // Threads are spread over shards, so that they seldom share a cache line.
  std::array<Counts, kShards> counts_{};
  std::array<std::atomic<int64_t>, kCoarse> coarse_{};
};

// Counters by problem. Thread-safe. They live as long as this.
class TrafficCounter {
 public:
  // The problem's counter: ask once, since this takes a lock.
  CallCounter& Of(const Problem& problem);

  // Of all problems that were called since the last Take().
  std::vector<std::pair<Problem, std::vector<CallCounter::Calls>>> Take();

 private:
  absl::Mutex mu_;
  absl::flat_hash_map<Problem, std::unique_ptr<CallCounter>, ProblemHash>
      counters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace hone

#endif  // HONE_SERVICE_CLIENT_TRAFFIC_COUNTER_H_
