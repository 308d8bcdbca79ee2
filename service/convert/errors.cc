#include "service/convert/errors.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace hone {
namespace {

constexpr char kDomain[] = "hone";
constexpr absl::string_view kTypePrefix = "type.googleapis.com/";

template <typename Message>
std::string TypeUrl() {
  return absl::StrCat(kTypePrefix, Message::descriptor()->full_name());
}

template <typename Message>
std::optional<Message> Payload(const absl::Status& status) {
  const absl::optional<absl::Cord> bytes =
      status.GetPayload(TypeUrl<Message>());
  Message message;
  if (!bytes.has_value() || !message.ParseFromString(std::string(*bytes)))
    return std::nullopt;
  return message;
}

template <typename Message>
void SetPayload(const Message& message, absl::Status& status) {
  status.SetPayload(TypeUrl<Message>(),
                    absl::Cord(message.SerializeAsString()));
}

}  // namespace

void FieldErrors::Add(absl::string_view field, absl::string_view description) {
  violations_.push_back({std::string(field), std::string(description)});
}

absl::Status FieldErrors::ToStatus() const {
  if (ok()) return absl::OkStatus();
  google::rpc::BadRequest bad;
  for (const FieldViolation& violation : violations_) {
    auto* added = bad.add_field_violations();
    added->set_field(violation.field);
    added->set_description(violation.description);
  }
  absl::Status status = absl::InvalidArgumentError(absl::StrJoin(
      violations_, "; ", [](std::string* out, const FieldViolation& v) {
        absl::StrAppend(out, v.field, ": ", v.description);
      }));
  SetPayload(bad, status);
  return WithReason(std::move(status), "INVALID_FIELD");
}

absl::Status AsFieldViolation(const absl::Status& status,
                              absl::string_view prefix) {
  if (!absl::IsInvalidArgument(status)) return status;
  const absl::string_view message = status.message();
  // "layer.n is 0; it must be ...": the field is the first word.
  const absl::string_view field = message.substr(0, message.find(' '));
  FieldErrors errors;
  if (absl::StartsWith(field, "layer.") ||
      absl::StartsWith(field, "compute.") ||
      absl::StartsWith(field, "tuning.")) {
    errors.Add(absl::StrCat(prefix, field),
               absl::StripPrefix(message.substr(field.size()), " "));
  } else {
    errors.Add(absl::StripSuffix(prefix, "."), message);
  }
  return errors.ToStatus();
}

absl::Status WithReason(absl::Status status, absl::string_view reason,
                        const std::map<std::string, std::string>& metadata) {
  if (status.ok()) return status;
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kDomain);
  info.mutable_metadata()->insert(metadata.begin(), metadata.end());
  SetPayload(info, status);
  return status;
}

absl::Status WithRetry(absl::Status status, absl::Duration delay) {
  if (status.ok()) return status;
  google::rpc::RetryInfo retry;
  const int64_t nanos = absl::ToInt64Nanoseconds(delay);
  retry.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(nanos % 1'000'000'000));
  SetPayload(retry, status);
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  if (status.ok()) return "";
  if (const auto info = Payload<google::rpc::ErrorInfo>(status))
    return info->reason();
  return absl::StatusCodeToString(status.code());
}

std::map<std::string, std::string> MetadataOf(const absl::Status& status) {
  const auto info = Payload<google::rpc::ErrorInfo>(status);
  if (!info) return {};
  return {info->metadata().begin(), info->metadata().end()};
}

std::vector<FieldViolation> ViolationsOf(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  if (const auto bad = Payload<google::rpc::BadRequest>(status)) {
    for (const auto& violation : bad->field_violations())
      violations.push_back({violation.field(), violation.description()});
  }
  return violations;
}

absl::Duration RetryDelayOf(const absl::Status& status) {
  const auto retry = Payload<google::rpc::RetryInfo>(status);
  if (!retry) return absl::ZeroDuration();
  return absl::Seconds(retry->retry_delay().seconds()) +
         absl::Nanoseconds(retry->retry_delay().nanos());
}

std::string SerializeErrorDetails(const absl::Status& status) {
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  google::rpc::ErrorInfo info;
  if (const auto given = Payload<google::rpc::ErrorInfo>(status)) {
    info = *given;
  } else {
    info.set_reason(ReasonOf(status));
    info.set_domain(kDomain);
  }
  details.add_details()->PackFrom(info);
  if (const auto bad = Payload<google::rpc::BadRequest>(status))
    details.add_details()->PackFrom(*bad);
  if (const auto retry = Payload<google::rpc::RetryInfo>(status))
    details.add_details()->PackFrom(*retry);
  return details.SerializeAsString();
}

absl::Status StatusFromErrorDetails(absl::StatusCode code,
                                    absl::string_view message,
                                    absl::string_view details) {
  absl::Status status(code, message);
  google::rpc::Status parsed;
  if (status.ok() || !parsed.ParseFromString(std::string(details)))
    return status;
  for (const auto& detail : parsed.details())
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  return status;
}

}  // namespace hone
