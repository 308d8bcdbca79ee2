#include "service/server/requests.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/config/status_macros.h"
#include "service/convert/config_convert.h"
#include "service/convert/enum_convert.h"
#include "service/convert/errors.h"
#include "service/convert/table_convert.h"
#include "tuner/audit.h"

namespace hone {
namespace {

constexpr int64_t kMaxM = int64_t{1} << 30;
constexpr size_t kMaxLadder = 256;
// Of each text that describes a device.
constexpr size_t kMaxDeviceText = 256;

absl::Duration FromProtoDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* out) {
  out->set_seconds(absl::ToInt64Seconds(duration));
  out->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(duration % absl::Seconds(1))));
}

void SetTime(absl::Time time, google::protobuf::Timestamp* out) {
  const int64_t us = absl::ToUnixMicros(time);
  out->set_seconds(us / 1'000'000);
  out->set_nanos(static_cast<int32_t>(us % 1'000'000) * 1000);
}

v1::TunePhase ToProto(SessionPhase phase) {
  switch (phase) {
    case SessionPhase::kPrepare:
      return v1::TUNE_PHASE_PREPARE;
    case SessionPhase::kRace:
      return v1::TUNE_PHASE_RACE;
    case SessionPhase::kConfirm:
      return v1::TUNE_PHASE_CONFIRM;
    case SessionPhase::kDone:
      return v1::TUNE_PHASE_DONE;
    case SessionPhase::kAudit:
      return v1::TUNE_PHASE_AUDIT;
    case SessionPhase::kRecheck:
      return v1::TUNE_PHASE_RECHECK;
  }
  return v1::TUNE_PHASE_UNSPECIFIED;
}

v1::TuneState ToProto(TuneState state) {
  switch (state) {
    case TuneState::kQueued:
      return v1::TUNE_STATE_QUEUED;
    case TuneState::kRunning:
      return v1::TUNE_STATE_RUNNING;
    case TuneState::kSucceeded:
      return v1::TUNE_STATE_SUCCEEDED;
    case TuneState::kFailed:
      return v1::TUNE_STATE_FAILED;
    case TuneState::kCancelled:
      return v1::TUNE_STATE_CANCELLED;
  }
  return v1::TUNE_STATE_UNSPECIFIED;
}

v1::JobKind ToProto(JobKind kind) {
  switch (kind) {
    case JobKind::kTune:
      return v1::JOB_KIND_TUNE;
    case JobKind::kAudit:
      return v1::JOB_KIND_AUDIT;
    case JobKind::kRecheck:
      return v1::JOB_KIND_RECHECK;
  }
  return v1::JOB_KIND_UNSPECIFIED;
}

// What requests for all jobs have in common.
template <typename Request>
void ReadId(const Request& request, TuneRequest& out, FieldErrors& errors) {
  if (!IsUuid(request.request_id())) {
    errors.Add("request_id",
               "must be a UUID of 8-4-4-4-12 hex digits, fresh for each "
               "request");
  }
  out.request_id = absl::AsciiStrToLower(request.request_id());
}

template <typename Request>
void ReadBudget(const Request& request, absl::Duration least_budget,
                TuneRequest& out, FieldErrors& errors) {
  if (request.has_budget()) out.budget = FromProtoDuration(request.budget());
  if (out.budget < least_budget || out.budget > absl::Hours(24)) {
    errors.Add("budget",
               absl::StrCat("is ", absl::FormatDuration(out.budget),
                            "; it must be between ",
                            absl::FormatDuration(least_budget), " and 24h"));
  }
}

void ReadProblem(const v1::Problem& message, TuneRequest& out,
                 FieldErrors& errors) {
  const absl::StatusOr<Problem> problem = ProblemFromProto(message);
  for (const FieldViolation& violation : ViolationsOf(problem.status()))
    errors.Add(violation.field, violation.description);
  if (problem.ok()) out.problem = *problem;
}

