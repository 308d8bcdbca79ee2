// The CUDA driver, loaded with dlopen: no binary of Hone links libcuda.
//
// This header includes cuda.h, so only kernels/launch and tuner/measure may
// include it; everybody else uses module.h and device_query.h.
#ifndef HONE_KERNELS_LAUNCH_CUDA_DRIVER_H_
#define HONE_KERNELS_LAUNCH_CUDA_DRIVER_H_

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// The driver functions that Hone uses, each by its exported symbol: the version
// that cuda.h's macros would pick.
#define HONE_CUDA_FUNCTIONS(X)    \
  X(cuInit)                       \
  X(cuDriverGetVersion)           \
  X(cuGetErrorName)               \
  X(cuGetErrorString)             \
  X(cuDeviceGet)                  \
  X(cuDeviceGetCount)             \
  X(cuDeviceGetName)              \
  X(cuDeviceGetUuid_v2)           \
  X(cuDeviceGetAttribute)         \
  X(cuDeviceGetPCIBusId)          \
  X(cuDeviceTotalMem_v2)          \
  X(cuDevicePrimaryCtxRetain)     \
  X(cuDevicePrimaryCtxRelease_v2) \
  X(cuCtxGetCurrent)              \
  X(cuCtxSetCurrent)              \
  X(cuModuleLoadDataEx)           \
  X(cuModuleUnload)               \
  X(cuModuleGetFunction)          \
  X(cuFuncSetAttribute)           \
  X(cuMemAlloc_v2)                \
  X(cuMemFree_v2)                 \
  X(cuMemcpyHtoDAsync_v2)         \
  X(cuMemcpyDtoHAsync_v2)         \
  X(cuMemsetD8Async)              \
  X(cuStreamCreate)               \
  X(cuStreamDestroy_v2)           \
  X(cuStreamSynchronize)          \
  X(cuTensorMapEncodeTiled)       \
  X(cuLaunchKernelEx)

// cuda.h renames some functions to their newest version by macro, which would
// rename the members too; the table spells the versions out instead.
#undef cuLaunchKernelEx
#undef cuStreamSynchronize
#undef cuMemsetD8Async

struct CudaDriver {
#define HONE_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
  HONE_CUDA_FUNCTIONS(HONE_CUDA_MEMBER)
#undef HONE_CUDA_MEMBER

  // The loaded driver after cuInit, loaded on first use and kept for the life
  // of the process. Unavailable when there is no driver or no usable device,
  // and says which. Thread-safe. Creates no context.
  static absl::StatusOr<const CudaDriver*> Get();

  // `what` names the call. OK for CUDA_SUCCESS; else a Status with the
  // driver's name and text of the error:
  //   ResourceExhausted   out of device memory or of launch resources
  //   Aborted, DataLoss   the context is lost (see IsContextLost)
  //   Unavailable         no device, or not permitted now
  //   InvalidArgument     the driver refused an argument or an image
  //   Internal            anything else
  absl::Status Check(CUresult result, absl::string_view what) const;
};

}  // namespace hone

#endif  // HONE_KERNELS_LAUNCH_CUDA_DRIVER_H_
