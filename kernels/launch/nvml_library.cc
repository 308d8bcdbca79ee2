#include "kernels/launch/nvml_library.h"

#include <dlfcn.h>

#include <array>
#include <utility>
#include <vector>

namespace hone {
namespace {

// The few declarations of NVML's stable ABI that are needed here; its header
// is not part of the toolkit's packages everywhere.
using NvmlReturn = int;
constexpr NvmlReturn kNvmlSuccess = 0;
constexpr NvmlReturn kNvmlInsufficientSize = 7;

struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  // Device id in the high half, vendor id in the low half.
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];
};

struct NvmlProcessInfo {
  unsigned int pid;
  unsigned long long used_gpu_memory;
  unsigned int gpu_instance_id;
  unsigned int compute_instance_id;
};

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// nvmlClockType_t and nvmlTemperatureSensors_t.
constexpr int kClockSm = 1;
constexpr int kTemperatureGpu = 0;

constexpr unsigned long long kSwPowerCap = 0x4;
constexpr unsigned long long kHwSlowdown = 0x8;
constexpr unsigned long long kSwThermalSlowdown = 0x20;
constexpr unsigned long long kHwThermalSlowdown = 0x40;
constexpr unsigned long long kHwPowerBrakeSlowdown = 0x80;

}  // namespace

struct NvmlDevice::Library {
  void* handle = nullptr;
  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  NvmlReturn (*by_bus_id)(const char*, void**) = nullptr;
  NvmlReturn (*by_uuid)(const char*, void**) = nullptr;
  NvmlReturn (*driver_version)(char*, unsigned int) = nullptr;
  NvmlReturn (*vbios)(void*, char*, unsigned int) = nullptr;
  NvmlReturn (*power_limit)(void*, unsigned int*) = nullptr;
  NvmlReturn (*pci_info)(void*, NvmlPciInfo*) = nullptr;
  NvmlReturn (*clock_events)(void*, unsigned long long*) = nullptr;
  NvmlReturn (*processes)(void*, unsigned int*, NvmlProcessInfo*) = nullptr;
  NvmlReturn (*memory)(void*, NvmlMemory*) = nullptr;
  NvmlReturn (*clock)(void*, int type, unsigned int*) = nullptr;
  NvmlReturn (*power)(void*, unsigned int*) = nullptr;
  NvmlReturn (*temperature)(void*, int sensor, unsigned int*) = nullptr;
  bool initialized = false;

  ~Library() {
    if (initialized) shutdown();
    if (handle != nullptr) dlclose(handle);
  }

  template <typename Function>
  bool Find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(handle, symbol));
    return function != nullptr;
  }
};

NvmlDevice::NvmlDevice(std::unique_ptr<Library> library, void* device)
    : library_(std::move(library)), device_(device) {}
NvmlDevice::~NvmlDevice() = default;

