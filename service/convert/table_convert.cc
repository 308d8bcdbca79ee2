#include "service/convert/table_convert.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "service/convert/config_convert.h"
#include "service/convert/enum_convert.h"

namespace hone {

absl::string_view ToString(MatchKind kind) {
  static constexpr absl::string_view kNames[] = {"EXACT", "BUCKET", "NEIGHBOUR",
                                                 "SIBLING_DEVICE", "HEURISTIC"};
  return kNames[static_cast<size_t>(kind)];
}

v1::Protocol ToProto(const Protocol& protocol) {
  v1::Protocol out;
  out.set_timer(protocol.timer);
  out.set_flush_l2_multiple(protocol.flush_l2_multiple);
  out.set_activations(protocol.activations);
  out.set_version(protocol.version);
  return out;
}

Protocol FromProto(const v1::Protocol& protocol) {
  Protocol out;
  out.timer = protocol.timer();
  out.flush_l2_multiple = protocol.flush_l2_multiple();
  out.activations = protocol.activations();
  out.version = protocol.version();
  return out;
}

v1::CompileInfo ToProto(const CompileInfo& compile) {
  v1::CompileInfo out;
  out.set_cubin_hash(compile.cubin_hash);
  out.set_kernel_id(compile.kernel_id);
  out.set_source_key(compile.source_key);
  out.set_nvrtc_version(compile.nvrtc_version);
  out.set_registers(compile.registers);
  out.set_spill_bytes(compile.spill_bytes);
  out.set_stack_bytes(compile.stack_bytes);
  out.set_smem_bytes(compile.smem_bytes);
  out.set_compile_ms(compile.compile_ms);
  return out;
}

CompileInfo FromProto(const v1::CompileInfo& compile) {
  CompileInfo out;
  out.cubin_hash = compile.cubin_hash();
  out.kernel_id = compile.kernel_id();
  out.source_key = compile.source_key();
  out.nvrtc_version = compile.nvrtc_version();
  out.registers = compile.registers();
  out.spill_bytes = compile.spill_bytes();
  out.stack_bytes = compile.stack_bytes();
  out.smem_bytes = compile.smem_bytes();
  out.compile_ms = compile.compile_ms();
  return out;
}

v1::Evidence ToProto(const Evidence& evidence) {
  v1::Evidence out;
  out.set_m(evidence.m);
  out.set_samples(evidence.samples);
  out.set_median_ns(evidence.median_ns);
  out.set_low_ns(evidence.low_ns);
  out.set_high_ns(evidence.high_ns);
  out.set_default_median_ns(evidence.default_median_ns);
  out.set_margin(evidence.margin);
  out.set_floor_ns(evidence.floor_ns);
  for (const std::string& tie : evidence.ties) out.add_ties(tie);
  return out;
}

Evidence FromProto(const v1::Evidence& evidence) {
  Evidence out;
  out.m = evidence.m();
  out.samples = evidence.samples();
  out.median_ns = evidence.median_ns();
  out.low_ns = evidence.low_ns();
  out.high_ns = evidence.high_ns();
  out.default_median_ns = evidence.default_median_ns();
  out.margin = evidence.margin();
  out.floor_ns = evidence.floor_ns();
  out.ties.assign(evidence.ties().begin(), evidence.ties().end());
  return out;
}

v1::TableEntry ToProto(const TableEntry& entry) {
  v1::TableEntry out;
  out.set_m_lo(entry.m_lo);
  out.set_m_hi(entry.m_hi);
  *out.mutable_config() = ToProto(entry.config);
  *out.mutable_compile() = ToProto(entry.compile);
  for (const Evidence& evidence : entry.evidence)
    *out.add_evidence() = ToProto(evidence);
  return out;
}

TableEntry FromProto(const v1::TableEntry& entry, absl::string_view path,
                     FieldErrors& errors) {
  TableEntry out;
  out.m_lo = entry.m_lo();
  out.m_hi = entry.m_hi();
  out.config = FromProto(entry.config(), absl::StrCat(path, ".config"), errors);
  out.compile = FromProto(entry.compile());
  for (const v1::Evidence& evidence : entry.evidence())
    out.evidence.push_back(FromProto(evidence));
  return out;
}

v1::TradeOffStep ToProto(const TradeOffPoint& point) {
  v1::TradeOffStep out;
  out.set_kernels(static_cast<int32_t>(point.kernels));
  out.set_worst_regret(point.worst_regret);
  out.set_mean_regret(point.mean_regret);
  out.mutable_compile_time()->set_seconds(point.compile_ms / 1000);
  out.mutable_compile_time()->set_nanos(
      static_cast<int32_t>(point.compile_ms % 1000) * 1'000'000);
  out.set_proven(point.proven);
  return out;
}

TradeOffPoint FromProto(const v1::TradeOffStep& step) {
  return {.kernels = step.kernels(),
          .worst_regret = step.worst_regret(),
          .mean_regret = step.mean_regret(),
          .compile_ms = step.compile_time().seconds() * 1000 +
                        step.compile_time().nanos() / 1'000'000,
          .proven = step.proven()};
}

v1::DispatchTable ToProto(const DispatchTable& table) {
  v1::DispatchTable out;
  *out.mutable_problem() = ToProto(table.problem);
  *out.mutable_device() = ToProto(table.device);
  *out.mutable_protocol() = ToProto(table.protocol);
  out.set_gate(EnumToProto<v1::GateKind>(table.gate));
  out.set_source_closure(table.source_closure);
  for (const int64_t m : table.ladder) out.add_ladder(m);
  for (const TableEntry& entry : table.entries)
    *out.add_entries() = ToProto(entry);
  out.set_session_id(table.session_id);
  out.mutable_tuned_at()->set_seconds(table.unix_us / 1'000'000);
  out.mutable_tuned_at()->set_nanos(
      static_cast<int32_t>(table.unix_us % 1'000'000) * 1000);
  return out;
}

DispatchTable FromProto(const v1::DispatchTable& table, absl::string_view path,
                        FieldErrors& errors) {
  const auto at = [&](absl::string_view field) {
    return absl::StrCat(path, ".", field);
  };
  DispatchTable out;
  out.problem = FromProto(table.problem(), at("problem"), errors);
  out.device = FromProto(table.device(), at("device"), errors);
  out.protocol = FromProto(table.protocol());
  out.gate = EnumFromProto<GateKind>(table.gate(), {}, at("gate"), errors);
  out.source_closure = table.source_closure();
  out.ladder.assign(table.ladder().begin(), table.ladder().end());
  for (int i = 0; i < table.entries_size(); ++i) {
    out.entries.push_back(FromProto(
        table.entries(i), absl::StrCat(at("entries"), "[", i, "]"), errors));
  }
  out.session_id = table.session_id();
  out.unix_us =
      table.tuned_at().seconds() * 1'000'000 + table.tuned_at().nanos() / 1000;
  return out;
}

v1::Provenance ToProto(const Provenance& provenance) {
  v1::Provenance out;
  out.set_match(EnumToProto<v1::MatchKind>(provenance.match));
  out.set_revision(provenance.revision);
  out.set_modelled(provenance.modelled);
  out.set_verified(provenance.verified);
  out.set_stale(provenance.stale);
  out.set_gate(EnumToProto<v1::GateKind>(provenance.gate));
  out.set_matched_problem(provenance.matched_problem);
  out.set_matched_device(provenance.matched_device);
  for (const std::string& note : provenance.notes) out.add_notes(note);
  if (provenance.regret_bound) {
    v1::RegretBound& bound = *out.mutable_regret_bound();
    bound.set_regret(provenance.regret_bound->regret);
    bound.set_pairs(static_cast<int32_t>(provenance.regret_bound->pairs));
    bound.set_how(provenance.regret_bound->how);
  }
  return out;
}

Provenance FromProto(const v1::Provenance& provenance, absl::string_view path,
                     FieldErrors& errors) {
  Provenance out;
  out.match = EnumFromProto<MatchKind>(provenance.match(), {},
                                       absl::StrCat(path, ".match"), errors);
  out.revision = provenance.revision();
  out.modelled = provenance.modelled();
  out.verified = provenance.verified();
  out.stale = provenance.stale();
  out.gate = EnumFromProto<GateKind>(provenance.gate(), {},
                                     absl::StrCat(path, ".gate"), errors);
  out.matched_problem = provenance.matched_problem();
  out.matched_device = provenance.matched_device();
  out.notes.assign(provenance.notes().begin(), provenance.notes().end());
  if (provenance.has_regret_bound()) {
    const v1::RegretBound& bound = provenance.regret_bound();
    out.regret_bound = {
        .regret = bound.regret(), .pairs = bound.pairs(), .how = bound.how()};
  }
  return out;
}

v1::GetConfigResponse ToProto(const ConfigAnswer& answer) {
  v1::GetConfigResponse out;
  *out.mutable_config() = ToProto(answer.config);
  out.set_m_lo(answer.m_lo);
  out.set_m_hi(answer.m_hi);
  for (const Evidence& evidence : answer.evidence)
    *out.add_evidence() = ToProto(evidence);
  *out.mutable_compile() = ToProto(answer.compile);
  *out.mutable_provenance() = ToProto(answer.provenance);
  return out;
}

v1::GetTableResponse ToProto(const TableAnswer& answer) {
  v1::GetTableResponse out;
  *out.mutable_table() = ToProto(answer.table);
  *out.mutable_provenance() = ToProto(answer.provenance);
  for (const TradeOffPoint& point : answer.table.trade_off)
    *out.add_trade_off() = ToProto(point);
  return out;
}

absl::StatusOr<ConfigAnswer> AnswerFromProto(
    const v1::GetConfigResponse& response) {
  FieldErrors errors;
  ConfigAnswer out;
  out.config = FromProto(response.config(), "config", errors);
  out.m_lo = response.m_lo();
  out.m_hi = response.m_hi();
  for (const v1::Evidence& evidence : response.evidence())
    out.evidence.push_back(FromProto(evidence));
  out.compile = FromProto(response.compile());
  out.provenance = FromProto(response.provenance(), "provenance", errors);
  if (!errors.ok()) return errors.ToStatus();
  return out;
}

absl::StatusOr<TableAnswer> AnswerFromProto(
    const v1::GetTableResponse& response) {
  FieldErrors errors;
  TableAnswer out;
  out.table = FromProto(response.table(), "table", errors);
  for (const v1::TradeOffStep& step : response.trade_off())
    out.table.trade_off.push_back(FromProto(step));
  out.provenance = FromProto(response.provenance(), "provenance", errors);
  if (!errors.ok()) return errors.ToStatus();
  if (const absl::Status holes = out.table.Validate(); !holes.ok())
    errors.Add("table.entries", holes.message());
  if (!errors.ok()) return errors.ToStatus();
  return out;
}

}  // namespace hone
