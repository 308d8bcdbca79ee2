// How fast the emulator runs a kernel: what the README says.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/problem.h"
#include "kernels/emulator/emulator.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/pack/pack.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

TEST(EmulatorSpeedTest, A64x128x512W4A16ProblemRunsInAboutASecond) {
  constexpr int64_t kM = 64, kN = 128, kK = 512;
  Problem problem;
  LayerConfig& layer = problem.layer;
  layer.n = kN;
  layer.k = kK;
  layer.a = layer.c = layer.b_scale_type = kFloat16;
  layer.b = kInt4;
  layer.b_scale = ScaleGranularity::kGroup;
  layer.b_group = 128;
  const DeviceSpec device = *ModelledDevice("h200");
  const TuningConfig config = HeuristicDefault(problem, device, kM);
  const auto nvrtc = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
  const auto kernel = RenderKernel(problem, config, device);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  CompileRequest request;
  request.source = kernel->source;
  request.arch = kernel->arch;
  const auto compiled = (*nvrtc)->Compile(request);
  ASSERT_TRUE(compiled.ok() && compiled->ok());
  const auto module = emulator::Module::Parse(compiled->ptx);
  ASSERT_TRUE(module.ok()) << module.status();
  QuantizedWeights weights;
  weights.codes.assign(kN * kK, static_cast<uint8_t>(layer.b.Encode(1)));
  weights.scales.assign(kN * ScaleGroups(layer), 0x3c00);
  PackedWeights packed = *Pack(layer, weights);
  std::vector<uint16_t> a(kM * kK, 0x3c00), c(kM * kN);
  const LaunchPlan plan = PlanLaunch(problem, config, kM);
  std::vector<std::byte> workspace(plan.workspace_bytes + 1);
  const auto bytes = [](auto& data, bool writable) {
    return emulator::HostBuffer{reinterpret_cast<std::byte*>(data.data()),
                                data.size() * sizeof(data[0]), writable,
                                /*initialized=*/!writable};
  };
  emulator::Bindings bindings;
  bindings[BufferRole::kA] = bytes(a, false);
  bindings[BufferRole::kB] = bytes(packed.b, false);
  bindings[BufferRole::kBScale] = bytes(packed.scales, false);
  bindings[BufferRole::kBias] = bytes(a, false);
  bindings[BufferRole::kC] = bytes(c, true);
  bindings[BufferRole::kWorkspace] = {workspace.data(), plan.workspace_bytes,
                                      /*writable=*/true,
                                      /*initialized=*/false};
  const auto start = std::chrono::steady_clock::now();
  const auto stats = emulator::Execute(*module, plan, bindings, {});
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(c[0], 0x6000) << "512 in float16";
  std::printf("%s: %.2f s, %.2f M warp instructions, %.2f M/s\n",
              config.ToString().c_str(), seconds, stats->instructions * 1e-6,
              stats->instructions * 1e-6 / seconds);
  // On a machine with other things to do.
  EXPECT_LT(seconds, 5);
}

}  // namespace
}  // namespace hone
