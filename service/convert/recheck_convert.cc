#include "service/convert/recheck_convert.h"

#include "absl/time/time.h"
#include "service/convert/audit_convert.h"
#include "service/convert/config_convert.h"
#include "service/convert/enum_convert.h"
#include "service/convert/table_convert.h"

namespace hone {
namespace {

v1::RecheckPoint ToProto(const RecheckPoint& point) {
  v1::RecheckPoint out;
  out.set_m(point.m);
  out.set_served_config(point.served_config);
  out.set_best_config(point.best_config);
  out.set_served_ns(point.served_ns);
  out.set_best_ns(point.best_ns);
  out.set_default_ns(point.default_ns);
  *out.mutable_regret() = ToProto(point.regret);
  *out.mutable_over_default() = ToProto(point.over_default);
  out.set_kernels(point.kernels);
  out.set_no_slower_than_default(point.no_slower_than_default);
  out.set_failure(point.failure);
  return out;
}

v1::RecheckedTable ToProto(const RecheckedTable& table) {
  v1::RecheckedTable out;
  *out.mutable_problem() = ToProto(table.problem);
  out.set_revision(table.revision);
  out.set_imported(table.imported);
  for (const std::string& difference : table.soft_differences)
    out.add_soft_differences(difference);
  out.set_planned(table.planned);
  for (const RecheckPoint& point : table.points)
    *out.add_points() = ToProto(point);
  if (table.median_regret) out.set_median_regret(*table.median_regret);
  out.set_verdict(EnumToProto<v1::RecheckVerdict>(table.verdict));
  out.set_retune_id(table.retune_id);
  return out;
}

}  // namespace

v1::RecheckReport ToProto(const RecheckReport& report) {
  v1::RecheckReport out;
  *out.mutable_device() = ToProto(report.device);
  out.set_modelled(report.device.modelled());
  *out.mutable_protocol() = ToProto(report.protocol);
  out.set_source_closure(report.source_closure);
  out.set_seed(report.seed);
  out.set_confidence(report.confidence);
  for (const RecheckedTable& table : report.tables)
    *out.add_tables() = ToProto(table);
  out.set_complete(report.complete);
  out.mutable_elapsed()->set_seconds(absl::ToInt64Seconds(report.elapsed));
  out.mutable_elapsed()->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(report.elapsed % absl::Seconds(1))));
  out.set_keys(report.keys);
  out.set_failed(report.failed);
  if (report.median_regret) out.set_median_regret(*report.median_regret);
  out.set_largest_regret(report.largest_regret);
  out.set_regret_limit(report.regret_limit);
  out.set_passed(report.passed);
  return out;
}

}  // namespace hone
