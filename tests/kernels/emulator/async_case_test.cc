// Every asynchronous instruction computes what the PTX ISA says, under every
// schedule.
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/emulator/async_test_support.h"

namespace hone::emulator {
namespace {

TEST(AsyncCaseTest, ComputesUnderEverySchedule) {
  std::map<std::string, Module> modules;  // by source
  for (AsyncCase& c : AllAsyncCases()) {
    SCOPED_TRACE(c.name);
    const auto it = modules.find(c.source);
    const Module module =
        it != modules.end() ? it->second : CompileSource("case.cu", c.source);
    modules.emplace(c.source, module);
    for (const CopyLanding landing :
         {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        auto buffers = c.buffers;
        Bindings bindings;
        for (auto& [role, bytes] : buffers) {
          bindings[role] = BufferOf(bytes, role == BufferRole::kC);
        }
        Options options;
        options.landing = landing;
        options.seed = seed;
        options.max_instructions = 10'000'000;
        const auto stats = Execute(module, c.plan, bindings, options);
        ASSERT_TRUE(stats.ok()) << stats.status();
        const std::vector<uint8_t>& got = buffers[BufferRole::kC];
        size_t wrong = 0;
        while (wrong < got.size() && got[wrong] == c.expected[wrong]) ++wrong;
        ASSERT_EQ(wrong, got.size())
            << "byte " << wrong << " is " << int{got[wrong]} << ", not "
            << int{c.expected[wrong]};
      }
    }
  }
}

}  // namespace
}  // namespace hone::emulator
