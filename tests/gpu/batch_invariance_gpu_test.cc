// Batch invariance on the device: every kernel that the heuristic defaults of a
// problem name for M = 1 to 512, and random legal configs, give every row of A
// the bits that it has at M = 512, whatever it is batched with and wherever it
// lies in the batch. The last lines say what was covered.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/codegen/codegen.h"
#include "kernels/space/reduction_order.h"
#include "kernels/space/space.h"
#include "tests/gpu/gpu_fixture.h"
#include "tuner/measure/operands.h"

namespace hone {
namespace {

constexpr int64_t kMaxM = 512;
constexpr size_t kRandomConfigs = 12;

struct Case {
  const char* name;
  Problem problem;
};

Problem Layer(int64_t n, int64_t k, DataType a, DataType b, int64_t group) {
  Problem problem;
  problem.compute.batch_invariant = true;
  LayerConfig& layer = problem.layer;
  layer.n = n;
  layer.k = k;
  layer.a = a;
  layer.b = b;
  layer.b_scale =
      group == 0 ? ScaleGranularity::kChannel : ScaleGranularity::kGroup;
  layer.b_group = group;
  if (a.bits() < 16) {
    layer.a_scale = InputScale::kToken;
  } else {
    layer.c = layer.b_scale_type = a;
  }
  return problem;
}

// Both engines; split and whole K; scales before and after the MMA; a ragged
// shape with a bias.
std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"W4A16, K split", Layer(1280, 8192, kFloat16, kInt4, 128)},
      {"W4A16", Layer(8192, 1024, kFloat16, kInt4, 128)},
      {"W8A16, ragged, bias", Layer(1000, 2088, kBfloat16, kInt8, 0)},
      {"mxfp4", Layer(1024, 1536, kBfloat16, kInt4, 0)},
      {"W4A8 float", Layer(1000, 2048, kFloat8e4m3, kInt4, 128)},
      {"W8A8 integer", Layer(1000, 2048, kInt8, kInt8, 0)},
      {"mma.sync", Layer(1000, 2050, kFloat16, kInt4, 0)}};
  cases[2].problem.layer.bias = true;
  EXPECT_TRUE(ApplyPreset("mxfp4", cases[3].problem.layer).ok());
  return cases;
}

class BatchInvarianceGpuTest : public GpuTest,
                               public testing::WithParamInterface<size_t> {
 protected:
  // A kernel ready to be launched at any M up to kMaxM.
  struct Kernel {
    TuningConfig config;
    Module module;
    FunctionHandle function = nullptr;
  };

  void TearDown() override {
    // Before the context.
    workspace_ = DeviceBuffer();
    c_ = DeviceBuffer();
    GpuTest::TearDown();
  }

  void Load(const Problem& problem, const std::vector<TuningConfig>& configs,
            std::vector<Kernel>& kernels) {
    const std::vector<BenchKernel> compiled = CompileAll(problem, configs);
    uint64_t workspace = 1;
    for (size_t i = 0; i < configs.size(); ++i) {
      ASSERT_TRUE(compiled[i].status.ok())
          << configs[i].ToString() << compiled[i].status;
      Kernel kernel;
      kernel.config = configs[i];
      auto module = Module::Load(compiled[i].cubin);
      ASSERT_TRUE(module.ok()) << module.status();
      kernel.module = *std::move(module);
      const LaunchPlan plan = PlanLaunch(problem, configs[i], kMaxM);
      auto function = kernel.module.Function(plan.kernel_name, plan.smem_bytes);
      ASSERT_TRUE(function.ok()) << function.status();
      kernel.function = *function;
      workspace = std::max(workspace, plan.workspace_bytes);
      kernels.push_back(std::move(kernel));
    }
    auto buffer = DeviceBuffer::Allocate(workspace);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    workspace_ = *std::move(buffer);
    buffer = DeviceBuffer::Allocate(kMaxM * problem.layer.n * 2);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    c_ = *std::move(buffer);
  }

  // The codes of the outputs for rows first, first + 1, ... of A, m of them.
  std::vector<uint16_t> Run(const Problem& problem, const Kernel& kernel,
                            Operands& operands, int64_t first, int64_t m) {
    const LayerConfig& layer = problem.layer;
    const LaunchPlan plan =
        PlanLaunch(problem, kernel.config, m, device_.sm_count);
    BufferBindings buffers;
    buffers
        .Bind(BufferRole::kA,
              operands.a() + first * layer.k * layer.a.bits() / 8)
        .Bind(BufferRole::kB, operands.b())
        .Bind(BufferRole::kBScale, operands.scales())
        .Bind(BufferRole::kBias, operands.bias())
        .Bind(BufferRole::kC, c_.ptr())
        .Bind(BufferRole::kWorkspace, workspace_.ptr());
    if (layer.a_scale != InputScale::kNone) {
      const auto scales = operands.AScales(kMaxM, stream_.handle());
      EXPECT_TRUE(scales.ok()) << scales.status();
      buffers.Bind(BufferRole::kAScale, *scales + first * 4);
    }
    EXPECT_TRUE(Fill(c_.ptr(), 0xff, m * layer.n * 2, stream_.handle()).ok());
    EXPECT_TRUE(
        Fill(workspace_.ptr(), 0, plan.workspace_zeroed_bytes, stream_.handle())
            .ok());
    const absl::Status launched =
        Launch(kernel.function, plan, buffers, stream_.handle());
    EXPECT_TRUE(launched.ok()) << launched;
    return Download<uint16_t>(c_.ptr(), static_cast<size_t>(m * layer.n));
  }

  DeviceBuffer workspace_;
  DeviceBuffer c_;
};

