// What a kernel of a config takes and how it computes: shared memory,
// registers, the MMAs it uses; and the floors of a problem.
#include <algorithm>
#include <cstdint>

#include "kernels/config/weight_layout.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Blocks of 64 rows of a warpgroup; 1 where a config that is refused for it has
// a part of one.
int64_t BlocksOf(const TuningConfig& config) {
  return CeilDiv(TokenRows(config) ? config.warp_m : config.warp_n, 16);
}

// Partial sums of a warpgroup's k-step, where scales follow MMAs: one for each
// group of columns, with tokens in rows also for each block.
int64_t PartialsOfAStep(const Problem& problem, const TuningConfig& config) {
  int64_t columns = config.warp_k;
  for (const int64_t group :
       {WeightLayoutOf(problem.layer).group, problem.layer.a_group}) {
    if (group != 0) columns = std::min(columns, group);
  }
  return config.warp_k / columns * (TokenRows(config) ? BlocksOf(config) : 1);
}

// How many of them have registers: two where one joins the accumulators while
// the MMAs of the other run.
int64_t PartialSets(const Problem& problem, const TuningConfig& config) {
  if (!ScalesAfterMma(problem, config)) return 0;
  return config.mmas_in_flight > 1 && PartialsOfAStep(problem, config) > 1 ? 2
                                                                           : 1;
}

// Values of each channel that the epilogue scales with and adds.
int64_t EpilogueWords(const Problem& problem) {
  const WeightLayout weights = WeightLayoutOf(problem.layer);
  return (weights.group == 0 && weights.has_scales() ? 1 : 0) +
         (problem.layer.bias ? 1 : 0);
}

// Accumulators, dequantized fragments of the groups of MMAs in flight, weight
// words of a unit, scales and zero points, and addresses and loop state; see
// kernels/device/mma/warpgroup_tile.cuh.
int64_t EstimateWgmmaRegisters(const Problem& problem,
                               const TuningConfig& config) {
  const int64_t columns = WgmmaColumnsOf(config);
  const int64_t blocks = BlocksOf(config);
  const int64_t sums = blocks * columns / 2;
  const int64_t partial = TokenRows(config) ? sums / blocks : sums;
  // Past two groups in flight ptxas wants one set of registers more, or it
  // serializes the MMAs (C7512).
  const int64_t flight = config.mmas_in_flight;
  const int64_t sets = flight > 2 ? flight + 1 : flight;
  const WeightLayout weights = WeightLayoutOf(problem.layer);
  const int64_t fragments =
      weights.direct() ? 0 : blocks * 4 * MmaBatch(problem, config) * sets;
  const int64_t words = weights.direct() ? 0 : blocks * problem.layer.b.bits();
  // Lookup tables of a window's scales, of rows and of the group.
  int64_t scales = weights.group == 0 ? 0
                   : weights.window   ? blocks * 8
                                      : blocks * 2;
  if (TokenRows(config)) {
    // Of rows g and g + 8 by unit of 64 channels; and what the epilogue needs
    // of channels and tokens.
    scales = ScalesAfterMma(problem, config) ? columns / 32 : 0;
    scales += EpilogueWords(problem) * columns / 32;
    if (problem.layer.a_scale == InputScale::kToken) scales += blocks * 2;
  }
  const int64_t zeros =
      problem.layer.zero_point == ZeroPoint::kNone ? 0 : blocks * 2;
  const int64_t mainloop = sums + partial * PartialSets(problem, config) +
                           fragments + words + scales + zeros +
                           (TokenRows(config) ? 32 : 36);
  // The workspace's sums read four registers of each split, of up to four
  // fragments at a time, most of which ptxas keeps in flight.
  int64_t summed =
      config.splits() > ClusterSplit(config)
          ? std::min<int64_t>(blocks * columns / 8, 4) * 3 * config.split_k + 28
          : 0;
  if (config.workers() > 0) {
    // Eight fragments of another worker's part.
    summed = sums + std::min<int64_t>(blocks * columns / 8, 8) * 4 + 40;
  }
  return std::max(mainloop, summed);
}

