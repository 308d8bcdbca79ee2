#include "kernels/codegen/codegen.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

using testing::HasSubstr;
using testing::Not;

Problem MakeProblem() {
  Problem problem;
  problem.layer.n = 8192;
  problem.layer.k = 8192;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 128;
  return problem;
}

TEST(CodegenTest, UnitsAreSelfContained) {
  const DeviceSpec device = *ModelledDevice("h200");
  const Problem problem = MakeProblem();
  const auto kernel =
      RenderKernel(problem, HeuristicDefault(problem, device, 1), device);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_THAT(kernel->source, Not(HasSubstr("#include")));
  EXPECT_THAT(kernel->source, HasSubstr("static constexpr int kN = 8192;"));
  EXPECT_THAT(kernel->source, HasSubstr("extern \"C\" __global__"));
  EXPECT_EQ(kernel->arch, "sm_90a");
}

TEST(CodegenTest, RenderingIsDeterministicAndSpecific) {
  const DeviceSpec device = *ModelledDevice("h200");
  const Problem problem = MakeProblem();
  const TuningConfig small = HeuristicDefault(problem, device, 1);
  const TuningConfig large = HeuristicDefault(problem, device, 4096);
  EXPECT_EQ(RenderKernel(problem, small, device)->source,
            RenderKernel(problem, small, device)->source);
  EXPECT_NE(RenderKernel(problem, small, device)->source,
            RenderKernel(problem, large, device)->source);
}

TEST(CodegenTest, InstructionsAreThoseOfTheDevice) {
  const DeviceSpec t4 = *ModelledDevice("t4");
  const Problem problem = MakeProblem();
  const auto kernel =
      RenderKernel(problem, HeuristicDefault(problem, t4, 1), t4);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_THAT(kernel->source, HasSubstr("#define HONE_SM_ARCH 75\n"));
  EXPECT_THAT(kernel->source, HasSubstr("static constexpr int kLdg = 1;"));
  EXPECT_EQ(kernel->arch, "sm_75");
}

TEST(CodegenTest, IllegalConfigsAreRefusedWithTheRule) {
  const DeviceSpec device = *ModelledDevice("h200");
  const Problem problem = MakeProblem();
  TuningConfig config = HeuristicDefault(problem, device, 1);
  config.stages = 16;
  const auto kernel = RenderKernel(problem, config, device);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("smem_fits"));
}

TEST(CodegenTest, LaunchCoversEveryTile) {
  const Problem problem = MakeProblem();
  TuningConfig config;
  config.block_m = 16;
  config.block_n = 64;
  const LaunchPlan one = PlanLaunch(problem, config, 1);
  EXPECT_EQ(one.grid.x, 128u);
  EXPECT_EQ(one.workspace_bytes, 0u);
  EXPECT_EQ(one.args.back().value, 1);
  const LaunchPlan ragged = PlanLaunch(problem, config, 17);
  EXPECT_EQ(ragged.grid.x, 256u);
  config.split = Split::kSplitK;
  config.split_k = 4;
  const LaunchPlan split = PlanLaunch(problem, config, 17);
  EXPECT_EQ(split.grid.x, 1024u);
  EXPECT_EQ(split.workspace_zeroed_bytes, 1024u);
  EXPECT_EQ(split.workspace_bytes, 1024u + 256 * 4 * 16 * 64 * 4);
  EXPECT_EQ(MaxWorkspaceBytes(problem, config, 17), split.workspace_bytes);
}

TEST(CodegenTest, IdentityDependsOnCubinAndLaunch) {
  const Problem problem = MakeProblem();
  TuningConfig config;
  const std::string id = KernelIdentity("aa", problem, config);
  EXPECT_NE(id, KernelIdentity("ab", problem, config));
  // The raster order is inside the cubin alone.
  config.raster = RasterOrder::kAlongN;
  EXPECT_EQ(id, KernelIdentity("aa", problem, config));
  config.split_k = 2;
  EXPECT_NE(id, KernelIdentity("aa", problem, config));
}

TEST(EmbeddedTest, FlattensEachFileOnce) {
  const std::string all = FlattenedDeviceSource({"gemm/mma_sync_gemm.cuh"});
  const std::string marker = "struct alignas(16) Words4";
  const size_t first = all.find(marker);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(all.find(marker, first + 1), std::string::npos);
  EXPECT_THAT(std::string(EmbeddedDeviceSource("memory/packed_layout.cuh")),
              HasSubstr("CodeBitOffset"));
  EXPECT_EQ(EmbeddedDeviceSource("memory/none.cuh"), "");
  EXPECT_EQ(SourceClosureHash().size(), 64u);
}

}  // namespace
}  // namespace hone
