#include "kernels/jit/compiler.h"

#include <filesystem>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/jit/test_sources.h"

namespace hone {
namespace {

class CompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/hone_compiler_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    auto cache = CubinCache::Open({.folder = root_ + "/hone"});
    ASSERT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::shared_ptr<const Nvrtc> MustLoad() {
    auto nvrtc = Nvrtc::Create(TestSearch());
    EXPECT_TRUE(nvrtc.ok()) << nvrtc.status();
    return *nvrtc;
  }

  std::string root_;
  std::shared_ptr<CubinCache> cache_;
};

TEST_F(CompilerTest, PoolAndProcessShareEntries) {
  auto pool = CompilePool::Create({.executable = HONE_COMPILER_PATH,
                                   .search = TestSearch(),
                                   .processes = 3});
  ASSERT_TRUE(pool.ok()) << pool.status();
  Compiler pooled(*std::move(pool), absl::Seconds(60), cache_);
  Compiler here(MustLoad(), cache_);
  EXPECT_EQ(pooled.parallelism(), 3);
  EXPECT_GE(here.parallelism(), 1);
  EXPECT_EQ(pooled.nvrtc_version(), here.nvrtc_version());

  const auto miss = pooled.Compile(StoreSource(5), "sm_80");
  ASSERT_TRUE(miss.ok()) << miss.status();
  EXPECT_FALSE(miss->from_cache);
  EXPECT_TRUE(miss->stored.ok());
  EXPECT_EQ(miss->source_key, here.KeyOf(StoreSource(5), "sm_80"));
  const auto hit = here.Compile(StoreSource(5), "sm_80");
  ASSERT_TRUE(hit.ok());
  EXPECT_TRUE(hit->from_cache);
  EXPECT_EQ(hit->result, miss->result);
  const auto other_arch = here.Compile(StoreSource(5), "sm_86");
  ASSERT_TRUE(other_arch.ok());
  EXPECT_FALSE(other_arch->from_cache);
  EXPECT_NE(other_arch->result.cubin, hit->result.cubin);
}

TEST_F(CompilerTest, TimeoutsAreResultsAndNotRemembered) {
  auto pool = CompilePool::Create({.executable = HONE_COMPILER_PATH,
                                   .search = TestSearch(),
                                   .processes = 1});
  ASSERT_TRUE(pool.ok()) << pool.status();
  Compiler compiler(*std::move(pool), absl::Milliseconds(100), cache_);
  for (int i = 0; i < 2; ++i) {
    const auto slow = compiler.Compile(SlowSource(), "sm_90a");
    ASSERT_TRUE(slow.ok()) << slow.status();
    EXPECT_EQ(slow->result.outcome, CompileOutcome::kTimeout);
    EXPECT_FALSE(slow->from_cache);
  }
}

TEST_F(CompilerTest, WorksWithoutACache) {
  Compiler compiler(MustLoad(), nullptr);
  for (int i = 0; i < 2; ++i) {
    const auto compiled = compiler.Compile(StoreSource(5), "sm_90a");
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_TRUE(compiled->result.ok());
    EXPECT_FALSE(compiled->from_cache);
    EXPECT_TRUE(compiled->stored.ok());
  }
}

}  // namespace
}  // namespace hone
