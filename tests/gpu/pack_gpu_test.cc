// The packing kernels on a device: the bytes of the CPU, and their time.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/pack/device_pack.h"
#include "kernels/pack/pack.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/kernels/format_list.h"

namespace hone {
namespace {

class PackGpuTest : public GpuTest {
 protected:
  // A rendered packing with its buffers on the device.
  struct Packing {
    Module module;
    std::vector<LaunchPlan> plans;
    std::vector<FunctionHandle> functions;
    DeviceBuffer weights;
    DeviceBuffer b;
    DeviceBuffer scales;
    DeviceBuffer workspace;
  };

  absl::StatusOr<Packing> Prepare(const LayerConfig& layer, DataType input,
                                  const std::vector<uint16_t>& weights) {
    HONE_ASSIGN_OR_RETURN(DevicePack pack, RenderPack(layer, input, device_));
    HONE_ASSIGN_OR_RETURN(const std::string cubin,
                          compiler_->CompileSource(pack.source, pack.arch));
    Packing p;
    HONE_ASSIGN_OR_RETURN(p.module, Module::Load(cubin));
    p.plans = std::move(pack.launches);
    for (const LaunchPlan& plan : p.plans) {
      HONE_ASSIGN_OR_RETURN(FunctionHandle function,
                            p.module.Function(plan.kernel_name));
      p.functions.push_back(function);
    }
    HONE_ASSIGN_OR_RETURN(p.weights,
                          DeviceBuffer::Allocate(weights.size() * 2));
    HONE_ASSIGN_OR_RETURN(p.b,
                          DeviceBuffer::Allocate(PackedWeightBytes(layer)));
    HONE_ASSIGN_OR_RETURN(p.scales,
                          DeviceBuffer::Allocate(PackedScaleBytes(layer)));
    HONE_ASSIGN_OR_RETURN(p.workspace,
                          DeviceBuffer::Allocate(kPackWorkspaceBytes));
    HONE_RETURN_IF_ERROR(CopyToDevice(p.weights.ptr(), weights.data(),
                                      p.weights.bytes(), stream_.handle()));
    HONE_RETURN_IF_ERROR(
        Fill(p.scales.ptr(), 0, p.scales.bytes(), stream_.handle()));
    return p;
  }

  absl::Status Run(const Packing& p) {
    HONE_RETURN_IF_ERROR(
        Fill(p.workspace.ptr(), 0, p.workspace.bytes(), stream_.handle()));
    BufferBindings buffers;
    buffers.Bind(BufferRole::kWeights, p.weights.ptr())
        .Bind(BufferRole::kB, p.b.ptr())
        .Bind(BufferRole::kBScale, p.scales.ptr())
        .Bind(BufferRole::kWorkspace, p.workspace.ptr());
    for (size_t i = 0; i < p.plans.size(); ++i) {
      HONE_RETURN_IF_ERROR(
          Launch(p.functions[i], p.plans[i], buffers, stream_.handle()));
    }
    return Synchronize(stream_.handle());
  }
};

std::vector<uint16_t> RandomHalves(int64_t count, DataType type) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 0.02);
  std::vector<uint16_t> codes(static_cast<size_t>(count));
  // The encoder is slow: repeat a long random stretch.
  const size_t fresh = std::min<size_t>(codes.size(), 1 << 20);
  for (size_t i = 0; i < fresh; ++i) {
    codes[i] = static_cast<uint16_t>(type.Encode(normal(random)));
  }
  for (size_t i = fresh; i < codes.size(); ++i) codes[i] = codes[i - fresh];
  return codes;
}

TEST_F(PackGpuTest, GivesTheBytesOfTheCpu) {
  const std::vector<LayerConfig> formats = AllFormats(150, 333);
  for (size_t i = 0; i < formats.size(); i += 5) {
    const LayerConfig& layer = formats[i];
    const DataType input = i % 2 == 0 ? kFloat16 : kBfloat16;
    const std::vector<uint16_t> codes = RandomHalves(layer.n * layer.k, input);
    std::vector<float> values;
    for (const uint16_t code : codes) {
      values.push_back(static_cast<float>(input.Decode(code)));
    }
    const auto quantized = Quantize(layer, values);
    ASSERT_TRUE(quantized.ok()) << quantized.status();
    const auto expected = Pack(layer, *quantized);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto packing = Prepare(layer, input, codes);
    ASSERT_TRUE(packing.ok()) << packing.status();
    ASSERT_TRUE(Run(*packing).ok());
    EXPECT_EQ(Download<std::byte>(packing->b.ptr(), expected->b.size()),
              expected->b)
        << layer.ToString();
    EXPECT_EQ(
        Download<std::byte>(packing->scales.ptr(), expected->scales.size()),
        expected->scales)
        << layer.ToString();
  }
}

TEST_F(PackGpuTest, PacksALargeLayerInTwoMilliseconds) {
  using enum ScaleGranularity;
  LayerConfig nvfp4 = MakeLayer(8192, 8192, kFloat16, kInt4, {kNone, kFloat16});
  ASSERT_TRUE(ApplyPreset("nvfp4", nvfp4).ok());
  const std::vector<uint16_t> codes = RandomHalves(8192 * 8192, kFloat16);
  for (const LayerConfig& layer :
       {MakeLayer(8192, 8192, kFloat16, kInt4, {kGroup, kFloat16, 128}),
        MakeLayer(8192, 8192, kFloat16, kInt8, {kChannel, kFloat16}),
        MakeLayer(8192, 8192, kFloat16, DataType::Uint(3),
                  {kGroup, kFloat16, 64}, ZeroPoint::kInteger),
        MakeLayer(8192, 8192, kFloat16, kFloat8e4m3,
                  {kBlock, kFloat32, 128, 128}),
        nvfp4}) {
    const auto packing = Prepare(layer, kFloat16, codes);
    ASSERT_TRUE(packing.ok()) << packing.status();
    double best_ms = 1e9;
    for (int i = 0; i < 10; ++i) {
      const auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(Run(*packing).ok());
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      best_ms = std::min(best_ms, took.count());
    }
    printf("%s: %.3f ms\n", layer.ToString().c_str(), best_ms);
    EXPECT_LT(best_ms, 2) << layer.ToString();
  }
}

}  // namespace
}  // namespace hone
