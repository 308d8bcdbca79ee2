// A server on loopback, asked over sockets.
#include "service/http/http_server.h"

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/support/http_client.h"

namespace hone {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::unique_ptr<HttpServer> Serve(std::vector<HttpRoute> routes,
                                  const HttpLimits& limits = {}) {
  auto server =
      HttpServer::Start("127.0.0.1:0", false, std::move(routes), limits);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

HttpRoute Text(std::string path, std::string body) {
  return {std::move(path), [body = std::move(body)](const HttpRequest&) {
            HttpResponse response;
            response.content_type = "text/plain; charset=utf-8";
            response.body = body;
            return response;
          }};
}

// A request with this Host line, or several, or none.
HttpReply GetAs(const HttpServer& server, const std::string& host_lines) {
  return SendHttp(server.address(), "GET / HTTP/1.1\r\n" + host_lines +
                                        "Connection: close\r\n\r\n");
}

TEST(HttpServerTest, AnswersAPathWithItsHandler) {
  const auto server = Serve(
      {Text("/", "home"), {"/echo", [](const HttpRequest& request) {
                             HttpResponse response;
                             response.body = request.method + request.path;
                             for (const auto& [name, value] : request.query)
                               response.body += "|" + name + "=" + value;
                             return response;
                           }}});
  HttpReply reply = HttpGet(server->address(), "/");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "home");
  EXPECT_EQ(reply.headers["content-type"], "text/plain; charset=utf-8");
  reply = HttpGet(server->address(), "/echo?a=%7B1%7D&b=+x");
  EXPECT_EQ(reply.body, "GET/echo|a={1}|b= x");
  EXPECT_EQ(reply.headers["content-type"], "application/json");
}

TEST(HttpServerTest, EveryAnswerKeepsThePageToItself) {
  const auto server = Serve({Text("/", "home")});
  for (const char* target : {"/", "/nothing"}) {
    HttpReply reply = HttpGet(server->address(), target);
    EXPECT_EQ(
        reply.headers["content-security-policy"],
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'");
    EXPECT_EQ(reply.headers["x-content-type-options"], "nosniff");
    EXPECT_EQ(reply.headers["referrer-policy"], "no-referrer");
    EXPECT_EQ(reply.headers["cross-origin-resource-policy"], "same-origin");
    EXPECT_EQ(reply.headers["cache-control"], "no-cache");
    EXPECT_EQ(reply.headers.count("access-control-allow-origin"), 0u);
  }
}

TEST(HttpServerTest, AnswersHeadWithoutBody) {
  const auto server = Serve({Text("/", "home")});
  HttpReply reply = HttpGet(server->address(), "/", "", "HEAD");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, IsEmpty());
  EXPECT_EQ(reply.headers["content-length"], "4");
}

TEST(HttpServerTest, ChangesNothing) {
  std::atomic<int> calls = 0;
  const auto server = Serve({{"/", [&calls](const HttpRequest&) {
                                ++calls;
                                return HttpResponse();
                              }}});
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    HttpReply reply = HttpGet(server->address(), "/", "", method);
    EXPECT_EQ(reply.status, 405) << method;
    EXPECT_EQ(reply.headers["allow"], "GET, HEAD");
    EXPECT_THAT(reply.body, HasSubstr("\"field\":\"method\""));
    reply = HttpGet(server->address(), "/", "Content-Length: 4\r\n", method);
    EXPECT_EQ(reply.status, 405) << method;
  }
  EXPECT_EQ(HttpGet(server->address(), "/", "Content-Length: 3\r\n").status,
            400);
  EXPECT_EQ(
      HttpGet(server->address(), "/", "Transfer-Encoding: chunked\r\n").status,
      400);
  EXPECT_EQ(calls, 0);
}

TEST(HttpServerTest, RefusesOtherHosts) {
  const auto server = Serve({Text("/", "home")});
  EXPECT_EQ(GetAs(*server, "Host: localhost:1234\r\n").status, 200);
  EXPECT_EQ(GetAs(*server, "Host: [::1]\r\n").status, 200);
  const HttpReply reply = GetAs(*server, "Host: evil.example:8686\r\n");
  EXPECT_EQ(reply.status, 403);
  EXPECT_THAT(reply.body, HasSubstr("\"field\":\"Host\""));
  EXPECT_THAT(reply.body, Not(HasSubstr("home")));
  EXPECT_EQ(GetAs(*server, "Host: localhost\r\nHost: evil.example\r\n").status,
            403);
  EXPECT_NE(GetAs(*server, "").status, 200);
  EXPECT_EQ(SendHttp(server->address(), "GET / HTTP/1.0\r\n\r\n").status, 403);
}

