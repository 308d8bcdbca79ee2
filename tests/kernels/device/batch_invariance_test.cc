// Batch invariance, proved on the CPU: kernels that may serve one problem,
// drawn from the whole space, give the bits of one row of A whatever other rows
// it is batched with, and wherever it lies among them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"
#include "tests/kernels/device/kernel_proof.h"

namespace hone {
namespace {

constexpr int64_t kRows = 80;

uint32_t TestSeed() {
  const char* text = std::getenv("HONE_TEST_SEED");
  return text == nullptr
             ? 20261202u
             : static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}

// Operands whose outputs are the errors of rounding alone, so that every bit
// depends on the order of the sums: of `pairs` pieces of K, the second half of
// each has the weights of the first, and the activations with the sign turned.
// Activations take the whole range of exponents, or short types would have sums
// without errors.
Operands Cancelling(const Problem& problem, int64_t m, int64_t pairs,
                    uint32_t seed) {
  const LayerConfig& layer = problem.layer;
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Operands o = MakeOperands(problem, m, seed);
  // [rows][columns], of which each row is to be periodic.
  const auto repeat = [&](auto& values, int64_t rows) {
    const int64_t columns = static_cast<int64_t>(values.size()) / rows;
    if (columns <= 1) return;
    const int64_t half = columns / (2 * pairs);
    for (int64_t i = 0; i < rows * columns; i += 2 * half) {
      std::copy_n(values.begin() + i, half, values.begin() + i + half);
    }
  };
  repeat(o.weights.codes, layer.n);
  repeat(o.weights.scales, ScaleRows(layer));
  repeat(o.weights.zeros, layer.n);
  const int64_t half = layer.k / (2 * pairs);
  const int exponents = layer.a.is_integer() ? 0 : 15;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t k = 0; k < layer.k; ++k) {
      if (k / half % 2 == 1) continue;
      uint16_t& code = o.a[i * layer.k + k];
      if (exponents > 0) {
        const int e = static_cast<int>(random() % exponents) - 6;
        const double value = std::ldexp(normal(random), e);
        code = static_cast<uint16_t>(layer.a.Encode(
            std::clamp(value, -layer.a.MaxFinite(), layer.a.MaxFinite())));
      }
      o.a[i * layer.k + half + k] =
          static_cast<uint16_t>(layer.a.Encode(-layer.a.Decode(code)));
      if (o.a_scales.empty()) continue;
      o.a_scales[InputScaleIndex(problem, m, i, half + k)] =
          o.a_scales[InputScaleIndex(problem, m, i, k)];
    }
  }
  // What is left should be normal numbers of type C.
  for (float& scale : o.a_scales) scale *= 1024;
  for (uint16_t& bias : o.bias) {
    bias = static_cast<uint16_t>(
        layer.c.Encode(std::ldexp(layer.c.Decode(bias), -12)));
  }
  o.packed = *Pack(layer, o.weights);
  return o;
}

// Rows first, first + 1, ... of `all`, `m` of them, around its end.
Operands Batch(const Problem& problem, const Operands& all, int64_t first,
               int64_t m) {
  const LayerConfig& layer = problem.layer;
  Operands o = all;
  o.a.resize(m * layer.k);
  o.a_scales.resize(InputScaleCount(problem, m));
  for (int64_t i = 0; i < m; ++i) {
    const int64_t row = (first + i) % kRows;
    std::copy_n(all.a.begin() + row * layer.k, layer.k,
                o.a.begin() + i * layer.k);
    if (o.a_scales.empty()) continue;
    for (int64_t k = 0; k < layer.k; ++k) {
      o.a_scales[InputScaleIndex(problem, m, i, k)] =
          all.a_scales[InputScaleIndex(problem, kRows, row, k)];
    }
  }
  return o;
}

