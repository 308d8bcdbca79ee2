// Every asynchronous instruction computes what the PTX ISA says, under every
// schedule; and what hardware once returned, in vectors/async.
#include "tests/kernels/emulator/cases/async_case.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/jit/nvrtc.h"
#include "tests/kernels/emulator/cases/async_runner.h"
#include "tests/kernels/emulator/cases/case_runner.h"

namespace hone::emulator {
namespace {

class AsyncCaseTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto nvrtc = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
    ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
    cases_ = AllAsyncCases();
    units_ = CompileAsyncSources(**nvrtc, cases_, "sm_90a");
    for (const auto& [source, unit] : units_) {
      ASSERT_TRUE(unit.status.ok()) << unit.status;
    }
  }

  static inline std::vector<AsyncCase> cases_;
  static inline std::map<std::string, CompiledUnit> units_;
};

TEST_F(AsyncCaseTest, ComputesUnderEverySchedule) {
  std::set<std::string> names;
  for (const AsyncCase& c : cases_) {
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(names.insert(c.name).second);
    if (!c.refusal.empty()) continue;
    for (const CopyLanding landing :
         {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        Options options;
        options.landing = landing;
        options.seed = seed;
        options.max_instructions = 10'000'000;
        const auto got =
            EmulateAsyncCase(c, *units_.at(c.source).module, options);
        ASSERT_TRUE(got.ok()) << got.status();
        ASSERT_EQ(CompareOutputs(c, *got, c.expected, c.emulator_bound).first,
                  "");
      }
    }
  }
}

TEST_F(AsyncCaseTest, RefusesWhatTheIsaForbids) {
  for (const AsyncCase& c : cases_) {
    if (c.refusal.empty()) continue;
    SCOPED_TRACE(c.name);
    for (const CopyLanding landing :
         {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
      Options options;
      options.landing = landing;
      const auto got =
          EmulateAsyncCase(c, *units_.at(c.source).module, options);
      ASSERT_FALSE(got.ok());
      EXPECT_TRUE(absl::IsAborted(got.status()));
      EXPECT_THAT(std::string(got.status().message()),
                  testing::HasSubstr(c.refusal));
    }
  }
}

TEST_F(AsyncCaseTest, ComparisonsNoticeOneWrongBit) {
  for (const AsyncCase& c : cases_) {
    std::vector<uint8_t> got = c.expected;
    // The sign of the last element, or, of floats that might be 0, a bit of
    // its exponent.
    got.back() ^= c.compare == Compare::kBits ? 1 : 0x40;
    EXPECT_FALSE(CompareOutputs(c, got, c.expected, c.device_bound).same)
        << c.name;
  }
}

// What a GPU returned, the emulator returns today, within the same bounds.
TEST_F(AsyncCaseTest, AgreesWithRecordedHardware) {
  size_t replayed = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(HONE_EMULATOR_VECTORS "/async")) {
    if (entry.path().extension() != ".jsonl") continue;
    SCOPED_TRACE(entry.path().filename().string());
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto file = ReadVectors(text.str());
    ASSERT_TRUE(file.ok()) << file.status();
    for (const CaseVector& vector : file->cases) {
      SCOPED_TRACE(vector.name);
      const auto c = std::find_if(
          cases_.begin(), cases_.end(),
          [&](const AsyncCase& x) { return x.name == vector.name; });
      ASSERT_NE(c, cases_.end());
      // What is not forbidden works there.
      if (!c->refusal.empty()) continue;
      EXPECT_EQ(vector.status, "same");
      ++replayed;
      const auto got =
          EmulateAsyncCase(*c, *units_.at(c->source).module, Options());
      ASSERT_TRUE(got.ok()) << got.status();
      if (c->compare == Compare::kBits) {
        EXPECT_EQ(KeptOutputs(*c, *got), vector.outputs);
      } else {
        EXPECT_EQ(CompareOutputs(*c, *got, BytesOfVector(vector.outputs),
                                 c->device_bound)
                      .first,
                  "");
      }
    }
  }
  EXPECT_GE(replayed, 100u);
}

}  // namespace
}  // namespace hone::emulator
