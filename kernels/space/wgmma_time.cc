#include "kernels/space/wgmma_time.h"

#include <algorithm>
#include <cmath>

#include "kernels/config/weight_layout.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

// Fitted to 5,963 medians of wgmma kernels on several H200s
// (tests/bench/results/h200: ten tunes, the defaults of 27 layers, sweeps, 557
// configs drawn from the space, stream-K, and this model's own proposals):
// W4A16 with group and channel scales, fp8, blockwise fp8, int8 and mxfp4, M
// from 1 to 8192. The further a time is behind its M's best, the less it
// counts. Of what is within 10 % of an M's best the root mean square error is
// 8 %; of what was measured, the kernel predicted fastest is 1.9 % behind the
// fastest on average, the best of the first three 0.4 %. Fitted to some layers
// and half of the drawn configs, these are 9 %, 2.7 % and 0.2 % on the others.

// Clocks of an MMA step, 32 bytes of K, of 64 rows by one column: half of one
// is the tensor core's rate. Few columns take as long as 80.
constexpr double kMmaClocks = 0.5;
constexpr double kLeastMmaClocks = 40;
// What a warpgroup needs to make the operands of a step of 64 channels: from
// codes of 4 bits in place, with group scales, to 8 bits through tables that
// hold a window's scales, or without.
constexpr double kUnpack16Clocks = 32.6;
constexpr double kGroupScaleClocks = 17;
constexpr double kWindowClocks = 95;
constexpr double kUnpack8Clocks = 129;
// Where tokens have scales of groups, clocks per column and group to add a
// group's sums up.
constexpr double kTokenFoldClocks = 1.06;
// Wait for a stage and its release, once a k-step.
constexpr double kBarrierClocks = 230;
// A warpgroup that dequantizes with one group of MMAs in flight waits more.
constexpr double kOneInFlight = 1.36;
// How much of the shorter of a warpgroup's own steps and all MMAs of the SM is
// not hidden.
constexpr double kComputeOverlapLoss = 0.234;
// Several CTAs of an SM are in each other's way.
constexpr double kSharedSm = 1.39;
// Weights in rows multiply more slowly in stream-K.
constexpr double kStreamedRows = 1.18;
// From asking for a stage to its first bytes, when the memory is busy.
constexpr double kLatencyClocks = 1760;
// Rows of a tile beyond the last token, whose 128 bytes the copy engine fills
// with zeros one after the other.
constexpr double kPaddedRowClocks = 11;
// Storing a tile, and, clocks per output, adding up warpgroups along K first.
constexpr double kEpilogueClocks = 1950;
constexpr double kReduceClocks = 0.42;
// Adding up splits: per output through a cluster's shared memory, and per
// output and further split through the workspace.
constexpr double kClusterSplitClocks = 0.65;
constexpr double kWorkspaceSplitClocks = 0.25;
// Publishing and collecting what stream-K cuts: once, and per output of the
// tile and worker that takes part of it.
constexpr double kCutClocks = 4000;
constexpr double kCutOutputClocks = 0.131;
// How much of the shorter of main loops and device memory is not hidden.
constexpr double kMemoryOverlapLoss = 0.125;
// The clock of short kernels, as a share of the device's largest; and by how
// much it falls at most where tensor cores are always busy, and in which time
// by half of that.
constexpr double kClockShare = 0.99;
constexpr double kUnknownGhz = 1.75;
constexpr double kThrottle = 0.38;
constexpr double kThrottleNs = 1.93e6;
// Of tokens, from which on tiles of one row of channels are launched together.
constexpr int64_t kAlongNTokens = 512;
// What decides ties: the other order, and, of each stage but one, how much of
// what loads vary by shows.
constexpr double kOtherRaster = 1.005;
constexpr double kShallowRing = 0.02;
// Clusters that share tiles are faster than L2's bytes say; they save power.
constexpr double kSharedTiles = 0.99;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What a warpgroup needs to make the operands of one step of 64 channels.
double UnpackClocks(const Problem& problem, const TuningConfig& config) {
  const WeightLayout weights = WeightLayoutOf(problem.layer);
  if (problem.layer.a.bits() == 16) {
    const bool scales = weights.group != 0 && !ScalesAfterMma(problem, config);
    return kUnpack16Clocks + (scales ? kGroupScaleClocks : 0);
  }
  return weights.window ? kWindowClocks : kUnpack8Clocks;
}

