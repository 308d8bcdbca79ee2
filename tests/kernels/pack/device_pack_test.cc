// The packing kernels on the emulator: the same bytes as on the CPU.
#include "kernels/pack/device_pack.h"

#include <cmath>
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
#include "kernels/emulator/emulator.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/pack/pack.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

// Weights of `input`'s type, as codes and as floats.
struct Weights {
  std::vector<std::byte> codes;
  std::vector<float> values;
};

Weights RandomInput(const LayerConfig& layer, DataType input, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 0.05);
  Weights w;
  const int bytes = input.bits() / 8;
  for (int64_t i = 0; i < layer.n * layer.k; ++i) {
    // Some rows are zeros, some tiny, some large, as are some columns.
    double value = normal(random);
    if (i / layer.k % 7 == 3 || i % layer.k / 16 % 5 == 2) value = 0;
    if (i / layer.k % 7 == 4) value *= 1e-7;
    if (i / layer.k % 7 == 5) value *= 3e4;
    const uint32_t code = input.Encode(value);
    w.values.push_back(static_cast<float>(input.Decode(code)));
    for (int b = 0; b < bytes; ++b) {
      w.codes.push_back(static_cast<std::byte>(code >> 8 * b));
    }
  }
  return w;
}

struct Packed {
  PackedWeights weights;
  uint32_t not_finite = 0;
};

Packed PackOnEmulator(const LayerConfig& layer, DataType input,
                      Weights& weights) {
  static const auto* nvrtc = [] {
    auto loaded = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return new std::shared_ptr<const Nvrtc>(*std::move(loaded));
  }();
  const auto pack = RenderPack(layer, input, *ModelledDevice("h200"));
  EXPECT_TRUE(pack.ok()) << pack.status();
  CompileRequest request;
  request.source = pack->source;
  request.arch = pack->arch;
  const auto compiled = (*nvrtc)->Compile(request);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(compiled->ok()) << compiled->log;
  const auto module = emulator::Module::Parse(compiled->ptx);
  EXPECT_TRUE(module.ok()) << module.status();

  Packed out;
  PackedWeights& packed = out.weights;
  packed.b.assign(PackedWeightBytes(layer), std::byte{0xee});
  packed.scales.assign(PackedScaleBytes(layer), std::byte{0});
  uint32_t workspace[2] = {0, 0};
  emulator::Bindings bindings;
  bindings[BufferRole::kWeights] = {weights.codes.data(), weights.codes.size(),
                                    false, true};
  bindings[BufferRole::kB] = {packed.b.data(), packed.b.size(), true, true};
  bindings[BufferRole::kBScale] = {packed.scales.data(), packed.scales.size(),
                                   true, true};
  bindings[BufferRole::kWorkspace] = {reinterpret_cast<std::byte*>(workspace),
                                      sizeof(workspace), true, true};
  for (const LaunchPlan& plan : pack->launches) {
    const auto stats = emulator::Execute(*module, plan, bindings, {});
    EXPECT_TRUE(stats.ok()) << stats.status();
  }

  out.not_finite = workspace[1];
  return out;
}

std::string FirstDifference(const std::vector<std::byte>& a,
                            const std::vector<std::byte>& b) {
  if (a.size() != b.size()) return "sizes";
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) {
      return absl::StrCat("byte ", i, ": ", static_cast<int>(a[i]), " and ",
                          static_cast<int>(b[i]));
    }
  }
  return "";
}

TEST(DevicePackTest, GivesTheBytesOfTheCpu) {
  const std::vector<LayerConfig> formats = AllFormats(1, 1);
  const bool all = std::getenv("HONE_TEST_ALL_FORMATS") != nullptr;
  const DataType inputs[] = {kFloat16, kBfloat16, kFloat32};
  std::mt19937 random(7);
  for (size_t i = 0; i < formats.size(); i += all ? 1 : 61) {
    LayerConfig layer = formats[i];
    layer.n = 1 + static_cast<int64_t>(random() % 140);
    layer.k = 1 + static_cast<int64_t>(random() % 300);
    const DataType input = inputs[random() % 3];
    SCOPED_TRACE(testing::Message() << i << " " << layer.ToString() << " from "
                                    << input.ToString());
    Weights weights = RandomInput(layer, input, static_cast<uint32_t>(i));
    const auto quantized = Quantize(layer, weights.values);
    ASSERT_TRUE(quantized.ok()) << quantized.status();
    const auto expected = Pack(layer, *quantized);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const Packed got = PackOnEmulator(layer, input, weights);
    EXPECT_EQ(FirstDifference(got.weights.scales, expected->scales), "");
    EXPECT_EQ(FirstDifference(got.weights.b, expected->b), "");
    EXPECT_EQ(got.not_finite, 0u);
    const auto back = Unpack(layer, got.weights);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->codes, quantized->codes);
    if (HasFailure()) return;
  }
}

TEST(DevicePackTest, CountsWeightsThatAreNotFinite) {
  const LayerConfig layer = MakeLayer(20, 70, kFloat16, kInt4,
                                      {ScaleGranularity::kChannel, kFloat16});
  Weights weights = RandomInput(layer, kFloat32, 3);
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       -std::numeric_limits<float>::infinity()};
  std::memcpy(weights.codes.data() + 5 * 4, &bad[0], 4);
  std::memcpy(weights.codes.data() + 900 * 4, &bad[1], 4);
  EXPECT_EQ(PackOnEmulator(layer, kFloat32, weights).not_finite, 2u);
}

TEST(DevicePackTest, RefusesOtherInputs) {
  const LayerConfig layer = MakeLayer(20, 70, kFloat16, kInt4,
                                      {ScaleGranularity::kChannel, kFloat16});
  EXPECT_THAT(
      std::string(
          RenderPack(layer, kInt8, *ModelledDevice("h200")).status().message()),
      testing::HasSubstr("float16, bfloat16 or float32"));
}

}  // namespace
}  // namespace hone
