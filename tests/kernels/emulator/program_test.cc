// Whole kernels: control flow, exchanges, barriers, atomics, memory.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {
namespace {

const Module& Programs() {
  static const Module* module =
      new Module(MustParse(ReadTestdata("programs.ptx")));
  return *module;
}

// Runs under several seeds; the result must not depend on them.
std::vector<int32_t> Result(const LaunchPlan& plan, std::vector<int32_t> a,
                            size_t outputs) {
  std::vector<int32_t> first;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<int32_t> c(outputs, -1);
    Options options;
    options.seed = seed;
    const auto stats = RunPlan(Programs(), plan, a, c, options);
    EXPECT_TRUE(stats.ok()) << stats.status();
    if (seed == 1) first = c;
    EXPECT_EQ(c, first) << "seed " << seed;
  }
  return first;
}

std::vector<int32_t> Iota(int n, int start = 0) {
  std::vector<int32_t> a(n);
  std::iota(a.begin(), a.end(), start);
  return a;
}

TEST(ProgramTest, LoopsDivergeLaneByLane) {
  const auto c =
      Result(PlanFor("collatz", {1, 1, 1}, {64, 1, 1}), Iota(64, 1), 64);
  std::vector<int32_t> want(64);
  std::vector<int32_t> total(2);
  for (int i = 0; i < 64; ++i) {
    int x = i + 1, steps = 0;
    while (x != 1) {
      if (x % 2 == 0) {
        x /= 2;
      } else {
        x = 3 * x + 1;
        if (x > 100000) break;
      }
      ++steps;
    }
    want[i] = steps;
    total[i / 32] += steps;
  }
  want[0] += 1000 * total[0];
  want[32] += 1000 * total[1];
  EXPECT_EQ(c, want);
}

TEST(ProgramTest, SwitchesReconverge) {
  std::vector<int32_t> a(64);
  for (int i = 0; i < 64; ++i) a[i] = i * 5 % 7;
  const auto c = Result(PlanFor("switches", {1, 1, 1}, {64, 1, 1}), a, 64);
  std::vector<int32_t> want(64);
  int positive[2] = {};
  for (int i = 0; i < 64; ++i) {
    int x = a[i];
    switch (x) {
      case 0:
        x = 17;
        break;
      case 1:
        x = x * 31 + i;
        break;
      case 2:
        x = -5;
        break;
      case 3:
        x = x << i % 8;
        break;
      case 4:
        x ^= 0x55;
        break;
      case 5:
        x = 900 / (i + 1);
        break;
      default:
        x = 1;
    }
    want[i] = x;
    positive[i / 32] += x > 0;
  }
  for (int i = 0; i < 64; ++i) want[i] += positive[i / 32];
  EXPECT_EQ(c, want);
}

TEST(ProgramTest, LanesReturnEarly) {
  const auto c = Result(
      PlanFor("early_return", {3, 1, 1}, {48, 1, 1}, 0, {101}), Iota(101), 101);
  for (int i = 0; i < 101; ++i) EXPECT_EQ(c[i], 2 * i);
}

TEST(ProgramTest, BlockSum) {
  const auto c = Result(PlanFor("block_sum", {5, 1, 1}, {256, 1, 1}, 1024),
                        Iota(5 * 256), 5);
  for (int b = 0; b < 5; ++b) {
    EXPECT_EQ(c[b], 256 * 256 * b + 255 * 128);
  }
}

TEST(ProgramTest, NamedBarriersHandOver) {
  const auto c = Result(
      PlanFor("producer_consumer", {1, 1, 1}, {64, 1, 1}, 128), Iota(32), 256);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(c[i], 31 - i % 32 + i / 32);
}

