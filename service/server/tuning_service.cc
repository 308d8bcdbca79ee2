#include "service/server/tuning_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "db/browse.h"
#include "db/bundle.h"
#include "kernels/config/status_macros.h"
#include "kernels/space/space.h"
#include "service/convert/audit_convert.h"
#include "service/convert/config_convert.h"
#include "service/convert/enum_convert.h"
#include "service/convert/grpc_status.h"
#include "service/convert/recheck_convert.h"
#include "service/convert/table_convert.h"
#include "service/server/lookup.h"
#include "service/server/requests.h"
#include "service/server/traffic_requests.h"

namespace hone {
namespace {

constexpr size_t kExportChunk = 256 << 10;
// A page of traffic ends after so many M, which keeps it below the 4 MB that
// gRPC's clients accept.
constexpr size_t kMostPoints = 65'536;
// How often a handler that waits looks whether its caller is still there.
constexpr absl::Duration kPoll = absl::Milliseconds(100);
// Progress goes out at most this often.
constexpr absl::Duration kProgressPeriod = absl::Milliseconds(200);

v1::TableSummary Summarize(const StoredTable& stored, bool stale) {
  v1::TableSummary out;
  const v1::DispatchTable table = ToProto(stored.table);
  *out.mutable_problem() = table.problem();
  *out.mutable_device() = table.device();
  out.set_revision(stored.revision);
  out.set_verified(stored.verified);
  out.set_stale(stale);
  out.set_gate(table.gate());
  std::set<std::string> kernels;
  for (const TableEntry& entry : stored.table.entries)
    kernels.insert(entry.config.ToString());
  out.set_kernels(static_cast<int32_t>(kernels.size()));
  *out.mutable_tuned_at() = table.tuned_at();
  return out;
}

}  // namespace

absl::StatusOr<DeviceSpec> TuningServiceImpl::DeviceOf(
    bool given, const v1::DeviceSpec& device) const {
  if (given) return DeviceFromProto(device);
  if (parts_.device.has_value()) return *parts_.device;
  return WithReason(
      absl::FailedPreconditionError(
          "this honed has no device of its own; name the device in the "
          "request, or start honed with --device=gpu:N or --device=model:h200"),
      "NO_DEVICE");
}

grpc::Status TuningServiceImpl::GetConfig(grpc::ServerContext*,
                                          const v1::GetConfigRequest* request,
                                          v1::GetConfigResponse* response) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const Problem problem,
                          ProblemFromProto(request->problem()));
    HONE_RETURN_IF_ERROR(CheckM(request->m()));
    HONE_ASSIGN_OR_RETURN(const DeviceSpec device,
                          DeviceOf(request->has_device(), request->device()));
    const absl::Time start = absl::Now();
    HONE_ASSIGN_OR_RETURN(const auto index,
                          parts_.tables->At(request->revision()));
    HONE_ASSIGN_OR_RETURN(const ConfigAnswer answer,
                          index->GetConfig(problem, device, request->m()));
    // What an older revision lacks is no reason to tune.
    if (request->revision() == 0)
      parts_.traffic->CountLookup(problem, device, answer.provenance);
    parts_.metrics->OnLookup(answer.provenance.match, absl::Now() - start);
    *response = ToProto(answer);
    return absl::OkStatus();
  }());
}

grpc::Status TuningServiceImpl::GetTable(grpc::ServerContext*,
                                         const v1::GetTableRequest* request,
                                         v1::GetTableResponse* response) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const Problem problem,
                          ProblemFromProto(request->problem()));
    HONE_ASSIGN_OR_RETURN(const DeviceSpec device,
                          DeviceOf(request->has_device(), request->device()));
    const absl::Time start = absl::Now();
    HONE_ASSIGN_OR_RETURN(const auto index,
                          parts_.tables->At(request->revision()));
    HONE_ASSIGN_OR_RETURN(const TableAnswer answer,
                          index->GetTable(problem, device));
    if (request->revision() == 0)
      parts_.traffic->CountLookup(problem, device, answer.provenance);
    parts_.metrics->OnLookup(answer.provenance.match, absl::Now() - start);
    *response = ToProto(answer);
    return absl::OkStatus();
  }());
}

