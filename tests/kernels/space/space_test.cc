#include "kernels/space/space.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

using testing::HasSubstr;

Problem MakeProblem(int64_t n, int64_t k, DataType b, int64_t group) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b = b;
  if (group != 0) {
    problem.layer.b_scale = ScaleGranularity::kGroup;
    problem.layer.b_group = group;
  }
  return problem;
}

DeviceSpec Device(const std::string& name) { return *ModelledDevice(name); }

// Eight warps along K, a ring each.
TuningConfig MmaSyncConfig() {
  TuningConfig config;
  config.block_m = config.warp_m = 16;
  config.block_n = config.warp_n = 64;
  config.block_k = 1024;
  config.warp_k = 128;
  config.stages = 3;
  return config;
}

TEST(SpaceTest, HeuristicDefaultIsLegalEverywhere) {
  for (const std::string& name : ModelledDeviceNames()) {
    for (const DataType b : {kInt4, kInt8}) {
      for (const int64_t group : {0, 32, 64, 128}) {
        for (const auto& [n, k] :
             std::vector<std::pair<int64_t, int64_t>>{{8192, 8192},
                                                      {1, 1},
                                                      {57344, 8192},
                                                      {1280, 8192},
                                                      {70, 33},
                                                      {8192, 28672},
                                                      {64, 1 << 20},
                                                      {1 << 20, 64}}) {
          const Problem problem = MakeProblem(n, k, b, group);
          ASSERT_TRUE(CheckProblem(problem, Device(name)).ok());
          for (int64_t m = 1; m <= 16384; m = m < 300 ? m + 7 : m * 2) {
            const TuningConfig config =
                HeuristicDefault(problem, Device(name), m);
            const auto refusal = CheckConfig(problem, Device(name), config);
            ASSERT_FALSE(refusal.has_value())
                << name << " m=" << m << " n=" << n << " k=" << k << ": "
                << refusal->reason;
          }
        }
      }
    }
  }
}

TEST(SpaceTest, WithoutAnMmaTheNextActivationTypeIsAnswered) {
  const auto next = [](DataType a, DataType b, const std::string& device) {
    Problem problem = MakeProblem(1024, 1024, b, 0);
    problem.layer.a = a;
    if (a.bits() < 16) problem.layer.a_scale = InputScale::kToken;
    const auto fallback = NextComputable(problem, Device(device));
    EXPECT_TRUE(fallback.ok()) << fallback.status();
    EXPECT_TRUE(CheckProblem(fallback->problem, Device(device)).ok());
    EXPECT_EQ(fallback->note.empty(), fallback->problem == problem);
    if (!fallback->note.empty()) {
      EXPECT_THAT(std::string(CheckProblem(problem, Device(device)).message()),
                  HasSubstr(fallback->note));
    }
    const LayerConfig& layer = fallback->problem.layer;
    EXPECT_EQ(layer.a_scale == InputScale::kNone, layer.a.bits() == 16);
    return layer.a;
  };
  EXPECT_EQ(next(kFloat8e4m3, kInt4, "h200"), kFloat8e4m3);
  EXPECT_EQ(next(kFloat8e4m3, kInt4, "a100"), kFloat16);
  EXPECT_EQ(next(kFloat8e5m2, kFloat8e5m2, "a100"), kFloat16);
  EXPECT_EQ(next(kFloat4e2m1, kFloat4e2m1, "h200"), kFloat8e4m3);
  EXPECT_EQ(next(kFloat4e2m1, kFloat4e2m1, "a100"), kFloat16);
  EXPECT_EQ(next(kInt8, kInt8, "a100"), kInt8);
  EXPECT_EQ(next(kInt4, kInt4, "t4"), kInt4);
  EXPECT_EQ(next(kBfloat16, kInt4, "t4"), kFloat16);
  EXPECT_EQ(next(kFloat8e5m2, kInt4, "t4"), kFloat16);
}

