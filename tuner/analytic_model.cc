#include "tuner/analytic_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "kernels/config/weight_layout.h"
#include "kernels/pack/pack.h"
#include "kernels/space/space.h"
#include "kernels/space/wgmma_time.h"

namespace hone {
namespace {

// Of mma.sync; of wgmma see kernels/space/wgmma_time.cc.
// Constants without another source are fitted to 13,352 times of mma.sync
// kernels: three tunes and two sweeps of five W4A16 layers on an H200, M from 1
// to 8192 (tests/bench/results/h200). Of what is within a few percent of an M's
// best, the root mean square error is 8 %; the kernel predicted fastest of
// those measured is 2 % behind the fastest on average.

// Latency of device memory for the first bytes of a CTA.
constexpr double kUnloadedLatencyNs = 510;
// Shared memory: 32 banks of 4 bytes.
constexpr double kSharedBytesPerClock = 128;
// Spilled registers go through L1; most of them sit in the unrolled main loop.
constexpr double kSpillBytesPerClock = 64;
// Integer and half-precision lanes of one SM that dequantize.
constexpr double kDequantLanes = 64;
// Instructions per weight: unpacking two at a time, and a multiply by the
// scale where it varies along K.
constexpr double kUnpackPerWeight = 0.84;
constexpr double kScalePerWeight = 0.46;
// Where Hopper's mma.sync converts 8-bit floats to float16, of weights that are
// packed (mxfp4, N = K = 8192, M = 1: 20.6 us).
constexpr double kConvertPerWeight = 1.8;
// Instructions per accumulator and group where scales are folded in after the
// MMA instead.
constexpr double kFoldPerSum = 2.5;
// Share of the device's mma.sync rate that these kernels reach, and the
// independent MMAs that an SM needs in flight for it.
constexpr double kMmaShare = 0.87;
constexpr double kMmasInFlight = 22;
// Wait and barrier at the end of each step of the main loop, when no other CTA
// hides it.
constexpr double kStepClocks = 180;
// How much of the compute streams other than the longest is not hidden.
constexpr double kComputeOverlapLoss = 0.29;
// Stores of a tile after its last step, once per wave.
constexpr double kEpilogueNs = 1000;
// Fence, counter and first read of the other CTAs' partial sums.
constexpr double kSplitSyncNs = 3000;
// Share of L2 that operands can count on.
constexpr double kUsableL2 = 0.7;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sustained SM clock in GHz.
double ClockGhz(const DeviceSpec& device) {
  const double max = static_cast<double>(device.max_clock_khz) * 1e-6;
  return max > 0 ? 0.9 * max : 1.5;
}

// Hopper's mma.sync converts 8-bit floats to float16 first.
bool Converts(DataType a, const DeviceSpec& device) {
  return device.sm_arch == 90 && a.is_float() && a.bits() < 16;
}

double MmaTflops(DataType a, const DeviceSpec& device) {
  return device.mma_sync_tflops *
         (Converts(a, device) ? 1 : OperandRate(a, device));
}

// Instructions that bring one weight to the MMA and its scale into the sum.
// Weights are dequantized by every row of warps; warps split along K share the
// work.
double DequantPerWeight(const Problem& problem, const DeviceSpec& device,
                        const TuningConfig& config) {
  const WeightLayout weights = WeightLayoutOf(problem.layer);
  const int64_t group = weights.group;
  const double unpack =
      weights.direct()
          ? 0
          : kUnpackPerWeight +
                (Converts(problem.layer.a, device) ? kConvertPerWeight : 0);
  if (group == 0) return unpack;
  // Columns of K, and accumulators of a channel, that share one scale.
  const int64_t columns = std::min(group, config.warp_k);
  return unpack + (ScalesAfterMma(problem, config)
                       ? kFoldPerSum * static_cast<double>(config.warp_m) /
                             static_cast<double>(columns)
                       : kScalePerWeight);
}

Prediction OfWgmma(const WgmmaTime& t) {
  Prediction p;
  p.total_ns = t.total_ns;
  p.dram_ns = t.dram_ns;
  p.l2_ns = t.load_ns;
  p.latency_ns = t.latency_ns;
  p.compute_ns = t.compute_ns;
  p.mma_ns = t.mma_ns;
  p.fixed_ns = t.fixed_ns;
  p.split_ns = t.split_ns;
  p.dram_bytes = t.dram_bytes;
  p.l2_bytes = t.l2_bytes;
  p.ctas = t.ctas;
  p.ctas_per_sm = t.ctas_per_sm;
  p.waves = t.waves;
  p.bytes_in_flight_per_sm = t.bytes_in_flight_per_sm;
  return p;
}

}  // namespace

KernelFootprint FootprintOf(const CompileInfo& compile) {
  return {compile.registers, compile.smem_bytes, compile.spill_bytes};
}

double BytesInFlightForFullRate(const DeviceSpec& device) {
  return device.memory_gbps * kLoadedLatencyNs /
         static_cast<double>(device.sm_count);
}

Prediction Predict(const Problem& problem, const DeviceSpec& device,
                   const TuningConfig& config, int64_t m,
                   const KernelFootprint& footprint) {
  if (UsesWgmma(config)) {
    return OfWgmma(WgmmaTimeOf(problem, device, config, m, footprint));
  }
  const LayerConfig& layer = problem.layer;
  const int64_t split = config.splits();
  const int64_t tiles_m = CeilDiv(m, config.block_m);
  const int64_t tiles_n = CeilDiv(layer.n, config.block_n);
  const int64_t steps_total = CeilDiv(layer.k, config.block_k);
  const int64_t steps = CeilDiv(steps_total, split);

  Prediction p;
  p.ctas = tiles_m * tiles_n * split;
  p.ctas_per_sm =
      std::max<int64_t>(1, OccupancyOf(device, config, footprint).ctas);
  const auto sms = static_cast<double>(device.sm_count);
  const Waves waves = WavesOf(p.ctas, device.sm_count * p.ctas_per_sm);
  const double slots = sms * static_cast<double>(p.ctas_per_sm);
  const auto ctas = static_cast<double>(p.ctas);
  p.waves = waves.count;
  const double ghz = ClockGhz(device);

  // ---- bytes ----
  const double weight_bytes =
      static_cast<double>(PackedWeightBytes(layer) + PackedScaleBytes(layer));
  const double a_bytes = static_cast<double>(m) * static_cast<double>(layer.k) *
                         layer.a.bits() / 8;
  const double c_bytes = static_cast<double>(m) * static_cast<double>(layer.n) *
                         layer.c.bits() / 8;
  const double l2 = kUsableL2 * static_cast<double>(device.l2_bytes);
  // The operand that the launch order walks last is read again for every group
  // of tiles that do not run at the same time, unless it fits in L2.
  const double tiles_at_once =
      std::max(1.0, slots / static_cast<double>(split));
  const auto passes = [&](double bytes, int64_t inner, int64_t outer) {
    if (bytes <= l2) return 1.0;
    const double outer_at_once =
        std::max(1.0, std::floor(tiles_at_once / static_cast<double>(inner)));
    return std::ceil(static_cast<double>(outer) / outer_at_once);
  };
  const bool along_m = config.raster == RasterOrder::kAlongM;
  const double weight_passes =
      along_m ? 1.0 : passes(weight_bytes, tiles_n, tiles_m);
  const double a_passes = along_m ? passes(a_bytes, tiles_m, tiles_n) : 1.0;
  p.dram_bytes = weight_bytes * weight_passes + a_bytes * a_passes + c_bytes;
  const double weight_tile_bytes =
      weight_bytes / static_cast<double>(tiles_n * steps_total);
  const double a_tile_bytes = static_cast<double>(
      std::min(m, config.block_m) * config.block_k * layer.a.bits() / 8);
  const double step_bytes = weight_tile_bytes + a_tile_bytes;
  p.l2_bytes = ctas * static_cast<double>(steps) * step_bytes + c_bytes;

  // ---- one CTA's main loop, as if it had its SM to itself ----
  const double clocks = 1 / ghz;  // nanoseconds of one clock
  const double tile_elements =
      static_cast<double>(config.block_n) * static_cast<double>(config.block_k);
  const double mma_flops =
      2 * static_cast<double>(config.block_m) * tile_elements;
  const double sm_flops_per_ns = MmaTflops(problem.layer.a, device) * 1e3 / sms;
  const double warps = static_cast<double>(config.threads()) / 32;
  const double accumulators = std::max(
      1.0, static_cast<double>(config.warp_m * config.warp_n) / (8 * 16));
  const double mma = mma_flops / (kMmaShare * sm_flops_per_ns);
  const double dequant = static_cast<double>(config.warps_m()) * tile_elements *
                         DequantPerWeight(problem, device, config) /
                         kDequantLanes * clocks;
  const double shared =
      (static_cast<double>(config.warps_n() * config.block_m * config.block_k *
                           layer.a.bits() / 8) +
       static_cast<double>(config.warps_m()) * weight_tile_bytes) /
      kSharedBytesPerClock * clocks;
  const double spill =
      static_cast<double>(footprint.spill_bytes * config.threads()) /
      kSpillBytesPerClock * clocks;
  const double ring_bytes =
      static_cast<double>(std::max<int64_t>(1, config.stages - 1)) * step_bytes;

  // ---- waves ----
  // A wave of c CTAs on each of `active` SMs.
  double work = 0;
  const auto add_waves = [&](double count, double on_sm, double active) {
    if (count <= 0) return;
    const double share = on_sm * active / ctas;
    const double in_flight = on_sm * ring_bytes;
    const double mma_efficiency =
        std::min(1.0, warps * on_sm * accumulators / kMmasInFlight);
    const double n = static_cast<double>(steps) * on_sm;
    const double t_mma = n * mma / mma_efficiency;
    const double t_dequant = n * dequant;
    const double t_shared = n * shared;
    // What is spilled is waited for at once, so nothing hides it.
    const double t_spill = n * spill;
    const double longest = std::max({t_mma, t_dequant, t_shared});
    const double t_compute =
        longest + t_spill +
        kComputeOverlapLoss * (t_mma + t_dequant + t_shared - longest);
    const double t_overhead =
        static_cast<double>(steps) * kStepClocks * clocks / std::sqrt(on_sm);
    const double t_dram = p.dram_bytes * share / device.memory_gbps;
    const double t_l2 = n * step_bytes /
                        std::min(kL2BytesPerSmClock * ghz * sms / active,
                                 kSmBytesPerClock * ghz);
    // The busier device memory is, the longer each read takes.
    const double busy =
        t_dram / std::max({t_dram, t_l2, t_compute + t_overhead});
    const double latency =
        kUnloadedLatencyNs + busy * (kLoadedLatencyNs - kUnloadedLatencyNs);
    const double t_latency = n * step_bytes / (in_flight / latency);
    work += count * std::max({t_compute + t_overhead, t_dram, t_l2, t_latency});
    p.compute_ns += count * t_compute;
    p.mma_ns += count * t_mma;
    p.dequant_ns += count * t_dequant;
    p.shared_ns += count * t_shared;
    p.spill_ns += count * t_spill;
    p.overhead_ns += count * t_overhead;
    p.dram_ns += count * t_dram;
    p.l2_ns += count * t_l2;
    p.latency_ns += count * t_latency;
    p.bytes_in_flight_per_sm = std::max(p.bytes_in_flight_per_sm, in_flight);
  };
  add_waves(static_cast<double>(waves.full), static_cast<double>(p.ctas_per_sm),
            sms);
  if (waves.rest > 0) {
    const auto rest = static_cast<double>(waves.rest);
    const double on_sm = std::ceil(rest / sms);
    add_waves(1, on_sm, rest / on_sm);
  }

  // Filling the ring and storing the tile show once, and again at each wave
  // unless another CTA of the SM works meanwhile.
  const double bubble = kUnloadedLatencyNs + kEpilogueNs;
  p.fixed_ns = device.launch_ns + bubble +
               bubble * std::max(0.0, std::ceil(p.waves) - 1) /
                   static_cast<double>(2 * p.ctas_per_sm - 1);

  if (split > 1) {
    // Every CTA writes its partial tile and the last of each tile reads all of
    // them; they stay in L2 as far as it goes.
    const double partials = static_cast<double>(tiles_m * config.block_m) *
                            static_cast<double>(tiles_n * config.block_n) *
                            static_cast<double>(split) * 4;
    const double l2_rate = kL2BytesPerSmClock * ghz * sms;
    const double spilled = std::max(0.0, partials - l2);
    // The readers are as few as there are tiles.
    const double readers =
        std::min(1.0, static_cast<double>(tiles_m * tiles_n) / sms);
    p.split_ns = kSplitSyncNs + partials / l2_rate +
                 partials / (l2_rate * readers) +
                 2 * spilled / device.memory_gbps;
  }
  p.total_ns = work + p.fixed_ns + p.split_ns;
  return p;
}

Prediction::Stream Prediction::Limit() const {
  return std::max({Stream{"device memory", dram_ns}, Stream{"L2", l2_ns},
                   Stream{"latency", latency_ns},
                   Stream{"compute", compute_ns + overhead_ns}},
                  [](const Stream& a, const Stream& b) { return a.ns < b.ns; });
}

std::string Prediction::Explain() const {
  const Stream limit = Limit();
  return absl::StrFormat(
      "%.1f us, limited by %s (%.1f us); %d CTAs, %d per SM, %.2f waves, "
      "%.0f KB in flight per SM, %.1f MB from memory; fixed %.1f us, split-K "
      "%.1f us",
      total_ns * 1e-3, limit.name, limit.ns * 1e-3, ctas, ctas_per_sm, waves,
      bytes_in_flight_per_sm / 1024, dram_bytes * 1e-6, fixed_ns * 1e-3,
      split_ns * 1e-3);
}

}  // namespace hone