absl::Status TuningServiceImpl::List(const v1::ListTablesRequest& request,
                                     v1::ListTablesResponse* response) const {
  HONE_ASSIGN_OR_RETURN(const int64_t size, PageSize(request.page_size()));
  HONE_ASSIGN_OR_RETURN(PagePosition position,
                        ParsePageToken("tables", request.page_token()));
  HONE_ASSIGN_OR_RETURN(const auto index, parts_.tables->At(position.revision));
  const auto total = static_cast<int64_t>(index->tables().size());
  const int64_t begin = std::min(position.offset, total);
  const int64_t end = std::min(begin + size, total);
  for (int64_t i = begin; i < end; ++i) {
    const StoredTable& stored = index->tables()[static_cast<size_t>(i)];
    *response->add_tables() = Summarize(stored, index->IsStale(stored));
  }
  response->set_revision(index->revision());
  if (end < total) {
    response->set_next_page_token(
        MakePageToken("tables", {index->revision(), end}));
  }
  return absl::OkStatus();
}

grpc::Status TuningServiceImpl::ListTables(grpc::ServerContext*,
                                           const v1::ListTablesRequest* request,
                                           v1::ListTablesResponse* response) {
  return ToGrpcStatus(List(*request, response));
}

template <typename Response>
absl::StatusOr<TuneOutcome> TuningServiceImpl::Follow(
    grpc::ServerContext* context, const absl::StatusOr<TuneRequest>& request,
    grpc::ServerWriter<Response>* writer) {
  HONE_ASSIGN_OR_RETURN(const TuneRequest tune, request);
  HONE_RETURN_IF_ERROR(parts_.can_tune());
  if (!tune.recheck || !tune.recheck->all)
    HONE_RETURN_IF_ERROR(CheckHasKernel(tune.problem, *parts_.device));
  const absl::Cleanup leave = [this] { --tune_callers_; };
  if (++tune_callers_ > parts_.max_tune_callers) {
    return WithReason(WithRetry(absl::ResourceExhaustedError(absl::StrCat(
                                    "more than ", parts_.max_tune_callers,
                                    " callers wait for tunes")),
                                absl::Seconds(30)),
                      "TOO_MANY_CALLERS");
  }
  HONE_ASSIGN_OR_RETURN(const std::unique_ptr<TuneJobs::Caller> caller,
                        parts_.jobs->Submit(tune));
  Response message;
  const TuneSnapshot first = caller->Snapshot();
  message.mutable_accepted()->set_tune_id(first.tune_id);
  message.mutable_accepted()->set_joined(caller->joined());
  message.mutable_accepted()->set_queue_position(first.position);
  bool there = writer->Write(message);
  absl::Time last_sent = absl::InfinitePast();
  bool unsent = false;
  while (there && !context->IsCancelled() && !caller->ended()) {
    unsent |= caller->WaitForChange(kPoll);
    if (!unsent || absl::Now() - last_sent < kProgressPeriod) {
      // A burst of changes goes out as its newest one.
      if (unsent && !caller->ended()) absl::SleepFor(absl::Milliseconds(20));
      continue;
    }
    const TuneSnapshot snapshot = caller->Snapshot();
    *message.mutable_progress() = ToProto(snapshot.progress, snapshot.state);
    there = writer->Write(message);
    last_sent = absl::Now();
    unsent = false;
  }
  if (!caller->ended())
    return WithReason(absl::CancelledError("the caller left"), "CALLER_LEFT");
  HONE_ASSIGN_OR_RETURN(const TuneOutcome outcome, caller->Outcome());
  *message.mutable_progress() =
      ToProto(caller->Snapshot().progress, TuneState::kSucceeded);
  if (!outcome.already_fresh) writer->Write(message);
  return outcome;
}

grpc::Status TuningServiceImpl::TuneLayer(
    grpc::ServerContext* context, const v1::TuneLayerRequest* request,
    grpc::ServerWriter<v1::TuneLayerResponse>* writer) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(
        const TuneOutcome outcome,
        Follow(context, TuneRequestFromProto(*request), writer));
    v1::TuneLayerResponse message;
    *message.mutable_result() = ToProto(outcome);
    writer->Write(message);
    return absl::OkStatus();
  }());
}

grpc::Status TuningServiceImpl::AuditLayer(
    grpc::ServerContext* context, const v1::AuditLayerRequest* request,
    grpc::ServerWriter<v1::AuditLayerResponse>* writer) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(
        const TuneOutcome outcome,
        Follow(context, AuditRequestFromProto(*request), writer));
    v1::AuditLayerResponse message;
    *message.mutable_result() = ToProto(*outcome.audit);
    writer->Write(message);
    return absl::OkStatus();
  }());
}

grpc::Status TuningServiceImpl::RecheckTables(
    grpc::ServerContext* context, const v1::RecheckTablesRequest* request,
    grpc::ServerWriter<v1::RecheckTablesResponse>* writer) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(
        const TuneOutcome outcome,
        Follow(context, RecheckRequestFromProto(*request), writer));
    v1::RecheckTablesResponse message;
    *message.mutable_result() = ToProto(*outcome.recheck);
    message.mutable_result()->set_report_only(request->report_only());
    writer->Write(message);
    return absl::OkStatus();
  }());
}

