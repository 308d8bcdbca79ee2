// One HTTP/1.1 request over a socket of its own, exactly as written.
#ifndef HONE_TESTS_SERVICE_SUPPORT_HTTP_CLIENT_H_
#define HONE_TESTS_SERVICE_SUPPORT_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hone {

struct HttpReply {
  int status = 0;  // 0: the server closed without an answer
  // By name in lower case.
  std::map<std::string, std::string> headers;
  std::string body;
};

// A socket connected to "127.0.0.1:port".
inline int ConnectTo(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// Sends `text` and reads until the server closes.
inline HttpReply SendHttp(const std::string& address, const std::string& text) {
  const int fd = ConnectTo(address);
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n =
        send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  std::string all;
  char buffer[65536];
  for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;)
    all.append(buffer, static_cast<size_t>(n));
  close(fd);
  HttpReply reply;
  const size_t end = all.find("\r\n\r\n");
  if (end == all.npos) return reply;
  reply.body = all.substr(end + 4);
  std::vector<std::string> lines = absl::StrSplit(all.substr(0, end), "\r\n");
  EXPECT_TRUE(absl::SimpleAtoi(lines[0].substr(9, 3), &reply.status)) << all;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    reply.headers[absl::AsciiStrToLower(lines[i].substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)));
  }
  return reply;
}

// `headers` are whole lines, each with its "\r\n".
inline HttpReply HttpGet(const std::string& address, const std::string& target,
                         const std::string& headers = "",
                         const std::string& method = "GET") {
  return SendHttp(
      address, absl::StrCat(method, " ", target, " HTTP/1.1\r\nHost: ", address,
                            "\r\nConnection: close\r\n", headers, "\r\n"));
}

inline std::string Gunzip(const std::string& bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  char buffer[65536];
  int code = Z_OK;
  while (code == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    code = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  EXPECT_EQ(code, Z_STREAM_END);
  inflateEnd(&stream);
  return out;
}

}  // namespace hone

#endif  // HONE_TESTS_SERVICE_SUPPORT_HTTP_CLIENT_H_
