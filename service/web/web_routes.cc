#include "service/web/web_routes.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/sha256.h"
#include "service/web/answers.h"

namespace hone {

// Generated from dashboards/web/dist (CMakeLists.txt).
const std::vector<std::pair<absl::string_view, absl::string_view>>& WebFiles();

namespace {

std::string ContentType(absl::string_view path) {
  return absl::StrCat(absl::EndsWith(path, ".js")    ? "text/javascript"
                      : absl::EndsWith(path, ".css") ? "text/css"
                                                     : "text/html",
                      "; charset=utf-8");
}

// A file is compressed once, not for each request.
HttpRoute FileRoute(std::string path, absl::string_view text) {
  HttpResponse plain;
  plain.content_type = ContentType(path);
  plain.body = std::string(text);
  plain.etag = Sha256Hex(text).substr(0, 32);
  HttpResponse zipped = plain;
  zipped.body = Gzip(text, 9);
  zipped.is_gzip = true;
  return {path == "/index.html" ? "/" : path,
          [plain, zipped](const HttpRequest& request) {
            return request.accepts_gzip ? zipped : plain;
          }};
}

}  // namespace

std::vector<HttpRoute> WebRoutes(WebParts parts) {
  std::vector<HttpRoute> routes;
  for (const auto& [path, text] : WebFiles()) {
    routes.push_back(
        FileRoute(std::string(path.substr(path.rfind('/'))), text));
  }
  if (parts.process.empty())
    parts.process = absl::StrCat(absl::ToUnixMicros(parts.now()));
  const auto shared = std::make_shared<const WebParts>(std::move(parts));
  using Answer =
      absl::StatusOr<HttpResponse> (*)(const WebParts&, const HttpRequest&);
  const std::pair<const char*, Answer> answers[] = {
      {"status", StatusAnswer},
      {"classes", ClassesAnswer},
      {"problems", ProblemsAnswer},
      {"table", TableAnswerOf},
      {"coverage", CoverageAnswer},
      {"trials", TrialsAnswer},
      {"trial", TrialAnswer},
      {"source", SourceAnswer},
      {"sessions", SessionsAnswer},
      {"noise", NoiseAnswer},
      {"regressions", RegressionsAnswer}};
  for (const auto& [name, answer] : answers) {
    routes.push_back({absl::StrCat("/api/v1/", name),
                      [shared, answer = answer](const HttpRequest& request) {
                        absl::StatusOr<HttpResponse> response =
                            answer(*shared, request);
                        return response.ok() ? *std::move(response)
                                             : ErrorAnswer(response.status());
                      }});
  }
  return routes;
}

}  // namespace hone
