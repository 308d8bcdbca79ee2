#include "kernels/space/subspace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hone {
namespace {

using ::testing::HasSubstr;

TEST(SubspaceTest, HoldsTheConfigsWhoseFieldsHaveOneOfTheValues) {
  const auto subspace = Subspace::Parse("mma=wgmma,block_m=32|16");
  ASSERT_TRUE(subspace.ok()) << subspace.status();
  TuningConfig config;
  config.block_m = 16;
  EXPECT_FALSE(subspace->Contains(config));
  config.mma = MmaInstruction::kWgmma;
  EXPECT_TRUE(subspace->Contains(config));
  config.block_m = 32;
  EXPECT_TRUE(subspace->Contains(config));
  // Not a part of the text 16 or 32.
  config.block_m = 3;
  EXPECT_FALSE(subspace->Contains(config));
}

TEST(SubspaceTest, HasOneCanonicalTextThatParsesBack) {
  const auto subspace = Subspace::Parse("mma=wgmma,block_m=32|16");
  ASSERT_TRUE(subspace.ok()) << subspace.status();
  EXPECT_EQ(subspace->ToString(), "block_m=16|32,mma=wgmma");
  EXPECT_EQ(*Subspace::Parse(subspace->ToString()), *subspace);
}

TEST(SubspaceTest, NothingDeclaredHoldsEverything) {
  const auto subspace = Subspace::Parse("");
  ASSERT_TRUE(subspace.ok());
  EXPECT_TRUE(subspace->Contains(TuningConfig()));
  EXPECT_EQ(subspace->ToString(), "");
}

TEST(SubspaceTest, ErrorsNameTheFieldAndWhatIsLegal) {
  const auto message = [](absl::string_view text) {
    const auto subspace = Subspace::Parse(text);
    EXPECT_EQ(subspace.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(subspace.status().message());
  };
  EXPECT_THAT(message("tile=16"), HasSubstr("block_m, block_n"));
  EXPECT_THAT(message("mma=wgmma2"), HasSubstr("tuning.mma"));
  EXPECT_THAT(message("mma=wgmma2"), HasSubstr("mma_sync"));
  EXPECT_THAT(message("block_m=x"), HasSubstr("decimal integer"));
  EXPECT_THAT(message("block_m"), HasSubstr("block_m"));
  EXPECT_THAT(message("block_m=16,block_m=32"), HasSubstr("given twice"));
  EXPECT_THAT(message(","), HasSubstr("key=value"));
}

}  // namespace
}  // namespace hone
