#include "tuner/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace hone {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double LogFactorial(int64_t n) {
  double sum = 0;
  for (int64_t i = 2; i <= n; ++i) sum += std::log(static_cast<double>(i));
  return sum;
}

// log P(Binomial(n, 1/2) = k) for k = 0..n, accumulated: log P(<= k).
std::vector<double> BinomialCdf(int64_t n) {
  std::vector<double> cdf(static_cast<size_t>(n) + 1);
  const double top =
      LogFactorial(n) - static_cast<double>(n) * std::numbers::ln2;
  double sum = 0;
  double log_k = 0;
  double log_rest = LogFactorial(n);
  for (int64_t k = 0; k <= n; ++k) {
    sum += std::exp(top - log_k - log_rest);
    cdf[static_cast<size_t>(k)] = std::min(sum, 1.0);
    log_k += std::log(static_cast<double>(k + 1));
    if (k < n) log_rest -= std::log(static_cast<double>(n - k));
  }
  return cdf;
}

// LogWealth(s, count) for s = 0..count.
std::vector<double> LogWealths(int64_t count) {
  const std::vector<double> cdf = BinomialCdf(count + 1);
  const double top = static_cast<double>(count + 1) * std::numbers::ln2 -
                     std::log(static_cast<double>(count + 1));
  std::vector<double> wealths(static_cast<size_t>(count) + 1);
  // log of s! (count - s)! / count!, from s = 0 upwards.
  double log_share = 0;
  for (int64_t s = 0; s <= count; ++s) {
    wealths[static_cast<size_t>(s)] =
        top + log_share + std::log(cdf[static_cast<size_t>(s)]);
    log_share += std::log(static_cast<double>(s + 1)) -
                 std::log(static_cast<double>(std::max<int64_t>(1, count - s)));
  }
  return wealths;
}

std::vector<double> Sorted(absl::Span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double MedianOfSorted(const std::vector<double>& sorted) {
  if (sorted.empty()) return 0;
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle]
                                : (sorted[middle - 1] + sorted[middle]) / 2;
}

std::vector<double> LogDurations(absl::Span<const Sample> samples) {
  std::vector<double> logs = Durations(samples);
  for (double& value : logs) value = std::log(value);
  return logs;
}

}  // namespace

double Median(absl::Span<const double> values) {
  return MedianOfSorted(Sorted(values));
}

int64_t FixedMedianRank(int64_t count, double alpha) {
  const std::vector<double> cdf = BinomialCdf(count);
  // The largest k with P(fewer than k below the median) <= alpha / 2.
  int64_t k = 0;
  while (k < count / 2 && cdf[static_cast<size_t>(k)] <= alpha / 2) ++k;
  return k;
}

MedianInterval FixedMedianInterval(absl::Span<const double> values,
                                   double alpha) {
  const std::vector<double> sorted = Sorted(values);
  const auto n = static_cast<int64_t>(sorted.size());
  MedianInterval result = {n, MedianOfSorted(sorted), -kInfinity, kInfinity};
  if (const int64_t k = FixedMedianRank(n, alpha); k > 0) {
    result.low = sorted[static_cast<size_t>(k - 1)];
    result.high = sorted[static_cast<size_t>(n - k)];
  }
  return result;
}

double LogWealth(int64_t above, int64_t count) {
  return LogWealths(count)[static_cast<size_t>(above)];
}

MedianInterval MedianSequence(absl::Span<const double> values,
                              double alpha_per_side) {
  const std::vector<double> sorted = Sorted(values);
  const auto n = static_cast<int64_t>(sorted.size());
  MedianInterval result = {n, MedianOfSorted(sorted), -kInfinity, kInfinity};
  const double needed = -std::log(alpha_per_side);
  // The wealth rises with the observations above.
  const std::vector<double> wealths = LogWealths(n);
  int64_t smallest = n + 1;
  while (smallest > n / 2 + 1 &&
         wealths[static_cast<size_t>(smallest - 1)] >= needed) {
    --smallest;
  }
  if (smallest <= n) {
    result.low = sorted[static_cast<size_t>(n - smallest)];
    result.high = sorted[static_cast<size_t>(smallest - 1)];
  }
  return result;
}

std::vector<double> PairedLogRatios(absl::Span<const Sample> a,
                                    absl::Span<const Sample> b) {
  // Samples are recorded by rising round.
  std::vector<double> ratios;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].round < b[j].round) {
      ++i;
    } else if (a[i].round > b[j].round) {
      ++j;
    } else {
      ratios.push_back(std::log(static_cast<double>(a[i++].duration_ns) /
                                static_cast<double>(b[j++].duration_ns)));
    }
  }
  return ratios;
}

MedianInterval CompareSamples(absl::Span<const Sample> a,
                              absl::Span<const Sample> b, bool same_session,
                              double alpha_per_side) {
  if (same_session) {
    const std::vector<double> ratios = PairedLogRatios(a, b);
    if (!ratios.empty()) return MedianSequence(ratios, alpha_per_side);
  }
  const MedianInterval left =
      FixedMedianInterval(LogDurations(a), alpha_per_side);
  const MedianInterval right =
      FixedMedianInterval(LogDurations(b), alpha_per_side);
  return {std::min(left.count, right.count), left.median - right.median,
          left.low - right.high, left.high - right.low};
}

std::vector<double> Durations(absl::Span<const Sample> samples) {
  std::vector<double> durations;
  durations.reserve(samples.size());
  for (const Sample& sample : samples) {
    durations.push_back(static_cast<double>(sample.duration_ns));
  }
  return durations;
}

}  // namespace hone
