#include "tuner/worker/wire.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

absl::StatusOr<Outcome> ReadOutcome(const std::string& text) {
  absl::StatusOr<Outcome> outcome = ParseOutcome(text);
  if (outcome.ok()) return outcome;
  return absl::DataLossError(outcome.status().message());
}

}  // namespace

v1::WorkerDevice ToWire(const DeviceSpec& d) {
  v1::WorkerDevice p;
  p.set_sm_arch(d.sm_arch);
  p.set_pci_device_id(d.pci_device_id);
  p.set_sm_count(d.sm_count);
  p.set_l2_bytes(d.l2_bytes);
  p.set_smem_optin_bytes(d.smem_optin_bytes);
  p.set_mig_profile(d.mig_profile);
  p.set_cuda_driver_version(d.cuda_driver_version);
  p.set_driver(d.driver);
  p.set_pci_subsystem_id(d.pci_subsystem_id);
  p.set_power_limit_mw(d.power_limit_mw);
  p.set_ecc(d.ecc);
  p.set_vbios(d.vbios);
  p.set_name(d.name);
  p.set_uuid(d.uuid);
  p.set_smem_per_sm_bytes(d.smem_per_sm_bytes);
  p.set_registers_per_sm(d.registers_per_sm);
  p.set_max_threads_per_sm(d.max_threads_per_sm);
  p.set_max_clock_khz(d.max_clock_khz);
  p.set_memory_bytes(d.memory_bytes);
  p.set_memory_gbps(d.memory_gbps);
  p.set_mma_sync_tflops(d.mma_sync_tflops);
  p.set_peak_tflops(d.peak_tflops);
  p.set_launch_ns(d.launch_ns);
  return p;
}

DeviceSpec FromWire(const v1::WorkerDevice& p) {
  DeviceSpec d;
  d.kind = DeviceKind::kMeasured;
  d.sm_arch = p.sm_arch();
  d.pci_device_id = p.pci_device_id();
  d.sm_count = p.sm_count();
  d.l2_bytes = p.l2_bytes();
  d.smem_optin_bytes = p.smem_optin_bytes();
  d.mig_profile = p.mig_profile();
  d.cuda_driver_version = p.cuda_driver_version();
  d.driver = p.driver();
  d.pci_subsystem_id = p.pci_subsystem_id();
  d.power_limit_mw = p.power_limit_mw();
  d.ecc = p.ecc();
  d.vbios = p.vbios();
  d.name = p.name();
  d.uuid = p.uuid();
  d.smem_per_sm_bytes = p.smem_per_sm_bytes();
  d.registers_per_sm = p.registers_per_sm();
  d.max_threads_per_sm = p.max_threads_per_sm();
  d.max_clock_khz = p.max_clock_khz();
  d.memory_bytes = p.memory_bytes();
  d.memory_gbps = p.memory_gbps();
  d.mma_sync_tflops = p.mma_sync_tflops();
  d.peak_tflops = p.peak_tflops();
  d.launch_ns = p.launch_ns();
  return d;
}

v1::WorkerGateResult ToWire(const GateResult& result) {
  v1::WorkerGateResult p;
  p.set_outcome(std::string(ToString(result.outcome)));
  p.set_detail(result.detail);
  p.set_gate(std::string(ToString(result.gate)));
  p.set_relative_norm(result.error.relative_norm);
  p.set_worst_ratio(result.error.worst_ratio);
  return p;
}

absl::StatusOr<GateResult> FromWire(const v1::WorkerGateResult& p) {
  GateResult result;
  HONE_ASSIGN_OR_RETURN(result.outcome, ReadOutcome(p.outcome()));
  const absl::StatusOr<GateKind> gate = ParseGateKind(p.gate());
  if (!gate.ok()) return absl::DataLossError(gate.status().message());
  result.gate = *gate;
  result.detail = p.detail();
  result.error.relative_norm = p.relative_norm();
  result.error.worst_ratio = p.worst_ratio();
  return result;
}

v1::WorkerRoundResult ToWire(const RoundResult& result) {
  v1::WorkerRoundResult p;
  for (const RoundResult::Entry& entry : result.entries) {
    v1::WorkerRoundResult::Entry* out = p.add_entries();
    out->set_outcome(std::string(ToString(entry.outcome)));
    out->set_detail(entry.detail);
    out->set_duration_ns(entry.sample.duration_ns);
    out->set_sm_clock_khz(entry.sample.sm_clock_khz);
  }
  p.set_slowed_down(result.slowed_down);
  for (const int64_t pid : result.foreign_processes) {
    p.add_foreign_processes(pid);
  }
  return p;
}

absl::StatusOr<RoundResult> FromWire(const v1::WorkerRoundResult& p,
                                     int32_t round) {
  RoundResult result;
  for (const v1::WorkerRoundResult::Entry& in : p.entries()) {
    RoundResult::Entry entry;
    HONE_ASSIGN_OR_RETURN(entry.outcome, ReadOutcome(in.outcome()));
    entry.detail = in.detail();
    entry.sample.duration_ns = in.duration_ns();
    entry.sample.sm_clock_khz = in.sm_clock_khz();
    entry.sample.round = round;
    result.entries.push_back(std::move(entry));
  }
  result.slowed_down = p.slowed_down();
  result.foreign_processes.assign(p.foreign_processes().begin(),
                                  p.foreign_processes().end());
  return result;
}

}  // namespace hone
