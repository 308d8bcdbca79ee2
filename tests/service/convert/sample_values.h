// Values whose every field differs from its default, for round trips.
#ifndef HONE_TESTS_SERVICE_CONVERT_SAMPLE_VALUES_H_
#define HONE_TESTS_SERVICE_CONVERT_SAMPLE_VALUES_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "service/convert/answer.h"
#include "tuner/trial.h"

namespace hone {

inline Problem SampleProblem() {
  Problem p;
  p.layer.n = 512;
  p.layer.k = 1024;
  p.layer.experts = 8;
  p.layer.a = kBfloat16;
  p.layer.b = DataType::Uint(4);
  p.layer.c = kBfloat16;
  p.layer.b_scale_type = kFloat8e4m3;
  p.layer.b_scale = ScaleGranularity::kBlock;
  p.layer.b_group = 128;
  p.layer.b_group_n = 64;
  p.layer.a_scale = InputScale::kGroup;
  p.layer.a_group = 32;
  p.layer.zero_point = ZeroPoint::kNone;
  p.layer.bias = true;
  p.compute.gemm = GemmType::kIndexed;
  p.compute.batch_invariant = true;
  p.compute.accumulator = kFloat16;
  p.compute.a_scale_layout = InputScaleLayout::kColumnMajor;
  p.compute.top_k = 2;
  return p;
}

inline TuningConfig SampleTuning() {
  TuningConfig t;
  t.block_m = 32;
  t.block_n = 128;
  t.block_k = 256;
  t.warp_m = 32;
  t.warp_n = 32;
  t.warp_k = 128;
  t.stages = 3;
  t.producer_a = Producer::kTma;
  t.producer_b = Producer::kLdg;
  t.producer_scale = Producer::kTma;
  t.warp_specialized = true;
  t.mma = MmaInstruction::kWgmma;
  t.mmas_in_flight = 2;
  t.split = Split::kSplitK;
  t.split_k = 4;
  t.ctas_per_sm = 2;
  t.cluster_m = 2;
  t.cluster_n = 4;
  t.raster = RasterOrder::kAlongN;
  return t;
}

inline DeviceSpec SampleDevice() {
  DeviceSpec d;
  d.kind = DeviceKind::kModelled;
  d.sm_arch = 90;
  d.pci_device_id = 0x2335;
  d.sm_count = 132;
  d.l2_bytes = 60 << 20;
  d.smem_optin_bytes = 232448;
  d.mig_profile = "1g.18gb";
  d.cuda_driver_version = 13000;
  d.driver = "580.65";
  d.pci_subsystem_id = 7;
  d.power_limit_mw = 700000;
  d.ecc = true;
  d.vbios = "96.00";
  d.name = "a device";
  d.uuid = "GPU-1";
  d.smem_per_sm_bytes = 233472;
  d.registers_per_sm = 65536;
  d.max_threads_per_sm = 2048;
  d.max_clock_khz = 1980000;
  d.memory_bytes = int64_t{141} << 30;
  d.memory_gbps = 4300.5;
  d.mma_sync_tflops = 550.25;
  d.peak_tflops = 883.125;
  d.launch_ns = 2200.5;
  return d;
}

inline Evidence SampleEvidence(int64_t m) {
  return {.m = m,
          .samples = 30,
          .median_ns = 12000,
          .low_ns = 11900,
          .high_ns = 12100,
          .default_median_ns = 15000,
          .margin = 0.25,
          .floor_ns = 8000,
          .ties = {"one", "two"}};
}

inline CompileInfo SampleCompile() {
  return {.cubin_hash = "c0",
          .kernel_id = "k1",
          .source_key = "s2",
          .nvrtc_version = "13.0",
          .registers = 128,
          .spill_bytes = 4,
          .stack_bytes = 8,
          .smem_bytes = 65536,
          .compile_ms = 900};
}

inline DispatchTable SampleTable() {
  DispatchTable t;
  t.problem = SampleProblem();
  t.device = SampleDevice();
  t.protocol = {.timer = "model",
                .flush_l2_multiple = 3,
                .activations = "warm",
                .version = 2};
  t.gate = GateKind::kEmulated;
  t.source_closure = "abc";
  t.ladder = {1, 16, 64};
  t.entries = {{.m_lo = 1,
                .m_hi = 16,
                .config = SampleTuning(),
                .compile = SampleCompile(),
                .evidence = {SampleEvidence(1), SampleEvidence(16)}},
               {.m_lo = 17,
                .m_hi = 0,
                .config = TuningConfig(),
                .compile = SampleCompile(),
                .evidence = {SampleEvidence(64)}}};
  t.trade_off = {{.kernels = 1,
                  .worst_regret = 0.25,
                  .mean_regret = 0.06,
                  .compile_ms = 1404,
                  .proven = true},
                 {.kernels = 2, .compile_ms = 2816, .proven = false}};
  t.session_id = "session";
  t.unix_us = 1'700'000'000'123'456;
  return t;
}

inline Provenance SampleProvenance() {
  return {.match = MatchKind::kNeighbour,
          .revision = 7,
          .modelled = true,
          .verified = true,
          .stale = true,
          .gate = GateKind::kEmulated,
          .matched_problem = "p",
          .matched_device = "d",
          .notes = {"a note", "another"},
          .regret_bound =
              RegretBound{.regret = 0.125, .pairs = 6, .how = "somehow"}};
}

// Names of the fields of `message` that are unset or default, except those
// listed.
inline std::vector<std::string> UnsetFields(
    const google::protobuf::Message& message,
    const std::vector<std::string>& except = {}) {
  std::vector<std::string> unset;
  const auto* type = message.GetDescriptor();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    if (std::find(set.begin(), set.end(), field) == set.end() &&
        std::find(except.begin(), except.end(), field->name()) == except.end())
      unset.push_back(field->name());
  }
  return unset;
}

}  // namespace hone

#endif  // HONE_TESTS_SERVICE_CONVERT_SAMPLE_VALUES_H_