TEST(HttpServerTest, ARouteMayAnswerByAnyName) {
  HttpRoute open = Text("/metrics", "counts");
  open.any_name = true;
  const auto server = Serve({Text("/", "home"), open});
  const auto get = [&](const std::string& target, const std::string& lines) {
    return SendHttp(server->address(), "GET " + target + " HTTP/1.1\r\n" +
                                           lines + "Connection: close\r\n\r\n");
  };
  const std::string host = "Host: node7.gpu.example:8686\r\n";
  EXPECT_EQ(get("/metrics", host).body, "counts");
  EXPECT_EQ(get("/metrics?x=1", host).status, 200);
  EXPECT_EQ(get("/metrics", host + host).status, 403);
  EXPECT_EQ(get("/", host).status, 403);
  EXPECT_EQ(get("/metrics/", host).status, 403);
}

TEST(HttpServerTest, RefusesPagesOfOtherSites) {
  const auto server = Serve({Text("/", "home"), Text("/api", "x")});
  const std::string cross = "Sec-Fetch-Site: cross-site\r\n";
  const std::string link =
      cross + "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
  const HttpReply reply =
      HttpGet(server->address(), "/api",
              cross + "Sec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n");
  EXPECT_EQ(reply.status, 403);
  EXPECT_THAT(reply.body, HasSubstr("\"field\":\"Sec-Fetch-Site\""));
  EXPECT_EQ(HttpGet(server->address(), "/api", link).status, 403);
  EXPECT_EQ(HttpGet(server->address(), "/?x=1", link).status, 200);
  EXPECT_EQ(
      HttpGet(server->address(), "/api", "Sec-Fetch-Site: same-origin\r\n")
          .status,
      200);
}

