#include "service/server/study_service.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "db/study_json.h"
#include "kernels/config/status_macros.h"
#include "service/convert/errors.h"
#include "service/convert/grpc_status.h"
#include "service/server/requests.h"
#include "service/server/study_requests.h"

namespace hone {
namespace {

constexpr size_t kExportChunk = 256 << 10;
constexpr int kMaxResults = 128;

absl::Status CheckId(const std::string& id) {
  FieldErrors errors;
  if (!IsUuid(id)) {
    errors.Add("study_id", "must be a UUID of 8-4-4-4-12 hex digits");
  }
  return errors.ToStatus();
}

absl::Status Closed(const std::string& id) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "study ", id, " is closed; GetStudy still has its answer")),
      "STUDY_CLOSED");
}

// A study as its stored results made it.
absl::StatusOr<Study> Replay(const StoredStudy& stored) {
  const auto unlike = [&](const absl::Status& why) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "study ", stored.id,
            " was begun by a Hone that searched in another way (",
            why.message(),
            "); close it and open another, which knows its failures")),
        "STUDY_OF_OTHER_VERSION");
  };
  absl::StatusOr<Study> study = Study::Create(stored.spec);
  if (!study.ok()) return unlike(study.status());
  for (const StoredStudyResult& result : stored.results) {
    const absl::StatusOr<size_t> config =
        study->space().FindText(result.config);
    if (!config.ok()) return unlike(config.status());
    const absl::StatusOr<bool> taken =
        study->Report({*config, result.outcome, result.detail, result.samples});
    if (!taken.ok()) return unlike(taken.status());
  }
  return study;
}

int64_t CountFailed(const Study& study) {
  int64_t failed = 0;
  for (const auto& [config, known] : study.known()) {
    failed += known.outcome != Outcome::kMeasured;
  }
  return failed;
}

}  // namespace

absl::Status StudyServiceImpl::Load(const std::string& id, Live& live) const {
  const absl::StatusOr<StoredStudy> stored = parts_.store->GetStudy(id);
  if (absl::IsNotFound(stored.status())) {
    return WithReason(stored.status(), "STUDY_NOT_FOUND");
  }
  HONE_RETURN_IF_ERROR(stored.status());
  HONE_ASSIGN_OR_RETURN(live.study, Replay(*stored));
  live.opened_us = stored->opened_us;
  live.closed = stored->closed_us != 0;
  return absl::OkStatus();
}

absl::Status StudyServiceImpl::With(
    const std::string& given, const std::function<absl::Status(Live&)>& work) {
  HONE_RETURN_IF_ERROR(CheckId(given));
  const std::string id = absl::AsciiStrToLower(given);
  std::shared_ptr<Live> live;
  {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<Live>& found = live_[id];
    if (!found) found = std::make_shared<Live>();
    live = found;
  }
  const auto run = [&]() -> absl::Status {
    absl::MutexLock lock(&live->mutex);
    if (!live->study) HONE_RETURN_IF_ERROR(Load(id, *live));
    return work(*live);
  };
  const absl::Status status = run();
  // What is closed or unknown need not stay in memory. Whoever is the last to
  // use it forgets it, so that a study never has two states at once.
  absl::MutexLock lock(&mutex_);
  if (live.use_count() == 2) {
    absl::MutexLock unused(&live->mutex);
    if (!live->study || live->closed) live_.erase(id);
  }
  return status;
}

absl::Status StudyServiceImpl::Open(const v1::OpenStudyRequest& request,
                                    v1::OpenStudyResponse* response) {
  HONE_RETURN_IF_ERROR(CheckId(request.study_id()));
  HONE_ASSIGN_OR_RETURN(const Study study, StudyFromProto(request.spec()));
  const std::string id = absl::AsciiStrToLower(request.study_id());
  const absl::StatusOr<bool> opened = parts_.store->OpenStudy(
      id, study, request.retry_failures(), parts_.max_open, NowUs());
  FieldErrors errors;
  if (absl::IsAlreadyExists(opened.status())) {
    errors.Add("study_id",
               "was used for another spec; it must be a fresh UUID");
    return WithReason(errors.ToStatus(), "STUDY_ID_REUSED");
  }
  if (absl::IsInvalidArgument(opened.status())) {
    errors.Add("spec.baseline", opened.status().message());
    return errors.ToStatus();
  }
  if (absl::IsResourceExhausted(opened.status())) {
    return WithReason(opened.status(), "TOO_MANY_STUDIES");
  }
  HONE_RETURN_IF_ERROR(opened.status());
  response->set_opened(*opened);
  if (*opened) {
    parts_.log->Info("study_opened",
                     {{"study", LogText(id)},
                      {"problem", LogText(request.spec().problem())},
                      {"device", LogText(request.spec().device())}});
  }
  return With(id, [&](Live& live) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    response->set_configs(static_cast<int64_t>(live.study->space().size()));
    response->set_known_failures(CountFailed(*live.study));
    return absl::OkStatus();
  });
}

grpc::Status StudyServiceImpl::OpenStudy(grpc::ServerContext*,
                                         const v1::OpenStudyRequest* request,
                                         v1::OpenStudyResponse* response) {
  parts_.on_measuring();
  return ToGrpcStatus(Open(*request, response));
}

