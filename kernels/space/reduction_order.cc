#include "kernels/space/reduction_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Warps (or warpgroups) along K. One would leave decoding at half the speed,
// because nothing else hides the way from load to MMA; with four, tiles wide
// enough for large M have no registers for their sums.
constexpr int64_t kWarpsK = 2;

// Tiles of 64 channels and splits that are worth having at few tokens: about as
// many as a large GPU has SMs, and not the device's own number of them, so that
// all cards of an architecture add alike.
constexpr int64_t kBusyCtas = 128;
constexpr int64_t kMostSplits = 4;
// Columns that a split must keep.
constexpr int64_t kLeastPart = 2048;

// The smallest tile of wgmma in that order.
TuningConfig SmallestWgmma(const ReductionOrder& order) {
  TuningConfig config;
  config.mma = MmaInstruction::kWgmma;
  config.producer_a = config.producer_b = config.producer_scale =
      Producer::kTma;
  config.warp_specialized = true;
  config.block_m = config.warp_m = 8;
  config.block_n = 64;
  config.warp_n = 16;
  config.block_k = order.block_k;
  config.warp_k = order.warp_k;
  config.stages = 2;
  return config;
}

std::string MustBe(absl::string_view field, absl::string_view value,
                   absl::string_view legal) {
  return absl::StrCat("tuning.", field, " is ", value, "; it must be ", legal,
                      " for this problem with compute.batch_invariant");
}

}  // namespace

ReductionOrder ReductionOrderOf(const TuningConfig& config) {
  return {config.mma, config.block_k, config.warp_k, config.split_k};
}

ReductionOrder InvariantOrder(const Problem& problem,
                              const DeviceSpec& device) {
  const LayerConfig& layer = problem.layer;
  ReductionOrder order;
  order.mma = MmaInstruction::kWgmma;
  order.warp_k = 128;
  order.block_k = kWarpsK * order.warp_k;
  Problem free = problem;
  free.compute.batch_invariant = false;
  if (CheckConfig(free, device, SmallestWgmma(order))) {
    order.mma = MmaInstruction::kMmaSync;
    // A step brings whole segments of 128 bytes of activations; short ones
    // leave wide tiles room for stages.
    order.block_k = std::max<int64_t>(kWarpsK * 64, 1024 / layer.a.bits());
    order.warp_k = order.block_k / kWarpsK;
  }
  const int64_t tiles = CeilDiv(layer.n, 64);
  while (order.split_k < kMostSplits &&
         tiles * order.split_k * 2 <= kBusyCtas &&
         layer.k / (order.split_k * 2) >= kLeastPart) {
    order.split_k *= 2;
  }
  return order;
}

std::string BreaksInvariance(const Problem& problem, const DeviceSpec& device,
                             const TuningConfig& config) {
  const ReductionOrder order = InvariantOrder(problem, device);
  const auto number = [](absl::string_view field, int64_t value,
                         int64_t legal) {
    return value == legal
               ? std::string()
               : MustBe(field, absl::StrCat(value), absl::StrCat(legal));
  };
  if (config.mma != order.mma) {
    return MustBe("mma", ToString(config.mma), ToString(order.mma));
  }
  std::string broken = number("block_k", config.block_k, order.block_k);
  if (broken.empty()) {
    broken = number("warp_k", config.warp_k, order.warp_k);
  }
  if (broken.empty() && config.workers() > 0) {
    // Where stream-K cuts K depends on the number of tiles.
    broken =
        MustBe("split", ToString(config.split), "split_k, or data_parallel");
  }
  if (broken.empty()) {
    broken = number("split_k", config.split_k, order.split_k);
  }
  if (!broken.empty()) return broken;
  // Nobody says that wgmma rounds alike where tokens and channels change sides.
  if (TokenRows(config)) {
    return MustBe("warp_n", absl::StrCat(config.warp_n), "16 or 32");
  }
  // Where in K a tile begins is its channels' to say
  // (kernels/device/schedule/tile_schedule.cuh).
  constexpr int64_t kTurnChannels = 256;
  if (kTurnChannels % (config.block_n * config.cluster_n) != 0) {
    return config.cluster_n == 1
               ? MustBe("block_n", absl::StrCat(config.block_n),
                        "64, 128 or 256")
               : MustBe("cluster_n", absl::StrCat(config.cluster_n),
                        absl::StrCat("such that cluster_n · block_n divides ",
                                     kTurnChannels));
  }
  return "";
}

}  // namespace hone
