// Every instruction case, compiled by NVRTC for the lowest architecture that
// has the instruction and run on the emulator.
#include "tests/kernels/emulator/cases/instruction_case.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/jit/nvrtc.h"

namespace hone::emulator {
namespace {

constexpr int kRounds = 4;
constexpr uint64_t kSeed = 7;

// One translation unit: every call of NVRTC has its price.
struct Batch {
  std::string arch;
  std::vector<const InstructionCase*> cases;
  std::vector<std::string> errors;  // per case
};

std::string KernelName(size_t i) { return absl::StrCat("k", i); }

std::string RunCase(const InstructionCase& c, const Module& module,
                    const std::string& name) {
  const std::vector<uint32_t> inputs = CaseInputs(c, kSeed, kRounds);
  const auto got = EmulateCase(c, module, name, inputs, kRounds, kSeed);
  if (!got.ok()) return std::string(got.status().message());
  return CompareResults(c, *got, CaseExpectation(c, inputs), c.emulator_bound)
      .first;
}

void RunBatch(const Nvrtc& nvrtc, Batch* batch) {
  CompileRequest request;
  request.arch = batch->arch;
  for (size_t i = 0; i < batch->cases.size(); ++i) {
    request.source += CaseSource(*batch->cases[i], KernelName(i));
  }
  const auto compiled = nvrtc.Compile(request);
  const auto fail = [&](const std::string& error) {
    batch->errors.assign(batch->cases.size(), error);
  };
  if (!compiled.ok()) return fail(std::string(compiled.status().message()));
  if (!compiled->ok()) return fail(compiled->log);
  const auto module = Module::Parse(compiled->ptx);
  if (!module.ok()) return fail(std::string(module.status().message()));
  for (size_t i = 0; i < batch->cases.size(); ++i) {
    batch->errors.push_back(RunCase(*batch->cases[i], *module, KernelName(i)));
  }
}

TEST(InstructionCaseTest, TheEmulatorDoesWhatTheIsaSays) {
  const auto nvrtc = Nvrtc::Create(LibrarySearchFromEnvironment(std::getenv));
  ASSERT_TRUE(nvrtc.ok()) << nvrtc.status();
  const std::vector<InstructionCase> cases = AllInstructionCases();
  EXPECT_GT(cases.size(), 200u);
  std::set<std::string> names;
  std::map<std::string, std::vector<const InstructionCase*>> by_arch;
  for (const InstructionCase& c : cases) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    by_arch[c.LowestArch()].push_back(&c);
  }
  constexpr size_t kPerBatch = 24;
  std::vector<Batch> batches;
  for (const auto& [arch, of_arch] : by_arch) {
    for (size_t at = 0; at < of_arch.size(); at += kPerBatch) {
      const size_t end = std::min(at + kPerBatch, of_arch.size());
      batches.push_back(
          {arch, {of_arch.begin() + at, of_arch.begin() + end}, {}});
    }
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < batches.size(); i = next++) {
      RunBatch(**nvrtc, &batches[i]);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) thread.join();
  for (const Batch& batch : batches) {
    for (size_t i = 0; i < batch.cases.size(); ++i) {
      EXPECT_EQ(batch.errors[i], "")
          << batch.cases[i]->name << " for " << batch.arch;
    }
  }
}

}  // namespace
}  // namespace hone::emulator
