// The analytic model: how long a config should take, from bytes, MMA rate,
// waves and occupancy.
//
// It ranks candidates before anything is measured, and gives modelled devices
// their times. Pure functions. The constants were set from the H200 figures
// that DeviceSpec and the design carry; other devices scale by their own rates.
#ifndef HONE_TUNER_ANALYTIC_MODEL_H_
#define HONE_TUNER_ANALYTIC_MODEL_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "kernels/space/occupancy.h"
#include "tuner/trial.h"

namespace hone {

// After the compile; EstimateFootprint() is what is known before.
KernelFootprint FootprintOf(const CompileInfo& compile);

// One prediction with what it is made of. Times are nanoseconds of the whole
// launch; a wave lasts as long as the slowest of its streams, so the parts do
// not add up to the total.
struct Prediction {
  double total_ns = 0;

  // Streams that overlap within a wave.
  double dram_ns = 0;      // bytes that device memory moves
  double l2_ns = 0;        // bytes that CTAs pull through L2
  double latency_ns = 0;   // too few bytes in flight to cover the latency
  double compute_ns = 0;   // MMA, dequantization and shared-memory reads
  double mma_ns = 0;       // of compute_ns: tensor cores, tiles padded
  double dequant_ns = 0;   // of compute_ns: integer pipes, of mma.sync
  double shared_ns = 0;    // of compute_ns: shared-memory reads, of mma.sync
  double spill_ns = 0;     // of compute_ns: registers spilled in the main loop
  double overhead_ns = 0;  // barriers of the main loop, of mma.sync

  // Streams that do not overlap.
  double fixed_ns = 0;  // launch, filling and draining the ring, epilogue
  double split_ns = 0;  // partial sums of split-K
  double dram_bytes = 0;
  double l2_bytes = 0;

  int64_t ctas = 0;
  int64_t ctas_per_sm = 0;  // resident; at least 1
  double waves = 0;         // ctas over what is resident at once
  double bytes_in_flight_per_sm = 0;

  // The longest of the streams that overlap.
  struct Stream {
    absl::string_view name;  // "device memory", "L2", "latency", "compute"
    double ns = 0;
  };
  Stream Limit() const;

  // One line for people: the limiting stream and the figures behind it.
  std::string Explain() const;
};

// The config must be legal for the problem and device, and m ≥ 1.
Prediction Predict(const Problem& problem, const DeviceSpec& device,
                   const TuningConfig& config, int64_t m,
                   const KernelFootprint& footprint);

// Latency of device memory under load, nanoseconds.
inline constexpr double kLoadedLatencyNs = 1000;

// Bytes that each SM must have in flight for the device's full streaming rate:
// rate × latency under load (Little's law), over the SMs.
double BytesInFlightForFullRate(const DeviceSpec& device);

}  // namespace hone

#endif  // HONE_TUNER_ANALYTIC_MODEL_H_
