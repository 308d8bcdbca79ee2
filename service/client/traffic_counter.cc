#include "service/client/traffic_counter.h"

#include <pthread.h>

#include <bit>
#include <map>

namespace hone {
namespace {

constexpr int64_t kLargestM = int64_t{1} << 30;
constexpr size_t kProbes = 8;

// Spreads what differs only in its low or only in its high bits.
uint64_t Mix(uint64_t value) { return value * 0x9E3779B97F4A7C15u; }

size_t Shard(size_t shards) {
  // An address, of which the low bits are the same in all threads.
  return static_cast<size_t>(Mix(uint64_t{pthread_self()}) >> 32) % shards;
}

// The eighth of an octave that M lies in, and its largest M.
size_t CoarseOf(int64_t m) {
  const auto value = static_cast<uint64_t>(m - 1);
  if (value < 8) return static_cast<size_t>(value);
  const int octave = std::bit_width(value) - 4;  // 8 to 15: octave 0
  return 8 * static_cast<size_t>(octave + 1) +
         static_cast<size_t>((value >> octave) & 7);
}
int64_t LargestOf(size_t coarse) {
  if (coarse < 8) return static_cast<int64_t>(coarse) + 1;
  const size_t octave = coarse / 8 - 1;
  return static_cast<int64_t>((8 + coarse % 8 + 1) << octave);
}

}  // namespace

void CallCounter::Count(int64_t m, int64_t calls) {
  if (m < 1 || m > kLargestM || calls < 1) return;
  size_t slot = static_cast<size_t>(Mix(static_cast<uint64_t>(m)) >> 40);
  for (size_t probe = 0; probe < kProbes; ++probe, ++slot) {
    slot %= kSlots;
    int64_t key = keys_[slot].load(std::memory_order_relaxed);
    if (key == 0) {
      // On failure `key` is whose the slot is now.
      if (keys_[slot].compare_exchange_strong(key, m,
                                              std::memory_order_relaxed)) {
        key = m;
      }
    }
    if (key != m) continue;
    counts_[Shard(kShards)][slot].fetch_add(calls, std::memory_order_relaxed);
    return;
  }
  coarse_[CoarseOf(m)].fetch_add(calls, std::memory_order_relaxed);
}

std::vector<CallCounter::Calls> CallCounter::Take() {
  std::map<int64_t, int64_t> taken;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    const int64_t m = keys_[slot].load(std::memory_order_relaxed);
    if (m == 0) continue;
    for (Counts& counts : counts_) {
      taken[m] += counts[slot].exchange(0, std::memory_order_relaxed);
    }
  }
  for (size_t coarse = 0; coarse < kCoarse; ++coarse) {
    taken[LargestOf(coarse)] +=
        coarse_[coarse].exchange(0, std::memory_order_relaxed);
  }
  std::vector<Calls> out;
  for (const auto& [m, calls] : taken) {
    if (calls > 0) out.push_back({m, calls});
  }
  return out;
}

CallCounter& TrafficCounter::Of(const Problem& problem) {
  {
    absl::ReaderMutexLock lock(&mu_);
    const auto found = counters_.find(problem);
    if (found != counters_.end()) return *found->second;
  }
  absl::MutexLock lock(&mu_);
  std::unique_ptr<CallCounter>& counter = counters_[problem];
  if (counter == nullptr) counter = std::make_unique<CallCounter>();
  return *counter;
}

std::vector<std::pair<Problem, std::vector<CallCounter::Calls>>>
TrafficCounter::Take() {
  std::vector<std::pair<Problem, std::vector<CallCounter::Calls>>> out;
  absl::ReaderMutexLock lock(&mu_);
  for (const auto& [problem, counter] : counters_) {
    std::vector<CallCounter::Calls> calls = counter->Take();
    if (!calls.empty()) out.emplace_back(problem, std::move(calls));
  }
  return out;
}

}  // namespace hone