// Random legal configs and defaults, several M of each, against what the first
// of them gave. `seed` draws them.
void ProveInvariant(Problem problem, const DeviceSpec& device, uint32_t seed) {
  problem.compute.batch_invariant = true;
  SCOPED_TRACE(problem.ToString() + " on " + device.name);
  ASSERT_TRUE(CheckProblem(problem, device).ok())
      << CheckProblem(problem, device);
  std::mt19937 random(seed);
  std::vector<TuningConfig> space = Enumerate(problem, device, kRows);
  // The emulator's time grows with the tile.
  space.erase(std::remove_if(space.begin(), space.end(),
                             [](const TuningConfig& c) {
                               return c.block_m * c.block_n > 8192;
                             }),
              space.end());
  ASSERT_FALSE(space.empty());
  std::vector<TuningConfig> configs = {HeuristicDefault(problem, device, 1)};
  for (int i = 0; i < 2; ++i) configs.push_back(space[random() % space.size()]);
  configs.push_back(HeuristicDefault(problem, device, 40));

  const LayerConfig& layer = problem.layer;
  const Operands all =
      Cancelling(problem, kRows, InvariantOrder(problem, device).split_k, seed);
  const auto row = static_cast<int64_t>(random() % kRows);
  std::vector<uint16_t> expected;
  for (const TuningConfig& config : configs) {
    SCOPED_TRACE(config.ToString());
    const emulator::Module module = Build(problem, config, device);
    for (const int64_t m : {int64_t{1}, std::min(config.block_m + 3, kRows)}) {
      const auto place = static_cast<int64_t>(random() % m);
      Operands operands = Batch(problem, all, (row - place + kRows) % kRows, m);
      const std::vector<uint16_t> c =
          Emulate(module, layer, PlanLaunch(problem, config, m), operands,
                  m * layer.n, seed, emulator::CopyLanding::kLatest);
      const std::vector<uint16_t> bits(c.begin() + place * layer.n,
                                       c.begin() + (place + 1) * layer.n);
      if (expected.empty()) {
        expected = bits;
        // Most outputs are errors, so that the comparison means something.
        int64_t zeros = 0;
        for (const uint16_t code : bits) zeros += (code & 0x7fff) == 0;
        EXPECT_LT(zeros, layer.n * 3 / 4);
      }
      EXPECT_EQ(bits, expected) << "M = " << m << ", row " << place;
    }
  }
}

DeviceSpec Device(const char* name) { return *ModelledDevice(name); }

TEST(BatchInvarianceTest, Wgmma) {
  const DeviceSpec h200 = Device("h200");
  const uint32_t seed = TestSeed();
  // Channels that begin at different steps.
  ProveInvariant(MakeProblem(328, 1280, kFloat16, kInt4, 128, false), h200,
                 seed);
  ProveInvariant(MakeProblem(100, 1072, kBfloat16, kInt8, 0, true), h200,
                 seed + 1);
  Problem zeros = MakeProblem(64, 1152, kFloat16, DataType::Uint(4), 64, false);
  zeros.layer.zero_point = ZeroPoint::kInteger;
  ProveInvariant(zeros, h200, seed + 2);
  Problem mxfp4 = MakeProblem(64, 1088, kBfloat16, kInt4, 0, false);
  ASSERT_TRUE(ApplyPreset("mxfp4", mxfp4.layer).ok());
  ProveInvariant(mxfp4, h200, seed + 3);
}

// Few channels: K is split over CTAs too.
TEST(BatchInvarianceTest, SplitsOfK) {
  const Problem problem = MakeProblem(64, 4096, kFloat16, kInt4, 128, false);
  for (const char* name : {"h200", "a100"}) {
    ASSERT_EQ(InvariantOrder(problem, Device(name)).split_k, 2);
    ProveInvariant(problem, Device(name), TestSeed());
  }
}

TEST(BatchInvarianceTest, NarrowActivations) {
  const uint32_t seed = TestSeed();
  // Their sums alone are often exact; scales of many bits make errors.
  Problem fp8 = MakeProblem(64, 1280, kFloat8e4m3, kInt4, 128, false);
  fp8.layer.a_scale = InputScale::kToken;
  fp8.layer.c = kBfloat16;
  fp8.layer.b_scale_type = kBfloat16;
  ProveInvariant(fp8, Device("h200"), seed);
  ASSERT_TRUE(ApplyPreset("mxfp4", fp8.layer).ok());
  fp8.layer.a_scale = InputScale::kGroup;
  fp8.layer.a_group = 128;
  ProveInvariant(fp8, Device("rtx4090"), seed + 1);
  Problem int8 = MakeProblem(72, 1280, kInt8, kInt4, 128, false);
  int8.layer.a_scale = InputScale::kGroup;
  int8.layer.a_group = 64;
  int8.layer.c = kFloat16;
  int8.layer.b_scale_type = kFloat16;
  ProveInvariant(int8, Device("h200"), seed + 2);
  ProveInvariant(int8, Device("a100"), seed + 3);
}

TEST(BatchInvarianceTest, MmaSync) {
  const uint32_t seed = TestSeed();
  ProveInvariant(MakeProblem(328, 1280, kFloat16, kInt4, 128, false),
                 Device("a100"), seed);
  Problem half = MakeProblem(64, 1024, kFloat16, kInt4, 64, true);
  half.compute.accumulator = kFloat16;
  ProveInvariant(half, Device("a100"), seed + 1);
  ProveInvariant(MakeProblem(100, 1152, kFloat16, kInt4, 64, false),
                 Device("t4"), seed + 2);
}

}  // namespace
}  // namespace hone
