// The planted faults through the real compiler: what should compile does, as a
// kernel that a launch of the candidate would find, and the rest fails as it
// should.
#include "tests/support/faults.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/jit/compile_pool.h"
#include "kernels/space/space.h"

namespace hone {
namespace {

using testing::HasSubstr;

class FaultsTest : public testing::Test {
 protected:
  FaultsTest() {
    problem_.layer.n = 1024;
    problem_.layer.k = 1024;
    problem_.layer.b_scale = ScaleGranularity::kGroup;
    problem_.layer.b_group = 128;
  }

  static std::shared_ptr<Compiler> Make(absl::Duration deadline,
                                        uint64_t address_space) {
    auto pool = CompilePool::Create(
        {.executable = HONE_COMPILER_PATH,
         .search = LibrarySearchFromEnvironment(std::getenv),
         .processes = 1,
         .address_space_bytes = address_space});
    EXPECT_TRUE(pool.ok()) << pool.status();
    return std::make_shared<Compiler>(*std::move(pool), deadline, nullptr);
  }

  Problem problem_;
  const DeviceSpec device_ = *ModelledDevice("h200");
};

TEST_F(FaultsTest, RealCompilersTakeThemAsMeant) {
  const auto slow = Make(absl::Seconds(60), 0);
  const FaultyCompiler::Compilers compilers = {
      slow, Make(absl::Seconds(60), uint64_t{200} << 20),
      Make(absl::Milliseconds(700), 0)};
  // One config of each engine.
  for (const int64_t m : {16, 1024}) {
    const TuningConfig config = HeuristicDefault(problem_, device_, m);
    for (int i = 0; i < kFaultKinds; ++i) {
      const auto kind = static_cast<FaultKind>(i);
      SCOPED_TRACE(std::string(ToString(kind)));
      FaultPlan plan({{kind, 1}}, 1.0, 1);
      plan.Enable(true);
      FaultyCompiler compiler(&plan, compilers);
      const auto compiled = compiler.Compile(problem_, device_, config);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      const bool compiles = kind != FaultKind::kCompilerCrash &&
                            kind != FaultKind::kEndlessCompile;
      EXPECT_EQ(std::string(ToString(compiled->outcome)),
                ToString(compiles ? Outcome::kMeasured : OutcomeOf(kind)))
          << compiled->detail;
      if (kind == FaultKind::kCompilerCrash) {
        EXPECT_THAT(compiled->detail, HasSubstr("signal 11"));
      }
      if (compiles) {
        EXPECT_THAT(compiled->candidate.cubin, HasSubstr(".text.hone_gemm"));
      }
      EXPECT_EQ(compiled->candidate.compile.source_key,
                *compiler.SourceKey(problem_, device_, config));
      EXPECT_EQ(plan.FaultOf(problem_, config).has_value(),
                kind != FaultKind::kWorkerKilled &&
                    (kind != FaultKind::kRace || !UsesWgmma(config)));
    }
  }
}

TEST_F(FaultsTest, EveryCandidateDrawsOnceAndEveryFaultIsGiven) {
  FaultPlan plan({{FaultKind::kHang, 5}, {FaultKind::kNan, 7}}, 0.5, 3);
  std::vector<TuningConfig> configs;
  for (int i = 0; i < 60; ++i) {
    configs.emplace_back().stages = i;
  }
  EXPECT_FALSE(plan.Draw(problem_, configs[0]).has_value());
  plan.Enable(true);
  std::map<FaultKind, int> given;
  for (const TuningConfig& config : configs) {
    const auto fault = plan.Draw(problem_, config);
    EXPECT_EQ(plan.Draw(problem_, config), fault);
    EXPECT_EQ(plan.FaultOf(problem_, config), fault);
    if (fault.has_value()) ++given[*fault];
  }
  EXPECT_FALSE(plan.Draw(problem_, configs[0]).has_value());
  EXPECT_EQ(plan.left(), 0);
  EXPECT_EQ(given[FaultKind::kHang], 5);
  EXPECT_EQ(given[FaultKind::kNan], 7);
  EXPECT_EQ(plan.FaultsOf(problem_).size(), 12u);
  plan.Return(FaultKind::kNan);
  EXPECT_EQ(plan.left(), 1);
}

}  // namespace
}  // namespace hone
