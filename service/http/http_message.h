// Requests and answers of the HTTP server, and what is decided about them
// without a socket.
#ifndef HONE_SERVICE_HTTP_HTTP_MESSAGE_H_
#define HONE_SERVICE_HTTP_HTTP_MESSAGE_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone {

struct HttpRequest {
  // "GET" or "HEAD"; a handler answers both alike.
  std::string method;
  // Decoded, without the query.
  std::string path;
  // Decoded, in the order given.
  std::vector<std::pair<std::string, std::string>> query;
  // The header's text; empty without one.
  std::string if_none_match;
  bool accepts_gzip = false;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  // Without quotes; what changes when the answer does. Empty: made from the
  // body.
  std::string etag;
  // The body is gzip already. Only for a request that accepts it.
  bool is_gzip = false;
};

// {"error":{"field":...,"message":...}}.
HttpResponse HttpError(int status, absl::string_view field,
                       absl::string_view message);

// The path and query of a request's target, "/a?b=c". InvalidArgument: it is
// no path, or a %-escape is not one, or what is escaped is not UTF-8 or has a
// zero byte.
absl::StatusOr<HttpRequest> ParseTarget(absl::string_view target);

// Where to listen.
struct HttpAddress {
  // Without the brackets of IPv6.
  std::string host;
  int port = 0;
};
// "host:port" or "[v6]:port", port 0 to 65535. InvalidArgument, also when
// others could reach it and it is not `insecure`.
absl::StatusOr<HttpAddress> ParseHttpAddress(absl::string_view listen,
                                             bool insecure);

// "localhost" or an address of the loopback interface, without brackets.
bool IsLoopbackHost(absl::string_view host);

// Whether a request with this Host header is meant for a server that listens
// on `listen_host`. A page whose name was made to point here (DNS rebinding)
// has another name: only localhost, loopback addresses, `listen_host`, and,
// where that is not loopback, addresses and this machine's `hostname` are ours.
bool IsOurHost(absl::string_view host_header, absl::string_view listen_host,
               absl::string_view hostname);

// Whether an If-None-Match header names the tag (without quotes).
bool EtagMatches(absl::string_view if_none_match, absl::string_view etag);

// Whether an Accept-Encoding header accepts gzip.
bool AcceptsGzip(absl::string_view accept_encoding);

// `level` 1 (fast) to 9 (small).
std::string Gzip(absl::string_view bytes, int level);

}  // namespace hone

#endif  // HONE_SERVICE_HTTP_HTTP_MESSAGE_H_
