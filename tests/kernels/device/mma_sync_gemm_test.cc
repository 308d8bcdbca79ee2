// The mma.sync kernels, proved on the CPU: rendered and compiled as on a GPU
// node, run by the emulator against the oracle, with its race detector on and
// copies landing at the earliest, the latest and random moments.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/codegen/codegen.h"
#include "kernels/config/problem.h"
#include "kernels/emulator/emulator.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/pack/pack.h"
#include "kernels/reference/reference.h"
#include "kernels/space/space.h"
#include "tests/kernels/device/kernel_proof.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

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

// Loads through registers, with each alignment of K; on SM75 the half-size MMAs
// too.
TEST(MmaSyncGemmTest, LoadsThroughRegisters) {
  const DeviceSpec h200 = *ModelledDevice("h200");
  const DeviceSpec t4 = *ModelledDevice("t4");
  const std::string ldg =
      ",producer_a=ldg,producer_b=ldg,producer_scale=ldg,stages=2";
  const std::string rings =
      "block_m=8,block_n=64,block_k=256,warp_m=8,warp_n=64,warp_k=64" + ldg;
  const std::string wide =
      "block_m=32,block_n=128,block_k=64,warp_m=16,warp_n=32,warp_k=64" + ldg;
  Prove(MakeProblem(100, 512, kFloat16, kInt4, 64, true), Config(rings), t4,
        {1, 11}, 1);
  Prove(MakeProblem(64, 333, kFloat16, DataType::Uint(3), 0, false),
        Config(rings), t4, {7}, 2);
  Prove(MakeProblem(192, 330, kFloat16, kInt8, 32, false), Config(wide), t4,
        {40}, 3);
  Prove(MakeProblem(70, 332, kBfloat16, kInt4, 64, false), Config(wide), h200,
        {33}, 4);
  Prove(MakeProblem(256, 776, kFloat16, kInt4, 128, true),
        Config(wide + ",split=split_k,split_k=3"), t4, {20}, 5);
  Problem half = MakeProblem(64, 256, kFloat16, kInt4, 64, false);
  half.compute.accumulator = kFloat16;
  Prove(half, Config(wide), t4, {5}, 6);
}

// The device whose architecture has this number.
DeviceSpec DeviceOf(int64_t arch) {
  DeviceSpec device = *ModelledDevice(arch == 90   ? "h200"
                                      : arch == 80 ? "a100"
                                      : arch == 75 ? "t4"
                                                   : "rtx4090");
  device.sm_arch = arch;
  return device;
}

// One format of each family and each place for scales.
std::vector<LayerConfig> OneOfEachFamily(int64_t n, int64_t k) {
  using enum ScaleGranularity;
  std::vector<LayerConfig> layers;
  for (const DataType a : {kFloat16, kBfloat16}) {
    layers.push_back(MakeLayer(n, k, a, kInt4, {kGroup, a, 64}));
    layers.push_back(MakeLayer(n, k, a, DataType::Uint(4), {kGroup, a, 32},
                               ZeroPoint::kInteger));
    layers.push_back(MakeLayer(n, k, a, DataType::Uint(3), {kChannel, a},
                               ZeroPoint::kFloat));
    layers.push_back(MakeLayer(n, k, a, kFloat4e2m1, {kChannel, kFloat8e5m2}));
    layers.push_back(
        MakeLayer(n, k, a, DataType::Float(0, 7), {kChannel, kFloat32}));
    layers.push_back(
        MakeLayer(n, k, a, kFloat8e4m3, {kBlock, kFloat32, 128, 64}));
    for (const char* preset : {"mxfp4", "mxfp8", "nvfp4"}) {
      layers.push_back(MakeLayer(n, k, a, kInt4, {kChannel, a}));
      EXPECT_TRUE(ApplyPreset(preset, layers.back()).ok());
    }
  }
  // Floats of 8 bits, whose scales are for accumulators.
  for (const DataType a : {kFloat8e4m3, kFloat8e5m2}) {
    layers.push_back(MakeLayer(n, k, a, kInt4, {kGroup, kFloat16, 64}));
    layers.push_back(MakeLayer(n, k, a, a, {kChannel, kFloat32}));
    layers.push_back(MakeLayer(n, k, a, kInt4, {kChannel, kFloat16}));
    EXPECT_TRUE(ApplyPreset("mxfp4", layers.back()).ok());
  }
  return layers;
}

