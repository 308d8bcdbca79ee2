// Tuning many layers on many daemons.
//
// Daemons are grouped by device class. Each class tunes every layer once: its
// daemons share the work, one thread each. A layer that any daemon of the
// class has a fresh table for is skipped.
#ifndef HONE_SERVICE_CLI_SWEEP_H_
#define HONE_SERVICE_CLI_SWEEP_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hone/v1/tuning_service.pb.h"
#include "service/models/layer_file.h"
#include "service/cli/progress.h"
#include "service/convert/answer.h"

namespace hone {

enum class SweepState {
  kNotRun,
  // A fresh table was there.
  kFresh,
  kTuned,
  // The budget or a cancellation ended it early; the next run goes on.
  kPartial,
  kFailed,
};
// "not run", "fresh", "tuned", "partial", "failed".
absl::string_view ToString(SweepState state);

// What became of one layer on one device class.
struct SweepResult {
  ModelLayer layer;
  std::string device;   // its name
  std::string address;  // the daemon that answered; empty for kNotRun
  SweepState state = SweepState::kNotRun;
  std::string error;
  // Empty unless kFresh, kTuned or kPartial.
  TableAnswer answer;
  double seconds = 0;
};

// One result per device class and layer, in the order of `addresses` and
// `layers`. `request` holds the settings of every job. Fails only when no
// work could begin: a daemon that cannot be reached at the start, or an
// address given twice.
absl::StatusOr<std::vector<SweepResult>> RunSweep(
    const std::vector<std::string>& addresses,
    const std::vector<ModelLayer>& layers, const v1::TuneLayerRequest& request,
    const std::atomic<int>& interrupts, Progress& progress);

}  // namespace hone

#endif  // HONE_SERVICE_CLI_SWEEP_H_
