// Compiling instruction cases, many to a translation unit, and the files of
// vectors that hone-emulator-vectors writes.
#ifndef HONE_TESTS_KERNELS_EMULATOR_CASES_CASE_RUNNER_H_
#define HONE_TESTS_KERNELS_EMULATOR_CASES_CASE_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/emulator/emulator.h"
#include "kernels/jit/nvrtc.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

namespace hone::emulator {

struct CompiledUnit {
  absl::Status status;
  std::string cubin;
  std::optional<Module> module;  // of the same PTX
};

struct CompiledCase {
  const InstructionCase* instruction = nullptr;
  std::string kernel;
  std::shared_ptr<const CompiledUnit> unit;
};

// Compiles each case for the architecture that `arch` gives, on all cores. In
// the order of `cases`, which must outlive the result.
std::vector<CompiledCase> CompileCases(
    const Nvrtc& nvrtc, const std::vector<const InstructionCase*>& cases,
    const std::function<std::string(const InstructionCase&)>& arch);

// A file of vectors: one JSON object per line, first the header.
struct VectorHeader {
  std::string arch;    // "sm_90a"
  std::string device;  // its name
  std::string nvrtc;   // version
  int64_t seed = 0;
  int64_t rounds = 0;
};
struct CaseVector {
  std::string name;
  // "same": hardware and emulator agree as the case asks; "differs"; or
  // "skipped": the architecture lacks the instruction.
  std::string status;
  // Greatest error of hardware against the emulator, relative to the case's
  // magnitude, and what is allowed; 0 where results must be equal.
  double max_error = 0;
  double bound = 0;
  std::vector<uint32_t> outputs;  // of the hardware
};
struct VectorFile {
  VectorHeader header;
  std::vector<CaseVector> cases;
};
std::string WriteVectors(const VectorFile& file);
absl::StatusOr<VectorFile> ReadVectors(absl::string_view text);

}  // namespace hone::emulator

#endif  // HONE_TESTS_KERNELS_EMULATOR_CASES_CASE_RUNNER_H_
