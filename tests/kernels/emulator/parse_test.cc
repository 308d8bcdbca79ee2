// What the parser accepts, and the errors for what it does not.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/emulator/emulator_test_support.h"

namespace hone::emulator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Kernel(const std::string& body) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n"
         ".visible .entry k(.param .u64 k_param_0)\n{\n" +
         body + "\nret;\n}\n";
}

absl::Status StatusOf(const std::string& body) {
  return Module::Parse(Kernel(body)).status();
}

TEST(ParseTest, NamesTheUnknownInstructionAndItsLine) {
  const absl::Status status =
      StatusOf(".reg .b32 %r<3>;\nadd.s32 %r1, %r2, 1;\nfrobnicate.s32 %r1;");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("line 8"), HasSubstr("frobnicate.s32")));
}

TEST(ParseTest, RefusesWhatItCannotRunFaithfully) {
  const std::string registers =
      ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; .reg .b16 %h<3>;\n";
  for (const char* instruction :
       {"vadd4.u32.u32.u32 %r1, %r2, %r3, %r1;", "add.s32 %r1, %rd1, %r2;",
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, "
        "{%r1};",
        "call foo;", "ld.global.v3.u32 {%r1,%r2,%r3}, [%rd1];",
        "cp.async.cg.shared.global [%r1], [%rd1], 8;", "bra nowhere;",
        "st.const.u32 [%rd1], %r1;", "mov.u32 %r1, %nothing;",
        "div.rz.f32 %r1, %r2, %r3;", "setp.eq.s32 %r1, %r2, %r3;",
        "shfl.bfly.b32 %r1, %r2, 1, 31;", "@%r1 bra nowhere;"}) {
    EXPECT_EQ(StatusOf(registers + instruction).code(),
              absl::StatusCode::kUnimplemented)
        << instruction;
  }
}

TEST(ParseTest, RefusesTextThatIsNotPtx) {
  for (const std::string& text :
       {std::string("hello"), std::string(".version 9.0\n.entry k() {"),
        Kernel(".reg .b32 %r<2>; add.s32 %r1, , 1;"),
        Kernel("add.s32 %r1, %r1"), std::string(".version 9.0\n.bogus\n"),
        std::string("/* unterminated"), std::string(".file 1 \"x")}) {
    const absl::Status status = Module::Parse(text).status();
    if (text == "/* unterminated") {
      EXPECT_TRUE(status.ok());  // an empty module
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("PTX line "));
  }
}

TEST(ParseTest, RegistersAndLabelsAreScoped) {
  const Module module = MustParse(
      ".version 9.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry k(.param .u64 a, .param .u64 c)\n{\n"
      ".reg .b32 %r<4>; .reg .b64 %rd<3>;\n"
      "ld.param.u64 %rd1, [c];\n"
      "mov.u32 %r1, 1; mov.u32 %r2, 0;\n"
      "{ .reg .b32 %r1; .reg .pred p; mov.u32 %r1, 5;\n"
      "again: add.u32 %r2, %r2, %r1; sub.u32 %r1, %r1, 1;\n"
      "setp.ne.u32 p, %r1, 0; @p bra again; }\n"
      "{ .reg .pred p; .reg .b32 x; mov.u32 x, 3;\n"
      "again: add.u32 %r2, %r2, 100; sub.u32 x, x, 1;\n"
      "setp.ne.u32 p, x, 0; @p bra again; }\n"
      "mad.lo.u32 %r2, %r1, 1000, %r2;\n"
      "st.global.u32 [%rd1], %r2;\n"
      "}\n");  // runs off the end: an implicit return
  std::vector<int32_t> a(1), c(1);
  const auto stats = RunPlan(module, PlanFor("k", {1, 1, 1}, {1, 1, 1}), a, c);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(c[0], 1000 + 300 + 15);
}

}  // namespace
}  // namespace hone::emulator
