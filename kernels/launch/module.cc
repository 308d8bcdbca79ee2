#include "kernels/launch/module.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/launch/cuda_driver.h"
#include "kernels/launch/tensor_map_encode.h"

namespace hone {
namespace {

// Destructors run only for handles that a loaded driver gave out.
const CudaDriver* DriverOrNull() {
  const absl::StatusOr<const CudaDriver*> driver = CudaDriver::Get();
  return driver.ok() ? *driver : nullptr;
}

const char* RoleName(BufferRole role) {
  switch (role) {
    case BufferRole::kA:
      return "A";
    case BufferRole::kB:
      return "B";
    case BufferRole::kBScale:
      return "B scales";
    case BufferRole::kBias:
      return "bias";
    case BufferRole::kC:
      return "C";
    case BufferRole::kWorkspace:
      return "workspace";
    case BufferRole::kWeights:
      return "weights";
    case BufferRole::kInput:
      return "input";
    case BufferRole::kAScale:
      return "A scales";
  }
  return "unknown";
}

}  // namespace

absl::StatusOr<Context> Context::Retain(int ordinal) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  CUdevice device = 0;
  HONE_RETURN_IF_ERROR(cuda->Check(cuda->cuDeviceGet(&device, ordinal),
                                   absl::StrCat("cuDeviceGet(", ordinal, ")")));
  CUcontext handle = nullptr;
  HONE_RETURN_IF_ERROR(
      cuda->Check(cuda->cuDevicePrimaryCtxRetain(&handle, device),
                  "cuDevicePrimaryCtxRetain"));
  Context context(device, handle);
  HONE_RETURN_IF_ERROR(context.MakeCurrent());
  return context;
}

Context& Context::operator=(Context&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Context::~Context() {
  if (handle_ == nullptr) return;
  const CudaDriver* cuda = DriverOrNull();
  // A context that others have made current stays theirs.
  CUcontext current = nullptr;
  if (cuda->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == handle_) {
    cuda->cuCtxSetCurrent(nullptr);
  }
  cuda->cuDevicePrimaryCtxRelease_v2(device_);
}

absl::Status Context::MakeCurrent() const {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  return cuda->Check(cuda->cuCtxSetCurrent(static_cast<CUcontext>(handle_)),
                     "cuCtxSetCurrent");
}

bool HasCurrentContext() {
  const CudaDriver* cuda = DriverOrNull();
  CUcontext current = nullptr;
  return cuda != nullptr && cuda->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
         current != nullptr;
}

absl::StatusOr<Module> Module::Load(absl::string_view cubin) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  // The driver reads an ELF image by its own headers; an empty one has none.
  if (cubin.empty()) return absl::InvalidArgumentError("the cubin is empty");
  CUmodule handle = nullptr;
  HONE_RETURN_IF_ERROR(cuda->Check(
      cuda->cuModuleLoadDataEx(&handle, cubin.data(), 0, nullptr, nullptr),
      "cuModuleLoadDataEx"));
  return Module(handle);
}

Module::~Module() {
  if (handle_ != nullptr) {
    DriverOrNull()->cuModuleUnload(static_cast<CUmodule>(handle_));
  }
}

