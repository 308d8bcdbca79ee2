// A pipelined tensor-core GEMM, as a kernel is written.
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/emulator/float_format.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {
namespace {

constexpr int kM = 16, kN = 64, kK = 256;

TEST(GemmTest, AgreesWithTheReferenceUnderEveryLanding) {
  const Module module = MustParse(ReadTestdata("gemm.ptx"));
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<uint16_t> a(kM * kK), b(kN * kK);
  for (auto& x : a) x = Encode16<Half>(normal(random));
  for (auto& x : b) x = Encode16<Half>(normal(random));
  LaunchPlan plan;
  plan.kernel_name = "gemm";
  plan.block = {128, 1, 1};
  plan.smem_bytes = 3 * (kM + kN) * 40 * 2;
  plan.args = {Buffer(BufferRole::kA), Buffer(BufferRole::kB),
               Buffer(BufferRole::kC), Int(kK)};
  for (const CopyLanding landing :
       {CopyLanding::kEarliest, CopyLanding::kLatest, CopyLanding::kRandom}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      std::vector<float> c(kM * kN, NAN);
      Bindings bindings;
      bindings[BufferRole::kA] = BufferOf(a, false);
      bindings[BufferRole::kB] = BufferOf(b, false);
      bindings[BufferRole::kC] = BufferOf(c, true, false);
      Options options;
      options.seed = seed;
      options.landing = landing;
      const auto stats = Execute(module, plan, bindings, options);
      ASSERT_TRUE(stats.ok()) << stats.status();
      EXPECT_EQ(stats->mma, uint64_t{kN / 8 * kK / 16});
      EXPECT_EQ(stats->global_bytes_written, uint64_t{kM * kN * 4});
      EXPECT_EQ(stats->global_bytes_read, uint64_t{(kM + kN) * kK * 2});
      EXPECT_EQ(stats->async_copies, uint64_t{(kM + kN) * kK / 8});
      for (int i = 0; i < kM; ++i) {
        for (int j = 0; j < kN; ++j) {
          double want = 0, magnitude = 0;
          for (int k = 0; k < kK; ++k) {
            const double product = double{Decode16<Half>(a[i * kK + k])} *
                                   Decode16<Half>(b[j * kK + k]);
            want += product;
            magnitude += std::abs(product);
          }
          // One rounding to float per instruction.
          ASSERT_NEAR(c[i * kN + j], want, magnitude * kK / 16 * 0x1p-24);
        }
      }
    }
  }
}

}  // namespace
}  // namespace hone::emulator
