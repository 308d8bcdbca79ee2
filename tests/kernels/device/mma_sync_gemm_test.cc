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
#include "tests/kernels/format_list.h"

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
  Operands o;
  o.a.resize(m * layer.k);
  for (auto& v : o.a) v = static_cast<uint16_t>(layer.a.Encode(normal(random)));
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

emulator::Module Build(const Problem& problem, const TuningConfig& config,
                       const DeviceSpec& device) {
  const auto kernel = RenderKernel(problem, config, device);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  CompileRequest request;
  request.source = kernel->source;
  request.arch = kernel->arch;
  const auto compiled = SharedNvrtc().Compile(request);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(compiled->ok()) << compiled->log;
  // Register use is estimated: the widest tiles and splits may spill a few
  // words.
  EXPECT_LE(compiled->resources.spill_store_bytes, 256);
  auto module = emulator::Module::Parse(compiled->ptx);
  EXPECT_TRUE(module.ok()) << module.status();
  return *std::move(module);
}

void Prove(const Problem& problem, const TuningConfig& config,
           const DeviceSpec& device, const std::vector<int64_t>& ms,
           uint32_t seed) {
  SCOPED_TRACE(problem.layer.ToString() + " / " + config.ToString());
  const emulator::Module module = Build(problem, config, device);
  for (const int64_t m : ms) {
    SCOPED_TRACE(testing::Message() << "m = " << m);
    Operands operands = MakeOperands(problem, m, seed);
    const LaunchPlan plan = PlanLaunch(problem, config, m);
    const int64_t outputs = m * problem.layer.n;
    const std::vector<uint16_t> first = Emulate(
        module, plan, operands, outputs, seed, emulator::CopyLanding::kLatest);
    const std::vector<uint16_t> second =
        Emulate(module, plan, operands, outputs, seed + 1,
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
  problem.layer =
      MakeLayer(n, k, a, b,
                group == 0 ? Scaling{ScaleGranularity::kChannel, a}
                           : Scaling{ScaleGranularity::kGroup, a, group});
  problem.layer.bias = bias;
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
  const emulator::Module module = Build(problem, config, device);
  Operands operands = MakeOperands(problem, 4, 3);
  operands.a[5] = 0x7c00;            // infinity in row 0
  operands.a[128 + 7] = 0x7e00;      // NaN in row 1
  operands.a[2 * 128 + 9] = 0x7bff;  // the largest float16 in row 2
  for (int k = 0; k < 128; ++k) operands.a[3 * 128 + k] = 0x0001;
  const std::vector<uint16_t> c =
      Emulate(module, PlanLaunch(problem, config, 4), operands, 4 * 64, 1,
              emulator::CopyLanding::kRandom);
  const OracleResult oracle =
      Oracle(problem, 4, operands.a, operands.weights, {});
  // Infinity times a zero weight is NaN in both.
  EXPECT_TRUE(Compare(problem, 4, c, oracle).passed);
}

uint32_t TestSeed() {
  const char* text = std::getenv("HONE_TEST_SEED");
  return text == nullptr
             ? 20261202u
             : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// The device whose architecture has this number.
DeviceSpec DeviceOf(int64_t arch) {
  DeviceSpec device = *ModelledDevice(arch == 90   ? "h200"
                                      : arch == 80 ? "a100"
                                                   : "rtx4090");
  device.sm_arch = arch;
  return device;
}

// A legal config whose emulation takes a moment.
TuningConfig SmallConfig(const Problem& problem, const DeviceSpec& device,
                         std::mt19937& random) {
  std::vector<TuningConfig> configs = Enumerate(problem, device, 128);
  // The emulator's time grows with the tile.
  configs.erase(std::remove_if(configs.begin(), configs.end(),
                               [](const TuningConfig& c) {
                                 return c.block_m > 64 || c.block_n > 128;
                               }),
                configs.end());
  EXPECT_FALSE(configs.empty()) << problem.ToString();
  return configs[random() % configs.size()];
}

// Formats with a legal config drawn from the whole space, on a ragged shape, an
// architecture and a ragged M each. Which ones changes with the seed, which CI
// derives from the commit; HONE_TEST_ALL_FORMATS=1 runs all.
TEST(MmaSyncGemmTest, FormatsWithRandomLegalConfigs) {
  const uint32_t seed = TestSeed();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const bool all = std::getenv("HONE_TEST_ALL_FORMATS") != nullptr;
  const size_t stride = all ? 1 : 24;
  const std::vector<LayerConfig> formats = AllFormats(1, 1);
  for (size_t i = seed % stride; i < formats.size(); i += stride) {
    Problem problem;
    problem.layer = formats[i];
    problem.layer.n = 1 + static_cast<int64_t>(random() % 200);
    problem.layer.k = 1 + static_cast<int64_t>(random() % 500);
    problem.layer.bias = random() % 2 == 0;
    if (problem.layer.a == kFloat16 && random() % 4 == 0) {
      problem.compute.accumulator = kFloat16;
    }
    const int64_t archs[] = {80, 86, 89, 90};
    const DeviceSpec device = DeviceOf(archs[random() % 4]);
    SCOPED_TRACE(testing::Message() << "seed " << seed << " format " << i);
    ASSERT_TRUE(CheckProblem(problem, device).ok())
        << CheckProblem(problem, device);
    const TuningConfig config = SmallConfig(problem, device, random);
    Prove(problem, config, device,
          {1 + static_cast<int64_t>(random() % (config.block_m + 8))},
          seed + static_cast<uint32_t>(i));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace hone
