#include "service/convert/audit_convert.h"

#include "absl/time/time.h"
#include "service/convert/config_convert.h"
#include "service/convert/table_convert.h"

namespace hone {

v1::AuditRatio ToProto(const AuditRatio& ratio) {
  v1::AuditRatio out;
  out.set_ratio(ratio.ratio);
  out.set_low(ratio.low);
  out.set_high(ratio.high);
  out.set_rounds(ratio.rounds);
  return out;
}

namespace {

v1::AuditSpread ToProto(const AuditSpread& spread) {
  v1::AuditSpread out;
  out.set_points(spread.points);
  out.set_median(spread.median);
  out.set_percentile_95(spread.percentile_95);
  out.set_largest(spread.largest);
  return out;
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* out) {
  out->set_seconds(absl::ToInt64Seconds(duration));
  out->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(duration % absl::Seconds(1))));
}

v1::AuditTune ToProto(const AuditTune& tune) {
  v1::AuditTune out;
  out.set_seed(tune.seed);
  out.set_complete(tune.complete);
  out.set_distinct_kernels(tune.distinct_kernels);
  out.set_trials(tune.trials);
  SetDuration(tune.elapsed, out.mutable_elapsed());
  *out.mutable_regret() = ToProto(tune.regret);
  return out;
}

v1::AuditPoint ToProto(const AuditPoint& point) {
  v1::AuditPoint out;
  out.set_m(point.m);
  out.set_screened(point.screened);
  out.set_finalists(point.finalists);
  out.set_table_config(point.table_config);
  out.set_best_config(point.best_config);
  out.set_table_ns(point.table_ns);
  out.set_best_ns(point.best_ns);
  out.set_default_ns(point.default_ns);
  *out.mutable_regret() = ToProto(point.regret);
  out.set_regret_bound(point.regret_bound);
  *out.mutable_over_default() = ToProto(point.over_default);
  for (const std::string& config : point.tune_configs)
    out.add_tune_configs(config);
  for (const AuditRatio& ratio : point.tune_regrets)
    *out.add_tune_regrets() = ToProto(ratio);
  out.set_flips(point.flips);
  *out.mutable_tune_spread() = ToProto(point.tune_spread);
  out.set_flip_matters(point.flip_matters);
  out.set_stored_ns(point.stored_ns);
  *out.mutable_replay() = ToProto(point.replay);
  out.set_same_kernel(point.same_kernel);
  out.set_sm_clock_khz(point.sm_clock_khz);
  return out;
}

}  // namespace

v1::AuditReport ToProto(const AuditReport& report) {
  v1::AuditReport out;
  *out.mutable_problem() = ToProto(report.problem);
  *out.mutable_device() = ToProto(report.device);
  out.set_modelled(report.device.modelled());
  *out.mutable_protocol() = ToProto(report.protocol);
  out.set_source_closure(report.source_closure);
  out.set_table_source_closure(report.table_source_closure);
  out.set_revision(report.revision);
  out.set_seed(report.seed);
  out.set_confidence(report.confidence);
  out.set_space(report.space);
  out.set_within(report.within);
  out.set_within_configs(report.within_configs);
  out.set_exhaustive(report.exhaustive);
  out.set_kernels(report.kernels);
  out.set_failed(report.failed);
  out.set_screen_rounds(report.screen_rounds);
  out.set_choice_rounds(report.choice_rounds);
  out.set_ratio_rounds(report.ratio_rounds);
  for (const AuditTune& tune : report.tunes) *out.add_tunes() = ToProto(tune);
  for (const AuditPoint& point : report.points)
    *out.add_points() = ToProto(point);
  out.set_complete(report.complete);
  *out.mutable_regret() = ToProto(report.regret);
  out.set_flips(report.flips);
  out.set_flip_pairs(report.flip_pairs);
  out.set_flips_that_matter(report.flips_that_matter);
  *out.mutable_tune_spread() = ToProto(report.tune_spread);
  *out.mutable_replay() = ToProto(report.replay);
  out.set_replayed_kernels(report.replayed_kernels);
  out.set_same_kernels(report.same_kernels);
  out.set_failed_kernels(report.failed_kernels);
  SetDuration(report.elapsed, out.mutable_elapsed());
  return out;
}

}  // namespace hone