TEST(SpaceTest, RulesOfNarrowActivations) {
  Problem problem = MakeProblem(1024, 1024, kInt8, 0);
  problem.layer.a = kInt8;
  problem.layer.a_scale = InputScale::kToken;
  const DeviceSpec h200 = Device("h200");
  TuningConfig config = HeuristicDefault(problem, h200, 16);
  EXPECT_FALSE(CheckConfig(problem, h200, config));
  // Rows of operands come in segments of 128 bytes.
  config.block_k = config.warp_k = 64;
  ASSERT_TRUE(CheckConfig(problem, h200, config));
  EXPECT_EQ(CheckConfig(problem, h200, config)->rule, "row_segments");

  problem.layer.k = 65537;
  EXPECT_THAT(std::string(CheckProblem(problem, h200).message()),
              HasSubstr("at most 65536 columns per scale"));
  problem.layer.a_scale = InputScale::kGroup;
  problem.layer.a_group = 128;
  EXPECT_TRUE(CheckProblem(problem, h200).ok());
  problem.layer.a = problem.layer.b = kInt4;
  EXPECT_THAT(std::string(CheckProblem(problem, h200).message()),
              HasSubstr("even numbers of columns"));
  problem.layer.k = 1024;
  problem.layer.a_group = 16;
  EXPECT_THAT(std::string(CheckProblem(problem, h200).message()),
              HasSubstr("at least 32 columns"));
  problem = MakeProblem(1024, 1024, kInt4, 0);
  problem.layer.a_scale = InputScale::kToken;
  EXPECT_THAT(std::string(CheckProblem(problem, h200).message()),
              HasSubstr("none with 16-bit"));
  // A warp along K scales groups of its own.
  problem = MakeProblem(1024, 1024, kInt4, 128);
  config = MmaSyncConfig();
  config.block_k = 384;
  config.warp_k = 192;
  config.warp_n = 32;
  ASSERT_TRUE(CheckConfig(problem, h200, config));
  EXPECT_EQ(CheckConfig(problem, h200, config)->rule, "group_tiles_block_k");
}

TEST(SpaceTest, EveryFormatHasALegalDefaultAndChoices) {
  for (const std::string& name : ModelledDeviceNames()) {
    for (const LayerConfig& layer : AllFormats(4096, 4096)) {
      for (const DataType accumulator : {kFloat32, kFloat16}) {
        Problem problem;
        problem.layer = layer;
        problem.compute.accumulator = accumulator;
        const bool has = HasActivation(layer.a, Device(name)) &&
                         (accumulator == kFloat32 || layer.a == kFloat16);
        ASSERT_EQ(CheckProblem(problem, Device(name)).ok(), has)
            << problem.ToString() << CheckProblem(problem, Device(name));
        if (!has) continue;
        for (const int64_t m : {1, 16, 20, 32, 64, 300, 4096}) {
          const TuningConfig config =
              HeuristicDefault(problem, Device(name), m);
          const auto refusal = CheckConfig(problem, Device(name), config);
          ASSERT_FALSE(refusal.has_value())
              << name << " m=" << m << " " << problem.ToString() << ": "
              << refusal->reason;
        }
      }
    }
  }
  Problem problem;
  problem.layer = MakeLayer(512, 512, kFloat16, kFloat8e4m3,
                            {ScaleGranularity::kBlock, kFloat32, 128, 128});
  EXPECT_GT(Enumerate(problem, Device("h200"), 256).size(), 100u);
}

TEST(SpaceTest, ScalesGoAfterTheMmaWhereTheyMustOrCostLess) {
  Problem problem = MakeProblem(512, 512, kInt4, 128);
  TuningConfig config;
  config.warp_m = 16;
  config.warp_k = 64;
  EXPECT_TRUE(ScalesAfterMma(problem, config));
  config.warp_m = 64;
  EXPECT_FALSE(ScalesAfterMma(problem, config));
  const int64_t before = EstimateRegisters(problem, config);
  problem.layer.b_scale_type = kFloat8e8m0;
  EXPECT_TRUE(ScalesAfterMma(problem, config));
  EXPECT_EQ(EstimateRegisters(problem, config), before + 8 * 4 * 4);
  problem.layer.b_group = 512;  // one group: channel scales
  EXPECT_FALSE(ScalesAfterMma(problem, config));
}

