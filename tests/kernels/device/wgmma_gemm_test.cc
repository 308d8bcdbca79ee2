// The wgmma kernels, proved on the CPU.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/config/weight_layout.h"
#include "tests/kernels/device/kernel_proof.h"

namespace hone {
namespace {

const DeviceSpec& H200() {
  static const auto* device = new DeviceSpec(*ModelledDevice("h200"));
  return *device;
}

// A config of the engine from its tile: tokens, channels, columns, channels of
// a warp and columns of a warpgroup.
TuningConfig Tile(int64_t block_m, int64_t block_n, int64_t block_k,
                  int64_t warp_n, int64_t warp_k, const std::string& more) {
  TuningConfig config = Config(more);
  config.block_m = config.warp_m = block_m;
  config.block_n = block_n;
  config.block_k = block_k;
  config.warp_n = warp_n;
  config.warp_k = warp_k;
  config.mma = MmaInstruction::kWgmma;
  config.producer_a = config.producer_b = config.producer_scale =
      Producer::kTma;
  config.warp_specialized = true;
  return config;
}

// Shapes of tiles: warpgroups along channels and along K, one and two blocks of
// channels each, few and many tokens, MMAs in flight.
TEST(WgmmaGemmTest, Tiles) {
  Prove(MakeProblem(64, 512, kFloat16, kInt4, 128, false),
        Tile(8, 64, 128, 16, 128, "mmas_in_flight=2,stages=2"), H200(), {1, 8},
        1);
  Prove(MakeProblem(64, 1024, kFloat16, kInt4, 128, true),
        Tile(16, 64, 256, 16, 128, "mmas_in_flight=2,stages=3"), H200(),
        {1, 17}, 2);
  Prove(MakeProblem(128, 512, kBfloat16, kInt4, 0, false),
        Tile(64, 128, 128, 32, 128, "mmas_in_flight=3,stages=2"), H200(), {65},
        3);
  Prove(MakeProblem(256, 384, kFloat16, kInt4, 128, true),
        Tile(128, 256, 64, 32, 64, "mmas_in_flight=2,stages=3"), H200(), {100},
        4);
  Prove(MakeProblem(128, 384, kFloat16, kInt4, 64, false),
        Tile(256, 128, 64, 16, 64, "mmas_in_flight=4,stages=2"), H200(), {250},
        5);
  Prove(MakeProblem(192, 512, kBfloat16, kInt4, 128, false),
        Tile(40, 192, 128, 16, 128, "mmas_in_flight=1,stages=2"), H200(), {41},
        6);
}

// What does not divide the tile.
TEST(WgmmaGemmTest, RaggedShapes) {
  Prove(MakeProblem(100, 520, kFloat16, kInt4, 128, true),
        Tile(8, 64, 256, 16, 256, "mmas_in_flight=2,stages=2"), H200(), {3}, 1);
  Prove(MakeProblem(72, 712, kBfloat16, kInt4, 32, true),
        Tile(24, 128, 128, 16, 128, "mmas_in_flight=2,stages=2"), H200(), {25},
        2);
  Prove(MakeProblem(265, 200, kFloat16, kInt4, 0, false),
        Tile(64, 128, 128, 32, 128, "mmas_in_flight=2,stages=2"), H200(),
        {1, 70}, 3);
}

TEST(WgmmaGemmTest, SplitK) {
  Prove(MakeProblem(64, 1024, kFloat16, kInt4, 128, true),
        Tile(16, 64, 256, 16, 128,
             "mmas_in_flight=2,stages=2,split=split_k,split_k=3"),
        H200(), {17}, 1);
  Prove(MakeProblem(200, 512, kFloat16, kInt4, 0, false),
        Tile(64, 128, 64, 32, 64,
             "mmas_in_flight=2,stages=3,split=split_k,split_k=2"),
        H200(), {64}, 2);
}

// The splits of a tile in one cluster, alone and with others.
TEST(WgmmaGemmTest, SplitsOfACluster) {
  Prove(MakeProblem(100, 1024, kFloat16, kInt4, 128, true),
        Tile(16, 64, 128, 16, 128,
             "mmas_in_flight=2,stages=2,split=split_k,split_k=2"),
        H200(), {17}, 1);
  Prove(MakeProblem(136, 1024, kFloat16, kInt4, 0, false),
        Tile(64, 128, 64, 32, 64,
             "mmas_in_flight=2,stages=3,split=split_k,split_k=4"),
        H200(), {60}, 2);
  Prove(MakeProblem(250, 640, kBfloat16, kInt4, 128, false),
        Tile(32, 128, 128, 16, 128,
             "cluster_n=2,mmas_in_flight=2,stages=2,split=split_k,split_k=2"),
        H200(), {33}, 3);
}

// CTAs that share activations, weights or both.
TEST(WgmmaGemmTest, Clusters) {
  Prove(MakeProblem(200, 640, kFloat16, kInt4, 128, true),
        Tile(16, 64, 128, 16, 128, "cluster_n=2,mmas_in_flight=2,stages=2"),
        H200(), {17}, 1);
  Prove(MakeProblem(256, 640, kFloat16, kInt4, 64, false),
        Tile(32, 64, 64, 16, 64, "cluster_n=4,mmas_in_flight=1,stages=3"),
        H200(), {30}, 2);
  Prove(MakeProblem(300, 320, kBfloat16, kInt4, 64, false),
        Tile(16, 128, 64, 16, 64,
             "cluster_m=2,mmas_in_flight=1,raster=along_n,stages=2"),
        H200(), {40}, 3);
  Prove(MakeProblem(256, 384, kFloat16, kInt4, 128, true),
        Tile(16, 128, 128, 32, 128,
             "cluster_m=2,cluster_n=2,mmas_in_flight=2,stages=2,"
             "split=split_k,split_k=2"),
        H200(), {33}, 4);
}

uint32_t TestSeed() {
  const char* text = std::getenv("HONE_TEST_SEED");
  return text == nullptr
             ? 20261202u
             : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// Formats with a legal config drawn from the whole space, on a ragged shape and
// a ragged M each. Which ones changes with the seed, which CI derives from the
// commit; HONE_TEST_ALL_FORMATS=1 runs all.
TEST(WgmmaGemmTest, FormatsWithRandomLegalConfigs) {
  const uint32_t seed = TestSeed();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const bool all = std::getenv("HONE_TEST_ALL_FORMATS") != nullptr;
  const size_t stride = all ? 1 : 64;
  std::vector<LayerConfig> formats = AllFormats(1, 1);
  // The engine's: 16-bit activations, packed weights.
  formats.erase(std::remove_if(formats.begin(), formats.end(),
                               [](const LayerConfig& layer) {
                                 return layer.a.bits() != 16 ||
                                        WeightLayoutOf(layer).direct();
                               }),
                formats.end());
  for (size_t i = seed % stride; i < formats.size(); i += stride) {
    Problem problem;
    problem.layer = formats[i];
    problem.layer.n = 1 + static_cast<int64_t>(random() % 300);
    problem.layer.k = 8 * (1 + static_cast<int64_t>(random() % 100));
    problem.layer.bias = random() % 2 == 0;
    SCOPED_TRACE(testing::Message() << "seed " << seed << " format " << i);
    ASSERT_TRUE(CheckProblem(problem, H200()).ok())
        << CheckProblem(problem, H200());
    std::vector<TuningConfig> configs = Enumerate(problem, H200(), 128);
    // The emulator's time grows with the tile.
    configs.erase(std::remove_if(configs.begin(), configs.end(),
                                 [](const TuningConfig& c) {
                                   return c.mma != MmaInstruction::kWgmma ||
                                          c.block_m * c.block_n > 8192;
                                 }),
                  configs.end());
    ASSERT_FALSE(configs.empty()) << problem.ToString();
    const TuningConfig config = configs[random() % configs.size()];
    Prove(problem, config, H200(),
          {1 + static_cast<int64_t>(random() % (config.block_m + 8))},
          seed + static_cast<uint32_t>(i));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace hone
