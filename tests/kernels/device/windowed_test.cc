// Lookups of weights with their scales (numeric/windowed.cuh): every code with
// every scale of the window, in every register, on the emulator.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/codegen/codegen.h"
#include "kernels/codegen/embedded.h"
#include "kernels/config/weight_layout.h"
#include "tests/kernels/device/kernel_proof.h"

namespace hone {
namespace {

// A thread makes the four steps of 128 columns of its block's rows g and g + 8.
std::string Source(const LayerConfig& layer) {
  return absl::StrCat(
      FlattenedDeviceSource({"numeric/narrow.cuh", "numeric/windowed.cuh",
                             "memory/packed_layout.cuh"}),
      "using Type = ", TypesOf(layer).a, R"(;
extern "C" __global__ void windowed(const hone::u32* b,
                                    const hone::u8* scales,
                                    const hone::u8* least, hone::u32* c) {
  const int thread = hone::ptx::ThreadIdX();
  const int block = thread / 32;
  const int row = block * 16 + thread % 32 / 4;
  const hone::TablePair base =
      hone::WindowedWeight::Base<Type>(least[row], least[row + 8]);
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    hone::u32 words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      words[w] = b[(step / 2 * 4 + block) * 128 +
                   hone::layout::WordIndex(4, thread % 32, w)];
    }
    // An entry for each group of 32 columns: a pair of rows side by side.
    const hone::u8* pair = scales + step * 64 + hone::layout::LaneOrder(row);
    const hone::TablePair tables = hone::WindowedWeight::Scaled<Type>(
        base, pair[0] | static_cast<hone::u32>(pair[1]) << 8);
    hone::u32 a[4];
    if (step % 2 == 0) {
      hone::WindowedWeight::Fragment<0>(words, tables, a);
    } else {
      hone::WindowedWeight::Fragment<1>(words, tables, a);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) c[(thread * 4 + step) * 4 + r] = a[r];
  }
  if (thread == 0) {
    c[128 * 16] = hone::WindowedWeight::kExponent<Type, true>;
  }
}
)");
}

class WindowedTest : public testing::TestWithParam<DataType> {};

TEST_P(WindowedTest, EveryCodeAtEveryScaleInEveryRegister) {
  LayerConfig layer = MakeLayer(64, 128, GetParam(), kFloat4e2m1,
                                {ScaleGranularity::kGroup, kFloat8e8m0, 32});
  layer.b_scale_window = true;
  CompileRequest request;
  request.source = Source(layer);
  request.arch = "sm_80";
  const auto compiled = SharedNvrtc().Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_TRUE(compiled->ok()) << compiled->log;
  const auto module = emulator::Module::Parse(compiled->ptx);
  ASSERT_TRUE(module.ok()) << module.status();
  const int octaves = WindowOctaves(layer.a);
  // Each launch shifts codes and scales, so that all of them meet everywhere.
  for (int shift = 0; shift <= octaves; ++shift) {
    QuantizedWeights weights;
    for (int n = 0; n < 64; ++n) {
      for (int k = 0; k < 128; ++k) {
        weights.codes.push_back(static_cast<uint8_t>((n + 3 * k + shift) % 16));
      }
      for (int g = 0; g < 4; ++g) {
        // The first group has the least, and the second the largest.
        const int above = g == 0   ? 0
                          : g == 1 ? octaves
                                   : (n + 5 * g + shift) % (octaves + 1);
        weights.scales.push_back(100 + n % 3 + above);
      }
    }
    const auto packed = Pack(layer, weights);
    ASSERT_TRUE(packed.ok()) << packed.status();
    std::vector<uint8_t> scales(packed->scales.size());
    std::memcpy(scales.data(), packed->scales.data(), scales.size());
    std::vector<uint8_t> least(
        scales.begin() + WeightLayoutOf(layer).window_offset, scales.end());
    std::vector<std::byte> b = packed->b;
    std::vector<uint32_t> out(128 * 16 + 1);
    LaunchPlan plan;
    plan.kernel_name = "windowed";
    plan.block.x = 128;
    plan.args = {{LaunchArg::Kind::kBuffer, BufferRole::kB, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kBScale, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kBias, 0},
                 {LaunchArg::Kind::kBuffer, BufferRole::kC, 0}};
    emulator::Bindings bindings;
    bindings[BufferRole::kB] = ReadOnly(b);
    bindings[BufferRole::kBScale] = ReadOnly(scales);
    bindings[BufferRole::kBias] = ReadOnly(least);
    bindings[BufferRole::kC] = {reinterpret_cast<std::byte*>(out.data()),
                                out.size() * 4, true, false};
    const auto stats = emulator::Execute(*module, plan, bindings, {});
    ASSERT_TRUE(stats.ok()) << stats.status();
    for (int n = 0; n < 64; ++n) {
      for (int k = 0; k < 128; ++k) {
        const int word = k % 32 / 4;
        const int thread = n / 16 * 32 + n % 8 * 4 + word % 4;
        const int reg = word / 4 * 2 + n % 16 / 8;
        const uint32_t code =
            out[(thread * 4 + k / 32) * 4 + reg] >> k % 4 * 8 & 0xff;
        const double got =
            std::ldexp(layer.a.Decode(code),
                       static_cast<int>(out.back()) + least[n] - 127);
        const double want =
            std::ldexp(kFloat4e2m1.Decode(weights.codes[n * 128 + k]),
                       static_cast<int>(weights.scales[n * 4 + k / 32]) - 127);
        ASSERT_EQ(got, want)
            << "row " << n << " column " << k << " shift " << shift;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, WindowedTest,
                         testing::Values(kFloat8e4m3, kFloat8e5m2),
                         [](const auto& info) {
                           return info.param.ToString();
                         });

}  // namespace
}  // namespace hone
