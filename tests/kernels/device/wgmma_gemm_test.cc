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

// A problem from its canonical text.
Problem Parsed(const std::string& layer, const std::string& compute = "") {
  const auto problem = Problem::Parse(layer + ";" + compute);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *problem;
}

// A config whose MMAs have tokens as rows, from its tile and its warps' tokens
// and columns.
TuningConfig TokenTile(int64_t block_m, int64_t block_n, int64_t block_k,
                       int64_t warp_m, int64_t warp_k,
                       const std::string& more) {
  TuningConfig config = Tile(block_m, block_n, block_k, block_n, warp_k, more);
  config.warp_m = warp_m;
  EXPECT_TRUE(TokenRows(config));
  return config;
}

// Workers that have whole tiles, ends, middles and beginnings of them; with
// warpgroups along K, sums per warp, clusters, integers, tokens in rows, and
// scales of A's groups.
TEST(WgmmaGemmTest, StreamK) {
  Prove(MakeProblem(200, 1024, kFloat16, kInt4, 128, true),
        Tile(16, 64, 256, 16, 128,
             "mmas_in_flight=2,stages=2,split=stream_k,split_k=3"),
        H200(), {17, 50}, 1);
  Prove(MakeProblem(100, 1280, kFloat16, kInt4, 0, false),
        Tile(64, 128, 128, 32, 128,
             "mmas_in_flight=2,stages=3,split=stream_k,split_k=7"),
        H200(), {1, 70}, 2);
  Prove(MakeProblem(500, 640, kBfloat16, kInt4, 128, false),
        Tile(32, 64, 128, 16, 128,
             "cluster_n=4,mmas_in_flight=2,stages=2,split=stream_k,split_k=3"),
        H200(), {33}, 3);
  Prove(MakeProblem(136, 1024, kFloat16, kInt4, 128, false),
        Tile(16, 128, 256, 16, 128,
             "cluster_m=2,mmas_in_flight=2,stages=2,split=stream_k,split_k=2"),
        H200(), {60}, 4);
  Prove(Parsed("a=int8,a_scale=token,b=int8,b_scale=channel,bias=1,"
               "k=1040,n=200"),
        Tile(48, 128, 128, 16, 128,
             "cluster_n=2,mmas_in_flight=2,stages=3,split=stream_k,split_k=4"),
        H200(), {1, 70}, 5);
  Prove(Parsed("a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,"
               "b_group=128,b_group_n=128,b_scale=block,b_scale_type=float32,"
               "k=1024,n=300"),
        TokenTile(64, 128, 128, 16, 128,
                  "mmas_in_flight=1,stages=3,split=stream_k,split_k=5"),
        H200(), {100}, 6);
}

// Weights that are operands as they are: both operands in shared memory.
TEST(WgmmaGemmTest, NarrowRows) {
  Prove(Parsed("a=float8e4m3,a_scale=token,b=float8e4m3,b_scale=channel,"
               "b_scale_type=float32,k=512,n=64"),
        Tile(8, 64, 128, 16, 128, "mmas_in_flight=2,stages=2"), H200(), {1, 8},
        1);
  Prove(Parsed("a=int8,a_scale=token,b=int8,b_scale=channel,bias=1,"
               "k=528,n=200"),
        Tile(48, 128, 128, 16, 128, "mmas_in_flight=2,stages=3"), H200(),
        {1, 70}, 2);
  Prove(Parsed("a=float8e5m2,a_scale=tensor,b=float8e5m2,b_scale=tensor,"
               "b_scale_type=float32,k=640,n=300"),
        Tile(32, 256, 256, 32, 256, "mmas_in_flight=1,stages=2"), H200(), {33},
        3);
  // Unsigned weights, split K in the workspace, K in one row of 2-D maps.
  Prove(Parsed("a=int8,a_scale=tensor,b=uint8,b_scale=channel,k=1104,n=136"),
        Tile(24, 128, 128, 32, 128,
             "mmas_in_flight=2,stages=2,split=split_k,split_k=3"),
        H200(), {25}, 4);
  // Groups of half a segment, warpgroups along K.
  Prove(Parsed("a=float8e4m3,a_scale=none,b=float8e4m3,b_scale=group,"
               "b_group=32,b_scale_type=float8e8m0,k=320,n=72"),
        Tile(16, 64, 256, 16, 128, "mmas_in_flight=1,stages=2"), H200(), {17},
        5);
}