TEST(SpaceTest, EnumeratesManyDistinctLegalConfigs) {
  for (const std::string& name : ModelledDeviceNames()) {
    const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
    const std::vector<TuningConfig> configs =
        Enumerate(problem, Device(name), 8192);
    EXPECT_GT(configs.size(), 1000u) << name;
    std::set<std::string> texts;
    for (const TuningConfig& config : configs) {
      ASSERT_FALSE(CheckConfig(problem, Device(name), config).has_value());
      EXPECT_TRUE(texts.insert(config.ToString()).second);
    }
  }
}

std::string Reason(const Problem& problem, const TuningConfig& config) {
  const auto refusal = CheckConfig(problem, Device("h200"), config);
  return refusal ? refusal->rule + ": " + refusal->reason : "";
}

// A's scales come four groups of a token at a time where they lie side by side,
// a step has one of them and there is room: two sets of 16 bytes a token.
TEST(SpaceTest, FoursOfInputScalesTakeMemoryWhereThereIsRoom) {
  const std::string layer =
      "a=float8e4m3,a_scale=group,a_group=128,b=float8e4m3,b_scale=block,"
      "b_scale_type=float32,b_group=128,b_group_n=128,n=8192,";
  const Problem rows = *Problem::Parse(layer + "k=8192;");
  TuningConfig config = HeuristicDefault(rows, Device("h200"), 4096);
  config.block_m = 128;
  config.warp_m = 16;
  config.block_n = config.warp_n = 128;
  config.block_k = config.warp_k = 128;
  config.stages = 6;
  ASSERT_EQ(Reason(rows, config), "");
  EXPECT_EQ(AScaleQuadBytes(rows, config), 2 * 128 * 16);
  const Problem columns =
      *Problem::Parse(layer + "k=8192;a_scale_layout=column_major");
  EXPECT_EQ(AScaleQuadBytes(columns, config), 0);
  EXPECT_EQ(SmemBytes(rows, config) - SmemBytes(columns, config), 2 * 128 * 16);
  // 65 groups, of which some token's four do not begin on 16 bytes.
  EXPECT_EQ(AScaleQuadBytes(*Problem::Parse(layer + "k=8320;"), config), 0);
  // Two groups a step.
  TuningConfig wide = config;
  wide.block_k = wide.warp_k = 256;
  wide.stages = 3;
  ASSERT_EQ(Reason(rows, wide), "");
  EXPECT_EQ(AScaleQuadBytes(rows, wide), 0);
  // Five stages of 128 x 192 leave 4000 bytes.
  TuningConfig full = config;
  full.block_n = full.warp_n = 192;
  full.stages = 5;
  ASSERT_EQ(Reason(rows, full), "");
  EXPECT_GT(SmemBytes(rows, full), (227 << 10) - 2 * 128 * 16);
  EXPECT_EQ(AScaleQuadBytes(rows, full), 0);
}

// SM75 has no cp.async, and little of everything.
TEST(SpaceTest, Sm75LoadsThroughRegisters) {
  const DeviceSpec t4 = Device("t4");
  const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
  for (const TuningConfig& config : Enumerate(problem, t4, 8192)) {
    ASSERT_EQ(config.producer_a, Producer::kLdg);
    ASSERT_EQ(config.stages, 2);
  }
  for (int64_t m = 1; m <= 4096; m *= 4) {
    const TuningConfig config = HeuristicDefault(problem, t4, m);
    // Enough warps to cover loads and barriers.
    EXPECT_GE(config.threads() * config.ctas_per_sm, 128) << m;
    EXPECT_LE(SmemBytes(problem, config) * config.ctas_per_sm, 65536) << m;
  }
  TuningConfig config = HeuristicDefault(problem, t4, 16);
  config.ctas_per_sm = 1;
  const auto rule = [&](const DeviceSpec& device) {
    const auto refusal = CheckConfig(problem, device, config);
    return refusal ? refusal->rule : "";
  };
  EXPECT_EQ(rule(t4), "");
  // Newer devices may, so that they can prove it.
  EXPECT_EQ(rule(Device("h200")), "");
  const int64_t through_registers = EstimateRegisters(problem, config);
  config.stages = 3;
  EXPECT_EQ(rule(Device("h200")), "ldg_stages");
  config.stages = 2;
  config.producer_scale = Producer::kCpAsync;
  EXPECT_EQ(rule(Device("h200")), "producers");
  config.producer_a = config.producer_b = Producer::kCpAsync;
  EXPECT_EQ(rule(Device("h200")), "");
  EXPECT_EQ(rule(t4), "producers");
  EXPECT_LT(EstimateRegisters(problem, config), through_registers);
}

