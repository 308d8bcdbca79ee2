#include "service/server/traffic_requests.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/space/space.h"
#include "service/convert/config_convert.h"
#include "service/convert/errors.h"
#include "service/server/requests.h"

namespace hone {
namespace {

constexpr int kMaxProblems = 256;
constexpr int kMaxCounts = 1024;
constexpr int64_t kMaxCalls = 1'000'000'000'000;

// What is wrong with one problem of a report, under its own path.
void AddProblemErrors(const absl::Status& status, const std::string& path,
                      FieldErrors& errors) {
  for (const FieldViolation& violation : ViolationsOf(status))
    errors.Add(absl::StrCat(path, ".", violation.field), violation.description);
}

void SetTime(int64_t unix_us, google::protobuf::Timestamp* out) {
  out->set_seconds(unix_us / 1'000'000);
  out->set_nanos(static_cast<int32_t>(unix_us % 1'000'000) * 1000);
}

std::vector<MWeight> ReadCalls(const v1::ProblemCalls& message,
                               const std::string& path, FieldErrors& errors) {
  std::map<int64_t, double> calls;
  if (message.calls_size() < 1 || message.calls_size() > kMaxCounts) {
    errors.Add(absl::StrCat(path, ".calls"),
               absl::StrCat("has ", message.calls_size(),
                            " M; it must have 1 to ", kMaxCounts));
    return {};
  }
  for (int i = 0; i < message.calls_size(); ++i) {
    const v1::CallCount& count = message.calls(i);
    const std::string at = absl::StrCat(path, ".calls[", i, "]");
    for (const FieldViolation& violation : ViolationsOf(CheckM(count.m())))
      errors.Add(absl::StrCat(at, ".", violation.field), violation.description);
    if (count.calls() < 1 || count.calls() > kMaxCalls) {
      errors.Add(absl::StrCat(at, ".calls"),
                 absl::StrCat("is ", count.calls(),
                              "; it must be between 1 and ", kMaxCalls));
    }
    if (!calls.emplace(count.m(), static_cast<double>(count.calls())).second) {
      errors.Add(
          absl::StrCat(at, ".m"),
          absl::StrCat("is ", count.m(), " again; each M must be there once"));
    }
  }
  std::vector<MWeight> out;
  for (const auto& [m, weight] : calls) out.push_back({m, weight});
  return out;
}

}  // namespace

absl::StatusOr<std::vector<TrafficCount>> TrafficFromProto(
    const v1::ReportTrafficRequest& request, const DeviceSpec& device) {
  FieldErrors errors;
  if (!IsUuid(request.report_id())) {
    errors.Add("report_id",
               "must be a UUID of 8-4-4-4-12 hex digits, fresh for each "
               "report and the same when it is sent again");
  }
  if (request.problems_size() < 1 || request.problems_size() > kMaxProblems) {
    errors.Add("problems", absl::StrCat("has ", request.problems_size(),
                                        "; it must have 1 to ", kMaxProblems));
    return errors.ToStatus();
  }
  std::vector<TrafficCount> counts;
  std::map<std::string, int> seen;
  for (int i = 0; i < request.problems_size(); ++i) {
    const v1::ProblemCalls& message = request.problems(i);
    const std::string path = absl::StrCat("problems[", i, "]");
    TrafficCount count;
    count.device = device;
    const absl::StatusOr<Problem> problem = ProblemFromProto(message.problem());
    AddProblemErrors(problem.status(), path, errors);
    if (problem.ok()) {
      count.problem = *problem;
      const absl::Status has_kernel = CheckProblem(*problem, device);
      if (absl::IsInvalidArgument(has_kernel)) {
        AddProblemErrors(AsFieldViolation(has_kernel, "problem."), path,
                         errors);
      } else if (!has_kernel.ok()) {
        errors.Add(absl::StrCat(path, ".problem"),
                   absl::StrCat("has no kernel on this device: ",
                                has_kernel.message()));
      }
      const auto [first, added] = seen.emplace(problem->ToString(), i);
      if (!added) {
        errors.Add(absl::StrCat(path, ".problem"),
                   absl::StrCat("is that of problems[", first->second,
                                "]; each must be there once"));
      }
    }
    count.calls = ReadCalls(message, path, errors);
    counts.push_back(std::move(count));
  }
  if (!errors.ok()) return errors.ToStatus();
  return counts;
}

v1::TrafficSummary ToProto(const TrafficView& view) {
  v1::TrafficSummary out;
  *out.mutable_problem() = ToProto(view.stored.problem);
  *out.mutable_device() = ToProto(view.stored.device);
  for (const MWeight& at : view.traffic.calls) {
    v1::TrafficPoint& point = *out.add_points();
    point.set_m(at.m);
    point.set_weight(at.weight);
    point.set_call_ns(view.traffic.times.At(at.m));
  }
  out.set_time_share(view.time_share);
  switch (view.traffic.state) {
    case TableState::kMissing:
      out.set_table(v1::TABLE_STATE_MISSING);
      break;
    case TableState::kStale:
      out.set_table(v1::TABLE_STATE_STALE);
      break;
    case TableState::kUnverified:
      out.set_table(v1::TABLE_STATE_UNVERIFIED);
      break;
    case TableState::kFresh:
      out.set_table(v1::TABLE_STATE_FRESH);
      break;
  }
  out.set_misses(view.traffic.misses);
  out.set_times_modelled(view.times_modelled);
  if (view.stored.reported_us > 0)
    SetTime(view.stored.reported_us, out.mutable_last_report());
  if (view.stored.missed_us > 0)
    SetTime(view.stored.missed_us, out.mutable_last_miss());
  return out;
}

}  // namespace hone
