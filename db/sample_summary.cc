#include "db/sample_summary.h"

#include <algorithm>
#include <cstring>

#include "db/rows.h"
#include "tuner/statistics.h"

namespace hone {
namespace {

constexpr double kAlpha = 0.05;

}  // namespace

SampleSummary SampleSummarizer::Summarize(absl::string_view samples) {
  SampleSummary summary;
  const size_t count = samples.size() / kSampleBytes;
  summary.count = static_cast<int64_t>(count);
  if (count == 0) return summary;
  durations_.clear();
  clocks_.clear();
  const char* at = samples.data();
  for (size_t i = 0; i < count; ++i, at += kSampleBytes) {
    int64_t duration = 0;
    int64_t clock = 0;
    std::memcpy(&duration, at, sizeof(duration));
    std::memcpy(&clock, at + sizeof(duration), sizeof(clock));
    durations_.push_back(duration);
    if (clock > 0) clocks_.push_back(clock);
  }
  if (count >= ranks_.size()) ranks_.resize(count + 1, -1);
  if (ranks_[count] < 0)
    ranks_[count] = FixedMedianRank(static_cast<int64_t>(count), kAlpha);
  if (const int64_t rank = ranks_[count]; rank > 0) {
    const auto low = durations_.begin() + (rank - 1);
    std::nth_element(durations_.begin(), low, durations_.end());
    summary.low_ns = *low;
    const auto high = durations_.end() - rank;
    std::nth_element(low, high, durations_.end());
    summary.high_ns = *high;
  }
  if (!clocks_.empty()) {
    const auto middle = clocks_.begin() + clocks_.size() / 2;
    std::nth_element(clocks_.begin(), middle, clocks_.end());
    summary.clock_khz = *middle;
  }
  return summary;
}

}  // namespace hone
