// The fields of stored values as data: one list per value drives its columns,
// its JSON in bundles and the checks of both.
//
// Each Visit function calls visit(name, field) for the plain fields in the
// order of their columns. The name is both the column's and the JSON key.
#ifndef HONE_DB_FIELDS_H_
#define HONE_DB_FIELDS_H_

#include "absl/strings/string_view.h"
#include "kernels/config/device_spec.h"
#include "tuner/trial.h"

namespace hone {

// `Device` and the like are the value's type, const or not.
template <typename Device, typename Visitor>
void VisitHardFields(Device& device, Visitor&& visit) {
  visit("sm_arch", device.sm_arch);
  visit("pci_device_id", device.pci_device_id);
  visit("sm_count", device.sm_count);
  visit("l2_bytes", device.l2_bytes);
  visit("smem_optin_bytes", device.smem_optin_bytes);
  visit("mig_profile", device.mig_profile);
}

template <typename Device, typename Visitor>
void VisitSoftFields(Device& device, Visitor&& visit) {
  visit("cuda_driver_version", device.cuda_driver_version);
  visit("driver", device.driver);
  visit("pci_subsystem_id", device.pci_subsystem_id);
  visit("power_limit_mw", device.power_limit_mw);
  visit("ecc", device.ecc);
  visit("vbios", device.vbios);
}

template <typename Device, typename Visitor>
void VisitOtherFields(Device& device, Visitor&& visit) {
  visit("name", device.name);
  visit("uuid", device.uuid);
  visit("smem_per_sm_bytes", device.smem_per_sm_bytes);
  visit("registers_per_sm", device.registers_per_sm);
  visit("max_threads_per_sm", device.max_threads_per_sm);
  visit("max_clock_khz", device.max_clock_khz);
  visit("memory_bytes", device.memory_bytes);
  visit("memory_gbps", device.memory_gbps);
  visit("mma_sync_tflops", device.mma_sync_tflops);
  visit("peak_tflops", device.peak_tflops);
  visit("launch_ns", device.launch_ns);
}

// All of CompileInfo but compile_ms, which differs from compile to compile of
// the same kernel.
template <typename Compile, typename Visitor>
void VisitKernelFields(Compile& compile, Visitor&& visit) {
  visit("cubin_hash", compile.cubin_hash);
  visit("kernel_id", compile.kernel_id);
  visit("source_key", compile.source_key);
  visit("nvrtc_version", compile.nvrtc_version);
  visit("registers", compile.registers);
  visit("spill_bytes", compile.spill_bytes);
  visit("stack_bytes", compile.stack_bytes);
  visit("smem_bytes", compile.smem_bytes);
}

// All of Evidence but its ties.
template <typename EvidenceType, typename Visitor>
void VisitEvidenceFields(EvidenceType& evidence, Visitor&& visit) {
  visit("m", evidence.m);
  visit("samples", evidence.samples);
  visit("median_ns", evidence.median_ns);
  visit("low_ns", evidence.low_ns);
  visit("high_ns", evidence.high_ns);
  visit("default_median_ns", evidence.default_median_ns);
  visit("margin", evidence.margin);
  visit("floor_ns", evidence.floor_ns);
}

template <typename TradeOffType, typename Visitor>
void VisitTradeOffFields(TradeOffType& point, Visitor&& visit) {
  visit("kernels", point.kernels);
  visit("worst_regret", point.worst_regret);
  visit("mean_regret", point.mean_regret);
  visit("compile_ms", point.compile_ms);
  visit("proven", point.proven);
}

}  // namespace hone

#endif  // HONE_DB_FIELDS_H_
