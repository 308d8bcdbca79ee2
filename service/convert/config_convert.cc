#include "service/convert/config_convert.h"

#include "absl/strings/str_cat.h"
#include "service/convert/enum_convert.h"

namespace hone {
namespace {

// A type left out takes the default.
template <typename Message>
DataType TypeOr(bool given, const Message& type, const DataType& otherwise,
                absl::string_view path, FieldErrors& errors) {
  return given ? FromProto(type, path, errors) : otherwise;
}

bool InRange(int64_t value, int64_t low, int64_t high, absl::string_view field,
             FieldErrors& errors) {
  if (value >= low && value <= high) return true;
  errors.Add(field, absl::StrCat("is ", value, "; it must be ",
                                 low == high ? absl::StrCat(low)
                                             : absl::StrCat("between ", low,
                                                            " and ", high)));
  return false;
}

}  // namespace

v1::DataType ToProto(const DataType& type) {
  v1::DataType out;
  out.set_kind(EnumToProto<v1::DataType::Kind>(type.kind()));
  if (type.is_integer()) {
    out.set_bits(type.bits());
  } else {
    out.set_exponent_bits(type.exponent_bits());
    out.set_mantissa_bits(type.mantissa_bits());
  }
  out.set_text(type.ToString());
  return out;
}

DataType FromProto(const v1::DataType& type, absl::string_view path,
                   FieldErrors& errors) {
  const size_t before = errors.violations().size();
  const auto kind = EnumFromProto<DataType::Kind>(
      type.kind(), std::nullopt, absl::StrCat(path, ".kind"), errors);
  const bool is_float = kind == DataType::Kind::kFloat;
  if (errors.violations().size() != before) return DataType();
  InRange(type.bits(), is_float ? 0 : 1, is_float ? 0 : 8,
          absl::StrCat(path, ".bits"), errors);
  InRange(type.exponent_bits(), 0, is_float ? 8 : 0,
          absl::StrCat(path, ".exponent_bits"), errors);
  InRange(type.mantissa_bits(), 0, is_float ? 23 : 0,
          absl::StrCat(path, ".mantissa_bits"), errors);
  if (errors.violations().size() != before) return DataType();
  if (kind == DataType::Kind::kInt) return DataType::Int(type.bits());
  if (kind == DataType::Kind::kUint) return DataType::Uint(type.bits());
  const DataType value =
      DataType::Float(type.exponent_bits(), type.mantissa_bits());
  // The text form knows which combinations are types.
  if (const auto parsed = DataType::Parse(value.ToString()); !parsed.ok())
    errors.Add(path, parsed.status().message());
  return value;
}

v1::LayerConfig ToProto(const LayerConfig& layer) {
  v1::LayerConfig out;
  out.set_n(layer.n);
  out.set_k(layer.k);
  out.set_experts(layer.experts);
  *out.mutable_a() = ToProto(layer.a);
  *out.mutable_b() = ToProto(layer.b);
  *out.mutable_c() = ToProto(layer.c);
  *out.mutable_b_scale_type() = ToProto(layer.b_scale_type);
  out.set_b_scale(EnumToProto<v1::ScaleGranularity>(layer.b_scale));
  out.set_b_group(layer.b_group);
  out.set_b_group_n(layer.b_group_n);
  out.set_b_scale_window(layer.b_scale_window);
  out.set_a_scale(EnumToProto<v1::InputScale>(layer.a_scale));
  out.set_a_group(layer.a_group);
  out.set_zero_point(EnumToProto<v1::ZeroPoint>(layer.zero_point));
  out.set_bias(layer.bias);
  out.set_text(layer.ToString());
  return out;
}

LayerConfig FromProto(const v1::LayerConfig& layer, absl::string_view path,
                      FieldErrors& errors) {
  const auto at = [&](absl::string_view field) {
    return absl::StrCat(path, ".", field);
  };
  const LayerConfig defaults;
  LayerConfig out;
  out.n = layer.n();
  out.k = layer.k();
  out.experts = layer.experts() == 0 ? defaults.experts : layer.experts();
  out.a = TypeOr(layer.has_a(), layer.a(), defaults.a, at("a"), errors);
  out.b = TypeOr(layer.has_b(), layer.b(), defaults.b, at("b"), errors);
  out.c = TypeOr(layer.has_c(), layer.c(), defaults.c, at("c"), errors);
  out.b_scale_type = TypeOr(layer.has_b_scale_type(), layer.b_scale_type(),
                            defaults.b_scale_type, at("b_scale_type"), errors);
  out.b_scale = EnumFromProto<ScaleGranularity>(
      layer.b_scale(), {defaults.b_scale}, at("b_scale"), errors);
  out.b_group = layer.b_group();
  out.b_group_n = layer.b_group_n();
  out.b_scale_window = layer.b_scale_window();
  out.a_scale = EnumFromProto<InputScale>(layer.a_scale(), {defaults.a_scale},
                                          at("a_scale"), errors);
  out.a_group = layer.a_group();
  out.zero_point = EnumFromProto<ZeroPoint>(
      layer.zero_point(), {defaults.zero_point}, at("zero_point"), errors);
  out.bias = layer.bias();
  return out;
}

v1::ComputeConfig ToProto(const ComputeConfig& compute) {
  v1::ComputeConfig out;
  out.set_gemm(EnumToProto<v1::GemmType>(compute.gemm));
  out.set_batch_invariant(compute.batch_invariant);
  *out.mutable_accumulator() = ToProto(compute.accumulator);
  out.set_a_scale_layout(
      EnumToProto<v1::InputScaleLayout>(compute.a_scale_layout));
  out.set_top_k(compute.top_k);
  out.set_text(compute.ToString());
  return out;
}

ComputeConfig FromProto(const v1::ComputeConfig& compute,
                        absl::string_view path, FieldErrors& errors) {
  const auto at = [&](absl::string_view field) {
    return absl::StrCat(path, ".", field);
  };
  const ComputeConfig defaults;
  ComputeConfig out;
  out.gemm = EnumFromProto<GemmType>(compute.gemm(), {defaults.gemm},
                                     at("gemm"), errors);
  out.batch_invariant = compute.batch_invariant();
  out.accumulator = TypeOr(compute.has_accumulator(), compute.accumulator(),
                           defaults.accumulator, at("accumulator"), errors);
  out.a_scale_layout = EnumFromProto<InputScaleLayout>(
      compute.a_scale_layout(), {defaults.a_scale_layout}, at("a_scale_layout"),
      errors);
  out.top_k = compute.top_k();
  return out;
}

v1::Problem ToProto(const Problem& problem) {
  v1::Problem out;
  *out.mutable_layer() = ToProto(problem.layer);
  *out.mutable_compute() = ToProto(problem.compute);
  return out;
}

Problem FromProto(const v1::Problem& problem, absl::string_view path,
                  FieldErrors& errors) {
  Problem out;
  if (!problem.has_layer()) {
    errors.Add(absl::StrCat(path, ".layer"),
               "is not set; it must describe a layer, at least its n and k");
    return out;
  }
  out.layer = FromProto(problem.layer(), absl::StrCat(path, ".layer"), errors);
  out.compute =
      FromProto(problem.compute(), absl::StrCat(path, ".compute"), errors);
  return out;
}

absl::StatusOr<Problem> ProblemFromProto(const v1::Problem& problem) {
  FieldErrors errors;
  const Problem out = FromProto(problem, "problem", errors);
  if (!errors.ok()) return errors.ToStatus();
  if (const absl::Status status = out.Validate(); !status.ok())
    return AsFieldViolation(status, "problem.");
  return out;
}

v1::TuningConfig ToProto(const TuningConfig& config) {
  v1::TuningConfig out;
  out.set_block_m(config.block_m);
  out.set_block_n(config.block_n);
  out.set_block_k(config.block_k);
  out.set_warp_m(config.warp_m);
  out.set_warp_n(config.warp_n);
  out.set_warp_k(config.warp_k);
  out.set_stages(config.stages);
  out.set_producer_a(EnumToProto<v1::Producer>(config.producer_a));
  out.set_producer_b(EnumToProto<v1::Producer>(config.producer_b));
  out.set_producer_scale(EnumToProto<v1::Producer>(config.producer_scale));
  out.set_warp_specialized(config.warp_specialized);
  out.set_mma(EnumToProto<v1::MmaInstruction>(config.mma));
  out.set_mmas_in_flight(config.mmas_in_flight);
  out.set_split(EnumToProto<v1::Split>(config.split));
  out.set_split_k(config.split_k);
  out.set_ctas_per_sm(config.ctas_per_sm);
  out.set_cluster_m(config.cluster_m);
  out.set_cluster_n(config.cluster_n);
  out.set_raster(EnumToProto<v1::RasterOrder>(config.raster));
  out.set_text(config.ToString());
  return out;
}

TuningConfig FromProto(const v1::TuningConfig& config, absl::string_view path,
                       FieldErrors& errors) {
  const auto at = [&](absl::string_view field) {
    return absl::StrCat(path, ".", field);
  };
  const size_t before = errors.violations().size();
  TuningConfig out;
  out.block_m = config.block_m();
  out.block_n = config.block_n();
  out.block_k = config.block_k();
  out.warp_m = config.warp_m();
  out.warp_n = config.warp_n();
  out.warp_k = config.warp_k();
  out.stages = config.stages();
  out.producer_a = EnumFromProto<Producer>(config.producer_a(), {},
                                           at("producer_a"), errors);
  out.producer_b = EnumFromProto<Producer>(config.producer_b(), {},
                                           at("producer_b"), errors);
  out.producer_scale = EnumFromProto<Producer>(config.producer_scale(), {},
                                               at("producer_scale"), errors);
  out.warp_specialized = config.warp_specialized();
  out.mma = EnumFromProto<MmaInstruction>(config.mma(), {}, at("mma"), errors);
  out.mmas_in_flight = config.mmas_in_flight();
  out.split = EnumFromProto<Split>(config.split(), {}, at("split"), errors);
  out.split_k = config.split_k();
  out.ctas_per_sm = config.ctas_per_sm();
  out.cluster_m = config.cluster_m();
  out.cluster_n = config.cluster_n();
  out.raster =
      EnumFromProto<RasterOrder>(config.raster(), {}, at("raster"), errors);
  if (errors.violations().size() != before) return out;
  // Zero tiles would divide by zero in Validate()'s own helpers.
  for (const auto& [field, value] :
       {std::pair<absl::string_view, int64_t>{"warp_m", out.warp_m},
        {"warp_n", out.warp_n},
        {"warp_k", out.warp_k}}) {
    InRange(value, 1, 2048, at(field), errors);
  }
  if (errors.violations().size() != before) return out;
  if (const absl::Status status = out.Validate(); !status.ok())
    errors.Add(path, status.message());
  return out;
}

v1::DeviceSpec ToProto(const DeviceSpec& device) {
  v1::DeviceSpec out;
  out.set_kind(EnumToProto<v1::DeviceKind>(device.kind));
  out.set_sm_arch(device.sm_arch);
  out.set_pci_device_id(device.pci_device_id);
  out.set_sm_count(device.sm_count);
  out.set_l2_bytes(device.l2_bytes);
  out.set_smem_optin_bytes(device.smem_optin_bytes);
  out.set_mig_profile(device.mig_profile);
  out.set_cuda_driver_version(device.cuda_driver_version);
  out.set_driver(device.driver);
  out.set_pci_subsystem_id(device.pci_subsystem_id);
  out.set_power_limit_mw(device.power_limit_mw);
  out.set_ecc(device.ecc);
  out.set_vbios(device.vbios);
  out.set_name(device.name);
  out.set_uuid(device.uuid);
  out.set_smem_per_sm_bytes(device.smem_per_sm_bytes);
  out.set_registers_per_sm(device.registers_per_sm);
  out.set_max_threads_per_sm(device.max_threads_per_sm);
  out.set_max_clock_khz(device.max_clock_khz);
  out.set_memory_bytes(device.memory_bytes);
  out.set_memory_gbps(device.memory_gbps);
  out.set_mma_sync_tflops(device.mma_sync_tflops);
  out.set_peak_tflops(device.peak_tflops);
  out.set_launch_ns(device.launch_ns);
  out.set_class_hash(device.ClassHash());
  return out;
}

DeviceSpec FromProto(const v1::DeviceSpec& device, absl::string_view path,
                     FieldErrors& errors) {
  DeviceSpec out;
  out.kind = EnumFromProto<DeviceKind>(device.kind(), {},
                                       absl::StrCat(path, ".kind"), errors);
  out.sm_arch = device.sm_arch();
  out.pci_device_id = device.pci_device_id();
  out.sm_count = device.sm_count();
  out.l2_bytes = device.l2_bytes();
  out.smem_optin_bytes = device.smem_optin_bytes();
  out.mig_profile = device.mig_profile();
  out.cuda_driver_version = device.cuda_driver_version();
  out.driver = device.driver();
  out.pci_subsystem_id = device.pci_subsystem_id();
  out.power_limit_mw = device.power_limit_mw();
  out.ecc = device.ecc();
  out.vbios = device.vbios();
  out.name = device.name();
  out.uuid = device.uuid();
  out.smem_per_sm_bytes = device.smem_per_sm_bytes();
  out.registers_per_sm = device.registers_per_sm();
  out.max_threads_per_sm = device.max_threads_per_sm();
  out.max_clock_khz = device.max_clock_khz();
  out.memory_bytes = device.memory_bytes();
  out.memory_gbps = device.memory_gbps();
  out.mma_sync_tflops = device.mma_sync_tflops();
  out.peak_tflops = device.peak_tflops();
  out.launch_ns = device.launch_ns();
  return out;
}

}  // namespace hone
