#include "kernels/codegen/codegen.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/codegen/tensor_map.h"
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

TuningConfig WgmmaConfig(int64_t block_m, int64_t block_n) {
  TuningConfig c;
  c.block_m = c.warp_m = block_m;
  c.block_n = block_n;
  c.block_k = c.warp_k = 128;
  c.warp_n = 16;
  c.stages = 3;
  c.mma = MmaInstruction::kWgmma;
  c.producer_a = c.producer_b = c.producer_scale = Producer::kTma;
  c.warp_specialized = true;
  c.mmas_in_flight = 2;
  return c;
}

TEST(CodegenTest, WgmmaKernelsTakeTensorMaps) {
  const DeviceSpec device = *ModelledDevice("h200");
  const Problem problem = MakeProblem();
  const TuningConfig config = WgmmaConfig(128, 128);
  const auto kernel = RenderKernel(problem, config, device);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_THAT(kernel->source, HasSubstr("wgmma.mma_async.sync.aligned."
                                        "m64n128k16.f32.f16.f16"));
  const LaunchPlan plan = PlanLaunch(problem, config, 300);
  ASSERT_EQ(plan.tensor_maps.size(), 3u);
  for (const TensorMap& map : plan.tensor_maps) {
    EXPECT_TRUE(ValidateTensorMap(map).ok()) << ValidateTensorMap(map);
  }
  const TensorMap& a = plan.tensor_maps[0];
  EXPECT_THAT(a.dims, testing::ElementsAre(64, 300, 128));
  EXPECT_THAT(a.box, testing::ElementsAre(64, 128, 2));
  // A row of units is 128 units of 256 words.
  const TensorMap& b = plan.tensor_maps[1];
  EXPECT_THAT(b.dims, testing::ElementsAre(256, 128, 128));
  EXPECT_THAT(b.box, testing::ElementsAre(256, 2, 2));
  const TensorMap& scales = plan.tensor_maps[2];
  EXPECT_THAT(scales.dims, testing::ElementsAre(16, 64, 128));
  EXPECT_THAT(scales.box, testing::ElementsAre(16, 1, 2));
  EXPECT_EQ(plan.block.x, 384u);
  // One row of units without tails is one piece of memory.
  const LaunchPlan narrow = PlanLaunch(problem, WgmmaConfig(8, 64), 1);
  EXPECT_EQ(narrow.tensor_maps.size(), 1u);
  Problem ragged = problem;
  ragged.layer.k = 8200;
  EXPECT_THAT(PlanLaunch(ragged, WgmmaConfig(8, 64), 3).tensor_maps[0].dims,
              testing::ElementsAre(8200, 3));
  EXPECT_EQ(PlanLaunch(ragged, WgmmaConfig(8, 64), 3).tensor_maps.size(), 3u);
}

TEST(CodegenTest, WgmmaCtasTakeSeveralTilesOrShareOne) {
  const Problem problem = MakeProblem();
  TuningConfig config = WgmmaConfig(128, 128);
  EXPECT_EQ(PlanLaunch(problem, config, 512).grid.x, 256u);
  EXPECT_EQ(PlanLaunch(problem, config, 512, 132).grid.x, 132u);
  EXPECT_EQ(PlanLaunch(problem, config, 128, 132).grid.x, 64u);
  const std::string id = KernelIdentity("aa", problem, config);
  config.cluster_n = 2;
  EXPECT_NE(id, KernelIdentity("aa", problem, config));
  EXPECT_EQ(PlanLaunch(problem, config, 512, 131).grid.x, 130u);
  EXPECT_EQ(PlanLaunch(problem, config, 512, 131).cluster.x, 2u);
  // The splits of a tile are a cluster where it can be so large.
  config.split = Split::kSplitK;
  config.split_k = 2;
  const LaunchPlan together = PlanLaunch(problem, config, 128, 132);
  EXPECT_EQ(together.grid.x, 128u);
  EXPECT_EQ(together.cluster.x, 4u);
  EXPECT_EQ(together.workspace_bytes, 0u);
  config.split_k = 3;
  const LaunchPlan apart = PlanLaunch(problem, config, 128, 132);
  EXPECT_EQ(apart.grid.x, 192u);
  EXPECT_EQ(apart.cluster.x, 2u);
  EXPECT_EQ(apart.workspace_bytes, 256u + 192 * 128 * 128 * 4);
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

TEST(EmbeddedTest, CommentsAndFormattingKeepTheSourceHash) {
  const std::string hash = SourceHash({{"a.cuh", "int f(int x);\n"}});
  EXPECT_EQ(SourceHash({{"a.cuh", "// F.\nint  f( int x ); /* f */"}}), hash);
  EXPECT_NE(SourceHash({{"a.cuh", "int g(int x);\n"}}), hash);
  EXPECT_NE(SourceHash({{"b.cuh", "int f(int x);\n"}}), hash);
  EXPECT_NE(SourceHash({{"a.cuh", ""}, {"b.cuh", "int f(int x);\n"}}), hash);
}

}  // namespace
}  // namespace hone
