// The median of stored samples with its interval, without unpacking them into
// Sample values: pages ask for 100,000 at a time. Internal to db/.
#ifndef HONE_DB_SAMPLE_SUMMARY_H_
#define HONE_DB_SAMPLE_SUMMARY_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone {

struct SampleSummary {
  int64_t count = 0;
  // The distribution-free 95 % interval of the median; 0 when there are too few
  // samples.
  int64_t low_ns = 0;
  int64_t high_ns = 0;
  // Median of those that were read; 0 when none was.
  int64_t clock_khz = 0;
};

// Not thread-safe: it keeps its working memory.
class SampleSummarizer {
 public:
  // `samples` are packed as PackSamples() does.
  SampleSummary Summarize(absl::string_view samples);

 private:
  std::vector<int64_t> durations_;
  std::vector<int64_t> clocks_;
  // FixedMedianRank() by count; -1 where it is not known yet.
  std::vector<int64_t> ranks_;
};

}  // namespace hone

#endif  // HONE_DB_SAMPLE_SUMMARY_H_
