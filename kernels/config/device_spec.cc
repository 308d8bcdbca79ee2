#include "kernels/config/device_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/config/sha256.h"

namespace hone {
namespace {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

std::string Join(KeyValues pairs) {
  std::sort(pairs.begin(), pairs.end());
  return absl::StrJoin(pairs, ",", absl::PairFormatter("="));
}

KeyValues HardFields(const DeviceSpec& d) {
  KeyValues fields = {
      {"kind", d.modelled() ? "modelled" : "measured"},
      {"sm_arch", absl::StrCat(d.sm_arch)},
      {"pci_device_id", absl::StrCat(d.pci_device_id)},
      {"sm_count", absl::StrCat(d.sm_count)},
      {"l2_bytes", absl::StrCat(d.l2_bytes)},
      {"smem_optin_bytes", absl::StrCat(d.smem_optin_bytes)},
      {"mig_profile", d.mig_profile},
  };
  // Two models may share every number; their names tell them apart.
  if (d.modelled()) fields.push_back({"model", d.uuid});
  return fields;
}

// Rates of one architecture per SM and per GHz, from the vendors' datasheets;
// mma.sync reaches about 62 % of Hopper's wgmma peak (measured for
// shared/PEERS.md: wgmma 883 TFLOP/s on an H200).
struct ArchRates {
  int64_t sm_arch;
  double peak_flops_per_sm_clock;
  double mma_sync_fraction;
  double launch_ns;
};
constexpr ArchRates kArchRates[] = {
    {75, 1024, 0.90, 2500},  {80, 2048, 0.90, 2500}, {86, 512, 0.95, 2500},
    {87, 1024, 0.95, 2500},  {89, 512, 0.95, 2200},  {90, 4096, 0.62, 2200},
    {100, 8192, 0.31, 2200}, {120, 512, 0.95, 2200},
};

DeviceSpec Model(absl::string_view model, absl::string_view name,
                 int64_t sm_arch, int64_t sm_count, int64_t l2_mib,
                 int64_t smem_optin, int64_t smem_per_sm, int64_t threads,
                 int64_t clock_mhz, double memory_gbps, double peak_tflops,
                 double mma_sync_tflops) {
  DeviceSpec d;
  d.kind = DeviceKind::kModelled;
  d.sm_arch = sm_arch;
  d.sm_count = sm_count;
  d.l2_bytes = l2_mib << 20;
  d.smem_optin_bytes = smem_optin;
  d.smem_per_sm_bytes = smem_per_sm;
  d.max_threads_per_sm = threads;
  d.max_clock_khz = clock_mhz * 1000;
  d.name = absl::StrCat(name, " (MODELLED)");
  d.uuid = absl::StrCat("model:", model);
  d.memory_gbps = memory_gbps;
  d.peak_tflops = peak_tflops;
  d.mma_sync_tflops = mma_sync_tflops;
  d.launch_ns = 2200;
  return d;
}

// Streaming rate and peaks of the H200 are measured (shared/PEERS.md); those
// of the others are the datasheets' rates at the fraction the H200 reaches.
std::vector<std::pair<std::string, DeviceSpec>> Models() {
  return {
      {"h200", Model("h200", "NVIDIA H200", 90, 132, 60, 232448, 233472, 2048,
                     1980, 4300, 883, 550)},
      {"a100", Model("a100", "NVIDIA A100-SXM4-80GB", 80, 108, 40, 166912,
                     167936, 2048, 1410, 1830, 280, 270)},
      {"rtx4090", Model("rtx4090", "NVIDIA GeForce RTX 4090", 89, 128, 72,
                        101376, 102400, 1536, 2520, 900, 160, 155)},
      {"t4", Model("t4", "NVIDIA T4", 75, 40, 4, 65536, 65536, 1024, 1590, 287,
                   58, 52)},
  };
}

}  // namespace

std::string DeviceSpec::NvrtcArch() const {
  // wgmma and setmaxnreg exist only in the arch-specific variants.
  const bool specific = sm_arch == 90 || sm_arch >= 100;
  return absl::StrCat("sm_", sm_arch, specific ? "a" : "");
}

std::string DeviceSpec::ClassText() const { return Join(HardFields(*this)); }
std::string DeviceSpec::ClassHash() const { return Sha256Hex(ClassText()); }

std::string DeviceSpec::SoftText() const {
  return Join({
      {"cuda_driver_version", absl::StrCat(cuda_driver_version)},
      {"driver", driver},
      {"pci_subsystem_id", absl::StrCat(pci_subsystem_id)},
      {"power_limit_mw", absl::StrCat(power_limit_mw)},
      {"ecc", ecc ? "1" : "0"},
      {"vbios", vbios},
  });
}

std::optional<std::string> DeviceSpec::MismatchedField(const DeviceSpec& a,
                                                       const DeviceSpec& b) {
  const KeyValues left = HardFields(a);
  const KeyValues right = HardFields(b);
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i] != right[i]) {
      return absl::StrCat(left[i].first, " ", left[i].second,
                          " != ", right[i].second);
    }
  }
  return std::nullopt;
}

std::vector<std::string> ModelledDeviceNames() {
  std::vector<std::string> names;
  for (const auto& [name, spec] : Models()) names.push_back(name);
  return names;
}

absl::StatusOr<DeviceSpec> ModelledDevice(absl::string_view name) {
  for (const auto& [model, spec] : Models()) {
    if (model == name) return spec;
  }
  return absl::NotFoundError(
      absl::StrCat("no modelled device \"", name, "\"; there are ",
                   absl::StrJoin(ModelledDeviceNames(), ", ")));
}

void FillModelRates(DeviceSpec& spec) {
  // A measured H200 is the modelled one with its own counts.
  const ArchRates* rates = &kArchRates[0];
  for (const ArchRates& r : kArchRates) {
    if (r.sm_arch <= spec.sm_arch) rates = &r;
  }
  // The sustained clock under load is about nine tenths of the maximum.
  const double clock_hz = 0.9 * 1e3 * static_cast<double>(spec.max_clock_khz);
  spec.peak_tflops = rates->peak_flops_per_sm_clock *
                     static_cast<double>(spec.sm_count) * clock_hz * 1e-12;
  spec.mma_sync_tflops = spec.peak_tflops * rates->mma_sync_fraction;
  spec.launch_ns = rates->launch_ns;
}

}  // namespace hone
