// The parts of the measurer that need no GPU.
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/memory/packed_layout.cuh"
#include "kernels/emulator/emulator.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/pack/pack.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/format_list.h"
#include "tuner/measure/device_reference.h"
#include "tuner/measure/gate.h"
#include "tuner/measure/gpu_measurer.h"
#include "tuner/measure/helper_kernels.h"
#include "tuner/measure/operands.h"

namespace hone {
namespace {

using testing::HasSubstr;

Problem MakeProblem(int64_t n, int64_t k) {
  Problem problem;
  problem.layer.n = n;
  problem.layer.k = k;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 32;
  return problem;
}

TEST(CheckedRowsTest, SmallMAreCheckedWhole) {
  for (const int64_t m : {1, 17, 511, 512}) {
    const std::vector<int64_t> rows = CheckedRows(m, 1);
    ASSERT_EQ(static_cast<int64_t>(rows.size()), m);
    EXPECT_EQ(rows.front(), 0);
    EXPECT_EQ(rows.back(), m - 1);
  }
}

TEST(CheckedRowsTest, LargeMCoverEveryTileAndTheEnd) {
  for (const int64_t m : {513, 600, 768, 1000, 8192}) {
    const std::vector<int64_t> rows = CheckedRows(m, 7);
    for (size_t i = 1; i < rows.size(); ++i) {
      ASSERT_LT(rows[i - 1], rows[i]) << m;
    }
    ASSERT_LT(rows.back(), m);
    std::vector<bool> in(static_cast<size_t>(m));
    for (const int64_t row : rows) in[static_cast<size_t>(row)] = true;
    for (int64_t row = 0; row < 512; ++row) EXPECT_TRUE(in[row]) << m;
    for (int64_t row = m - 64; row < m; ++row) EXPECT_TRUE(in[row]) << m;
    for (int64_t tile = 0; tile + 16 <= m; tile += 16) {
      bool any = false;
      for (int64_t row = tile; row < tile + 16; ++row) any = any || in[row];
      EXPECT_TRUE(any) << "rows " << tile << " to " << tile + 15 << " of " << m;
    }
    EXPECT_LE(rows.size(), 512u + static_cast<size_t>(m) / 16 + 64);
  }
  // What a gate at a smaller M checks beyond the largest M's rows fits in one
  // chunk: its last rows.
  const std::vector<int64_t> all = CheckedRows(8192, 7);
  int64_t beyond = 0;
  for (const int64_t row : CheckedRows(1536, 7)) {
    if (!std::binary_search(all.begin(), all.end(), row)) ++beyond;
  }
  EXPECT_LE(beyond, 64);
}

TEST(SummarizeTest, FindsTheWorstAndTheNorm) {
  // Two rows of two parts each.
  std::vector<RowComparison> found(4);
  found[0] = {0.5, 40, 0.25f, 3};
  found[1] = {0.5, 60, 0.5f, 9};
  found[2] = {1, 100, 0.75f, 4};
  found[3] = {2, 200, 0.1f, 5};
  const std::vector<int64_t> rows = {0, 700};
  const ComparisonSummary summary = Summarize(found, 2, rows);
  EXPECT_DOUBLE_EQ(summary.error.relative_norm, 0.1);
  EXPECT_DOUBLE_EQ(summary.error.worst_ratio, 0.75);
  EXPECT_EQ(summary.worst_m, 700);
  EXPECT_EQ(summary.worst_n, 4);
  found[1].ratio = std::numeric_limits<float>::infinity();
  EXPECT_GT(Summarize(found, 2, rows).error.worst_ratio, 1e6);
  EXPECT_LT(Summarize(found, 2, rows).error.worst_ratio, 1e31);
}

TEST(WhyWrongTest, HoldsElementsAndTheirNormToTheTolerance) {
  const Tolerance tolerance = {1e-3, 1e-3, 4e-4};
  ComparisonSummary summary;
  summary.error = {.relative_norm = 3e-4, .worst_ratio = 0.5};
  EXPECT_EQ(WhyWrong(summary, kNormElements, tolerance), "");
  // One product in a thousand missing shows in no single element.
  summary.error.relative_norm = 5e-4;
  EXPECT_THAT(WhyWrong(summary, kNormElements, tolerance),
              testing::HasSubstr("256 outputs together is 0.0005"));
  EXPECT_EQ(WhyWrong(summary, kNormElements - 1, tolerance), "");
  summary.error.worst_ratio = 1.5;
  summary.worst_m = 3;
  summary.worst_n = 4;
  EXPECT_THAT(WhyWrong(summary, 1, tolerance), testing::HasSubstr("C[3][4]"));
}

TEST(OperandsTest, HostOperandsPackAndGiveOutputsOfAFewUnits) {
  const Problem problem = MakeProblem(100, 200);
  const auto operands = MakeHostOperands(problem, 4, 11);
  ASSERT_TRUE(operands.ok()) << operands.status();
  ASSERT_TRUE(Pack(problem.layer, operands->weights).ok());
  const OracleResult oracle =
      Oracle(problem, 4, operands->a, operands->a_scales, operands->weights,
             operands->bias);
  double square = 0;
  for (const double c : oracle.c) square += c * c;
  const double rms = std::sqrt(square / static_cast<double>(oracle.c.size()));
  EXPECT_GT(rms, 1);
  EXPECT_LT(rms, 50);
}

TEST(OperandsTest, TheSmallestScaleStaysNormal) {
  Problem problem = MakeProblem(64, 1 << 20);
  problem.layer.b = kInt8;
  // Smallest normal float16 is 2^-14; scales go down to a quarter of the base.
  EXPECT_GE(ScaleBase(problem.layer) / 4, std::ldexp(1.0, -14));
}

TEST(OperandsTest, RefusalsNameTheField) {
  Problem problem = MakeProblem(64, 64);
  problem.layer.a = kFloat8e4m3;
  problem.layer.b = kInt8;
  const absl::Status status = CheckOperands(problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer.b = int8"));
}

TEST(HelperKernelsTest, CompileForEveryArchitectureWithoutSpills) {
  const auto nvrtc = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
  for (const char* arch : {"sm_80", "sm_90a"}) {
    CompileRequest request;
    request.source = HelperSource();
    request.arch = arch;
    const auto result = (*nvrtc)->Compile(request);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->ok()) << result->log;
    EXPECT_EQ(result->resources.spill_store_bytes, 0) << result->log;
  }
}

// The helpers' kernels as functions that a launch of buffers and integers can
// call, with a format's numbers rendered in.
std::string EmulatedSource(const Problem& problem, int64_t m, uint64_t seed) {
  const LayerConfig& layer = problem.layer;
  const generator::WeightFormat f = GeneratorFormat(layer);
  return absl::StrCat(
      absl::StrReplaceAll(
          HelperSource(),
          {{"__noinline__", "inline"},  // the emulator has no calls
           {"extern \"C\" __global__ void __launch_bounds__(256)\n    "
            "hone_reference(",
            "__device__ void hone_reference("},
           {"extern \"C\" __global__ void hone_fill_weights(",
            "__device__ void hone_fill_weights("},
           {"extern \"C\" __global__ void hone_fill_scales(",
            "__device__ void hone_fill_scales("}}),
      "__device__ WeightFormat Format() { return {", f.bits, ",", f.width, ",",
      f.code_layout, ",", f.stored_xor, ",", f.format, ",", f.scale_format, ",",
      f.zero_format, ",", f.scale_bits, ",", f.zero_bits, ",", f.block, ",",
      f.group, ",", f.group_n, ",", f.groups, ",", f.entry_bytes, ",",
      f.entry_scale_bytes, ",", f.tensor_scale, ",", f.tensor_offset, "}; }\n",
      "extern \"C\" __global__ void fill(U32* b, unsigned char* s, int) {\n",
      "  hone_fill_weights(b, ", layout::RoundUp(layer.n, 64), ", ",
      layout::RoundUp(layer.k, 64), ", ", layer.k, ", ", seed,
      ", Format());\n  hone_fill_scales(s, ", layout::RoundUp(layer.n, 64),
      ", ", seed,
      absl::StrFormat(", %af, %af", ScaleBase(layer), TensorScale(layer)),
      ", Format());\n}\n",
      "extern \"C\" __global__ void reference(\n"
      "    const unsigned char* a, const U32* b, const unsigned char* s,\n"
      "    const unsigned short* bias, unsigned char* c, const int* rows,\n"
      "    const float* a_scales, int) {\n  InputScales x = {",
      layer.a_scale == InputScale::kNone ? "nullptr" : "a_scales", ", ",
      layer.a_scale == InputScale::kTensor ? 0
                                           : InputScaleCount(problem, m) / m,
      ", ", layer.a_group, "};\n  hone_reference(a, x, b, s, ",
      layer.bias ? "bias" : "nullptr", ", rows, ", m, ", ", layer.n, ", ",
      layer.k, ", Format(), ", GeneratorType(layer.a), ", ",
      GeneratorType(layer.c), absl::StrFormat(", %a", MagnitudeFloor(layer)),
      ",\n      (double*)c, (float*)(c + ", m * layer.n * 8, "));\n}\n");
}

// Operands and reference of some formats, on the emulator: what the device
// makes is what the host makes, and the oracle's products.
TEST(HelperKernelsTest, MakeTheHostsOperandsAndTheOraclesResults) {
  const auto nvrtc = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
  constexpr uint64_t kSeed = 9;
  constexpr int64_t kM = 3;
  using enum ScaleGranularity;
  LayerConfig mxfp4 = MakeLayer(70, 100, kBfloat16, kInt4, {kNone, kFloat16});
  ASSERT_TRUE(ApplyPreset("nvfp4", mxfp4).ok());
  for (const LayerConfig& layer :
       {MakeLayer(70, 100, kFloat16, DataType::Int(3), {kGroup, kFloat16, 32}),
        MakeLayer(65, 90, kBfloat16, DataType::Uint(4), {kGroup, kBfloat16, 64},
                  ZeroPoint::kInteger),
        MakeLayer(65, 90, kFloat16, DataType::Uint(7), {kChannel, kFloat8e5m2},
                  ZeroPoint::kFloat),
        MakeLayer(70, 300, kFloat16, DataType::Float(0, 4),
                  {kBlock, kFloat32, 128, 64}),
        mxfp4,
        MakeLayer(70, 130, kFloat8e4m3, kFloat8e4m3,
                  {kBlock, kFloat32, 128, 64}),
        MakeLayer(65, 90, kInt8, DataType::Uint(3), {kGroup, kFloat16, 32},
                  ZeroPoint::kInteger),
        MakeLayer(70, 100, kInt4, kInt4, {kChannel, kFloat32}),
        MakeLayer(70, 100, kFloat4e2m1, DataType::Int(3),
                  {kTensor, kFloat32})}) {
    Problem problem;
    problem.layer = layer;
    // Of each kind one.
    if (layer.a == kFloat8e4m3) {
      problem.layer.a_scale = InputScale::kGroup;
      problem.layer.a_group = 64;
    } else if (layer.a == kInt8) {
      problem.layer.a_scale = InputScale::kToken;
    } else if (layer.a == kInt4) {
      problem.layer.a_scale = InputScale::kTensor;
    }
    problem.layer.bias = layer.n == 65;
    SCOPED_TRACE(problem.ToString());
    CompileRequest request;
    request.source = EmulatedSource(problem, kM, kSeed);
    request.arch = "sm_80";
    const auto compiled = (*nvrtc)->Compile(request);
    ASSERT_TRUE(compiled.ok() && compiled->ok()) << compiled->log;
    const auto module = emulator::Module::Parse(compiled->ptx);
    ASSERT_TRUE(module.ok()) << module.status();

    PackedWeights packed;
    packed.b.resize(PackedWeightBytes(layer));
    packed.scales.resize(PackedScaleBytes(layer));
    LaunchPlan plan;
    plan.kernel_name = "fill";
    plan.block.x = 256;
    plan.args = {{LaunchArg::Kind::kBuffer, BufferRole::kB, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kBScale, 0},
                 {LaunchArg::Kind::kInt32, BufferRole::kA, 0}};
    emulator::Bindings bindings;
    bindings[BufferRole::kB] = {packed.b.data(), packed.b.size(), true, false};
    bindings[BufferRole::kBScale] = {packed.scales.data(), packed.scales.size(),
                                     true, true};
    auto stats = emulator::Execute(*module, plan, bindings, {});
    ASSERT_TRUE(stats.ok()) << stats.status();
    const auto host = MakeHostOperands(problem, kM, kSeed);
    ASSERT_TRUE(host.ok()) << host.status();
    const auto weights = Unpack(layer, packed);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->codes, host->weights.codes);
    EXPECT_EQ(weights->scales, host->weights.scales);
    EXPECT_EQ(weights->zeros, host->weights.zeros);
    EXPECT_EQ(weights->tensor_scale, host->weights.tensor_scale);
    ASSERT_TRUE(Pack(layer, host->weights).ok());

    const OracleResult oracle =
        Oracle(problem, kM, host->a, host->a_scales, host->weights, host->bias);
    std::vector<std::byte> out(kM * layer.n * 12);
    std::vector<int32_t> rows = {0, 1, 2};
    std::vector<std::byte> a = PackActivations(layer, host->a);
    std::vector<float> a_scales = host->a_scales;
    auto bias = host->bias;
    bias.resize(layer.n);
    const auto read_only = [](auto& data) {
      return emulator::HostBuffer{reinterpret_cast<std::byte*>(data.data()),
                                  data.size() * sizeof(data[0]), false, true};
    };
    bindings[BufferRole::kB] = read_only(packed.b);
    bindings[BufferRole::kBScale] = read_only(packed.scales);
    bindings[BufferRole::kA] = read_only(a);
    bindings[BufferRole::kAScale] = read_only(a_scales);
    bindings[BufferRole::kBias] = read_only(bias);
    bindings[BufferRole::kC] = {out.data(), out.size(), true, false};
    bindings[BufferRole::kWorkspace] = read_only(rows);
    plan.kernel_name = "reference";
    plan.grid.x = static_cast<uint32_t>((layer.n + 63) / 64);
    plan.args = {{LaunchArg::Kind::kBuffer, BufferRole::kA, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kB, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kBScale, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kBias, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kC, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kWorkspace, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kAScale, 0},
                 {LaunchArg::Kind::kInt32, BufferRole::kA, 0}};
    plan.workspace_bytes = rows.size() * 4;
    stats = emulator::Execute(*module, plan, bindings, {});
    ASSERT_TRUE(stats.ok()) << stats.status();
    for (int64_t i = 0; i < kM * layer.n; ++i) {
      double c = 0;
      float magnitude = 0;
      std::memcpy(&c, out.data() + i * 8, 8);
      std::memcpy(&magnitude, out.data() + kM * layer.n * 8 + i * 4, 4);
      ASSERT_NEAR(c, oracle.c[i], 1e-12 * oracle.magnitude[i]) << i;
      ASSERT_NEAR(magnitude, oracle.magnitude[i], 1e-6 * oracle.magnitude[i]);
    }
  }
}

// The hash that shows whether operands were overwritten, on the emulator.
TEST(HelperKernelsTest, AHashOfWordsShowsEveryBit) {
  const auto nvrtc = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
  CompileRequest request;
  request.source = absl::StrCat(
      absl::StrReplaceAll(HelperSource(),
                          {{"__noinline__", "inline"},
                           {"extern \"C\" __global__ void hone_hash_words(",
                            "__device__ void hone_hash_words("}}),
      "extern \"C\" __global__ void hash(const U64* b, U64* c, int words) {\n"
      "  hone_hash_words(b, words, c);\n}\n");
  request.arch = "sm_80";
  const auto compiled = (*nvrtc)->Compile(request);
  ASSERT_TRUE(compiled.ok() && compiled->ok()) << compiled->log;
  const auto module = emulator::Module::Parse(compiled->ptx);
  ASSERT_TRUE(module.ok()) << module.status();
  std::vector<uint64_t> words(1000, 0);
  words[17] = 3;
  const auto hash = [&](uint32_t ctas) {
    LaunchPlan plan;
    plan.kernel_name = "hash";
    plan.grid.x = ctas;
    plan.block.x = 256;
    plan.args = {{LaunchArg::Kind::kBuffer, BufferRole::kB, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kC, 0},
                 {LaunchArg::Kind::kInt32, BufferRole::kA, 1000}};
    uint64_t sum = 0;
    emulator::Bindings bindings;
    bindings[BufferRole::kB] = {reinterpret_cast<std::byte*>(words.data()),
                                words.size() * 8, false, true};
    bindings[BufferRole::kC] = {reinterpret_cast<std::byte*>(&sum), 8, true,
                                true};
    const auto stats = emulator::Execute(*module, plan, bindings, {});
    EXPECT_TRUE(stats.ok()) << stats.status();
    return sum;
  };
  const uint64_t before = hash(4);
  EXPECT_NE(before, 0u);
  EXPECT_EQ(hash(2), before);
  for (const size_t word : {size_t{0}, size_t{17}, size_t{999}}) {
    for (const int bit : {0, 63}) {
      words[word] ^= uint64_t{1} << bit;
      EXPECT_NE(hash(4), before) << word << "." << bit;
      words[word] ^= uint64_t{1} << bit;
    }
  }
  // The same words in another order.
  std::swap(words[17], words[18]);
  EXPECT_NE(hash(4), before);
}

// This machine may have a GPU; without one everything must say so and survive.
TEST(GpuMeasurerTest, WithoutADeviceCreateExplains) {
  GpuMeasurer::Options options;
  options.device = 1000;
  const auto measurer =
      GpuMeasurer::Create(options, [](const std::string&, const std::string&) {
        return absl::StatusOr<std::string>("");
      });
  ASSERT_FALSE(measurer.ok());
  EXPECT_FALSE(measurer.status().message().empty());
}

}  // namespace
}  // namespace hone
