// From a session's evidence to its dispatch table. Pure functions.
#ifndef HONE_TUNER_TABLE_BUILDER_H_
#define HONE_TUNER_TABLE_BUILDER_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/cover.h"
#include "tuner/executor.h"
#include "tuner/race.h"
#include "tuner/trade_off.h"
#include "tuner/trial.h"

namespace hone {

// One kernel of a session's pool, with what is known of it.
struct PoolKernel {
  TuningConfig config;
  // At each ladder point.
  std::vector<double> predicted_ns;
  // kOut: failed somewhere, or is raced nowhere.
  enum class State : uint8_t { kWaiting, kReady, kOut };
  State state = State::kWaiting;
  Candidate candidate;
  int executor_index = -1;
  GateKind gate = GateKind::kNone;
  ErrorMetrics error;
  // By M: the evidence of scouting, of the race and of the confirmation.
  std::map<int64_t, Trial> scouted;
  std::map<int64_t, Trial> raced;
  std::map<int64_t, Trial> confirmed;
};
// PoolKernel::scouted, raced or confirmed.
using Evidences = std::map<int64_t, Trial> PoolKernel::*;

// A point of the table: a ladder point, or a probe at a tile cliff.
struct ChosenPoint {
  int64_t m = 0;
  // The heuristic default's kernel; -1 at a probe.
  int standard = -1;
  // Which evidence the choice rests on.
  Evidences evidences = &PoolKernel::raced;
  CoverPoint choice;
  int kernel = -1;
};

// The trials at one M of the kernels that still stand. They point into
// `kernels`.
std::vector<Measured> MeasuredAt(absl::Span<const PoolKernel> kernels,
                                 int64_t m, Evidences evidences);

// The medians of each kernel that stands at each M, of the last race it was in,
// few rounds of a screen included. With `predict` the prediction where it was
// not measured.
std::vector<TimesAtM> TimesOf(absl::Span<const PoolKernel> kernels,
                              absl::Span<const int64_t> ladder, bool predict);
// How long each kernel took to compile, when it was compiled; milliseconds.
std::vector<int64_t> CompileTimesOf(absl::Span<const PoolKernel> kernels);

// PointOf() the kernels measured at one M.
CoverPoint PointAt(absl::Span<const PoolKernel> kernels, int64_t m,
                   int standard, Evidences evidences,
                   const RaceOptions& options);

// The entries, with the evidence of every point that has some. Every point
// has a kernel. The caller fills in protocol, source closure, ladder, session
// and time.
DispatchTable BuildTable(const Problem& problem, const DeviceSpec& device,
                         const RaceOptions& options,
                         absl::Span<const PoolKernel> kernels,
                         absl::Span<const ChosenPoint> points);

}  // namespace hone

#endif  // HONE_TUNER_TABLE_BUILDER_H_
