// Quantize and pack a layer's weights on a device: the kernels of
// kernels/device/pack, which give the bytes of Quantize() and Pack().
#ifndef HONE_KERNELS_PACK_DEVICE_PACK_H_
#define HONE_KERNELS_PACK_DEVICE_PACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/codegen/launch_plan.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

// One translation unit and the launches to run one after another, on one
// stream. They read kWeights, [N, K] row-major in `input`'s type, and write kB
// (PackedWeightBytes) and kBScale (PackedScaleBytes). kWorkspace has
// kPackWorkspaceBytes, which the caller zeroes before the first launch; after
// the last, its second 32-bit word is the number of weights that are not
// finite: with any, the packed tensors mean nothing.
struct DevicePack {
  std::string source;
  // NVRTC's --gpu-architecture.
  std::string arch;
  std::vector<LaunchPlan> launches;
};
inline constexpr uint64_t kPackWorkspaceBytes = 8;

// `input` is float16, bfloat16 or float32, else InvalidArgument; the errors of
// CheckWeightFormat().
absl::StatusOr<DevicePack> RenderPack(const LayerConfig& layer, DataType input,
                                      const DeviceSpec& device);

// The number of a type in device code (kernels/device/numeric/codes.cuh).
int CodeFormat(DataType type);

}  // namespace hone

#endif  // HONE_KERNELS_PACK_DEVICE_PACK_H_
