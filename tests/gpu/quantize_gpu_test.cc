// The quantization of activations on a device: the bytes of the CPU, and its
// rate against a plain copy's.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "kernels/pack/quantize_input.h"
#include "tests/gpu/gpu_fixture.h"
#include "tuner/measure/cupti_timer.h"
#include "tuner/measure/l2_flush.h"

namespace hone {
namespace {

constexpr char kCopy[] = R"(
  extern "C" __global__ void __launch_bounds__(512)
      copy(const uint4* from, uint4* to, U64 count) {
    const U64 step = GridThreads();
    U64 i = GlobalThread();
    for (; i + 3 * step < count; i += 4 * step) {
      uint4 w[4];
      for (int j = 0; j < 4; ++j) w[j] = from[i + j * step];
      for (int j = 0; j < 4; ++j) to[i + j * step] = w[j];
    }
    for (; i < count; i += step) to[i] = from[i];
  })";

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

std::vector<uint16_t> RandomInput(DataType type, int64_t count) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(0, 1);
  std::vector<uint16_t> codes(static_cast<size_t>(count));
  // The encoder is slow: repeat a long random stretch.
  const size_t fresh = std::min<size_t>(codes.size(), 1 << 20);
  for (size_t i = 0; i < fresh; ++i) {
    codes[i] = static_cast<uint16_t>(type.Encode(normal(random)));
  }
  for (size_t i = fresh; i < codes.size(); ++i) codes[i] = codes[i - fresh];
  return codes;
}

class QuantizeGpuTest : public GpuTest {
 protected:
  // A rendered kernel with its buffers on the device.
  struct Quantization {
    Module module;
    LaunchPlan plan;
    FunctionHandle function = nullptr;
    DeviceBuffer x;
    DeviceBuffer codes;
    DeviceBuffer scales;
    BufferBindings buffers;
  };

  void SetUp() override {
    // Before the context, as the measurer does.
    auto timer = CuptiTimer::Create(LibrarySearchFromEnvironment(std::getenv));
    ASSERT_TRUE(timer.ok()) << timer.status();
    timer_ = *std::move(timer);
    GpuTest::SetUp();
    if (HasFatalFailure()) return;
    auto flush = L2Flush::Create(helpers_, device_, 4, stream_.handle());
    ASSERT_TRUE(flush.ok()) << flush.status();
    flush_.emplace(*std::move(flush));
  }
  void TearDown() override {
    flush_.reset();
    GpuTest::TearDown();
    timer_ = nullptr;
  }

  absl::StatusOr<Quantization> Prepare(const Problem& problem, DataType input,
                                       const DeviceSpec& device, int64_t m,
                                       const std::vector<uint16_t>& x,
                                       float given) {
    HONE_ASSIGN_OR_RETURN(const DeviceQuantizeInput unit,
                          RenderQuantizeInput(problem, input, device));
    HONE_ASSIGN_OR_RETURN(
        const std::string cubin,
        compiler_->CompileSource(unit.source, device_.NvrtcArch()));
    Quantization q;
    HONE_ASSIGN_OR_RETURN(q.module, Module::Load(cubin));
    q.plan = PlanQuantizeInput(problem, m);
    HONE_ASSIGN_OR_RETURN(q.function, q.module.Function(q.plan.kernel_name));
    HONE_ASSIGN_OR_RETURN(q.x, DeviceBuffer::Allocate(x.size() * 2));
    HONE_ASSIGN_OR_RETURN(q.codes, DeviceBuffer::Allocate(static_cast<uint64_t>(
                                       InputCodeBytes(problem.layer, m))));
    const std::vector<float> scales(
        static_cast<size_t>(InputScales(problem.layer, m)), given);
    HONE_ASSIGN_OR_RETURN(q.scales, DeviceBuffer::Allocate(scales.size() * 4));
    HONE_RETURN_IF_ERROR(
        CopyToDevice(q.x.ptr(), x.data(), q.x.bytes(), stream_.handle()));
    HONE_RETURN_IF_ERROR(CopyToDevice(q.scales.ptr(), scales.data(),
                                      q.scales.bytes(), stream_.handle()));
    q.buffers.Bind(BufferRole::kInput, q.x.ptr())
        .Bind(BufferRole::kA, q.codes.ptr())
        .Bind(BufferRole::kAScale, q.scales.ptr());
    return q;
  }

  // Median of cold launches.
  template <typename LaunchOnce>
  double MedianNs(const LaunchOnce& launch) {
    std::vector<uint32_t> launches;
    timer_->Start();
    for (int i = 0; i < 15; ++i) {
      EXPECT_TRUE(flush_->Queue(0).ok());
      const absl::Status status = launch();
      EXPECT_TRUE(status.ok()) << status;
      launches.push_back(timer_->LastLaunch());
    }
    EXPECT_TRUE(Synchronize(stream_.handle()).ok());
    const auto times = timer_->Collect(launches);
    EXPECT_TRUE(times.ok()) << times.status();
    if (!times.ok()) return 0;
    std::vector<double> ns;
    for (const KernelTime& t : *times) {
      ns.push_back(static_cast<double>(t.end_ns - t.start_ns));
    }
    std::sort(ns.begin(), ns.end());
    return ns[ns.size() / 2];
  }

  std::unique_ptr<CuptiTimer> timer_;
  std::optional<L2Flush> flush_;
};