// A thread that holds a part of the next stage has no registers to hide the
// partial sums of late scales in. This one spilled 520 bytes a thread
// (NVRTC 13.0, sm_80), and 128 loaded by cp.async.
TEST(SpaceTest, PartialSumsCountBesideAHeldStage) {
  const auto problem = Problem::Parse(
      "a=bfloat16,a_group=0,a_scale=none,b=int4,b_group=128,b_group_n=0,"
      "b_scale=group,b_scale_type=float8e8m0,bias=1,c=bfloat16,experts=1,k=448,"
      "n=124,zero_point=none;" +
      ComputeConfig().ToString());
  ASSERT_TRUE(problem.ok()) << problem.status();
  auto config = TuningConfig::Parse(
      "block_k=256,block_m=64,block_n=64,cluster_m=1,cluster_n=1,ctas_per_sm=1,"
      "mma=mma_sync,mmas_in_flight=1,producer_a=ldg,producer_b=ldg,"
      "producer_scale=ldg,raster=along_m,split=data_parallel,split_k=1,stages="
      "2,"
      "warp_k=128,warp_m=32,warp_n=64,warp_specialized=0");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(ScalesAfterMma(*problem, *config));
  EXPECT_THAT(Reason(*problem, *config), HasSubstr("registers_fit"));
  config->producer_a = config->producer_b = config->producer_scale =
      Producer::kCpAsync;
  EXPECT_EQ(Reason(*problem, *config), "");
}

TEST(SpaceTest, SmallLaddersNeedFewerTiles) {
  const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
  for (const TuningConfig& config : Enumerate(problem, Device("h200"), 8)) {
    EXPECT_LE(config.block_m, 16);
  }
}

TEST(SpaceTest, EachRuleSaysWhatIsWrongAndWhatIsLegal) {
  const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
  const TuningConfig good = MmaSyncConfig();
  ASSERT_EQ(Reason(problem, good), "");
  TuningConfig c = good;
  c.mma = MmaInstruction::kTcgen05;
  EXPECT_THAT(Reason(problem, c), HasSubstr("mma_instruction"));
  c = good;
  c.producer_b = Producer::kTma;
  EXPECT_THAT(Reason(problem, c), HasSubstr("cp_async"));
  c = good;
  c.warp_specialized = true;
  EXPECT_THAT(Reason(problem, c), HasSubstr("producer tma"));
  c = good;
  c.mmas_in_flight = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("mmas_in_flight is 2"));
  c = good;
  c.cluster_m = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("cluster_m"));
  c = good;
  c.split = Split::kStreamK;
  c.split_k = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("stream_k"));
  c = good;
  c.block_n = c.warp_n = 32;
  EXPECT_THAT(Reason(problem, c), HasSubstr("a multiple of 64"));
  c = good;
  c.block_n = c.warp_n = 128;
  EXPECT_THAT(Reason(problem, c), HasSubstr("warp_n_fragments"));
  c = good;
  c.block_m = c.warp_m = 12;
  EXPECT_THAT(Reason(problem, c), HasSubstr("warp_m_fragments"));
  c = good;
  c.warp_k = 32;
  EXPECT_THAT(Reason(problem, c), HasSubstr("warp_k_units"));
  c = good;
  c.stages = 1;
  EXPECT_THAT(Reason(problem, c), HasSubstr("at least 2"));
  c = good;
  c.stages = 16;
  EXPECT_THAT(Reason(problem, c), HasSubstr("smem_fits"));
  c = good;
  c.ctas_per_sm = 4;
  EXPECT_THAT(Reason(problem, c), HasSubstr("ctas_fit_sm"));
  c = good;
  c.split = Split::kSplitK;
  c.split_k = 32;
  EXPECT_THAT(Reason(problem, c), HasSubstr("at most the 8 steps"));
  c = good;
  c.block_k = 192;
  c.warp_k = 192;
  EXPECT_THAT(Reason(problem, c), HasSubstr("group_tiles_block_k"));
  c = good;
  c.block_m = c.warp_m = 128;
  c.warp_n = 64;
  c.block_k = 64;
  c.warp_k = 64;
  c.stages = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("registers_fit"));
}

