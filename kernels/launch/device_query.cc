#include "kernels/launch/device_query.h"

#include <unistd.h>

#include <array>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "kernels/config/status_macros.h"
#include "kernels/launch/cuda_driver.h"
#include "kernels/launch/nvml_library.h"

namespace hone {
namespace {

constexpr uint32_t kNvidiaVendor = 0x10de;
// Streaming reads reach this part of the memory's nominal rate; measured on an
// H200: 4.2 to 4.5 TB/s of 4.9 (shared/PEERS.md).
constexpr double kStreamingFraction = 0.875;

std::optional<int> Attribute(const CudaDriver& cuda, CUdevice device,
                             CUdevice_attribute attribute) {
  int value = 0;
  if (cuda.cuDeviceGetAttribute(&value, attribute, device) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  return value;
}

// The device half of a combined PCI id, whichever half holds the vendor.
int64_t DeviceHalf(uint32_t combined) {
  return (combined & 0xffff) == kNvidiaVendor ? combined >> 16
                                              : combined & 0xffff;
}

std::string UuidText(const CUuuid& uuid, bool mig) {
  std::string text = mig ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x",
                          static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

absl::StatusOr<CUdevice> Device(const CudaDriver& cuda, int ordinal) {
  int count = 0;
  HONE_RETURN_IF_ERROR(
      cuda.Check(cuda.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(absl::StrCat("device ", ordinal, ": there are ",
                                            count, " CUDA devices"));
  }
  CUdevice device = 0;
  HONE_RETURN_IF_ERROR(
      cuda.Check(cuda.cuDeviceGet(&device, ordinal), "cuDeviceGet"));
  return device;
}

}  // namespace

absl::StatusOr<int> DeviceCount() {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  int count = 0;
  HONE_RETURN_IF_ERROR(
      cuda->Check(cuda->cuDeviceGetCount(&count), "cuDeviceGetCount"));
  return count;
}

absl::StatusOr<std::string> PciBusId(int ordinal) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const CUdevice device, Device(*cuda, ordinal));
  std::array<char, 64> text{};
  HONE_RETURN_IF_ERROR(
      cuda->Check(cuda->cuDeviceGetPCIBusId(text.data(), text.size(), device),
                  "cuDeviceGetPCIBusId"));
  return std::string(text.data());
}

std::vector<int64_t> ForeignProcesses(int ordinal) {
  std::vector<int64_t> pids;
  const absl::StatusOr<std::string> bus_id = PciBusId(ordinal);
  if (!bus_id.ok()) return pids;
  const std::unique_ptr<NvmlDevice> nvml = NvmlDevice::Open(*bus_id);
  if (nvml == nullptr) return pids;
  for (const int64_t pid :
       nvml->ComputeProcesses().value_or(std::vector<int64_t>())) {
    if (pid != getpid()) pids.push_back(pid);
  }
  return pids;
}

absl::StatusOr<DeviceSpec> QueryDevice(int ordinal) {
  HONE_ASSIGN_OR_RETURN(const CudaDriver* cuda, CudaDriver::Get());
  HONE_ASSIGN_OR_RETURN(const CUdevice device, Device(*cuda, ordinal));
  DeviceSpec spec;
  spec.kind = DeviceKind::kMeasured;

  struct Wanted {
    CUdevice_attribute attribute;
    absl::string_view name;
    int64_t* field;
  };
  int64_t major = 0;
  int64_t minor = 0;
  int64_t memory_clock_khz = 0;
  int64_t bus_bits = 0;
  int64_t ecc = 0;
  const Wanted wanted[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "sm_arch", &major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "sm_arch", &minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "sm_count", &spec.sm_count},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, "l2_bytes", &spec.l2_bytes},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
       "smem_optin_bytes", &spec.smem_optin_bytes},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
       "smem_per_sm_bytes", &spec.smem_per_sm_bytes},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, "registers_per_sm",
       &spec.registers_per_sm},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, "max_threads_per_sm",
       &spec.max_threads_per_sm},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, "max_clock_khz", &spec.max_clock_khz},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, "memory clock",
       &memory_clock_khz},
      {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, "memory bus", &bus_bits},
      {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, "ecc", &ecc},
  };
  for (const Wanted& w : wanted) {
    const std::optional<int> value = Attribute(*cuda, device, w.attribute);
    if (!value.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "device ", ordinal, ": the driver does not tell ", w.name));
    }
    *w.field = *value;
  }
  spec.sm_arch = major * 10 + minor;
  spec.ecc = ecc != 0;

  std::array<char, 256> name{};
  HONE_RETURN_IF_ERROR(
      cuda->Check(cuda->cuDeviceGetName(name.data(), name.size(), device),
                  "cuDeviceGetName"));
  spec.name = name.data();
  // A MIG instance is named "<GPU> MIG <profile>".
  const std::string kMig = " MIG ";
  const size_t mig = spec.name.find(kMig);
  if (mig != std::string::npos) {
    spec.mig_profile = spec.name.substr(mig + kMig.size());
  }
  CUuuid uuid{};
  HONE_RETURN_IF_ERROR(
      cuda->Check(cuda->cuDeviceGetUuid_v2(&uuid, device), "cuDeviceGetUuid"));
  spec.uuid = UuidText(uuid, mig != std::string::npos);
  size_t memory_bytes = 0;
  HONE_RETURN_IF_ERROR(cuda->Check(
      cuda->cuDeviceTotalMem_v2(&memory_bytes, device), "cuDeviceTotalMem"));
  spec.memory_bytes = static_cast<int64_t>(memory_bytes);
  int driver_version = 0;
  HONE_RETURN_IF_ERROR(cuda->Check(cuda->cuDriverGetVersion(&driver_version),
                                   "cuDriverGetVersion"));
  spec.cuda_driver_version = driver_version;

  std::unique_ptr<NvmlDevice> nvml;
  if (const absl::StatusOr<std::string> bus_id = PciBusId(ordinal);
      bus_id.ok()) {
    nvml = NvmlDevice::Open(*bus_id);
  }
  // The driver tells the ids since 13.0; before, only NVML does.
  if (const auto id =
          Attribute(*cuda, device, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID);
      id.has_value() && *id != 0) {
    spec.pci_device_id = DeviceHalf(static_cast<uint32_t>(*id));
  } else if (nvml != nullptr) {
    spec.pci_device_id = nvml->PciDeviceId().value_or(0);
  }
  if (spec.pci_device_id == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", ordinal,
                     ": neither the driver nor NVML tells its PCI device id"));
  }
  if (nvml != nullptr) {
    spec.driver = nvml->DriverVersion().value_or("");
    spec.vbios = nvml->Vbios().value_or("");
    spec.power_limit_mw = nvml->PowerLimit().value_or(0);
    spec.pci_subsystem_id = nvml->PciSubsystemId().value_or(0);
  }

  // Double data rate: two transfers a clock.
  spec.memory_gbps = kStreamingFraction * 2e3 *
                     static_cast<double>(memory_clock_khz) *
                     static_cast<double>(bus_bits) / 8 * 1e-9;
  FillModelRates(spec);
  return spec;
}

}  // namespace hone