std::unique_ptr<NvmlDevice::Library> NvmlDevice::Load() {
  auto library = std::make_unique<Library>();
  library->handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) return nullptr;
  if (!library->Find(library->init, "nvmlInit_v2") ||
      !library->Find(library->shutdown, "nvmlShutdown") ||
      !library->Find(library->by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2") ||
      !library->Find(library->by_uuid, "nvmlDeviceGetHandleByUUID")) {
    return nullptr;
  }
  // The rest is optional: an older NVML lacks some of it.
  library->Find(library->driver_version, "nvmlSystemGetDriverVersion");
  library->Find(library->vbios, "nvmlDeviceGetVbiosVersion");
  library->Find(library->power_limit, "nvmlDeviceGetPowerManagementLimit");
  library->Find(library->pci_info, "nvmlDeviceGetPciInfo_v3");
  if (!library->Find(library->clock_events,
                     "nvmlDeviceGetCurrentClocksEventReasons")) {
    library->Find(library->clock_events,
                  "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
  library->Find(library->processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  library->Find(library->memory, "nvmlDeviceGetMemoryInfo");
  library->Find(library->clock, "nvmlDeviceGetClockInfo");
  library->Find(library->power, "nvmlDeviceGetPowerUsage");
  library->Find(library->temperature, "nvmlDeviceGetTemperature");
  if (library->init() != kNvmlSuccess) return nullptr;
  library->initialized = true;
  return library;
}

std::unique_ptr<NvmlDevice> NvmlDevice::OpenByUuid(const std::string& uuid) {
  std::unique_ptr<Library> library = Load();
  void* device = nullptr;
  if (library == nullptr ||
      library->by_uuid(uuid.c_str(), &device) != kNvmlSuccess) {
    return nullptr;
  }
  return std::unique_ptr<NvmlDevice>(
      new NvmlDevice(std::move(library), device));
}

std::unique_ptr<NvmlDevice> NvmlDevice::Open(const std::string& pci_bus_id) {
  std::unique_ptr<Library> library = Load();
  if (library == nullptr) return nullptr;
  void* device = nullptr;
  if (library->by_bus_id(pci_bus_id.c_str(), &device) != kNvmlSuccess) {
    return nullptr;
  }
  return std::unique_ptr<NvmlDevice>(
      new NvmlDevice(std::move(library), device));
}

std::optional<std::string> NvmlDevice::DriverVersion() const {
  std::array<char, 96> text{};
  if (library_->driver_version == nullptr ||
      library_->driver_version(text.data(), text.size()) != kNvmlSuccess) {
    return std::nullopt;
  }
  return std::string(text.data());
}

std::optional<std::string> NvmlDevice::Vbios() const {
  std::array<char, 64> text{};
  if (library_->vbios == nullptr ||
      library_->vbios(device_, text.data(), text.size()) != kNvmlSuccess) {
    return std::nullopt;
  }
  return std::string(text.data());
}

std::optional<int64_t> NvmlDevice::PowerLimit() const {
  unsigned int milliwatts = 0;
  if (library_->power_limit == nullptr ||
      library_->power_limit(device_, &milliwatts) != kNvmlSuccess) {
    return std::nullopt;
  }
  return milliwatts;
}

std::optional<int64_t> NvmlDevice::PciDeviceId() const {
  NvmlPciInfo info{};
  if (library_->pci_info == nullptr ||
      library_->pci_info(device_, &info) != kNvmlSuccess) {
    return std::nullopt;
  }
  return info.pci_device_id >> 16;
}

std::optional<int64_t> NvmlDevice::PciSubsystemId() const {
  NvmlPciInfo info{};
  if (library_->pci_info == nullptr ||
      library_->pci_info(device_, &info) != kNvmlSuccess) {
    return std::nullopt;
  }
  return info.pci_subsystem_id;
}

std::optional<ClockEvents> NvmlDevice::CurrentClockEvents() const {
  unsigned long long reasons = 0;
  if (library_->clock_events == nullptr ||
      library_->clock_events(device_, &reasons) != kNvmlSuccess) {
    return std::nullopt;
  }
  ClockEvents events;
  events.slowdown =
      (reasons & (kHwSlowdown | kSwThermalSlowdown | kHwThermalSlowdown |
                  kHwPowerBrakeSlowdown)) != 0;
  events.power_cap = (reasons & kSwPowerCap) != 0;
  events.hardware = (reasons & kHwSlowdown) != 0;
  events.hardware_thermal = (reasons & kHwThermalSlowdown) != 0;
  events.power_brake = (reasons & kHwPowerBrakeSlowdown) != 0;
  events.software_thermal = (reasons & kSwThermalSlowdown) != 0;
  return events;
}

std::optional<std::vector<int64_t>> NvmlDevice::ComputeProcesses() const {
  if (library_->processes == nullptr) return std::nullopt;
  std::vector<NvmlProcessInfo> infos(64);
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto count = static_cast<unsigned int>(infos.size());
    const NvmlReturn result =
        library_->processes(device_, &count, infos.data());
    if (result == kNvmlInsufficientSize) {
      infos.resize(count + 16);
      continue;
    }
    if (result != kNvmlSuccess) return std::nullopt;
    std::vector<int64_t> pids;
    for (unsigned int i = 0; i < count; ++i) pids.push_back(infos[i].pid);
    return pids;
  }
  return std::nullopt;
}

std::optional<int64_t> NvmlDevice::UsedMemory() const {
  NvmlMemory memory{};
  if (library_->memory == nullptr ||
      library_->memory(device_, &memory) != kNvmlSuccess) {
    return std::nullopt;
  }
  return static_cast<int64_t>(memory.used);
}

std::optional<int64_t> NvmlDevice::SmClock() const {
  unsigned int mhz = 0;
  if (library_->clock == nullptr ||
      library_->clock(device_, kClockSm, &mhz) != kNvmlSuccess) {
    return std::nullopt;
  }
  return mhz;
}

std::optional<int64_t> NvmlDevice::PowerDraw() const {
  unsigned int milliwatts = 0;
  if (library_->power == nullptr ||
      library_->power(device_, &milliwatts) != kNvmlSuccess) {
    return std::nullopt;
  }
  return milliwatts;
}

std::optional<int64_t> NvmlDevice::Temperature() const {
  unsigned int celsius = 0;
  if (library_->temperature == nullptr ||
      library_->temperature(device_, kTemperatureGpu, &celsius) !=
          kNvmlSuccess) {
    return std::nullopt;
  }
  return celsius;
}

std::vector<int64_t> OthersThan(int64_t self, std::vector<int64_t> processes) {
  if (std::erase(processes, self) == 0 && !processes.empty()) {
    processes.pop_back();
  }
  return processes;
}

}  // namespace hone