grpc::Status TuningServiceImpl::CancelTune(grpc::ServerContext*,
                                           const v1::CancelTuneRequest* request,
                                           v1::CancelTuneResponse* response) {
  const absl::StatusOr<bool> cancelled =
      parts_.jobs->Cancel(request->tune_id());
  if (cancelled.ok()) response->set_cancelled(*cancelled);
  return ToGrpcStatus(cancelled.status());
}

grpc::Status TuningServiceImpl::ListTunes(grpc::ServerContext*,
                                          const v1::ListTunesRequest* request,
                                          v1::ListTunesResponse* response) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const int64_t size, PageSize(request->page_size()));
    HONE_ASSIGN_OR_RETURN(const PagePosition position,
                          ParsePageToken("tunes", request->page_token()));
    const std::vector<TuneSnapshot> tunes = parts_.jobs->List();
    const auto total = static_cast<int64_t>(tunes.size());
    // The token counts from the oldest, so that new jobs do not shift a walk.
    const int64_t end = request->page_token().empty()
                            ? total
                            : std::min(position.offset, total);
    const int64_t begin = total - end;
    const int64_t stop = std::min(begin + size, total);
    for (int64_t i = begin; i < stop; ++i)
      *response->add_tunes() = ToProto(tunes[static_cast<size_t>(i)]);
    if (stop < total)
      response->set_next_page_token(MakePageToken("tunes", {0, total - stop}));
    return absl::OkStatus();
  }());
}

grpc::Status TuningServiceImpl::ListTrials(grpc::ServerContext*,
                                           const v1::ListTrialsRequest* request,
                                           v1::ListTrialsResponse* response) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const Problem problem,
                          ProblemFromProto(request->problem()));
    HONE_ASSIGN_OR_RETURN(const DeviceSpec device,
                          DeviceOf(/*given=*/false, {}));
    HONE_ASSIGN_OR_RETURN(const int64_t size, PageSize(request->page_size()));
    HONE_ASSIGN_OR_RETURN(const PagePosition position,
                          ParsePageToken("trials", request->page_token()));
    TrialColumns trials;
    HONE_RETURN_IF_ERROR(parts_.store->Browse(
        [&](const StoreSnapshot& snapshot) -> absl::Status {
          HONE_ASSIGN_OR_RETURN(
              trials,
              snapshot.Trials(problem.Hash(), device.ClassHash(), kMostTrials));
          return absl::OkStatus();
        }));
    AddTrialsPage(trials, position.offset, size, response);
    return absl::OkStatus();
  }());
}

grpc::Status TuningServiceImpl::Export(
    grpc::ServerContext*, const v1::ExportRequest* request,
    grpc::ServerWriter<v1::ExportResponse>* writer) {
  return ToGrpcStatus([&]() -> absl::Status {
    TableFilter filter;
    if (request->has_problem()) {
      HONE_ASSIGN_OR_RETURN(filter.problem,
                            ProblemFromProto(request->problem()));
    }
    // Also says which revision does not exist.
    HONE_RETURN_IF_ERROR(parts_.tables->At(request->revision()).status());
    if (request->revision() != 0) filter.revision = request->revision();
    const absl::StatusOr<std::string> bundle =
        ExportBundle(*parts_.store, filter);
    if (absl::IsNotFound(bundle.status()))
      return WithReason(bundle.status(), "TABLE_NOT_FOUND");
    if (!bundle.ok()) return bundle.status();
    v1::ExportResponse message;
    for (size_t at = 0; at < bundle->size(); at += kExportChunk) {
      message.set_chunk(bundle->substr(at, kExportChunk));
      if (!writer->Write(message)) break;
    }
    return absl::OkStatus();
  }());
}

absl::Status TuningServiceImpl::ReadBundle(
    grpc::ServerReader<v1::ImportRequest>* reader,
    v1::ImportResponse* response) {
  std::string text;
  v1::ImportRequest message;
  FieldErrors errors;
  while (reader->Read(&message)) {
    if (text.size() + message.chunk().size() > kMaxBundleBytes) {
      errors.Add("chunk", absl::StrCat("makes the bundle larger than ",
                                       kMaxBundleBytes, " bytes"));
      return errors.ToStatus();
    }
    text += message.chunk();
  }
  const absl::StatusOr<ImportResult> result =
      ImportBundle(*parts_.store, text,
                   {.public_key_pem = parts_.import_key_pem,
                    .unix_us = absl::ToUnixMicros(parts_.now())});
  if (absl::IsInvalidArgument(result.status())) {
    errors.Add("chunk", result.status().message());
    return WithReason(errors.ToStatus(), "BAD_BUNDLE");
  }
  if (absl::IsPermissionDenied(result.status()))
    return WithReason(result.status(), "BAD_SIGNATURE");
  if (!result.ok()) return result.status();
  HONE_RETURN_IF_ERROR(parts_.tables->Refresh());
  response->set_tables_added(result->tables_added);
  response->set_tables_known(result->tables_known);
  response->set_revision(result->revision);
  parts_.log->Info("imported", {{"tables_added", Json{result->tables_added}},
                                {"tables_known", Json{result->tables_known}},
                                {"revision", Json{result->revision}}});
  return absl::OkStatus();
}

