// DeviceSpec: what Hone knows of one GPU.
//
// Hard fields decide whether a stored result may answer for a device: a
// mismatch is a miss, and MismatchedField() names the field. Soft fields are
// recorded; a result from other soft values is served, flagged. The name is
// for display only.
#ifndef HONE_KERNELS_CONFIG_DEVICE_SPEC_H_
#define HONE_KERNELS_CONFIG_DEVICE_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

// Whether numbers of a device were measured on silicon or computed.
enum class DeviceKind : uint8_t { kMeasured, kModelled };

struct DeviceSpec {
  // ---- hard ----
  DeviceKind kind = DeviceKind::kMeasured;
  // Compute capability × 10: 75, 80, 86, 89, 90, 120.
  int64_t sm_arch = 0;
  // The device half of the PCI id, e.g. 0x2335; 0 for modelled devices.
  int64_t pci_device_id = 0;
  int64_t sm_count = 0;
  int64_t l2_bytes = 0;
  // Largest dynamic shared memory of one block.
  int64_t smem_optin_bytes = 0;
  // "none", or the MIG profile's name.
  std::string mig_profile = "none";

  // ---- soft ----
  // cuDriverGetVersion: 13000 for 13.0; the driver's own version as text.
  int64_t cuda_driver_version = 0;
  std::string driver = "";
  int64_t pci_subsystem_id = 0;
  int64_t power_limit_mw = 0;
  bool ecc = false;
  std::string vbios = "";

  // ---- display and modelling; not part of any key ----
  std::string name;
  // "GPU-..." of a real device; the model's name for a modelled one.
  std::string uuid;
  int64_t smem_per_sm_bytes = 0;
  int64_t registers_per_sm = 65536;
  int64_t max_threads_per_sm = 2048;
  int64_t max_clock_khz = 0;
  int64_t memory_bytes = 0;
  // Rates for the analytic model and the printed floors. Streaming reads of
  // device memory in GB/s (10^9); dense float16 mma.sync in TFLOP/s; fixed
  // cost of one launch in ns.
  double memory_gbps = 0;
  double mma_sync_tflops = 0;
  // The device's best dense float16 rate with any instruction, for floors.
  double peak_tflops = 0;
  double launch_ns = 0;

  bool modelled() const { return kind == DeviceKind::kModelled; }

  // NVRTC's --gpu-architecture value: "sm_90a" where the architecture has an
  // arch-specific variant that Hone uses, else "sm_80".
  std::string NvrtcArch() const;

  // The hard fields as canonical text ("kind=measured,l2_bytes=...").
  std::string ClassText() const;
  // SHA-256 of ClassText() in hex: the key under which results are stored.
  std::string ClassHash() const;
  // The soft fields as canonical text.
  std::string SoftText() const;

  // The first hard field in which the two differ, or nullopt.
  static std::optional<std::string> MismatchedField(const DeviceSpec& a,
                                                    const DeviceSpec& b);

  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

// The devices that can be modelled: "h200", "a100", "rtx4090",
// "t4".
std::vector<std::string> ModelledDeviceNames();

// The spec of a modelled device. NotFound lists the names.
absl::StatusOr<DeviceSpec> ModelledDevice(absl::string_view name);

// Fills mma_sync_tflops, peak_tflops and launch_ns of a measured device from
// the table of known architectures, its SM count and its clocks.
// memory_gbps comes from the device's own memory clock and bus width.
void FillModelRates(DeviceSpec& spec);

}  // namespace hone

#endif  // HONE_KERNELS_CONFIG_DEVICE_SPEC_H_