absl::StatusOr<FunctionHandle> Module::Function(absl::string_view name,
                                                int64_t smem_bytes) const {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  CUfunction function = nullptr;
  const std::string symbol(name);
  HONE_RETURN_IF_ERROR(cuda->Check(
      cuda->cuModuleGetFunction(&function, static_cast<CUmodule>(handle_),
                                symbol.c_str()),
      absl::StrCat("cuModuleGetFunction(", symbol, ")")));
  // Up to 48 KB needs no opt-in.
  if (smem_bytes > 48 * 1024) {
    HONE_RETURN_IF_ERROR(cuda->Check(
        cuda->cuFuncSetAttribute(
            function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            static_cast<int>(smem_bytes)),
        absl::StrCat("cuFuncSetAttribute(", symbol,
                     ", MAX_DYNAMIC_SHARED_SIZE_BYTES, ", smem_bytes, ")")));
  }
  return function;
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(uint64_t bytes) {
  if (bytes == 0) return DeviceBuffer();
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  CUdeviceptr ptr = 0;
  HONE_RETURN_IF_ERROR(cuda->Check(cuda->cuMemAlloc_v2(&ptr, bytes),
                                   absl::StrCat("cuMemAlloc(", bytes, ")")));
  return DeviceBuffer(ptr, bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (ptr_ != 0) DriverOrNull()->cuMemFree_v2(ptr_);
}

absl::StatusOr<Stream> Stream::Create() {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  CUstream stream = nullptr;
  HONE_RETURN_IF_ERROR(cuda->Check(
      cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return Stream(stream);
}

Stream::~Stream() {
  if (handle_ != nullptr) {
    DriverOrNull()->cuStreamDestroy_v2(static_cast<CUstream>(handle_));
  }
}

absl::Status Synchronize(StreamHandle stream) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  return cuda->Check(cuda->cuStreamSynchronize(static_cast<CUstream>(stream)),
                     "cuStreamSynchronize");
}

absl::Status CopyToDevice(DevicePtr to, const void* from, uint64_t bytes,
                          StreamHandle stream) {
  if (bytes == 0) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  return cuda->Check(cuda->cuMemcpyHtoDAsync_v2(to, from, bytes,
                                                static_cast<CUstream>(stream)),
                     "cuMemcpyHtoDAsync");
}

absl::Status CopyToHost(void* to, DevicePtr from, uint64_t bytes,
                        StreamHandle stream) {
  if (bytes == 0) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  HONE_RETURN_IF_ERROR(
      cuda->Check(cuda->cuMemcpyDtoHAsync_v2(to, from, bytes,
                                             static_cast<CUstream>(stream)),
                  "cuMemcpyDtoHAsync"));
  return Synchronize(stream);
}

absl::Status Fill(DevicePtr to, uint8_t value, uint64_t bytes,
                  StreamHandle stream) {
  if (bytes == 0) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  return cuda->Check(
      cuda->cuMemsetD8Async(to, value, bytes, static_cast<CUstream>(stream)),
      "cuMemsetD8Async");
}

absl::Status Launch(FunctionHandle function, const LaunchPlan& plan,
                    const BufferBindings& buffers, StreamHandle stream) {
  // Storage for the values; reserved so that the pointers stay valid.
  std::vector<DevicePtr> pointers;
  std::vector<int32_t> integers;
  std::vector<EncodedTensorMap> maps;
  std::vector<void*> params;
  pointers.reserve(plan.args.size());
  integers.reserve(plan.args.size());
  maps.reserve(plan.args.size());
  params.reserve(plan.args.size());
  for (const LaunchArg& arg : plan.args) {
    if (arg.kind == LaunchArg::Kind::kInt32) {
      integers.push_back(arg.value);
      params.push_back(&integers.back());
      continue;
    }
    const bool is_map = arg.kind == LaunchArg::Kind::kTensorMap;
    if (is_map && static_cast<size_t>(arg.value) >= plan.tensor_maps.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "launch of ", plan.kernel_name, ": no tensor map ", arg.value,
          "; legal are those below ", plan.tensor_maps.size()));
    }
    const BufferRole role =
        is_map ? plan.tensor_maps[arg.value].buffer : arg.role;
    const DevicePtr ptr = buffers.Get(role);
    // Kernels take a null bias or workspace where they use none.
    const bool optional =
        !is_map &&
        (role == BufferRole::kBias ||
         (role == BufferRole::kWorkspace && plan.workspace_bytes == 0));
    if (ptr == 0 && !optional) {
      return absl::InvalidArgumentError(absl::StrCat(
          "launch of ", plan.kernel_name, ": no buffer for ", RoleName(role)));
    }
    if (is_map) {
      const absl::Status status = EncodeTensorMap(plan.tensor_maps[arg.value],
                                                  ptr, &maps.emplace_back());
      if (!status.ok()) {
        return absl::Status(status.code(),
                            absl::StrCat("launch of ", plan.kernel_name, ": ",
                                         status.message()));
      }
      params.push_back(&maps.back());
      continue;
    }
    pointers.push_back(ptr);
    params.push_back(&pointers.back());
  }
  RawLaunch launch;
  launch.grid = plan.grid;
  launch.block = plan.block;
  launch.cluster = plan.cluster;
  launch.smem_bytes = plan.smem_bytes;
  absl::Status status = LaunchRaw(function, launch, params.data(), stream);
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat("launch of ", plan.kernel_name, ": ", status.message()));
}

absl::Status LaunchRaw(FunctionHandle function, const RawLaunch& launch,
                       void** params, StreamHandle stream) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  CUlaunchConfig config = {};
  config.gridDimX = launch.grid.x;
  config.gridDimY = launch.grid.y;
  config.gridDimZ = launch.grid.z;
  config.blockDimX = launch.block.x;
  config.blockDimY = launch.block.y;
  config.blockDimZ = launch.block.z;
  config.sharedMemBytes = launch.smem_bytes;
  config.hStream = static_cast<CUstream>(stream);
  CUlaunchAttribute cluster = {};
  if (launch.cluster.Count() > 1) {
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = launch.cluster.x;
    cluster.value.clusterDim.y = launch.cluster.y;
    cluster.value.clusterDim.z = launch.cluster.z;
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  return cuda->Check(
      cuda->cuLaunchKernelEx(&config, static_cast<CUfunction>(function), params,
                             nullptr),
      "cuLaunchKernelEx");
}

}  // namespace hone