TuningConfig WgmmaConfig() {
  TuningConfig c;
  c.block_m = c.warp_m = 64;
  c.block_n = 128;
  c.block_k = c.warp_k = 128;
  c.warp_n = 16;
  c.stages = 4;
  c.mma = MmaInstruction::kWgmma;
  c.producer_a = c.producer_b = c.producer_scale = Producer::kTma;
  c.warp_specialized = true;
  c.mmas_in_flight = 2;
  return c;
}

TEST(SpaceTest, EachWgmmaRuleSaysWhatIsWrongAndWhatIsLegal) {
  const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
  const TuningConfig good = WgmmaConfig();
  ASSERT_EQ(Reason(problem, good), "");
  EXPECT_EQ(CheckConfig(problem, Device("a100"), good)->rule,
            "device_has_wgmma");
  Problem p = problem;
  p.compute.accumulator = kFloat16;
  EXPECT_THAT(Reason(p, good), HasSubstr("wgmma_accumulates_float32"));
  p = problem;
  p.layer.k = 8188;
  EXPECT_THAT(Reason(p, good), HasSubstr("a multiple of 8"));
  TuningConfig c = good;
  c.producer_scale = Producer::kCpAsync;
  EXPECT_THAT(Reason(problem, c), HasSubstr("loads with tma"));
  c = good;
  c.warp_specialized = false;
  EXPECT_THAT(Reason(problem, c), HasSubstr("must be 1 for wgmma"));
  c = good;
  c.warp_m = 32;
  EXPECT_THAT(Reason(problem, c), HasSubstr("warp_m is 32"));
  c = good;
  c.block_m = c.warp_m = 264;
  EXPECT_THAT(Reason(problem, c), HasSubstr("at most 256"));
  c = good;
  c.warp_n = 64;
  EXPECT_THAT(Reason(problem, c), HasSubstr("16 or 32"));
  c = good;
  c.block_n = 192;
  c.warp_n = 32;
  EXPECT_THAT(Reason(problem, c), HasSubstr("warpgroup's 128 channels"));
  c = good;
  c.block_n = 384;
  EXPECT_THAT(Reason(problem, c), HasSubstr("6 warpgroups"));
  c = good;
  c.mmas_in_flight = 5;
  EXPECT_THAT(Reason(problem, c), HasSubstr("at most the 2 groups"));
  c = good;
  c.block_m = c.warp_m = 16;
  c.mmas_in_flight = 3;
  EXPECT_THAT(Reason(problem, c), HasSubstr("at most the 2 groups"));
  c = good;
  c.block_m = c.warp_m = 128;
  c.block_k = c.warp_k = 64;
  c.ctas_per_sm = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("wgmma's 96 registers"));
  c = good;
  c.block_k = 384;
  c.warp_k = 192;
  EXPECT_THAT(Reason(problem, c), HasSubstr("group_tiles_block_k"));
  c = good;
  c.cluster_n = 3;
  EXPECT_THAT(Reason(problem, c), HasSubstr("powers of two"));
  c = good;
  c.block_m = c.warp_m = 24;
  c.block_k = c.warp_k = 64;
  c.mmas_in_flight = 1;
  c.cluster_n = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("times 8 tokens"));
  c = good;
  c.cluster_m = 4;
  EXPECT_THAT(Reason(problem, c), HasSubstr("2 times 64 channels"));
}

