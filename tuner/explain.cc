#include "tuner/explain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/codegen/codegen.h"

namespace hone {
namespace {

// An H200 streams at its full rate with 48 to 64 KB in flight per SM, one and a
// half to two times bandwidth × latency: arrivals are not even.
constexpr double kInFlightMargin = 1.5;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// kernels/device/ptx/: operands of 256 bits along k, which SM75 takes as two
// instructions of 16-bit types and as four of integers.
std::string ShapeOf(const Problem& problem, const DeviceSpec& device,
                    const TuningConfig& config) {
  const int64_t columns = 256 / problem.layer.a.bits();
  if (config.mma == MmaInstruction::kWgmma) {
    return absl::StrCat("m64n", config.block_m, "k", columns);
  }
  if (device.sm_arch >= 80) return absl::StrCat("m16n8k", columns);
  return problem.layer.a.bits() == 16 ? absl::StrCat("m16n8k", columns / 2)
                                      : absl::StrCat("m8n8k", columns / 2);
}

// `group` tiles are computed together.
TiledLength Tile(int64_t length, int64_t tile, int64_t group) {
  const int64_t tiles = CeilDiv(length, tile * group) * group;
  return {length, tiles, tiles * tile};
}

}  // namespace

Achieved AchievedIn(const Floors& floors, double ns) {
  return {floors.ns() / ns, floors.operations / ns * 1e-3,
          floors.bytes / ns * 1e-3};
}

Explanation Explain(const Problem& problem, const DeviceSpec& device,
                    const TuningConfig& config, int64_t m,
                    const KernelFootprint& footprint) {
  Explanation e;
  e.floors = FloorsOf(problem, device, m);
  e.mma_shape = ShapeOf(problem, device, config);

  e.m = Tile(m, config.block_m, config.cluster_m);
  e.n = Tile(problem.layer.n, config.block_n, config.cluster_n);
  e.k = Tile(problem.layer.k, config.block_k, 1);
  e.padding = 1 - static_cast<double>(m) / static_cast<double>(e.m.covered) *
                      static_cast<double>(problem.layer.n) /
                      static_cast<double>(e.n.covered);

  const LaunchPlan plan = PlanLaunch(problem, config, m, device.sm_count);
  e.pieces = e.m.tiles * e.n.tiles * config.splits();

  e.ctas = static_cast<int64_t>(plan.grid.Count());
  e.cluster = static_cast<int64_t>(plan.cluster.Count());
  e.workspace_bytes = plan.workspace_bytes;

  e.occupancy = OccupancyOf(device, config, footprint);
  // A cluster's CTAs start together.
  const int64_t resident =
      device.sm_count * std::max<int64_t>(e.occupancy.ctas, 1);
  e.slots = std::max<int64_t>(resident / e.cluster, 1) * e.cluster;
  e.waves = WavesOf(e.pieces, e.slots);
  e.running = std::min(std::max<int64_t>(e.occupancy.ctas, 1),
                       CeilDiv(e.ctas, device.sm_count));
  e.cta_warps = config.threads() / 32;
  e.running_warps = e.running * e.cta_warps;
  e.max_warps = device.max_threads_per_sm / 32;

  e.footprint = footprint;
  e.estimated_registers = EstimateRegisters(problem, config);
  if (config.mma == MmaInstruction::kWgmma) {
    e.warpgroups = RegistersOf(problem, config);
  }
  e.stage_bytes = RingStageBytes(problem, config);
  e.model = Predict(problem, device, config, m, footprint);
  e.in_flight = e.model.bytes_in_flight_per_sm;
  e.in_flight_least = BytesInFlightForFullRate(device);
  e.in_flight_wanted = kInFlightMargin * e.in_flight_least;
  return e;
}

}  // namespace hone