// What requests for tunes and audits have in common.
template <typename Request>
void ReadShared(const Request& request, absl::Duration least_budget,
                TuneRequest& out, FieldErrors& errors) {
  ReadId(request, out, errors);
  out.ladder.assign(request.ladder().begin(), request.ladder().end());
  if (out.ladder.empty()) out.ladder = DefaultLadder();
  if (out.ladder.size() > kMaxLadder) {
    errors.Add("ladder",
               absl::StrCat("has ", out.ladder.size(),
                            " points; it must have at most ", kMaxLadder));
  }
  for (size_t i = 0; i < out.ladder.size(); ++i) {
    const int64_t low = i == 0 ? 1 : out.ladder[i - 1] + 1;
    if (out.ladder[i] >= low && out.ladder[i] <= kMaxM) continue;
    errors.Add(absl::StrCat("ladder[", i, "]"),
               absl::StrCat("is ", out.ladder[i], "; it must be between ", low,
                            " and ", kMaxM));
    break;
  }
  if (request.max_kernels() != 0) out.max_kernels = request.max_kernels();
  if (out.max_kernels < 2 || out.max_kernels > 512) {
    errors.Add("max_kernels", absl::StrCat("is ", out.max_kernels,
                                           "; it must be between 2 and 512"));
  }
  ReadBudget(request, least_budget, out, errors);
  ReadProblem(request.problem(), out, errors);
}

}  // namespace

bool IsUuid(absl::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !absl::ascii_isxdigit(text[i])) return false;
  }
  return true;
}

absl::StatusOr<TuneRequest> TuneRequestFromProto(
    const v1::TuneLayerRequest& request) {
  FieldErrors errors;
  TuneRequest out;
  ReadShared(request, absl::Seconds(1), out, errors);
  out.max_table_kernels = request.max_table_kernels();
  if (out.max_table_kernels < 0 || out.max_table_kernels > 512) {
    errors.Add("max_table_kernels",
               absl::StrCat("is ", out.max_table_kernels,
                            "; it must be between 1 and 512, or 0 for as many "
                            "as it takes"));
  }
  out.retune = request.retune();
  out.detached = request.detached();
  if (!errors.ok()) return errors.ToStatus();
  return out;
}

absl::StatusOr<TuneRequest> AuditRequestFromProto(
    const v1::AuditLayerRequest& request) {
  FieldErrors errors;
  TuneRequest out;
  out.budget = AuditOptions().budget;
  ReadShared(request, absl::Seconds(10), out, errors);
  AuditRequest& audit = out.audit.emplace();
  if (request.tunes() != 0) audit.tunes = request.tunes();
  if (audit.tunes < 2 || audit.tunes > 8) {
    errors.Add("tunes", absl::StrCat("is ", audit.tunes,
                                     "; it must be between 2 and 8"));
  }
  if (request.kernels() != 0) audit.kernels = request.kernels();
  if (audit.kernels < 2 || audit.kernels > 2000) {
    errors.Add("kernels", absl::StrCat("is ", audit.kernels,
                                       "; it must be between 2 and 2000"));
  }
  if (request.seed() != 0) audit.seed = request.seed();
  if (absl::StatusOr<Subspace> within = Subspace::Parse(request.within());
      within.ok()) {
    audit.within = *std::move(within);
  } else {
    errors.Add("within", within.status().message());
  }
  if (!errors.ok()) return errors.ToStatus();
  return out;
}

absl::StatusOr<TuneRequest> RecheckRequestFromProto(
    const v1::RecheckTablesRequest& request) {
  FieldErrors errors;
  TuneRequest out;
  RecheckRequest& recheck = out.recheck.emplace();
  out.budget = kRecheckBudget;
  ReadId(request, out, errors);
  ReadBudget(request, absl::Seconds(10), out, errors);
  recheck.all = !request.has_problem();
  if (!recheck.all) ReadProblem(request.problem(), out, errors);
  if (request.keys() != 0) recheck.keys = request.keys();
  if (recheck.keys < 1 || recheck.keys > 10000) {
    errors.Add("keys", absl::StrCat("is ", recheck.keys,
                                    "; it must be between 1 and 10000"));
  }
  if (request.seed() != 0) recheck.seed = request.seed();
  recheck.report_only = request.report_only();
  out.detached = request.detached();
  if (!errors.ok()) return errors.ToStatus();
  return out;
}

