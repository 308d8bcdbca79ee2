// The parts of the measurer that need no GPU.
#include <cstdlib>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/jit/nvrtc.h"
#include "kernels/pack/pack.h"
#include "kernels/reference/reference.h"
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
      Oracle(problem, 4, operands->a, operands->weights, operands->bias);
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
  problem.layer.b = kFloat4e2m1;
  const absl::Status status = CheckOperands(problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("b float4e2m1"));
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