TEST_P(BatchInvarianceGpuTest, EveryRowHasItsBitsAtEveryM) {
  const Case test = Cases()[GetParam()];
  const Problem& problem = test.problem;
  const LayerConfig& layer = problem.layer;
  SCOPED_TRACE(problem.ToString());
  if (!HasActivation(layer.a, device_)) {
    EXPECT_TRUE(absl::IsUnimplemented(CheckProblem(problem, device_)));
    printf("%s: not on this GPU\n", test.name);
    return;
  }
  ASSERT_TRUE(CheckProblem(problem, device_).ok())
      << CheckProblem(problem, device_);

  // The defaults of all M, each once, and which one an M has.
  std::vector<TuningConfig> configs;
  std::vector<size_t> kernel_of(kMaxM + 1);
  for (int64_t m = 1; m <= kMaxM; ++m) {
    const TuningConfig config = HeuristicDefault(problem, device_, m);
    const auto found = std::find(configs.begin(), configs.end(), config);
    kernel_of[m] = static_cast<size_t>(found - configs.begin());
    if (found == configs.end()) configs.push_back(config);
  }
  const size_t defaults = configs.size();
  // And for more tokens: a batch may shrink to 512 of them.
  for (const int64_t m : {2048, 8192}) {
    const TuningConfig config = HeuristicDefault(problem, device_, m);
    if (std::find(configs.begin(), configs.end(), config) == configs.end()) {
      configs.push_back(config);
    }
  }
  const std::vector<TuningConfig> space = Enumerate(problem, device_, kMaxM);
  std::mt19937_64 random(17);
  for (size_t i = 0; i < kRandomConfigs && !space.empty(); ++i) {
    configs.push_back(space[random() % space.size()]);
  }

  auto operands =
      Operands::Create(helpers_, problem, kMaxM, 5, stream_.handle());
  ASSERT_TRUE(operands.ok()) << operands.status();
  std::vector<Kernel> kernels;
  Load(problem, configs, kernels);
  if (HasFatalFailure()) return;

  const std::vector<uint16_t> expected =
      Run(problem, kernels[kernel_of[kMaxM]], *operands, 0, kMaxM);
  int64_t launches = 1;
  int64_t rows = 0;
  const auto check = [&](const Kernel& kernel, int64_t first, int64_t m) {
    const std::vector<uint16_t> c = Run(problem, kernel, *operands, first, m);
    ++launches;
    rows += m;
    const auto begin = expected.begin() + first * layer.n;
    if (std::equal(c.begin(), c.end(), begin)) return true;
    const auto at = std::mismatch(c.begin(), c.end(), begin).first - c.begin();
    ADD_FAILURE() << "M = " << m << ", rows from " << first
                  << ": the first other bits are at [" << at / layer.n << "]["
                  << at % layer.n << "] of " << kernel.config.ToString();
    return false;
  };
  // Rows of A that a kernel may start at: 16-byte addresses.
  const int64_t row_bytes = layer.k * layer.a.bits() / 8;
  const bool any_row = row_bytes % 16 == 0;
  for (int64_t m = 1; m <= kMaxM; ++m) {
    const int64_t first =
        any_row ? static_cast<int64_t>(random() % (kMaxM - m + 1)) : 0;
    if (!check(kernels[kernel_of[m]], 0, m)) return;
    if (!check(kernels[kernel_of[m]], first, m)) return;
  }
  // Each kernel by itself, at the cliffs of its tile and in between.
  for (const Kernel& kernel : kernels) {
    const int64_t tile = kernel.config.block_m;
    std::vector<int64_t> ms = {1, kMaxM};
    for (const int64_t m : {tile - 1, tile, tile + 1, 2 * tile, 3 * tile + 5}) {
      if (m >= 1 && m <= kMaxM) ms.push_back(m);
    }
    for (int i = 0; i < 5; ++i) {
      ms.push_back(1 + static_cast<int64_t>(random() % kMaxM));
    }
    for (const int64_t m : ms) {
      const int64_t first =
          any_row ? static_cast<int64_t>(random() % (kMaxM - m + 1)) : 0;
      if (!check(kernel, first, m)) return;
    }
  }
  const ReductionOrder order = InvariantOrder(problem, device_);
  printf(
      "%s: N = %ld, K = %ld, %s, block_k %ld, split_k %ld: %zu default kernels "
      "over M = 1 to %ld, %zu kernels more; %ld launches, %ld rows, all bits "
      "the same\n",
      test.name, static_cast<long>(layer.n), static_cast<long>(layer.k),
      std::string(ToString(order.mma)).c_str(),
      static_cast<long>(order.block_k), static_cast<long>(order.split_k),
      defaults, static_cast<long>(kMaxM), kernels.size() - defaults,
      static_cast<long>(launches), static_cast<long>(rows));
}

INSTANTIATE_TEST_SUITE_P(Problems, BatchInvarianceGpuTest,
                         testing::Range(size_t{0}, size_t{7}));

}  // namespace
}  // namespace hone