TEST(ProgramTest, LastArriverAddsUp) {
  for (const int threads : {1, 3}) {
    std::vector<int32_t> a = Iota(8 * 32);
    std::vector<int32_t> c(32, -1);
    std::vector<int32_t> workspace(64 + 8 * 32, 0);
    LaunchPlan plan = PlanFor("last_arriver", {8, 1, 1}, {32, 1, 1});
    plan.args.push_back(Buffer(BufferRole::kWorkspace));
    plan.workspace_bytes = workspace.size() * 4;
    plan.workspace_zeroed_bytes = 256;
    Bindings bindings;
    bindings[BufferRole::kA] = BufferOf(a, false);
    bindings[BufferRole::kC] = BufferOf(c, true, false);
    bindings[BufferRole::kWorkspace] = BufferOf(workspace, true, false);
    Options options;
    options.threads = threads;
    for (options.seed = 1; options.seed <= 5; ++options.seed) {
      const auto stats = Execute(Programs(), plan, bindings, options);
      ASSERT_TRUE(stats.ok()) << stats.status();
      for (int i = 0; i < 32; ++i) EXPECT_EQ(c[i], 8 * i + 32 * 28);
    }
    // A counter that is not zero at first, or that the kernel leaves behind.
    workspace[1] = 1;
    EXPECT_EQ(Execute(Programs(), plan, bindings, options).status().code(),
              absl::StatusCode::kInvalidArgument);
    workspace[1] = 0;
    plan.workspace_zeroed_bytes = workspace.size() * 4;
    std::fill(workspace.begin(), workspace.end(), 0);
    EXPECT_EQ(Execute(Programs(), plan, bindings, options).status().code(),
              absl::StatusCode::kAborted);
    // What the plan does not declare is out of bounds.
    std::fill(workspace.begin(), workspace.end(), 0);
    plan.workspace_zeroed_bytes = 256;
    plan.workspace_bytes -= 4;
    EXPECT_EQ(Execute(Programs(), plan, bindings, options).status().code(),
              absl::StatusCode::kAborted);
  }
}

TEST(ProgramTest, BarrierReductionsAndMatches) {
  std::vector<int32_t> a(64);
  for (int i = 0; i < 64; ++i) a[i] = i * i % 8;
  const auto c = Result(PlanFor("votes", {1, 1, 1}, {64, 1, 1}), a, 64);
  const int many =
      std::count_if(a.begin(), a.end(), [](int x) { return x > 2; });
  const bool any = std::any_of(a.begin(), a.end(), [](int x) { return x > 6; });
  for (int i = 0; i < 64; ++i) {
    const int warp = i / 32 * 32;
    const int same = std::count(a.begin() + warp, a.begin() + warp + 32, a[i]);
    EXPECT_EQ(c[i], many + 100 + 1000 * any + (same << 16));
  }
}

TEST(ProgramTest, LocalConstantAndModuleMemory) {
  const int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
  std::vector<int32_t> a(64);
  for (int i = 0; i < 64; ++i) a[i] = i * 11 % 16;
  const auto c = Result(PlanFor("tables", {1, 1, 1}, {64, 1, 1}), a, 64);
  for (int t = 0; t < 64; ++t) {
    int local[16];
    for (int i = 0; i < 16; ++i) local[(i * 7 + a[t]) % 16] = table[i];
    int x = 0;
    for (int i = 0; i < 16; ++i) x = x * 3 + local[(i + a[(t + 1) % 64]) % 16];
    // Every launch starts from the module's initial values.
    EXPECT_EQ(c[t], x + 10 * (t % 4 + 1) + 16);
  }
}

TEST(ProgramTest, SharedAtomics) {
  std::vector<int32_t> a(64);
  for (int i = 0; i < 64; ++i) a[i] = i % 7;
  const auto c =
      Result(PlanFor("shared_atomics", {1, 1, 1}, {64, 1, 1}), a, 64);
  for (int t = 0; t < 64; ++t) {
    const int bin = t % 8;
    EXPECT_EQ(c[t], bin == 7 ? 6 : std::count(a.begin(), a.end(), bin));
  }
}

TEST(ProgramTest, CopiesFillWithZeros) {
  const auto c = Result(PlanFor("zero_fill", {1, 1, 1}, {32, 1, 1}, 512, {102}),
                        Iota(102, 1), 128);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(c[i], i < 102 ? i + 1 : 0);
}

}  // namespace
}  // namespace hone::emulator
