#include "service/flags/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace hone {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  absl::Status status;
  std::string address = "default";
  int64_t jobs = 4;
  bool force = false;
  absl::Duration budget = absl::Seconds(120);
  std::vector<std::string> names;
  std::vector<std::string> positional;
};

Parsed Parse(const std::vector<std::string>& args,
             const std::map<std::string, std::string>& env = {}) {
  Parsed out;
  FlagSet flags;
  flags.String("address", "ADDRESS", "where", &out.address, "HONE_ADDRESS");
  flags.Int("jobs", "how many", &out.jobs, 1, 8, "HONE_JOBS");
  flags.Switch("force", "really", &out.force, "HONE_FORCE");
  flags.Duration("budget", "how long", &out.budget, absl::Seconds(1),
                 absl::Hours(1));
  flags.Strings("name", "NAME", "which", &out.names);
  out.status = flags.Parse(
      args,
      [&](const char* name) -> const char* {
        const auto it = env.find(name);
        return it == env.end() ? nullptr : it->second.c_str();
      },
      &out.positional);
  return out;
}

TEST(Flags, FlagsBeatTheEnvironmentWhichBeatsTheDefault) {
  EXPECT_EQ(Parse({}).address, "default");
  EXPECT_EQ(Parse({}, {{"HONE_ADDRESS", "env"}}).address, "env");
  EXPECT_EQ(Parse({}, {{"HONE_ADDRESS", ""}}).address, "default");
  EXPECT_EQ(Parse({"--address=flag"}, {{"HONE_ADDRESS", "env"}}).address,
            "flag");
  EXPECT_TRUE(Parse({}, {{"HONE_FORCE", "1"}}).force);
  EXPECT_FALSE(Parse({"--force=false"}, {{"HONE_FORCE", "true"}}).force);
  EXPECT_THAT(std::string(Parse({}, {{"HONE_FORCE", "x"}}).status.message()),
              HasSubstr("HONE_FORCE"));
}

TEST(Flags, ValuesMayFollowAfterASpace) {
  const Parsed parsed = Parse({"--jobs", "7", "file", "--force", "--name", "a",
                               "--name=b", "--budget", "90s", "--", "--jobs"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.jobs, 7);
  EXPECT_TRUE(parsed.force);
  EXPECT_EQ(parsed.budget, absl::Seconds(90));
  EXPECT_THAT(parsed.names, ElementsAre("a", "b"));
  EXPECT_THAT(parsed.positional, ElementsAre("file", "--jobs"));
}

TEST(Flags, ErrorsNameTheFlagAndTheLegalValues) {
  const auto error = [](const Parsed& parsed) {
    EXPECT_EQ(parsed.status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(parsed.status.message());
  };
  EXPECT_EQ(error(Parse({"--jobs=9"})),
            "--jobs is \"9\"; it must be an integer between 1 and 8");
  EXPECT_EQ(error(Parse({}, {{"HONE_JOBS", "x"}})),
            "HONE_JOBS is \"x\"; it must be an integer between 1 and 8");
  EXPECT_THAT(error(Parse({"--budget=0s"})), HasSubstr("between 1s and 1h"));
  EXPECT_THAT(error(Parse({"--force=maybe"})), HasSubstr("true or false"));
  EXPECT_THAT(error(Parse({"--nope"})), HasSubstr("there are --address"));
  EXPECT_THAT(error(Parse({"-x"})), HasSubstr("no flag -x"));
  EXPECT_THAT(error(Parse({"--address"})), HasSubstr("needs a value"));
}

}  // namespace
}  // namespace hone
