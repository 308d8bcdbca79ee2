#include "service/http/http_message.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(ParseTargetTest, DecodesPathAndQuery) {
  const auto request =
      ParseTarget("/a%2Fb?x=1%2C2&text=a%20b+c%C3%97&x=2&flag&=v");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->path, "/a/b");
  EXPECT_THAT(request->query,
              ElementsAre(Pair("x", "1,2"), Pair("text", "a b c\xC3\x97"),
                          Pair("x", "2"), Pair("flag", ""), Pair("", "v")));
  EXPECT_EQ(ParseTarget("/a+b")->path, "/a+b");
  EXPECT_THAT(ParseTarget("/?")->query, IsEmpty());
}

TEST(ParseTargetTest, RefusesWhatIsNoText) {
  for (const char* target : {"", "a", "*", "http://localhost/", "/%", "/%4",
                             "/%zz", "/%ff", "/?a=%c3", "/%00", "/?a=%00"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTarget(target).status()))
        << target;
  }
}

TEST(HttpAddressTest, IsLoopbackUnlessInsecure) {
  for (const char* listen : {"127.0.0.1:0", "127.1.2.3:80", "localhost:8686",
                             "LOCALHOST:1", "[::1]:65535"}) {
    EXPECT_TRUE(ParseHttpAddress(listen, false).ok()) << listen;
  }
  for (const char* listen :
       {"0.0.0.0:80", "[::]:80", "10.0.0.1:80", "127.evil.example:80",
        "localhost.evil.example:80"}) {
    EXPECT_THAT(ParseHttpAddress(listen, false).status().message(),
                HasSubstr("--insecure"))
        << listen;
    EXPECT_TRUE(ParseHttpAddress(listen, true).ok()) << listen;
  }
  EXPECT_EQ(ParseHttpAddress("[::1]:7", false)->host, "::1");
  EXPECT_EQ(ParseHttpAddress("[::1]:7", false)->port, 7);
  for (const char* listen :
       {"", "localhost", "localhost:", ":80", "localhost:x", "localhost:65536",
        "localhost:-1", "::1:80", "[::1]", "/run/honed.sock"}) {
    EXPECT_THAT(ParseHttpAddress(listen, true).status().message(),
                HasSubstr("host:port"))
        << listen;
  }
}

TEST(HostTest, OnlyOursOnLoopback) {
  for (const char* host :
       {"localhost", "LocalHost:9", "127.0.0.1", "127.0.0.1:8686", "127.9.9.9",
        "[::1]", "[::1]:8686"}) {
    EXPECT_TRUE(IsOurHost(host, "127.0.0.1", "node7")) << host;
  }
  for (const char* host :
       {"", ":80", "evil.example", "evil.example:8686",
        "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "node7",
        "localhost:x", "[::1", "::1", "a:1:2"}) {
    EXPECT_FALSE(IsOurHost(host, "127.0.0.1", "node7")) << host;
  }
}

// A name must be ours; an address cannot be made to point here.
TEST(HostTest, AddressesAndOurNamesBeyondLoopback) {
  for (const char* host : {"10.0.0.1:80", "[fe80::1]", "node7:80", "NODE7",
                           "gpu.example:80", "localhost"}) {
    EXPECT_TRUE(IsOurHost(host, "gpu.example", "node7")) << host;
  }
  for (const char* host : {"evil.example", "node7.evil.example", "node8"}) {
    EXPECT_FALSE(IsOurHost(host, "0.0.0.0", "node7")) << host;
  }
  EXPECT_FALSE(IsOurHost("", "0.0.0.0", ""));
}

TEST(ForeignTest, OnlyLinksToTheStartAreFollowedFromElsewhere) {
  EXPECT_FALSE(IsForeign("", "", "", "/api"));
  EXPECT_FALSE(IsForeign("same-origin", "cors", "empty", "/api"));
  EXPECT_FALSE(IsForeign("none", "navigate", "document", "/metrics"));
  EXPECT_FALSE(IsForeign("cross-site", "navigate", "document", "/"));
  EXPECT_TRUE(IsForeign("cross-site", "navigate", "document", "/api"));
  EXPECT_TRUE(IsForeign("cross-site", "navigate", "iframe", "/"));
  EXPECT_TRUE(IsForeign("cross-site", "no-cors", "script", "/"));
}

TEST(EtagTest, IsAmongThoseNamed) {
  EXPECT_TRUE(EtagMatches("\"a\"", "a"));
  EXPECT_TRUE(EtagMatches("W/\"a\"", "a"));
  EXPECT_TRUE(EtagMatches("\"b\" , W/\"a\"", "a"));
  EXPECT_TRUE(EtagMatches("*", "a"));
  EXPECT_FALSE(EtagMatches("", "a"));
  EXPECT_FALSE(EtagMatches("a", "a"));
  EXPECT_FALSE(EtagMatches("\"aa\", \"b\"", "a"));
}

TEST(GzipTest, IsTakenOnlyWhenAccepted) {
  EXPECT_TRUE(AcceptsGzip("gzip"));
  EXPECT_TRUE(AcceptsGzip("br, GZIP;q=0.5, deflate"));
  EXPECT_FALSE(AcceptsGzip(""));
  EXPECT_FALSE(AcceptsGzip("br, gzipped"));
  EXPECT_FALSE(AcceptsGzip("gzip;q=0"));
  EXPECT_FALSE(AcceptsGzip("gzip; q=0.0"));
  EXPECT_FALSE(AcceptsGzip("gzip;q=x"));
}

TEST(HttpErrorTest, NamesTheField) {
  const HttpResponse error = HttpError(400, "m", "is \"x\"\n");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.body,
            "{\"error\":{\"field\":\"m\",\"message\":\"is \\\"x\\\"\\n\"}}");
  EXPECT_THAT(HttpError(400, "\xff", "").body, HasSubstr("(not UTF-8)"));
}

}  // namespace
}  // namespace hone