TEST(HttpServerTest, NamesThePathsThatThereAre) {
  const auto server = Serve({Text("/", "home"), Text("/api", "x")});
  for (const char* path : {"/nothing", "/api/", "/..", "//", "/%2e%2e/etc"}) {
    const HttpReply reply = HttpGet(server->address(), path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_THAT(reply.body, HasSubstr("/, /api"));
  }
}

TEST(HttpServerTest, RefusesBadAndLongTargets) {
  const auto server = Serve({Text("/", "home")});
  EXPECT_EQ(HttpGet(server->address(), "/?a=%zz").status, 400);
  EXPECT_EQ(HttpGet(server->address(), "http://localhost/").status, 400);
  EXPECT_EQ(HttpGet(server->address(), "/?" + std::string(4000, 'a')).status,
            200);
  EXPECT_EQ(HttpGet(server->address(), "/?" + std::string(4095, 'a')).status,
            414);
  const int status =
      HttpGet(server->address(), "/?" + std::string(100000, 'a')).status;
  EXPECT_TRUE(status == 414 || status == 0) << status;
  const int headers =
      HttpGet(server->address(), "/", "X: " + std::string(100000, 'a') + "\r\n")
          .status;
  EXPECT_TRUE(headers == 431 || headers == 413 || headers == 0) << headers;
  // It goes on.
  EXPECT_EQ(HttpGet(server->address(), "/").status, 200);
}

TEST(HttpServerTest, SaysWhenNothingChanged) {
  std::atomic<int> version = 1;
  const auto server = Serve({{"/", [&version](const HttpRequest&) {
                                HttpResponse response;
                                response.body =
                                    std::string(5000, 'a' + version);
                                return response;
                              }}});
  HttpReply first = HttpGet(server->address(), "/");
  const std::string tag = first.headers["etag"];
  ASSERT_THAT(tag, Not(IsEmpty()));
  // The same however it is sent.
  EXPECT_EQ(HttpGet(server->address(), "/", "Accept-Encoding: gzip\r\n")
                .headers["etag"],
            tag);
  HttpReply again =
      HttpGet(server->address(), "/", "If-None-Match: " + tag + "\r\n");
  EXPECT_EQ(again.status, 304);
  EXPECT_THAT(again.body, IsEmpty());
  EXPECT_EQ(again.headers["etag"], tag);
  version = 2;
  EXPECT_EQ(
      HttpGet(server->address(), "/", "If-None-Match: " + tag + "\r\n").status,
      200);
}

// A handler that knows what its answer depends on need not make it.
TEST(HttpServerTest, TakesTheHandlersTag) {
  const auto server = Serve({{"/", [](const HttpRequest& request) {
                                HttpResponse response;
                                response.etag = "v7";
                                if (EtagMatches(request.if_none_match, "v7"))
                                  response.status = 304;
                                else
                                  response.body = "long";
                                return response;
                              }}});
  EXPECT_EQ(HttpGet(server->address(), "/").headers["etag"], "W/\"v7\"");
  const HttpReply reply =
      HttpGet(server->address(), "/", "If-None-Match: W/\"v7\"\r\n");
  EXPECT_EQ(reply.status, 304);
  EXPECT_THAT(reply.body, IsEmpty());
}

TEST(HttpServerTest, CompressesWhatIsWorthIt) {
  const std::string large(300000, 'x');
  const std::string zipped = Gzip("made before", 9);
  const auto server = Serve({Text("/large", large),
                             Text("/small", "x"),
                             {"/zipped", [zipped](const HttpRequest& request) {
                                HttpResponse response;
                                response.body = zipped;
                                response.is_gzip = true;
                                return response;
                              }}});
  HttpReply reply =
      HttpGet(server->address(), "/large", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(reply.headers["content-encoding"], "gzip");
  EXPECT_EQ(reply.headers["vary"], "Accept-Encoding");
  EXPECT_LT(reply.body.size(), large.size() / 100);
  EXPECT_EQ(Gunzip(reply.body), large);
  EXPECT_EQ(HttpGet(server->address(), "/large").body, large);
  reply = HttpGet(server->address(), "/small", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(reply.headers.count("content-encoding"), 0u);
  EXPECT_EQ(reply.body, "x");
  reply = HttpGet(server->address(), "/zipped", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(reply.headers["content-encoding"], "gzip");
  EXPECT_EQ(Gunzip(reply.body), "made before");
}

// Pages keep their connection; one answers after the other.
TEST(HttpServerTest, KeepsAConnection) {
  const auto server = Serve({Text("/", "home")});
  const HttpReply reply = SendHttp(
      server->address(),
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("homeHTTP/1.1 200"));
}

TEST(HttpServerTest, ClosesAnIdleConnection) {
  HttpLimits limits;
  limits.idle = absl::Seconds(1);
  const auto server = Serve({Text("/", "home")}, limits);
  const absl::Time start = absl::Now();
  // Half a request: the reply is the server's close.
  const HttpReply reply = SendHttp(server->address(), "GET / HT");
  EXPECT_NE(reply.status, 200);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(HttpServerTest, MoreConnectionsThanTheLimitWait) {
  HttpLimits limits;
  limits.connections = 6;
  limits.idle = absl::Seconds(1);
  const auto server = Serve({Text("/", "home")}, limits);
  std::vector<int> idle;
  for (int i = 0; i < 12; ++i) idle.push_back(ConnectTo(server->address()));
  // Those that say nothing are closed, and then this one is served.
  EXPECT_EQ(HttpGet(server->address(), "/").status, 200);
  for (const int fd : idle) close(fd);
}

TEST(HttpServerTest, HandlersRunAtOnce) {
  absl::Notification second;
  std::atomic<bool> asked = false;
  const HttpHandler wait = [&second](const HttpRequest&) {
    HttpResponse response;
    response.body = second.WaitForNotificationWithTimeout(absl::Seconds(20))
                        ? "met"
                        : "alone";
    return response;
  };
  const HttpHandler notify = [&](const HttpRequest&) {
    if (!asked.exchange(true)) second.Notify();
    return HttpResponse();
  };
  const auto server = Serve({{"/first", wait}, {"/second", notify}});
  std::string body;
  std::thread first([&] { body = HttpGet(server->address(), "/first").body; });
  // Until it is taken by another thread than the one that waits.
  std::vector<std::thread> others;
  while (!second.HasBeenNotified() && others.size() < 100) {
    others.emplace_back([&] { HttpGet(server->address(), "/second"); });
    absl::SleepFor(absl::Milliseconds(50));
  }
  first.join();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(body, "met");
}

TEST(HttpServerTest, SaysThatAnAddressIsTaken) {
  const auto server = Serve({Text("/", "home")});
  const auto second = HttpServer::Start(server->address(), false, {});
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(second.status().message(), HasSubstr(server->address()));
}

TEST(HttpServerTest, ListensOnLoopbackOnly) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      HttpServer::Start("0.0.0.0:0", false, {}).status()));
  const auto server = HttpServer::Start("0.0.0.0:0", true, {Text("/", "home")});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(GetAs(**server, "Host: 10.1.2.3\r\n").status, 200);
  EXPECT_EQ(GetAs(**server, "Host: evil.example\r\n").status, 403);
}

TEST(HttpServerTest, StopsWithOpenConnections) {
  auto server = Serve({Text("/", "home")});
  const int fd = ConnectTo(server->address());
  server = nullptr;
  char byte = 0;
  EXPECT_LE(recv(fd, &byte, 1, 0), 0);
  close(fd);
}

}  // namespace
}  // namespace hone
