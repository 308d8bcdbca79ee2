#include "service/convert/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Errors, DetailsMakeTheRoundTrip) {
  FieldErrors errors;
  errors.Add("problem.m", "is 0; it must be at least 1");
  errors.Add("ladder[2]", "is 4; it must be above 8");
  const absl::Status sent =
      WithRetry(errors.ToStatus(), absl::Milliseconds(1500));
  const absl::Status got = StatusFromErrorDetails(sent.code(), sent.message(),
                                                  SerializeErrorDetails(sent));
  EXPECT_EQ(ReasonOf(got), "INVALID_FIELD");
  EXPECT_EQ(ViolationsOf(got), errors.violations());
  EXPECT_EQ(RetryDelayOf(got), absl::Milliseconds(1500));
  EXPECT_EQ(got.message(),
            "problem.m: is 0; it must be at least 1; "
            "ladder[2]: is 4; it must be above 8");
}

TEST(Errors, ThereIsAlwaysExactlyOneErrorInfo) {
  const absl::Status plain = absl::NotFoundError("no table");
  const absl::Status reasoned = WithReason(plain, "NO_TABLE");
  const absl::Status twice = WithReason(reasoned, "OTHER");
  for (const auto& [status, reason] :
       {std::pair<absl::Status, std::string>{plain, "NOT_FOUND"},
        {reasoned, "NO_TABLE"},
        {twice, "OTHER"}}) {
    google::rpc::Status details;
    ASSERT_TRUE(details.ParseFromString(SerializeErrorDetails(status)));
    EXPECT_EQ(details.code(), 5);
    int infos = 0;
    for (const auto& detail : details.details()) {
      google::rpc::ErrorInfo info;
      if (!detail.UnpackTo(&info)) continue;
      ++infos;
      EXPECT_EQ(info.reason(), reason);
      EXPECT_EQ(info.domain(), "hone");
    }
    EXPECT_EQ(infos, 1);
  }
}

TEST(Errors, MetadataGoesWithTheReason) {
  const absl::Status sent =
      WithReason(absl::UnimplementedError("no kernel"), "NO_KERNEL",
                 {{"field", "problem.layer.a"}, {"next_problem", "a=float16"}});
  const absl::Status got = StatusFromErrorDetails(sent.code(), sent.message(),
                                                  SerializeErrorDetails(sent));
  EXPECT_EQ(ReasonOf(got), "NO_KERNEL");
  EXPECT_THAT(MetadataOf(got), ElementsAre(Pair("field", "problem.layer.a"),
                                           Pair("next_problem", "a=float16")));
  EXPECT_THAT(MetadataOf(WithReason(got, "OTHER")), IsEmpty());
  EXPECT_THAT(MetadataOf(absl::NotFoundError("plain")), IsEmpty());
}

TEST(Errors, ValidationMessagesBecomeViolations) {
  const absl::Status status = AsFieldViolation(
      absl::InvalidArgumentError("layer.n is 0; it must be between 1 and 9"),
      "problem.");
  EXPECT_THAT(ViolationsOf(status),
              ElementsAre(FieldViolation{"problem.layer.n",
                                         "is 0; it must be between 1 and 9"}));
  const absl::Status other =
      AsFieldViolation(absl::InvalidArgumentError("no field here"), "problem.");
  EXPECT_THAT(ViolationsOf(other),
              ElementsAre(FieldViolation{"problem", "no field here"}));
  EXPECT_EQ(AsFieldViolation(absl::UnimplementedError("x"), "problem."),
            absl::UnimplementedError("x"));
}

TEST(Errors, DetailsThatCannotBeReadAreDropped) {
  const absl::Status status = StatusFromErrorDetails(
      absl::StatusCode::kUnavailable, "away", "\xff\xfe garbage");
  EXPECT_EQ(status, absl::UnavailableError("away"));
  EXPECT_THAT(ViolationsOf(status), IsEmpty());
  EXPECT_EQ(ReasonOf(absl::OkStatus()), "");
  EXPECT_TRUE(WithReason(absl::OkStatus(), "X").ok());
}

}  // namespace
}  // namespace hone