// Bytes of one stage of a load group's ring.
int64_t StageBytes(const Problem& problem, const TuningConfig& config) {
  // kernels/device/memory/tile_loader.cuh and tma_ring.cuh.
  const int64_t columns = LoadColumns(config);
  const int64_t a = config.block_m * columns * problem.layer.a.bits() / 8;
  const int64_t b = config.block_n * columns * problem.layer.b.bits() / 8;
  const WeightLayout w = WeightLayoutOf(problem.layer);
  const int64_t groups = w.group == 0 ? 0 : CeilDiv(columns, w.group);
  const int64_t scales = config.block_n / 64 * groups * w.entry_bytes;
  const int64_t a_group = problem.layer.a_group;
  const int64_t a_scales =
      a_group == 0 ? 0 : CeilDiv(columns, a_group) * config.block_m * 4;
  // A stage of wgmma begins at the swizzle's period.
  const int64_t align = UsesWgmma(config) ? 1024 : 16;
  return CeilDiv(a + b + scales + a_scales, align) * align;
}

// Load groups, and so rings, of a CTA.
int64_t Rings(const TuningConfig& config) {
  return config.block_k / LoadColumns(config);
}

// What a CTA of an SM90 can have of its SM's shared memory.
constexpr int64_t kHopperSmemBytes = 227 << 10;

// SmemBytes() less AScaleQuadBytes().
int64_t SmemBytesWithoutQuads(const Problem& problem,
                              const TuningConfig& config) {
  // kernels/device/gemm/; the kernels assert that both sides agree.
  const int64_t ring = config.stages * RingStageBytes(problem, config);
  // Two mbarriers a stage.
  const int64_t barriers = UsesWgmma(config) ? 16 * config.stages : 0;
  const int64_t tile = config.block_m * config.block_n;
  const int64_t reduce = config.warps_k() > 1 ? config.warps_k() * tile * 4 : 0;
  const int64_t output = config.block_m * (config.block_n + 8) * 2;
  // Stream-K goes on with the ring meanwhile.
  int64_t memory = config.workers() > 0 ? ring + reduce + output
                                        : std::max(ring, reduce + output);
  if (StreamsTiles(config)) {
    // kernels/device/epilogue/streamed_epilogue.cuh
    const int64_t parts = ClusterSplit(config);
    const int64_t part = WgmmaColumnsOf(config) / parts;
    const bool tokens = TokenRows(config);
    const int64_t piece = tokens && part % 64 == 0 ? 64
                          : part % 32 == 0         ? 32
                          : part % 16 == 0         ? 16
                                                   : 8;
    const int64_t rows = tokens ? 16 : piece;
    const int64_t columns = tokens ? piece : config.warp_n;
    const int64_t received = (parts - 1) * tile / parts * 4;
    memory = std::max(ring, received) +
             config.math_threads() / 32 * rows * (columns * 2 + 16) + received;
  }
  return memory + 16 + barriers;
}

}  // namespace

bool UsesWgmma(const TuningConfig& config) {
  return config.mma == MmaInstruction::kWgmma;
}

int64_t LoadColumns(const TuningConfig& config) {
  const bool private_rings = !UsesWgmma(config) &&
                             config.warps_m() * config.warps_n() == 1 &&
                             config.warps_k() > 1;
  return private_rings ? config.warp_k : config.block_k;
}

int64_t RingStageBytes(const Problem& problem, const TuningConfig& config) {
  return Rings(config) * StageBytes(problem, config);
}

int64_t AScaleQuadBytes(const Problem& problem, const TuningConfig& config) {
  const int64_t group = problem.layer.a_group;
  if (group == 0 || !UsesWgmma(config) ||
      problem.compute.a_scale_layout != InputScaleLayout::kRowMajor ||
      CeilDiv(problem.layer.k, group) % 4 != 0 || config.block_k > group) {
    return 0;
  }
  const int64_t quads = 2 * config.block_m * 16;
  return SmemBytesWithoutQuads(problem, config) + quads <= kHopperSmemBytes
             ? quads
             : 0;
}