// Scales of activations per group, by which the mainloop promotes.
TEST(WgmmaGemmTest, NarrowBlockwise) {
  const std::string layer =
      "a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,b_group=128,"
      "b_group_n=128,b_scale=block,b_scale_type=float32,";
  Prove(Parsed(layer + "k=512,n=256"),
        Tile(64, 128, 128, 16, 128, "mmas_in_flight=1,stages=3"), H200(),
        {1, 65}, 1);
  Prove(Parsed(layer + "k=720,n=200", "a_scale_layout=column_major"),
        Tile(32, 256, 256, 32, 256, "mmas_in_flight=1,stages=2"), H200(), {30},
        2);
  // Whole tiles of tokens, whose scales the copy engine brings, beside others.
  Prove(Parsed(layer + "k=512,n=128", "a_scale_layout=column_major"),
        Tile(16, 128, 128, 32, 128, "mmas_in_flight=1,stages=2"), H200(),
        {16, 30, 36}, 7);
  // CTAs that share activations.
  Prove(Parsed(layer + "bias=1,k=656,n=300"),
        Tile(32, 128, 128, 32, 128, "cluster_n=2,mmas_in_flight=1,stages=2"),
        H200(), {33}, 3);
  // And weights; whole segments, or rows where K ends within one.
  Prove(Parsed("a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,"
               "b_scale=channel,k=384,n=128"),
        Tile(16, 128, 256, 16, 256,
             "cluster_m=2,mmas_in_flight=1,raster=along_n,stages=2"),
        H200(), {40}, 4);
  Prove(Parsed("a=int8,a_scale=token,b=int8,b_scale=channel,k=304,n=250"),
        Tile(16, 128, 128, 32, 128,
             "cluster_m=2,cluster_n=2,mmas_in_flight=2,stages=2"),
        H200(), {30}, 4);
  // A's groups alone, narrower and wider than a step.
  Prove(Parsed("a=int8,a_group=64,a_scale=group,b=int4,b_scale=channel,k=400,"
               "n=128"),
        Tile(16, 128, 128, 16, 128, "mmas_in_flight=1,stages=2"), H200(), {9},
        5);
  Prove(Parsed("a=float8e4m3,a_group=256,a_scale=group,b=float8e4m3,"
               "b_scale=channel,k=800,n=64"),
        Tile(16, 64, 128, 16, 128, "mmas_in_flight=1,stages=2"), H200(), {9},
        6);
}

// Tokens as the rows of MMAs: one and two blocks a warpgroup, warpgroups along
// tokens and along K, scales of tokens, channels and tensors, bias, what does
// not divide the tile.
TEST(WgmmaGemmTest, TokenRows) {
  Prove(Parsed("a=float8e4m3,a_scale=token,b=float8e4m3,b_scale=channel,"
               "b_scale_type=float32,k=512,n=128"),
        TokenTile(64, 64, 128, 16, 128, "mmas_in_flight=2,stages=3"), H200(),
        {1, 64}, 1);
  Prove(Parsed("a=int8,a_scale=token,b=int8,b_scale=channel,bias=1,k=528,"
               "n=200"),
        TokenTile(128, 128, 128, 16, 128, "mmas_in_flight=2,stages=3"), H200(),
        {77, 130}, 2);
  Prove(Parsed("a=float8e5m2,a_scale=tensor,b=float8e5m2,b_scale=tensor,"
               "b_scale_type=float32,bias=1,c=bfloat16,k=640,n=303"),
        TokenTile(128, 128, 256, 32, 256, "mmas_in_flight=1,stages=2"), H200(),
        {100}, 3);
  // Unsigned weights, warpgroups along K, K in one row of 2-D maps.
  Prove(Parsed("a=int8,a_scale=token,b=uint8,b_scale=channel,bias=1,k=1104,"
               "n=136"),
        TokenTile(64, 192, 256, 16, 128, "mmas_in_flight=2,stages=2"), H200(),
        {70}, 4);
  // Split K in the workspace, and within a cluster.
  Prove(Parsed("a=int8,a_scale=token,b=int8,b_scale=channel,bias=1,k=1104,"
               "n=250"),
        TokenTile(128, 64, 128, 32, 128,
                  "mmas_in_flight=2,stages=2,split=split_k,split_k=3"),
        H200(), {25}, 5);
  Prove(Parsed("a=float8e4m3,a_scale=token,b=float8e4m3,b_scale=channel,bias=1,"
               "k=1040,n=250"),
        TokenTile(128, 128, 128, 16, 128,
                  "mmas_in_flight=2,stages=2,split=split_k,split_k=2"),
        H200(), {90}, 6);
  Prove(Parsed("a=int8,a_scale=token,b=int8,b_scale=channel,k=1104,n=192"),
        TokenTile(64, 192, 128, 16, 128,
                  "cluster_n=2,mmas_in_flight=1,stages=2,split=split_k,"
                  "split_k=4"),
        H200(), {60}, 7);
}

