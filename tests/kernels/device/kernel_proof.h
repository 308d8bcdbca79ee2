// How a GEMM kernel is proved on the CPU: rendered and compiled as on a GPU
// node, run by the emulator against the oracle, with its race detector on and
// copies landing at the earliest and the latest moment.
#ifndef HONE_TESTS_KERNELS_DEVICE_KERNEL_PROOF_H_
#define HONE_TESTS_KERNELS_DEVICE_KERNEL_PROOF_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/problem.h"
#include "kernels/emulator/emulator.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/pack/pack.h"
#include "kernels/reference/reference.h"
#include "kernels/space/space.h"
#include "tests/kernels/format_list.h"

namespace hone {

inline const Nvrtc& SharedNvrtc() {
  static const auto* nvrtc = [] {
    auto loaded = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
    if (!loaded.ok()) ADD_FAILURE() << loaded.status();
    return new std::shared_ptr<const Nvrtc>(*std::move(loaded));
  }();
  return **nvrtc;
}

struct Operands {
  std::vector<uint16_t> a;
  std::vector<float> a_scales;
  QuantizedWeights weights;
  PackedWeights packed;
  std::vector<uint16_t> bias;
};

inline Operands MakeOperands(const Problem& problem, int64_t m, uint32_t seed) {
  const LayerConfig& layer = problem.layer;
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Operands o;
  o.a.resize(m * layer.k);
  // Integers spread over their range.
  const double spread = layer.a.is_integer() ? layer.a.MaxFinite() / 3 : 1;
  for (auto& v : o.a) {
    v = static_cast<uint16_t>(layer.a.Encode(spread * normal(random)));
  }
  o.a_scales.resize(InputScaleCount(problem, m));
  for (float& scale : o.a_scales) {
    scale = static_cast<float>(std::exp(normal(random)) / spread);
  }
  o.weights = RandomWeights(layer, seed);
  if (layer.bias) {
    o.bias.resize(layer.n);
    for (auto& v : o.bias) {
      v = static_cast<uint16_t>(layer.c.Encode(normal(random)));
    }
  }
  o.packed = *Pack(layer, o.weights);
  return o;
}

template <typename T>
emulator::HostBuffer ReadOnly(std::vector<T>& data) {
  return {reinterpret_cast<std::byte*>(data.data()), data.size() * sizeof(T),
          /*writable=*/false, /*initialized=*/true};
}

// Runs one launch; returns the output's codes or fails the test.
inline std::vector<uint16_t> Emulate(const emulator::Module& module,
                                     const LayerConfig& layer,
                                     const LaunchPlan& plan, Operands& operands,
                                     int64_t outputs, uint64_t seed,
                                     emulator::CopyLanding landing) {
  std::vector<uint16_t> c(outputs, 0xffff);
  std::vector<std::byte> workspace(plan.workspace_bytes + 1);
  std::fill(workspace.begin(), workspace.end(), std::byte{0xff});
  std::fill_n(workspace.begin(), plan.workspace_zeroed_bytes, std::byte{0});
  std::vector<uint16_t> no_bias(1);
  emulator::Bindings bindings;
  std::vector<std::byte> a = PackActivations(layer, operands.a);
  bindings[BufferRole::kA] = ReadOnly(a);
  bindings[BufferRole::kAScale] = ReadOnly(operands.a_scales);
  bindings[BufferRole::kB] = ReadOnly(operands.packed.b);
  bindings[BufferRole::kBScale] = ReadOnly(operands.packed.scales);
  bindings[BufferRole::kBias] =
      ReadOnly(operands.bias.empty() ? no_bias : operands.bias);
  bindings[BufferRole::kC] = {reinterpret_cast<std::byte*>(c.data()),
                              c.size() * 2, /*writable=*/true,
                              /*initialized=*/false};
  bindings[BufferRole::kWorkspace] = {workspace.data(), plan.workspace_bytes,
                                      /*writable=*/true,
                                      /*initialized=*/false};
  emulator::Options options;
  options.seed = seed;
  options.landing = landing;
  const auto stats = emulator::Execute(module, plan, bindings, options);
  EXPECT_TRUE(stats.ok()) << stats.status();
  for (uint64_t i = 0; i < plan.workspace_zeroed_bytes; ++i) {
    EXPECT_EQ(workspace[i], std::byte{0}) << "counter byte " << i;
  }
  return c;
}

inline emulator::Module Build(const Problem& problem,
                              const TuningConfig& config,
                              const DeviceSpec& device) {
  const auto kernel = RenderKernel(problem, config, device);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  CompileRequest request;
  request.source = kernel->source;
  request.arch = kernel->arch;
  const auto compiled = SharedNvrtc().Compile(request);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(compiled->ok()) << compiled->log;
  // What ptxas says when it ignores setmaxnreg or, for want of care in the
  // source, serializes wgmmas. For want of registers (C7512) it does so in a
  // few of a hundred configs, often at one register count and not below it:
  // those are slow, and tuning finds out.
  for (const char* advisory : {"(C7508)", "(C7510)", "(C7511)", "(C7513)",
                               "(C7514)", "(C7515)", "(C7516)"}) {
    EXPECT_THAT(compiled->log, testing::Not(testing::HasSubstr(advisory)));
  }
  // Register use is estimated: the widest tiles and splits may spill a few
  // words.
  EXPECT_LE(compiled->resources.spill_store_bytes, 256);
  auto module = emulator::Module::Parse(compiled->ptx);
  EXPECT_TRUE(module.ok()) << module.status();
  return *std::move(module);
}

inline void Prove(const Problem& problem, const TuningConfig& config,
                  const DeviceSpec& device, const std::vector<int64_t>& ms,
                  uint32_t seed) {
  SCOPED_TRACE(problem.layer.ToString() + " / " + config.ToString());
  const emulator::Module module = Build(problem, config, device);
  for (const int64_t m : ms) {
    SCOPED_TRACE(testing::Message() << "m = " << m);
    Operands operands = MakeOperands(problem, m, seed);
    const LaunchPlan plan = PlanLaunch(problem, config, m);
    const int64_t outputs = m * problem.layer.n;
    const std::vector<uint16_t> first =
        Emulate(module, problem.layer, plan, operands, outputs, seed,
                emulator::CopyLanding::kLatest);
    // On a device of two SMs, where CTAs may take several tiles.
    const std::vector<uint16_t> second =
        Emulate(module, problem.layer, PlanLaunch(problem, config, m, 2),
                operands, outputs, seed + 1, emulator::CopyLanding::kEarliest);
    EXPECT_EQ(first, second) << "the schedule changed the result";
    const Comparison r =
        Compare(problem, m, first,
                Oracle(problem, m, operands.a, operands.a_scales,
                       operands.weights, operands.bias),
                config.mma);
    EXPECT_TRUE(r.passed) << "relative norm " << r.relative_norm
                          << ", worst ratio " << r.worst_ratio << " at ["
                          << r.worst_m << "][" << r.worst_n << "]";
  }
}

inline Problem MakeProblem(int64_t n, int64_t k, DataType a, DataType b,
                           int64_t group, bool bias) {
  Problem problem;
  problem.layer =
      MakeLayer(n, k, a, b,
                group == 0 ? Scaling{ScaleGranularity::kChannel, a}
                           : Scaling{ScaleGranularity::kGroup, a, group});
  problem.layer.bias = bias;
  return problem;
}

inline TuningConfig Config(const std::string& text) {
  auto config = TuningConfig::Parse(text);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

}  // namespace hone

#endif  // HONE_TESTS_KERNELS_DEVICE_KERNEL_PROOF_H_
