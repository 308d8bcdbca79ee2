// hone.v1.StudyService over the store: studies live in SQLite, and in memory
// while they are open and used.
#ifndef HONE_SERVICE_SERVER_STUDY_SERVICE_H_
#define HONE_SERVICE_SERVER_STUDY_SERVICE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "db/store.h"
#include "hone/v1/study_service.grpc.pb.h"
#include "service/server/log.h"
#include "tuner/study.h"

namespace hone {

// Thread-safe. No handler waits for anything but the database and another call
// of the same study.
class StudyServiceImpl final : public v1::StudyService::Service {
 public:
  struct Parts {
    Store* store = nullptr;
    Logger* log = nullptr;
    std::function<absl::Time()> now = absl::Now;
    // More are ResourceExhausted.
    int64_t max_open = 64;
    // Called when a study's caller measures: it may be on honed's own device.
    std::function<void()> on_measuring = [] {};
  };

  // What `parts` points to must outlive the service.
  explicit StudyServiceImpl(Parts parts) : parts_(std::move(parts)) {}

  grpc::Status OpenStudy(grpc::ServerContext* context,
                         const v1::OpenStudyRequest* request,
                         v1::OpenStudyResponse* response) override;
  grpc::Status Suggest(grpc::ServerContext* context,
                       const v1::SuggestRequest* request,
                       v1::SuggestResponse* response) override;
  grpc::Status Report(grpc::ServerContext* context,
                      const v1::ReportRequest* request,
                      v1::ReportResponse* response) override;
  grpc::Status GetStudy(grpc::ServerContext* context,
                        const v1::GetStudyRequest* request,
                        v1::GetStudyResponse* response) override;
  grpc::Status CloseStudy(grpc::ServerContext* context,
                          const v1::CloseStudyRequest* request,
                          v1::CloseStudyResponse* response) override;
  grpc::Status ExportStudy(
      grpc::ServerContext* context, const v1::ExportStudyRequest* request,
      grpc::ServerWriter<v1::ExportStudyResponse>* writer) override;

 private:
  // A study in use. `study` is empty until it was read from the store.
  struct Live {
    absl::Mutex mutex;
    std::optional<Study> study ABSL_GUARDED_BY(mutex);
    int64_t opened_us ABSL_GUARDED_BY(mutex) = 0;
    bool closed ABSL_GUARDED_BY(mutex) = false;
  };

  // Runs `work` on the study, with its lock held. NotFound: there is none.
  absl::Status With(const std::string& id,
                    const std::function<absl::Status(Live&)>& work);
  absl::Status Load(const std::string& id, Live& live) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(live.mutex);
  absl::Status Open(const v1::OpenStudyRequest& request,
                    v1::OpenStudyResponse* response);
  absl::Status Take(const v1::ReportRequest& request, Live& live,
                    v1::ReportResponse* response) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(live.mutex);
  int64_t NowUs() const { return absl::ToUnixMicros(parts_.now()); }

  const Parts parts_;
  absl::Mutex mutex_;
  // Open studies that were used since the daemon started.
  std::map<std::string, std::shared_ptr<Live>> live_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hone

#endif  // HONE_SERVICE_SERVER_STUDY_SERVICE_H_