// The same with scales of groups, which fold partial sums.
TEST(WgmmaGemmTest, TokenRowsBlockwise) {
  const std::string layer =
      "a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,b_group=128,"
      "b_group_n=128,b_scale=block,b_scale_type=float32,";
  Prove(Parsed(layer + "k=512,n=256"),
        TokenTile(128, 128, 128, 16, 128, "mmas_in_flight=1,stages=3"), H200(),
        {1, 129}, 1);
  // Two sets of partial sums, and blocks; scales of tokens side by side.
  Prove(Parsed(layer + "bias=1,k=720,n=200", "a_scale_layout=column_major"),
        TokenTile(128, 64, 256, 32, 256, "mmas_in_flight=2,stages=2"), H200(),
        {99}, 2);
  Prove(Parsed(layer + "k=656,n=300"),
        TokenTile(64, 192, 256, 16, 256, "mmas_in_flight=1,stages=2"), H200(),
        {50}, 3);
  // Whole tiles of tokens, whose scales the copy engine brings: two groups a
  // step, and A's groups alone.
  Prove(Parsed(layer + "k=768,n=128", "a_scale_layout=column_major"),
        TokenTile(64, 128, 256, 16, 256, "mmas_in_flight=1,stages=2"), H200(),
        {64, 132}, 8);
  Prove(Parsed("a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,"
               "b_scale=channel,k=640,n=128",
               "a_scale_layout=column_major"),
        TokenTile(128, 128, 128, 16, 128,
                  "cluster_n=2,mmas_in_flight=1,stages=2"),
        H200(), {128}, 9);
  // CTAs that share activations, weights and both.
  Prove(
      Parsed(layer + "bias=1,k=656,n=300"),
      TokenTile(64, 128, 128, 16, 128, "cluster_n=2,mmas_in_flight=1,stages=2"),
      H200(), {33}, 4);
  Prove(Parsed(layer + "k=1024,n=256"),
        TokenTile(64, 128, 256, 16, 256,
                  "cluster_m=2,mmas_in_flight=2,raster=along_n,stages=2"),
        H200(), {100}, 5);
  Prove(Parsed(layer + "k=784,n=400"),
        TokenTile(64, 128, 256, 16, 128,
                  "cluster_m=2,cluster_n=2,mmas_in_flight=1,stages=2"),
        H200(), {70}, 6);
  // A's groups alone, narrower and wider than a step; B's alone.
  Prove(Parsed("a=int8,a_group=64,a_scale=group,b=int8,b_scale=channel,k=400,"
               "n=128"),
        TokenTile(64, 128, 128, 16, 128, "mmas_in_flight=2,stages=2"), H200(),
        {9}, 7);
  Prove(Parsed("a=float8e4m3,a_group=256,a_scale=group,b=float8e4m3,"
               "b_scale=channel,k=800,n=64"),
        TokenTile(64, 64, 128, 16, 128, "mmas_in_flight=1,stages=2"), H200(),
        {9}, 8);
  Prove(Parsed("a=float8e4m3,a_scale=token,b=float8e4m3,b_group=128,"
               "b_group_n=128,b_scale=block,b_scale_type=float32,k=800,n=200"),
        TokenTile(64, 128, 128, 16, 128,
                  "mmas_in_flight=1,stages=2,split=split_k,split_k=2"),
        H200(), {64}, 9);
  // Block after block of tokens: each with one set of partial sums, and two in
  // turn.
  const Problem blocks = Parsed(
      "a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,b_group=128,"
      "b_group_n=128,b_scale=block,b_scale_type=float32,k=656,n=200");
  Prove(blocks, TokenTile(256, 128, 128, 32, 128, "mmas_in_flight=1,stages=3"),
        H200(), {200}, 11);
  Prove(blocks, TokenTile(128, 64, 256, 32, 256, "mmas_in_flight=2,stages=2"),
        H200(), {130}, 12);
}