// Some infinite, NaN, largest, smallest and zero activations.
Operands SpecialActivations(const Problem& problem, int64_t m) {
  const LayerConfig& layer = problem.layer;
  Operands operands = MakeOperands(problem, m, 3);
  const DataType a = layer.a;
  const auto set = [&](int64_t row, int64_t k, double value) {
    operands.a[row * layer.k + k] = static_cast<uint16_t>(a.Encode(value));
  };
  // Infinity times a zero weight is NaN in both.
  set(0, 5, std::numeric_limits<double>::infinity());
  set(1, 7, std::numeric_limits<double>::quiet_NaN());
  // As large as float32 sums of unscaled weights allow.
  const double large = std::min(a.MaxFinite(), std::ldexp(1.0, 100));
  set(2, 9, large);
  for (int64_t k = 0; k < layer.k; ++k) {
    operands.a[3 * layer.k + k] = 1;  // the least subnormal
    set(4, k, large / 4 * (k % 2 == 0 ? 1 : -1));
    set(5, k, 0);
  }
  return operands;
}

// Scales from the smallest to the largest of their type that keep weights
// finite in A, groups of zeros under either, and scales of zero.
Operands ExtremeScales(const Problem& problem, int64_t m) {
  const LayerConfig& layer = problem.layer;
  Operands operands = MakeOperands(problem, m, 5);
  const WeightLayout w = WeightLayoutOf(layer);
  const DataType type = layer.b_scale_type;
  double largest = 0;
  for (const double value : layer.b.CodeTable()) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  // Nor may sums of a few hundred products leave float32.
  const double most =
      std::min(layer.a.MaxFinite(), kFloat32.MaxFinite() / 4096);
  const double limit = std::min(
      type.MaxFinite(), most / largest / operands.weights.tensor_scale / 2);
  for (size_t i = 0; i < operands.weights.scales.size(); ++i) {
    uint32_t& scale = operands.weights.scales[i];
    switch (i / static_cast<size_t>(w.groups) % 5) {
      case 0:
        scale = type.is_e8m0() ? 0 : 1;  // the least
        break;
      case 1:
        scale = type.Encode(limit / 2);
        break;
      case 2:
        scale = type.is_e8m0() ? 1 : 0;  // zero
        break;
      case 3:  // one of each beside each other
        scale = i % 2 == 0 ? type.Encode(limit / 2) : 1;
        break;
    }
  }
  // A group of zeros under any scale is zero.
  if (layer.zero_point == ZeroPoint::kNone) {
    for (int64_t k = 64; k < 128; ++k) {
      for (int64_t n = 0; n < layer.n; n += 3) {
        operands.weights.codes[n * layer.k + k] = 0;
      }
    }
  }
  operands.packed = *Pack(layer, operands.weights);
  return operands;
}

TEST(MmaSyncGemmTest, ExtremesArriveAsTheOracleSays) {
  constexpr int64_t kM = 6;
  for (const LayerConfig& layer : OneOfEachFamily(64, 192)) {
    Problem problem;
    problem.layer = layer;
    Operands cases[] = {SpecialActivations(problem, kM),
                        ExtremeScales(problem, kM)};
    // Few tokens and many: scales after and before the MMA.
    const int segment = 1024 / layer.a.bits();
    const DeviceSpec device = DeviceOf(layer.a.bits() == 16 ? 80 : 89);
    for (const std::string& text :
         {absl::StrCat("block_m=8,block_n=64,block_k=", 2 * segment,
                       ",warp_m=8,warp_n=64,warp_k=", segment, ",stages=2"),
          absl::StrCat("block_m=40,block_n=64,block_k=", segment,
                       ",warp_m=40,warp_n=16,warp_k=", segment, ",stages=2")}) {
      const TuningConfig config = Config(text);
      const emulator::Module module = Build(problem, config, device);
      for (Operands& operands : cases) {
        const std::vector<uint16_t> c =
            Emulate(module, layer, PlanLaunch(problem, config, kM), operands,
                    kM * layer.n, 1, emulator::CopyLanding::kRandom);
        const OracleResult oracle =
            Oracle(problem, kM, operands.a, operands.a_scales, operands.weights,
                   operands.bias);
        const Comparison r = Compare(problem, kM, c, oracle, config.mma);
        const int64_t worst = r.worst_m * layer.n + r.worst_n;
        EXPECT_LE(r.worst_ratio, 1)
            << problem.ToString() << "\n"
            << text << "\ncase " << &operands - cases << " at [" << r.worst_m
            << "][" << r.worst_n << "]: " << layer.c.Decode(c[worst])
            << " instead of " << oracle.c[worst];
      }
    }
  }
}