absl::Status CheckM(int64_t m) {
  FieldErrors errors;
  if (m < 1 || m > kMaxM) {
    errors.Add("m",
               absl::StrCat("is ", m, "; it must be between 1 and ", kMaxM));
  }
  return errors.ToStatus();
}

absl::StatusOr<DeviceSpec> DeviceFromProto(const v1::DeviceSpec& message) {
  FieldErrors errors;
  const DeviceSpec device = FromProto(message, "device", errors);
  constexpr int64_t kMost = int64_t{1} << 50;
  const struct {
    absl::string_view field;
    int64_t value, low, high;
  } ranges[] = {
      {"sm_arch", device.sm_arch, 50, 200},
      {"sm_count", device.sm_count, 1, 4096},
      {"l2_bytes", device.l2_bytes, 0, int64_t{1} << 40},
      {"smem_optin_bytes", device.smem_optin_bytes, 1, int64_t{1} << 30},
      {"smem_per_sm_bytes", device.smem_per_sm_bytes, 0, int64_t{1} << 30},
      {"registers_per_sm", device.registers_per_sm, 1, int64_t{1} << 30},
      {"max_threads_per_sm", device.max_threads_per_sm, 1, int64_t{1} << 20},
      {"pci_device_id", device.pci_device_id, 0, kMost},
      {"cuda_driver_version", device.cuda_driver_version, 0, kMost},
      {"pci_subsystem_id", device.pci_subsystem_id, 0, kMost},
      {"power_limit_mw", device.power_limit_mw, 0, kMost},
      {"max_clock_khz", device.max_clock_khz, 0, kMost},
      {"memory_bytes", device.memory_bytes, 0, kMost},
  };
  for (const auto& range : ranges) {
    if (range.value >= range.low && range.value <= range.high) continue;
    errors.Add(absl::StrCat("device.", range.field),
               absl::StrCat("is ", range.value, "; it must be between ",
                            range.low, " and ", range.high));
  }
  const std::pair<absl::string_view, double> rates[] = {
      {"memory_gbps", device.memory_gbps},
      {"mma_sync_tflops", device.mma_sync_tflops},
      {"peak_tflops", device.peak_tflops},
      {"launch_ns", device.launch_ns},
  };
  for (const auto& [field, value] : rates) {
    if (std::isfinite(value) && value >= 0) continue;
    errors.Add(absl::StrCat("device.", field),
               absl::StrCat("is ", value,
                            "; it must be finite and at least "
                            "0"));
  }
  const std::pair<absl::string_view, const std::string&> texts[] = {
      {"mig_profile", device.mig_profile},
      {"driver", device.driver},
      {"vbios", device.vbios},
      {"name", device.name},
      {"uuid", device.uuid},
  };
  for (const auto& [field, text] : texts) {
    if (text.size() <= kMaxDeviceText) continue;
    errors.Add(absl::StrCat("device.", field),
               absl::StrCat("has ", text.size(),
                            " bytes; it must have at most ", kMaxDeviceText));
  }
  if (!errors.ok()) return errors.ToStatus();
  return device;
}

absl::StatusOr<int64_t> PageSize(int32_t requested) {
  FieldErrors errors;
  if (requested < 0) {
    errors.Add("page_size", absl::StrCat("is ", requested,
                                         "; it must be 0 (for 50) to 1000"));
    return errors.ToStatus();
  }
  return requested == 0 ? 50 : std::min<int64_t>(requested, 1000);
}

std::string MakePageToken(absl::string_view list,
                          const PagePosition& position) {
  return absl::WebSafeBase64Escape(
      absl::StrCat(list, ":", position.revision, ":", position.offset));
}

absl::StatusOr<PagePosition> ParsePageToken(absl::string_view list,
                                            absl::string_view token) {
  PagePosition position;
  if (token.empty()) return position;
  std::string text;
  std::vector<std::string> parts;
  if (absl::WebSafeBase64Unescape(token, &text))
    parts = absl::StrSplit(text, ':');
  if (parts.size() == 3 && parts[0] == list &&
      absl::SimpleAtoi(parts[1], &position.revision) &&
      absl::SimpleAtoi(parts[2], &position.offset) && position.offset >= 0 &&
      position.revision >= 0) {
    return position;
  }
  FieldErrors errors;
  errors.Add("page_token",
             "must be empty or the next_page_token of the same list");
  return errors.ToStatus();
}