grpc::Status TuningServiceImpl::Import(
    grpc::ServerContext*, grpc::ServerReader<v1::ImportRequest>* reader,
    v1::ImportResponse* response) {
  return ToGrpcStatus(ReadBundle(reader, response));
}

grpc::Status TuningServiceImpl::ReportTraffic(
    grpc::ServerContext*, const v1::ReportTrafficRequest* request,
    v1::ReportTrafficResponse* response) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const DeviceSpec device,
                          DeviceOf(request->has_device(), request->device()));
    HONE_ASSIGN_OR_RETURN(const std::vector<TrafficCount> counts,
                          TrafficFromProto(*request, device));
    const absl::StatusOr<bool> counted = parts_.traffic->Report(
        absl::AsciiStrToLower(request->report_id()), counts);
    if (absl::IsAlreadyExists(counted.status())) {
      FieldErrors errors;
      errors.Add("report_id",
                 "was used for another report; it must be a fresh UUID");
      return WithReason(errors.ToStatus(), "REPORT_ID_REUSED");
    }
    if (!counted.ok()) return counted.status();
    response->set_counted(*counted);
    return absl::OkStatus();
  }());
}

grpc::Status TuningServiceImpl::ListTraffic(
    grpc::ServerContext*, const v1::ListTrafficRequest* request,
    v1::ListTrafficResponse* response) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_ASSIGN_OR_RETURN(const int64_t size, PageSize(request->page_size()));
    // The last id of the page before.
    HONE_ASSIGN_OR_RETURN(const PagePosition after,
                          ParsePageToken("traffic", request->page_token()));
    HONE_ASSIGN_OR_RETURN(const std::vector<TrafficView> views,
                          parts_.traffic->View());
    int64_t last = 0;
    size_t points = 0;
    for (const TrafficView& view : views) {
      if (view.stored.id <= after.offset) continue;
      if (response->problems_size() == size || points > kMostPoints) {
        response->set_next_page_token(MakePageToken("traffic", {0, last}));
        break;
      }
      *response->add_problems() = ToProto(view);
      last = view.stored.id;
      points += view.traffic.calls.size();
    }
    return absl::OkStatus();
  }());
}

v1::Device TuningServiceImpl::DeviceMessage() const {
  v1::Device device;
  *device.mutable_spec() = ToProto(*parts_.device);
  const absl::Status can_tune = parts_.can_tune();
  device.set_can_tune(can_tune.ok());
  device.set_unavailable(std::string(can_tune.message()));
  device.set_modelled(parts_.device->modelled());
  return device;
}

grpc::Status TuningServiceImpl::ListDevices(
    grpc::ServerContext*, const v1::ListDevicesRequest* request,
    v1::ListDevicesResponse* response) {
  return ToGrpcStatus([&]() -> absl::Status {
    HONE_RETURN_IF_ERROR(PageSize(request->page_size()).status());
    HONE_RETURN_IF_ERROR(
        ParsePageToken("devices", request->page_token()).status());
    if (parts_.device.has_value()) *response->add_devices() = DeviceMessage();
    return absl::OkStatus();
  }());
}

grpc::Status TuningServiceImpl::GetDevice(grpc::ServerContext*,
                                          const v1::GetDeviceRequest* request,
                                          v1::GetDeviceResponse* response) {
  return ToGrpcStatus([&]() -> absl::Status {
    if (!parts_.device.has_value()) {
      return WithReason(absl::NotFoundError(parts_.can_tune().message()),
                        "NO_DEVICE");
    }
    if (!request->uuid().empty() && request->uuid() != parts_.device->uuid) {
      return WithReason(absl::NotFoundError(absl::StrCat(
                            "there is no device \"", request->uuid(),
                            "\"; there is ", parts_.device->uuid)),
                        "DEVICE_NOT_FOUND");
    }
    *response->mutable_device() = DeviceMessage();
    response->set_hone_version(parts_.version);
    response->set_source_closure(parts_.source_closure);
    response->set_revision(parts_.tables->Newest()->revision());
    return absl::OkStatus();
  }());
}

}  // namespace hone
