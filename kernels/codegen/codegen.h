// Renders the one translation unit of a kernel, and its launch.
//
// The device sources are embedded in the binary; a rendered unit needs no
// include path. Nothing of a client's text gets into it: only the enums and
// bounded integers of validated configs.
#ifndef HONE_KERNELS_CODEGEN_CODEGEN_H_
#define HONE_KERNELS_CODEGEN_CODEGEN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/codegen/embedded.h"
#include "kernels/codegen/launch_plan.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"

namespace hone {

struct RenderedKernel {
  // A complete CUDA C++ translation unit with one extern "C" kernel.
  std::string source;
  std::string kernel_name;
  // NVRTC's --gpu-architecture.
  std::string arch;
};

// The number formats of a layer as types of kernels/device/numeric, and the
// files that define those of A and of the weights; scales and zero points are
// in numeric/scale.cuh.
struct KernelTypes {
  std::string a_file;
  std::string a;
  std::string weight_file;
  std::string weight;
  std::string scale;
  std::string zero;
};
KernelTypes TypesOf(const LayerConfig& layer);

// The problem must pass CheckProblem() and the config CheckConfig() for the
// device; otherwise FailedPrecondition with the refusal.
absl::StatusOr<RenderedKernel> RenderKernel(const Problem& problem,
                                            const TuningConfig& config,
                                            const DeviceSpec& device);

// The same whatever the rules say of the config, for tests of the rules: the
// unit need not compile, nor fit a device.
RenderedKernel RenderUnchecked(const Problem& problem,
                               const TuningConfig& config,
                               const DeviceSpec& device);

// The launch of that kernel at one M ≥ 1. Kernels whose CTAs take several tiles
// get as many CTAs as run at a time on `sm_count` SMs; with 0, one for each
// tile, which is correct on any device.
LaunchPlan PlanLaunch(const Problem& problem, const TuningConfig& config,
                      int64_t m, int64_t sm_count = 0);

// Most workspace that PlanLaunch asks for at any M up to max_m, bytes.
uint64_t MaxWorkspaceBytes(const Problem& problem, const TuningConfig& config,
                           int64_t max_m);

// SHA-256 of the cubin and of what the launch fixes for every M (threads,
// shared memory, argument order): the identity of the kernel.
std::string KernelIdentity(absl::string_view cubin_hash, const Problem& problem,
                           const TuningConfig& config);

}  // namespace hone

#endif  // HONE_KERNELS_CODEGEN_CODEGEN_H_