int64_t SmemBytes(const Problem& problem, const TuningConfig& config) {
  return SmemBytesWithoutQuads(problem, config) +
         AScaleQuadBytes(problem, config);
}

bool ScalesAfterMma(const Problem& problem, const TuningConfig& config) {
  if (problem.layer.a_group != 0) return true;
  if (problem.layer.b_scale_window) return false;
  const int64_t group = WeightLayoutOf(problem.layer).group;
  if (group == 0) return false;
  if (problem.compute.batch_invariant) {
    // Whatever the tile; after it only where they must, since many tokens have
    // no registers for partial sums.
    return ScalesNeedFloat32(problem.layer) ||
           problem.compute.accumulator == kFloat16;
  }
  // m16k16 steps of a warp that share a scale.
  const int64_t steps = std::min(group, config.warp_k) / 16;
  const int64_t tokens = config.warp_m / 8;
  if (UsesWgmma(config)) {
    // Per block of 64 channels, group and lane: four multiplications a step
    // before it, or an fma for each of the accumulators after it.
    return ScalesNeedFloat32(problem.layer) || tokens < steps / 2;
  }
  return ScalesNeedFloat32(problem.layer) ||
         problem.compute.accumulator == kFloat16 ||
         (tokens < steps && tokens <= 4);
}

int64_t MmaBatch(const Problem& problem, const TuningConfig& config) {
  // The MMA of a step takes N / 2 cycles; a group, 128.
  const int64_t steps = 256 / (config.block_m * config.warp_n / 16);
  const int64_t batch = steps >= 4 ? 4 : steps >= 2 ? 2 : 1;
  return std::min<int64_t>(batch, layout::UnitSteps(problem.layer.a.bits()));
}

int64_t MmaGroups(const Problem& problem, const TuningConfig& config) {
  if (WeightLayoutOf(problem.layer).direct()) {
    return ScalesAfterMma(problem, config) &&
                   PartialsOfAStep(problem, config) == 1
               ? 1
               : 2;
  }
  const int64_t steps =
      config.warp_k / layout::StepColumns(problem.layer.a.bits());
  return std::min<int64_t>(steps / MmaBatch(problem, config), 4);
}

bool TokenRows(const TuningConfig& config) {
  return UsesWgmma(config) && config.warp_n == config.block_n;
}

int64_t WgmmaColumnsOf(const TuningConfig& config) {
  return TokenRows(config) ? config.block_n : config.block_m;
}

bool WgmmaColumns(DataType a, int64_t columns) {
  if (columns < 8 || columns > 256 || columns % 8 != 0) return false;
  return !a.is_integer() || columns % 16 == 0 || columns <= 24;
}

int64_t StreamWorkers(const DeviceSpec& device, int64_t cluster,
                      int64_t ctas_per_sm) {
  const int64_t ctas = device.sm_count * ctas_per_sm;
  return cluster > 2 ? ctas * 10 / 11 / cluster : ctas / cluster;
}

int64_t ClusterSplit(const TuningConfig& config) {
  const int64_t split = config.splits();
  const bool fits = (split == 2 || split == 4) && config.warps_k() == 1 &&
                    split * config.cluster_m * config.cluster_n <= 8 &&
                    WgmmaColumnsOf(config) % (8 * split) == 0;
  return UsesWgmma(config) && fits ? split : 1;
}

bool StreamsTiles(const TuningConfig& config) {
  return UsesWgmma(config) && config.splits() == ClusterSplit(config) &&
         config.warps_k() == 1;
}

