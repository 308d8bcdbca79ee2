// A layer's times over M against the fastest possible: what `hone bench` lists
// and rooflines draw.
#ifndef HONE_SERVICE_CLI_LAYER_TIMES_H_
#define HONE_SERVICE_CLI_LAYER_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/config/problem.h"
#include "kernels/space/space.h"
#include "service/cli/roofline.h"
#include "service/convert/answer.h"
#include "tuner/explain.h"

namespace hone {

// One M.
struct LayerTime {
  int64_t m = 0;
  TuningConfig config;
  Floors floors;
  // Null where this M was not measured for this problem on this device.
  const Evidence* evidence = nullptr;

  // As the evidence has it.
  int64_t floor_ns() const {
    return evidence != nullptr ? evidence->floor_ns
                               : static_cast<int64_t>(floors.ns() + 0.5);
  }
  // Only with evidence.
  Achieved achieved() const {
    return AchievedIn(floors, static_cast<double>(evidence->median_ns));
  }
};

// Point into `answer`.
std::vector<LayerTime> LayerTimesOf(const TableAnswer& answer,
                                    const std::vector<int64_t>& ms);

// What the problem's operations are called, 10^12 a second.
std::string RateUnit(const Problem& problem);

// FailedPrecondition when no M was measured.
absl::StatusOr<Roofline> RooflineOf(const TableAnswer& answer,
                                    const std::vector<LayerTime>& rows);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_LAYER_TIMES_H_
