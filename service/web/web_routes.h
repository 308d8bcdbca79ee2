// Every path that honed's HTTP server answers: the pages (dashboards/web,
// embedded) and the JSON they are made from. Everything only reads.
#ifndef HONE_SERVICE_WEB_WEB_ROUTES_H_
#define HONE_SERVICE_WEB_WEB_ROUTES_H_

#include <vector>

#include "service/http/http_server.h"
#include "service/web/answer.h"

namespace hone {

// What `parts` points to must outlive the server.
std::vector<HttpRoute> WebRoutes(WebParts parts);

}  // namespace hone

#endif  // HONE_SERVICE_WEB_WEB_ROUTES_H_