TEST(SpaceTest, TokensAreRowsOfWgmmaWhereAWarpHasAllChannels) {
  const auto parse = [](const std::string& layer) {
    return *Problem::Parse(layer + ",k=8192,n=8192;");
  };
  const Problem problem = parse(
      "a=float8e4m3,a_group=128,a_scale=group,b=float8e4m3,b_group=128,"
      "b_group_n=128,b_scale=block,b_scale_type=float32");
  TuningConfig good = WgmmaConfig();
  EXPECT_FALSE(TokenRows(good));
  EXPECT_EQ(WgmmaColumnsOf(good), 64);
  good.block_m = 128;
  good.warp_m = 16;
  good.warp_n = good.block_n = 128;
  good.mmas_in_flight = 1;
  ASSERT_EQ(Reason(problem, good), "");
  EXPECT_TRUE(TokenRows(good));
  EXPECT_EQ(WgmmaColumnsOf(good), 128);
  EXPECT_EQ(good.math_threads(), 256);
  EXPECT_TRUE(StreamsTiles(good));

  TuningConfig c = good;
  c.warp_m = 64;
  EXPECT_THAT(Reason(problem, c), HasSubstr("warp_m is 64"));
  EXPECT_THAT(Reason(problem, c), HasSubstr("16 or 32"));
  c = good;
  c.block_m = 96;
  EXPECT_THAT(Reason(problem, c), HasSubstr("warpgroup's 64 tokens"));
  // Rows of a tensor map's box, unless two CTAs bring half of them each.
  c = good;
  c.block_m = 384;
  c.block_n = c.warp_n = 64;
  c.warp_m = 32;
  c.stages = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("block_m is 384"));
  EXPECT_THAT(Reason(problem, c), HasSubstr("at most 256"));
  c.cluster_n = 2;
  EXPECT_EQ(Reason(problem, c), "");
  c = good;
  c.block_n = c.warp_n = 320;
  EXPECT_THAT(Reason(problem, c), HasSubstr("a multiple of 64, at most 256"));
  c = good;
  c.warp_m = 128;
  c.warp_n = 64;
  EXPECT_THAT(Reason(problem, c), HasSubstr("16 or 32, or block_n"));
  // A channel's own scales of groups would be wanted by every thread.
  EXPECT_THAT(
      Reason(parse("a=float8e4m3,a_scale=token,b=float8e4m3,b_group=128,"
                   "b_scale=group"),
             good),
      HasSubstr("scales of its groups"));
  EXPECT_THAT(
      Reason(parse("a=float8e4m3,a_scale=token,b=int4,b_scale=channel"), good),
      HasSubstr("packed weights"));
  // Twice 128 columns of sums and partial sums.
  c = good;
  c.block_n = c.warp_n = 256;
  c.stages = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("registers_fit"));
  EXPECT_EQ(Reason(parse("a=float8e4m3,a_scale=token,b=float8e4m3,"
                         "b_scale=channel"),
                   c),
            "");
}

TEST(SpaceTest, WgmmaRegistersAreSharedBetweenWarpgroups) {
  const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
  TuningConfig c = WgmmaConfig();
  EXPECT_EQ(RegistersOf(problem, c).launch, 168);
  EXPECT_FALSE(RegistersOf(problem, c).reassigned);
  c.block_m = c.warp_m = 128;
  c.block_n = 256;
  c.warp_n = 32;
  EXPECT_TRUE(RegistersOf(problem, c).reassigned);
  EXPECT_EQ(RegistersOf(problem, c).math, 240);
  EXPECT_EQ(RegistersOf(problem, c).producer, 24);
  c.block_m = c.warp_m = 192;
  c.stages = 2;
  EXPECT_THAT(Reason(problem, c), HasSubstr("registers_fit"));
}

TEST(SpaceTest, AllRefusalsListsEachBrokenRule) {
  const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
  TuningConfig c = MmaSyncConfig();
  c.mma = MmaInstruction::kTcgen05;
  c.stages = 16;
  std::vector<std::string> rules;
  for (const Refusal& r : AllRefusals(problem, Device("h200"), c)) {
    rules.push_back(r.rule);
  }
  EXPECT_THAT(rules, testing::ElementsAre("mma_instruction", "smem_fits",
                                          "ctas_fit_sm"));
}

