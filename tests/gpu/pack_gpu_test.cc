// The packing kernels on a device: the bytes of the CPU, and their time.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
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
    HONE_ASSIGN_OR_RETURN(const DevicePack pack,
                          RenderPack(layer, input, device_));
    HONE_ASSIGN_OR_RETURN(const std::string cubin,
                          compiler_->CompileSource(pack.source, pack.arch));
    return Prepare(layer, pack, cubin, weights);
  }

  absl::StatusOr<Packing> Prepare(const LayerConfig& layer,
                                  const DevicePack& pack,
                                  const std::string& cubin,
                                  const std::vector<uint16_t>& weights) {
    Packing p;
    HONE_ASSIGN_OR_RETURN(p.module, Module::Load(cubin));
    p.plans = pack.launches;
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

// A format with what the CPU makes of its weights, and its kernels.
struct PackCase {
  LayerConfig layer;
  DataType input;
  std::vector<uint16_t> codes;
  PackedWeights expected;
  DevicePack pack;
  std::string cubin;
};

TEST_F(PackGpuTest, GivesTheBytesOfTheCpu) {
  const std::vector<LayerConfig> formats = AllFormats(150, 333);
  std::vector<PackCase> cases;
  for (size_t i = 0; i < formats.size(); i += 5) {
    // The CPU's alone.
    if (formats[i].b_scale_window) continue;
    cases.push_back({formats[i], i % 2 == 0 ? kFloat16 : kBfloat16});
  }
  // A third of a second each, nearly all of it the compile: on all cores.
  const auto prepare = [&](PackCase& c) -> absl::Status {
    c.codes = RandomHalves(c.layer.n * c.layer.k, c.input);
    std::vector<float> values;
    values.reserve(c.codes.size());
    for (const uint16_t code : c.codes) {
      values.push_back(static_cast<float>(c.input.Decode(code)));
    }
    HONE_ASSIGN_OR_RETURN(const QuantizedWeights quantized,
                          Quantize(c.layer, values));
    HONE_ASSIGN_OR_RETURN(c.expected, Pack(c.layer, quantized));
    HONE_ASSIGN_OR_RETURN(c.pack, RenderPack(c.layer, c.input, device_));
    HONE_ASSIGN_OR_RETURN(c.cubin,
                          compiler_->CompileSource(c.pack.source, c.pack.arch));
    return absl::OkStatus();
  };
  std::vector<absl::Status> prepared(cases.size());
  std::vector<std::thread> threads;
  const size_t count = std::max(1u, std::thread::hardware_concurrency());
  for (size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < cases.size(); i += count) {
        prepared[i] = prepare(cases[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < cases.size(); ++i) {
    const PackCase& c = cases[i];
    SCOPED_TRACE(c.layer.ToString());
    ASSERT_TRUE(prepared[i].ok()) << prepared[i];
    const auto packing = Prepare(c.layer, c.pack, c.cubin, c.codes);
    ASSERT_TRUE(packing.ok()) << packing.status();
    ASSERT_TRUE(Run(*packing).ok());
    EXPECT_EQ(Download<std::byte>(packing->b.ptr(), c.expected.b.size()),
              c.expected.b);
    EXPECT_EQ(
        Download<std::byte>(packing->scales.ptr(), c.expected.scales.size()),
        c.expected.scales);
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
