// Search: which configs of the space are worth compiling, for a whole ladder.
#ifndef HONE_TUNER_SEARCH_H_
#define HONE_TUNER_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/space/subspace.h"
#include "tuner/choose.h"
#include "tuner/surrogate.h"

namespace hone {

struct CandidatePool {
  std::vector<TuningConfig> configs;
  // For each ladder point, the index of its heuristic default.
  std::vector<int> defaults;
  // predicted_ns[config][ladder point].
  std::vector<std::vector<double>> predicted_ns;
};

// The space of one problem on one device, with the analytic model's time of
// each config at each M. A value; its const functions are thread-safe.
class CandidateSearch {
 public:
  // Only configs of `within`; the defaults and `extra` may lie outside. Errors
  // are those of CheckProblem().
  static absl::StatusOr<CandidateSearch> Create(const Problem& problem,
                                                const DeviceSpec& device,
                                                std::vector<int64_t> ladder,
                                                const Subspace& within = {});

  // A pool of at most max_kernels configs (more only when the defaults and
  // `extra` alone are more). It holds, in this order:
  //   the heuristic default of every ladder point,
  //   the legal ones of `extra` (a table in force, neighbours' winners),
  //   configs chosen one at a time for how many ladder points they are
  //     predicted to be near the best at, where a point already served by
  //     several counts no longer, with at most two configs of a tile shape,
  //     and one of those of wgmma that differ in the launch order only,
  //   a few drawn at random from those predicted within twice the best, as a
  //     check on the model.
  // The same arguments give the same pool.
  CandidatePool First(absl::Span<const TuningConfig> extra, int max_kernels,
                      uint64_t seed) const;

  // Once some of the pool was measured: appends up to `count` configs that the
  // corrected model expects near or before the pool's best, chosen as above,
  // and corrects every predicted time of the pool.
  void Refine(const Surrogate& surrogate, int count, CandidatePool& pool) const;

 private:
  using Times = std::vector<double>;

  CandidateSearch(const Problem& problem, const DeviceSpec& device,
                  std::vector<int64_t> ladder, const Subspace& within);
  Times Predict(const TuningConfig& config) const;
  // Appends configs to the pool until it has `limit`: those that serve most
  // ladder points by `times` (one per config of the space), where `served`
  // says how well each is served already.
  void Choose(const std::vector<Times>& times, std::vector<double> served,
              const ChoiceSpread& spread, size_t limit,
              CandidatePool& pool) const;

  Problem problem_;
  DeviceSpec device_;
  std::vector<int64_t> ladder_;
  std::vector<TuningConfig> space_;
  std::vector<Times> times_;
};

}  // namespace hone

#endif  // HONE_TUNER_SEARCH_H_