// The tensor cores' clocks of one k-step of a CTA; and a warpgroup's own, which
// are those of its MMAs and of what comes between them.
struct StepClocks {
  // At the MMAs' rate, and as long as they take.
  double rate = 0;
  double mma = 0;
  double warpgroup = 0;
};
StepClocks StepClocksOf(const Problem& problem, const TuningConfig& config) {
  const LayerConfig& layer = problem.layer;
  const int64_t step_columns = layout::StepColumns(layer.a.bits());
  const auto columns = static_cast<double>(WgmmaColumnsOf(config));
  const int64_t rows = TokenRows(config) ? config.block_m : config.block_n;
  const double mmas =
      static_cast<double>(rows / 64 * config.block_k / step_columns);
  StepClocks clocks;
  clocks.rate = mmas * kMmaClocks * columns;
  clocks.mma = std::max(clocks.rate, mmas * kLeastMmaClocks);
  if (WeightLayoutOf(layer).direct()) {
    clocks.warpgroup = kBarrierClocks;
    if (layer.a_group != 0) {
      clocks.warpgroup += mmas * kTokenFoldClocks * columns *
                          static_cast<double>(step_columns) /
                          static_cast<double>(layer.a_group);
    }
    return clocks;
  }
  const double exposed = config.mmas_in_flight == 1 ? kOneInFlight : 1;
  const double own = mmas / static_cast<double>(config.math_threads() / 128);
  clocks.warpgroup =
      exposed * (kBarrierClocks + own * UnpackClocks(problem, config)) +
      own * kMmaClocks * columns;
  return clocks;
}

// Bytes that a CTA asks of L2 for one k-step: its part of what its cluster
// shares.
double StepBytes(const Problem& problem, const TuningConfig& config,
                 int64_t m) {
  const LayerConfig& layer = problem.layer;
  const WeightLayout weights = WeightLayoutOf(layer);
  const double weight_bytes =
      static_cast<double>(weights.weight_bytes + weights.scale_bytes) *
      static_cast<double>(config.block_n) / static_cast<double>(layer.n) *
      static_cast<double>(config.block_k) / static_cast<double>(layer.k);
  const int64_t groups =
      layer.a_group == 0 ? 0 : CeilDiv(config.block_k, layer.a_group);
  const double a_bytes =
      static_cast<double>(std::min(m, config.block_m)) *
      static_cast<double>(config.block_k * layer.a.bits() / 8 + 4 * groups);
  return weight_bytes / static_cast<double>(config.cluster_m) +
         a_bytes / static_cast<double>(config.cluster_n);
}

}  // namespace

RasterOrder WgmmaRaster(int64_t m) {
  return m > kAlongNTokens ? RasterOrder::kAlongN : RasterOrder::kAlongM;
}