WarpgroupRegisters RegistersOf(const Problem& problem,
                               const TuningConfig& config) {
  // The register file's 512 of each lane position of the SM's four schedulers,
  // among which a CTA's warpgroups spread one warp each; in units of 8, of
  // which an instruction can name 255 and setmaxnreg leave 24.
  constexpr int64_t kFile = 512, kMost = 240;
  WarpgroupRegisters r;
  // Rounded up: a config that is refused for it may have a part of one.
  const int64_t math = CeilDiv(config.math_threads(), 128);
  const int64_t all = CeilDiv(config.threads(), 128);
  r.launch = std::min<int64_t>(kFile / config.ctas_per_sm / all / 8 * 8, 255);
  // Copies of A's scales are addressed one by one.
  r.producer = problem.layer.a_group == 0 ? 24 : 40;
  r.math = std::min((r.launch * all - r.producer) / math / 8 * 8, kMost);
  r.reassigned =
      r.math > r.launch && EstimateRegisters(problem, config) > r.launch;
  return r;
}

int64_t EstimateRegisters(const Problem& problem, const TuningConfig& config) {
  if (UsesWgmma(config)) return EstimateWgmmaRegisters(problem, config);
  const int64_t blocks = config.warp_n / 16;
  const int64_t tokens = config.warp_m / 8;
  int64_t accumulators = blocks * tokens * 4;
  if (problem.compute.accumulator == kFloat16) {
    // Partial sums, two values a register.
    accumulators += blocks * tokens * 2;
  } else if (ScalesAfterMma(problem, config) &&
             (tokens > 4 || config.producer_b == Producer::kLdg)) {
    // Partial sums of their own; few of them fit what is counted below, unless
    // a stage is held as well.
    accumulators *= 2;
  }
  // Activations of two steps, weight words of a unit, one dequantized fragment,
  // zero points, and addresses and loop state.
  const int64_t activations = tokens * 4;
  const int64_t words = WeightLayoutOf(problem.layer).direct()
                            ? 4
                            : blocks * problem.layer.b.bits();
  const int64_t zeros =
      problem.layer.zero_point == ZeroPoint::kNone ? 0 : blocks * 2;
  // A thread's part of the next stage, and where it comes from.
  int64_t held = 0;
  if (config.producer_b == Producer::kLdg) {
    held = CeilDiv(RingStageBytes(problem, config), 4 * config.threads());
    held += held / 4 + 8;
  }
  return accumulators + activations + words + zeros + held + 4 + 32;
}

double OperandRate(DataType a, const DeviceSpec& device) {
  // Hopper's tensor cores have no 4-bit integers.
  if (a == kInt4 && device.sm_arch >= 90) return 1;
  return 16.0 / a.bits();
}

int64_t MinimumBytes(const Problem& problem, int64_t m) {
  const LayerConfig& layer = problem.layer;
  const WeightLayout packed = WeightLayoutOf(layer);
  const int64_t activations = m * layer.k * layer.a.bits() / 8;
  const int64_t output = m * layer.n * layer.c.bits() / 8;
  const int64_t bias = layer.bias ? layer.n * layer.c.bits() / 8 : 0;
  int64_t a_scales = 0;
  switch (layer.a_scale) {
    case InputScale::kNone:
      break;
    case InputScale::kTensor:
      a_scales = 4;
      break;
    case InputScale::kToken:
      a_scales = 4 * m;
      break;
    case InputScale::kGroup:
      a_scales = 4 * m * CeilDiv(layer.k, layer.a_group);
      break;
  }
  return packed.weight_bytes + packed.scale_bytes + activations + a_scales +
         output + bias;
}

Floors FloorsOf(const Problem& problem, const DeviceSpec& device, int64_t m) {
  Floors floors;
  floors.bytes = static_cast<double>(MinimumBytes(problem, m));
  floors.memory_gbps = device.memory_gbps;
  floors.operations = 2.0 * static_cast<double>(m) *
                      static_cast<double>(problem.layer.n) *
                      static_cast<double>(problem.layer.k);
  floors.tflops = device.peak_tflops * OperandRate(problem.layer.a, device);
  return floors;
}

double FloorNs(const Problem& problem, const DeviceSpec& device, int64_t m) {
  return FloorsOf(problem, device, m).ns();
}

}  // namespace hone
