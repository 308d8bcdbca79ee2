// Every instruction case, compiled by NVRTC for the lowest architecture that
// has the instruction and run on the emulator; and what hardware once said, in
// vectors/.
#include "tests/kernels/emulator/cases/instruction_case.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/jit/nvrtc.h"
#include "tests/kernels/emulator/cases/case_runner.h"

namespace hone::emulator {
namespace {

constexpr int kRounds = 4;
constexpr uint64_t kSeed = 7;

const Nvrtc& SharedNvrtc() {
  static const auto* nvrtc = [] {
    auto loaded = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
    if (!loaded.ok()) ADD_FAILURE() << loaded.status();
    return new std::shared_ptr<const Nvrtc>(*std::move(loaded));
  }();
  return **nvrtc;
}

TEST(InstructionCaseTest, TheEmulatorDoesWhatTheIsaSays) {
  const std::vector<InstructionCase> cases = AllInstructionCases();
  EXPECT_GT(cases.size(), 200u);
  std::set<std::string> names;
  std::vector<const InstructionCase*> pointers;
  for (const InstructionCase& c : cases) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    pointers.push_back(&c);
  }
  for (const CompiledCase& compiled :
       CompileCases(SharedNvrtc(), pointers,
                    [](const InstructionCase& c) { return c.LowestArch(); })) {
    const InstructionCase& c = *compiled.instruction;
    SCOPED_TRACE(c.name + " for " + c.LowestArch());
    ASSERT_TRUE(compiled.unit->status.ok()) << compiled.unit->status;
    const std::vector<uint32_t> inputs = CaseInputs(c, kSeed, kRounds);
    const auto got = EmulateCase(c, *compiled.unit->module, compiled.kernel,
                                 inputs, kRounds, kSeed);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(
        CompareResults(c, *got, CaseExpectation(c, inputs), c.emulator_bound)
            .first,
        "");
  }
}

TEST(InstructionCaseTest, ComparisonsNoticeOneWrongBit) {
  for (const InstructionCase& c : AllInstructionCases()) {
    const std::vector<uint32_t> inputs = CaseInputs(c, kSeed, 1);
    const CaseResult want = CaseExpectation(c, inputs);
    EXPECT_TRUE(CompareResults(c, want.words, want, c.device_bound).same);
    std::vector<uint32_t> got = want.words;
    // The sign of the last element, which is a number in every case; of floats
    // that might be 0, the exponent too.
    const size_t at = got.size() - 1;
    got[at] ^= c.compare == Compare::kBits ? 1u : 0x40000000u;
    EXPECT_FALSE(CompareResults(c, got, want, c.device_bound).same) << c.name;
    EXPECT_FALSE(CompareResults(c, {}, want, c.device_bound).same) << c.name;
  }
}

TEST(VectorFileTest, ReadsBackWhatItWrites) {
  VectorFile file;
  file.header = {"sm_90a", "a device", "13.0", 7, 4};
  file.cases = {{"mma", "same", 0x1p-24, 0x1p-20, {0, 0xffffffff, 0x1234}},
                {"ldmatrix", "skipped", 0, 0, {}}};
  const std::string text = WriteVectors(file);
  const auto read = ReadVectors(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(WriteVectors(*read), text);
  EXPECT_EQ(read->cases[0].outputs, file.cases[0].outputs);
  EXPECT_EQ(read->cases[1].status, "skipped");
  EXPECT_FALSE(ReadVectors("").ok());
}

// What a GPU returned, the emulator returns today, within the same bounds.
TEST(VectorFileTest, TheEmulatorAgreesWithRecordedHardware) {
  const std::vector<InstructionCase> cases = AllInstructionCases();
  for (const auto& entry :
       std::filesystem::directory_iterator(HONE_EMULATOR_VECTORS)) {
    if (entry.path().extension() != ".jsonl") continue;
    SCOPED_TRACE(entry.path().filename().string());
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const auto file = ReadVectors(text.str());
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<const InstructionCase*> recorded;
    std::vector<const CaseVector*> vectors;
    for (const CaseVector& vector : file->cases) {
      if (vector.status != "same") continue;
      const auto it = std::find_if(
          cases.begin(), cases.end(),
          [&](const InstructionCase& c) { return c.name == vector.name; });
      ASSERT_NE(it, cases.end()) << vector.name;
      recorded.push_back(&*it);
      vectors.push_back(&vector);
    }
    const int rounds = static_cast<int>(file->header.rounds);
    const uint64_t seed = static_cast<uint64_t>(file->header.seed);
    const auto compiled =
        CompileCases(SharedNvrtc(), recorded,
                     [&](const InstructionCase&) { return file->header.arch; });
    for (size_t i = 0; i < recorded.size(); ++i) {
      const InstructionCase& c = *recorded[i];
      SCOPED_TRACE(c.name);
      ASSERT_TRUE(compiled[i].unit->status.ok()) << compiled[i].unit->status;
      const std::vector<uint32_t> inputs = CaseInputs(c, seed, rounds);
      const auto got = EmulateCase(c, *compiled[i].unit->module,
                                   compiled[i].kernel, inputs, rounds, seed);
      ASSERT_TRUE(got.ok()) << got.status();
      CaseResult want = CaseExpectation(c, inputs);
      want.words = vectors[i]->outputs;
      EXPECT_EQ(CompareResults(c, *got, want, c.device_bound).first, "");
    }
  }
}

}  // namespace
}  // namespace hone::emulator
