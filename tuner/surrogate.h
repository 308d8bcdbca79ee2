// Corrects predicted times by what was measured of other configs.
//
// Hone's own tunes correct the analytic model with it; a study of a declared
// space (tuner/study.h), which has no model, the guess that all configs are
// equal. The model's error is mostly the same for configs that are alike: it
// misjudges a tile shape, a number of stages, a range of M. So the log-ratio of
// measured to predicted time is averaged over the measurements, each weighted
// by how alike its config and its M are (Nadaraya-Watson regression with an
// exponential kernel in the fields' logarithms), and pulled towards zero where
// nothing alike was measured.
#ifndef HONE_TUNER_SURROGATE_H_
#define HONE_TUNER_SURROGATE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/config/problem.h"

namespace hone {

// Where a config lies in its space. What one doubling of a field changes is one
// apart. Positions of one surrogate have one length.
using Position = std::vector<double>;
Position PositionOf(const TuningConfig& config);

// A value; not thread-safe while it changes.
class Surrogate {
 public:
  explicit Surrogate(std::vector<int64_t> ladder)
      : ladder_(std::move(ladder)) {}

  // One config's measured times, by ladder point; 0 where it was not measured.
  // `predicted_ns` are the model's.
  void Add(Position position, const std::vector<double>& predicted_ns,
           const std::vector<double>& measured_ns);

  // The model's times of a config at every ladder point, corrected.
  std::vector<double> Correct(const Position& position,
                              std::vector<double> predicted_ns) const;

 private:
  struct Kernel {
    Position position;
    // Over the measured points, weighted by their distance from each point of
    // the ladder: the sum of log-ratios and of weights.
    std::vector<double> log_ratios;
    std::vector<double> weights;
  };

  std::vector<int64_t> ladder_;
  std::vector<Kernel> kernels_;
};

}  // namespace hone

#endif  // HONE_TUNER_SURROGATE_H_
