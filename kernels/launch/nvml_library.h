// NVML, loaded with dlopen: what CUDA does not tell of a GPU.
//
// Everything here is optional information. Without NVML, or where it refuses
// (containers often do), values are left out; nothing fails.
#ifndef HONE_KERNELS_LAUNCH_NVML_LIBRARY_H_
#define HONE_KERNELS_LAUNCH_NVML_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hone {

// Why the clocks are below their maximum, as NVML reports it now.
struct ClockEvents {
  // Hardware or thermal slowdown: a measurement made now is not to be trusted.
  bool slowdown = false;
  // The software power cap: normal for large products, only recorded.
  bool power_cap = false;
  // What the slowdown is due to.
  bool hardware = false;  // any of the hardware's own, the next two included
  bool hardware_thermal = false;
  bool power_brake = false;
  bool software_thermal = false;
  friend bool operator==(const ClockEvents&, const ClockEvents&) = default;
};

// One GPU as NVML sees it. Thread-safe.
class NvmlDevice {
 public:
  // By PCI bus id ("0000:1b:00.0"). Null when NVML is missing or does not know
  // the device.
  static std::unique_ptr<NvmlDevice> Open(const std::string& pci_bus_id);
  // The same by DeviceSpec::uuid, "GPU-..." or "MIG-...".
  static std::unique_ptr<NvmlDevice> OpenByUuid(const std::string& uuid);
  ~NvmlDevice();

  NvmlDevice(const NvmlDevice&) = delete;
  NvmlDevice& operator=(const NvmlDevice&) = delete;

  // Each is nullopt when NVML does not answer.
  std::optional<std::string> DriverVersion() const;
  std::optional<std::string> Vbios() const;
  // Milliwatts.
  std::optional<int64_t> PowerLimit() const;
  // The 16-bit PCI device id, and the 32-bit subsystem id.
  std::optional<int64_t> PciDeviceId() const;
  std::optional<int64_t> PciSubsystemId() const;
  std::optional<ClockEvents> CurrentClockEvents() const;
  // Process ids that compute on this GPU, own ones included.
  std::optional<std::vector<int64_t>> ComputeProcesses() const;
  // Device memory in use, bytes.
  std::optional<int64_t> UsedMemory() const;
  // MHz.
  std::optional<int64_t> SmClock() const;
  // Milliwatts.
  std::optional<int64_t> PowerDraw() const;
  // Of the GPU's die, degrees Celsius.
  std::optional<int64_t> Temperature() const;

 private:
  struct Library;
  static std::unique_ptr<Library> Load();
  NvmlDevice(std::unique_ptr<Library> library, void* device);

  std::unique_ptr<Library> library_;
  void* device_;
};

// `processes` without `self`, which computes on the GPU too. In a container the
// ids may be those of another namespace; then any one of them stands for
// `self`.
std::vector<int64_t> OthersThan(int64_t self, std::vector<int64_t> processes);

}  // namespace hone

#endif  // HONE_KERNELS_LAUNCH_NVML_LIBRARY_H_
