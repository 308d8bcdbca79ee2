// A small HTTP/1.1 server for pages and tools on the node: it reads, and
// changes nothing.
//
// GET and HEAD of exact paths. Every answer has an ETag, is checked again by
// the browser (no-cache), is gzip when that pays, and carries headers that let
// a page load only its own files and no other page embed or read it. Requests
// with another Host than ours are refused, so that no page elsewhere reads an
// answer by pointing its own name here.
#ifndef HONE_SERVICE_HTTP_HTTP_SERVER_H_
#define HONE_SERVICE_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/http/http_message.h"

namespace hone {

// Must be thread-safe.
using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

// One exact path.
struct HttpRoute {
  std::string path;
  HttpHandler handler;
  // Whether requests by whatever name are answered (see IsOurHost()): pages
  // elsewhere may then read it.
  bool any_name = false;
};

struct HttpLimits {
  // Handlers at once.
  int threads = 3;
  // More wait to be accepted.
  int connections = 64;
  // A connection that neither sends nor takes anything for so long is closed.
  absl::Duration idle = absl::Seconds(20);
  // Bytes of path and query; longer is 414.
  size_t target_bytes = 4096;
};

// Thread-safe.
class HttpServer {
 public:
  // `listen` is "host:port" or "[v6]:port"; port 0 picks one. InvalidArgument:
  // it is neither, names no address, or is not loopback and not `insecure`.
  // Unavailable: it is taken.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const std::string& listen, bool insecure, std::vector<HttpRoute> routes,
      const HttpLimits& limits = {});
  // Waits for the handlers that run, then closes every connection.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "host:port" with the port that was picked.
  const std::string& address() const { return address_; }

 private:
  struct Running;
  HttpServer(std::string address, std::unique_ptr<Running> running);

  const std::string address_;
  const std::unique_ptr<Running> running_;
};

}  // namespace hone

#endif  // HONE_SERVICE_HTTP_HTTP_SERVER_H_