void AddTrialsPage(const TrialColumns& trials, int64_t offset, int64_t size,
                   v1::ListTrialsResponse* response) {
  if (trials.id.empty()) return;
  *response->mutable_protocol() = ToProto(trials.protocol);
  std::vector<size_t> order(trials.id.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return trials.id[a] < trials.id[b]; });
  const auto total = static_cast<int64_t>(order.size());
  const int64_t end = std::min(total, offset + size);
  for (int64_t at = offset; at < end; ++at) {
    const size_t i = order[static_cast<size_t>(at)];
    v1::Trial& trial = *response->add_trials();
    trial.set_m(trials.m[i]);
    trial.set_config(trials.configs[static_cast<size_t>(trials.config[i])]);
    // An outcome of a later Hone stays unspecified.
    const absl::StatusOr<Outcome> outcome =
        ParseOutcome(trials.outcomes[static_cast<size_t>(trials.outcome[i])]);
    if (outcome.ok())
      trial.set_outcome(EnumToProto<v1::TrialOutcome>(*outcome));
    trial.set_samples(trials.samples[i]);
    trial.set_median_ns(trials.median_ns[i]);
    trial.set_low_ns(trials.low_ns[i]);
    trial.set_high_ns(trials.high_ns[i]);
    trial.set_session_id(
        trials.sessions[static_cast<size_t>(trials.session[i])]);
    SetTime(absl::FromUnixMicros(trials.unix_us[i]), trial.mutable_ended_at());
  }
  if (end < total)
    response->set_next_page_token(MakePageToken("trials", {0, end}));
}

v1::TuneProgress ToProto(const SessionProgress& progress, TuneState state) {
  v1::TuneProgress out;
  out.set_phase(state == TuneState::kQueued ? v1::TUNE_PHASE_QUEUED
                                            : ToProto(progress.phase));
  out.set_done(progress.done);
  out.set_total(progress.total);
  SetDuration(progress.elapsed, out.mutable_elapsed());
  SetDuration(progress.eta, out.mutable_eta());
  out.set_compiled(progress.compiled);
  out.set_failed(progress.failed);
  out.set_trials(progress.trials);
  out.set_reused(progress.reused);
  out.set_m(progress.m);
  out.set_best_config(progress.best_config);
  out.set_best_ns(progress.best_ns);
  out.set_default_ns(progress.default_ns);
  return out;
}

v1::Tune ToProto(const TuneSnapshot& snapshot) {
  v1::Tune out;
  out.set_tune_id(snapshot.tune_id);
  if (snapshot.problem) *out.mutable_problem() = ToProto(*snapshot.problem);
  out.set_state(ToProto(snapshot.state));
  *out.mutable_progress() = ToProto(snapshot.progress, snapshot.state);
  out.set_callers(snapshot.callers);
  out.set_detached(snapshot.detached);
  out.set_idle(snapshot.idle);
  out.set_kind(ToProto(snapshot.kind));
  out.set_error(std::string(snapshot.error.message()));
  SetTime(snapshot.submitted, out.mutable_submitted_at());
  if (snapshot.started != absl::InfinitePast())
    SetTime(snapshot.started, out.mutable_started_at());
  if (snapshot.ended != absl::InfinitePast())
    SetTime(snapshot.ended, out.mutable_ended_at());
  out.set_already_fresh(snapshot.already_fresh);
  return out;
}

v1::TuneResult ToProto(const TuneOutcome& outcome) {
  v1::TuneResult out;
  *out.mutable_table() = ToProto(outcome.answer.table);
  *out.mutable_provenance() = ToProto(outcome.answer.provenance);
  out.set_already_fresh(outcome.already_fresh);
  out.set_complete(outcome.complete);
  out.set_trials_recorded(outcome.trials_recorded);
  out.set_trials_reused(outcome.trials_reused);
  out.set_distinct_kernels(outcome.distinct_kernels);
  SetDuration(outcome.elapsed, out.mutable_elapsed());
  for (const TradeOffPoint& point : outcome.answer.table.trade_off)
    *out.add_trade_off() = ToProto(point);
  return out;
}

}  // namespace hone