uint32_t TestSeed() {
  const char* text = std::getenv("HONE_TEST_SEED");
  return text == nullptr
             ? 20261202u
             : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// A legal config whose emulation takes a moment.
TuningConfig SmallConfig(const Problem& problem, const DeviceSpec& device,
                         std::mt19937& random) {
  std::vector<TuningConfig> configs = Enumerate(problem, device, 128);
  // The emulator's time grows with the tile.
  configs.erase(std::remove_if(configs.begin(), configs.end(),
                               [](const TuningConfig& c) {
                                 return c.mma != MmaInstruction::kMmaSync ||
                                        c.block_m > 64 || c.block_n > 128;
                               }),
                configs.end());
  EXPECT_FALSE(configs.empty()) << problem.ToString();
  return configs[random() % configs.size()];
}

// Formats with a legal config drawn from the whole space, on a ragged shape, an
// architecture and a ragged M each. Which ones changes with the seed, which CI
// derives from the commit; HONE_TEST_ALL_FORMATS=1 runs all.
void ProveRandomFormats(DataType a, const std::vector<int64_t>& archs,
                        size_t share) {
  const uint32_t seed = TestSeed();
  testing::Test::RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const bool all = std::getenv("HONE_TEST_ALL_FORMATS") != nullptr;
  const size_t stride = all ? 1 : share;
  const std::vector<LayerConfig> formats = FormatsOf(a, 1, 1);
  for (size_t i = seed % stride; i < formats.size(); i += stride) {
    Problem problem;
    problem.layer = formats[i];
    problem.layer.n = 1 + static_cast<int64_t>(random() % 200);
    problem.layer.k = 1 + static_cast<int64_t>(random() % 500);
    problem.layer.bias = random() % 2 == 0;
    if (problem.layer.a == kFloat16 && random() % 4 == 0) {
      problem.compute.accumulator = kFloat16;
    }
    if (problem.layer.a.bits() == 4) problem.layer.k *= 2;
    if (random() % 2 == 0) {
      problem.compute.a_scale_layout = InputScaleLayout::kColumnMajor;
    }
    std::vector<DeviceSpec> devices;
    for (const int64_t arch : archs) {
      if (HasActivation(problem.layer.a, DeviceOf(arch))) {
        devices.push_back(DeviceOf(arch));
      }
    }
    const DeviceSpec& device = devices[random() % devices.size()];
    SCOPED_TRACE(testing::Message() << "seed " << seed << " format " << i);
    ASSERT_TRUE(CheckProblem(problem, device).ok())
        << CheckProblem(problem, device);
    TuningConfig config = SmallConfig(problem, device, random);
    if (random() % 4 == 0) {
      // Newer devices may load through registers too.
      TuningConfig ldg = config;
      ldg.producer_a = ldg.producer_b = ldg.producer_scale = Producer::kLdg;
      ldg.stages = 2;
      if (!CheckConfig(problem, device, ldg)) config = ldg;
    }
    Prove(problem, config, device,
          {1 + static_cast<int64_t>(random() % (config.block_m + 8))},
          seed + static_cast<uint32_t>(i));
    if (testing::Test::HasFatalFailure()) return;
  }
}

class MmaSyncFormatsTest : public testing::TestWithParam<DataType> {};

TEST_P(MmaSyncFormatsTest, RandomLegalConfigs) {
  ProveRandomFormats(GetParam(), {80, 86, 89, 90, 120}, 24);
}

// No cp.async, and MMAs of half and a quarter of the size.
class MmaSyncSm75Test : public testing::TestWithParam<DataType> {};

TEST_P(MmaSyncSm75Test, RandomLegalConfigs) {
  ProveRandomFormats(GetParam(), {75}, 36);
}

INSTANTIATE_TEST_SUITE_P(Activations, MmaSyncFormatsTest,
                         testing::ValuesIn(ActivationTypes()),
                         [](const auto& info) {
                           return info.param.ToString();
                         });

INSTANTIATE_TEST_SUITE_P(Activations, MmaSyncSm75Test,
                         testing::Values(kFloat16, kInt8, kInt4),
                         [](const auto& info) {
                           return info.param.ToString();
                         });

}  // namespace
}  // namespace hone
