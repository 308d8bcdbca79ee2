// Running kernels through the CUDA driver: contexts, modules, device memory
// and launches. No CUDA type appears here; handles are opaque.
//
// Every function needs the CUDA driver and returns Unavailable without it.
// Calls act on the context that is current on the calling thread, as CUDA's
// own do; a DeviceBuffer and a Module must be destroyed while their context
// still exists.
#ifndef HONE_KERNELS_LAUNCH_MODULE_H_
#define HONE_KERNELS_LAUNCH_MODULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/codegen/launch_plan.h"

namespace hone {

// An address in device memory (CUdeviceptr).
using DevicePtr = uint64_t;
// A CUstream; nullptr is the default stream.
using StreamHandle = void*;
// A CUfunction, owned by its Module.
using FunctionHandle = void*;

// Whether `status` says that the context and everything in it is lost, so that
// the process must be replaced: a kernel faulted (Aborted), or the hardware
// failed and no kernel is to blame (DataLoss).
inline bool IsContextLost(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsDataLoss(status);
}

// The primary context of a device, held while this lives.
class Context {
 public:
  // Retains the primary context and makes it current on this thread.
  static absl::StatusOr<Context> Retain(int ordinal);

  Context(Context&& other) noexcept { *this = std::move(other); }
  Context& operator=(Context&& other) noexcept;
  ~Context();

  absl::Status MakeCurrent() const;

 private:
  Context(int device, void* handle) : device_(device), handle_(handle) {}

  int device_ = 0;
  void* handle_ = nullptr;
};

// Whether this thread has a current context. False also without a driver.
bool HasCurrentContext();

// A cubin loaded in the current context.
class Module {
 public:
  // InvalidArgument when the driver refuses the image.
  static absl::StatusOr<Module> Load(absl::string_view cubin);

  Module() = default;
  Module(Module&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  Module& operator=(Module&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Module();

  // The kernel of that name, ready to be launched with up to `smem_bytes` of
  // dynamic shared memory. InvalidArgument when there is no such kernel or
  // the device has less shared memory.
  absl::StatusOr<FunctionHandle> Function(absl::string_view name,
                                          int64_t smem_bytes = 0) const;

 private:
  explicit Module(void* handle) : handle_(handle) {}

  void* handle_ = nullptr;
};

// Device memory, at least 256-byte aligned.
class DeviceBuffer {
 public:
  // ResourceExhausted when the device has too little free memory. Zero bytes
  // give a null buffer.
  static absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes);

  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : ptr_(std::exchange(other.ptr_, 0)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(ptr_, other.ptr_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer();

  DevicePtr ptr() const { return ptr_; }
  uint64_t bytes() const { return bytes_; }

 private:
  DeviceBuffer(DevicePtr ptr, uint64_t bytes) : ptr_(ptr), bytes_(bytes) {}

  DevicePtr ptr_ = 0;
  uint64_t bytes_ = 0;
};

// An own stream of the current context, which does not wait for the default
// stream.
class Stream {
 public:
  static absl::StatusOr<Stream> Create();

  Stream() = default;
  Stream(Stream&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Stream();

  StreamHandle handle() const { return handle_; }

 private:
  explicit Stream(StreamHandle handle) : handle_(handle) {}

  StreamHandle handle_ = nullptr;
};

// Waits for everything queued on the stream; reports faults of its kernels.
absl::Status Synchronize(StreamHandle stream);

// Queue copies and fills. Host memory must stay as it is until the stream was
// synchronized; CopyToHost synchronizes by itself.
absl::Status CopyToDevice(DevicePtr to, const void* from, uint64_t bytes,
                          StreamHandle stream);
absl::Status CopyToHost(void* to, DevicePtr from, uint64_t bytes,
                        StreamHandle stream);
absl::Status Fill(DevicePtr to, uint8_t value, uint64_t bytes,
                  StreamHandle stream);

// The buffers of a launch, by role; 0 where a kernel takes none.
class BufferBindings {
 public:
  BufferBindings& Bind(BufferRole role, DevicePtr ptr) {
    by_role_[static_cast<size_t>(role)] = ptr;
    return *this;
  }
  DevicePtr Get(BufferRole role) const {
    return by_role_[static_cast<size_t>(role)];
  }

 private:
  std::array<DevicePtr, 9> by_role_{};
};

// Queues the launch that `plan` describes. `function` must have been made
// ready for plan.smem_bytes. InvalidArgument when a buffer that the plan needs
// is not bound. Faults of the kernel itself show at the next Synchronize().
absl::Status Launch(FunctionHandle function, const LaunchPlan& plan,
                    const BufferBindings& buffers, StreamHandle stream);

// Queues a launch with its parameters as they are: params[i] points to the
// value of parameter i, as cuLaunchKernel takes them.
struct RawLaunch {
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;
  uint32_t smem_bytes = 0;
};
absl::Status LaunchRaw(FunctionHandle function, const RawLaunch& launch,
                       void** params, StreamHandle stream);

}  // namespace hone

#endif  // HONE_KERNELS_LAUNCH_MODULE_H_
