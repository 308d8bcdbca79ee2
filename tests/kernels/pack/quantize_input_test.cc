// Quantization of activations: what the CPU's codes and scales must satisfy,
// and the device kernel on the emulator, byte for byte the same.
#include "kernels/pack/quantize_input.h"

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

namespace hone {
namespace {

using testing::HasSubstr;

const DataType kTypes[] = {kFloat8e4m3, kFloat8e5m2, kInt8, kInt4, kFloat4e2m1};

Problem MakeProblem(DataType a, InputScale scale, int64_t k, int64_t group = 0,
                    InputScaleLayout layout = InputScaleLayout::kRowMajor) {
  Problem problem;
  problem.layer.n = 64;
  problem.layer.k = k;
  problem.layer.a = a;
  problem.layer.b = kInt4;
  problem.layer.a_scale = scale;
  problem.layer.a_group = group;
  problem.compute.a_scale_layout = layout;
  return problem;
}

// Rows and stretches of columns of very different size, and zeros.
std::vector<uint16_t> RandomInput(DataType type, int64_t m, int64_t k,
                                  uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 1);
  std::vector<uint16_t> codes;
  for (int64_t i = 0; i < m * k; ++i) {
    double value = normal(random);
    switch ((i / k + i % k / 16) % 7) {
      case 2:
        value = 0;
        break;
      case 3:
        value *= type == kFloat16 ? 1e-6 : 1e-39;
        break;
      case 4:
        value *= type == kFloat16 ? 2e4 : 1e38;
        break;
      default:
        break;
    }
    codes.push_back(static_cast<uint16_t>(type.Encode(value)));
  }
  return codes;
}

int CodeAt(const Problem& problem, const QuantizedInput& q, int64_t i) {
  const int bits = problem.layer.a.bits();
  const auto byte =
      static_cast<int>(q.codes[static_cast<size_t>(i * bits / 8)]);
  return bits == 8 ? byte : byte >> i % 2 * 4 & 15;
}

float ScaleAt(const Problem& problem, const QuantizedInput& q, int64_t m,
              int64_t row, int64_t column) {
  const LayerConfig& layer = problem.layer;
  const auto at = [&](int64_t i) { return q.scales[static_cast<size_t>(i)]; };
  if (layer.a_scale == InputScale::kTensor) return at(0);
  if (layer.a_scale == InputScale::kToken) return at(row);
  const int64_t groups = (layer.k + layer.a_group - 1) / layer.a_group;
  const int64_t group = column / layer.a_group;
  return problem.compute.a_scale_layout == InputScaleLayout::kColumnMajor
             ? at(group * m + row)
             : at(row * groups + group);
}

QuantizedInput Quantized(const Problem& problem, DataType input,
                         const std::vector<uint16_t>& x, float given = 1) {
  auto q = QuantizeInput(problem, input, x, given);
  EXPECT_TRUE(q.ok()) << q.status();
  return q.ok() ? *std::move(q) : QuantizedInput();
}

TEST(QuantizeInputTest, ScalesMapTheLargestOntoTheLargest) {
  constexpr int64_t kM = 5, kK = 200;
  for (const DataType a : kTypes) {
    for (const auto layout :
         {InputScaleLayout::kRowMajor, InputScaleLayout::kColumnMajor}) {
      for (const int64_t group : {0, 16, 64, 200}) {
        const Problem problem =
            MakeProblem(a, group == 0 ? InputScale::kToken : InputScale::kGroup,
                        kK, group, layout);
        const std::vector<uint16_t> x = RandomInput(kFloat16, kM, kK, 1);
        const QuantizedInput q = Quantized(problem, kFloat16, x);
        const int64_t columns = group == 0 ? kK : group;
        ASSERT_EQ(q.scales.size(),
                  static_cast<size_t>(kM * ((kK + columns - 1) / columns)));
        for (int64_t row = 0; row < kM; ++row) {
          for (int64_t begin = 0; begin < kK; begin += columns) {
            double most = 0, most_code = 0;
            for (int64_t c = begin; c < std::min(begin + columns, kK); ++c) {
              most =
                  std::max(most, std::fabs(kFloat16.Decode(x[row * kK + c])));
              most_code = std::max(
                  most_code,
                  std::fabs(a.Decode(CodeAt(problem, q, row * kK + c))));
            }
            const float scale = ScaleAt(problem, q, kM, row, begin);
            EXPECT_EQ(scale, most == 0 ? 1.0f
                                       : static_cast<float>(most) /
                                             static_cast<float>(a.MaxFinite()));
            EXPECT_EQ(most_code, most == 0 ? 0 : a.MaxFinite());
          }
        }
      }
    }
  }
}

TEST(QuantizeInputTest, CodesAreTheNearest) {
  // All float16 numbers, by a scale that is not a power of two.
  std::vector<uint16_t> x;
  for (uint32_t code = 0; code < 1 << 16; ++code) {
    x.push_back(static_cast<uint16_t>(code));
  }
  for (const DataType a : kTypes) {
    for (const float scale : {1.0f, 0.37f, 130.0f}) {
      const Problem problem = MakeProblem(a, InputScale::kTensor, 1 << 16);
      const QuantizedInput q = Quantized(problem, kFloat16, x, scale);
      ASSERT_EQ(q.scales, std::vector<float>{scale});
      const bool has_nan = a == kFloat8e4m3 || a == kFloat8e5m2;
      for (uint32_t code = 0; code < 1 << 16; ++code) {
        const double value = kFloat16.Decode(code);
        const int got = CodeAt(problem, q, code);
        if (std::isnan(value)) {
          EXPECT_EQ(got, has_nan ? 0x7f : 0);
          continue;
        }
        const float quotient = static_cast<float>(value) * (1 / scale);
        const double most = a.MaxFinite();
        const double inside =
            std::clamp(static_cast<double>(quotient), -most, most);
        ASSERT_EQ(got, static_cast<int>(a.Encode(inside)))
            << a.ToString() << " " << value << " / " << scale;
      }
    }
  }
}

TEST(QuantizeInputTest, TinyInputsKeepFiniteReciprocals) {
  // bfloat16 subnormals: their quotients are below the least normal float32.
  const Problem problem = MakeProblem(kInt8, InputScale::kToken, 4);
  const std::vector<uint16_t> x = {1, 2, 0x8003, 0};
  const QuantizedInput q = Quantized(problem, kBfloat16, x);
  EXPECT_EQ(q.scales, std::vector<float>{0x1p-126f});
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(CodeAt(problem, q, i), 0);
}

TEST(QuantizeInputTest, InfinityIsTheLargestValueAndNanPoisonsItsGroup) {
  const uint16_t infinity = 0x7c00, nan = 0xfe01, one = 0x3c00;
  for (const DataType a : kTypes) {
    const Problem problem = MakeProblem(a, InputScale::kGroup, 48, 16);
    std::vector<uint16_t> x(48, one);
    x[3] = infinity;
    x[4] = infinity | 0x8000;
    x[20] = nan;
    x[21] = infinity;
    const QuantizedInput q = Quantized(problem, kFloat16, x);
    const auto largest = static_cast<float>(a.MaxFinite());
    EXPECT_EQ(q.scales[0], 65504 / largest);
    EXPECT_EQ(a.Decode(CodeAt(problem, q, 3)), largest);
    EXPECT_EQ(a.Decode(CodeAt(problem, q, 4)), -largest);
    EXPECT_TRUE(std::isnan(q.scales[1]));
    EXPECT_EQ(q.scales[2], 1 / largest);
    const bool has_nan = a == kFloat8e4m3 || a == kFloat8e5m2;
    for (int64_t i = 16; i < 32; ++i) {
      EXPECT_EQ(CodeAt(problem, q, i), has_nan ? 0x7f : 0);
    }
    EXPECT_EQ(a.Decode(CodeAt(problem, q, 40)), largest);
  }
}

TEST(QuantizeInputTest, ErrorsNameTheFieldAndWhatIsLegal) {
  const auto message = [](const Problem& problem, DataType input = kFloat16,
                          size_t size = 64, float scale = 1) {
    const std::vector<uint16_t> x(size);
    const absl::Status status =
        QuantizeInput(problem, input, x, scale).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(MakeProblem(kFloat16, InputScale::kToken, 64)),
              HasSubstr("layer.a is float16; activations are quantized to "
                        "float8e4m3"));
  EXPECT_THAT(message(MakeProblem(kInt8, InputScale::kNone, 64)),
              HasSubstr("layer.a_scale is none"));
  EXPECT_THAT(message(MakeProblem(kInt4, InputScale::kToken, 63)),
              HasSubstr("layer.k is 63; it must be even"));
  EXPECT_THAT(message(MakeProblem(kInt8, InputScale::kGroup, 64, 24)),
              HasSubstr("layer.a_group"));
  const Problem good = MakeProblem(kInt8, InputScale::kToken, 64);
  EXPECT_THAT(message(good, kFloat32), HasSubstr("float16 or bfloat16"));
  EXPECT_THAT(message(good, kFloat16, 65), HasSubstr("layer.k, 64"));
  EXPECT_THAT(
      message(MakeProblem(kInt8, InputScale::kTensor, 64), kFloat16, 64, 0.0f),
      HasSubstr("at least 2^-126"));
  const DeviceSpec h200 = *ModelledDevice("h200");
  EXPECT_THAT(
      std::string(RenderQuantizeInput(good, kFloat32, h200).status().message()),
      HasSubstr("float16 or bfloat16"));
  EXPECT_THAT(
      std::string(RenderQuantizeInput(MakeProblem(kInt8, InputScale::kNone, 64),
                                      kFloat16, h200)
                      .status()
                      .message()),
      HasSubstr("layer.a_scale"));
}

const Nvrtc& Compiler() {
  static const auto* nvrtc = [] {
    auto loaded = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return new std::shared_ptr<const Nvrtc>(*std::move(loaded));
  }();
  return **nvrtc;
}

emulator::HostBuffer Bind(void* data, size_t bytes, bool writable) {
  return {static_cast<std::byte*>(data), bytes, writable, !writable};
}

// The device's answer must be the CPU's.
void ExpectSameOnEmulator(const Problem& problem, DataType input, int64_t arch,
                          std::vector<uint16_t> x, float given = 1) {
  const int64_t m = static_cast<int64_t>(x.size()) / problem.layer.k;
  SCOPED_TRACE(testing::Message()
               << problem.ToString() << " m=" << m << " from "
               << input.ToString() << " on sm_" << arch);
  const QuantizedInput expected = Quantized(problem, input, x, given);
  DeviceSpec device = *ModelledDevice("h200");
  device.sm_arch = arch;
  const auto unit = RenderQuantizeInput(problem, input, device);
  ASSERT_TRUE(unit.ok()) << unit.status();
  CompileRequest request;
  request.source = unit->source;
  request.arch = unit->arch;
  const auto compiled = Compiler().Compile(request);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_TRUE(compiled->ok()) << compiled->log;
  const auto module = emulator::Module::Parse(compiled->ptx);
  ASSERT_TRUE(module.ok()) << module.status();
  QuantizedInput got;
  got.codes.assign(expected.codes.size(), std::byte{0xee});
  got.scales.assign(expected.scales.size(), given);
  const bool given_scale = problem.layer.a_scale == InputScale::kTensor;
  const emulator::Bindings bindings = {
      {BufferRole::kInput, Bind(x.data(), x.size() * 2, false)},
      {BufferRole::kA, Bind(got.codes.data(), got.codes.size(), true)},
      {BufferRole::kAScale,
       Bind(got.scales.data(), got.scales.size() * 4, !given_scale)}};
  const auto stats =
      emulator::Execute(*module, PlanQuantizeInput(problem, m), bindings, {});
  ASSERT_TRUE(stats.ok()) << stats.status();
  for (size_t i = 0; i < expected.scales.size(); ++i) {
    ASSERT_EQ(std::memcmp(&got.scales[i], &expected.scales[i], 4), 0)
        << "scale " << i << ": " << got.scales[i] << " and "
        << expected.scales[i];
  }
  for (size_t i = 0; i < expected.codes.size(); ++i) {
    ASSERT_EQ(static_cast<int>(got.codes[i]),
              static_cast<int>(expected.codes[i]))
        << "byte " << i;
  }
}

TEST(DeviceQuantizeInputTest, GivesTheBytesOfTheCpu) {
  struct Case {
    InputScale scale;
    int64_t group;
    int64_t m, k;
  };
  using enum InputScale;
  // Every alignment of rows; one and many threads a region; rows held and read
  // twice; last groups that end early.
  const Case cases[] = {
      {kToken, 0, 3, 8192},   {kToken, 0, 2, 70002},   {kToken, 0, 9, 1288},
      {kToken, 0, 300, 2},    {kToken, 0, 37, 100},    {kToken, 0, 5, 4106},
      {kTensor, 0, 7, 520},   {kTensor, 0, 3, 2050},   {kTensor, 0, 130, 12},
      {kGroup, 16, 5, 512},   {kGroup, 32, 3, 1000},   {kGroup, 64, 17, 448},
      {kGroup, 128, 5, 1024}, {kGroup, 128, 3, 1090},  {kGroup, 256, 3, 1288},
      {kGroup, 512, 2, 2100}, {kGroup, 1024, 3, 4096}, {kGroup, 1024, 2, 1500},
      {kGroup, 330, 4, 330},  {kGroup, 128, 70, 6},
  };
  const DataType inputs[] = {kFloat16, kBfloat16};
  const int64_t archs[] = {90, 75, 89, 80};
  const bool all = std::getenv("HONE_TEST_ALL_FORMATS") != nullptr;
  size_t i = 0;
  for (const Case& c : cases) {
    for (size_t t = 0; t < std::size(kTypes); ++t) {
      // A share of the pairs: each case with two types.
      if (!all && t != i % 5 && t != (i + 2) % 5) continue;
      const DataType input = inputs[(i + t) % 2];
      const int64_t arch = archs[(i + t / 2) % 4];
      const auto layout = (i + t) % 3 == 0 ? InputScaleLayout::kColumnMajor
                                           : InputScaleLayout::kRowMajor;
      ExpectSameOnEmulator(
          MakeProblem(kTypes[t], c.scale, c.k, c.group, layout), input, arch,
          RandomInput(input, c.m, c.k, static_cast<uint32_t>(i)),
          input == kFloat16 ? 0.7f : 3e35f);
      if (HasFailure()) return;
    }
    ++i;
  }
}

TEST(DeviceQuantizeInputTest, OddColumnsOfOneByteTypes) {
  for (const DataType a : {kFloat8e4m3, kInt8}) {
    ExpectSameOnEmulator(MakeProblem(a, InputScale::kToken, 333), kFloat16, 90,
                         RandomInput(kFloat16, 11, 333, 3));
    ExpectSameOnEmulator(MakeProblem(a, InputScale::kGroup, 77, 32), kBfloat16,
                         75, RandomInput(kBfloat16, 11, 77, 4));
  }
}

TEST(DeviceQuantizeInputTest, EveryFloat16NanAndInfinityIncluded) {
  std::vector<uint16_t> x;
  for (uint32_t code = 0; code < 1 << 16; ++code) {
    // Neighbours of a group differ in size.
    x.push_back(static_cast<uint16_t>(code * 40503u));
  }
  for (const DataType a : kTypes) {
    for (const int64_t arch : {75, 90, 120}) {
      ExpectSameOnEmulator(MakeProblem(a, InputScale::kTensor, 1 << 10),
                           kFloat16, arch, x, 21.0f);
      if (HasFailure()) return;
    }
    ExpectSameOnEmulator(MakeProblem(a, InputScale::kGroup, 1 << 10, 16),
                         kFloat16, 90, x);
  }
}

}  // namespace
}  // namespace hone
