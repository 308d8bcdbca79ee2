// What the CUDA driver and NVML say of a GPU, as a DeviceSpec.
//
// No context is created, but the driver is initialized in this process, which
// a process that must survive bad kernels leaves to its worker child.
#ifndef HONE_KERNELS_LAUNCH_DEVICE_QUERY_H_
#define HONE_KERNELS_LAUNCH_DEVICE_QUERY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/config/device_spec.h"

namespace hone {

// Unavailable without a driver or a device.
absl::StatusOr<int> DeviceCount();

// Every hard and soft field and the model's rates of device `ordinal`. Soft
// fields that only NVML knows stay empty without NVML. NotFound when there is
// no such device; FailedPrecondition when a hard field cannot be read.
absl::StatusOr<DeviceSpec> QueryDevice(int ordinal);

// Process ids of others that compute on the device, as far as NVML tells. In a
// container NVML may name this process by another id: ask before making a
// context.
std::vector<int64_t> ForeignProcesses(int ordinal);

// The PCI bus id of the device ("0000:1b:00.0"), for NvmlDevice::Open.
absl::StatusOr<std::string> PciBusId(int ordinal);

}  // namespace hone

#endif  // HONE_KERNELS_LAUNCH_DEVICE_QUERY_H_