// Scales of A in rows come four groups at a time: an even and an odd number of
// fours, tiles that begin at different ones, groups of several steps, parts of
// K and several tiles of a CTA.
TEST(WgmmaGemmTest, ScalesOfTokensByFours) {
  const std::string layer =
      "a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,b_group=128,"
      "b_group_n=128,b_scale=block,b_scale_type=float32,";
  Prove(Parsed(layer + "k=1024,n=640"),
        TokenTile(64, 128, 128, 16, 128, "mmas_in_flight=1,stages=3"), H200(),
        {1, 70}, 1);
  Prove(Parsed(layer + "k=1536,n=640"),
        TokenTile(64, 128, 128, 16, 128, "mmas_in_flight=1,stages=2"), H200(),
        {64}, 2);
  Prove(Parsed(layer + "k=1536,n=192"),
        Tile(24, 64, 128, 16, 128, "mmas_in_flight=1,stages=4"), H200(), {20},
        3);
  Prove(Parsed(layer + "k=2048,n=128"),
        TokenTile(64, 128, 128, 16, 128,
                  "mmas_in_flight=1,stages=2,split=split_k,split_k=3"),
        H200(), {64}, 4);
  Prove(Parsed(layer + "k=1024,n=384"),
        TokenTile(64, 128, 128, 16, 128,
                  "mmas_in_flight=1,stages=2,split=stream_k,split_k=5"),
        H200(), {130}, 5);
  Prove(Parsed("a=float8e4m3,a_group=256,a_scale=group,b=float8e4m3,"
               "b_scale=channel,k=2000,n=192"),
        TokenTile(64, 64, 128, 16, 128, "mmas_in_flight=1,stages=2"), H200(),
        {40}, 6);
}

// Packed weights of fewer bits than the activations.
TEST(WgmmaGemmTest, NarrowPacked) {
  Prove(Parsed("a=float8e4m3,a_scale=token,b=int4,b_scale=channel,k=512,n=64"),
        Tile(16, 64, 256, 16, 128, "mmas_in_flight=2,stages=2"), H200(), {11},
        1);
  Prove(Parsed("a=float8e4m3,a_scale=token,b=int4,b_group=128,b_scale=group,"
               "k=656,n=200"),
        Tile(64, 128, 128, 32, 128, "mmas_in_flight=2,stages=3"), H200(), {70},
        2);
  Prove(Parsed("a=float8e4m3,a_scale=token,b=float4e2m1,b_group=32,"
               "b_scale=group,b_scale_type=float8e8m0,bias=1,k=528,n=264"),
        Tile(40, 256, 128, 32, 128, "mmas_in_flight=1,stages=2"), H200(), {40},
        3);
  Prove(Parsed("a=int8,a_scale=token,b=float4e2m1,b_group=32,b_scale=group,"
               "b_scale_type=float8e8m0,k=512,n=128"),
        Tile(32, 64, 512, 16, 128, "mmas_in_flight=1,stages=2"), H200(), {32},
        4);
  Prove(Parsed("a=int8,a_scale=token,b=uint4,b_group=64,b_scale=group,k=512,"
               "n=128,zero_point=integer"),
        Tile(16, 128, 128, 16, 128,
             "mmas_in_flight=2,stages=2,split=split_k,split_k=2"),
        H200(), {13}, 5);
}

// Power-of-two scales in the weights, where they keep within a window.
TEST(WgmmaGemmTest, WindowedScales) {
  const std::string layer =
      "a=float8e4m3,a_scale=token,b=float4e2m1,b_group=32,b_scale=group,"
      "b_scale_type=float8e8m0,b_scale_window=1,";
  Prove(Parsed(layer + "bias=1,k=528,n=200"),
        Tile(40, 256, 128, 32, 128, "mmas_in_flight=2,stages=2"), H200(), {40},
        1);
  Prove(Parsed(layer + "k=1024,n=72"),
        Tile(8, 64, 512, 16, 128, "mmas_in_flight=2,stages=2"), H200(), {1, 7},
        2);
  Prove(Parsed("a=float8e5m2,a_scale=none,b=float4e2m1,b_group=128,"
               "b_scale=group,b_scale_type=float8e8m0,b_scale_window=1,"
               "k=592,n=128"),
        Tile(32, 128, 128, 16, 128,
             "mmas_in_flight=2,stages=3,split=split_k,split_k=2"),
        H200(), {31}, 3);
}