WgmmaTime WgmmaTimeOf(const Problem& problem, const DeviceSpec& device,
                      const TuningConfig& config, int64_t m,
                      const KernelFootprint& footprint) {
  const LayerConfig& layer = problem.layer;
  const int64_t split = config.splits();
  // With those that only fill clusters up.
  const int64_t tiles_m =
      CeilDiv(m, config.block_m * config.cluster_m) * config.cluster_m;
  const int64_t tiles_n =
      CeilDiv(layer.n, config.block_n * config.cluster_n) * config.cluster_n;
  const bool stream_k = config.workers() > 0;
  WgmmaTime t;
  t.ctas = stream_k ? config.workers() * config.cluster_m * config.cluster_n
                    : tiles_m * tiles_n * split;
  t.ctas_per_sm =
      std::max<int64_t>(1, OccupancyOf(device, config, footprint).ctas);
  const auto sms = static_cast<double>(device.sm_count);
  const Waves waves = WavesOf(t.ctas, device.sm_count * t.ctas_per_sm);
  t.waves = waves.count;

  // ---- one k-step of one CTA ----
  const auto steps =
      static_cast<double>(CeilDiv(CeilDiv(layer.k, config.block_k), split));
  const StepClocks step = StepClocksOf(problem, config);
  const bool direct = WeightLayoutOf(layer).direct();
  const double step_bytes = StepBytes(problem, config, m);
  const double padded_rows =
      static_cast<double>(tiles_m * config.block_m - m) /
      static_cast<double>(tiles_m * config.cluster_n) *
      static_cast<double>(CeilDiv(config.block_k * layer.a.bits(), 1024));

  // ---- waves, in clocks ----
  double work = 0, busy = 0;
  double compute_clocks = 0, mma_clocks = 0;
  double load_clocks = 0, latency_clocks = 0;
  // `count` waves of `on_sm` CTAs on each of `active` SMs.
  const auto add_waves = [&](double count, double on_sm, double active) {
    if (count <= 0) return;
    const double each = count * steps;
    const double mma = on_sm * step.mma;
    // A warpgroup of rows waits for all its MMAs; those that dequantize run
    // beside each other's.
    const double compute =
        direct ? (mma + on_sm * step.warpgroup) * (stream_k ? kStreamedRows : 1)
               : std::max(mma, step.warpgroup) +
                     kComputeOverlapLoss * std::min(mma, step.warpgroup);
    const double rate =
        std::min(kSmBytesPerClock, kL2BytesPerSmClock * sms / active);
    const double load =
        on_sm * (step_bytes / rate + kPaddedRowClocks * padded_rows);
    const double latency =
        (kLatencyClocks + load + compute) / static_cast<double>(config.stages);
    work +=
        each * std::max({compute, load, latency}) * (on_sm > 1 ? kSharedSm : 1);
    busy += each * on_sm * step.rate * active / sms;
    compute_clocks += each * compute;
    mma_clocks += each * mma;
    load_clocks += each * load;
    latency_clocks += each * latency;
    t.bytes_in_flight_per_sm =
        std::max(t.bytes_in_flight_per_sm,
                 on_sm * static_cast<double>(config.stages) * step_bytes);
  };
  const auto ctas = static_cast<double>(t.ctas);
  const double tiles_each = static_cast<double>(tiles_m * tiles_n) / ctas;
  if (stream_k) {
    // All run at a time, and take as many steps each.
    const double on_sm = std::ceil(ctas / sms);
    add_waves(std::ceil(tiles_each * steps) / steps, on_sm, ctas / on_sm);
  } else {
    add_waves(static_cast<double>(waves.full),
              static_cast<double>(t.ctas_per_sm), sms);
    if (waves.rest > 0) {
      const auto rest = static_cast<double>(waves.rest);
      const double on_sm = std::ceil(rest / sms);
      add_waves(1, on_sm, rest / on_sm);
    }
  }

  // ---- what comes on top ----
  // A spec need not have it.
  const double ghz =
      device.max_clock_khz > 0
          ? kClockShare * static_cast<double>(device.max_clock_khz) * 1e-6
          : kUnknownGhz;
  const double count = std::ceil(stream_k ? tiles_each : t.waves);
  const auto outputs = static_cast<double>(config.block_m * config.block_n);
  const double epilogue =
      kEpilogueClocks +
      static_cast<double>(config.warps_k() - 1) * outputs * kReduceClocks;
  double split_clocks = 0;
  if (stream_k) {
    if (tiles_each != count) {
      split_clocks = kCutClocks +
                     outputs * kCutOutputClocks * std::max(1.0, 1 / tiles_each);
    }
  } else if (split > 1) {
    split_clocks =
        count * outputs *
        (ClusterSplit(config) > 1
             ? kClusterSplitClocks
             : kWorkspaceSplitClocks * static_cast<double>(split - 1));
  }
  // Another CTA of the SM works meanwhile.
  const double shown = t.ctas_per_sm > 1 ? 0.67 : 1;
  const double fixed = device.launch_ns * ghz + count * epilogue * shown;
  t.dram_bytes = static_cast<double>(MinimumBytes(problem, m));
  t.dram_ns = t.dram_bytes / device.memory_gbps;
  const double memory = t.dram_ns * ghz;
  double clocks = std::max(work, memory) +
                  kMemoryOverlapLoss * std::min(work, memory) + fixed +
                  split_clocks;
  clocks *= 1 + kShallowRing / static_cast<double>(config.stages - 1);
  if (config.raster != WgmmaRaster(m)) clocks *= kOtherRaster;
  if (config.cluster_m * config.cluster_n > 1) clocks *= kSharedTiles;

  const double long_ns = clocks / ghz;
  const double sustained =
      ghz * (1 - kThrottle * busy / clocks * long_ns / (long_ns + kThrottleNs));
  t.total_ns = clocks / sustained;
  t.compute_ns = compute_clocks / sustained;
  t.mma_ns = mma_clocks / sustained;
  t.load_ns = load_clocks / sustained;
  t.latency_ns = latency_clocks / sustained;
  t.fixed_ns = fixed / sustained;
  t.split_ns = split_clocks / sustained;
  t.l2_bytes =
      static_cast<double>(tiles_m * tiles_n * split) * steps * step_bytes +
      static_cast<double>(m * layer.n * layer.c.bits() / 8);
  return t;
}

}  // namespace hone
