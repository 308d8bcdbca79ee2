// Compiling asynchronous cases, running them on the emulator and comparing.
#ifndef HONE_TESTS_KERNELS_EMULATOR_CASES_ASYNC_RUNNER_H_
#define HONE_TESTS_KERNELS_EMULATOR_CASES_ASYNC_RUNNER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/emulator/emulator.h"
#include "kernels/jit/nvrtc.h"
#include "tests/kernels/emulator/cases/async_case.h"
#include "tests/kernels/emulator/cases/case_runner.h"

namespace hone::emulator {

// The cases' sources, each once, compiled for `arch` on all cores; by source.
std::map<std::string, CompiledUnit> CompileAsyncSources(
    const Nvrtc& nvrtc, const std::vector<AsyncCase>& cases,
    const std::string& arch);

// What the case leaves in kC.
absl::StatusOr<std::vector<uint8_t>> EmulateAsyncCase(const AsyncCase& c,
                                                      const Module& module,
                                                      const Options& options);

// As CompareResults: equal, or within the bound where the case has one.
Difference CompareOutputs(const AsyncCase& c, const std::vector<uint8_t>& got,
                          const std::vector<uint8_t>& want, double bound);

// CaseVector::outputs of an asynchronous case: the words of an output that is
// compared within a bound, the SHA-256 of an exact one.
std::vector<uint32_t> KeptOutputs(const AsyncCase& c,
                                  const std::vector<uint8_t>& output);

}  // namespace hone::emulator

#endif  // HONE_TESTS_KERNELS_EMULATOR_CASES_ASYNC_RUNNER_H_
