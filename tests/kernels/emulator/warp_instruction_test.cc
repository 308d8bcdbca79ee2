// Shuffles, votes, reductions and elections of one warp.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/emulator/instruction_test_support.h"

namespace hone::emulator {
namespace {

TEST(WarpTest, ShufflesVotesAndReductions) {
  std::vector<U> operands = MakeOperands(32);
  const auto value = [&](int lane) { return U32(operands[3 * lane]); };
  const auto run = [&](const std::string& text) {
    return RunInstruction(text, 32, 32, operands);
  };
  const auto up = run("shfl.sync.up.b32 d|s, a, 3, 0, -1;");
  const auto down = run("shfl.sync.down.b32 d, a, 5, 31, -1;");
  const auto butterfly = run("shfl.sync.bfly.b32 d, a, 8, 31, -1;");
  // Segments of 8 lanes: their mask above, the clamp below.
  const auto segment = run("shfl.sync.idx.b32 d, a, 2, 0x181f, -1;");
  const auto predicate =
      run("shfl.sync.up.b32 e|s, a, 3, 0, -1; selp.b32 d, 1, 0, s;");
  uint32_t odd = 0, sum = 0, all = ~0u;
  int32_t least = INT32_MAX;
  for (int lane = 0; lane < 32; ++lane) {
    odd |= (value(lane) & 1) << lane;
    sum += value(lane);
    all &= value(lane);
    least = std::min(least, static_cast<int32_t>(value(lane)));
  }
  const auto ballot = run("vote.sync.ballot.b32 d, p, -1;");
  const auto any = run("vote.sync.any.pred s, p, -1; selp.b32 d, 1, 0, s;");
  const auto add = run("redux.sync.add.u32 d, a, -1;");
  const auto low = run("redux.sync.min.s32 d, a, -1;");
  const auto conjunction = run("redux.sync.and.b32 d, a, -1;");
  const auto match = run("match.any.sync.b32 d, a, -1;");
  const auto elect = run("elect.sync e|s, -1; selp.b32 d, 1, 0, s;");
  const auto active = run("mov.u32 d, 0; @p activemask.b32 d;");
  const auto lane_id = run("mov.u32 d, %laneid;");
  const auto below = run("mov.u32 d, %lanemask_lt;");
  U elected = 0;
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(up[lane], value(lane >= 3 ? lane - 3 : lane));
    EXPECT_EQ(predicate[lane], lane >= 3 ? 1u : 0u);
    EXPECT_EQ(down[lane], value(lane + 5 < 32 ? lane + 5 : lane));
    EXPECT_EQ(butterfly[lane], value(lane ^ 8));
    EXPECT_EQ(segment[lane], value(lane / 8 * 8 + 2));
    EXPECT_EQ(ballot[lane], odd);
    EXPECT_EQ(any[lane], odd != 0 ? 1u : 0u);
    EXPECT_EQ(add[lane], sum);
    EXPECT_EQ(low[lane], static_cast<uint32_t>(least));
    EXPECT_EQ(conjunction[lane], all);
    uint32_t same = 0;
    for (int other = 0; other < 32; ++other) {
      same |= static_cast<uint32_t>(value(other) == value(lane)) << other;
    }
    EXPECT_EQ(match[lane], same);
    elected += elect[lane];
    EXPECT_EQ(active[lane], (odd >> lane & 1) != 0 ? odd : 0);
    EXPECT_EQ(lane_id[lane], static_cast<U>(lane));
    EXPECT_EQ(below[lane], (1u << lane) - 1);
  }
  EXPECT_EQ(elected, 1u);
}

}  // namespace
}  // namespace hone::emulator
