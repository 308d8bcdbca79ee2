#include "service/http/http_server.h"

#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

// Smaller bodies gain nothing.
constexpr size_t kLeastGzipBytes = 1024;
// Above this a better ratio costs more than loopback takes to send the rest.
constexpr size_t kFastGzipBytes = size_t{1} << 20;
// Memory of one connection, for its request line and headers: twice the
// longest target that is looked at, and room for headers.
constexpr size_t kConnectionBytes = 32 << 10;
constexpr int kBacklog = 64;

constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

// What is kept of one request between libmicrohttpd's calls.
struct Exchange {
  std::string target;
  bool headers_seen = false;
};

std::string Hostname() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// A socket that listens there.
absl::StatusOr<int> Listen(const HttpAddress& address,
                           const std::string& listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(),
                      &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--http is \"", listen,
        "\", whose host names no address here: ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found,
                                                             freeaddrinfo);
  std::string why = "there is no address";
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int yes = 1;
    if (fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
        ::listen(fd, kBacklog) == 0) {
      return fd;
    }
    why = strerror(errno);
    if (fd >= 0) close(fd);
  }
  return absl::UnavailableError(
      absl::StrCat("honed cannot listen on ", listen, ": ", why));
}

int PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return 0;
  return ntohs(bound.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                   : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

std::string Header(MHD_Connection* connection, const char* name) {
  const char* value =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

int HeaderCount(MHD_Connection* connection, absl::string_view name) {
  std::pair<absl::string_view, int> count{name, 0};
  MHD_get_connection_values(
      connection, MHD_HEADER_KIND,
      [](void* data, MHD_ValueKind, const char* key, const char*) {
        auto& [wanted, n] = *static_cast<decltype(count)*>(data);
        if (absl::EqualsIgnoreCase(key, wanted)) ++n;
        return MHD_YES;
      },
      &count);
  return count.second;
}

MHD_Result Send(MHD_Connection* connection, HttpResponse answer,
                bool accepts_gzip, absl::string_view if_none_match) {
  if (answer.etag.empty()) {
    answer.etag = Sha256Hex(answer.body).substr(0, 32);
  }
  const bool matches =
      answer.status == 200 && EtagMatches(if_none_match, answer.etag);
  if (matches) answer.status = MHD_HTTP_NOT_MODIFIED;
  if (answer.status == MHD_HTTP_NOT_MODIFIED) {
    answer.body.clear();
    answer.is_gzip = false;
  } else if (!answer.is_gzip && accepts_gzip &&
             answer.body.size() > kLeastGzipBytes) {
    answer.body =
        Gzip(answer.body, answer.body.size() > kFastGzipBytes ? 1 : 6);
    answer.is_gzip = true;
  }
  auto* body = new std::string(std::move(answer.body));
  MHD_Response* response =
      MHD_create_response_from_buffer_with_free_callback_cls(
          body->size(), body->data(),
          [](void* owned) { delete static_cast<std::string*>(owned); }, body);
  if (response == nullptr) {
    delete body;
    return MHD_NO;
  }
  const auto add = [response](const char* name, const std::string& value) {
    MHD_add_response_header(response, name, value.c_str());
  };
  // Weak: gzip or not, it is the same answer.
  add("ETag", absl::StrCat("W/\"", answer.etag, "\""));
  add("Cache-Control", "no-cache");
  add("Vary", "Accept-Encoding");
  add("Content-Security-Policy", kContentPolicy);
  add("X-Content-Type-Options", "nosniff");
  add("Referrer-Policy", "no-referrer");
  add("Cross-Origin-Resource-Policy", "same-origin");
  add("Cross-Origin-Opener-Policy", "same-origin");
  if (answer.status != MHD_HTTP_NOT_MODIFIED)
    add("Content-Type", answer.content_type);
  if (answer.is_gzip) add("Content-Encoding", "gzip");
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED) add("Allow", "GET, HEAD");
  const MHD_Result queued = MHD_queue_response(
      connection, static_cast<unsigned>(answer.status), response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

struct HttpServer::Running {
  std::string listen_host;
  std::string hostname;
  HttpLimits limits;
  std::map<std::string, HttpHandler> routes;
  MHD_Daemon* daemon = nullptr;

  ~Running() {
    if (daemon != nullptr) MHD_stop_daemon(daemon);
  }

  // The answer to one request, whose method libmicrohttpd has read.
  HttpResponse Answer(MHD_Connection* connection, absl::string_view method,
                      const std::string& target, bool accepts_gzip,
                      const std::string& if_none_match) const {
    if (HeaderCount(connection, "Host") != 1 ||
        !IsOurHost(Header(connection, "Host"), listen_host, hostname)) {
      return HttpError(
          403, "Host",
          absl::StrCat("must be localhost or a loopback address",
                       IsLoopbackHost(listen_host)
                           ? ""
                           : absl::StrCat(", ", listen_host,
                                          ", this machine's name or an address "
                                          "of it"),
                       "; by other names, pages elsewhere could read this"));
    }
    if (method != "GET" && method != "HEAD") {
      return HttpError(405, "method",
                       "must be GET or HEAD; nothing here can "
                       "be changed");
    }
    if (HeaderCount(connection, "Content-Length") > 0 ||
        HeaderCount(connection, "Transfer-Encoding") > 0) {
      return HttpError(400, "body", "there must be none");
    }
    if (target.size() > limits.target_bytes) {
      return HttpError(414, "url",
                       absl::StrCat("has ", target.size(), " bytes; at most ",
                                    limits.target_bytes, " are read"));
    }
    absl::StatusOr<HttpRequest> request = ParseTarget(target);
    if (!request.ok()) return HttpError(400, "url", request.status().message());
    const auto route = routes.find(request->path);
    if (route == routes.end()) {
      std::string known;
      for (const auto& [path, handler] : routes)
        absl::StrAppend(&known, known.empty() ? "" : ", ", path);
      return HttpError(404, "path", absl::StrCat("must be one of ", known));
    }
    request->method = std::string(method);
    request->accepts_gzip = accepts_gzip;
    request->if_none_match = if_none_match;
    return route->second(*request);
  }

  static MHD_Result Handle(void* self, MHD_Connection* connection,
                           const char* url, const char* method,
                           const char* version, const char* upload_data,
                           size_t* upload_size, void** state) {
    const auto& server = *static_cast<const Running*>(self);
    auto* exchange = static_cast<Exchange*>(*state);
    const bool reads = absl::string_view(method) == "GET" ||
                       absl::string_view(method) == "HEAD";
    // The first call comes with the headers. What has a body, or may, is
    // answered there: its connection is then closed without reading it.
    if (!exchange->headers_seen) {
      exchange->headers_seen = true;
      if (reads && HeaderCount(connection, "Content-Length") == 0 &&
          HeaderCount(connection, "Transfer-Encoding") == 0) {
        return MHD_YES;
      }
    }
    const bool accepts_gzip =
        AcceptsGzip(Header(connection, "Accept-Encoding"));
    const std::string if_none_match = Header(connection, "If-None-Match");
    return Send(connection,
                server.Answer(connection, method, exchange->target,
                              accepts_gzip, if_none_match),
                accepts_gzip, if_none_match);
  }
};

HttpServer::HttpServer(std::string address, std::unique_ptr<Running> running)
    : address_(std::move(address)), running_(std::move(running)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const std::string& listen, bool insecure, std::vector<HttpRoute> routes,
    const HttpLimits& limits) {
  HONE_ASSIGN_OR_RETURN(const HttpAddress address,
                        ParseHttpAddress(listen, insecure));
  auto running = std::make_unique<Running>();
  running->listen_host = address.host;
  running->hostname = Hostname();
  running->limits = limits;
  for (HttpRoute& route : routes)
    running->routes.emplace(std::move(route.path), std::move(route.handler));
  HONE_ASSIGN_OR_RETURN(const int fd, Listen(address, listen));
  const int port = PortOf(fd);
  running->daemon = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, nullptr, nullptr,
      &Running::Handle, running.get(),  //
      MHD_OPTION_LISTEN_SOCKET, fd,     //
      MHD_OPTION_THREAD_POOL_SIZE, static_cast<unsigned>(limits.threads),
      MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(limits.connections),
      MHD_OPTION_CONNECTION_TIMEOUT,
      static_cast<unsigned>(
          std::max<int64_t>(1, absl::ToInt64Seconds(limits.idle))),
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes,
      MHD_OPTION_STRICT_FOR_CLIENT, 1,  //
      MHD_OPTION_URI_LOG_CALLBACK,
      +[](void*, const char* uri, MHD_Connection*) -> void* {
        return new Exchange{uri};
      },
      nullptr, MHD_OPTION_NOTIFY_COMPLETED,
      +[](void*, MHD_Connection*, void** state, MHD_RequestTerminationCode) {
        delete static_cast<Exchange*>(*state);
        *state = nullptr;
      },
      nullptr, MHD_OPTION_END);
  if (running->daemon == nullptr) {
    // libmicrohttpd may have closed the socket, so it is not closed again.
    return absl::UnavailableError(
        absl::StrCat("the HTTP server on ", listen, " does not start"));
  }
  std::string bound = absl::StrCat(
      absl::string_view(listen).substr(0, listen.rfind(':')), ":", port);
  return absl::WrapUnique(new HttpServer(std::move(bound), std::move(running)));
}

}  // namespace hone