grpc::Status StudyServiceImpl::Suggest(grpc::ServerContext*,
                                       const v1::SuggestRequest* request,
                                       v1::SuggestResponse* response) {
  parts_.on_measuring();
  return ToGrpcStatus(With(request->study_id(),
                           [&](Live& live)
                               ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
                                 if (live.closed)
                                   return Closed(request->study_id());
                                 *response = SuggestionOf(*live.study);
                                 return absl::OkStatus();
                               }));
}

absl::Status StudyServiceImpl::Take(const v1::ReportRequest& request,
                                    Live& live,
                                    v1::ReportResponse* response) const {
  if (live.closed) return Closed(request.study_id());
  FieldErrors errors;
  if (request.results_size() < 1 || request.results_size() > kMaxResults) {
    errors.Add("results",
               absl::StrCat("has ", request.results_size(),
                            " entries; it must have 1 to ", kMaxResults));
    return errors.ToStatus();
  }
  // On a copy, so that nothing is known before it is stored.
  Study next = *live.study;
  std::vector<StoredStudyResult> taken;
  for (int i = 0; i < request.results_size(); ++i) {
    const std::string field = absl::StrCat("results[", i, "]");
    HONE_ASSIGN_OR_RETURN(
        const StudyResult result,
        StudyResultFromProto(request.results(i), next.space(), field));
    const absl::StatusOr<bool> is_new = next.Report(result);
    if (!is_new.ok()) {
      return AsResultViolation(is_new.status(), request.results(i), field);
    }
    if (*is_new) {
      taken.push_back({next.space().Text(result.config), result.outcome,
                       result.detail, result.samples});
    }
  }
  if (!taken.empty()) {
    HONE_RETURN_IF_ERROR(parts_.store->RecordStudyResults(
        absl::AsciiStrToLower(request.study_id()), taken, NowUs()));
    *live.study = std::move(next);
  }
  response->set_taken(static_cast<int64_t>(taken.size()));
  response->set_phase(ToProto(live.study->phase()));
  return absl::OkStatus();
}

grpc::Status StudyServiceImpl::Report(grpc::ServerContext*,
                                      const v1::ReportRequest* request,
                                      v1::ReportResponse* response) {
  parts_.on_measuring();
  return ToGrpcStatus(
      With(request->study_id(), [&](Live& live) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return Take(*request, live, response);
      }));
}

grpc::Status StudyServiceImpl::GetStudy(grpc::ServerContext*,
                                        const v1::GetStudyRequest* request,
                                        v1::GetStudyResponse* response) {
  return ToGrpcStatus(
      With(request->study_id(), [&](Live& live) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const Study& study = *live.study;
        *response->mutable_spec() = ToProto(study.spec());
        response->set_phase(ToProto(study.phase()));
        response->set_closed(live.closed);
        *response->mutable_answer() = ToProto(study.Answer(), study.space());
        int64_t measured = 0;
        for (const auto& [config, known] : study.known()) {
          measured += !known.samples.empty();
        }
        response->set_measured(measured);
        response->set_failed(CountFailed(study));
        response->mutable_opened_at()->set_seconds(live.opened_us / 1'000'000);
        response->mutable_opened_at()->set_nanos(
            static_cast<int32_t>(live.opened_us % 1'000'000) * 1000);
        return absl::OkStatus();
      }));
}

grpc::Status StudyServiceImpl::CloseStudy(grpc::ServerContext*,
                                          const v1::CloseStudyRequest* request,
                                          v1::CloseStudyResponse* response) {
  const absl::Status status =
      With(request->study_id(),
           [&](Live& live) ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
             *response->mutable_answer() =
                 ToProto(live.study->Answer(), live.study->space());
             if (live.closed) return absl::OkStatus();
             HONE_ASSIGN_OR_RETURN(
                 const bool closed,
                 parts_.store->CloseStudy(
                     absl::AsciiStrToLower(request->study_id()), NowUs()));
             response->set_closed(closed);
             live.closed = true;
             return absl::OkStatus();
           });
  if (ReasonOf(status) != "STUDY_OF_OTHER_VERSION") return ToGrpcStatus(status);
  // It has no answer here, but it can be closed.
  const absl::StatusOr<bool> closed = parts_.store->CloseStudy(
      absl::AsciiStrToLower(request->study_id()), NowUs());
  if (closed.ok()) response->set_closed(*closed);
  return ToGrpcStatus(closed.status());
}

grpc::Status StudyServiceImpl::ExportStudy(
    grpc::ServerContext*, const v1::ExportStudyRequest* request,
    grpc::ServerWriter<v1::ExportStudyResponse>* writer) {
  std::string text;
  const absl::Status status = With(
      request->study_id(),
      [&](Live& live) ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::Status {
        HONE_ASSIGN_OR_RETURN(
            const StoredStudy stored,
            parts_.store->GetStudy(absl::AsciiStrToLower(request->study_id())));
        text = RenderStudy(stored, *live.study);
        return absl::OkStatus();
      });
  v1::ExportStudyResponse message;
  for (size_t at = 0; at < text.size(); at += kExportChunk) {
    message.set_chunk(text.substr(at, kExportChunk));
    if (!writer->Write(message)) break;
  }
  return ToGrpcStatus(status);
}

}  // namespace hone
