// Statistics of a race, as pure functions.
//
// All intervals are distribution-free: they are order statistics of the data
// and assume nothing but that the observations have a common median.
#ifndef HONE_TUNER_STATISTICS_H_
#define HONE_TUNER_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tuner/trial.h"

namespace hone {

// The median; the mean of the two middle values for an even count. 0 when
// empty.
double Median(absl::Span<const double> values);

// Median with a two-sided interval. Without enough data for the level the
// bounds are ±infinity.
struct MedianInterval {
  int64_t count = 0;
  double median = 0;
  double low = 0;
  double high = 0;
};

// The fixed-sample interval of the sign test: the count of observations below
// the true median is Binomial(n, 1/2), whatever the distribution. Valid for a
// sample whose size did not depend on the data. 0 < alpha < 1.
MedianInterval FixedMedianInterval(absl::Span<const double> values,
                                   double alpha);
// Which order statistics that interval's bounds are: the rank-th smallest and
// the rank-th largest of `count`; 0 without enough data.
int64_t FixedMedianRank(int64_t count, double alpha);

// A confidence sequence: intervals that hold at all sample sizes at once, so
// that a race may look after every round and stop when it likes. Each side
// fails with a chance of at most `alpha_per_side`.
//
// Derivation. Let the median be at most t. Then each observation exceeds t
// with a chance of at most 1/2, given the past. A gambler who bets on
// "exceeds" with a belief p in [1/2, 1] multiplies his capital by 2p when it
// does and by 2(1-p) when not, so his capital is a supermartingale for every
// such p; and so is its mean over p uniform on [1/2, 1], which after s of n
// observations above t is
//   W(s, n) = 2^(n+1) · s! (n-s)! / (n+1)! · P(Binomial(n+1, 1/2) <= s).
// By Ville's inequality W ever reaches 1/alpha with a chance of at most alpha.
// Rejecting every t whose W(s, n) >= 1/alpha leaves, as the lower bound, the
// s*-th largest observation, with s* the smallest s for which W >= 1/alpha.
// The upper bound mirrors it. As W grows with n at a fixed share s/n > 1/2, the
// interval shrinks on the median.
MedianInterval MedianSequence(absl::Span<const double> values,
                              double alpha_per_side);

// log W(s, n) above, natural logarithm. 0 <= s <= n.
double LogWealth(int64_t above, int64_t count);

// log(a / b) of the samples that share a round.
std::vector<double> PairedLogRatios(absl::Span<const Sample> a,
                                    absl::Span<const Sample> b);

// The log-ratio a / b: from paired rounds by the confidence sequence when both
// ran in the same session and share rounds; else from the two medians' own
// intervals, each erring on either side with half the chance, which is wider.
// `count` is the pairs, or the smaller sample.
MedianInterval CompareSamples(absl::Span<const Sample> a,
                              absl::Span<const Sample> b, bool same_session,
                              double alpha_per_side);

std::vector<double> Durations(absl::Span<const Sample> samples);

}  // namespace hone

#endif  // HONE_TUNER_STATISTICS_H_