TEST(SpaceTest, EveryRuleTakesConfigsThatBreakOthers) {
  const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
  std::set<std::string> broken;
  for (const MmaInstruction mma :
       {MmaInstruction::kMmaSync, MmaInstruction::kWgmma}) {
    for (const int64_t warp_m : {8, 24, 512}) {
      for (const int64_t warp_n : {16, 24, 512}) {
        for (const int64_t warp_k : {16, 48, 2048}) {
          for (const int64_t more : {1, 2}) {
            TuningConfig c;
            c.mma = mma;
            c.block_m = c.warp_m = warp_m;
            c.block_n = c.warp_n = warp_n;
            c.block_k = c.warp_k = warp_k;
            c.ctas_per_sm = 16 / more;
            c.cluster_m = c.cluster_n = more;
            c.stages = 1;
            ASSERT_TRUE(c.Validate().ok()) << c.Validate();
            const auto all = AllRefusals(problem, Device("h200"), c);
            ASSERT_FALSE(all.empty());
            EXPECT_EQ(all[0].rule,
                      CheckConfig(problem, Device("h200"), c)->rule);
            for (const Refusal& refusal : all) broken.insert(refusal.rule);
          }
        }
      }
    }
  }
  // A warp alone is a part of a warpgroup.
  EXPECT_TRUE(broken.count("warpgroup_channels"));
  EXPECT_TRUE(broken.count("registers_fit"));
}

TEST(SpaceTest, WhatHasNoKernelIsRefusedByName) {
  const DeviceSpec device = Device("h200");
  const Problem good = MakeProblem(8192, 8192, kInt4, 128);
  const auto message = [&](const Problem& p) {
    const absl::Status status = CheckProblem(p, device);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    return std::string(status.message());
  };
  Problem p = good;
  p.layer.b = DataType::Float(6, 1);
  EXPECT_THAT(message(p), HasSubstr("layer.b = float8e6m1"));
  p = good;
  p.layer.a = kFloat4e2m1;
  p.layer.b = kFloat4e2m1;
  EXPECT_THAT(message(p), HasSubstr("layer.a"));
  p = good;
  p.layer.b_scale_type = kFloat32;
  EXPECT_THAT(message(p), HasSubstr("layer.b_scale_type"));
  p = good;
  p.layer.a_scale = InputScale::kToken;
  EXPECT_THAT(message(p), HasSubstr("layer.a_scale"));
  p = good;
  p.layer.a = p.layer.c = kBfloat16;
  p.compute.accumulator = kFloat16;
  EXPECT_THAT(message(p), HasSubstr("compute.accumulator"));
  p = good;
  p.layer.experts = 8;
  p.compute.gemm = GemmType::kGroupedMasked;
  EXPECT_THAT(message(p), HasSubstr("compute.gemm = grouped_masked"));
  DeviceSpec volta = device;
  volta.sm_arch = 70;
  EXPECT_THAT(std::string(CheckProblem(good, volta).message()),
              HasSubstr("device.sm_arch = 70; there are kernels for 75"));
  p = good;
  p.layer.a = kBfloat16;
  EXPECT_THAT(std::string(CheckProblem(p, Device("t4")).message()),
              HasSubstr("float16, int8, int4; next: layer.a=float16"));
}

TEST(SpaceTest, FloorsFollowBytesThenOperations) {
  const Problem problem = MakeProblem(8192, 8192, kInt4, 128);
  // 33.5 MB of weights, 1 MB of scales, 32 KB of activations and outputs.
  EXPECT_EQ(MinimumBytes(problem, 1),
            8192 * 8192 / 2 + 8192 * 64 * 2 + 2 * 8192 * 2);
  EXPECT_NEAR(FloorNs(problem, Device("h200"), 1), 8057, 10);
  EXPECT_NEAR(FloorNs(problem, Device("h200"), 8192), 1245e3, 5e3);
}

}  // namespace
}  // namespace hone
