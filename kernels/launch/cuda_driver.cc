#include "kernels/launch/cuda_driver.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace hone {
namespace {

absl::StatusOr<const CudaDriver*> Load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("the CUDA driver is missing (", dlerror(),
                     "): install NVIDIA's driver, or use a modelled device"));
  }
  static CudaDriver driver;
#define HONE_CUDA_LOAD(name)                                           \
  driver.name =                                                        \
      reinterpret_cast<decltype(driver.name)>(dlsym(library, #name));  \
  if (driver.name == nullptr) {                                        \
    return absl::UnavailableError(                                     \
        absl::StrCat("the CUDA driver is too old: it has no " #name)); \
  }
  HONE_CUDA_FUNCTIONS(HONE_CUDA_LOAD)
#undef HONE_CUDA_LOAD
  const CUresult result = driver.cuInit(0);
  if (result != CUDA_SUCCESS) {
    return absl::UnavailableError(driver.Check(result, "cuInit").message());
  }
  return &driver;
}

absl::StatusCode CodeOf(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_UNKNOWN:
      return absl::StatusCode::kAborted;
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
      return absl::StatusCode::kDataLoss;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return absl::StatusCode::kUnavailable;
    // More threads, registers or shared memory than an SM has.
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<const CudaDriver*> CudaDriver::Get() {
  // Kept for the process: libcuda cannot be unloaded safely.
  static const absl::StatusOr<const CudaDriver*> driver = Load();
  return driver;
}

absl::Status CudaDriver::Check(CUresult result, absl::string_view what) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    name = "unknown CUDA error";
  }
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) {
    text = "no description";
  }
  return absl::Status(CodeOf(result),
                      absl::StrCat(what, ": ", name, " (",
                                   static_cast<int>(result), "): ", text));
}

}  // namespace hone
