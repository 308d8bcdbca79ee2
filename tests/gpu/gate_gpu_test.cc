// Operands, the device reference and the gate.
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/reference/reference.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/kernels/format_list.h"
#include "tuner/measure/device_reference.h"
#include "tuner/measure/gate.h"
#include "tuner/measure/operands.h"

namespace hone {
namespace {

constexpr uint64_t kSeed = 42;

class GateGpuTest : public GpuTest {
 protected:
  Operands MakeOperands(const Problem& problem, int64_t max_m) {
    auto operands =
        Operands::Create(helpers_, problem, max_m, kSeed, stream_.handle());
    EXPECT_TRUE(operands.ok()) << operands.status();
    return *std::move(operands);
  }
};

// Every format, on ragged shapes.
std::vector<Problem> SmallProblems() {
  std::vector<Problem> problems;
  int64_t ragged = 0;
  for (const LayerConfig& format : AllFormats(1, 1)) {
    Problem problem;
    problem.layer = format;
    problem.layer.n = 64 + ragged * 13 % 150;
    problem.layer.k = 64 + ragged * 37 % 300;
    // Rows of 4-bit codes are whole bytes.
    if (format.a.bits() == 4) problem.layer.k *= 2;
    problem.layer.c = ragged % 3 == 0 ? kFloat16 : kBfloat16;
    problem.layer.bias = ragged % 2 == 1;
    problems.push_back(problem);
    ++ragged;
  }
  return problems;
}

TEST_F(GateGpuTest, DeviceOperandsAreTheHostsOnes) {
  for (const Problem& problem : SmallProblems()) {
    const LayerConfig& layer = problem.layer;
    const Operands operands = MakeOperands(problem, 5);
    const auto host = MakeHostOperands(problem, 5, kSeed);
    ASSERT_TRUE(host.ok()) << host.status();
    const std::vector<std::byte> a = PackActivations(layer, host->a);
    EXPECT_EQ(Download<std::byte>(operands.a(), a.size()), a);
    EXPECT_EQ(Download<uint16_t>(operands.bias(), host->bias.size()),
              host->bias);
    PackedWeights packed;
    packed.b = Download<std::byte>(operands.b(), operands.b_bytes());
    packed.scales =
        Download<std::byte>(operands.scales(), operands.scale_bytes());
    EXPECT_EQ(static_cast<int64_t>(packed.scales.size()),
              PackedScaleBytes(layer));
    const auto weights = Unpack(layer, packed);
    ASSERT_TRUE(weights.ok()) << problem.ToString() << weights.status();
    EXPECT_EQ(weights->codes, host->weights.codes) << problem.ToString();
    EXPECT_EQ(weights->scales, host->weights.scales) << problem.ToString();
    EXPECT_EQ(weights->zeros, host->weights.zeros) << problem.ToString();
    EXPECT_EQ(weights->tensor_scale, host->weights.tensor_scale);
  }
}

TEST_F(GateGpuTest, TheReferenceIsTheOracle) {
  for (const Problem& problem : SmallProblems()) {
    constexpr int64_t kM = 70;
    const Operands operands = MakeOperands(problem, kM);
    DeviceReference reference(helpers_, problem, operands, kM, kSeed);
    const auto rows = reference.RowsFor(kM, stream_.handle());
    ASSERT_TRUE(rows.ok()) << rows.status();
    const auto table =
        Download<RowReference>((*rows)->table.ptr(), (*rows)->rows.size());
    const auto host = MakeHostOperands(problem, kM, kSeed);
    ASSERT_TRUE(host.ok());
    const OracleResult oracle =
        Oracle(problem, kM, host->a, host->a_scales, host->weights, host->bias);
    const auto n = static_cast<size_t>(problem.layer.n);
    for (const size_t row : {size_t{0}, size_t{63}, size_t{64}, size_t{69}}) {
      const auto c = Download<double>(table[row].reference, n);
      const auto magnitude = Download<float>(table[row].magnitude, n);
      for (size_t i = 0; i < n; ++i) {
        const double bound = oracle.magnitude[row * n + i];
        ASSERT_NEAR(c[i], oracle.c[row * n + i], 1e-12 * bound)
            << problem.ToString() << " C[" << row << "][" << i << "]";
        ASSERT_NEAR(magnitude[i], bound, 1e-6 * bound);
      }
    }
  }
}

TEST_F(GateGpuTest, LargeMTakeTheirRowsFromOneReference) {
  Problem problem;
  problem.layer.n = 72;
  problem.layer.k = 64;
  constexpr int64_t kMax = 2000;
  Operands operands = MakeOperands(problem, kMax);
  DeviceReference reference(helpers_, problem, operands, kMax, kSeed);
  const auto host = MakeHostOperands(problem, kMax, kSeed);
  ASSERT_TRUE(host.ok());
  const OracleResult oracle =
      Oracle(problem, kMax, host->a, host->a_scales, host->weights, host->bias);
  const auto n = static_cast<size_t>(problem.layer.n);
  for (const int64_t m : {3, 600, 1111, 2000}) {
    const auto rows = reference.RowsFor(m, stream_.handle());
    ASSERT_TRUE(rows.ok()) << rows.status();
    const auto table =
        Download<RowReference>((*rows)->table.ptr(), (*rows)->rows.size());
    for (size_t i = 0; i < table.size(); i += 7) {
      const auto row = static_cast<size_t>((*rows)->rows[i]);
      ASSERT_EQ(table[i].row, row);
      const auto c = Download<double>(table[i].reference, n);
      EXPECT_NEAR(c[5], oracle.c[row * n + 5], 1e-9) << m << " row " << row;
    }
  }
}

// A plain correct kernel with a fault planted by PLANT:
//   0 none, 1 a wrong value, 2 a store past the output, 3 an element left out,
//   4 a NaN, 5 a result that changes, 6 a store before the output, 7 a store
//   past the workspace, 8 a counter left behind, 9 a store to the weights
constexpr char kPlanted[] = R"(
  __device__ int calls;
  extern "C" __global__ void planted(
      const unsigned short* a, const U32* b, const unsigned short* scales,
      const unsigned short* bias, unsigned short* c, U32* workspace, int m) {
    const U64 groups = hone::layout::ScaleGroups(K, GROUP);
    for (U64 i = GlobalThread(); i < (U64)m * N; i += GridThreads()) {
      const int row = i / N, column = i % N;
      float sum = 0;
      for (int k = 0; k < K; ++k) {
        const int code =
            (int)hone::layout::ReadCode(
                b, column, k, K, 16, 4, hone::layout::CodeLayout::kPlain) - 8;
        const float scale = Decode(
            scales[(column / 64 * groups + k / GROUP) * 64 +
                   hone::layout::LaneOrder(column)], kHalf);
        sum += Decode(a[(U64)row * K + k], kHalf) * (code * scale);
      }
      if (PLANT == 1 && i == TARGET) sum += 2.0f;
      if (PLANT == 5 && i == TARGET) sum *= 1.0f + (calls++ % 2) * 4e-3f;
      U32 out = Encode(sum, kHalf);
      if (PLANT == 4 && i == TARGET) out = 0x7e00;
      if (!(PLANT == 3 && i == TARGET)) c[i] = (unsigned short)out;
    }
    if (GlobalThread() == 0) {
      if (PLANT == 2) c[(U64)m * N] = 0;
      if (PLANT == 6) c[-1] = 0;
      if (PLANT == 7) workspace[1024] = 0;
      if (PLANT == 8) workspace[3] = 1;
      // Each of the two runs adds to it.
      if (PLANT == 9) ((U32*)b)[N * K / 8 - 1] += 1;
    }
  })";

TEST_F(GateGpuTest, CatchesWhatIsPlanted) {
  Problem problem;
  problem.layer.n = 200;
  problem.layer.k = 256;
  problem.layer.b_scale = ScaleGranularity::kGroup;
  problem.layer.b_group = 32;
  constexpr int64_t kMax = 700;
  Operands operands = MakeOperands(problem, kMax);
  DeviceReference reference(helpers_, problem, operands, kMax, kSeed);
  auto gate = Gate::Create(helpers_, problem, operands, reference, kMax,
                           stream_.handle());
  ASSERT_TRUE(gate.ok()) << gate.status();
  const struct {
    int plant;
    Outcome outcome;
  } cases[] = {{0, Outcome::kMeasured},
               {1, Outcome::kWrongResult},
               {2, Outcome::kGuardOverwritten},
               {3, Outcome::kWrongResult},
               {4, Outcome::kWrongResult},
               {5, Outcome::kNotRepeatable},
               {6, Outcome::kGuardOverwritten},
               {7, Outcome::kGuardOverwritten},
               {8, Outcome::kGuardOverwritten},
               {9, Outcome::kGuardOverwritten},
               // After which no kernel is judged any more.
               {0, Outcome::kInterrupted}};
  bool spoilt = false;
  for (const auto& c : cases) {
    for (const int64_t m : {int64_t{1}, int64_t{5}, kMax}) {
      // Element [m - 1][199], the last one.
      const Module module = Compile(absl::StrCat(
          "\n#define PLANT ", c.plant, "\n#define N 200\n#define K 256\n",
          "#define GROUP 32\n#define TARGET ", m * 200 - 1, "\n", kPlanted));
      LaunchPlan plan;
      plan.kernel_name = "planted";
      plan.grid.x = 512;
      plan.block.x = 256;
      for (const BufferRole role :
           {BufferRole::kA, BufferRole::kB, BufferRole::kBScale,
            BufferRole::kBias, BufferRole::kC, BufferRole::kWorkspace}) {
        plan.args.push_back({LaunchArg::Kind::kBuffer, role, 0});
      }
      plan.args.push_back(
          {LaunchArg::Kind::kInt32, BufferRole::kA, static_cast<int32_t>(m)});
      plan.workspace_bytes = 4096;
      plan.workspace_zeroed_bytes = 256;
      const auto function = module.Function("planted");
      ASSERT_TRUE(function.ok()) << function.status();
      const auto result =
          gate->Check(*function, plan, MmaInstruction::kMmaSync, m);
      if (spoilt) {
        EXPECT_TRUE(absl::IsDataLoss(result.status())) << result.status();
        EXPECT_TRUE(IsContextLost(result.status()));
        continue;
      }
      spoilt = c.plant == 9;
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(ToString(result->outcome), ToString(c.outcome))
          << "plant " << c.plant << " at M = " << m << ": " << result->detail
          << ", ratio " << result->error.worst_ratio;
      if (c.plant == 0) {
        EXPECT_LT(result->error.worst_ratio, 1);
        EXPECT_LT(result->error.relative_norm, 1e-3);
        EXPECT_GT(result->error.relative_norm, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace hone