uint32_t TestSeed() {
  const char* text = std::getenv("HONE_TEST_SEED");
  return text == nullptr
             ? 20261202u
             : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// A format on a ragged shape and a ragged M, with a config drawn from those of
// the space that `wanted` has.
void ProveRandom(const LayerConfig& format, uint32_t seed, std::mt19937& random,
                 bool (*wanted)(const TuningConfig&)) {
  Problem problem;
  problem.layer = format;
  problem.layer.n = 1 + static_cast<int64_t>(random() % 300);
  problem.layer.k = 16 * (1 + static_cast<int64_t>(random() % 50));
  problem.layer.bias = random() % 2 == 0;
  ASSERT_TRUE(CheckProblem(problem, H200()).ok())
      << CheckProblem(problem, H200());
  std::vector<TuningConfig> configs = Enumerate(problem, H200(), 128);
  configs.erase(
      std::remove_if(configs.begin(), configs.end(),
                     [&](const TuningConfig& c) { return !wanted(c); }),
      configs.end());
  ASSERT_FALSE(configs.empty()) << problem.ToString();
  const TuningConfig config = configs[random() % configs.size()];
  Prove(problem, config, H200(),
        {1 + static_cast<int64_t>(random() % (config.block_m + 8))}, seed);
}

// Formats with a legal config drawn from the whole space. Which ones changes
// with the seed, which CI derives from the commit; HONE_TEST_ALL_FORMATS=1 runs
// all.
TEST(WgmmaGemmTest, FormatsWithRandomLegalConfigs) {
  const uint32_t seed = TestSeed();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const bool all = std::getenv("HONE_TEST_ALL_FORMATS") != nullptr;
  const size_t stride = all ? 1 : 64;
  std::vector<LayerConfig> formats = AllFormats(1, 1);
  // The engine's: activations of 16 and 8 bits, and no group narrower than an
  // MMA's columns.
  formats.erase(
      std::remove_if(formats.begin(), formats.end(),
                     [](const LayerConfig& layer) {
                       const int64_t group = layer.b_group;
                       return layer.a.bits() < 8 ||
                              (group != 0 && group * layer.a.bits() < 256);
                     }),
      formats.end());
  for (size_t i = seed % stride; i < formats.size(); i += stride) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " format " << i);
    // The emulator's time grows with the tile.
    ProveRandom(formats[i], seed + static_cast<uint32_t>(i), random,
                [](const TuningConfig& c) {
                  return c.mma == MmaInstruction::kWgmma &&
                         c.block_m * c.block_n <= 8192;
                });
    if (HasFatalFailure()) return;
  }
}

// The same of configs whose MMAs have tokens as rows; HONE_TEST_ALL_FORMATS=1
// runs all formats that have them.
TEST(WgmmaGemmTest, TokenRowsWithRandomLegalConfigs) {
  const uint32_t seed = TestSeed();
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  std::vector<LayerConfig> formats = AllFormats(1, 1);
  formats.erase(
      std::remove_if(formats.begin(), formats.end(),
                     [](const LayerConfig& layer) {
                       const WeightLayout w = WeightLayoutOf(layer);
                       return layer.a.bits() != 8 || !w.direct() ||
                              (layer.b_group != 0 && !w.block) ||
                              (layer.a_group != 0 && layer.a_group < 32);
                     }),
      formats.end());
  const size_t stride =
      std::getenv("HONE_TEST_ALL_FORMATS") != nullptr ? 1 : formats.size() / 4;
  for (size_t i = seed % stride; i < formats.size(); i += stride) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " format " << i);
    ProveRandom(formats[i], seed + static_cast<uint32_t>(i), random,
                [](const TuningConfig& c) {
                  return TokenRows(c) && c.block_m * c.block_n <= 16384;
                });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace hone
