#include "service/http/http_message.h"

#include <arpa/inet.h>
#include <zlib.h>

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "db/json.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// In a query '+' is a space.
absl::StatusOr<std::string> Decode(absl::string_view text, bool is_query) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return absl::InvalidArgumentError(
            "the URL has a % without two hex digits");
      }
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(is_query && text[i] == '+' ? ' ' : text[i]);
    }
  }
  if (!IsUtf8(out) || absl::StrContains(out, absl::string_view("\0", 1))) {
    return absl::InvalidArgumentError("the URL is not UTF-8 text");
  }
  return out;
}

bool IsIpAddress(absl::string_view host) {
  const std::string text(host);
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

// "host", "host:port", "[v6]" and "[v6]:port" in their two parts; false when
// it is none of them.
bool SplitHost(absl::string_view text, absl::string_view& host,
               absl::string_view& port) {
  port = "";
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t end = text.find(']');
    if (end == text.npos) return false;
    host = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (text.empty()) return true;
    if (!absl::ConsumePrefix(&text, ":")) return false;
    port = text;
    return true;
  }
  const size_t colon = text.find(':');
  host = text.substr(0, colon);
  if (colon != text.npos) port = text.substr(colon + 1);
  return !host.empty() && !absl::StrContains(port, ':');
}

}  // namespace

HttpResponse HttpError(int status, absl::string_view field,
                       absl::string_view message) {
  const auto text = [](absl::string_view value) {
    return Json(IsUtf8(value) ? std::string(value) : "(not UTF-8)");
  };
  HttpResponse response;
  response.status = status;
  response.body = WriteJson(Json(JsonObject{
      {"error",
       Json(JsonObject{{"field", text(field)}, {"message", text(message)}})}}));
  return response;
}

absl::StatusOr<HttpRequest> ParseTarget(absl::string_view target) {
  HttpRequest request;
  if (!absl::StartsWith(target, "/")) {
    return absl::InvalidArgumentError("the URL must start with /");
  }
  const size_t mark = target.find('?');
  HONE_ASSIGN_OR_RETURN(request.path, Decode(target.substr(0, mark), false));
  if (mark == target.npos) return request;
  for (absl::string_view part :
       absl::StrSplit(target.substr(mark + 1), '&', absl::SkipEmpty())) {
    const size_t equals = part.find('=');
    HONE_ASSIGN_OR_RETURN(std::string name,
                          Decode(part.substr(0, equals), true));
    std::string value;
    if (equals != part.npos) {
      HONE_ASSIGN_OR_RETURN(value, Decode(part.substr(equals + 1), true));
    }
    request.query.emplace_back(std::move(name), std::move(value));
  }
  return request;
}

bool IsLoopbackHost(absl::string_view host) {
  if (absl::EqualsIgnoreCase(host, "localhost")) return true;
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1)
    return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<HttpAddress> ParseHttpAddress(absl::string_view listen,
                                             bool insecure) {
  absl::string_view host;
  absl::string_view port;
  HttpAddress address;
  if (!SplitHost(listen, host, port) || host.empty() ||
      !absl::SimpleAtoi(port, &address.port) || address.port < 0 ||
      address.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--http is \"", listen,
                     "\"; it must be host:port or [v6]:port with a port from 0 "
                     "to 65535"));
  }
  if (!insecure && !IsLoopbackHost(host)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--http is \"", listen,
        "\", which other machines can reach, and honed would neither encrypt "
        "nor authenticate; give --insecure to listen there all the same"));
  }
  address.host = std::string(host);
  return address;
}

bool IsOurHost(absl::string_view host_header, absl::string_view listen_host,
               absl::string_view hostname) {
  absl::string_view host;
  absl::string_view port;
  int number = 0;
  if (!SplitHost(host_header, host, port) ||
      (!port.empty() && !absl::SimpleAtoi(port, &number))) {
    return false;
  }
  if (IsLoopbackHost(host) || absl::EqualsIgnoreCase(host, listen_host))
    return true;
  if (IsLoopbackHost(listen_host)) return false;
  return IsIpAddress(host) ||
         (!hostname.empty() && absl::EqualsIgnoreCase(host, hostname));
}

bool EtagMatches(absl::string_view if_none_match, absl::string_view etag) {
  for (absl::string_view tag : absl::StrSplit(if_none_match, ',')) {
    tag = absl::StripAsciiWhitespace(tag);
    if (tag == "*") return true;
    absl::ConsumePrefix(&tag, "W/");
    if (absl::ConsumePrefix(&tag, "\"") && absl::ConsumeSuffix(&tag, "\"") &&
        tag == etag) {
      return true;
    }
  }
  return false;
}

bool AcceptsGzip(absl::string_view accept_encoding) {
  for (absl::string_view part : absl::StrSplit(accept_encoding, ',')) {
    const std::vector<absl::string_view> pieces = absl::StrSplit(part, ';');
    if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(pieces[0]), "gzip"))
      continue;
    double quality = 1;
    for (size_t i = 1; i < pieces.size(); ++i) {
      absl::string_view piece = absl::StripAsciiWhitespace(pieces[i]);
      if (absl::ConsumePrefix(&piece, "q=") &&
          !absl::SimpleAtod(piece, &quality)) {
        quality = 0;
      }
    }
    return quality > 0;
  }
  return false;
}

std::string Gzip(absl::string_view bytes, int level) {
  z_stream stream{};
  // 15 bits of window; 16 asks for gzip's frame.
  deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY);
  std::string out;
  out.resize(deflateBound(&stream, bytes.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace hone