TEST_F(QuantizeGpuTest, GivesTheBytesOfTheCpu) {
  using enum InputScale;
  struct Case {
    InputScale scale;
    int64_t group;
    int64_t m, k;
  };
  const Case cases[] = {{kToken, 0, 257, 8192},  {kToken, 0, 9, 70002},
                        {kToken, 0, 1000, 100},  {kTensor, 0, 333, 520},
                        {kGroup, 16, 130, 1024}, {kGroup, 128, 300, 4096},
                        {kGroup, 128, 77, 1090}, {kGroup, 1024, 33, 5120},
                        {kGroup, 32, 1, 8192}};
  // Below SM89 and SM90 the kernel takes other ways; they run here too.
  DeviceSpec older = device_;
  older.sm_arch = 80;
  for (const Case& c : cases) {
    for (const DataType a : kTypes) {
      for (const bool old : {false, true}) {
        const DataType input = old ? kBfloat16 : kFloat16;
        const Problem problem = MakeProblem(
            a, c.scale, c.k, c.group,
            old ? InputScaleLayout::kColumnMajor : InputScaleLayout::kRowMajor);
        std::vector<uint16_t> x = RandomInput(input, c.m * c.k);
        // An infinity and a NaN.
        x[x.size() / 3] = input == kFloat16 ? 0x7c00 : 0x7f80;
        x[x.size() / 2] = 0x7fff;
        const auto expected = QuantizeInput(problem, input, x, 0.03f);
        ASSERT_TRUE(expected.ok()) << expected.status();
        auto q = Prepare(problem, input, old ? older : device_, c.m, x, 0.03f);
        ASSERT_TRUE(q.ok()) << q.status();
        const absl::Status launched =
            Launch(q->function, q->plan, q->buffers, stream_.handle());
        ASSERT_TRUE(launched.ok()) << launched;
        EXPECT_EQ(Download<std::byte>(q->codes.ptr(), expected->codes.size()),
                  expected->codes)
            << problem.ToString();
        const std::vector<float> scales =
            Download<float>(q->scales.ptr(), expected->scales.size());
        EXPECT_EQ(std::memcmp(scales.data(), expected->scales.data(),
                              scales.size() * 4),
                  0)
            << problem.ToString();
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(QuantizeGpuTest, RunsAtFourFifthsOfACopysRate) {
  using enum InputScale;
  constexpr int64_t kM = 4096, kK = 8192;
  const std::vector<uint16_t> x = RandomInput(kFloat16, kM * kK);
  Module copies = Compile(kCopy);
  const auto copy = copies.Function("copy");
  ASSERT_TRUE(copy.ok()) << copy.status();
  struct Case {
    DataType a;
    InputScale scale;
    int64_t group;
    InputScaleLayout layout;
    bool must;
  };
  constexpr auto kRow = InputScaleLayout::kRowMajor;
  constexpr auto kColumn = InputScaleLayout::kColumnMajor;
  const Case cases[] = {
      {kFloat8e4m3, kToken, 0, kRow, true},
      {kFloat8e4m3, kGroup, 128, kRow, true},
      {kFloat8e4m3, kGroup, 128, kColumn, true},
      {kFloat8e5m2, kToken, 0, kRow, true},
      {kInt8, kToken, 0, kRow, true},
      {kInt8, kGroup, 128, kRow, true},
      {kInt4, kToken, 0, kRow, true},
      {kInt4, kGroup, 128, kRow, true},
      {kFloat8e4m3, kTensor, 0, kRow, true},
      {kFloat8e4m3, kGroup, 32, kRow, false},
      {kInt8, kTensor, 0, kRow, false},
      // In software below SM100.
      {kFloat4e2m1, kToken, 0, kRow, false},
  };
  for (const Case& c : cases) {
    const Problem problem = MakeProblem(c.a, c.scale, kK, c.group, c.layout);
    auto q = Prepare(problem, kFloat16, device_, kM, x, 0.03f);
    ASSERT_TRUE(q.ok()) << q.status();
    const double bytes = static_cast<double>(q->x.bytes() + q->codes.bytes() +
                                             q->scales.bytes());
    const double ns = MedianNs([&] {
      return Launch(q->function, q->plan, q->buffers, stream_.handle());
    });
    // A copy that moves as many bytes.
    const uint64_t words = static_cast<uint64_t>(bytes / 2 / 16);
    auto target = DeviceBuffer::Allocate(words * 16);
    ASSERT_TRUE(target.ok()) << target.status();
    const double copy_ns = MedianNs([&] {
      return LaunchHelper(
          *copy, {static_cast<uint32_t>(4 * device_.sm_count), 1, 1}, 512,
          stream_.handle(), q->x.ptr(), target->ptr(), words);
    });
    printf(
        "%s %s %d%s: %.2f us, %.0f GB/s; a copy takes %.2f us, %.0f GB/s: "
        "%.0f %%\n",
        c.a.ToString().c_str(), std::string(ToString(c.scale)).c_str(),
        static_cast<int>(c.group), c.layout == kColumn ? " column major" : "",
        ns / 1e3, bytes / ns, copy_ns / 1e3, bytes / copy_ns,
        100 * copy_ns / ns);
    if (c.must) {
      EXPECT_GE(copy_ns / ns, 0.8);
    }
  }
}

}  // namespace
}  // namespace hone
