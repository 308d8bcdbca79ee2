// The answers of /api/v1, one function each. The JSON is described where it is
// written.
#ifndef HONE_SERVICE_WEB_ANSWERS_H_
#define HONE_SERVICE_WEB_ANSWERS_H_

#include "absl/status/statusor.h"
#include "service/http/http_message.h"
#include "service/web/answer.h"

namespace hone {

// status_answers.cc
absl::StatusOr<HttpResponse> StatusAnswer(const WebParts& parts,
                                          const HttpRequest& request);
absl::StatusOr<HttpResponse> ClassesAnswer(const WebParts& parts,
                                           const HttpRequest& request);

// layer_answers.cc
absl::StatusOr<HttpResponse> ProblemsAnswer(const WebParts& parts,
                                            const HttpRequest& request);
absl::StatusOr<HttpResponse> TableAnswerOf(const WebParts& parts,
                                           const HttpRequest& request);
absl::StatusOr<HttpResponse> CoverageAnswer(const WebParts& parts,
                                            const HttpRequest& request);

// trial_answers.cc
absl::StatusOr<HttpResponse> TrialsAnswer(const WebParts& parts,
                                          const HttpRequest& request);
absl::StatusOr<HttpResponse> TrialAnswer(const WebParts& parts,
                                         const HttpRequest& request);
absl::StatusOr<HttpResponse> SourceAnswer(const WebParts& parts,
                                          const HttpRequest& request);

// history_answers.cc
absl::StatusOr<HttpResponse> SessionsAnswer(const WebParts& parts,
                                            const HttpRequest& request);
absl::StatusOr<HttpResponse> NoiseAnswer(const WebParts& parts,
                                         const HttpRequest& request);
absl::StatusOr<HttpResponse> RegressionsAnswer(const WebParts& parts,
                                               const HttpRequest& request);

}  // namespace hone

#endif  // HONE_SERVICE_WEB_ANSWERS_H_
