// The mma.sync kernels, proved on the CPU: rendered and compiled as on a GPU
// node, run by the emulator against the oracle, with its race detector on and
// copies landing at the earliest, the latest and random moments.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
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

namespace hone {
namespace {

const Nvrtc& SharedNvrtc() {
  static const auto* nvrtc = [] {
    auto loaded = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
    if (!loaded.ok()) ADD_FAILURE() << loaded.status();
    return new std::shared_ptr<const Nvrtc>(*std::move(loaded));
  }();
  return **nvrtc;
}

struct Operands {
  std::vector<uint16_t> a;
  QuantizedWeights weights;
  PackedWeights packed;
  std::vector<uint16_t> bias;
};

Operands MakeOperands(const Problem& problem, int64_t m, uint32_t seed) {
  const LayerConfig& layer = problem.layer;
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const int offset = 1 << (layer.b.bits() - 1);
  std::uniform_int_distribution<int> code(-offset, offset - 1);
  Operands o;
  o.a.resize(m * layer.k);
  for (auto& v : o.a) v = static_cast<uint16_t>(layer.a.Encode(normal(random)));
  o.weights.values.resize(layer.n * layer.k);
  for (auto& v : o.weights.values) v = static_cast<int16_t>(code(random));
  o.weights.scales.resize(layer.n * ScaleGroups(layer));
  for (auto& s : o.weights.scales) {
    s = static_cast<uint16_t>(
        layer.b_scale_type.Encode(0.05 * std::exp(0.5 * normal(random))));
  }
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
std::vector<uint16_t> Emulate(const emulator::Module& module,
                              const LaunchPlan& plan, Operands& operands,
                              int64_t outputs, uint64_t seed,
                              emulator::CopyLanding landing) {
  std::vector<uint16_t> c(outputs, 0xffff);
  std::vector<std::byte> workspace(plan.workspace_bytes + 1);
  std::fill(workspace.begin(), workspace.end(), std::byte{0xff});
  std::fill_n(workspace.begin(), plan.workspace_zeroed_bytes, std::byte{0});
  std::vector<uint16_t> no_bias(1);
  emulator::Bindings bindings;
  bindings[BufferRole::kA] = ReadOnly(operands.a);
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

void Prove(const Problem& problem, const TuningConfig& config,
           const DeviceSpec& device, const std::vector<int64_t>& ms,
           uint32_t seed) {
  SCOPED_TRACE(problem.layer.ToString() + " / " + config.ToString());
  const auto kernel = RenderKernel(problem, config, device);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  CompileRequest request;
  request.source = kernel->source;
  request.arch = kernel->arch;
  const auto compiled = SharedNvrtc().Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_TRUE(compiled->ok()) << compiled->log;
  EXPECT_EQ(compiled->resources.spill_store_bytes, 0);
  const auto module = emulator::Module::Parse(compiled->ptx);
  ASSERT_TRUE(module.ok()) << module.status();
  for (const int64_t m : ms) {
    SCOPED_TRACE(testing::Message() << "m = " << m);
    Operands operands = MakeOperands(problem, m, seed);
    const LaunchPlan plan = PlanLaunch(problem, config, m);
    const int64_t outputs = m * problem.layer.n;
    const std::vector<uint16_t> first = Emulate(
        *module, plan, operands, outputs, seed, emulator::CopyLanding::kLatest);
    const std::vector<uint16_t> second =
        Emulate(*module, plan, operands, outputs, seed + 1,
                emulator::CopyLanding::kEarliest);
    EXPECT_EQ(first, second) << "the schedule changed the result";
    const Comparison r = Compare(
        problem, m, first,
        Oracle(problem, m, operands.a, operands.weights, operands.bias));
    EXPECT_TRUE(r.passed) << "relative norm " << r.relative_norm
                          << ", worst ratio " << r.worst_ratio << " at ["
                          << r.worst_m << "][" << r.worst_n << "]";
  }
}

Problem MakeProblem(int64_t n, int64_t k, DataType a, DataType b, int64_t group,
                    bool bias) {
  Problem problem;
  LayerConfig& layer = problem.layer;
  layer.n = n;
  layer.k = k;
  layer.a = layer.c = layer.b_scale_type = a;
  layer.b = b;
  layer.b_scale =
      group == 0 ? ScaleGranularity::kChannel : ScaleGranularity::kGroup;
  layer.b_group = group;
  layer.bias = bias;
  return problem;
}

TuningConfig Config(const std::string& text) {
  auto config = TuningConfig::Parse(text);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

// Each pair of types with channel and group scales, each kind of ring, split
// and raster, and each alignment of K, once.
TEST(MmaSyncGemmTest, EveryComponent) {
  const DeviceSpec h200 = *ModelledDevice("h200");
  const DeviceSpec a100 = *ModelledDevice("a100");
  const std::string decode =
      "block_m=8,block_n=64,block_k=256,warp_m=8,warp_n=64,warp_k=64,stages=3";
  const std::string decode16 =
      "block_m=16,block_n=64,block_k=256,warp_m=16,warp_n=64,warp_k=128,"
      "stages=3";
  const std::string wide =
      "block_m=32,block_n=128,block_k=64,warp_m=16,warp_n=32,warp_k=64,"
      "stages=3";
  Prove(MakeProblem(64, 512, kFloat16, kInt4, 128, false), Config(decode), h200,
        {1, 8}, 1);
  Prove(MakeProblem(100, 700, kFloat16, kInt4, 64, true), Config(decode16),
        h200, {5, 17}, 2);
  Prove(MakeProblem(96, 520, kBfloat16, kInt4, 32, false), Config(decode16),
        a100, {16}, 3);
  Prove(MakeProblem(129, 334, kFloat16, kInt8, 0, true), Config(decode), a100,
        {3}, 4);
  Prove(MakeProblem(67, 129, kBfloat16, kInt8, 128, true), Config(decode), h200,
        {9}, 5);
  Prove(MakeProblem(136, 320, kFloat16, kInt4, 0, false), Config(wide), a100,
        {33}, 6);
  Prove(MakeProblem(256, 384, kFloat16, kInt8, 32, false),
        Config(wide + ",split=split_k,split_k=3"), h200, {40}, 7);
  Prove(MakeProblem(72, 1028, kBfloat16, kInt8, 64, false),
        Config(decode + ",split=split_k,split_k=2"), h200, {8}, 8);
  Prove(MakeProblem(192, 256, kBfloat16, kInt4, 128, true),
        Config("block_m=64,block_n=64,block_k=128,warp_m=32,warp_n=32,"
               "warp_k=128,stages=2,raster=along_n"),
        h200, {1, 65, 130}, 9);
}

TEST(MmaSyncGemmTest, SpecialActivationsArriveAsTheOracleSays) {
  const Problem problem = MakeProblem(64, 128, kFloat16, kInt4, 64, false);
  const DeviceSpec device = *ModelledDevice("h200");
  const TuningConfig config = HeuristicDefault(problem, device, 4);
  const auto kernel = RenderKernel(problem, config, device);
  ASSERT_TRUE(kernel.ok());
  CompileRequest request;
  request.source = kernel->source;
  request.arch = kernel->arch;
  const auto compiled = SharedNvrtc().Compile(request);
  ASSERT_TRUE(compiled.ok() && compiled->ok());
  const auto module = emulator::Module::Parse(compiled->ptx);
  ASSERT_TRUE(module.ok()) << module.status();
  Operands operands = MakeOperands(problem, 4, 3);
  operands.a[5] = 0x7c00;            // infinity in row 0
  operands.a[128 + 7] = 0x7e00;      // NaN in row 1
  operands.a[2 * 128 + 9] = 0x7bff;  // the largest float16 in row 2
  for (int k = 0; k < 128; ++k) operands.a[3 * 128 + k] = 0x0001;
  const std::vector<uint16_t> c =
      Emulate(*module, PlanLaunch(problem, config, 4), operands, 4 * 64, 1,
              emulator::CopyLanding::kRandom);
  const OracleResult oracle =
      Oracle(problem, 4, operands.a, operands.weights, {});
  // Infinity times a zero weight is NaN in both.
  EXPECT_TRUE(Compare(problem, 4, c, oracle).passed);
}

// A few legal configs drawn from the whole space; which ones changes with the
// seed, which CI derives from the commit.
TEST(MmaSyncGemmTest, RandomLegalConfigs) {
  const char* text = std::getenv("HONE_TEST_SEED");
  const uint32_t seed =
      text == nullptr ? 20261202u
                      : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const auto pick = [&](auto... values) {
    const std::vector<int64_t> all = {static_cast<int64_t>(values)...};
    return all[random() % all.size()];
  };
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    const Problem problem = MakeProblem(
        1 + static_cast<int64_t>(random() % 200),
        1 + static_cast<int64_t>(random() % 600),
        pick(0, 1) ? kFloat16 : kBfloat16, pick(0, 1) ? kInt4 : kInt8,
        pick(0, 32, 64, 128), pick(0, 1) != 0);
    const DeviceSpec device = *ModelledDevice(pick(0, 1) ? "h200" : "a100");
    std::vector<TuningConfig> configs = Enumerate(problem, device, 128);
    // The emulator's time grows with the tile.
    configs.erase(std::remove_if(configs.begin(), configs.end(),
                                 [](const TuningConfig& c) {
                                   return c.block_m > 64 || c.block_n > 128;
                                 }),
                  configs.end());
    ASSERT_FALSE(configs.empty());
    const TuningConfig config = configs[random() % configs.size()];
    Prove(problem, config, device,
          {1 + static_cast<int64_t>(random() % (config.block_m + 8))},
          seed + round);
  }
}

}  // namespace
}  // namespace hone
